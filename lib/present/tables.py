"""Answers as rows: the ranked table, the rejected, the tiers under a memory question, and the same as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from lib.answers.common import EntryCost, FitEntry, MemoryAnswer, RankedEntry, RejectedEntry
from lib.present.cards import PLATFORM_NAMES, memory_words, per_device_words, precision_words, speed_figure
from lib.present.markup import bullet_list, escape
from lib.present.memory_charts import PARTS, memory_bar
from lib.present.numbers import gib, gib_figure, usd_per_hour, usd_per_month, whole

_SHOWN = 8
_CSV_FIELDS = (
    "rank",
    "hardware",
    "platform",
    "precision",
    "engine",
    "usd_per_hour",
    "usd_per_month",
    "per_device_bytes",
    "capacity_bytes",
    "reasons",
)
FitField = Literal["hardware", "platform", "fits", "capacity_bytes", "free_bytes", "max_context_tokens", "max_batch_size"]
_FIT_FIELDS: tuple[FitField, ...] = get_args(FitField)


def table_markup(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> str:
    """A table whose rows turn into cards on a narrow screen; cells are markup already.

    The roles are spelled out because a table laid out as blocks loses its own.
    """
    head = "".join(f'<th role="columnheader" scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        '<tr role="row">' + "".join(_cell(index, heads[index], text) for index, text in enumerate(cells)) + "</tr>" for cells in rows
    )
    return (
        f'<div class="scroll"><table role="table" class="rows {name}"><caption>{escape(caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table></div>'
    )


def _cell(index: int, head: str, text: str) -> str:
    if index == 0:
        return f'<th role="rowheader" scope="row">{text}</th>'
    return f'<td role="cell" data-head="{escape(head)}">{text}</td>'


def hardware_name(name: str, hardware: str, platform: str, mark: str = "") -> str:
    """A tier by the platform's name for it with a mark beside, its id, and the platform."""
    return f"{escape(name)}{mark}<small><code>{escape(hardware)}</code> {escape(PLATFORM_NAMES.get(platform, platform))}</small>"


Links = Callable[[RankedEntry], list[tuple[str, str]]]
"""The links of a row: their words, and the query of the page that they lead to."""


def ranked_table(entries: Sequence[RankedEntry], pick: RankedEntry | None, links: Links = lambda _: []) -> str:
    """Everything that qualifies, best first; what nothing else beats is marked. Beyond the first few, rows wait behind a line."""
    if not entries:
        return ""
    heads = ("Hardware", "Price per hour", "Memory", "Runs as", "Why")
    rows = [_ranked_row(entry, pick, links(entry)) for entry in entries]
    first = table_markup("Everything that qualifies, best first", heads, rows[:_SHOWN], "ranked")
    if len(rows) <= _SHOWN:
        return first
    more = table_markup("More that qualifies", heads, rows[_SHOWN:], "ranked more")
    return f'{first}<details class="rest"><summary>{len(rows) - _SHOWN} more that qualify</summary>{more}</details>'


def _ranked_row(entry: RankedEntry, pick: RankedEntry | None, links: list[tuple[str, str]]) -> tuple[str, ...]:
    chosen = pick is not None and (entry["hardware"], entry["platform"]) == (pick["hardware"], pick["platform"])
    mark = (
        '<em class="badge pick">pick</em>'
        if chosen
        else '<em class="badge" title="No other is both as cheap and as fast">best value at this speed</em>'
        if entry["pareto"]
        else ""
    )
    memory = entry["memory"]
    drawn = (
        f"{memory_bar(memory, memory['capacity_bytes'])}<small>{memory_words(memory)}{per_device_words(entry)}</small>" if memory else "–"
    )
    pace = speed_figure(entry["speed"])
    reasons = bullet_list([escape(reason["message"]) for reason in entry["reasons"]], "notes")
    return (
        hardware_name(entry["name"], entry["hardware"], entry["platform"], mark) + _row_links(entry, links),
        price_cell(entry["cost"]),
        drawn,
        precision_words(entry) + (f"<small>{_pace(*pace)}</small>" if pace is not None else ""),
        f"<details><summary>{_counted(len(entry['reasons']))}</summary>{reasons}</details>" if reasons else "–",
    )


def _row_links(entry: RankedEntry, links: list[tuple[str, str]]) -> str:
    """Links of a row, named with its hardware for those who hear them one by one."""
    listed = "".join(
        f'<a data-go href="{escape(query)}">{escape(words)}<span class="sr"> of {escape(entry["name"])}</span></a>'
        for words, query in links
    )
    return f'<span class="row-links">{listed}</span>' if listed else ""


def _pace(name: str, figure: str) -> str:
    return f"at best {figure}" if name.endswith("at best") else f"about {figure}"


def _counted(reasons: int) -> str:
    return "1 reason" if reasons == 1 else f"{reasons} reasons"


def price_cell(cost: EntryCost) -> str:
    """Per hour, and per month below it; what is free is free both ways."""
    hourly = usd_per_hour(cost["usd_per_hour"])
    return hourly if hourly == "free" else f"{hourly}<small>{usd_per_month(cost['total_usd_per_month'])} a month</small>"


def rejected_table(entries: Sequence[RejectedEntry]) -> str:
    """Everything that does not qualify, each with all that stands in the way."""
    rows = [
        (
            hardware_name(entry["name"], entry["hardware"], entry["platform"]),
            "<br>".join(escape(why) for why in (entry["reason"], *(reason["message"] for reason in entry["also"]))),
        )
        for entry in entries
    ]
    return table_markup("What does not qualify, and why", ("Hardware", "Reason"), rows, "rejected") if rows else ""


def tiers_table(fits: Sequence[FitEntry], memory: MemoryAnswer) -> str:
    """Each tier's capacity with the model's parts drawn in it, and how far it could be stretched."""
    by_price = sorted(fits, key=lambda fit: (fit["usd_per_hour"] is None, fit["usd_per_hour"] or 0))
    rows = [_tier_row(fit, memory) for fit in by_price]
    return table_markup(
        "Where it fits, cheapest first",
        ("Hardware", "Memory on a device", "Fits", "Longest context (tokens)", "Concurrent requests", "Per hour"),
        rows,
        "tiers",
    )


def _tier_row(fit: FitEntry, memory: MemoryAnswer) -> tuple[str, ...]:
    free, capacity = int(fit["free_bytes"]), int(fit["capacity_bytes"])
    need = capacity - free
    drawn = memory_bar(memory, capacity, need)
    if fit["fits"]:
        room = f'<em class="badge fits">fits</em><small>{gib(free)} left</small>'
    elif free >= 0:
        room = f'<em class="badge lacks">not here</em><small>{escape(memory["engine"])} does not run on it</small>'
    else:
        room = f'<em class="badge lacks">too small</em><small>{gib(-free)} short</small>'
    shared = f" on each of {fit['devices']}" if fit["devices"] > 1 else ""
    return (
        hardware_name(fit["name"], fit["hardware"], fit["platform"]),
        f"{drawn}<small>{gib_figure(need)} of {gib(capacity)}{shared}</small>",
        room,
        "no limit found" if fit["max_context_tokens"] is None else _or_none(fit["max_context_tokens"]),
        "no limit found" if fit["max_batch_size"] is None else _or_none(fit["max_batch_size"]),
        usd_per_hour(fit["usd_per_hour"]),
    )


def _or_none(amount: int) -> str:
    return whole(amount) if amount else "none"


def ranked_csv(entries: Sequence[RankedEntry]) -> str:
    """The ranked answer as CSV in base units; text that a spreadsheet would run as a formula is quoted as text."""
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(_CSV_FIELDS)
    for rank, entry in enumerate(entries, start=1):
        memory = entry["memory"]
        why = " ".join(reason["message"] for reason in entry["reasons"])
        cells = (entry["hardware"], entry["platform"], entry["precision"], entry["engine"])
        cost = entry["cost"]
        sizes = (None, None) if memory is None else (memory["per_device_bytes"], memory["capacity_bytes"])
        numbers = (cost["usd_per_hour"], cost["total_usd_per_month"], *sizes)
        sheet.writerow((rank, *map(_inert, cells), *numbers, _inert(why)))
    return out.getvalue()


def _inert(text: str | None) -> str:
    return "" if text is None else f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def answer_json(answer: Mapping[str, object]) -> str:
    """A whole answer as the API gives it."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def pick_text(pick: RankedEntry | None, model: str) -> str:
    """The pick in a few plain lines, for a message or a note."""
    if pick is None:
        return f"No listed hardware runs {model} under these limits."
    cost = pick["cost"]
    hourly, monthly = usd_per_hour(cost["usd_per_hour"]), usd_per_month(cost["total_usd_per_month"])
    lines = [f"{model} on {pick['name']} ({pick['hardware']}): {hourly} per hour, {monthly} per month."]
    if pick["memory"]:
        lines.append(f"Memory {memory_words(pick['memory'])}{per_device_words(pick)}, {pick['precision']} with {pick['engine']}.")
    return "\n".join([*lines, *(reason["message"] for reason in pick["reasons"])])


def memory_text(memory: MemoryAnswer, model: str) -> str:
    """A memory answer in a few plain lines."""
    parts = ", ".join(f"{label.lower()} {gib(memory[field])}" for _, label, field in PARTS)
    settings = f"{memory['precision']} weights, {memory['kv_precision']} cache, {memory['engine']}"
    return f"{model}: {gib(memory['total_bytes'])} ({settings}).\n{parts}."


def fits_csv(fits: Sequence[FitEntry]) -> str:
    """Every tier's fit as CSV in base units."""
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(_FIT_FIELDS)
    sheet.writerows([fit[field] for field in _FIT_FIELDS] for fit in fits)
    return out.getvalue()
