"""`/estimate_memory`: the estimate, its parts with their laws, and every tier that it is compared with; `/solve`: the most that fits.

`/solve` also names the cheapest tier that keeps the limits, and ways to take less memory.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace

from lib import advisor, memory
from lib.advisor import limits
from lib.advisor.candidates import explain_unlisted, rate_support
from lib.advisor.limits import SLO, Limit, PrecisionTry
from lib.advisor.memory_savings import MemorySaving, find_memory_savings
from lib.advisor.result import Entry
from lib.advisor.server_start import choose_start, find_least_share, warn_of_releases, write_longest_start
from lib.advisor.setup import ServingConfig, on_zerogpu, resolve_setup
from lib.answers.memory import (
    CheapestTierEntry,
    FitEntry,
    MaximumEntry,
    MemoryAnswer,
    MemorySavingEntry,
    PrecisionTryEntry,
    ServerStartEntry,
    SolveAnswer,
    StageEntry,
)
from lib.catalog import Catalog
from lib.catalog.host_memory import HostMemoryText
from lib.catalog.offers import Hardware as AnyHardware
from lib.catalog.offers import plug_in
from lib.engines import traits_of
from lib.errors import BadArgument
from lib.memory import fit_memory, host_memory, usable_memory
from lib.memory.pipeline import resolve_size
from lib.memory.resolve import check_server, choose_engine, encoder_caveats, limit_context, picture_caveats, settle_serving
from lib.memory.spread import check_stages, split_caveats, spread
from lib.model.spec import ModelSpec
from lib.platforms import RENTED, SPACE_PLATFORMS
from lib.precision import weight_format
from lib.present.numbers import describe_speed
from lib.present.sentences import sentence
from lib.present.snippets import Start, flag_words
from lib.provenance import Caveat, Reason, Value
from lib.request.fields import Arguments
from lib.request.serving import DEFAULTS, Serving, ServingSettings, merge_setting
from lib.request.types import (
    AUTO,
    CachePrecision,
    Concurrency,
    Engine,
    FirstTokenSeconds,
    GpuLayers,
    Hardware,
    Model,
    Platforms,
    Precision,
    Tokens,
    TokensPerSecond,
)
from lib.result import fields_of
from lib.service.endpoint import App, endpoint
from lib.speed import SpeedEstimate
from lib.workload import MemoryRequest, Workload

MOST_BYTES = 10**18  # an exabyte: beyond every machine, and within the integers that JSON readers share

_EIGHT = 8
"""Bits of a weight in formats that some engines make while they load."""


class MemoryArguments(Arguments):
    """Arguments of `/estimate_memory`."""

    behind = ("hardware serving host_memory",)

    model: Model
    request: MemoryRequest = MemoryRequest()
    hardware: Hardware = ""
    """The hardware whose silicon is counted with, as in /solve; empty: a GPU of which nothing more is known."""
    host_memory: HostMemoryText = None


@endpoint()
def estimate_memory(app: App, arguments: MemoryArguments) -> MemoryAnswer:
    """Count a model's memory, part by part, and find the hardware that holds it.

    Returns:
        The estimate, its parts with their laws, and the hardware it fits.
    """
    catalog = app.catalog()
    hardware = plug_in(catalog.resolve_hardware(arguments.hardware), arguments.host_memory) if arguments.hardware != "" else None
    spec = app.models(arguments.model)
    return memory_answer(spec, memory_request(spec, arguments), catalog, hardware)


def memory_request(spec: ModelSpec, arguments: MemoryArguments) -> MemoryRequest:
    """The arguments as the laws take them."""
    request, serving = arguments.request, arguments.request.serving
    resolve_size(spec, request.pictures)
    check_server(spec, choose_engine(spec, request.engine), serving, limit_context(spec, request.context_tokens)[0], request.batch_size)
    check_stages(spec, serving.pipeline_parallel or 1)
    if serving.sets_devices and serving.tensor_parallel:
        cards = serving.tensor_parallel * (serving.pipeline_parallel or 1)
        merge_setting("devices", request.devices, 1, "tensor_parallel", cards)
    return request


def memory_answer(spec: ModelSpec, request: MemoryRequest, catalog: Catalog, hardware: AnyHardware | None = None) -> MemoryAnswer:
    """The estimate on the silicon of the hardware (`None`: unnamed), and the fit on each tier of Spaces with its own, after own cards."""
    counted, cut = limit_context(spec, request.context_tokens)
    request = replace(request, context_tokens=counted)
    estimate = memory.estimate_memory(spec, request, None if hardware is None else hardware.processor)
    if estimate.total_bytes > MOST_BYTES:
        product = f"{request.batch_size:,} × {request.context_tokens:,}"
        raise BadArgument("batch_size × context_tokens", product, "a request that takes less than an exabyte (10^18 bytes)")
    parts = (estimate.weights, estimate.kv_cache, estimate.activation, estimate.runtime)
    places = (*((hardware,) if hardware is not None and hardware.traits.owned else ()), *catalog.on(SPACE_PLATFORMS))
    return MemoryAnswer(
        model=spec.id,
        precision=estimate.precision,
        kv_precision=estimate.kv_precision,
        engine=estimate.engine,
        weights_bytes=estimate.weights.bytes,
        kv_cache_bytes=estimate.kv_cache.bytes,
        activation_bytes=estimate.activation.bytes,
        runtime_bytes=estimate.runtime.bytes,
        total_bytes=estimate.total_bytes,
        low_bytes=estimate.low_bytes,
        high_bytes=estimate.high_bytes,
        per_device_bytes=estimate.per_device_bytes,
        host_bytes=estimate.host_bytes,
        rule_of_thumb_bytes=estimate.rule_of_thumb_bytes,
        parts=parts,
        stages=tuple(
            StageEntry(
                name=stage.name,
                weights_bytes=sum(stage.weights.values()),
                activation_bytes=stage.activation,
                total_bytes=stage.total,
            )
            for stage in estimate.stages
        ),
        fits=tuple(_fits(spec, request, places)),
        caveats=(
            *cut,
            *spec.caveats,
            *estimate.caveats,
            *encoder_caveats(spec, request.encoder_tokens),
            *picture_caveats(spec, request),
            *([] if request.serving.sets_devices else split_caveats(spec, estimate.engine, request.devices)),
            *waiting_caveats(request.batch_size, request.serving),
        ),
        sources=(*spec.sources, *estimate.sources),
    )


def waiting_caveats(requests: int, serving: Serving) -> tuple[Caveat, ...]:
    """Requests beyond those that the server runs at once."""
    most = None if serving.sequences is None else serving.sequences * (serving.data_parallel or 1)
    return () if most is None or requests <= most else (Caveat("requests_wait", {"concurrency": requests, "running_requests": most}),)


def _devices(spec: ModelSpec, request: MemoryRequest, offer: AnyHardware) -> int:
    """Cards of the offer that share the model: as many as the engine spreads it over, or as were asked for."""
    count = max(1, offer.accelerator_count)
    if request.serving.sets_devices and request.serving.devices > count:
        return settle_serving(request).devices
    most = spread(spec, request.engine, offer, request.serving).devices
    return most if request.devices == 1 or request.serving.sets_devices else min(request.devices, count)


def _fits(spec: ModelSpec, request: MemoryRequest, places: Iterable[AnyHardware]) -> Iterator[FitEntry]:
    request = replace(request, engine=choose_engine(spec, request.engine))
    traits = traits_of(request.engine)
    for offer in places:
        capacity = usable_memory(offer)
        if capacity is None:
            continue
        devices = _devices(spec, request, offer)
        host_bytes = host_memory(offer, experts=bool(request.serving.cpu_moe_layers))
        fit = fit_memory(spec, replace(request, devices=devices), capacity, offer.processor, host_bytes=host_bytes)
        runs = traits.runs_on(offer.processor, sparse=spec.sparse_attention) and (traits.on_zerogpu or not offer.traits.per_call)
        if not runs or request.serving.devices > max(1, offer.accelerator_count):
            fit = replace(fit, fits=False, max_context_tokens=0, max_batch_size=0, kv_cache_tokens=None)
        yield FitEntry(
            **fields_of(fit),
            hardware=offer.id,
            platform=offer.platform,
            name=offer.name,
            accelerator=offer.accelerator,
            accelerator_count=offer.accelerator_count,
            devices=devices,
            usd_per_hour=offer.usd_per_hour,
        )


class SolveArguments(Arguments):
    """Arguments of `/solve`."""

    model: Model
    hardware: Hardware
    """An id such as l4x1, zero-a10g or v6e-8, or plain silicon with a count such as RTX-4090x2."""
    context_tokens: Tokens = 4096
    """Tokens of each request, prompt and answer together."""
    concurrency: Concurrency = 1
    """Requests at a time."""
    max_ttft_s: FirstTokenSeconds = 0
    """Longest time to the first token in seconds; 0 sets no limit."""
    min_tokens_per_s: TokensPerSecond = 0
    """Tokens per second that each request must get; 0 sets no limit."""
    precision: Precision = "auto"
    kv_precision: CachePrecision = "auto"
    engine: Engine = "transformers"
    output_tokens: Tokens = 256
    """Tokens of an answer, of those of a request; half of them at most."""
    gpu_layers: GpuLayers = None
    platforms: Platforms = ("spaces", "zerogpu")
    """Platforms of the cheapest tier: comma list as in /recommend; those where visitors pay are left out."""
    serving: ServingSettings = DEFAULTS

    @property
    def slo(self) -> SLO:
        """The limits."""
        return SLO(max_ttft_s=self.max_ttft_s, min_tokens_per_s=self.min_tokens_per_s)


@endpoint(heavy=True)
def solve(app: App, arguments: SolveArguments) -> SolveAnswer:
    """Longest context, most requests, largest batch, best precision and cheapest tier within limits, and ways to take less memory.

    Returns:
        Each answer with what limits it: it fits and keeps the limits, and one more does not.
    """
    catalog, spec, slo = app.catalog(), app.models(arguments.model), arguments.slo
    hardware = catalog.resolve_hardware(arguments.hardware)
    longest, cut = limit_context(spec, arguments.context_tokens)
    config = resolve_setup(
        spec, hardware, catalog.accelerators,
        engine=arguments.engine, precision=arguments.precision, kv_precision=arguments.kv_precision,
        context_tokens=longest, output_tokens=arguments.output_tokens, requests=arguments.concurrency,
        gpu_layers=arguments.gpu_layers, serving=arguments.serving,
    )  # fmt: skip
    estimate, fit = config.estimate(), config.fit()
    speed = config.predict() if fit.fits else None
    tries, ways = limits.try_precisions(config, slo), find_memory_savings(config, catalog)
    failure = limits.find_failure(config)
    fits, best = fit.fits and failure is None, None if failure else limits.best_precision(tries)
    length = limits.find_longest_context(config, slo)
    roomiest = limits.find_roomiest(config, tries, slo) if length.value == 0 else None
    open_points = (
        (True, Caveat("full_length")),
        (fit.fits and speed is None and slo.any_set, Caveat("limits_not_checked")),
        (on_zerogpu(hardware) and arguments.concurrency > 1, Caveat("calls_not_shared", {"concurrency": arguments.concurrency})),
        (any(way.code == "offload" for way in ways), Caveat("offload_price")),
        *((True, Caveat(why.code, why.values, variant=why.variant)) for why in (failure, _unlisted(config)) if why is not None),
        *((True, caveat) for caveat in (*_fewer_cards(config, slo), *warn_of_releases(config))),
        *((True, caveat) for caveat in (*waiting_caveats(config.requests, config.serving), *_loading_caveats(config))),
    )
    return SolveAnswer(
        model=spec.id,
        hardware=hardware.id,
        platform=hardware.rented_from,
        name=hardware.name,
        precision=estimate.precision,
        engine=estimate.engine,
        devices=config.devices,
        copies=config.copies,
        context_tokens=config.context_tokens,
        concurrency=config.requests,
        fits=fits,
        per_device_bytes=estimate.per_device_bytes,
        capacity_bytes=fit.capacity_bytes,
        free_bytes=fit.free_bytes,
        meets_limits=fits and slo.missed_limit(speed) is None,
        ttft_s=None if speed is None else speed.ttft_s.value,
        tokens_per_s=_rate(speed),
        longest_context=_maximum(length, config, slo, best, roomiest),
        most_requests=_maximum(limits.find_most_requests(config, slo), config, slo, best, roomiest),
        largest_batch=_maximum(limits.find_largest_batch(config), config, slo, best, roomiest),
        best_precision=best,
        precisions=tuple(map(_precision, tries)),
        cheapest=_find_cheapest(config, arguments, catalog),
        memory_savings=tuple(map(_way, ways)),
        server=_start_server(config),
        caveats=(*cut, *(caveat for holds, caveat in open_points if holds), *spec.caveats, *estimate.caveats),
        sources=(*spec.sources, *estimate.sources),
    )


def _fewer_cards(config: ServingConfig, slo: limits.SLO) -> Iterator[Caveat]:
    """That fewer of the cards meet the limits, with the number."""
    found = limits.find_fewer_cards(config, slo) if config.devices > 1 and slo.any_set else None
    if found is not None:
        count, speed = found
        rate = _rate(speed) or 0.0
        yield Caveat("fewer_cards", {"used": count, "devices": config.devices, "ttft_s": speed.ttft_s.value, "tokens_per_s": rate})


def _unlisted(config: ServingConfig) -> Reason | None:
    """That the engine's own list of models lacks this one; TPUs have tests of their own."""
    rated = rate_support(config.spec, config.engine, config.hardware)
    return explain_unlisted(config.spec, config.engine, config.hardware) if rated is None else None


def _loading_caveats(config: ServingConfig) -> Iterator[Caveat]:
    """That the weights fit only if they are stored in 8 bits: an engine that makes them on load may hold all of them unquantized first.

    transformers and bitsandbytes quantize tensor by tensor.
    """
    request, spec = config.memory_request, config.spec
    now = memory.count_per_device(spec, request, config.silicon)
    form, traits = weight_format(now.request.precision), traits_of(now.request.engine)
    if form.bits != _EIGHT or form.takes != "stack" or traits.own_modules or spec.stored.quantization is not None:
        return
    whole = memory.count_per_device(spec, replace(request, precision=AUTO), config.silicon).device_weights
    if now.device_weights <= config.memory_bytes < whole:
        yield Caveat("whole_while_loading", {"precision": form.name, "whole_bytes": whole, "memory_bytes": config.memory_bytes})


def _start_server(config: ServingConfig) -> ServerStartEntry:
    """The least share, the cache of the requests, and the flags; those of `/write_files` with the same settings."""
    request = settle_serving(config.memory_request)
    of, tokens, batch = memory.count_per_device(config.spec, request, config.silicon), request.context_tokens, request.batch_size
    held, traits = of.worst_cache(tokens, batch), traits_of(config.engine)
    least = find_least_share(config)
    started = choose_start(config, least)
    if started is None or traits.command is None:
        return ServerStartEntry(
            least_gpu_memory_utilization=least,
            kv_cache_bytes=held,
            kv_cache_tokens=None,
            flags="",
            cache_flag="",
            cache_flag_tokens=None,
            shorter_flag=write_longest_start(config),
        )
    # vLLM keeps one block of the cache empty, and starts only if one request of max_model_len fits.
    longest = max(tokens, request.serving.longest_tokens(batch) or 0)
    a_block_more = max(of.worst_cache(tokens + traits.block_tokens, batch), of.worst_cache(longest + traits.block_tokens, 1))
    all_tokens = max(tokens * batch, longest)
    sized = bool(held) and bool(traits.command.cache_flag)
    cache = None if config.kv_precision == AUTO else config.kv_precision
    start = Start(
        precision=started.estimate().precision,
        devices=started.devices,
        context_tokens=started.context_tokens,
        sequences=started.requests,
        on_gpu=config.silicon.kind != "cpu",
        gpu_layers=-1 if config.gpu_layers is None else config.gpu_layers,
        serving=replace(started.serving, kv_cache_dtype=cache),
    )
    return ServerStartEntry(
        least_gpu_memory_utilization=least,
        kv_cache_bytes=held,
        kv_cache_tokens=started.fit().kv_cache_tokens,
        flags=shlex.join(flag_words(config.engine, start)),
        cache_flag=traits.command.cache_flag.format(bytes=a_block_more, tokens=all_tokens) if sized else "",
        cache_flag_tokens=_count_flag_tokens(started, a_block_more, all_tokens) if sized else None,
        shorter_flag="",
    )


def _count_flag_tokens(config: ServingConfig, cache_bytes: int, all_tokens: int) -> int | None:
    """Tokens of the KV cache of so many bytes on each device; of an engine whose flag states tokens, these."""
    if "kv_cache_memory_bytes" not in traits_of(config.engine).settings:
        return all_tokens
    return replace(config, serving=replace(config.serving, kv_cache_memory_bytes=cache_bytes)).fit().kv_cache_tokens


def _rate(speed: SpeedEstimate | None) -> float | None:
    rate = None if speed is None else speed.decode_tokens_per_s
    return None if rate is None else rate.value


def _maximum(most: Limit, config: ServingConfig, slo: SLO, smaller: str | None, roomiest: tuple[str, int] | None) -> MaximumEntry:
    """A maximum in words; if nothing fits, with the format that does (`smaller`), and the one that holds the longest context."""
    values: dict[str, Value] = {
        "engine": config.engine,
        "max_ttft_s": slo.max_ttft_s,
        "min_tokens_per_s": slo.min_tokens_per_s,
        "precision": smaller or "",
        "roomiest": roomiest[0] if roomiest else "",
        "context_tokens": roomiest[1] if roomiest else 0,
    }
    variant = f"{most.limited_by}_none" if most.value == 0 else most.limited_by
    if variant == "memory_none" and smaller is not None:
        variant = "memory_none_roomier" if roomiest and roomiest[0] != smaller else "memory_none_smaller"
    return MaximumEntry(value=most.value, limited_by=most.limited_by, message=sentence(Reason("limited", values, variant=variant)))


def _precision(tried: PrecisionTry) -> PrecisionTryEntry:
    speed = tried.speed if tried.fits else None
    return PrecisionTryEntry(
        precision=tried.precision,
        fits=tried.fits,
        weights_bytes=tried.weights_bytes,
        per_device_bytes=tried.per_device_bytes,
        meets_limits=tried.fits and tried.missed_limit is None,
        ttft_s=None if speed is None else speed.ttft_s.value,
        tokens_per_s=_rate(speed),
    )


def _way(way: MemorySaving) -> MemorySavingEntry:
    needs = {name: value if isinstance(value, int) else str(value) for name, value in way.needs.items()}
    return MemorySavingEntry(
        **{**fields_of(way), "needs": needs},
        message=sentence(Reason("memory_saving", dict(way.needs), variant=way.code)),
        effect=describe_speed(way.tokens_per_s, way.ttft_s, way.tpot_ratio, way.ttft_ratio) if way.fits else "does not fit",
    )


def _find_cheapest(config: ServingConfig, arguments: SolveArguments, catalog: Catalog) -> CheapestTierEntry | None:
    """The cheapest of the offers that the advisor lets pass: any engine, and fewer bits if nothing else does.

    ZeroGPU is left out, for its visitors pay with their quota.
    """
    usual = config.speed_request
    work = Workload(
        context_tokens=config.context_tokens,
        concurrency=arguments.concurrency,
        precision=arguments.precision,
        platforms=tuple(name for name in arguments.platforms if name in RENTED),
        priority="cheapest",
        prompt_tokens=usual.prompt_tokens,
        output_tokens=usual.output_tokens,
        max_ttft_s=arguments.max_ttft_s,
        min_tokens_per_s=arguments.min_tokens_per_s,
        serving=arguments.serving,
    )
    if not work.platforms:
        return None
    able = [entry for entry in advisor.recommend(config.spec, work, catalog).ranked if _meets_limits(entry, arguments.slo)]
    if not able:
        return None
    best = min(able, key=lambda entry: entry.cost.usd_per_hour * entry.replicas)
    return CheapestTierEntry(
        hardware=best.offer.id,
        platform=best.offer.platform,
        name=best.offer.name,
        precision=best.precision,
        engine=best.engine,
        replicas=best.replicas,
        usd_per_hour=best.cost.usd_per_hour * best.replicas,
        ttft_s=best.speed.ttft_s,
        tokens_per_s=best.speed.tokens_per_s,
    )


def _meets_limits(entry: Entry, slo: SLO) -> bool:
    """A limit is kept if the prediction keeps it; without a prediction it is not."""
    predicted = entry.speed.predicted
    return not slo.any_set or (predicted is not None and slo.missed_limit(predicted) is None)
