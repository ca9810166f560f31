"""Ways to pay less (`find_savings`, for `/ways_to_save`): each is the current set-up with one change.

It is priced on the cheapest tier with an accelerator of the same platform that holds the changed request with comfortable headroom.
Smaller formats, an 8-bit cache, a shorter context and fewer requests are those of `lib.advisor.memory_savings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from typing import Literal

from lib import precision as formats
from lib.advisor.memory_savings import smaller_requests
from lib.advisor.setup import CurrentSetup, FittingTier, Gain, can_compute
from lib.catalog.offers import Offer
from lib.cost import bill_offer, bill_tokens
from lib.cost.usage import ADVISED_SLEEP_S, LIGHT_TRAFFIC_VISITORS, LOADS, estimate_zerogpu_use, find_best_load
from lib.engines import Engine, traits_of
from lib.memory.spread import spread
from lib.platforms import PER_CALL
from lib.provenance import Value
from lib.request.serving import DEFAULTS
from lib.workload import MemoryRequest

Code = Literal[
    "provider", "zerogpu", "more_at_once", "cheaper_tier", "l4_over_a10g", "fp8", "int8", "int4", "shorter_context", "smaller_batch",
    "cache_precision", "sleep", "development_tier",
]  # fmt: skip

_TIER_CHANGES: Mapping[tuple[str | None, str | None], Code] = {("A10G", "L4"): "l4_over_a10g"}
"""Changes from one card to another that have a sentence of their own."""


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
    """A way that saves nothing here, and why: a stable code, its figures, and the configuration that was tried if there is one."""

    code: Code
    reason: str
    gain: Gain | None = None
    freed_bytes: int | None = None
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsReport:
    """Savings, the largest first, and the ways that save nothing. They are alternatives: their savings do not add up."""

    usd_per_month: Decimal
    savings: tuple[Saving, ...]
    no_savings: tuple[NoSaving, ...]


SETTINGS = {name: name for name in ("provider", "size", "engine", "precision", "kv_precision", "context_tokens", "sleep_after_s")}
SETTINGS |= {"at_once": "concurrency", "batch_size": "concurrency"}
"""Values of a saving that are settings, with the names of their arguments."""
SLEEP_S = (Decimal(ADVISED_SLEEP_S), Decimal(300))
"""Sleep times that are tried: a quarter of an hour, and five minutes where it is set to less than that already."""
BATCHING_ENGINE: Engine = "vllm"
"""The engine that is tried besides today's where one replica does not serve the traffic."""
FORMATS: tuple[Code, ...] = ("fp8", "int8", "int4")

SavingResult = Saving | NoSaving


def find_savings(setup: CurrentSetup) -> SavingsReport:
    """All ways, those that save first. Today's configuration is spread over the cards of its offer.

    Raises:
        UnknownHardware: today's offer has no price.
        BadArgument: a precision that no format has.
    """
    devices = spread(setup.spec, setup.request.engine, setup.offer, setup.request.serving).devices
    setup = replace(setup, request=replace(setup.request, devices=devices))
    ways = _DollarWays(setup, setup.price_month(setup.offer, setup.request))
    results = [
        ways.provider(), ways.zerogpu(), ways.more_at_once(), ways.other_tier(), *ways.smaller(), ways.sleep(), ways.development()
    ]  # fmt: skip
    savings = [result for result in results if isinstance(result, Saving)]
    return SavingsReport(
        usd_per_month=ways.now,
        savings=tuple(sorted(savings, key=lambda saving: (-saving.saves_usd_per_month, saving.code))),
        no_savings=tuple(result for result in results if isinstance(result, NoSaving)),
    )


@dataclass(frozen=True, slots=True)
class _DollarWays:
    """The ways for one setup; `now` is the monthly price."""

    setup: CurrentSetup
    now: Decimal

    def provider(self) -> SavingResult:
        price, usage, rules = self.setup.price, self.setup.usage, self.setup.catalog.rules
        if price is None or usage.requests_per_day <= 0:
            return NoSaving(code="provider", reason="price_unknown" if price is None else "traffic_not_stated")
        after = bill_tokens(price, usage, rules.providers).total_usd_per_month
        after += bill_offer(self.setup.offer, usage, rules).storage_usd_per_month
        return _compare_bills("provider", self.now, after, provider=price.provider, requests_per_month=usage.requests_per_month)

    def zerogpu(self) -> SavingResult:
        setup, rules = self.setup, self.setup.catalog.rules.zerogpu
        if not setup.offer.traits.rents_spaces or rules.max_spaces[setup.usage.account] == 0:
            reason = "not_for_this_account" if setup.offer.traits.rents_spaces else "not_on_this_platform"
            return NoSaving(code="zerogpu", reason=reason)
        request = replace(setup.request, engine="transformers", serving=DEFAULTS)
        tier = next((tier for offer in setup.catalog.on(PER_CALL) if (tier := setup.fit_tier(offer, request)) is not None), None)
        if tier is None:
            return NoSaving(code="zerogpu", reason="does_not_fit")
        use = estimate_zerogpu_use(tier.offer, setup.usage, rules, setup.predict(tier.offer, tier.request))
        if (obstacle := use.find_obstacle(setup.usage)) is not None:
            values: dict[str, Value] = {
                "requests_per_day": int(setup.usage.requests_per_day), "most_requests": use.most_requests, "visitors": use.visitors,
                "concurrency": setup.usage.concurrency, "most_visitors": LIGHT_TRAFFIC_VISITORS,
            }  # fmt: skip
            reason = "quota_too_small" if use.requests_in_quota == 0 else "crowd" if obstacle == "crowd" else "traffic_too_high"
            return NoSaving(code="zerogpu", reason=reason, values=values)
        return self._switch_tier(
            "zerogpu", tier, size=use.size, request_quota_s=use.quota_s_per_request, requests_per_visitor=use.requests_in_quota,
            visitors=use.visitors,
        )  # fmt: skip

    def more_at_once(self) -> SavingResult:
        """Fewer replicas by serving several requests at a time: the load that makes a token cheapest, with this engine or with vLLM."""
        setup = self.setup
        speed = setup.predict(setup.offer, setup.request)
        capacity = bill_offer(setup.offer, setup.usage, setup.catalog.rules, speed=speed).capacity
        if capacity is None or capacity.replicas_needed == 1:
            return NoSaving(code="more_at_once", reason="one_replica_serves" if capacity else "traffic_not_stated")
        requests = {setup.request.engine: setup.request}
        requests.setdefault(BATCHING_ENGINE, replace(setup.request, engine=BATCHING_ENGINE, serving=DEFAULTS))
        results = [self._serve_at_best(request) for request in requests.values()]
        savings = [result for result in results if isinstance(result, Saving)]
        return min(savings, key=lambda saving: saving.usd_per_month, default=NoSaving(code="more_at_once", reason="costs_as_much"))

    def _serve_at_best(self, request: MemoryRequest) -> SavingResult:
        setup, offer, price = self.setup, self.setup.offer, self.setup.offer.usd_per_hour
        no_saving = NoSaving(code="more_at_once", reason="costs_as_much")
        if price is None or not can_compute(setup.spec, offer, request):
            return no_saving
        loads = {load: replace(setup, usage=replace(setup.usage, concurrency=load)) for load in LOADS}
        best = find_best_load(price, [speed for loaded in loads.values() if (speed := loaded.predict(offer, request)) is not None])
        if best is None or best.concurrency not in loads:
            return no_saving
        loaded = loads[best.concurrency]
        tier = loaded.fit_tier(offer, replace(request, batch_size=best.concurrency if traits_of(request.engine).static_batch else 1))
        if tier is None:
            return no_saving
        after = replace(loaded, usage=replace(loaded.usage, replicas=1)).price_month(offer, tier.request)
        values: dict[str, Value] = {"engine": request.engine, "at_once": best.concurrency, "ttft_s": best.ttft_s}
        return self._with_speed(_compare_bills("more_at_once", self.now, after, offer=offer, request=tier.request, **values), loaded)

    def other_tier(self) -> SavingResult:
        tier = self.setup.cheapest_tier(self.setup.request)
        if tier is None or tier.usd_per_month >= self.now:
            return NoSaving(code="cheaper_tier", reason="none_holds_it")
        return self._switch_tier(_TIER_CHANGES.get((self.setup.offer.accelerator, tier.offer.accelerator), "cheaper_tier"), tier)

    def smaller(self) -> Iterator[SavingResult]:
        """Formats, a shorter context, the largest of the halved batches that saves, and an 8-bit cache."""
        setup, request = self.setup, self.setup.request
        changes = [*smaller_requests(request.engine, FORMATS, request.context_tokens, request.batch_size, setup.needed_tokens)]
        values = {way: [change.value for change in group] for way, group in groupby(changes, lambda change: change.way)}
        yield from (self._try_format(code) for code in FORMATS)
        (tokens,) = values["shorter_context"]
        yield self._with_smaller_request("shorter_context", "context_tokens", tokens)
        result: SavingResult = NoSaving(code="smaller_batch", reason="already_as_small")
        for size in values.get("fewer_requests", ()):
            result = self._with_smaller_request("smaller_batch", "batch_size", size)
            if isinstance(result, Saving):
                break
        yield result
        (name,) = values["cache_precision"]
        smaller = replace(request, kv_precision=str(name))
        if setup.estimate(setup.offer, smaller).kv_cache.bytes >= setup.estimate(setup.offer, request).kv_cache.bytes:
            yield NoSaving(code="cache_precision", reason="already_as_small")
        else:
            yield self._with_smaller_request("cache_precision", "kv_precision", name)

    def _try_format(self, code: Code) -> SavingResult:
        setup, request = self.setup, self.setup.request
        if setup.spec.library == "gguf":
            return NoSaving(code=code, reason="stored_file")
        if not formats.loads(request.engine, code):
            return NoSaving(code=code, reason="engine_lacks_format")
        smaller = replace(request, precision=code)
        if setup.estimate(setup.offer, smaller).weights.bytes >= setup.estimate(setup.offer, request).weights.bytes:
            return NoSaving(code=code, reason="already_as_small")
        result = self._with_smaller_request(code, "precision", code)
        if isinstance(result, NoSaving) or result.offer is None or result.request is None:
            return replace(result, gain=setup.classify_gain(smaller, setup.offer)[0])
        gain, native = setup.classify_gain(result.request, result.offer)
        return replace(result, gain=gain, native=native, values={"precision": setup.estimate(result.offer, result.request).precision})

    def sleep(self) -> SavingResult:
        offer, usage, request = self.setup.offer, self.setup.usage, self.setup.request
        after_s = next((s for s in SLEEP_S if usage.sleep_after_s == 0 or s < usage.sleep_after_s), None)
        no_traffic, elsewhere = usage.requests_per_day <= 0, not offer.traits.sleeps
        if no_traffic or elsewhere or after_s is None:
            reason = "traffic_not_stated" if no_traffic else "not_on_this_platform" if elsewhere else "already_as_small"
            return NoSaving(code="sleep", reason=reason)
        speed = self.setup.predict(offer, request)
        asleep = bill_offer(offer, replace(usage, sleep_after_s=after_s), self.setup.catalog.rules, speed=speed)
        values: dict[str, Value] = {"sleep_after_s": after_s, "wakes_per_day": asleep.wakes_per_day or Decimal(0)}
        return _compare_bills("sleep", self.now, asleep.serving_usd_per_month, offer=offer, request=request, **values)

    def development(self) -> SavingResult:
        """While one works on it: four bits, one request, on the cheapest tier that holds that."""
        setup, request, price = self.setup, self.setup.request, self.setup.offer.usd_per_hour
        quantizes = setup.spec.library != "gguf" and formats.loads(request.engine, "int4")
        precision, tokens = "int4" if quantizes else "auto", min(request.context_tokens, setup.needed_tokens)
        tier = setup.cheapest_tier(replace(request, precision=precision, batch_size=1, context_tokens=tokens))
        if tier is None or price is None or tier.offer.usd_per_hour is None or tier.offer.usd_per_hour >= price:
            return NoSaving(code="development_tier", reason="no_cheaper_tier")
        hours = setup.development_hours_per_month
        values: dict[str, Value] = {"hours_per_month": hours, "precision": tier.estimate.precision}
        after = tier.offer.usd_per_hour * hours
        return _compare_bills("development_tier", price * hours, after, offer=tier.offer, request=tier.request, **values)

    def _with_smaller_request(self, code: Code, setting: str, value: Value) -> SavingResult:
        """The cheapest tier for a smaller request, or how many bytes it frees on today's.

        Where today's request fits that tier as it is, the change itself saves nothing.
        """
        setup = self.setup
        request = replace(setup.request, **{setting: value})  # type: ignore[arg-type]
        tier = setup.cheapest_tier(request)
        if tier is not None and tier.usd_per_month < self.now and not setup.fit_tier(tier.offer, setup.request):
            return self._switch_tier(code, tier, **{setting: value})
        freed = setup.estimate(setup.offer, setup.request).per_device_bytes - setup.estimate(setup.offer, request).per_device_bytes
        return NoSaving(code=code, reason="no_cheaper_tier", freed_bytes=freed)

    def _switch_tier(self, code: Code, tier: FittingTier, **values: Value) -> SavingResult:
        return self._with_speed(
            _compare_bills(code, self.now, tier.usd_per_month, offer=tier.offer, request=tier.request, **values), self.setup
        )

    def _with_speed(self, result: SavingResult, after: CurrentSetup) -> SavingResult:
        """The saving with how fast a request is written then; `after` is how the offer is used then."""
        if not isinstance(result, Saving) or result.offer is None or result.request is None:
            return result
        before = self.setup
        old, new = before.predict(before.offer, before.request), after.predict(result.offer, result.request)
        if old is not None and new is not None:
            rates = old.decode_tokens_per_s, new.decode_tokens_per_s
            return replace(result, speed_ratio=rates[1].value / rates[0].value) if rates[0] and rates[1] else result
        bounds = [before.bound_tokens_per_s(*each) for each in ((before.offer, before.request), (result.offer, result.request))]
        return replace(result, speed_ratio=bounds[1] / bounds[0], ratio_is_bound=True) if bounds[0] and bounds[1] else result


def _compare_bills(
    code: Code, before: Decimal, after: Decimal, *, offer: Offer | None = None, request: MemoryRequest | None = None, **values: Value
) -> SavingResult:
    if after >= before:
        return NoSaving(code=code, reason="costs_as_much")
    return Saving(code=code, usd_per_month_before=before, usd_per_month=after, offer=offer, request=request, values=values)
