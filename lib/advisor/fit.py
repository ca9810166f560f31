"""Which configurations an offer holds, in memory and on disk.

What is the same for all offers of one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lib.advisor.candidates import Candidate, options
from lib.advisor.headroom import Room, room
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
class Model:
    """The model that the hardware runs. `memory` remembers its answers between offers; `stored_bytes` is the size of the download."""

    spec: ModelSpec
    stored_bytes: int
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that is the same for all offers; `model` is `None` when the Space runs none itself, `shape` the request that is timed."""

    model: Model | None
    family: Family
    workload: Workload
    context_tokens: int
    shape: SpeedRequest
    sdk: str
    rules: PlatformRules
    cpus: tuple[Accelerator, ...]
    accelerators: Mapping[str, Accelerator]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A configuration that fits, with the room it leaves."""

    candidate: Candidate
    room: Room


@dataclass(frozen=True, slots=True)
class Fits:
    """The configurations that fit, best first, and why there is none when there is none."""

    fits: tuple[Fit, ...]
    otherwise: Reason


def fitting(offer: Offer, case: Case, model: Model) -> Fits | Reason:
    """What fits; where nothing can be too slow, no further than the first with room to spare."""
    held = usable_memory(offer)
    if held is None:
        return Reason("memory_unknown")
    found = options(model.spec, case.family, offer, case.workload.precision)
    timed = offer.silicon is None or case.workload.min_tokens_per_s > 0
    held_by: list[Fit] = []
    small: tuple[int, Reason] | None = None
    for candidate in found.tried:
        left = room(model.memory(_request(candidate, case), offer.silicon or offer.host_cpu), held, case.family)
        short = _shortage(offer, model, candidate, left)
        if short is None:
            held_by.append(Fit(candidate=candidate, room=left))
            if left.comfortable and not timed:
                break
        elif small is None or short[0] < small[0]:
            small = short
    nothing = found.refused or Reason("no_engine", {"silicon": offer.name, "family": case.family})
    return Fits(tuple(held_by), nothing if small is None else small[1])


def _request(candidate: Candidate, case: Case) -> MemoryRequest:
    return MemoryRequest(
        precision=candidate.precision,
        engine=candidate.engine,
        context_tokens=case.context_tokens,
        batch_size=case.workload.concurrency,
        devices=candidate.devices,
    )


def _shortage(offer: Offer, model: Model, candidate: Candidate, left: Room) -> tuple[int, Reason] | None:
    """How many bytes are missing, and of what; a disk that is too small only counts where memory would do."""
    if not left.fits:
        values: dict[str, Value] = {
            "needed_bytes": left.needed_bytes,
            "capacity_bytes": left.capacity_bytes,
            "precision": left.memory.precision,
            "devices": candidate.devices,
        }
        return -left.free_bytes, Reason("too_small", values)
    download = left.memory.weights.bytes if candidate.engine == "llama.cpp" else model.stored_bytes
    if offer.disk_bytes is not None and download > offer.disk_bytes:
        return 0, Reason("disk_too_small", {"download_bytes": download, "disk_bytes": offer.disk_bytes})
    return None
