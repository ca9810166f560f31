"""A model on every slice of Cloud TPU, beside the GPU offers that serve the same requests.

The advisor judges the slices as it judges any offer (`lib.advisor.recommend`): bytes by the laws of memory for `vllm-tpu`, speed as
`lib.speed` predicts it, USD per million output tokens. Here they are sorted by generation: the smallest slice that holds the model, the
cheapest one per token within a limit on the time to first token, prices by region, spot and commitment, and what is known of the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from lib.advisor.gpu_tpu import Findings
from lib.advisor.recommend import recommend
from lib.advisor.result import Entry, Recommendation, Rejection
from lib.catalog import Catalog
from lib.catalog.gpu_or_tpu import OldGuidance, OptimumTpu, SpeedClaim, SupportMatrix, TpuSoftware
from lib.catalog.offers import Offer, TpuGeneration
from lib.model.spec import ModelSpec
from lib.provenance import Value
from lib.workload import OUTPUT_TOKENS, Workload

Support = Literal["passing", "untested", "not_enough_hbm"]
GPU_PLATFORMS = ("spaces", "endpoints", "jobs")
MOST_GPU_OFFERS = 3
HOME_REGION = "us-central1"
"""The region of an offer's list price."""
_NO_ENGINE = frozenset({"no_engine", "dtype_missing", "engine_form", "engine_not_here"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPrice:
    """USD per hour of a slice in one region; `None` where no price was found."""

    region: str
    on_demand: Decimal
    spot: Decimal | None
    one_year: Decimal | None
    three_years: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOption:
    """A slice and what it does with the model; `entry` is `None` where the model does not run on it, for `rejection`'s reason."""

    offer: Offer
    entry: Entry | None
    rejection: Rejection | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOption:
    """One generation of TPU for a model.

    `smallest` is the slice with the fewest chips that holds it, `cheapest` the one with the lowest price per token within the limit on
    the time to first token, `None` where there is none.
    """

    generation: TpuGeneration
    support: Support
    slices: tuple[SliceOption, ...]
    smallest: Entry | None
    cheapest: Entry | None

    @property
    def chips_needed(self) -> int | None:
        """Chips of the smallest slice that holds the work; where none does alone, of all the slices that share the requests."""
        return None if self.smallest is None else self.smallest.offer.accelerator_count * self.smallest.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceCheck:
    """The old advice on sizes beside what the laws say; `by_laws` is `None` where no slice holds the model."""

    generation: str
    advised: int
    by_laws: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuOptions:
    """A model on TPU slices, and the GPU offers with the lowest price per token within the same limit."""

    generations: tuple[GenerationOption, ...]
    gpu: tuple[Entry, ...]
    gpu_by_platform: tuple[Entry, ...]
    """The cheapest per token of each platform."""
    guidance: GuidanceCheck
    support: Support
    runs_on_optimum: bool
    findings: Findings

    @property
    def best_slice(self) -> Entry | None:
        """The slice with the lowest price per token of all generations."""
        return _best_slice(self.generations)


FIRST_COMPILE, CACHED_COMPILE = "20 to 30 minutes", "5 minutes"
"""The first start of vLLM on TPU, and a later one from its cache (rule `shapes_every_step` names the source)."""


def find_general_values(catalog: Catalog, software: TpuSoftware) -> dict[str, Mapping[str, Value]]:
    """Figures of today's parts that the sentences of the rules name, by question; no model is needed for them."""
    listed = [offer for offer in catalog.offers if offer.listed and offer.silicon is not None]
    gpus = [offer.accelerator_count for offer in listed if offer.silicon is not None and offer.silicon.kind == "gpu"]
    slices = [offer for offer in listed if offer.tpu is not None]
    trillium = next(offer.tpu.generation for offer in slices if offer.tpu is not None and offer.tpu.generation.id == "v6e")
    chip, terms = catalog.accelerator(trillium.accelerator), software.terms(trillium.id)
    money: dict[str, Value] = {"list_usd": trillium.usd_per_chip_hour[HOME_REGION]}
    if terms is not None:
        by_years = {each.years: each.usd_per_chip_hour for each in terms.commitments}
        money |= {"spot_usd": terms.usd_per_chip_hour_spot[HOME_REGION], "one_year_usd": by_years[1], "three_years_usd": by_years[3]}
    compiling: dict[str, Value] = {"first_minutes": FIRST_COMPILE, "cached_minutes": CACHED_COMPILE}
    return {
        "shapes": compiling,
        "chips": {"largest_slice": max(offer.accelerator_count for offer in slices), "largest_gpu_offer": max(gpus)},
        "latency": {"v6e_flop_per_byte": round((chip.peak("bf16") or 0) / chip.bandwidth)},
        "budget": money,
    }


def find_tpu_options(spec: ModelSpec, workload: Workload, catalog: Catalog, software: TpuSoftware, *, max_ttft_s: float = 0) -> TpuOptions:
    """Judge every slice and every GPU offer; `max_ttft_s` = 0 sets no limit. The platforms of `workload` are not read."""
    on_tpu = _judge_at_full_length(spec, replace(workload, platforms=("tpu",)), catalog)
    on_gpu = _judge_at_full_length(spec, replace(workload, platforms=GPU_PLATFORMS), catalog)
    generations = tuple(_by_generation(spec, on_tpu, software, max_ttft_s))
    gpu_entries = [entry for entry in on_gpu.ranked if entry.offer.silicon is not None and entry.offer.silicon.kind == "gpu"]
    cheapest = _cheapest_first(gpu_entries, max_ttft_s)
    gpu = _one_per_silicon(cheapest)
    support = _best_support([option.support for option in generations])
    v5e = next(option for option in generations if option.generation.id == software.guidance.generation)
    return TpuOptions(
        generations=generations,
        gpu=gpu,
        gpu_by_platform=tuple({entry.offer.platform: entry for entry in reversed(cheapest)}.values()),
        guidance=check_guidance(spec.parameters_total, v5e.chips_needed, software.guidance),
        support=support,
        runs_on_optimum=runs_on_optimum(spec, software.optimum),
        findings=_find(spec, on_tpu, gpu_entries, generations, gpu, support, max_ttft_s, software.support),
    )


def _judge_at_full_length(spec: ModelSpec, workload: Workload, catalog: Catalog) -> Recommendation:
    """What holds all sequences at their full length at once, as a static cache does, with the speed and price of the usual request.

    An engine with pages would take fewer bytes and let the rest wait.
    """
    usual = {(entry.offer.platform, entry.offer.id): entry for entry in recommend(spec, workload, catalog).ranked}
    longest = min(workload.context_tokens, spec.context_limit or workload.context_tokens)
    output = min(OUTPUT_TOKENS, max(1, longest // 2))
    full = replace(workload, prompt_tokens=max(1, longest - output), output_tokens=output)
    judged = recommend(spec, full, catalog)
    entries = tuple(_join(held, usual.get((held.offer.platform, held.offer.id))) for held in judged.ranked)
    return replace(judged, ranked=entries)


def _join(held: Entry, usual: Entry | None) -> Entry:
    """The usual request's entry with the memory of full length; `held` itself where that is another configuration."""
    if usual is None or any(getattr(usual, name) != getattr(held, name) for name in ("precision", "engine", "devices", "replicas")):
        return held
    return replace(usual, memory=held.memory, capacity_bytes=held.capacity_bytes, free_bytes=held.free_bytes)


def _by_generation(spec: ModelSpec, on_tpu: Recommendation, software: TpuSoftware, max_ttft_s: float) -> Iterable[GenerationOption]:
    runs = {entry.offer.id: entry for entry in on_tpu.ranked}
    refused = {rejection.offer.id: rejection for rejection in on_tpu.rejected}
    judged = [*(entry.offer for entry in on_tpu.ranked), *(rejection.offer for rejection in on_tpu.rejected)]
    offers = sorted(judged, key=lambda offer: offer.accelerator_count)
    generations = {offer.tpu.generation.id: offer.tpu.generation for offer in offers if offer.tpu is not None}
    for terms in software.generations:
        generation = generations[terms.id]
        own = [offer for offer in offers if offer.tpu is not None and offer.tpu.generation.id == generation.id]
        entries = [runs[offer.id] for offer in own if offer.id in runs]
        alone = [entry for entry in entries if entry.replicas == 1] or entries
        cheapest = _cheapest_first(entries, max_ttft_s)
        yield GenerationOption(
            generation=generation,
            support=find_support(spec.id, generation.accelerator, software.support),
            slices=tuple(SliceOption(offer=offer, entry=runs.get(offer.id), rejection=refused.get(offer.id)) for offer in own),
            smallest=alone[0] if alone else None,
            cheapest=cheapest[0] if cheapest else None,
        )


def within_limit(entry: Entry, max_ttft_s: float) -> bool:
    """Whether the predicted time to first token keeps the limit; without a prediction it does not."""
    if max_ttft_s == 0:
        return True
    predicted = entry.speed.predicted
    return predicted is not None and predicted.ttft_s.value <= max_ttft_s


def _cheapest_first(entries: Iterable[Entry], max_ttft_s: float) -> list[Entry]:
    """Entries within the limit whose price per token is known, the lowest first."""
    priced = [
        (entry.cost.usd_per_million_output_tokens, entry.offer.accelerator_count, at, entry)
        for at, entry in enumerate(entries)
        if entry.cost.usd_per_million_output_tokens is not None and entry.cost.usd_per_hour > 0 and within_limit(entry, max_ttft_s)
    ]
    return [entry for *_, entry in sorted(priced, key=lambda each: each[:3])]


def _one_per_silicon(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The first entry of each card and count: platforms rent out the same ones."""
    first: dict[tuple[str | None, int], Entry] = {}
    for entry in entries:
        first.setdefault((entry.offer.accelerator, entry.offer.accelerator_count), entry)
    return tuple(first.values())[:MOST_GPU_OFFERS]


def find_support(model: str, accelerator: str, matrix: SupportMatrix) -> Support:
    """What the matrix says of a model on a chip; a model or a chip that it does not list is untested."""
    for row in matrix.rows:
        named = row.model.casefold()
        wanted = model.casefold()
        if row.accelerator == accelerator and (named == wanted or named.startswith(f"{wanted}/")):
            checks = (row.unit_test, row.accuracy)
            if "not enough hbm" in checks:
                return "not_enough_hbm"
            return "passing" if checks == ("passing", "passing") else "untested"
    return "untested"


def _best_support(found: Iterable[Support]) -> Support:
    """Of several chips: passing on one is passing."""
    kinds = set(found)
    order: tuple[Support, ...] = ("passing", "not_enough_hbm", "untested")
    return next(kind for kind in order if kind in kinds)


def runs_on_optimum(spec: ModelSpec, optimum: OptimumTpu) -> bool:
    """Whether the model is of a family that Optimum TPU lists."""
    return spec.model_type in optimum.families


def check_guidance(parameters: int, by_laws: int | None, guidance: OldGuidance) -> GuidanceCheck:
    """The advice for a model of this size: one chip up to the limit, several above."""
    advised = 1 if parameters <= guidance.one_chip_parameters else guidance.chips_above
    return GuidanceCheck(generation=guidance.generation, advised=advised, by_laws=by_laws)


def list_region_prices(offer: Offer, software: TpuSoftware) -> tuple[RegionPrice, ...]:
    """USD per hour of a slice in every region, the cheapest first. A commitment is priced where the list price is the lowest.

    Empty for an offer that is not a TPU slice.
    """
    if offer.tpu is None:
        return ()
    chips, generation = offer.accelerator_count, offer.tpu.generation
    terms = software.terms(generation.id)
    listed = generation.usd_per_chip_hour
    lowest = min(listed.values())
    rows = []
    for region, price in sorted(listed.items(), key=lambda item: (item[1], item[0])):
        spot = None if terms is None else terms.usd_per_chip_hour_spot.get(region)
        years = {} if terms is None or price > lowest else {each.years: each.usd_per_chip_hour * chips for each in terms.commitments}
        rows.append(
            RegionPrice(
                region=region,
                on_demand=price * chips,
                spot=None if spot is None else spot * chips,
                one_year=years.get(1),
                three_years=years.get(3),
            )
        )
    return tuple(rows)


def rescale_usd_per_million(entry: Entry, usd_per_hour: Decimal) -> Decimal | None:
    """The price of a million tokens at another price per hour; the speed is the same."""
    price = entry.cost.usd_per_million_output_tokens
    return None if price is None else price * usd_per_hour / entry.cost.usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A prediction multiplied by a vendor's claim, from its low to its high end; nothing here was measured."""

    tokens_per_s_low: float
    tokens_per_s_high: float
    usd_per_million_low: Decimal
    usd_per_million_high: Decimal


def apply_claim(entry: Entry, claim: SpeedClaim) -> WhatIf | None:
    """The throughput and price per token if the claim held for this model; `None` without a prediction."""
    price, predicted = entry.cost.usd_per_million_output_tokens, entry.speed.predicted
    if price is None or predicted is None or predicted.output_tokens_per_s is None:
        return None
    rate = predicted.output_tokens_per_s.value
    return WhatIf(
        tokens_per_s_low=rate * float(claim.faster_low),
        tokens_per_s_high=rate * float(claim.faster_high),
        usd_per_million_low=price / claim.faster_high,
        usd_per_million_high=price / claim.faster_low,
    )


def _find(
    spec: ModelSpec,
    on_tpu: Recommendation,
    gpu_entries: list[Entry],
    generations: tuple[GenerationOption, ...],
    gpu: tuple[Entry, ...],
    support: Support,
    max_ttft_s: float,
    matrix: SupportMatrix,
) -> Findings:
    """What the decision can use of all this."""
    named = spec.source != "rule_of_thumb"
    unrunnable = not on_tpu.ranked and all(rejection.reason.code in _NO_ENGINE for rejection in on_tpu.rejected)
    tpu_best = _best_slice(generations)
    gpu_best = gpu[0] if gpu else None
    prices: dict[str, Value] = {}
    if tpu_best is not None and gpu_best is not None:
        prices = {
            "tpu": tpu_best.offer.id,
            "gpu": gpu_best.offer.id,
            "tpu_usd": _usd(tpu_best),
            "gpu_usd": _usd(gpu_best),
        }
    fits = "no_gpu_offer" if not gpu_entries and on_tpu.ranked else "no_tpu_slice" if gpu_entries and not on_tpu.ranked else "both"
    values: dict[str, Mapping[str, Value]] = {
        "engine": {"model": spec.id, "task": on_tpu.task},
        "support": {"model": spec.id, "package": matrix.package, "release": matrix.release, "checked": matrix.checked},
        "fits": {"model": spec.id},
        "ttft": {"max_ttft_s": max_ttft_s},
        "tpu_price": prices,
    }
    return Findings(
        engine="none_on_tpu" if unrunnable and support != "passing" else "some",
        support=support if named and not unrunnable else "",
        fits="" if unrunnable else fits,  # type: ignore[arg-type]
        ttft=_who_keeps_limit(tpu_best, gpu_best) if max_ttft_s and not unrunnable else "",
        tpu_price=round(100 * _usd(tpu_best) / _usd(gpu_best)) if tpu_best is not None and gpu_best is not None else None,
        values=values,
    )


def _best_slice(generations: Iterable[GenerationOption]) -> Entry | None:
    return min((each.cheapest for each in generations if each.cheapest is not None), key=_usd, default=None)


def _usd(entry: Entry) -> Decimal:
    price = entry.cost.usd_per_million_output_tokens
    return Decimal("Infinity") if price is None else price


def _who_keeps_limit(tpu: Entry | None, gpu: Entry | None) -> Literal["both", "neither", "gpu_only", "tpu_only"]:
    if tpu is None:
        return "neither" if gpu is None else "gpu_only"
    return "tpu_only" if gpu is None else "both"
