"""An outlook as plain JSON, its ways named in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from lib.advisor.savings import NoWay, Savings, Way
from lib.answers.common import SCHEMA
from lib.answers.cost import ChangeEntry, CostAnswer, LineEntry, OutlookAnswer, SavingEntry
from lib.catalog.offers import Offer
from lib.cost import CostEstimate, cost
from lib.cost.outlook import Change, Option, Outlook, bill, carried
from lib.cost.tokens import storage_part
from lib.model.spec import ModelSpec
from lib.present.cards import PLATFORM_NAMES
from lib.present.numbers import usd as usd_shown
from lib.present.sentences import no_way_sentence, trade, what_to_do
from lib.service.wire import usd

ALL_DAY = 24


def label(option: Option, outlook: Outlook) -> str:
    """A way in a few words, for a legend."""
    if option.price is not None:
        return f"Per token, {option.price.provider}"
    if option.offer is None:
        return ""
    if option.kind == "zerogpu":
        return "ZeroGPU, one visitor"
    where = {"spaces": "Space", "endpoints": "Endpoint", "jobs": "Job", "tpu": "TPU"}[option.offer.platform]
    how = "sleeping" if option.kind == "sleeping" else _hours(outlook)
    if option.kind == "sleeping" and option.offer.platform == "endpoints":
        how = "scaled to zero"
    return f"{where} {option.offer.id}, {how}"


def _hours(outlook: Outlook) -> str:
    hours = outlook.usage.hours_per_day
    if outlook.axis == "hours":
        return "running"
    return "always on" if hours == ALL_DAY else f"{hours.normalize():f} h a day"


def line_entries(outlook: Outlook, runs: Mapping[int, str]) -> list[LineEntry]:
    """Each way with its month at the stated use and its line; `runs` says by offer in which configuration."""
    lines = outlook.lines()
    return [_line(option, outlook, points, runs) for option, points in zip(outlook.options, lines, strict=True)]


def _line(option: Option, outlook: Outlook, points: Sequence[Decimal | None], runs: Mapping[int, str]) -> LineEntry:
    usage, rules, offer = outlook.usage, outlook.rules, option.offer
    total = bill(option, usage, rules)
    stored = storage_part(usage, rules.storage)
    storage = Decimal(0) if stored is None else stored.usd_per_month
    found = _estimate(option, outlook)
    compute = None if total is None else total - storage
    requests = usage.requests_per_month
    return {
        "kind": option.kind,
        "label": label(option, outlook),
        "hardware": "" if offer is None else offer.id,
        "platform": "providers" if offer is None else offer.platform,
        "name": (option.price.provider if option.price else "") if offer is None else offer.name,
        "runs_as": _runs_as(option, runs),
        "usd_per_hour": None if found is None else usd(found.usd_per_hour),
        "billed_hours_per_month": None if found is None else usd(found.billed_hours_per_month),
        "compute_usd_per_month": usd(compute),
        "storage_usd_per_month": float(storage),
        "total_usd_per_month": usd(total),
        "usd_per_request": usd(compute / requests) if compute is not None and requests > 0 else None,
        "full_at": usd(carried(option, usage)) if outlook.axis == "requests" else None,
        "usd": [usd(point) for point in points],
    }


def _runs_as(option: Option, runs: Mapping[int, str]) -> str:
    if option.offer is None:
        return "less the account's credits"
    ran = runs.get(id(option.offer), "")
    return f"{ran}, paid by the visitor" if option.kind == "zerogpu" else ran


def _estimate(option: Option, outlook: Outlook) -> CostEstimate | None:
    """The bill by the hour; nothing where nothing is rented."""
    if option.offer is None or option.kind == "zerogpu":
        return None
    asked = replace(outlook.usage, sleep_after_s=Decimal(0)) if option.kind == "running" else outlook.usage
    return cost(option.offer, asked, outlook.rules, speed=option.speed)


def outlook_answer(
    outlook: Outlook,
    answer: CostAnswer,
    lines: list[LineEntry],
    savings: Savings,
    *,
    spec: ModelSpec,
    offer: Offer,
    chosen: str,
) -> OutlookAnswer:
    """The whole answer. `chosen` is "recommended", "" for hardware that was named and qualifies, or why it does not qualify."""
    bills = [[None if point is None else Decimal(str(point)) for point in line["usd"]] for line in lines]
    stated = outlook.usage.hours_per_day if outlook.axis == "hours" else outlook.usage.requests_per_day
    return {
        "schema": SCHEMA,
        "model": spec.id,
        "hardware": offer.id,
        "platform": offer.platform,
        "name": offer.name,
        "chosen": chosen,
        "bill": answer,
        "axis": outlook.axis,
        "stated": float(stated),
        "x": [float(x) for x in outlook.xs],
        "lines": lines,
        "changes": _changes(outlook, bills, lines),
        "savings": [_saving(way) for way in savings.ways],
        "no_savings": [_no_saving(none) for none in savings.others],
        "prices": answer["prices"],
        "caveats": answer["caveats"],
        "sources": answer["sources"],
    }


def _changes(outlook: Outlook, bills: Sequence[Sequence[Decimal | None]], lines: Sequence[LineEntry]) -> list[ChangeEntry]:
    """Each point once: where both ways of the chosen hardware meet another at the same place, and where a quota ends."""
    found: dict[tuple[float, str], ChangeEntry] = {}
    for change in outlook.changes(bills):
        other = change.after if outlook.options[change.before].offer is outlook.options[0].offer else change.before
        found.setdefault((float(change.at), lines[other]["label"]), _change(change, lines, outlook))
    return list(found.values())


def _change(change: Change, lines: Sequence[LineEntry], outlook: Outlook) -> ChangeEntry:
    before, after = lines[change.before]["label"], lines[change.after]["label"]
    at = f"{change.at.quantize(Decimal('0.1')).normalize():,f}" if outlook.axis == "hours" else f"{change.at:,.0f}"
    where = f"{at} {'hours' if outlook.axis == 'hours' else 'requests'} a day"
    figure = usd_shown(change.usd_per_month)
    message = (
        f"“{before}” ends at {where}: the quota is used up, and this account cannot pay for more."
        if change.ends
        else f"From {where} on, “{after}” costs less than “{before}”: {figure} a month there."
    )
    return {
        "at": float(change.at),
        "usd_per_month": 0.0 if change.ends else float(change.usd_per_month),
        "before": before,
        "after": after,
        "message": message,
    }


def _saving(way: Way) -> SavingEntry:
    return {
        "code": way.code,
        "what": what_to_do(way),
        "hardware": None if way.offer is None else f"{way.offer.id}, {PLATFORM_NAMES.get(way.offer.platform, way.offer.platform)}",
        "usd_per_month": float(way.usd_per_month),
        "saves_usd_per_month": float(way.saves_usd_per_month),
        "effect": trade(way),
    }


def _no_saving(none: NoWay) -> SavingEntry:
    return {
        "code": none.code,
        "what": NO_WAYS[none.code],
        "hardware": None,
        "usd_per_month": None,
        "saves_usd_per_month": None,
        "effect": no_way_sentence(none),
    }


NO_WAYS: Mapping[str, str] = {
    "provider": "Pay per token",
    "zerogpu": "ZeroGPU",
    "cheaper_tier": "A cheaper tier",
    "l4_over_a10g": "L4 instead of A10G",
    "fp8": "Weights in fp8",
    "int8": "Weights in eight bits",
    "int4": "Weights in four bits",
    "shorter_context": "A shorter context",
    "smaller_batch": "Fewer requests at a time",
    "cache_precision": "A smaller cache format",
    "sleep": "Sleep between requests",
    "development_tier": "A smaller tier while developing",
}
