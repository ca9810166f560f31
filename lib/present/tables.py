"""Answers as rows: the ranked table, the rejected, the tiers under a memory question, and how every table goes to CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lib.answers.common import EntryCost, FitEntry, MemoryAnswer, RankedEntry, RejectedEntry
from lib.present.cards import PLATFORM_NAMES, memory_words, per_device_words, precision_words, speed_figure
from lib.present.markup import bullet_list, escape
from lib.present.memory_charts import PARTS, memory_bar
from lib.present.numbers import gib, gib_figure, usd_per_hour, usd_per_month, whole

FIRST_ROWS = 5
"""Rows of a long table that are shown until more are asked for."""
_CSV_FIELDS = (
    "rank",
    "name",
    "hardware",
    "platform",
    "best_value",
    "usd_per_hour",
    "usd_per_month",
    "per_device_bytes",
    "capacity_bytes",
    "devices",
    "precision",
    "engine",
    "sdk",
    "replicas",
    "tokens_per_s",
    "request_s",
    "at_best_tokens_per_s",
    "reasons",
)
FitField = Literal[
    "name", "hardware", "platform", "devices", "usd_per_hour", "capacity_bytes", "fits", "free_bytes", "max_context_tokens",
    "max_batch_size",
]  # fmt: skip
_FIT_FIELDS: tuple[FitField, ...] = get_args(FitField)


Key = float | str | None
"""What a cell is sorted by; `None` stands last both ways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTools:
    """What a visitor can do with a table (`assets/page.js` does it).

    `keys`: what each cell is sorted by, row by row; without keys nothing is sorted. `first`: rows shown until more are asked for, 0 for
    all. `search`: the label of the field that keeps the rows with its words; "" for no field. `more` says what the other rows are.
    """

    keys: Sequence[Sequence[Key]] = ()
    first: int = 0
    more: str = ""
    search: str = ""


def table_markup(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], name: str, tools: TableTools = TableTools()) -> str:
    """A table whose rows turn into cards on a narrow screen; cells are markup already.

    The roles are spelled out because a table laid out as blocks loses its own. Sorted columns say so in aria-sort.
    """
    sorts = bool(tools.keys) and len(rows) > 1
    head = "".join(_head(text, sorts=sorts) for text in heads)
    body = "".join(_row(number, heads, cells, tools) for number, cells in enumerate(rows))
    rest = len(rows) - tools.first if tools.first else 0
    more = f'<button type="button" class="act" data-more aria-expanded="false">{rest} {escape(tools.more)}</button>' if rest > 0 else ""
    reach = "" if sorts else f' tabindex="0" role="region" aria-label="{escape(caption)}"'  # nothing else in it takes the keyboard
    table = (
        f'<div class="scroll"{reach}><table role="table" class="rows {name}" data-first="{tools.first}">'
        f'<caption>{escape(caption)}</caption><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table></div>'
    )
    if not sorts and not tools.search:
        return table
    return f'<div class="table-box{" sorts" if sorts else ""}">{_search_field(tools.search, len(rows))}{table}{more}</div>'


def _search_field(label: str, rows: int) -> str:
    if not label:
        return ""
    return (
        f'<div class="search"><label>{escape(label)} <input type="search" data-search autocomplete="off" spellcheck="false"></label> '
        f'<span role="status" data-of="{rows}"></span></div>'
    )


def _head(text: str, *, sorts: bool) -> str:
    inner = f'<button type="button" class="sort">{escape(text)}</button>' if sorts else escape(text)
    return f'<th role="columnheader" scope="col">{inner}</th>'


def _row(number: int, heads: Sequence[str], cells: Sequence[str], tools: TableTools) -> str:
    keys = tools.keys[number] if tools.keys else (None,) * len(cells)
    hidden = " hidden" if 0 < tools.first <= number else ""
    inner = "".join(_cell(index, heads[index], text, keys[index]) for index, text in enumerate(cells))
    return f'<tr role="row"{hidden}>{inner}</tr>'


def _cell(index: int, head: str, text: str, key: Key = None) -> str:
    by = "" if key is None else f' data-key="{escape(key)}"'
    if index == 0:
        return f'<th role="rowheader" scope="row"{by}>{text}</th>'
    return f'<td role="cell" data-head="{escape(head)}"{by}>{text}</td>'


def hardware_name(name: str, hardware: str, platform: str, mark: str = "") -> str:
    """A tier by the platform's name for it with a mark beside, its id, and the platform."""
    return f"{escape(name)}{mark}<small><code>{escape(hardware)}</code> {escape(PLATFORM_NAMES.get(platform, platform))}</small>"


Links = Callable[[RankedEntry], list[tuple[str, str]]]
"""The links of a row: their words, and the query of the page that they lead to."""


def ranked_table(entries: Sequence[RankedEntry], pick: RankedEntry | None, links: Links = lambda _: []) -> str:
    """Everything that qualifies, best first; what nothing else beats is marked. Beyond the first few, rows wait behind a line."""
    if not entries:
        return ""
    heads = ("Hardware", "Price per hour", "Memory", "Runs as, speed", "Why")
    rows = [_ranked_row(entry, pick, links(entry)) for entry in entries]
    keys = [_ranked_keys(entry) for entry in entries]
    tools = TableTools(keys=keys, first=FIRST_ROWS, more="more that qualify", search="Search" if len(rows) > FIRST_ROWS else "")
    return table_markup("Everything that qualifies, best first", heads, rows, "ranked", tools)


def _ranked_keys(entry: RankedEntry) -> tuple[Key, ...]:
    memory, speed = entry["memory"], entry["speed"]
    pace = speed["decode_tokens_per_s"] or speed["decode_tokens_per_s_upper_bound"] or speed["request_s"]
    return (
        entry["name"],
        entry["cost"]["usd_per_hour"],
        None if memory is None else memory["per_device_bytes"],
        pace,
        len(entry["reasons"]),
    )


def _ranked_row(entry: RankedEntry, pick: RankedEntry | None, links: list[tuple[str, str]]) -> tuple[str, ...]:
    is_pick = pick is not None and (entry["hardware"], entry["platform"]) == (pick["hardware"], pick["platform"])
    mark = (
        '<em class="badge pick">pick</em>'
        if is_pick
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
    anchors = "".join(
        f'<a data-go href="{escape(query)}">{escape(words)}<span class="sr"> of {escape(entry["name"])}</span></a>'
        for words, query in links
    )
    return f'<span class="row-links">{anchors}</span>' if anchors else ""


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
    if not rows:
        return ""
    tools = TableTools(search="Why not …? Type a name, such as A100 or zero")
    return table_markup("What does not qualify, and why", ("Hardware", "Reason"), rows, "rejected", tools)


def tiers_table(fits: Sequence[FitEntry], memory: MemoryAnswer) -> str:
    """Each tier's capacity with the model's parts drawn in it, and how far it could be stretched; what fits stands first."""
    by_price = sorted(fits, key=lambda fit: (not fit["fits"], fit["usd_per_hour"] is None, fit["usd_per_hour"] or 0))
    rows = [_tier_row(fit, memory) for fit in by_price]
    fitting = sum(fit["fits"] for fit in fits)
    return table_markup(
        "Where it fits, cheapest first",
        ("Hardware", "Memory on a device", "Fits", "Longest context (tokens)", "Concurrent requests", "Per hour"),
        rows,
        "tiers",
        TableTools(
            keys=[_tier_keys(fit) for fit in by_price], first=FIRST_ROWS, more=f"more, {fitting} of all {len(rows)} fit", search="Search"
        ),
    )


def _tier_keys(fit: FitEntry) -> tuple[Key, ...]:
    unbounded = float("inf")
    longest, most = (unbounded if value is None else value for value in (fit["max_context_tokens"], fit["max_batch_size"]))
    return fit["name"], fit["capacity_bytes"], fit["free_bytes"], longest, most, fit["usd_per_hour"]


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
    """The ranked table as CSV in base units, with what the screen shows of each row."""
    rows: list[dict[str, object]] = []
    for rank, entry in enumerate(entries, start=1):
        memory = entry["memory"]
        cost, speed = entry["cost"], entry["speed"]
        cells = (
            rank,
            *(entry["name"], entry["hardware"], entry["platform"]),
            entry["pareto"],
            cost["usd_per_hour"],
            cost["total_usd_per_month"],
            *((None, None) if memory is None else (memory["per_device_bytes"], memory["capacity_bytes"])),
            entry["devices"],
            *(entry["precision"], entry["engine"], entry["sdk"]),
            entry["replicas"],
            speed["decode_tokens_per_s"],
            speed["request_s"],
            speed["decode_tokens_per_s_upper_bound"],
            " ".join(reason["message"] for reason in entry["reasons"]),
        )
        rows.append(dict(zip(_CSV_FIELDS, cells, strict=True)))
    return csv_text(_CSV_FIELDS, rows)


def csv_text(fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """These fields of each row as CSV; text that a spreadsheet would run as a formula is quoted as text, what is None is left empty."""
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(fields)
    sheet.writerows([_inert(row[field]) for field in fields] for row in rows)
    return out.getvalue()


def _inert(cell: object) -> object:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in {"=", "+", "-", "@", "\t", "\r"} else cell


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
    """The table of tiers as CSV in base units."""
    return csv_text(_FIT_FIELDS, fits)
