"""Many models at once: current price and possible savings, as a sentence and a table."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from markupsafe import Markup

from lib.answers.fleet import FleetRow
from lib.present.numbers import gib, usd, usd_per_month
from lib.present.sentences import say, sentence
from lib.present.tables import Key, TableTools, csv_text, show_table
from lib.provenance import Value

_SHOWN = 20
"""Rows that are shown until more are asked for."""


def _sum(amounts: Sequence[Decimal | None]) -> Decimal:
    return sum((amount for amount in amounts if amount is not None), Decimal(0))


def fleet_finding(rows: Sequence[FleetRow]) -> str:
    """Today's cost of the list and the saving of moving, in a sentence."""
    errors = sum(row.error_code is not None for row in rows)
    today = [row.current_usd_per_month for row in rows if row.current_usd_per_month is not None]
    savings = [row.saving_usd_per_month for row in rows if row.saving_usd_per_month is not None and row.saving_usd_per_month > 0]
    failed = f" {say('findings', 'fleet', 'failed', errors=errors)}" if errors else ""
    if not today:
        picked = [row.usd_per_month for row in rows if row.pick is not None]
        if not picked:
            unsuited = len(rows) - errors
            return f"{say('findings', 'fleet', 'unsuited', rows=unsuited) if unsuited else ''}{failed}".strip()
        return say("findings", "fleet", "picks", rows=len(picked), cost=usd(_sum(picked))) + failed
    today_cost: dict[str, Value] = {"rows": len(today), "cost": usd(_sum(today))}
    if not savings:
        return say("findings", "fleet", "stay", **today_cost) + failed
    return say("findings", "fleet", "move", **today_cost, moves=len(savings), saving=usd(_sum(savings))) + failed


def fleet_table(rows: Sequence[FleetRow]) -> str:
    """The rows, the largest bill of today first; those that could not be answered come last."""
    if not rows:
        return ""
    ordered = sorted(rows, key=lambda row: (row.error_code is not None, -(row.current_usd_per_month or row.usd_per_month or 0), row.row))
    heads = ("Model", "Today", "Pick", "Memory", "A month", "Saves a month", "Result")
    tools = TableTools(keys=list(map(_keys, ordered)), first=_SHOWN, more="more", search="Search")
    return show_table("Largest bill first", heads, list(map(_cells, ordered)), "fleet", tools)


def _keys(row: FleetRow) -> tuple[Key, ...]:
    result = row.error_code or row.decision or row.verdict
    return (
        row.model.lower(),
        row.current_usd_per_month,
        row.pick,
        row.per_device_bytes,
        row.usd_per_month,
        row.saving_usd_per_month,
        result,
    )


def _cells(row: FleetRow) -> tuple[str, ...]:
    label = Markup("<small>{}</small>").format(row.label) if row.label else ""
    name = Markup("{}{}").format(row.model or "–", label)
    if row.error is not None:
        return name, "–", "–", "–", "–", "–", row.error
    today = "–" if row.current is None else Markup("{}<small>{}</small>").format(row.current, usd_per_month(row.current_usd_per_month))
    pick = "nothing" if row.pick is None else Markup("{}<small>{} · {}</small>").format(row.pick, row.precision, row.engine)
    why = sentence(row.reasons[0]) if row.reasons else ""
    return (
        name,
        today,
        pick,
        "–" if row.per_device_bytes is None else gib(row.per_device_bytes),
        usd_per_month(row.usd_per_month),
        "–" if row.saving_usd_per_month is None else usd(row.saving_usd_per_month),
        Markup("<strong>{}</strong><small>{}</small>").format(row.decision or row.verdict or "none", why),
    )


_CSV = tuple(name for name in FleetRow.__dataclass_fields__ if name != "reasons")


def fleet_csv(rows: Sequence[FleetRow]) -> str:
    """Every column of the rows but the reasons, in the order of the questions."""
    ordered: list[FleetRow] = sorted(rows, key=lambda row: row.row)
    return csv_text(_CSV, ordered)
