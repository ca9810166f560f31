"""Ways to save memory on the same hardware: each with the bytes that a device saves, and what that costs in speed.

Every way is an alternative to what runs today: estimate and prediction are asked again with one thing changed. Two are not settings of the
laws:

    kernel     the attention scores that a fused kernel would not hold (`lib.memory.attention_scores`); it is not slower
    offload    some of the weights stay in the host's memory and cross its link at every step: TPOT' = TPOT + bytes / link, TTFT' alike

Offloaded are the bytes that are missing, or a quarter of the weights where nothing is missing. All of them are counted at each step, so the
price is an upper bound for mixtures of experts and for links that are read while the card computes.
Source: vLLM `cpu_offload_gb` (docs.vllm.ai, model_executor/offloader, UVA), transformers `device_map="auto"` (accelerate).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lib.advisor.limits import ServingSetup, Targets, on_zerogpu, resolve_setup, try_precisions
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.catalog.silicon import Cards
from lib.engines import traits_of
from lib.errors import BadArgument
from lib.laws.parallelism import ceil_divide, layers_on_gpu
from lib.memory import attention_scores, estimate_memory, host_memory, most_layers_on_card
from lib.provenance import Value
from lib.speed import Band, SpeedEstimate
from lib.speed.hardware import find_host_link_rate

MemorySavingCode = Literal[
    "precision", "cache_precision", "shorter_context", "fewer_requests", "kernel", "offload", "layers_on_host", "more_devices"
]
OFFLOADS = frozenset({"transformers", "vllm"})
"""Engines that leave weights in the host's memory and read them from there at each step. llama.cpp leaves whole layers to the processor,
which has laws of its own (`gpu_layers`)."""
_QUARTER = 4
_NO_TARGETS = Targets()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySaving:
    """One way: bytes of the fullest device before and after, whether it fits then, and how fast a request is then against today.

    `saved_bytes` is negative where the way takes more. The ratios are seconds after / before, None without a prediction. `needs` are the
    settings that change, by the names of the API.
    """

    code: MemorySavingCode
    saved_bytes: int
    per_device_bytes: int
    fits: bool
    tpot_ratio: float | None
    ttft_ratio: float | None
    needs: Mapping[str, Value] = field(default_factory=dict)


def find_memory_savings(of: ServingSetup, catalog: Catalog) -> tuple[MemorySaving, ...]:
    """Every way that saves something, the most bytes first."""
    before, speed = of.per_device_bytes(), of.predict()
    ways = [*_settings(of, before, speed), *_kernel(of, before), *_offload(of, before, speed), *_more_devices(of, before, speed, catalog)]
    return tuple(sorted((one for one in ways if one.saved_bytes > 0), key=lambda one: -one.saved_bytes))


def _settings(of: ServingSetup, before: int, speed: SpeedEstimate | None) -> Iterator[MemorySaving]:
    """One argument of the estimate changed."""
    for tried in try_precisions(of, _NO_TARGETS)[1:]:
        yield _compare("precision", replace(of, precision=tried.precision), before, speed, {"precision": tried.precision})
    small = traits_of(of.engine).small_cache
    if of.spec.cache_terms is not None and of.kv_precision != small:
        yield _compare("cache_precision", replace(of, kv_precision=small), before, speed, {"kv_precision": small})
    if of.context_tokens > 1:
        half = of.context_tokens // 2
        yield _compare("shorter_context", replace(of, context_tokens=half), before, speed, {"context_tokens": half})
    if of.requests > 1:
        fewer = of.requests // 2
        yield _compare("fewer_requests", replace(of, requests=fewer), before, speed, {"concurrency": fewer})


def _compare(
    code: MemorySavingCode, after: ServingSetup, before_bytes: int, before: SpeedEstimate | None, needs: Mapping[str, Value]
) -> MemorySaving:
    size, speed = after.per_device_bytes(), after.predict()
    return MemorySaving(
        code=code,
        saved_bytes=before_bytes - size,
        per_device_bytes=size,
        fits=after.fit().fits,
        tpot_ratio=_ratio(None if before is None else before.tpot_s, None if speed is None else speed.tpot_s),
        ttft_ratio=_ratio(None if before is None else before.ttft_s, None if speed is None else speed.ttft_s),
        needs=needs,
    )


def _ratio(before: Band[float] | None, after: Band[float] | None) -> float | None:
    return None if before is None or after is None else after.value / before.value


def _kernel(of: ServingSetup, before: int) -> Iterator[MemorySaving]:
    """The scores are beside the estimate, in its high end: they are held by a torch that has no fused kernel for this card."""
    scores = attention_scores(of.spec, of.memory_request, of.silicon)
    if scores:
        yield MemorySaving(
            code="kernel", saved_bytes=scores, per_device_bytes=before, fits=of.fit().fits, tpot_ratio=None, ttft_ratio=None
        )  # fmt: skip


def _offload(of: ServingSetup, before: int, speed: SpeedEstimate | None) -> Iterator[MemorySaving]:
    if of.silicon.kind != "gpu" or on_zerogpu(of.hardware):
        return
    if of.engine == "llama.cpp" and of.gpu_layers is None:
        yield from _leave_layers(of, before, speed)
    if of.engine not in OFFLOADS:
        return
    weights = estimate_memory(of.spec, of.memory_request, of.silicon).weights.bytes // of.devices
    fit = of.fit()
    moved = -fit.free_bytes if fit.free_bytes < 0 else ceil_divide(weights, _QUARTER)
    room = host_memory(of.hardware)
    if moved > weights or (room is not None and moved > room):
        return
    seconds = moved / find_host_link_rate(of.silicon)
    slower = [
        None if band is None else (band.value + seconds) / band.value
        for band in ((None, None) if speed is None else (speed.tpot_s, speed.ttft_s))
    ]
    yield MemorySaving(
        code="offload",
        saved_bytes=moved,
        per_device_bytes=before - moved,
        fits=True,
        tpot_ratio=slower[0],
        ttft_ratio=slower[1],
        needs={"offload_bytes": moved},
    )


def _leave_layers(of: ServingSetup, before: int, speed: SpeedEstimate | None) -> Iterator[MemorySaving]:
    """As many layers as fit stay on the card, or three quarters of them where all do; the processor computes the others."""
    layers, fit = of.spec.dimensions.layers, of.fit()
    on_card = layers * (_QUARTER - 1) // _QUARTER
    if not fit.fits:
        on_card = most_layers_on_card(of.spec, of.memory_request, of.silicon, fit.capacity_bytes)
    on_host = layers - layers_on_gpu(layers=layers, gpu_layers=on_card)
    saving = _compare("layers_on_host", replace(of, gpu_layers=on_card), before, speed, {"gpu_layers": on_card, "host_layers": on_host})
    if on_host and saving.fits:
        yield saving


def _more_devices(of: ServingSetup, before: int, speed: SpeedEstimate | None, catalog: Catalog) -> Iterator[MemorySaving]:
    """The next larger count of the same silicon: an offer of the same platform where there is one, else plain cards."""
    if of.silicon.kind in {"cpu", "apple"}:
        return
    now = max(1, of.hardware.accelerator_count)
    larger: list[Offer | Cards]
    if isinstance(of.hardware, Offer):
        own = catalog.on((of.hardware.platform,))
        larger = [one for one in own if one.accelerator == of.hardware.accelerator and one.accelerator_count > now]
    else:
        larger = [Cards(silicon=of.silicon, count=2 * now)]
    for hardware in sorted(larger, key=lambda one: one.accelerator_count):
        try:
            after = resolve_setup(
                of.spec, hardware, of.accelerators, engine=of.engine, precision=of.precision, kv_precision=of.kv_precision,
                context_tokens=of.context_tokens, output_tokens=of.output_tokens, requests=of.requests,
            )  # fmt: skip
        except BadArgument:
            continue
        saving = _compare("more_devices", after, before, speed, {"hardware": hardware.id})
        if saving.saved_bytes > 0:
            yield saving
            return
