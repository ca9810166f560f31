"""Closest options when nothing qualifies, and options that only the stated format, engine or offload rules out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Decimal

from lib.advisor.fit import JudgeContext
from lib.advisor.judge import judge_cards, judge_offers
from lib.advisor.result import Entry, Rejection
from lib.advisor.speed import shape_request
from lib.advisor.speed_verdict import SLOW
from lib.catalog.offers import Offer, own_hardware
from lib.provenance import Reason, Value
from lib.request.types import AUTO

_TENTH = Decimal("0.1")


def find_near_misses(
    pick: Entry | None, rejected: Sequence[Rejection], offers: Sequence[Offer], context: JudgeContext
) -> tuple[Reason, ...]:
    """The changes that admit an offer, one of each kind: a larger budget, a shorter context, fewer requests, patience, another format.

    If paid hardware qualifies, only two kinds are named: free hardware that another format or engine admits, and hardware that is faster
    and costs no more without the stated offload.
    """
    changes = [] if pick is not None else [_by_budget(rejected, context.workload.hours_per_day), _by_size(rejected), _by_speed(rejected)]
    if changes and changes[-1] is not None:
        changes.append(_by_card(context))
    free = () if pick is not None and pick.cost.usd_per_hour == 0 else _by_format(offers, context)
    return (*free, *_by_offload(pick, offers, context), *(change for change in changes if change is not None))


def _best(
    rejected: Sequence[Rejection], fits: Callable[[Reason], bool], rate: Callable[[Rejection], tuple[float | Decimal, ...]]
) -> Rejection | None:
    """Of the offers that have no other obstacles the one with the lowest rate; ties keep the order."""
    return min((one for one in rejected if all(map(fits, (one.reason, *one.also)))), key=rate, default=None)


def _price(rejection: Rejection) -> Decimal:
    return rejection.offer.usd_per_hour or Decimal(0)


def _number(value: Value) -> Decimal:
    return Decimal(str(value))


def _by_budget(rejected: Sequence[Rejection], hours_per_day: Decimal) -> Reason | None:
    """The lowest price, and the hours a day that the budget pays of it: a price of rented hardware is that of its hours."""
    nearest = _best(rejected, lambda reason: reason.code == "over_budget", lambda one: (_number(one.reason.values["usd_per_month"]),))
    if nearest is None:
        return None
    values = {"name": nearest.name, **nearest.reason.values}
    paid_hours = hours_per_day * _number(values["limit_usd"]) / _number(values["usd_per_month"])
    if paid_hours < 1:
        return Reason("near_miss", values, variant="budget")
    return Reason("near_miss", values | {"paid_hours": paid_hours.quantize(_TENTH, ROUND_DOWN)}, variant="hours")


def _by_size(rejected: Sequence[Rejection]) -> Reason | None:
    """The longest context that fits somewhere, else the most requests."""

    def is_short(reason: Reason) -> bool:
        return reason.code == "too_small" and reason.variant in {"context", "batch"}

    nearest = _best(
        rejected,
        is_short,
        lambda one: (
            -_number(one.reason.values.get("fits_tokens", 0)),
            -_number(one.reason.values.get("fits_at_once", 0)),
            _price(one),
        ),
    )
    return None if nearest is None else Reason("near_miss", {"name": nearest.name, **nearest.reason.values}, variant=nearest.reason.variant)


def _by_speed(rejected: Sequence[Rejection]) -> Reason | None:
    nearest = _best(
        [one for one in rejected if "tokens_per_s" in one.reason.values],
        lambda reason: reason.code in SLOW,
        lambda one: (-_number(one.reason.values["tokens_per_s"]), _price(one)),
    )
    if nearest is None:
        return None
    reason, price = nearest.reason.values, nearest.offer.usd_per_hour
    values: dict[str, Value] = {"name": nearest.name, "usd_per_hour": price or Decimal(0)}
    values |= {name: reason[name] for name in ("tokens_per_s", "engine", "precision")}
    seconds = reason.get("seconds")
    return (
        Reason("near_miss", values, variant="rate")
        if seconds is None
        else Reason("near_miss", values | {"ttft_s": seconds}, variant="speed")
    )


def _by_card(context: JudgeContext) -> Reason | None:
    """The graphics card of the catalog that reaches the stated tokens per second with the least bandwidth."""
    if not context.workload.min_tokens_per_s:
        return None
    cards = [own_hardware(card) for card in context.accelerators.values() if card.kind == "gpu"]
    able = [verdict for verdict in judge_cards(cards, context) if verdict.speed.tokens_per_s is not None]
    least = min(able, key=lambda verdict: (verdict.offer.processor.bandwidth or 0, verdict.hardware), default=None)
    if least is None:
        return None
    values: dict[str, Value] = {"name": least.name, "hardware": least.hardware, "tokens_per_s": least.speed.tokens_per_s or 0.0}
    return Reason("near_miss", values | {"engine": least.engine, "precision": least.precision}, variant="card")


def _by_format(offers: Sequence[Offer], context: JudgeContext) -> Iterator[Reason]:
    """The first free offer that runs the model well once format and engine are left open."""
    workload = context.workload
    if context.model is None or (workload.precision, workload.engine) == (AUTO, AUTO):
        return
    free = [offer for offer in offers if offer.listed and offer.usd_per_hour == 0]
    opened = replace(context, workload=replace(workload, precision=AUTO, engine=AUTO))
    for verdict in judge_offers(free, opened):
        if isinstance(verdict, Entry) and verdict.verdict in {"comfortable", "usable"}:
            values: dict[str, Value] = {"name": verdict.name, "precision": verdict.precision, "engine": verdict.engine}
            yield Reason("near_miss", values, variant="format")
            return


def _by_offload(pick: Entry | None, offers: Sequence[Offer], context: JudgeContext) -> Iterator[Reason]:
    """Gains without the stated offload: faster hardware that costs at most as much as the pick, and free hardware within its quota."""
    workload = context.workload
    if context.model is None or workload.pictures.offload == "none":
        return
    opened = replace(workload, pictures=replace(workload.pictures, offload="none"))
    request = shape_request(context.family, context.context_tokens, opened)
    verdicts = judge_offers([offer for offer in offers if offer.listed], replace(context, workload=opened, speed_request=request))
    stated: dict[str, Value] = {"offload": workload.pictures.offload}
    whole = [verdict for verdict in verdicts if isinstance(verdict, Entry) and _is_gain(verdict, pick)]
    best = min(whole, key=lambda entry: (entry.verdict == "slow", entry.cost.usd_per_hour > 0, _seconds(entry)), default=None)
    if best is not None:
        price = best.cost.total_usd_per_month
        values = stated | {"name": best.name, "seconds": _seconds(best), "precision": best.precision, "usd_per_month": price}
        slower: dict[str, Value] = {} if pick is None else {"offloaded_s": _seconds(pick)}
        variant = "offload_alone" if pick is None else "offload" if price else "offload_free"
        yield Reason("near_miss", values | slower, variant=variant)
    if best is None or best.cost.usd_per_hour:
        refused = (verdict for verdict in verdicts if isinstance(verdict, Rejection) and verdict.offer.traits.per_call and not verdict.also)
        rare = [one for one in refused if (one.reason.code, one.reason.variant) == ("quota_too_small", "few")]
        few = max(rare, key=lambda one: _number(one.reason.values["requests_per_visitor"]), default=None)
        if few is not None:
            yield Reason("near_miss", stated | {**few.reason.values, "name": few.name}, variant="offload_quota")


def _is_gain(entry: Entry, pick: Entry | None) -> bool:
    """Whether it is faster than the pick and costs no more."""
    if pick is None:
        return True
    return entry.cost.total_usd_per_month <= pick.cost.total_usd_per_month and 0 < _seconds(entry) < _seconds(pick)


def _seconds(entry: Entry) -> float:
    return entry.speed.likely_request_s or 0.0
