"""The cheapest tier that holds a configuration with room to spare, by the real memory estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from lib import estimate
from lib import precision as formats
from lib.advisor.candidates import Candidate
from lib.advisor.room import room
from lib.advisor.speed import machine, read_parameters, speed
from lib.advisor.tasks import Family, family_of, task_of
from lib.cost import cost
from lib.estimate import MemoryEstimate
from lib.laws.decode_floor import step_seconds
from lib.offer import Offer
from lib.savings.case import Case, Gain
from lib.units import Bytes
from lib.workload import MemoryRequest

PACKED_KERNELS = frozenset({"vllm", "llama.cpp", "vllm-tpu"})
"""Engines whose kernels read packed weights; formats inside transformers are unpacked first and gain no speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """An offer with the configuration in it, and what the month costs."""

    offer: Offer
    request: MemoryRequest
    memory: MemoryEstimate
    usd_per_month: Decimal


def family(case: Case) -> Family:
    """The kind of work that the model does."""
    return family_of(task_of("auto", case.spec))


def tier(case: Case, offer: Offer, request: MemoryRequest) -> Tier | None:
    """The configuration on this offer, spread over its cards; `None` when it does not fit with room to spare."""
    held = estimate.capacity(offer)
    if held is None or not _computes(offer, request):
        return None
    spread = replace(request, devices=devices_used(case, offer, request))
    memory = estimate.memory(case.spec, spread, offer.silicon or offer.host_cpu)
    if not room(memory, held, family(case)).comfortable:
        return None
    return Tier(offer=offer, request=spread, memory=memory, usd_per_month=bill(case, offer, spread))


def devices_used(case: Case, offer: Offer, request: MemoryRequest) -> int:
    """As many cards as there are; vLLM takes as many as divide the heads evenly (those of a bare count are only typical)."""
    count, heads = max(1, offer.accelerator_count), case.spec.dimensions.attention_heads
    if not request.engine.startswith("vllm") or heads == 0 or case.spec.source == "rule_of_thumb":
        return count
    return max(n for n in range(1, count + 1) if heads % n == 0)


def bill(case: Case, offer: Offer, request: MemoryRequest) -> Decimal:
    """What the month costs on an offer, at the case's use."""
    return cost(offer, case.usage, case.catalog.rules, speed=case.paced(offer, request)).total_usd_per_month


def cheapest(case: Case, request: MemoryRequest) -> Tier | None:
    """The cheapest tier with an accelerator on the same platform that holds it."""
    offers = [offer for offer in case.catalog.on((case.offer.platform,)) if offer.silicon is not None and offer.usd_per_hour]
    found = [one for one in (tier(case, offer, request) for offer in offers) if one is not None]
    return min(found, key=lambda one: (one.usd_per_month, one.offer.accelerator_count, one.offer.id), default=None)


def _computes(offer: Offer, request: MemoryRequest) -> bool:
    """Whether the silicon runs the format at all; accelerators that are no GPU need an engine of their own, which is not changed here."""
    if offer.silicon is None:
        return False
    if request.engine == "vllm-tpu":
        return offer.silicon.kind == "tpu"
    if offer.silicon.kind != "gpu" or (request.precision.startswith("fp8") and not offer.silicon.supports("fp8")):
        return False
    return (
        request.precision == "auto"
        or formats.support(formats.weight_format(request.precision, request.engine).name, offer.silicon) != "missing"
    )


def rate(case: Case, offer: Offer, request: MemoryRequest) -> float | None:
    """Tokens per second of one request that the datasheet allows at most."""
    memory = estimate.memory(case.spec, request, offer.silicon or offer.host_cpu)
    on = machine(offer, Candidate(precision=memory.precision, engine=request.engine, devices=request.devices), memory.precision, ())
    return speed(case.spec, family(case), memory, on, request.batch_size).decode_tokens_per_s_upper_bound


def gain(case: Case, before: MemoryRequest, after: MemoryRequest, offer: Offer) -> tuple[Gain, bool]:
    """What a smaller format does for speed on this offer, and whether its silicon multiplies in it natively.

    Bound by compute when 2·P·B/φ exceeds the time to read weights and cache, both from the datasheet, in today's format.
    """
    silicon = offer.silicon
    native = silicon is not None and formats.support(formats.weight_format(after.precision, after.engine).name, silicon) == "native"
    if _compute_bound(case, before, offer):
        return ("compute" if native else "memory_only"), native
    return ("bandwidth" if after.engine in PACKED_KERNELS else "memory_only"), native


def _compute_bound(case: Case, request: MemoryRequest, offer: Offer) -> bool:
    memory = estimate.memory(case.spec, request, offer.silicon)
    on = machine(offer, Candidate(precision=memory.precision, engine=request.engine, devices=request.devices), memory.precision, ())
    if on is None or on.peak is None:
        return False
    step = partial(
        step_seconds,
        weight_bytes=Bytes(memory.weights.bytes),
        cache_bytes=Bytes(memory.kv_cache.bytes // request.batch_size),
        bandwidth=on.bandwidth,
        active_parameters=read_parameters(case.spec),
        batch=request.batch_size,
    )
    return step(peak=on.peak) > step()
