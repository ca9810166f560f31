"""Which configurations fit an offer, in memory and on disk, and how much memory each leaves free on the fullest device.

The best configurations come first (`lib.advisor.candidates`). A disk that is too small is the reason only where the memory would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lib.advisor.candidates import Candidate, Family, list_candidates
from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules
from lib.catalog.silicon import Accelerator
from lib.engines import traits_of
from lib.memory import MemoryEstimate, usable_memory
from lib.model.spec import ModelSpec
from lib.provenance import Reason, Value
from lib.speed import SpeedRequest
from lib.units import GIB
from lib.workload import MemoryRequest, Workload

COMFORT = 0.10
"""Share of a device that stays free in a comfortable fit: fragmentation of the allocator, longer prompts, other libraries."""

# Peak beyond the weights of pipelines that draw, where the estimate has no trace of them: decoding the picture dominates.
# CogVideoX 2b and 5b, bf16 and int8, 49 frames of 480 x 720 on A100: 24.53 - 12.55, 31.75 - 19.76, 22.29 - 10.30 = 12.0 GiB each.
# FLUX.1-dev bf16, 1024 px on H100: 36.17 GiB less 31.42 GiB of weights; the largest of the published pipelines for pictures.
# github.com/sayakpaul/diffusers-torchao at 9b9f238 (2024-09)
WORKING_BYTES = {"video": 12 * GIB, "image": int(4.75 * GIB)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Memory of a configuration against the capacity of one device; `working_bytes` were added for the pipeline."""

    memory: MemoryEstimate
    needed_bytes: int
    capacity_bytes: int
    working_bytes: int

    @property
    def free_bytes(self) -> int:
        """Bytes that stay free on the fullest device; negative when it does not fit."""
        return self.capacity_bytes - self.needed_bytes

    @property
    def fits(self) -> bool:
        """Whether it fits at all."""
        return self.free_bytes >= 0

    @property
    def comfortable(self) -> bool:
        """Whether a tenth stays free, and even the high end of the estimate fits."""
        high = self.needed_bytes * self.memory.high_bytes / max(1, self.memory.total_bytes)
        return self.free_bytes >= COMFORT * self.capacity_bytes and high <= self.capacity_bytes


def measure_headroom(memory: MemoryEstimate, capacity_bytes: int, family: Family) -> Headroom:
    """The headroom of this estimate on a device of which this much is usable; an engine may fill only the share that it claims."""
    working = max(0, WORKING_BYTES.get(family, 0) - memory.activation.bytes)
    may_fill = memory.claim.capacity_bytes(capacity_bytes)
    return Headroom(memory=memory, needed_bytes=memory.per_device_bytes + working, capacity_bytes=may_fill, working_bytes=working)


Memory = Callable[[MemoryRequest, Accelerator | None], MemoryEstimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedModel:
    """The model that the hardware runs. `memory` remembers its answers between offers; `stored_bytes` is the size of the download."""

    spec: ModelSpec
    stored_bytes: int
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The requirements that every offer of one answer is checked against.

    `model` is `None` when the Space runs none itself; `speed_request` is the shape of the request whose speed is predicted.
    """

    model: HostedModel | None
    family: Family
    workload: Workload
    context_tokens: int
    speed_request: SpeedRequest
    sdk: str
    rules: PlatformRules
    cpus: tuple[Accelerator, ...]
    accelerators: Mapping[str, Accelerator]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A configuration that fits an offer, with the memory it leaves free."""

    candidate: Candidate
    headroom: Headroom


@dataclass(frozen=True, slots=True)
class Placements:
    """The configurations that fit, best first; `obstacle` is the reason where there is none."""

    fitting: tuple[Placement, ...]
    obstacle: Reason


def place_model(offer: Offer, requirements: Requirements, model: HostedModel) -> Placements | Reason:
    """The placements that fit; where none can be too slow, the search ends at the first comfortable fit."""
    capacity = usable_memory(offer)
    if capacity is None:
        return Reason("memory_unknown")
    candidates = list_candidates(model.spec, requirements.family, offer, requirements.workload.precision)
    timed = offer.silicon is None or requirements.workload.min_tokens_per_s > 0
    fitting: list[Placement] = []
    least_short: tuple[int, Reason] | None = None
    for candidate in candidates.tried:
        memory = model.memory(_memory_request(candidate, requirements), offer.silicon or offer.host_cpu)
        headroom = measure_headroom(memory, capacity, requirements.family)
        shortage = _find_shortage(offer, model, candidate, headroom)
        if shortage is None:
            fitting.append(Placement(candidate=candidate, headroom=headroom))
            if headroom.comfortable and not timed:
                break
        elif least_short is None or shortage[0] < least_short[0]:
            least_short = shortage
    no_engine = candidates.refused or Reason("no_engine", {"silicon": offer.name, "family": requirements.family})
    return Placements(tuple(fitting), no_engine if least_short is None else least_short[1])


def _memory_request(candidate: Candidate, requirements: Requirements) -> MemoryRequest:
    return MemoryRequest(
        precision=candidate.precision,
        engine=candidate.engine,
        context_tokens=requirements.context_tokens,
        batch_size=requirements.workload.concurrency,
        devices=candidate.devices,
    )


def _find_shortage(offer: Offer, model: HostedModel, candidate: Candidate, headroom: Headroom) -> tuple[int, Reason] | None:
    """How many bytes are missing, and of what; a disk that is too small only counts where memory would do."""
    if not headroom.fits:
        values: dict[str, Value] = {
            "needed_bytes": headroom.needed_bytes,
            "capacity_bytes": headroom.capacity_bytes,
            "precision": headroom.memory.precision,
            "devices": candidate.devices,
        }
        return -headroom.free_bytes, Reason("too_small", values)
    download = headroom.memory.weights.bytes if traits_of(candidate.engine).own_files else model.stored_bytes
    if offer.disk_bytes is not None and download > offer.disk_bytes:
        return 0, Reason("disk_too_small", {"download_bytes": download, "disk_bytes": offer.disk_bytes})
    return None
