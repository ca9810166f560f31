"""Each precision with the memory that it takes and the tiers that hold it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lib import precision
from lib.answers.common import FitEntry, MemoryAnswer
from lib.present.markup import escape
from lib.present.numbers import deviation, gib, usd_per_hour, whole
from lib.present.tables import Key, TableTools, table_markup

_HEADS = ("Precision", "Memory on a device", "Tiers that hold it", "Cheapest of them", "Longest context there (tokens)")


def precision_table(answers: Sequence[MemoryAnswer], current: str, link: Callable[[str], str | None]) -> str:
    """One row for each answer, most bytes first; `current` is the precision in use, `link` the query that asks for another."""
    by_size = sorted(answers, key=lambda answer: -answer["weights_bytes"])
    here = next((answer["per_device_bytes"] for answer in by_size if answer["precision"] == current), None)
    holding = [_fitting(answer) for answer in by_size]
    rows = [_cells(answer, fits, current, here, link(answer["precision"])) for answer, fits in zip(by_size, holding, strict=True)]
    keys = [_keys(answer, fits) for answer, fits in zip(by_size, holding, strict=True)]
    tools = TableTools(keys=keys, search="Search" if len(rows) > 8 else "")  # noqa: PLR2004  a screen
    return table_markup("Every precision that this engine loads, and where it fits", _HEADS, rows, "precisions", tools)


def _fitting(answer: MemoryAnswer) -> list[FitEntry]:
    """The tiers that hold it, cheapest first."""
    return sorted((fit for fit in answer["fits"] if fit["fits"]), key=_price)


def _price(fit: FitEntry) -> float:
    return float("inf") if fit["usd_per_hour"] is None else fit["usd_per_hour"]


def _cells(answer: MemoryAnswer, holding: Sequence[FitEntry], current: str, here: int | None, query: str | None) -> tuple[str, ...]:
    name = answer["precision"]
    title = f"<small>{escape(precision.weight_format(name).title)}</small>"
    if name == current:
        label = f'{escape(name)}<em class="badge pick">in use</em>{title}'
    else:
        label = (escape(name) if query is None else f'<a href="{escape(query)}">{escape(name)}</a>') + title
    against = "" if here is None or name == current else f"<small>{deviation(answer['per_device_bytes'], here)}</small>"
    return label, gib(answer["per_device_bytes"]) + against, _names(holding, len(answer["fits"])), *_cheapest(holding)


def _names(holding: Sequence[FitEntry], tried: int) -> str:
    if not holding:
        return f"none of {tried}"
    listed = ", ".join(f"<code>{escape(fit['hardware'])}</code>" for fit in holding)
    return f"<details><summary>{len(holding)} of {tried}</summary>{listed}</details>"


def _cheapest(holding: Sequence[FitEntry]) -> tuple[str, str]:
    if not holding:
        return "–", "–"
    first = holding[0]
    longest = "no limit found" if first["max_context_tokens"] is None else whole(first["max_context_tokens"])
    return f"{escape(first['name'])}<small>{usd_per_hour(first['usd_per_hour'])} an hour</small>", longest


def _keys(answer: MemoryAnswer, holding: Sequence[FitEntry]) -> tuple[Key, ...]:
    longest = holding[0]["max_context_tokens"] if holding else None
    price = holding[0]["usd_per_hour"] if holding else None
    return answer["precision"], answer["per_device_bytes"], len(holding), price, longest
