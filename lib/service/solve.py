"""`/solve`: the most that hardware takes of a model within limits, the cheapest tier that keeps them, and ways to take less memory."""

from __future__ import annotations

from lib import advisor, memory
from lib.advisor.limits import (
    Maximum,
    PrecisionTry,
    ServingSetup,
    Targets,
    best_precision,
    find_largest_batch,
    find_longest_context,
    find_most_requests,
    on_zerogpu,
    resolve_setup,
    try_precisions,
)
from lib.advisor.memory_savings import MemorySaving, find_memory_savings
from lib.advisor.result import Entry
from lib.answers.common import fill, source_entries
from lib.answers.model import CheapestTierEntry, MaximumEntry, MemorySavingEntry, PrecisionTryEntry, SolveAnswer
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.memory.resolve import limit_context
from lib.present.cards import describe_speed_change
from lib.present.sentences import caveat_entries, sentence
from lib.provenance import Caveat, Reason, Value
from lib.service.arguments import (
    Arguments,
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
    argument,
    check_hardware,
)
from lib.service.endpoint import App
from lib.speed import SpeedEstimate
from lib.workload import Workload


class SolveArguments(Arguments):
    """Arguments of `/solve`."""

    model: Model
    hardware: Hardware = argument(..., "an id such as l4x1, zero-a10g or v6e-8, or plain silicon with a count such as RTX-4090x2")
    context_tokens: Tokens = argument(4096, "tokens of each request, prompt and answer together")
    concurrency: Concurrency = argument(1, "requests at a time")
    max_ttft_s: FirstTokenSeconds = argument(0, "longest time to the first token in seconds; 0 sets no limit")
    min_tokens_per_s: TokensPerSecond = argument(0, "tokens per second that each request must get; 0 sets no limit")
    precision: Precision = "auto"
    kv_precision: CachePrecision = "auto"
    engine: Engine = "transformers"
    output_tokens: Tokens = argument(256, "tokens of an answer, of those of a request; half of them at most")
    gpu_layers: GpuLayers = -1
    platforms: Platforms = argument("spaces", "where the cheapest tier is looked for: comma list of spaces, endpoints, jobs, tpu, all")

    @property
    def targets(self) -> Targets:
        """The limits."""
        return Targets(max_ttft_s=self.max_ttft_s, min_tokens_per_s=self.min_tokens_per_s)


def solve(app: App, arguments: SolveArguments) -> SolveAnswer:
    """Longest context, most requests, largest batch, best precision and cheapest tier within limits, and ways to take less memory.

    Returns:
        Each answer with what limits it: it fits and keeps the limits, and one more does not.
    """
    catalog, spec, targets = app.catalog(), app.models(arguments.model), arguments.targets
    hardware = check_hardware(catalog, arguments.hardware)
    longest, cut = limit_context(spec, arguments.context_tokens)
    of = resolve_setup(
        spec, hardware, catalog.accelerators,
        engine=arguments.engine, precision=arguments.precision, kv_precision=arguments.kv_precision,
        context_tokens=longest, output_tokens=arguments.output_tokens, requests=arguments.concurrency,
        gpu_layers=None if arguments.gpu_layers < 0 else arguments.gpu_layers,
    )  # fmt: skip
    estimate, fit, speed = memory.estimate_memory(spec, of.memory_request, of.silicon), of.fit(), of.predict()
    tries, ways = try_precisions(of, targets), find_memory_savings(of, catalog)
    open_points = (
        (True, Caveat("full_length")),
        (speed is None and targets.any_set, Caveat("limits_not_checked")),
        (on_zerogpu(hardware) and arguments.concurrency > 1, Caveat("calls_not_shared", {"concurrency": arguments.concurrency})),
        (any(way.code == "offload" for way in ways), Caveat("offload_price")),
    )
    return fill(
        SolveAnswer,
        estimate,
        fit,
        of,
        model=spec.id,
        hardware=hardware.id,
        platform=hardware.platform if isinstance(hardware, Offer) else "",
        name=hardware.name,
        concurrency=of.requests,
        meets_limits=targets.missed_limit(speed) is None,
        ttft_s=None if speed is None else speed.ttft_s.value,
        tokens_per_s=_rate(speed),
        longest_context=_maximum(find_longest_context(of, targets), of, targets),
        most_requests=_maximum(find_most_requests(of, targets), of, targets),
        largest_batch=_maximum(find_largest_batch(of), of, targets),
        best_precision=best_precision(tries),
        precisions=[_precision(each) for each in tries],
        cheapest=_find_cheapest(of, arguments, catalog),
        memory_savings=[_way(way) for way in ways],
        caveats=caveat_entries((*cut, *(caveat for holds, caveat in open_points if holds), *spec.caveats, *estimate.caveats)),
        sources=source_entries((*spec.sources, *estimate.sources)),
    )


def _rate(speed: SpeedEstimate | None) -> float | None:
    rate = None if speed is None else speed.decode_tokens_per_s
    return None if rate is None else rate.value


def _maximum(most: Maximum, of: ServingSetup, targets: Targets) -> MaximumEntry:
    values: dict[str, Value] = {
        "engine": of.engine,
        "max_ttft_s": targets.max_ttft_s,
        "min_tokens_per_s": targets.min_tokens_per_s,
    }
    variant = f"{most.limited_by}_none" if most.value == 0 else most.limited_by
    return {"value": most.value, "limited_by": most.limited_by, "message": sentence(Reason("limited", values, variant=variant))}


def _precision(tried: PrecisionTry) -> PrecisionTryEntry:
    return fill(
        PrecisionTryEntry,
        tried,
        meets_limits=tried.missed_limit is None,
        ttft_s=None if tried.speed is None else tried.speed.ttft_s.value,
        tokens_per_s=_rate(tried.speed),
    )


def _way(way: MemorySaving) -> MemorySavingEntry:
    return fill(
        MemorySavingEntry,
        way,
        message=sentence(Reason("memory_saving", dict(way.needs), variant=way.code)),
        effect=describe_speed_change(way.tpot_ratio, way.ttft_ratio),
        needs={name: value if isinstance(value, int) else str(value) for name, value in way.needs.items()},
    )


def _find_cheapest(of: ServingSetup, arguments: SolveArguments, catalog: Catalog) -> CheapestTierEntry | None:
    """The cheapest of the offers that the advisor lets pass: any engine, and fewer bits where nothing else does.

    ZeroGPU is left out, for its visitors pay with their quota.
    """
    usual = of.speed_request
    work = Workload(
        context_tokens=of.context_tokens,
        concurrency=arguments.concurrency,
        precision=arguments.precision,
        platforms=tuple(platform for platform in arguments.platforms if platform != "zerogpu"),
        priority="cheapest",
        prompt_tokens=usual.prompt_tokens,
        output_tokens=usual.output_tokens,
        max_ttft_s=arguments.max_ttft_s,
        min_tokens_per_s=arguments.min_tokens_per_s,
    )
    if not work.platforms:
        return None
    able = [entry for entry in advisor.recommend(of.spec, work, catalog).ranked if _meets_limits(entry, arguments.targets)]
    if not able:
        return None
    best = min(able, key=lambda entry: entry.cost.usd_per_hour * entry.replicas)
    return fill(
        CheapestTierEntry, best.offer, best, best.speed, hardware=best.offer.id, usd_per_hour=float(best.cost.usd_per_hour * best.replicas)
    )


def _meets_limits(entry: Entry, targets: Targets) -> bool:
    """A limit is kept by what is predicted; without a prediction nothing says that it is."""
    predicted = entry.speed.predicted
    return not targets.any_set or (predicted is not None and targets.missed_limit(predicted) is None)
