"""Ways to save: each one worked out for the visitor's own deployment, with the real estimates, ranked by USD per month.

Every way is an alternative to what runs today: it runs the estimates again with one thing changed, and is never a percentage of anything.
Other hardware is the cheapest tier with an accelerator on the same platform that holds the configuration with comfortable headroom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

from lib import precision as formats
from lib.advisor.candidates import Candidate, Family, family_of, task_of
from lib.advisor.fit import measure_headroom
from lib.advisor.speed import Roofline, bound_speed, find_roofline
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost import TokenPrice, Usage, bill_offer, bill_tokens
from lib.cost.usage import ADVISED_SLEEP_S, LOADS, SLEEPS, estimate_zerogpu_use, find_best_load
from lib.engines import Engine, traits_of
from lib.laws.forward_pass import decode_floor
from lib.memory import MemoryEstimate, estimate_memory, usable_memory
from lib.memory.spread import spread
from lib.model.spec import ModelSpec
from lib.provenance import Value
from lib.speed import SpeedEstimate
from lib.speed.model_work import count_multiplied
from lib.workload import MemoryRequest

Gain = Literal["compute", "bandwidth", "memory_only"]
Predict = Callable[[ModelSpec, Offer, MemoryRequest, Usage], SpeedEstimate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a visitor runs today: a model in one configuration on one offer, and how it is used.

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

    @property
    def needed_tokens(self) -> int:
        """Tokens of one request of its traffic."""
        return self.usage.prompt_tokens + self.usage.output_tokens

    @property
    def family(self) -> Family:
        """The kind of work that the model does."""
        return family_of(task_of("auto", self.spec))

    def estimate(self, offer: Offer, request: MemoryRequest) -> MemoryEstimate:
        """What a configuration takes on an offer."""
        return estimate_memory(self.spec, request, offer.processor)

    def predict(self, offer: Offer, request: MemoryRequest) -> SpeedEstimate | None:
        """The speed on an offer; `None` where it is not predicted."""
        return None if self.speed is None else self.speed(self.spec, offer, request, self.usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingTier:
    """An offer with the configuration in it, and what the month costs."""

    offer: Offer
    request: MemoryRequest
    memory: MemoryEstimate
    usd_per_month: Decimal


def fit_tier(of: Deployment, offer: Offer, request: MemoryRequest) -> FittingTier | None:
    """The configuration on this offer, spread over its cards; `None` when it does not fit with room to spare."""
    capacity = usable_memory(offer)
    if capacity is None or not can_compute(offer, request):
        return None
    spread = replace(request, devices=count_devices(of, offer, request))
    memory = of.estimate(offer, spread)
    if not measure_headroom(memory, capacity, of.family).comfortable:
        return None
    return FittingTier(offer=offer, request=spread, memory=memory, usd_per_month=price_month(of, offer, spread))


def count_devices(of: Deployment, offer: Offer, request: MemoryRequest) -> int:
    """As many cards as the engine spreads a copy of the model over."""
    return spread(of.spec, request.engine, offer.accelerator_count).devices


def price_month(of: Deployment, offer: Offer, request: MemoryRequest) -> Decimal:
    """USD per month on an offer, at the deployment's use, with as many replicas as serve its traffic."""
    return bill_offer(offer, of.usage, of.catalog.rules, speed=of.predict(offer, request)).serving_usd_per_month


def find_cheapest_tier(of: Deployment, request: MemoryRequest) -> FittingTier | None:
    """The cheapest tier with an accelerator on the same platform that holds it."""
    offers = [offer for offer in of.catalog.on((of.offer.platform,)) if offer.silicon is not None and offer.usd_per_hour]
    tiers = [tier for tier in (fit_tier(of, offer, request) for offer in offers) if tier is not None]
    return min(tiers, key=lambda tier: (tier.usd_per_month, tier.offer.accelerator_count, tier.offer.id), default=None)


def can_compute(offer: Offer, request: MemoryRequest) -> bool:
    """Whether the silicon runs the format. Accelerators that are not GPUs need an engine of their own, which a saving does not change."""
    if offer.silicon is None:
        return False
    if "gpu" not in traits_of(request.engine).silicon:
        return offer.silicon.kind in traits_of(request.engine).silicon
    if offer.silicon.kind != "gpu" or (request.precision.startswith("fp8") and not offer.silicon.supports("fp8")):
        return False
    return (
        request.precision == "auto"
        or formats.check_support(formats.weight_format(request.precision, request.engine).name, offer.silicon) != "missing"
    )


def bound_tokens_per_s(of: Deployment, offer: Offer, request: MemoryRequest) -> float | None:
    """Tokens per second of one request that the datasheet allows at most."""
    memory, on = _find_roofline(of, offer, request)
    return bound_speed(of.spec, of.family, memory, on, request.batch_size).decode_tokens_per_s_upper_bound


def _find_roofline(of: Deployment, offer: Offer, request: MemoryRequest) -> tuple[MemoryEstimate, Roofline | None]:
    memory = of.estimate(offer, request)
    candidate = Candidate(precision=memory.precision, engine=request.engine, devices=request.devices)
    return memory, find_roofline(offer, candidate, memory.precision, ())


def classify_gain(of: Deployment, after: MemoryRequest, offer: Offer) -> tuple[Gain, bool]:
    """What a smaller format does for speed on this offer, and whether its silicon multiplies in it natively.

    Bound by compute when 2·P·B/φ exceeds the time to read weights and cache, both from the datasheet, in today's format.
    """
    silicon, batch = offer.silicon, of.request.batch_size
    native = silicon is not None and formats.check_support(formats.weight_format(after.precision, after.engine).name, silicon) == "native"
    memory, on = _find_roofline(of, offer, of.request)
    if on is not None and on.peak is not None:
        least = decode_floor(
            weight_bytes=memory.weights_bytes,
            cache_bytes=memory.kv_cache_bytes // batch,
            bandwidth=on.bandwidth,
            active_parameters=count_multiplied(of.spec),
            batch=batch,
            peak=on.peak,
        )
        if least.bound == "compute":
            return ("compute" if native else "memory_only"), native
    return ("bandwidth" if traits_of(after.engine).packed_kernels else "memory_only"), native


# Ways to save

Code = Literal[
    "provider", "zerogpu", "more_at_once", "cheaper_tier", "l4_over_a10g", "fp8", "int8", "int4", "shorter_context", "smaller_batch",
    "cache_precision", "sleep", "development_tier",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """One way to save. `offer` and `request` are the configuration afterwards (`None` for a provider).

    `gain` says what a smaller number format does for speed: `compute` (the card multiplies it natively, and this work is bound by
    compute), `bandwidth` (bound by memory traffic, and the engine reads the packed weights), or `memory_only`. `speed_ratio` compares the
    tokens per second of a request, after / before: predicted, or (`ratio_is_bound`) those that the datasheets allow at most; `None` where
    no tokens are made.
    """

    code: Code
    usd_per_month_before: Decimal
    usd_per_month: Decimal
    offer: Offer | None = None
    request: MemoryRequest | None = None
    gain: Gain | None = None
    native: bool | None = None
    speed_ratio: float | None = None
    ratio_is_bound: bool = False
    values: Mapping[str, Value] = field(default_factory=dict)

    @property
    def saves_usd_per_month(self) -> Decimal:
        """USD saved each month."""
        return self.usd_per_month_before - self.usd_per_month

    @property
    def needs(self) -> dict[str, Value]:
        """The settings that it changes, by the names of `/estimate_cost` where that has them."""
        return {setting: self.values[name] for name, setting in SETTINGS.items() if name in self.values}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSaving:
    """A way that saves nothing here, and why: a stable code, with the configuration that was tried where there is one."""

    code: Code
    reason: str
    gain: Gain | None = None
    freed_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsReport:
    """Savings, the largest first, and the ways that save nothing. They are alternatives: their savings do not add up."""

    usd_per_month: Decimal
    savings: tuple[Saving, ...]
    no_savings: tuple[NoSaving, ...]


SETTINGS = {
    "provider": "provider",
    "size": "size",
    "engine": "engine",
    "at_once": "concurrency",
    "batch_size": "concurrency",
    "precision": "precision",
    "kv_precision": "kv_precision",
    "context_tokens": "context_tokens",
    "sleep_after_s": "sleep_after_s",
}
"""Values of a saving that are settings, and what they are called in a call."""
SLEEP_S = (Decimal(ADVISED_SLEEP_S), Decimal(300))
"""Sleep times that are tried: a quarter of an hour, and five minutes where it is set to less than that already."""
BATCHING_ENGINE: Engine = "vllm"
"""The engine that is tried beside today's where one replica does not serve the traffic."""
FORMATS: tuple[Code, ...] = ("fp8", "int8", "int4")

Attempt = Saving | NoSaving


def find_savings(of: Deployment) -> SavingsReport:
    """All ways, those that save first. Today's configuration is spread over the cards of its offer.

    Raises:
        UnknownHardware: today's offer has no price.
        BadArgument: a precision that no format has.
    """
    devices = count_devices(of, of.offer, of.request)
    of = replace(of, request=replace(of.request, devices=devices))
    now = price_month(of, of.offer, of.request)
    attempts = [attempt for try_way in _ATTEMPTS for attempt in try_way(of, now)]
    savings = [attempt for attempt in attempts if isinstance(attempt, Saving)]
    return SavingsReport(
        usd_per_month=now,
        savings=tuple(sorted(savings, key=lambda saving: (-saving.saves_usd_per_month, saving.code))),
        no_savings=tuple(attempt for attempt in attempts if isinstance(attempt, NoSaving)),
    )


def _try_provider(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    if of.price is None or of.usage.requests_per_day <= 0:
        yield NoSaving(code="provider", reason="price_unknown" if of.price is None else "traffic_not_stated")
    else:
        tokens = bill_tokens(of.price, of.usage, of.catalog.rules.providers)
        storage = bill_offer(of.offer, of.usage, of.catalog.rules).storage_usd_per_month
        then, provider, requests = tokens.total_usd_per_month + storage, of.price.provider, of.usage.requests_per_month
        yield _compare_bills("provider", now, then, provider=provider, requests_per_month=requests)


def _try_zerogpu(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    rules = of.catalog.rules.zerogpu
    if of.offer.platform != "spaces" or rules.max_spaces[of.usage.account] == 0:
        yield NoSaving(code="zerogpu", reason="not_for_this_account" if of.offer.platform == "spaces" else "not_on_this_platform")
        return
    for offer in of.catalog.on(("zerogpu",)):
        tier = fit_tier(of, offer, replace(of.request, engine="transformers"))
        if tier is None:
            continue
        use = estimate_zerogpu_use(offer, of.usage, rules, of.predict(offer, tier.request))
        if use.requests_in_quota == 0:
            yield NoSaving(code="zerogpu", reason="quota_too_small")
        else:
            yield _move(
                of, "zerogpu", now, tier, size=use.size, request_quota_s=use.quota_s_per_request,
                requests_per_visitor=use.requests_in_quota, visitors=use.visitors,
            )  # fmt: skip
        return
    yield NoSaving(code="zerogpu", reason="does_not_fit")


def _try_more_at_once(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    """Fewer replicas by serving several requests at a time: the load that makes a token cheapest, with this engine or with vLLM."""
    offer, request, usage = of.offer, of.request, of.usage
    capacity = bill_offer(offer, usage, of.catalog.rules, speed=of.predict(offer, request)).capacity
    if capacity is None or capacity.replicas_needed == 1:
        yield NoSaving(code="more_at_once", reason="one_replica_serves" if capacity else "traffic_not_stated")
        return
    attempts = [_serve_at_best(of, now, engine) for engine in dict.fromkeys((request.engine, BATCHING_ENGINE))]
    savings = [attempt for attempt in attempts if isinstance(attempt, Saving)]
    yield min(savings, key=lambda saving: saving.usd_per_month, default=NoSaving(code="more_at_once", reason="costs_as_much"))


def _serve_at_best(of: Deployment, now: Decimal, engine: Engine) -> Attempt:
    offer, price = of.offer, of.offer.usd_per_hour
    request = replace(of.request, engine=engine)
    none = NoSaving(code="more_at_once", reason="costs_as_much")
    if price is None or not can_compute(offer, request):
        return none
    loads = {load: replace(of, usage=replace(of.usage, concurrency=load)) for load in LOADS}
    speeds = [speed for one in loads.values() if (speed := one.predict(offer, request)) is not None]
    best = find_best_load(price, speeds)
    if best is None or best.concurrency not in loads:
        return none
    batched_request = replace(request, batch_size=best.concurrency if traits_of(engine).static_batch else 1)
    tier = fit_tier(loads[best.concurrency], offer, batched_request)
    if tier is None:
        return none
    after = price_month(replace(of, usage=replace(loads[best.concurrency].usage, replicas=1)), offer, tier.request)
    values: dict[str, Value] = {"engine": engine, "at_once": best.concurrency, "ttft_s": best.ttft_s}
    attempt = _compare_bills("more_at_once", now, after, offer=offer, request=tier.request, **values)
    return _with_speed(of, loads[best.concurrency], attempt)


def _try_other_tier(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    tier = find_cheapest_tier(of, of.request)
    if tier is None or tier.usd_per_month >= now:
        yield NoSaving(code="cheaper_tier", reason="none_holds_it")
        return
    from_a10g = (of.offer.accelerator, tier.offer.accelerator) == ("A10G", "L4")
    yield _move(of, "l4_over_a10g" if from_a10g else "cheaper_tier", now, tier)


def _try_formats(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    if of.spec.library == "gguf":
        yield from (NoSaving(code=code, reason="stored_file") for code in FORMATS)
        return
    today = of.estimate(of.offer, of.request)
    for code in FORMATS:
        if not formats.loads(of.request.engine, code):
            yield NoSaving(code=code, reason="engine_lacks_format")
            continue
        smaller_request = replace(of.request, precision=code)
        smaller = of.estimate(of.offer, smaller_request)
        if smaller.weights.bytes >= today.weights.bytes:
            yield NoSaving(code=code, reason="already_as_small")
            continue
        tier = _find_cheaper_tier(of, now, smaller_request)
        if tier is None:
            gain, _ = classify_gain(of, smaller_request, of.offer)
            freed = today.per_device_bytes - smaller.per_device_bytes
            yield NoSaving(code=code, reason="no_cheaper_tier", gain=gain, freed_bytes=freed)
            continue
        attempt = _move(of, code, now, tier, precision=tier.memory.precision)
        gain, native = classify_gain(of, tier.request, tier.offer)
        yield replace(attempt, gain=gain, native=native) if isinstance(attempt, Saving) else attempt


def _try_context(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    """The context that the traffic needs, if that is less than the context of today, else half of it."""
    today, needed = of.request.context_tokens, of.needed_tokens
    tokens = needed if needed < today else today // 2
    yield _shrink(of, "shorter_context", now, replace(of.request, context_tokens=max(1, tokens)), context_tokens=tokens)


def _try_batch(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    """The largest of the halved batches that saves; a smaller batch serves fewer requests at once."""
    size = of.request.batch_size
    attempt: Attempt = NoSaving(code="smaller_batch", reason="already_as_small")
    while size > 1 and isinstance(attempt, NoSaving):
        size //= 2
        attempt = _shrink(of, "smaller_batch", now, replace(of.request, batch_size=size), batch_size=size)
    yield attempt


def _try_cache(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    """The engine's cache format of eight bits."""
    name = traits_of(of.request.engine).small_cache
    smaller = replace(of.request, kv_precision=name)
    if of.estimate(of.offer, smaller).kv_cache.bytes >= of.estimate(of.offer, of.request).kv_cache.bytes:
        yield NoSaving(code="cache_precision", reason="already_as_small")
        return
    yield _shrink(of, "cache_precision", now, smaller, kv_precision=name)


def _try_sleep(of: Deployment, now: Decimal) -> Iterator[Attempt]:
    current = of.usage.sleep_after_s
    after = next((s for s in SLEEP_S if current == 0 or s < current), None)
    no_traffic, elsewhere = of.usage.requests_per_day <= 0, of.offer.platform not in SLEEPS
    if no_traffic or elsewhere or after is None:
        reason = "traffic_not_stated" if no_traffic else "not_on_this_platform" if elsewhere else "already_as_small"
        yield NoSaving(code="sleep", reason=reason)
        return
    speed = of.predict(of.offer, of.request)
    asleep = bill_offer(of.offer, replace(of.usage, sleep_after_s=after), of.catalog.rules, speed=speed)
    values: dict[str, Value] = {"sleep_after_s": after, "wakes_per_day": asleep.wakes_per_day or Decimal(0)}
    yield _compare_bills("sleep", now, asleep.serving_usd_per_month, offer=of.offer, request=of.request, **values)


def _try_development(of: Deployment, _now: Decimal) -> Iterator[Attempt]:
    """While one works on it: four bits, one request, on the cheapest tier that holds that."""
    quantizes = of.spec.library != "gguf" and formats.loads(of.request.engine, "int4")
    precision, tokens = "int4" if quantizes else "auto", min(of.request.context_tokens, of.needed_tokens)
    tier = find_cheapest_tier(of, replace(of.request, precision=precision, batch_size=1, context_tokens=tokens))
    price = of.offer.usd_per_hour
    if tier is None or price is None or tier.offer.usd_per_hour is None or tier.offer.usd_per_hour >= price:
        yield NoSaving(code="development_tier", reason="no_cheaper_tier")
        return
    hours = of.development_hours_per_month
    before, after = price * hours, tier.offer.usd_per_hour * hours
    values: dict[str, Value] = {"hours_per_month": hours, "precision": tier.memory.precision}
    yield _compare_bills("development_tier", before, after, offer=tier.offer, request=tier.request, **values)


def _shrink(of: Deployment, code: Code, now: Decimal, request: MemoryRequest, **values: Value) -> Attempt:
    """The cheapest tier for a smaller request, or how many bytes it frees on today's."""
    tier = _find_cheaper_tier(of, now, request)
    if tier is None:
        freed = of.estimate(of.offer, of.request).per_device_bytes - of.estimate(of.offer, request).per_device_bytes
        return NoSaving(code=code, reason="no_cheaper_tier", freed_bytes=freed)
    return _move(of, code, now, tier, **values)


def _find_cheaper_tier(of: Deployment, now: Decimal, request: MemoryRequest) -> FittingTier | None:
    """The cheapest tier; none where today's request fits it as it is, for then the change itself saves nothing."""
    tier = find_cheapest_tier(of, request)
    return None if tier is None or tier.usd_per_month >= now or fit_tier(of, tier.offer, of.request) else tier


def _move(of: Deployment, code: Code, now: Decimal, tier: FittingTier, **values: Value) -> Attempt:
    return _with_speed(of, of, _compare_bills(code, now, tier.usd_per_month, offer=tier.offer, request=tier.request, **values))


def _with_speed(before: Deployment, after: Deployment, attempt: Attempt) -> Attempt:
    """The saving with how fast a request is written then; `after` is how the offer is used then."""
    if not isinstance(attempt, Saving) or attempt.offer is None or attempt.request is None:
        return attempt
    old, new = before.predict(before.offer, before.request), after.predict(attempt.offer, attempt.request)
    if old is not None and new is not None:
        rates = old.decode_tokens_per_s, new.decode_tokens_per_s
        return replace(attempt, speed_ratio=rates[1].value / rates[0].value) if rates[0] and rates[1] else attempt
    bounds = [bound_tokens_per_s(before, *each) for each in ((before.offer, before.request), (attempt.offer, attempt.request))]
    return replace(attempt, speed_ratio=bounds[1] / bounds[0], ratio_is_bound=True) if bounds[0] and bounds[1] else attempt


def _compare_bills(
    code: Code, before: Decimal, after: Decimal, *, offer: Offer | None = None, request: MemoryRequest | None = None, **values: Value
) -> Attempt:
    if after >= before:
        return NoSaving(code=code, reason="costs_as_much")
    return Saving(code=code, usd_per_month_before=before, usd_per_month=after, offer=offer, request=request, values=values)


_ATTEMPTS: tuple[Callable[[Deployment, Decimal], Iterator[Attempt]], ...] = (
    _try_provider, _try_zerogpu, _try_more_at_once, _try_other_tier, _try_formats, _try_context, _try_batch, _try_cache, _try_sleep,
    _try_development,
)  # fmt: skip
