"""Ways to save: each one worked out for the visitor's own deployment, with the real estimates, ranked by USD per month.

Every way is an alternative to what runs today: it re-runs the estimate of memory and the bill with one thing changed, and none of them is
a percentage of anything. Where a way needs other hardware, the cheapest tier with an accelerator on the same platform that holds the
configuration with a comfortable headroom is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal

from lib.advisor.deployment import (
    Deployment,
    FittingTier,
    Gain,
    bound_tokens_per_s,
    can_compute,
    classify_gain,
    count_devices,
    find_cheapest_tier,
    fit_tier,
    price_month,
)
from lib.catalog.offers import Offer
from lib.cost import Usage, bill_offer, bill_tokens
from lib.cost.usage import LOADS, estimate_zerogpu_use, find_best_load
from lib.engines import Engine, traits_of
from lib.memory import MemoryEstimate, estimate_memory
from lib.provenance import Value
from lib.workload import MemoryRequest

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
SLEEP_S = (Decimal(900), Decimal(300))
"""Sleep times that are tried: a quarter of an hour, and five minutes where it is set to less than that already."""
BATCHING_ENGINE: Engine = "vllm"
"""The engine that is tried beside today's where one replica does not serve the traffic."""
FORMATS: tuple[Code, ...] = ("fp8", "int8", "int4")

Attempt = Saving | NoSaving


def find_savings(deployment: Deployment) -> SavingsReport:
    """All ways, those that save first. Today's configuration is spread over the cards of its offer.

    Raises:
        UnknownHardware: today's offer has no price.
        BadArgument: a precision that no format has.
    """
    devices = count_devices(deployment, deployment.offer, deployment.request)
    deployment = replace(deployment, request=replace(deployment.request, devices=devices))
    now = price_month(deployment, deployment.offer, deployment.request)
    attempts = [attempt for try_way in _ATTEMPTS for attempt in try_way(deployment, now)]
    savings = [attempt for attempt in attempts if isinstance(attempt, Saving)]
    return SavingsReport(
        usd_per_month=now,
        savings=tuple(sorted(savings, key=lambda saving: (-saving.saves_usd_per_month, saving.code))),
        no_savings=tuple(attempt for attempt in attempts if isinstance(attempt, NoSaving)),
    )


def _try_provider(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    if deployment.price is None:
        yield NoSaving(code="provider", reason="price_unknown")
    elif deployment.usage.requests_per_day <= 0:
        yield NoSaving(code="provider", reason="traffic_not_stated")
    else:
        tokens = bill_tokens(deployment.price, deployment.usage, deployment.catalog.rules.providers)
        storage = bill_offer(deployment.offer, deployment.usage, deployment.catalog.rules).storage_usd_per_month
        values: dict[str, Value] = {"provider": deployment.price.provider, "requests_per_month": deployment.usage.requests_per_month}
        yield _compare_bills("provider", now, tokens.total_usd_per_month + storage, values=values)


def _try_zerogpu(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    rules = deployment.catalog.rules.zerogpu
    if deployment.offer.platform != "spaces" or rules.max_spaces[deployment.usage.account] == 0:
        yield NoSaving(code="zerogpu", reason="not_for_this_account" if deployment.offer.platform == "spaces" else "not_on_this_platform")
        return
    for offer in deployment.catalog.on(("zerogpu",)):
        tier = fit_tier(deployment, offer, replace(deployment.request, engine="transformers"))
        if tier is None:
            continue
        use = estimate_zerogpu_use(offer, deployment.usage, rules, deployment.predict(offer, tier.request))
        if use.requests_in_quota == 0:
            yield NoSaving(code="zerogpu", reason="quota_too_small")
        else:
            values: dict[str, Value] = {
                "size": use.size,
                "request_quota_s": use.quota_s_per_request,
                "requests_per_visitor": use.requests_in_quota,
                "visitors": use.visitors,
            }
            yield _move(deployment, "zerogpu", now, tier, values)
        return
    yield NoSaving(code="zerogpu", reason="does_not_fit")


def _try_more_at_once(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    """Fewer replicas by serving several requests at a time: the load that makes a token cheapest, with this engine or with vLLM."""
    offer, request, usage = deployment.offer, deployment.request, deployment.usage
    capacity = bill_offer(offer, usage, deployment.catalog.rules, speed=deployment.predict(offer, request)).capacity
    if capacity is None or capacity.replicas_needed == 1:
        yield NoSaving(code="more_at_once", reason="one_replica_serves" if capacity else "traffic_not_stated")
        return
    attempts = [_serve_at_best(deployment, now, engine) for engine in dict.fromkeys((request.engine, BATCHING_ENGINE))]
    savings = [attempt for attempt in attempts if isinstance(attempt, Saving)]
    yield min(savings, key=lambda saving: saving.usd_per_month, default=NoSaving(code="more_at_once", reason="costs_as_much"))


def _serve_at_best(deployment: Deployment, now: Decimal, engine: Engine) -> Attempt:
    offer, price = deployment.offer, deployment.offer.usd_per_hour
    request = replace(deployment.request, engine=engine)
    none = NoSaving(code="more_at_once", reason="costs_as_much")
    if price is None or not can_compute(offer, request):
        return none
    loads = {load: replace(deployment, usage=replace(deployment.usage, concurrency=load)) for load in LOADS}
    speeds = [speed for one in loads.values() if (speed := one.predict(offer, request)) is not None]
    best = find_best_load(price, speeds)
    if best is None or best.concurrency not in loads:
        return none
    batched_request = replace(request, batch_size=best.concurrency if traits_of(engine).static_batch else 1)
    tier = fit_tier(loads[best.concurrency], offer, batched_request)
    if tier is None:
        return none
    values: dict[str, Value] = {"engine": engine, "at_once": best.concurrency, "ttft_s": best.ttft_s}
    one_replica = replace(loads[best.concurrency].usage, replicas=1)
    after = price_month(replace(deployment, usage=one_replica), offer, tier.request)
    attempt = _compare_bills("more_at_once", now, after, offer=offer, request=tier.request, values=values)
    return _with_speed(deployment, loads[best.concurrency], attempt)


def _try_other_tier(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    tier = find_cheapest_tier(deployment, deployment.request)
    if tier is None or tier.usd_per_month >= now:
        yield NoSaving(code="cheaper_tier", reason="none_holds_it")
        return
    silicon = (deployment.offer.accelerator, tier.offer.accelerator)
    code: Code = "l4_over_a10g" if silicon == ("A10G", "L4") else "cheaper_tier"
    yield _move(deployment, code, now, tier, {})


def _try_formats(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    if deployment.spec.library == "gguf":
        yield from (NoSaving(code=code, reason="stored_file") for code in FORMATS)
        return
    today = _estimate(deployment, deployment.request)
    for code in FORMATS:
        smaller_request = replace(deployment.request, precision=code)
        smaller = _estimate(deployment, smaller_request)
        if smaller.weights.bytes >= today.weights.bytes:
            yield NoSaving(code=code, reason="already_as_small")
            continue
        tier = find_cheapest_tier(deployment, smaller_request)
        freed = today.per_device_bytes - smaller.per_device_bytes
        if tier is None or tier.usd_per_month >= now or _fits_unchanged(deployment, tier):
            gain, _ = classify_gain(deployment, deployment.request, smaller_request, deployment.offer)
            yield NoSaving(code=code, reason="no_cheaper_tier", gain=gain, freed_bytes=freed)
            continue
        attempt = _move(deployment, code, now, tier, {"precision": tier.memory.precision})
        gain, native = classify_gain(deployment, deployment.request, tier.request, tier.offer)
        yield replace(attempt, gain=gain, native=native) if isinstance(attempt, Saving) else attempt


def _try_context(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    """The context that the traffic needs, if that is less than the context of today, else half of it."""
    today, needed = deployment.request.context_tokens, _needed_tokens(deployment.usage)
    tokens = needed if needed < today else today // 2
    yield _shrink(
        deployment, "shorter_context", now, replace(deployment.request, context_tokens=max(1, tokens)), {"context_tokens": tokens}
    )


def _try_batch(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    """The largest of the halved batches that saves; a smaller batch serves fewer requests at once."""
    size = deployment.request.batch_size
    if size == 1:
        yield NoSaving(code="smaller_batch", reason="already_as_small")
        return
    attempt: Attempt = NoSaving(code="smaller_batch", reason="no_cheaper_tier")
    while size > 1 and isinstance(attempt, NoSaving):
        size //= 2
        attempt = _shrink(deployment, "smaller_batch", now, replace(deployment.request, batch_size=size), {"batch_size": size})
    yield attempt


def _try_cache(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    """The engine's cache format of eight bits."""
    name = traits_of(deployment.request.engine).small_cache
    smaller = replace(deployment.request, kv_precision=name)
    if _estimate(deployment, smaller).kv_cache.bytes >= _estimate(deployment, deployment.request).kv_cache.bytes:
        yield NoSaving(code="cache_precision", reason="already_as_small")
        return
    yield _shrink(deployment, "cache_precision", now, smaller, {"kv_precision": name})


def _try_sleep(deployment: Deployment, now: Decimal) -> Iterator[Attempt]:
    if deployment.usage.requests_per_day <= 0:
        yield NoSaving(code="sleep", reason="traffic_not_stated")
        return
    if deployment.offer.platform not in {"spaces", "endpoints"}:
        yield NoSaving(code="sleep", reason="not_on_this_platform")
        return
    current = deployment.usage.sleep_after_s
    after = next((s for s in SLEEP_S if current == 0 or s < current), None)
    if after is None:
        yield NoSaving(code="sleep", reason="already_as_small")
        return
    asleep = bill_offer(
        deployment.offer,
        replace(deployment.usage, sleep_after_s=after),
        deployment.catalog.rules,
        speed=deployment.predict(deployment.offer, deployment.request),
    )
    values: dict[str, Value] = {"sleep_after_s": after, "wakes_per_day": asleep.wakes_per_day or Decimal(0)}
    yield _compare_bills("sleep", now, asleep.serving_usd_per_month, offer=deployment.offer, request=deployment.request, values=values)


def _try_development(deployment: Deployment, _now: Decimal) -> Iterator[Attempt]:
    """While one works on it: four bits, one request, on the cheapest tier that holds that."""
    small = replace(
        deployment.request,
        precision="auto" if deployment.spec.library == "gguf" else "int4",
        batch_size=1,
        context_tokens=min(deployment.request.context_tokens, _needed_tokens(deployment.usage)),
    )
    tier = find_cheapest_tier(deployment, small)
    price = deployment.offer.usd_per_hour
    if tier is None or price is None or tier.offer.usd_per_hour is None or tier.offer.usd_per_hour >= price:
        yield NoSaving(code="development_tier", reason="no_cheaper_tier")
        return
    hours = deployment.development_hours_per_month
    before, after = price * hours, tier.offer.usd_per_hour * hours
    values: dict[str, Value] = {"hours_per_month": hours, "precision": tier.memory.precision}
    yield _compare_bills("development_tier", before, after, offer=tier.offer, request=tier.request, values=values)


def _needed_tokens(usage: Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens


def _shrink(deployment: Deployment, code: Code, now: Decimal, request: MemoryRequest, values: dict[str, Value]) -> Attempt:
    """The cheapest tier for a smaller request, or how many bytes it frees on today's."""
    tier = find_cheapest_tier(deployment, request)
    if tier is None or tier.usd_per_month >= now or _fits_unchanged(deployment, tier):
        freed = _estimate(deployment, deployment.request).per_device_bytes - _estimate(deployment, request).per_device_bytes
        return NoSaving(code=code, reason="no_cheaper_tier", freed_bytes=freed)
    return _move(deployment, code, now, tier, values)


def _fits_unchanged(deployment: Deployment, tier: FittingTier) -> bool:
    """Whether today's request fits that tier as it is: then the change itself saves nothing."""
    return fit_tier(deployment, tier.offer, deployment.request) is not None


def _estimate(deployment: Deployment, request: MemoryRequest) -> MemoryEstimate:
    return estimate_memory(deployment.spec, request, deployment.offer.silicon or deployment.offer.host_cpu)


def _move(deployment: Deployment, code: Code, now: Decimal, tier: FittingTier, values: dict[str, Value]) -> Attempt:
    attempt = _compare_bills(code, now, tier.usd_per_month, offer=tier.offer, request=tier.request, values=values)
    return _with_speed(deployment, deployment, attempt)


def _with_speed(before: Deployment, after: Deployment, attempt: Attempt) -> Attempt:
    """The saving with how fast a request is written then; `after` is how the offer is used then."""
    if not isinstance(attempt, Saving) or attempt.offer is None or attempt.request is None:
        return attempt
    old, new = before.predict(before.offer, before.request), after.predict(attempt.offer, attempt.request)
    if old is not None and new is not None:
        rates = old.decode_tokens_per_s, new.decode_tokens_per_s
        return replace(attempt, speed_ratio=rates[1].value / rates[0].value) if rates[0] and rates[1] else attempt
    bounds = (
        bound_tokens_per_s(before, before.offer, before.request),
        bound_tokens_per_s(before, attempt.offer, attempt.request),
    )
    return replace(attempt, speed_ratio=bounds[1] / bounds[0], ratio_is_bound=True) if bounds[0] and bounds[1] else attempt


def _compare_bills(
    code: Code,
    before: Decimal,
    after: Decimal,
    *,
    offer: Offer | None = None,
    request: MemoryRequest | None = None,
    values: dict[str, Value] | None = None,
) -> Attempt:
    if after >= before:
        return NoSaving(code=code, reason="costs_as_much")
    return Saving(code=code, usd_per_month_before=before, usd_per_month=after, offer=offer, request=request, values=values or {})


_ATTEMPTS: tuple[Callable[[Deployment, Decimal], Iterator[Attempt]], ...] = (
    _try_provider,
    _try_zerogpu,
    _try_more_at_once,
    _try_other_tier,
    _try_formats,
    _try_context,
    _try_batch,
    _try_cache,
    _try_sleep,
    _try_development,
)
