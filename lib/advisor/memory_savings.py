"""Ways to take less memory (`find_memory_savings`, for `/solve`): each is the current set-up with one change, estimated again.

Tried are smaller formats, an 8-bit cache, a shorter context, fewer requests, weights in the host's memory, and more devices. Two ways are
not settings of the laws:

    kernel     the attention scores that a fused kernel would not hold (`lib.memory.attention_scores`); it is not slower
    offload    some of the weights stay in the host's memory and cross its link at every step: TPOT' = TPOT + bytes / link, TTFT' likewise

Offloaded are the bytes that are missing, or a quarter of the weights if nothing is missing. All of them count at each step. So the extra
time is an upper bound for mixtures of experts, and for links that are read while the card computes.
Source: vLLM `cpu_offload_gb` (docs.vllm.ai, model_executor/offloader, UVA), transformers `device_map="auto"` (accelerate).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal, NamedTuple

from lib import memory
from lib.advisor.limits import SLO, try_precisions
from lib.advisor.setup import ServingConfig, on_zerogpu, resolve_setup
from lib.catalog import Catalog
from lib.catalog.offers import OWN_COUNTS, Hardware
from lib.engines import Engine, traits_of
from lib.errors import BadArgument
from lib.laws.parallelism import ceil_divide, layers_on_gpu
from lib.provenance import Value
from lib.request.serving import drop_settings, keep_experts_in_host
from lib.result import Result
from lib.speed import SpeedEstimate
from lib.speed.hardware import find_host_link_rate

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


MemorySavingCode = Literal[Shrink, "kernel", "offload", "layers_on_host", "experts_on_host", "more_devices"]
_QUARTER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySaving(Result):
    """A way to take less memory."""

    code: MemorySavingCode
    """A stable code."""
    saved_bytes: int
    """Bytes that the fullest device saves; negative if the way takes more."""
    per_device_bytes: int
    """Bytes on the fullest device after the change."""
    fits: bool
    """Whether it fits after the change."""
    tokens_per_s: float | None = None
    """Tokens per second of one request after the change; null if it does not fit or is not predicted."""
    ttft_s: float | None = None
    """Time to first token after the change, in seconds; null if it does not fit or is not predicted."""
    tpot_ratio: float | None = None
    """Time per output token after the change, divided by that before; null if either does not fit or is not predicted."""
    ttft_ratio: float | None = None
    """Time to first token after the change, divided by that before; null if either does not fit or is not predicted."""
    needs: Mapping[str, Value] = field(default_factory=dict)
    """Settings that change, by the names of the arguments."""


def find_memory_savings(config: ServingConfig, catalog: Catalog) -> tuple[MemorySaving, ...]:
    """Every way that saves something on the same hardware, then more devices.

    If today's requests fit, the most bytes come first. If not, the ways that fit come first, by their tokens per second.
    """
    ways = _MemoryWays(config)
    found = [*ways.leave_on_host()]
    precisions = [tried.precision for tried in try_precisions(config, SLO())[1:]]
    for way, changes in groupby(smaller_requests(config.engine, precisions, config.context_tokens, config.requests), lambda c: c.way):
        for change in changes if way == "precision" else [next(changes)]:
            name = "requests" if change.setting == "concurrency" else change.setting
            found.append(ways.compare(way, replace(config, **{name: change.value}), **{change.setting: change.value}))  # type: ignore[arg-type]
    scores = memory.attention_scores(config.spec, config.memory_request, config.silicon)
    # They are beside the estimate, in its high end: a torch that has no fused kernel for this card holds them.
    found.append(ways.measure("kernel", scores, ways.before.per_device_bytes, ways.fit.fits, ways.speed))
    found += ways.add_devices(catalog)

    def order(way: MemorySaving) -> tuple[bool, bool, float, int]:
        rate = 0.0 if ways.fit.fits else way.tokens_per_s or 0.0
        return way.code == "more_devices", not (ways.fit.fits or way.fits), -rate, -way.saved_bytes

    return tuple(sorted((way for way in found if way.saved_bytes > 0), key=order))


class _Speed(NamedTuple):
    """Seconds per output token and to the first token; None if they are not predicted."""

    tpot_s: float | None = None
    ttft_s: float | None = None


def _seconds(speed: SpeedEstimate | None) -> _Speed:
    if speed is None:
        return _Speed()
    return _Speed(None if speed.tpot_s is None else speed.tpot_s.value, speed.ttft_s.value)


def _ratio(after: float | None, before: float | None) -> float | None:
    return after / before if after and before else None


class _MemoryWays:
    """The ways of one setup, each compared with today's memory, fit and speed."""

    def __init__(self, config: ServingConfig) -> None:
        self.config = config
        self.before, self.fit, self.speed = config.estimate(), config.fit(), _seconds(config.predict())

    def compare(self, code: MemorySavingCode, after: ServingConfig, **needs: Value) -> MemorySaving:
        """The setup with one thing changed."""
        size = after.estimate().per_device_bytes
        saved = self.before.per_device_bytes - size
        return self.measure(code, saved, size, after.fit().fits, _seconds(after.predict()), **needs)

    def measure(self, code: MemorySavingCode, saved: int, size: int, fits: bool, after: _Speed, **needs: Value) -> MemorySaving:
        """A way with its speed if it fits, and the change of speed if today's setup fits too."""
        then = after if fits else _Speed()
        now = self.speed if self.fit.fits else _Speed()
        return MemorySaving(
            code=code,
            saved_bytes=saved,
            per_device_bytes=size,
            fits=fits,
            tokens_per_s=1 / then.tpot_s if then.tpot_s else None,
            ttft_s=then.ttft_s,
            tpot_ratio=_ratio(then.tpot_s, now.tpot_s),
            ttft_ratio=_ratio(then.ttft_s, now.ttft_s),
            needs=needs,
        )

    def add_devices(self, catalog: Catalog) -> Iterator[MemorySaving]:
        """The fewest more devices that hold the requests; if none do, the fewest that save something."""
        larger = (self.compare("more_devices", after, hardware=after.hardware.id) for after in _with_more_devices(self.config, catalog))
        least: MemorySaving | None = None
        for way in larger:
            if way.saved_bytes > 0 and (least is None or way.fits):
                least = way
            if least is not None and least.fits:
                break
        if least is not None:
            yield least

    def leave_on_host(self) -> Iterator[MemorySaving]:
        """Weights in the host's memory: layers that the processor computes (llama.cpp), or bytes that the card reads at each step."""
        config, fit = self.config, self.fit
        if config.silicon.kind != "gpu" or on_zerogpu(config.hardware):
            return
        if traits_of(config.engine).own_files and config.gpu_layers is None:
            layers = config.spec.dimensions.layers
            on_card = layers * (_QUARTER - 1) // _QUARTER
            if not fit.fits:
                split = (config.spec, config.memory_request, config.silicon, fit.capacity_bytes)
                least = None if config.serving.cpu_moe_layers else memory.fewest_experts_on_host(*split)
                if least is not None:
                    after = replace(config, serving=keep_experts_in_host(config.serving, least))
                    moved = after.estimate().host_bytes
                    yield self.compare("experts_on_host", after, cpu_moe_layers=least, layers=layers, host_bytes=moved)
                on_card = min(memory.most_layers_on_card(*split), layers - 1)
            on_host = layers - layers_on_gpu(layers=layers, gpu_layers=on_card)
            after = replace(config, gpu_layers=on_card)
            saving = self.compare("layers_on_host", after, gpu_layers=on_card, host_layers=on_host, host_bytes=after.estimate().host_bytes)
            if on_host and saving.fits:
                yield saving
        if traits_of(config.engine).streams_weights:
            yield from self._offload()

    def _offload(self) -> Iterator[MemorySaving]:
        config, size = self.config, self.before.per_device_bytes
        weights, room = self.before.weights.bytes // config.devices, memory.host_memory(config.hardware)
        moved = -self.fit.free_bytes if self.fit.free_bytes < 0 else ceil_divide(weights, _QUARTER)
        if moved > weights or (room is not None and moved > room):
            return
        link_s = moved / find_host_link_rate(config.silicon)
        after = _Speed(*(None if now is None else now + link_s for now in self.speed))
        yield self.measure("offload", moved, size - moved, True, after, offload_bytes=moved)


def _with_more_devices(config: ServingConfig, catalog: Catalog) -> Iterator[ServingConfig]:
    """Larger counts of the same silicon: offers of the same platform, else plain cards."""
    if config.silicon.kind in {"cpu", "apple"}:
        return
    now = max(1, config.hardware.accelerator_count)
    larger: list[Hardware] = [config.hardware.with_count(count) for count in OWN_COUNTS if count > now]
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
