"""Ways to take less memory and to pay less: each is what runs today with one thing changed, judged again by the same estimates.

    bytes       on the same hardware, what would be saved on the fullest device (`find_memory_savings`, for `/solve`)
    dollars     on the cheapest tier with an accelerator of the same platform that holds the changed request with comfortable headroom
                (`find_savings`, for `/ways_to_save`)

Both try smaller formats, an 8-bit cache, a shorter context and fewer requests (`smaller_requests`), and other hardware. Two ways in bytes
are not settings of the laws:

    kernel     the attention scores that a fused kernel would not hold (`lib.memory.attention_scores`); it is not slower
    offload    some of the weights stay in the host's memory and cross its link at every step: TPOT' = TPOT + bytes / link, TTFT' alike

Offloaded are the bytes that are missing, or a quarter of the weights where nothing is missing. All of them are counted at each step, so the
price is an upper bound for mixtures of experts and for links that are read while the card computes.
Source: vLLM `cpu_offload_gb` (docs.vllm.ai, model_executor/offloader, UVA), transformers `device_map="auto"` (accelerate).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from typing import Literal, NamedTuple

from lib import memory
from lib import precision as formats
from lib.advisor.limits import SLO, try_precisions
from lib.advisor.setup import CurrentSetup, FittingTier, Gain, ServingConfig, can_compute, on_zerogpu, resolve_setup
from lib.catalog import Catalog
from lib.catalog.offers import Hardware, Offer, own_hardware
from lib.cost import bill_offer, bill_tokens
from lib.cost.usage import ADVISED_SLEEP_S, LOADS, estimate_zerogpu_use, find_best_load
from lib.engines import Engine, traits_of
from lib.errors import BadArgument
from lib.laws.parallelism import ceil_divide, layers_on_gpu
from lib.memory.spread import spread
from lib.platforms import PER_CALL
from lib.provenance import Value
from lib.request.serving import DEFAULTS, drop_settings, keep_experts_in_host
from lib.result import Result
from lib.speed import SpeedEstimate
from lib.speed.hardware import find_host_link_rate
from lib.workload import MemoryRequest

Shrink = Literal["precision", "cache_precision", "shorter_context", "fewer_requests"]


class SmallerRequest(NamedTuple):
    """One setting changed to one that takes less memory: the way, the setting's name in the API, and its new value."""

    way: Shrink
    setting: str
    value: Value


def smaller_requests(
    engine: Engine, precisions: Iterable[str], context_tokens: int, concurrency: int, needed_tokens: int | None = None
) -> Iterator[SmallerRequest]:
    """Each of the formats, the engine's 8-bit cache, the context that the traffic needs (else half of today's), and requests by halves."""
    yield from (SmallerRequest("precision", "precision", name) for name in precisions)
    yield SmallerRequest("cache_precision", "kv_precision", traits_of(engine).small_cache)
    shorter = needed_tokens if needed_tokens is not None and needed_tokens < context_tokens else context_tokens // 2
    yield SmallerRequest("shorter_context", "context_tokens", max(1, shorter))
    while concurrency > 1:
        concurrency //= 2
        yield SmallerRequest("fewer_requests", "concurrency", concurrency)


# In bytes

MemorySavingCode = Literal[Shrink, "kernel", "offload", "layers_on_host", "experts_on_host", "more_devices"]
_QUARTER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySaving(Result):
    """A way to take less memory."""

    code: MemorySavingCode
    """A stable code."""

    saved_bytes: int
    """Bytes that the fullest device saves; negative where the way takes more."""

    per_device_bytes: int
    """Bytes on the fullest device after the change."""

    fits: bool
    """Whether it fits after the change."""

    tpot_ratio: float | None = None
    """Time per output token after the change, divided by that before; null if not predicted."""

    ttft_ratio: float | None = None
    """Time to first token after the change, divided by that before; null if not predicted."""

    needs: Mapping[str, Value] = field(default_factory=dict)
    """Settings that change, by the names of the arguments."""


def find_memory_savings(config: ServingConfig, catalog: Catalog) -> tuple[MemorySaving, ...]:
    """Every way that saves something, the most bytes first."""
    before, speed = config.estimate(), config.predict()

    def compare(code: MemorySavingCode, after: ServingConfig, **needs: Value) -> MemorySaving:
        size, then = after.estimate().per_device_bytes, after.predict()
        return MemorySaving(
            code=code,
            saved_bytes=before.per_device_bytes - size,
            per_device_bytes=size,
            fits=after.fit().fits,
            tpot_ratio=then.tpot_s.value / speed.tpot_s.value if speed and then and speed.tpot_s and then.tpot_s else None,
            ttft_ratio=then.ttft_s.value / speed.ttft_s.value if speed and then else None,
            needs=needs,
        )

    ways = [*_leave_on_host(config, before, speed, compare)]
    precisions = [tried.precision for tried in try_precisions(config, SLO())[1:]]
    for way, changes in groupby(smaller_requests(config.engine, precisions, config.context_tokens, config.requests), lambda c: c.way):
        for change in changes if way == "precision" else [next(changes)]:
            name = "requests" if change.setting == "concurrency" else change.setting
            ways.append(compare(way, replace(config, **{name: change.value}), **{change.setting: change.value}))  # type: ignore[arg-type]
    scores = memory.attention_scores(config.spec, config.memory_request, config.silicon)
    # They are beside the estimate, in its high end: a torch that has no fused kernel for this card holds them.
    ways.append(MemorySaving(code="kernel", saved_bytes=scores, per_device_bytes=before.per_device_bytes, fits=config.fit().fits))
    larger = (compare("more_devices", after, hardware=after.hardware.id) for after in _with_more_devices(config, catalog))
    ways += [saving for saving in larger if saving.saved_bytes > 0][:1]
    return tuple(sorted((way for way in ways if way.saved_bytes > 0), key=lambda way: -way.saved_bytes))


def _leave_on_host(
    config: ServingConfig, before: memory.MemoryEstimate, speed: SpeedEstimate | None, compare: Callable[..., MemorySaving]
) -> Iterator[MemorySaving]:
    """Weights in the host's memory: layers that the processor computes (llama.cpp), or bytes that the card reads at each step."""
    if config.silicon.kind != "gpu" or on_zerogpu(config.hardware):
        return
    fit = config.fit()
    if traits_of(config.engine).own_files and config.gpu_layers is None:
        layers = config.spec.dimensions.layers
        on_card = layers * (_QUARTER - 1) // _QUARTER
        if not fit.fits:
            split = (config.spec, config.memory_request, config.silicon, fit.capacity_bytes)
            least = None if config.serving.cpu_moe_layers else memory.fewest_experts_on_host(*split)
            if least is not None:
                after = replace(config, serving=keep_experts_in_host(config.serving, least))
                moved = after.estimate().host_bytes
                yield compare("experts_on_host", after, cpu_moe_layers=least, layers=layers, host_bytes=moved)
            on_card = min(memory.most_layers_on_card(*split), layers - 1)
        on_host = layers - layers_on_gpu(layers=layers, gpu_layers=on_card)
        after = replace(config, gpu_layers=on_card)
        saving = compare("layers_on_host", after, gpu_layers=on_card, host_layers=on_host, host_bytes=after.estimate().host_bytes)
        if on_host and saving.fits:
            yield saving
    if not traits_of(config.engine).streams_weights:
        return
    weights, room = before.weights.bytes // config.devices, memory.host_memory(config.hardware)
    moved = -fit.free_bytes if fit.free_bytes < 0 else ceil_divide(weights, _QUARTER)
    if moved > weights or (room is not None and moved > room):
        return
    seconds = moved / find_host_link_rate(config.silicon)
    times = (None, None) if speed is None else (speed.tpot_s, speed.ttft_s)
    tpot_ratio, ttft_ratio = (None if time is None else (time.value + seconds) / time.value for time in times)
    yield MemorySaving(
        code="offload",
        saved_bytes=moved,
        per_device_bytes=before.per_device_bytes - moved,
        fits=True,
        tpot_ratio=tpot_ratio,
        ttft_ratio=ttft_ratio,
        needs={"offload_bytes": moved},
    )


def _with_more_devices(config: ServingConfig, catalog: Catalog) -> Iterator[ServingConfig]:
    """Larger counts of the same silicon: offers of the same platform, else plain cards."""
    if config.silicon.kind in {"cpu", "apple"}:
        return
    now = max(1, config.hardware.accelerator_count)
    larger: list[Hardware] = [own_hardware(config.silicon, 2 * now)]
    if not config.hardware.traits.owned:
        own = catalog.on((config.hardware.platform,))
        larger = [offer for offer in own if offer.accelerator == config.hardware.accelerator and offer.accelerator_count > now]
    for hardware in sorted(larger, key=lambda each: each.accelerator_count):
        try:
            yield resolve_setup(
                config.spec, hardware, config.accelerators, engine=config.engine, precision=config.precision,
                kv_precision=config.kv_precision, context_tokens=config.context_tokens, output_tokens=config.output_tokens,
                requests=config.requests,
                serving=drop_settings(config.serving, "tensor_parallel", "pipeline_parallel", "data_parallel"),
            )  # fmt: skip
        except BadArgument:
            continue


# In dollars

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


SETTINGS = {name: name for name in ("provider", "size", "engine", "precision", "kv_precision", "context_tokens", "sleep_after_s")}
SETTINGS |= {"at_once": "concurrency", "batch_size": "concurrency"}
"""Values of a saving that are settings, and what they are called in a call."""
SLEEP_S = (Decimal(ADVISED_SLEEP_S), Decimal(300))
"""Sleep times that are tried: a quarter of an hour, and five minutes where it is set to less than that already."""
BATCHING_ENGINE: Engine = "vllm"
"""The engine that is tried beside today's where one replica does not serve the traffic."""
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
    """The ways for one setup; `now` is what it costs a month."""

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
        if use.requests_in_quota == 0:
            return NoSaving(code="zerogpu", reason="quota_too_small")
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
        results = [self._serve_at_best(engine) for engine in dict.fromkeys((setup.request.engine, BATCHING_ENGINE))]
        savings = [result for result in results if isinstance(result, Saving)]
        return min(savings, key=lambda saving: saving.usd_per_month, default=NoSaving(code="more_at_once", reason="costs_as_much"))

    def _serve_at_best(self, engine: Engine) -> SavingResult:
        setup, offer, price = self.setup, self.setup.offer, self.setup.offer.usd_per_hour
        request = setup.request if engine == setup.request.engine else replace(setup.request, engine=engine, serving=DEFAULTS)
        no_saving = NoSaving(code="more_at_once", reason="costs_as_much")
        if price is None or not can_compute(setup.spec, offer, request):
            return no_saving
        loads = {load: replace(setup, usage=replace(setup.usage, concurrency=load)) for load in LOADS}
        best = find_best_load(price, [speed for loaded in loads.values() if (speed := loaded.predict(offer, request)) is not None])
        if best is None or best.concurrency not in loads:
            return no_saving
        loaded = loads[best.concurrency]
        tier = loaded.fit_tier(offer, replace(request, batch_size=best.concurrency if traits_of(engine).static_batch else 1))
        if tier is None:
            return no_saving
        after = replace(loaded, usage=replace(loaded.usage, replicas=1)).price_month(offer, tier.request)
        values: dict[str, Value] = {"engine": engine, "at_once": best.concurrency, "ttft_s": best.ttft_s}
        return self._with_speed(_compare_bills("more_at_once", self.now, after, offer=offer, request=tier.request, **values), loaded)

    def other_tier(self) -> SavingResult:
        tier = self.setup.cheapest_tier(self.setup.request)
        if tier is None or tier.usd_per_month >= self.now:
            return NoSaving(code="cheaper_tier", reason="none_holds_it")
        from_a10g = (self.setup.offer.accelerator, tier.offer.accelerator) == ("A10G", "L4")
        return self._switch_tier("l4_over_a10g" if from_a10g else "cheaper_tier", tier)

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
