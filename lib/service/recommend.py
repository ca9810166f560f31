"""`/recommend`: the advisor's answer, whose reasons become sentences by way of `lib.present`; and `/list_hardware`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Annotated

from cachetools import LRUCache, cached

from lib import advisor
from lib.advisor.result import Entry, Recommendation
from lib.answers.hardware import HardwareAnswer, list_offer
from lib.catalog import Catalog, days_if_old
from lib.catalog.host_memory import HostMemoryText
from lib.catalog.offers import Hardware as AnyHardware
from lib.catalog.rows import ById
from lib.memory.pipeline import check_media
from lib.model.spec import ModelSpec
from lib.present.sentences import sentence
from lib.provenance import Caveat, Reason
from lib.request.fields import Arguments, whole_number
from lib.request.types import (
    Flag,
    Hardware,
    Model,
    Platforms,
)
from lib.service.endpoint import App, endpoint
from lib.service.reference import read_reference
from lib.workload import FAMILIES, Workload

MAX_ENTRIES = 10_000


class RecommendArguments(Arguments):
    """Arguments of `/recommend`."""

    behind = ("visitor_account limit own_hardware visitors_per_day serving host_memory",)

    model: Model
    workload: Workload = Workload()
    limit: Annotated[int, whole_number(0, MAX_ENTRIES)] = 0
    """Entries in ranked and rejected each; 0 is all."""
    own_hardware: Hardware = ""
    """Your cards or Mac, compared with hardware for rent: RTX-4090, RTX-3090x2, M4-Max-64GB; empty is none."""
    host_memory: HostMemoryText = None


@endpoint()
def recommend(app: App, arguments: RecommendArguments) -> Recommendation:
    """Which hardware to run a model on: the pick with reasons, the alternatives, and everything rejected with its reason.

    Returns:
        The recommendation.
    """
    return find_hardware(arguments, app.catalog(), app.models, app.quantized)


def find_hardware(
    arguments: RecommendArguments,
    catalog: Catalog,
    models: Callable[[object], ModelSpec],
    quantized: Callable[[str], Mapping[str, str] | None] = lambda _: None,
) -> Recommendation:
    """The recommendation with the offers and rules of a catalog; by default published checkpoints are not looked up.

    Raises:
        AdvisorError: the model cannot be resolved, or does not take what the workload sends.
    """
    calls_provider = FAMILIES.get(arguments.workload.task) == "provider" and arguments.model == ""  # such a Space needs no model
    spec = None if calls_provider else models(arguments.model)
    if spec is not None:
        check_media(spec, arguments.workload.pictures, arguments.workload.media)
    own = catalog.plug_cards(arguments.own_hardware, arguments.host_memory)
    asked = (spec, arguments.workload, catalog, arguments.limit, own)
    today = datetime.now(UTC).date()
    answer = _answer_once(*asked, today)
    on_hub = spec is not None and spec.id and read_reference(arguments.model).kind == "id"
    if spec is None or not on_hub or not _needs_checkpoint(answer):
        return answer
    published = quantized(spec.id)
    return answer if published is None else _answer_once(*asked, today, tuple(published.items()))


def _needs_checkpoint(answer: Recommendation) -> bool:
    """Whether the pick or own hardware needs a checkpoint that must exist."""
    shown = (answer.pick, *((answer.own.runs_as, *answer.own.larger) if answer.own else ()))
    return any(reason.code == "checkpoint" for entry in shown if entry is not None for reason in entry.reasons)


KEPT = 64
"""Answers; one over all hardware takes 0.5 MB."""
_TURN = threading.Lock()
"""An answer is arithmetic and nothing else: threads that work answers out side by side take the interpreter from each other, and from the
thread that serves all callers."""


@cached(
    LRUCache(KEPT),
    key=lambda spec, workload, catalog, limit, own, today, published=None: (
        ById(spec),
        workload,
        ById(catalog),
        limit,
        None if own is None else (own.id, own.host),
        today,
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
    today: date,
    published: tuple[tuple[str, str], ...] | None = None,
) -> Recommendation:
    """Callers who ask the same question about the same model and prices share one answer, also at the same time."""
    repositories = None if published is None else dict(published)
    with _TURN:
        answer = explain_paid_pick(advisor.recommend(spec, workload, catalog, published=repositories, own=own), today)
    first = slice(limit or None)
    return replace(answer, ranked=answer.ranked[first], rejected=answer.rejected[first])


def explain_paid_pick(answer: Recommendation, today: date) -> Recommendation:
    """If the pick costs money, it also says how old its price is and why free hardware does not do it, ZeroGPU first."""
    pick, free = answer.pick, [rejection for rejection in answer.rejected if rejection.offer.usd_per_hour == 0]
    if pick is None or pick.cost.usd_per_hour == 0:
        return answer
    reasons = []
    days = days_if_old(pick.offer.checked, today)
    if days is not None and not pick.offer.price_secondhand:  # which is stated with its day
        reasons.append(Reason("price_old", {"checked": pick.offer.checked, "days": days}))
    if (behind := _free_behind(answer.ranked)) is not None:
        reasons.append(Reason("why_not_free", {"name": behind[0].name, "why": sentence(behind[1])}))
    elif free:
        nearest = min(free, key=lambda rejection: rejection.offer.silicon is None)
        reasons.append(Reason("why_not_free", {"name": nearest.name, "why": sentence(nearest.reason)}))
    pick = replace(pick, reasons=(*pick.reasons, *reasons))
    return replace(answer, pick=pick, ranked=(pick, *answer.ranked[1:]))


_LIMITS = frozenset({"zerogpu_near_limit", "fits_tightly", "below_usable"})


def _free_behind(ranked: Sequence[Entry]) -> tuple[Entry, Reason] | None:
    """Free hardware that runs the model and is tight or slow, with the reason for that."""
    free = (entry for entry in ranked if entry.cost.usd_per_hour == 0 and entry.verdict in {"tight", "slow"})
    found = ((entry, reason) for entry in free for reason in entry.reasons if reason.code in _LIMITS)
    return next(found, None)


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
    catalog = app.catalog()
    offers = tuple(catalog.on(arguments.platform, include_retired=arguments.include_retired))
    named = {offer.platform for offer in offers}
    caveats = (Caveat("hardware_unpriced", {"said": row.sentence}) for row in catalog.unpriced if row.platform in named)
    return HardwareAnswer(
        hardware=tuple(map(list_offer, offers)),
        caveats=tuple(caveats),
        sources=tuple(source for offer in offers for source in offer.sources),
    )
