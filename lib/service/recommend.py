"""`/recommend`: the advisor's answer, whose reasons become sentences by way of `lib.present`; and `/list_hardware`."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated

from cachetools import LRUCache, cached

from lib import advisor
from lib.advisor.result import ConfiguredHardware, Cost, Entry, OwnHardware, ProviderOption, Recommendation, Rejection, Speed
from lib.answers.common import (
    SCHEMA,
    ConfiguredEntry,
    EntryCost,
    EntryMemory,
    EntrySpeed,
    HardwareAnswer,
    HardwareEntry,
    OwnEntry,
    ProviderEntry,
    RankedEntry,
    RecommendationAnswer,
    RejectedEntry,
    fill,
    price_entry,
    source_entries,
)
from lib.catalog import Catalog
from lib.catalog.offers import Hardware as AnyHardware
from lib.catalog.offers import Offer
from lib.catalog.rows import ById
from lib.memory.pipeline import check_media
from lib.model.spec import ModelSpec
from lib.present.sentences import caveat_entries, reason_entries, sentence
from lib.provenance import Reason
from lib.request.fields import Arguments, whole_number
from lib.request.types import (
    Flag,
    Hardware,
    Model,
    Platforms,
)
from lib.service.endpoint import App, endpoint
from lib.service.reference import read_reference
from lib.service.speed import speed_end
from lib.workload import FAMILIES, Workload

MAX_ENTRIES = 10_000


class RecommendArguments(Arguments):
    """Arguments of `/recommend`."""

    behind = ("visitor_account limit own_hardware",)

    model: Model
    workload: Workload = Workload()
    limit: Annotated[int, whole_number(0, MAX_ENTRIES)] = 0
    """Entries in ranked and rejected each; 0 is all."""
    own_hardware: Hardware = ""
    """Your cards or Mac, compared with hardware for rent: RTX-4090, RTX-3090x2, M4-Max-64GB; empty is none."""


@endpoint()
def recommend(app: App, arguments: RecommendArguments) -> RecommendationAnswer:
    """Which hardware to run a model on: the pick with reasons, the alternatives, and everything rejected with its reason.

    Returns:
        The recommendation.
    """
    calls_provider = FAMILIES.get(arguments.workload.task) == "provider" and arguments.model == ""  # such a Space needs no model
    spec, catalog = None if calls_provider else app.models(arguments.model), app.catalog()
    if spec is not None:
        check_media(spec, arguments.workload.pictures, arguments.workload.media)
    own = catalog.resolve_cards(arguments.own_hardware) if arguments.own_hardware != "" else None
    asked = (spec, arguments.workload, catalog, arguments.limit, own)
    answer = _answer_once(*asked)
    on_hub = spec is not None and spec.id and read_reference(arguments.model).kind == "id"
    if spec is None or not on_hub or not _needs_checkpoint(answer):
        return answer
    published = app.quantized(spec.id)
    return answer if published is None else _answer_once(*asked, tuple(published.items()))


def _needs_checkpoint(answer: RecommendationAnswer) -> bool:
    """Whether the pick, or what is said of own hardware, is loaded from a checkpoint that somebody has to have made."""
    own = answer.get("own")
    shown = (answer["pick"], *((own["runs_as"], *own["larger"]) if own else ()))
    return any(reason["code"] == "checkpoint" for entry in shown if entry is not None for reason in entry["reasons"])


KEPT = 64
"""Answers; one over all hardware takes 0.5 MB."""
_TURN = threading.Lock()
"""An answer is arithmetic and nothing else: threads that work answers out side by side take the interpreter from each other, and from the
thread that serves everybody."""


@cached(
    LRUCache(KEPT),
    key=lambda spec, workload, catalog, limit, own, published=None: (
        ById(spec),
        workload,
        ById(catalog),
        limit,
        None if own is None else own.id,
        published,
    ),
    condition=threading.Condition(),
)
def _answer_once(
    spec: ModelSpec | None,
    workload: Workload,
    catalog: Catalog,
    limit: int,
    own: AnyHardware | None,
    published: tuple[tuple[str, str], ...] | None = None,
) -> RecommendationAnswer:
    """The same question about the same model and prices is answered once, also for those who ask it at the same time.

    Everybody gets the same object, which nobody may change.
    """
    repositories = None if published is None else dict(published)
    with _TURN:
        recommendation = advisor.recommend(spec, workload, catalog, published=repositories, own=own)
        return recommendation_answer(recommendation, spec, catalog, limit=limit)


def recommendation_answer(
    recommendation: Recommendation, spec: ModelSpec | None, catalog: Catalog, *, limit: int = 0
) -> RecommendationAnswer:
    """A recommendation as JSON with `limit` entries of each list (0: all); `spec` is None where the Space only calls a provider."""
    first, own = slice(limit or None), recommendation.own
    ranked = [ranked_entry(entry) for entry in recommendation.ranked[first]]
    if ranked:
        ranked[0]["reasons"] += reason_entries(_explain_paid_pick(recommendation))
    answer: RecommendationAnswer = {
        "schema": SCHEMA,
        "model": "" if spec is None else spec.id,
        "task": recommendation.task,
        "pick": ranked[0] if ranked else None,
        "ranked": ranked,
        "ranked_total": len(recommendation.ranked),
        "rejected": [_rejected_entry(rejection) for rejection in recommendation.rejected[first]],
        "rejected_total": len(recommendation.rejected),
        "provider": _provider(recommendation.provider),
        "notes": reason_entries(recommendation.notes),
        "prices": price_entry(catalog.prices["spaces"]),
        "caveats": caveat_entries(recommendation.caveats),
        "sources": source_entries(recommendation.sources),
    }
    if own is not None:
        answer["own"] = _own(own)
    return answer


def _explain_paid_pick(recommendation: Recommendation) -> list[Reason]:
    """Why the free hardware does not do it, ZeroGPU first; nothing where the pick is free or no free hardware was refused."""
    pick = recommendation.pick
    free = [one for one in recommendation.rejected if one.offer.usd_per_hour == 0]
    if pick is None or pick.cost.usd_per_hour == 0 or not free:
        return []
    nearest = min(free, key=lambda one: one.offer.silicon is None)
    return [Reason("why_not_free", {"name": nearest.offer.name, "why": sentence(nearest.reason)})]


def _own(own: OwnHardware) -> OwnEntry:
    return {
        "hardware": own.cards.id,
        "platform": own.cards.platform,
        "name": own.cards.name,
        "fits": own.runs_as is not None,
        "usd_per_hour": None,
        "runs_as": None if own.runs_as is None else configured_entry(own.runs_as),
        "obstacles": reason_entries(own.obstacles),
        "larger": [configured_entry(one) for one in own.larger],
    }


def _memory(entry: ConfiguredHardware) -> EntryMemory | None:
    memory = entry.memory
    if memory is None:
        return None
    return fill(EntryMemory, memory, entry, context_tokens=memory.tokens, batch_size=memory.batch)


def _speed(speed: Speed) -> EntrySpeed:
    of = speed.predicted
    values = None if of is None else speed_end(of, "value")
    return {
        "ttft_s": None if values is None else values["ttft_s"],
        "inter_token_s": None if values is None else values["inter_token_s"],
        "decode_tokens_per_s": None if values is None else values["decode_tokens_per_s"],
        "throughput_tokens_per_s": None if values is None else values["throughput_tokens_per_s"],
        "request_s": None if of is None else of.request_s,
        "real_time_factor": None if of is None or of.real_time_factor is None else of.real_time_factor.value,
        "bound": None if of is None else of.bound,
        "low": None if of is None else speed_end(of, "low"),
        "high": None if of is None else speed_end(of, "high"),
        "prompt_tokens": None if of is None else of.request.prompt_tokens,
        "output_tokens": None if of is None else of.request.output_tokens,
        "concurrency": None if of is None else of.request.concurrency,
        "decode_tokens_per_s_upper_bound": speed.decode_tokens_per_s_upper_bound,
        "request_s_lower_bound": speed.request_s_lower_bound,
        "basis": speed.basis,
    }


def _cost(cost: Cost) -> EntryCost:
    return fill(EntryCost, cost, total_usd_per_month=float(cost.usd_per_month))


def ranked_entry(entry: Entry) -> RankedEntry:
    """Rented hardware that does it, as JSON."""
    return {**configured_entry(entry), "cost": _cost(entry.cost), "pareto": entry.pareto}


def configured_entry(entry: ConfiguredHardware) -> ConfiguredEntry:
    """Hardware that does it, as JSON."""
    return {
        "hardware": entry.offer.id,
        "platform": entry.offer.platform,
        "name": entry.offer.name,
        "accelerator": entry.offer.accelerator,
        "accelerator_count": entry.offer.accelerator_count,
        "precision": entry.precision,
        "engine": entry.engine,
        "sdk": entry.sdk,
        "devices": entry.devices,
        "gpu_layers": -1 if entry.gpu_layers is None else entry.gpu_layers,
        "replicas": entry.replicas,
        "memory": _memory(entry),
        "speed": _speed(entry.speed),
        "verdict": entry.verdict,
        "reasons": reason_entries(entry.reasons),
        "repository": entry.repository,
        "loading": entry.loading,
    }


def _rejected_entry(rejection: Rejection) -> RejectedEntry:
    return fill(
        RejectedEntry,
        rejection.offer,
        hardware=rejection.offer.id,
        reason_code=rejection.reason.code,
        reason=sentence(rejection.reason),
        also=reason_entries(rejection.also),
    )


def _provider(option: ProviderOption) -> ProviderEntry:
    return fill(ProviderEntry, option, reasons=reason_entries(option.reasons))


class HardwareArguments(Arguments):
    """Arguments of `/list_hardware`."""

    platform: Platforms = ("spaces", "zerogpu")
    include_retired: Flag = False
    """Also hardware that the platform no longer offers."""


@endpoint()
def list_hardware(app: App, arguments: HardwareArguments) -> HardwareAnswer:
    """Hardware that can be rented, with memory, price, source and the day it was checked.

    Returns:
        The rows of the catalog.
    """
    return hardware_answer(app.catalog().on(arguments.platform, include_retired=arguments.include_retired))


def hardware_answer(offers: Iterable[Offer]) -> HardwareAnswer:
    """The rows, with each distinct source once."""
    rows = tuple(offers)
    return {
        "schema": SCHEMA,
        "hardware": [hardware_entry(offer) for offer in rows],
        "caveats": [],
        "sources": source_entries(source for offer in rows for source in offer.sources),
    }


def hardware_entry(offer: Offer) -> HardwareEntry:
    """One offer as a row; None where a figure does not exist or was never published."""
    entry = _fill_hardware_entry(ById(offer))
    # A caller may change what it was given.
    by_region = entry["usd_per_hour_by_region"].copy()
    return {**entry, "regions": [*entry["regions"]], "rules": [*entry["rules"]], "usd_per_hour_by_region": by_region}


@lru_cache(maxsize=512)  # a catalog has some 150; refreshed prices make new ones
def _fill_hardware_entry(key: ById[Offer]) -> HardwareEntry:
    offer = key.value
    return fill(
        HardwareEntry,
        offer,
        regions=list(offer.endpoint.regions if offer.endpoint else offer.usd_per_hour_by_region),
        rules=sorted(offer.rules),
    )
