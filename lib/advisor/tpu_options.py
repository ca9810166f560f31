"""A model on every slice of Cloud TPU, and on the GPU offers that serve the same requests.

The advisor judges the slices as it judges any offer (`lib.advisor.recommend`): bytes by the laws of memory for `vllm-tpu`, speed as
`lib.speed` predicts it, USD per million output tokens. Here they are sorted by generation: the smallest slice that holds the model, the
cheapest one per token within a limit on the time to first token, and the engine's support. Prices are by region, spot and commitment.
Slices have the price of the stated region and terms, GPU offers their list price, the only published one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Literal, get_args

from lib.advisor.gpu_tpu import Findings, SupportFinding
from lib.advisor.recommend import recommend
from lib.advisor.result import Entry, Recommendation, Rejection
from lib.catalog import Catalog
from lib.catalog.gpu_or_tpu import OldGuidance, SpeedClaim, Support, TpuSoftware
from lib.catalog.offers import Offer, TpuGeneration
from lib.memory.resolve import limit_context
from lib.model.spec import ModelSpec
from lib.platforms import RENTED, TPU_PLATFORMS
from lib.provenance import Value
from lib.result import Result, Usd
from lib.workload import OUTPUT_TOKENS, Workload

Commitment = Literal["on_demand", "spot", "1_year", "3_years"]
COMMITMENTS: tuple[Commitment, ...] = get_args(Commitment)
MOST_GPU_OFFERS = 3
HOME_REGION = "us-central1"
"""The region of an offer's list price."""
_FINDINGS: Mapping[Support, SupportFinding] = {"passing": "passing", "same_class": "same_class", "not_enough_hbm": "not_enough_hbm"}
_NO_ENGINE = frozenset({"no_engine", "dtype_missing", "engine_form", "engine_not_here"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPrice(Result):
    """Prices of a slice in one region; null if none was found."""

    region: str
    """Region of Google Cloud."""
    usd_per_hour: Usd
    """List price per hour."""
    spot_usd_per_hour: Usd | None
    """Spot price per hour."""
    one_year_usd_per_hour: Usd | None
    """Price per hour with a commitment of one year."""
    three_years_usd_per_hour: Usd | None
    """Price per hour with a commitment of three years."""

    def at(self, commitment: Commitment) -> Decimal | None:
        """The price on these terms."""
        return {
            "on_demand": self.usd_per_hour,
            "spot": self.spot_usd_per_hour,
            "1_year": self.one_year_usd_per_hour,
            "3_years": self.three_years_usd_per_hour,
        }[commitment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rental:
    """Region and terms of renting slices."""

    region: str = HOME_REGION
    commitment: Commitment = "on_demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOption:
    """A slice and its figures with the model; `entry` is `None` if the model does not run on it, for `rejection`'s reason."""

    offer: Offer
    entry: Entry | None
    rejection: Rejection | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOption:
    """One generation of TPU for a model.

    `smallest` is the slice with the fewest chips that holds it. `cheapest` has the lowest price per token within the limit on the time to
    first token. Each is `None` if there is none, or without a price.
    """

    generation: TpuGeneration
    support: Support
    slices: tuple[SliceOption, ...]
    smallest: Entry | None
    cheapest: Entry | None

    @property
    def chips_needed(self) -> int | None:
        """Chips of the smallest slice that holds the work; if none does alone, of all the slices that share the requests."""
        return None if self.smallest is None else self.smallest.offer.accelerator_count * self.smallest.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidanceCheck:
    """The old advice on sizes and the laws' result; `by_laws` is `None` if no slice holds the model."""

    generation: str
    advised: int
    by_laws: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuOptions:
    """A model on TPU slices, and the GPU offers with the lowest price per token within the same limit.

    `best_slice` has the lowest price per token of all generations, or the fewest chips if no price was found. GPU offers are ordered by
    their price per hour if nothing has one per token (encoders, pictures).
    """

    generations: tuple[GenerationOption, ...]
    best_slice: Entry | None
    gpu: tuple[Entry, ...]
    gpu_by_platform: tuple[Entry, ...]
    """The cheapest per token of each platform."""
    guidance: GuidanceCheck
    runs_on_optimum: bool
    """Whether the model is of a family that Optimum TPU lists."""
    findings: Findings
    fastest: tuple[Entry | None, Entry | None]
    """The slice and the GPU offer with the shortest predicted time to first token."""


FIRST_COMPILE, CACHED_COMPILE = "20 to 30 minutes", "5 minutes"
"""The first start of vLLM on TPU, and a later one from its cache (rule `shapes_every_step` names the source)."""


def find_general_values(catalog: Catalog, software: TpuSoftware) -> dict[str, Mapping[str, Value]]:
    """Figures of today's parts that the sentences of the rules name, by question; no model is needed for them."""
    offers = [offer for offer in catalog.offers if offer.listed and offer.silicon is not None]
    gpus = [offer.accelerator_count for offer in offers if offer.silicon is not None and offer.silicon.kind == "gpu"]
    slices = [offer for offer in offers if offer.tpu is not None]
    trillium = next(offer.tpu.generation for offer in slices if offer.tpu is not None and offer.tpu.generation.id == "v6e")
    chip, terms = catalog.accelerator(trillium.accelerator), software.terms(trillium.id)
    money: dict[str, Value] = {"list_usd": trillium.usd_per_chip_hour[HOME_REGION]}
    if terms is not None:
        by_years = {each.years: each.usd_per_chip_hour for each in terms.commitments}
        money |= {"spot_usd": terms.usd_per_chip_hour_spot[HOME_REGION], "one_year_usd": by_years[1], "three_years_usd": by_years[3]}
    return {
        "shapes": {"first_minutes": FIRST_COMPILE, "cached_minutes": CACHED_COMPILE},
        "chips": {"largest_slice": max(offer.accelerator_count for offer in slices), "largest_gpu_offer": max(gpus)},
        "latency": {"v6e_flop_per_byte": round((chip.peak("bf16") or 0) / chip.bandwidth)},
        "budget": money,
    }


def find_tpu_options(
    spec: ModelSpec, workload: Workload, catalog: Catalog, software: TpuSoftware, *, max_ttft_s: float = 0, rental: Rental = Rental()
) -> TpuOptions:
    """Judge every slice and every GPU offer; `max_ttft_s` = 0 sets no limit. The platforms of `workload` are not read."""
    on_tpu = _judge_at_full_length(spec, replace(workload, platforms=TPU_PLATFORMS), catalog)
    on_gpu = _judge_at_full_length(spec, replace(workload, platforms=tuple(name for name in RENTED if name not in TPU_PLATFORMS)), catalog)
    generations = tuple(_by_generation(spec, on_tpu, software, max_ttft_s, rental))
    gpu_entries = [entry for entry in on_gpu.ranked if entry.offer.silicon is not None and entry.offer.silicon.kind == "gpu"]
    cheapest = _cheapest_first(gpu_entries, max_ttft_s, _list_price) or _cheapest_first(gpu_entries, max_ttft_s, _hourly)
    by_card: dict[tuple[str | None, int], Entry] = {}
    for entry in cheapest:  # platforms rent out the same cards
        by_card.setdefault((entry.offer.accelerator, entry.offer.accelerator_count), entry)
    gpu = tuple(by_card.values())[:MOST_GPU_OFFERS]
    best_slice = _best_slice(generations, software, rental)
    v5e = next(option for option in generations if option.generation.id == software.guidance.generation)
    return TpuOptions(
        generations=generations,
        best_slice=best_slice,
        gpu=gpu,
        gpu_by_platform=tuple({entry.offer.platform: entry for entry in reversed(cheapest)}.values()),
        guidance=check_guidance(spec.parameters_total, v5e.chips_needed, software.guidance),
        runs_on_optimum=spec.model_type in software.optimum.families,
        findings=_find(spec, on_tpu, gpu_entries, generations, best_slice, gpu, software, max_ttft_s, rental),
        fastest=(_fastest(on_tpu.ranked), _fastest(gpu_entries)),
    )


def _judge_at_full_length(spec: ModelSpec, workload: Workload, catalog: Catalog) -> Recommendation:
    """Hardware for all sequences at their full length at once, as a static cache does, with the speed and price of the usual request.

    An engine with pages would take fewer bytes and let the rest wait.
    """
    usual = {(entry.offer.platform, entry.offer.id): entry for entry in recommend(spec, workload, catalog).ranked}
    longest, _ = limit_context(spec, workload.context_tokens)
    output = min(OUTPUT_TOKENS, max(1, longest // 2))
    full = replace(workload, prompt_tokens=max(1, longest - output), output_tokens=output)
    judged = recommend(spec, full, catalog)
    entries = tuple(_join(full_length, usual.get((full_length.offer.platform, full_length.offer.id))) for full_length in judged.ranked)
    return replace(judged, ranked=entries)


def _join(full_length: Entry, usual: Entry | None) -> Entry:
    """The usual request's entry with the memory of full length; `held` itself where that is another configuration."""
    if usual is None or any(getattr(usual, name) != getattr(full_length, name) for name in ("precision", "engine", "devices", "replicas")):
        return full_length
    return replace(usual, memory=full_length.memory)


def _by_generation(
    spec: ModelSpec, on_tpu: Recommendation, software: TpuSoftware, max_ttft_s: float, rental: Rental
) -> Iterable[GenerationOption]:
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
        cheapest = _cheapest_first(entries, max_ttft_s, partial(slice_usd_per_million, software=software, rental=rental))
        yield GenerationOption(
            generation=generation,
            support=software.rate(spec.id, spec.architecture, generation.accelerator),
            slices=tuple(SliceOption(offer=offer, entry=runs.get(offer.id), rejection=refused.get(offer.id)) for offer in own),
            smallest=alone[0] if alone else None,
            cheapest=cheapest[0] if cheapest else None,
        )


def within_limit(entry: Entry, max_ttft_s: float) -> bool:
    """Whether the predicted time to first token keeps the limit; without a prediction it does not."""
    return max_ttft_s == 0 or (entry.speed.ttft_s is not None and entry.speed.ttft_s <= max_ttft_s)


def _cheapest_first(entries: Iterable[Entry], max_ttft_s: float, price: Callable[[Entry], Decimal | None]) -> list[Entry]:
    """Entries within the limit whose price is known, the lowest first."""
    priced = [
        (usd, entry.offer.accelerator_count, at, entry)
        for at, entry in enumerate(entries)
        if entry.cost.usd_per_hour > 0 and within_limit(entry, max_ttft_s) and (usd := price(entry)) is not None
    ]
    return [entry for *_, entry in sorted(priced, key=lambda each: each[:3])]


def _list_price(entry: Entry) -> Decimal | None:
    return entry.cost.usd_per_million_output_tokens


def _hourly(entry: Entry) -> Decimal:
    return entry.cost.usd_per_hour * entry.replicas


def _fastest(entries: Iterable[Entry]) -> Entry | None:
    timed = [(entry.speed.ttft_s, at, entry) for at, entry in enumerate(entries) if entry.speed.ttft_s is not None]
    return min(timed, key=lambda each: each[:2])[2] if timed else None


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
    chips, prices, terms = offer.accelerator_count, offer.tpu.generation.usd_per_chip_hour, software.terms(offer.tpu.generation.id)
    lowest = min(prices.values())
    rows = []
    for region, price in sorted(prices.items(), key=lambda item: (item[1], item[0])):
        spot = None if terms is None else terms.usd_per_chip_hour_spot.get(region)
        years = {} if terms is None or price > lowest else {each.years: each.usd_per_chip_hour * chips for each in terms.commitments}
        rows.append(
            RegionPrice(
                region=region, usd_per_hour=price * chips, spot_usd_per_hour=None if spot is None else spot * chips,
                one_year_usd_per_hour=years.get(1), three_years_usd_per_hour=years.get(3),
            )
        )  # fmt: skip
    return tuple(rows)


def slice_usd_per_hour(offer: Offer, software: TpuSoftware, rental: Rental) -> Decimal | None:
    """USD per hour of a slice; `None` if the generation is not in the region, or no price on these terms was found."""
    here = next((price for price in list_region_prices(offer, software) if price.region == rental.region), None)
    return None if here is None else here.at(rental.commitment)


def slice_usd_per_million(entry: Entry, software: TpuSoftware, rental: Rental) -> Decimal | None:
    """USD per million output tokens of a slice at these terms; `None` as for the hour, or if nothing is predicted."""
    hourly = slice_usd_per_hour(entry.offer, software, rental)
    return None if hourly is None else rescale_usd_per_million(entry, hourly)


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


def apply_claim(entry: Entry, price: Decimal | None, claim: SpeedClaim) -> WhatIf | None:
    """The throughput and `price` (USD per million tokens on the terms asked for) if the claim held; `None` without a prediction."""
    predicted = entry.speed.predicted
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
    tpu_best: Entry | None,
    gpu: tuple[Entry, ...],
    software: TpuSoftware,
    max_ttft_s: float,
    rental: Rental,
) -> Findings:
    """The findings that the decision reads."""
    # Engine and support: what the support matrix says of the chip that would be rented.
    has_name = spec.source != "rule_of_thumb"
    unrunnable = not on_tpu.ranked and all(rejection.reason.code in _NO_ENGINE for rejection in on_tpu.rejected)
    tested = [option.generation.name for option in generations if option.support == "passing"]
    support = min((option.support for option in generations), key=get_args(Support).index)  # passing on one chip is passing
    rented = None if tpu_best is None or tpu_best.offer.tpu is None else tpu_best.offer.tpu.generation.id
    current = next((each for each in generations if each.generation.id == rented), None)
    here = _FINDINGS.get(support if current is None else current.support, "untested")
    if tested and here != "passing":
        here = "passing_elsewhere"
    # Price: the cheapest slice against the cheapest GPU offer.
    gpu_best = gpu[0] if gpu else None
    tpu_usd = None if tpu_best is None else slice_usd_per_million(tpu_best, software, rental)
    gpu_usd = None if gpu_best is None else _list_price(gpu_best)
    prices: dict[str, Value] = {}
    if tpu_best is not None and gpu_best is not None and tpu_usd is not None and gpu_usd is not None:
        prices = {"tpu": tpu_best.offer.id, "gpu": gpu_best.offer.id, "tpu_usd": tpu_usd, "gpu_usd": gpu_usd}
        prices |= {"commitment": rental.commitment, "region": rental.region}
    # Fit: which side has an offer that holds the model.
    matrix = software.support
    fits = "no_gpu_offer" if not gpu_entries and on_tpu.ranked else "no_tpu_slice" if gpu_entries and not on_tpu.ranked else "both"
    values: dict[str, Mapping[str, Value]] = {
        "engine": {"model": spec.id, "task": on_tpu.task},
        "support": {
            "model": spec.id,
            "package": matrix.package,
            "release": matrix.release,
            "checked": matrix.checked,
            "generation": "" if current is None else current.generation.name,
            "tested": ", ".join(tested),
        },
        "fits": {"model": spec.id},
        "ttft": {"max_ttft_s": max_ttft_s},
        "tpu_price": prices,
    }
    # Latency: which side keeps the limit of the first token.
    tpu_keeps, gpu_keeps = (any(within_limit(entry, max_ttft_s) for entry in entries) for entries in (on_tpu.ranked, gpu_entries))
    keepers: Literal["both", "neither", "gpu_only", "tpu_only"] = "gpu_only" if gpu_keeps else "neither"
    if tpu_keeps:
        keepers = "both" if gpu_keeps else "tpu_only"
    return Findings(
        engine="none_on_tpu" if unrunnable else "some",
        support=here if has_name and not unrunnable else "",
        fits="" if unrunnable else fits,  # type: ignore[arg-type]
        ttft=keepers if max_ttft_s and not unrunnable else "",
        tpu_price=round(100 * tpu_usd / gpu_usd) if prices and tpu_usd is not None and gpu_usd is not None else None,
        values=values,
    )


def _best_slice(generations: Iterable[GenerationOption], software: TpuSoftware, rental: Rental) -> Entry | None:
    cheapest = [each.cheapest for each in generations if each.cheapest is not None]
    if cheapest:
        return min(cheapest, key=lambda entry: slice_usd_per_million(entry, software, rental) or Decimal("Infinity"))
    smallest = [each.smallest for each in generations if each.smallest is not None]
    return min(smallest, key=lambda entry: entry.offer.accelerator_count * entry.replicas, default=None)
