"""Which configurations an offer holds in memory and on disk, and what the offers of one answer are held against.

The best configurations come first (`lib.advisor.candidates`). Memory is that of the fullest device (`lib.advisor.headroom`); a disk that
is too small is the reason only where the memory would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lib.advisor.candidates import Candidate, list_candidates
from lib.advisor.headroom import Headroom, measure_headroom
from lib.advisor.tasks import Family
from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules
from lib.catalog.silicon import Accelerator
from lib.memory import MemoryEstimate, usable_memory
from lib.model.spec import ModelSpec
from lib.provenance import Reason, Value
from lib.speed import SpeedRequest
from lib.workload import MemoryRequest, Workload

Memory = Callable[[MemoryRequest, Accelerator | None], MemoryEstimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedModel:
    """The model that the hardware runs. `memory` remembers its answers between offers; `stored_bytes` is the size of the download."""

    spec: ModelSpec
    stored_bytes: int
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What every offer of one answer is held against.

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
    """What fits; where nothing can be too slow, no further than the first comfortable fit."""
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
    download = headroom.memory.weights.bytes if candidate.engine == "llama.cpp" else model.stored_bytes
    if offer.disk_bytes is not None and download > offer.disk_bytes:
        return 0, Reason("disk_too_small", {"download_bytes": download, "disk_bytes": offer.disk_bytes})
    return None
