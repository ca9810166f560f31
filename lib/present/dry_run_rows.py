"""A dry run as a table and as CSV: each figure as executed, as the closed form gives it, and their ratio."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from lib.present.markup import answer_actions, escape
from lib.present.numbers import gib, whole
from lib.present.tables import answer_json, table_markup

if TYPE_CHECKING:
    from lib.answers.common import DryRunAnswer, FigureEntry

_HEADS = ("Figure", "Executed", "Closed form", "Ratio")
_TERA, _GIGA = 1e12, 1e9


def _amount(value: int | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "bytes":
        return f"{gib(value)}<small>{whole(value)} bytes</small>"
    if unit == "FLOP":
        return f"{value / _TERA:,.3f} TFLOP" if value >= _TERA else f"{value / _GIGA:,.3f} GFLOP"
    return whole(value)


def _row(figure: FigureEntry) -> tuple[str, ...]:
    ratio = "–" if figure["ratio"] is None else f"{figure['ratio']:.3f}"
    unit = figure["unit"]
    return escape(figure["name"].capitalize()), _amount(figure["executed"], unit), _amount(figure["closed_form"], unit), ratio


def dry_run_table(answer: DryRunAnswer) -> str:
    """The table, and what can be saved of it."""
    ran = f"{answer['layers_run']} of {answer['layers']} layers computed, the others counted like them"
    table = table_markup(f"{answer['architecture']} executed without values: {ran}", _HEADS, list(map(_row, answer["figures"])), "dry-run")
    lines = [f"{f['name']}: {f['executed']:,} {f['unit']}" for f in answer["figures"]]
    files = (
        ("Download CSV", "dry_run.csv", "text/csv", dry_run_csv(answer)),
        ("Download JSON", "dry_run.json", "application/json", answer_json(answer)),
    )
    return table + answer_actions(text="\n".join(lines), query=None, files=files)


def dry_run_csv(answer: DryRunAnswer) -> str:
    """The figures as rows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("figure", "unit", "executed", "closed_form", "ratio"))
    writer.writerows((f["name"], f["unit"], f["executed"], f["closed_form"], f["ratio"]) for f in answer["figures"])
    return text.getvalue()
