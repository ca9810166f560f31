"""Every way, tried on the case. Each re-runs the estimate of memory and the bill; none is a percentage of anything.

What is run today, and what a way to save is.

The cheapest tier that holds a configuration with room to spare, by the real memory estimate.

Ways to save: each one worked out for the visitor's own case with the real estimates, ranked by USD per month.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

from lib import precision as formats
from lib.advisor.candidates import Candidate
from lib.advisor.headroom import measure_headroom
from lib.advisor.speed import bound_speed, count_decode_parameters, find_roofline
from lib.advisor.tasks import Family, family_of, task_of
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost import TokenPrice, Usage, cost, per_token
from lib.cost.zerogpu import zerogpu_use
from lib.laws.roofline import decode_floor
from lib.memory import MemoryEstimate, estimate_memory, tensor_parallel_degree, usable_memory
from lib.model.spec import ModelSpec
from lib.speed import SpeedEstimate
from lib.workload import MemoryRequest

Gain = Literal["compute", "bandwidth", "memory_only"]
Code = Literal[
    "provider", "zerogpu", "cheaper_tier", "l4_over_a10g", "fp8", "int8", "int4", "shorter_context", "smaller_batch", "cache_precision",
    "sleep", "development_tier",
]  # fmt: skip
Predict = Callable[[ModelSpec, Offer, MemoryRequest, Usage], SpeedEstimate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The visitor's case: this model, so configured, on this offer, so used.

    `price` is what a provider asks per token, where known; `speed` estimates how fast an offer runs the model.
    `development_hours_per_month` is how long one works on the Space rather than serves from it; 40, a working week, is an assumption.
    """

    spec: ModelSpec
    offer: Offer
    request: MemoryRequest
    usage: Usage
    catalog: Catalog
    price: TokenPrice | None = None
    speed: Predict | None = None
    development_hours_per_month: Decimal = Decimal(40)

    def predict(self, offer: Offer, request: MemoryRequest) -> SpeedEstimate | None:
        """How fast an offer runs it; `None` where that is not predicted."""
        return None if self.speed is None else self.speed(self.spec, offer, request, self.usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to save. `offer` and `request` are the configuration afterwards (`None` for a provider).

    `gain` says what a smaller number format does for speed: `compute` (the card multiplies it natively, and this work is bound by
    compute), `bandwidth` (bound by memory traffic, and the engine reads the packed weights), or `memory_only`. `speed_ratio` compares the
    tokens per second that the datasheets allow at most, after / before; `None` where no tokens are made.
    """

    code: Code
    usd_per_month_before: Decimal
    usd_per_month: Decimal
    offer: Offer | None = None
    request: MemoryRequest | None = None
    gain: Gain | None = None
    native: bool | None = None
    speed_ratio: float | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def saves_usd_per_month(self) -> Decimal:
        """What it saves each month."""
        return self.usd_per_month_before - self.usd_per_month


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWay:
    """A way that saves nothing here, and why: a stable code, with the configuration that was tried where there is one."""

    code: Code
    reason: str
    gain: Gain | None = None
    freed_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """Ways by what they save, most first, and those that save nothing. They are alternatives: their savings do not add up."""

    usd_per_month: Decimal
    ways: tuple[Way, ...]
    others: tuple[NoWay, ...]


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
    held = usable_memory(offer)
    if held is None or not _computes(offer, request):
        return None
    spread = replace(request, devices=devices_used(case, offer, request))
    memory = estimate_memory(case.spec, spread, offer.silicon or offer.host_cpu)
    if not measure_headroom(memory, held, family(case)).comfortable:
        return None
    return Tier(offer=offer, request=spread, memory=memory, usd_per_month=bill(case, offer, spread))


def devices_used(case: Case, offer: Offer, request: MemoryRequest) -> int:
    """As many cards as there are; vLLM takes as many as it can split the model over."""
    count = max(1, offer.accelerator_count)
    return tensor_parallel_degree(case.spec, count) if request.engine.startswith("vllm") else count


def bill(case: Case, offer: Offer, request: MemoryRequest) -> Decimal:
    """What the month costs on an offer, at the case's use."""
    return cost(offer, case.usage, case.catalog.rules, speed=case.predict(offer, request)).total_usd_per_month


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
    memory = estimate_memory(case.spec, request, offer.silicon or offer.host_cpu)
    on = find_roofline(offer, Candidate(precision=memory.precision, engine=request.engine, devices=request.devices), memory.precision, ())
    return bound_speed(case.spec, family(case), memory, on, request.batch_size).decode_tokens_per_s_upper_bound


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
    memory = estimate_memory(case.spec, request, offer.silicon)
    on = find_roofline(offer, Candidate(precision=memory.precision, engine=request.engine, devices=request.devices), memory.precision, ())
    if on is None or on.peak is None:
        return False
    least = decode_floor(
        weight_bytes=memory.weights.bytes,
        cache_bytes=memory.kv_cache.bytes // request.batch_size,
        bandwidth=on.bandwidth,
        active_parameters=count_decode_parameters(case.spec),
        batch=request.batch_size,
        peak=on.peak,
    )
    return least.bound == "compute"


SLEEP_S = (Decimal(900), Decimal(300))
"""Sleep times that are tried: a quarter of an hour, and five minutes where it is set to less than that already."""
FORMATS: tuple[Code, ...] = ("fp8", "int8", "int4")

Found = Way | NoWay


def ways_to_save(case: Case) -> Savings:
    """All ways, those that save first. Today's configuration is spread over the cards of its offer.

    Raises:
        UnknownHardware: today's offer has no price.
        BadArgument: a precision that no format has.
    """
    case = replace(case, request=replace(case.request, devices=devices_used(case, case.offer, case.request)))
    now = bill(case, case.offer, case.request)
    found = [one for try_out in _TRIED for one in try_out(case, now)]
    ways = [one for one in found if isinstance(one, Way)]
    return Savings(
        usd_per_month=now,
        ways=tuple(sorted(ways, key=lambda way: (-way.saves_usd_per_month, way.code))),
        others=tuple(one for one in found if isinstance(one, NoWay)),
    )


def _provider(case: Case, now: Decimal) -> Iterator[Found]:
    if case.price is None:
        yield NoWay(code="provider", reason="price_unknown")
    elif case.usage.requests_per_day <= 0:
        yield NoWay(code="provider", reason="traffic_not_stated")
    else:
        tokens = per_token(case.price, case.usage, case.catalog.rules.providers)
        kept = cost(case.offer, case.usage, case.catalog.rules).storage_usd_per_month
        inputs = {"provider": case.price.provider, "requests": f"{case.usage.requests_per_month:f}"}
        yield _if_less("provider", now, tokens.total_usd_per_month + kept, inputs=inputs)


def _zerogpu(case: Case, now: Decimal) -> Iterator[Found]:
    rules = case.catalog.rules.zerogpu
    if case.offer.platform != "spaces" or rules.max_spaces[case.usage.account] == 0:
        yield NoWay(code="zerogpu", reason="not_for_this_account" if case.offer.platform == "spaces" else "not_on_this_platform")
        return
    for offer in case.catalog.on(("zerogpu",)):
        held = tier(case, offer, replace(case.request, engine="transformers"))
        if held is None:
            continue
        used = zerogpu_use(offer, case.usage, rules, case.predict(offer, held.request))
        if used.requests_in_quota == 0:
            yield NoWay(code="zerogpu", reason="quota_too_small")
        else:
            inputs = {
                "size": used.size,
                "quota seconds per request": f"{used.quota_s_per_request.normalize():f}",
                "requests per visitor and day": str(used.requests_in_quota),
                "visitors needed": str(used.visitors),
            }
            yield _moved(case, "zerogpu", now, held, inputs)
        return
    yield NoWay(code="zerogpu", reason="does_not_fit")


def _other_tier(case: Case, now: Decimal) -> Iterator[Found]:
    found = cheapest(case, case.request)
    if found is None or found.usd_per_month >= now:
        yield NoWay(code="cheaper_tier", reason="none_holds_it")
        return
    silicon = (case.offer.accelerator, found.offer.accelerator)
    code: Code = "l4_over_a10g" if silicon == ("A10G", "L4") else "cheaper_tier"
    yield _moved(case, code, now, found, {})


def _formats(case: Case, now: Decimal) -> Iterator[Found]:
    today = _memory(case, case.request)
    for code in FORMATS:
        asked = replace(case.request, precision=code)
        smaller = _memory(case, asked)
        if smaller.weights.bytes >= today.weights.bytes:
            yield NoWay(code=code, reason="already_as_small")
            continue
        found = cheapest(case, asked)
        freed = today.per_device_bytes - smaller.per_device_bytes
        if found is None or found.usd_per_month >= now or _without(case, found):
            effect, _ = gain(case, case.request, asked, case.offer)
            yield NoWay(code=code, reason="no_cheaper_tier", gain=effect, freed_bytes=freed)
            continue
        moved = _moved(case, code, now, found, {"precision": found.memory.precision})
        effect, native = gain(case, case.request, found.request, found.offer)
        yield replace(moved, gain=effect, native=native) if isinstance(moved, Way) else moved


def _context(case: Case, now: Decimal) -> Iterator[Found]:
    """The context that the traffic needs, if that is less than what is held, else half of it."""
    held, needed = case.request.context_tokens, case.usage.prompt_tokens + case.usage.output_tokens
    tokens = needed if needed < held else held // 2
    yield _smaller(case, "shorter_context", now, replace(case.request, context_tokens=max(1, tokens)), {"context tokens": str(tokens)})


def _batch(case: Case, now: Decimal) -> Iterator[Found]:
    """The largest of the halved batches that saves; a smaller batch serves fewer requests at once."""
    size = case.request.batch_size
    if size == 1:
        yield NoWay(code="smaller_batch", reason="already_as_small")
        return
    found: Found = NoWay(code="smaller_batch", reason="no_cheaper_tier")
    while size > 1 and isinstance(found, NoWay):
        size //= 2
        found = _smaller(case, "smaller_batch", now, replace(case.request, batch_size=size), {"batch": str(size)})
    yield found


def _cache(case: Case, now: Decimal) -> Iterator[Found]:
    """fp8 in vLLM, eight bits elsewhere."""
    name = "fp8" if case.request.engine.startswith("vllm") else "int8"
    smaller = replace(case.request, kv_precision=name)
    if _memory(case, smaller).kv_cache.bytes >= _memory(case, case.request).kv_cache.bytes:
        yield NoWay(code="cache_precision", reason="already_as_small")
        return
    yield _smaller(case, "cache_precision", now, smaller, {"cache": name})


def _sleep(case: Case, now: Decimal) -> Iterator[Found]:
    if case.usage.requests_per_day <= 0:
        yield NoWay(code="sleep", reason="traffic_not_stated")
        return
    if case.offer.platform not in {"spaces", "endpoints"}:
        yield NoWay(code="sleep", reason="not_on_this_platform")
        return
    current = case.usage.sleep_after_s
    after = next((s for s in SLEEP_S if current == 0 or s < current), None)
    if after is None:
        yield NoWay(code="sleep", reason="already_as_small")
        return
    asleep = cost(case.offer, replace(case.usage, sleep_after_s=after), case.catalog.rules, speed=case.predict(case.offer, case.request))
    wakes = "0" if asleep.wakes_per_day is None else f"{asleep.wakes_per_day:.1f}"
    inputs = {"sleep after s": f"{after:f}", "wakes a day": wakes}
    yield _if_less("sleep", now, asleep.total_usd_per_month, offer=case.offer, request=case.request, inputs=inputs)


def _development(case: Case, _now: Decimal) -> Iterator[Found]:
    """While one works on it: four bits, one request, on the cheapest tier that holds that."""
    small = replace(case.request, precision="int4", batch_size=1, context_tokens=min(case.request.context_tokens, _needed(case.usage)))
    found = cheapest(case, small)
    price = case.offer.usd_per_hour
    if found is None or price is None or found.offer.usd_per_hour is None or found.offer.usd_per_hour >= price:
        yield NoWay(code="development_tier", reason="no_cheaper_tier")
        return
    hours = case.development_hours_per_month
    before, after = price * hours, found.offer.usd_per_hour * hours
    inputs = {"hours per month": f"{hours:f}", "precision": found.memory.precision}
    yield _if_less("development_tier", before, after, offer=found.offer, request=found.request, inputs=inputs)


def _needed(usage: Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens


def _smaller(case: Case, code: Code, now: Decimal, request: MemoryRequest, inputs: dict[str, str]) -> Found:
    """The cheapest tier for a smaller request, or how many bytes it frees on today's."""
    found = cheapest(case, request)
    if found is None or found.usd_per_month >= now or _without(case, found):
        freed = _memory(case, case.request).per_device_bytes - _memory(case, request).per_device_bytes
        return NoWay(code=code, reason="no_cheaper_tier", freed_bytes=freed)
    return _moved(case, code, now, found, inputs)


def _without(case: Case, found: Tier) -> bool:
    """Whether today's request fits that tier as it is: then the change itself saves nothing."""
    return tier(case, found.offer, case.request) is not None


def _memory(case: Case, request: MemoryRequest) -> MemoryEstimate:
    return estimate_memory(case.spec, request, case.offer.silicon or case.offer.host_cpu)


def _moved(case: Case, code: Code, now: Decimal, found: Tier, inputs: dict[str, str]) -> Found:
    before, after = rate(case, case.offer, case.request), rate(case, found.offer, found.request)
    ratio = after / before if before and after else None
    way = _if_less(code, now, found.usd_per_month, offer=found.offer, request=found.request, inputs=inputs)
    return replace(way, speed_ratio=ratio) if isinstance(way, Way) else way


def _if_less(
    code: Code,
    before: Decimal,
    after: Decimal,
    *,
    offer: Offer | None = None,
    request: MemoryRequest | None = None,
    inputs: dict[str, str] | None = None,
) -> Found:
    if after >= before:
        return NoWay(code=code, reason="costs_as_much")
    return Way(code=code, usd_per_month_before=before, usd_per_month=after, offer=offer, request=request, inputs=inputs or {})


_TRIED: tuple[Callable[[Case, Decimal], Iterator[Found]], ...] = (
    _provider,
    _zerogpu,
    _other_tier,
    _formats,
    _context,
    _batch,
    _cache,
    _sleep,
    _development,
)
