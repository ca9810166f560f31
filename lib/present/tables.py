"""Answers as rows, and how every table goes to CSV and JSON.

The ranking, the rejected, tiers and precisions under a memory question, ways to save memory, a model's tensors with their bytes, and its
dry run compared with the closed forms.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from markupsafe import Markup

from lib import precision
from lib.advisor.result import Cost, Entry, OwnHardware, Rejection
from lib.answers.memory import FitEntry, MemoryAnswer
from lib.platforms import PLATFORMS
from lib.present.cards import (
    PLATFORM_NAMES,
    caveat_list,
    memory_bar,
    memory_settings,
    memory_words,
    month_figures,
    note_list,
    own_text,
    part_bytes,
    per_device_words,
    precision_words,
    speed_figure,
)
from lib.present.html import call_macro, render_html, trusted, with_small
from lib.present.markup import answer_actions, escape, fold
from lib.present.numbers import count, count_words, deviation, gib, gib_figure, usd_an_hour, usd_per_hour, usd_per_month, whole
from lib.present.reason_order import order_reasons
from lib.present.sentences import say, sentence, to_json
from lib.result import fields_of

if TYPE_CHECKING:
    from lib.answers.memory import MemorySavingEntry, SolveAnswer
    from lib.answers.model import DryRunAnswer, FigureEntry, TensorEntry, TensorsAnswer

FIRST_ROWS = 5
"""Rows of a long table that are shown until more are asked for."""
FitField = Literal[
    "name", "hardware", "platform", "devices", "usd_per_hour", "capacity_bytes", "fits", "free_bytes", "max_context_tokens",
    "max_batch_size",
]  # fmt: skip
_FIT_FIELDS: tuple[FitField, ...] = get_args(FitField)


Column = TypeVar("Column")
Key = float | Decimal | str | None
"""Sort key of a cell; `None` is last in both orders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTools:
    """Tools of a table (`assets/page.js` does the work).

    `keys`: what each cell is sorted by, row by row; without keys nothing is sorted. `first`: rows shown until more are asked for, 0 for
    all. `search`: the label of the field that keeps the rows with its words; "" for no field. `more` says what the other rows are.
    """

    keys: Sequence[Sequence[Key]] = ()
    first: int = 0
    more: str = ""
    search: str = ""


def render_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], name: str, tools: TableTools = TableTools()) -> Markup:
    """A table whose rows turn into cards on a narrow screen; a cell is escaped unless it is `Markup`."""
    plain = replace(tools, keys=[[float(key) if isinstance(key, Decimal) else key for key in keys] for keys in tools.keys])
    return call_macro("table.html.j2", "table", caption, heads, rows, name, plain)


def show_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], name: str, tools: TableTools = TableTools()) -> str:
    """The same table as text, to put together with other blocks of the page."""
    return str(render_table(caption, heads, rows, name, tools))


def hardware_name(name: str, hardware: str, platform: str, mark: Markup | str = "") -> Markup:
    """A tier by the platform's name for it with a mark, and the platform. A search finds the row by its id too."""
    words = Markup('<span data-words="{}">{}</span>{}<small>{}</small>')
    return words.format(hardware, name, mark, PLATFORM_NAMES.get(platform, platform))


Links = Callable[[Entry], list[tuple[str, str]]]
"""The links of a row: their words, and the query of the page that they lead to."""


def ranked_table(entries: Sequence[Entry], pick: Entry | None, links: Links = lambda _: []) -> str:
    """Everything that qualifies, best first; what nothing else beats is marked. Beyond the first few, rows wait behind a line."""
    if not entries:
        return ""
    heads = ("Hardware", "Price per hour", "Memory", "Runs as, speed", "Why")
    rows = [_ranked_row(entry, pick, links(entry)) for entry in entries]
    search = "Search" if len(rows) > FIRST_ROWS else ""
    tools = TableTools(keys=list(map(_ranked_keys, entries)), first=FIRST_ROWS, more="more that qualify", search=search)
    return show_table(say("findings", "tables", "ranked"), heads, rows, "ranked", tools)


def _ranked_keys(entry: Entry) -> tuple[Key, ...]:
    memory, speed = entry.memory, entry.speed
    pace = speed.decode_tokens_per_s or speed.decode_tokens_per_s_upper_bound or speed.request_s
    needed_bytes = None if memory is None else memory.per_device_bytes
    return entry.name, float(entry.cost.usd_per_hour), needed_bytes, pace, len(order_reasons(entry.reasons).first)


def _ranked_row(entry: Entry, pick: Entry | None, links: list[tuple[str, str]]) -> tuple[str, ...]:
    is_pick = pick is not None and (entry.hardware, entry.platform) == (pick.hardware, pick.platform)
    mark = Markup()
    if is_pick:
        mark = Markup(' <em class="badge pick">pick</em>')
    elif entry.pareto:
        mark = Markup(' <em class="badge" title="No other is both as cheap and as fast">cheapest at this speed</em>')
    memory = entry.memory
    bar = with_small(trusted(memory_bar(memory, memory.capacity_bytes)), memory_words(memory) + per_device_words(entry)) if memory else "–"
    pace = speed_figure(entry.speed)
    first = order_reasons(entry.reasons).first
    return (
        hardware_name(entry.name, entry.hardware, entry.platform, mark)
        + trusted(row_links(entry.name, links, f"{entry.platform}:{entry.hardware}")),
        price_cell(entry.cost),
        bar,
        with_small(trusted(precision_words(entry)), f"{'at best' if pace[0].endswith('at best') else 'about'} {pace[1]}" if pace else ""),
        trusted(fold(count_words(len(first), "reason"), note_list(first), "")) if first else "–",
    )


def row_links(name: str, links: list[tuple[str, str]], hardware: str) -> str:
    """The tick that takes a row's hardware into the comparison, and its links, named with it for those who hear them one by one."""
    return render_html("row_links.html.j2", name=name, links=links, hardware=hardware)


def price_cell(cost: Cost) -> str:
    """Per hour, and per month below it; a free offer is only called free."""
    hourly = usd_per_hour(cost.usd_per_hour)
    return with_small(hourly, "" if hourly == "free" else f"{usd_per_month(cost.total_usd_per_month)} a month")


def rejected_table(entries: Sequence[Rejection]) -> str:
    """Everything that does not qualify, each with all its obstacles."""
    rows = [
        (
            hardware_name(entry.name, entry.hardware, entry.platform),
            Markup("<br>").join(sentence(why) for why in (entry.reason, *entry.also)),
        )
        for entry in entries
    ]
    if not rows:
        return ""
    tools = TableTools(search=say("findings", "tables", "why_not"))
    return show_table(say("findings", "tables", "rejected"), ("Hardware", "Reason"), rows, "rejected", tools)


def tiers_table(fits: Sequence[FitEntry], memory: MemoryAnswer) -> str:
    """Each tier's capacity with the model's parts drawn in it, and how far it could be stretched; tiers that fit come first."""
    by_price = sorted(fits, key=lambda fit: (fit.platform in PLATFORMS, not fit.fits, fit.usd_per_hour is None, fit.usd_per_hour or 0))
    heads = [
        "Hardware",
        "Memory on a device",
        "Fits",
        *_of_length(memory, "Longest context (tokens)"),
        "Largest batch that fits",
        "Per hour",
    ]
    rows = [_tier_row(fit, memory) for fit in by_price]
    more = f"more; {sum(fit.fits for fit in fits)} of {len(rows)} fit"
    tools = TableTools(keys=[_tier_keys(fit, memory) for fit in by_price], first=FIRST_ROWS, more=more, search="Search")
    several = len({gib_figure(fit.capacity_bytes - fit.free_bytes) for fit in fits}) > 1
    notes = [say("findings", "memory", "fits_only"), *([say("findings", "memory", "runtime_varies")] if several else [])]
    return show_table(say("findings", "memory", "fits"), heads, rows, "tiers", tools) + f'<p class="quiet">{escape(" ".join(notes))}</p>'


def _of_length(memory: MemoryAnswer, column: Column) -> list[Column]:
    """A column of the table for models with a context length; a pipeline, which runs in stages, has none."""
    return [] if memory.stages else [column]


def _tier_keys(fit: FitEntry, memory: MemoryAnswer) -> tuple[Key, ...]:
    unbounded = float("inf")
    longest, most = (unbounded if value is None else value for value in (fit.max_context_tokens, fit.max_batch_size))
    return fit.name, fit.capacity_bytes, fit.free_bytes, *_of_length(memory, longest), most, fit.usd_per_hour


def _tier_row(fit: FitEntry, memory: MemoryAnswer) -> tuple[str, ...]:
    free, capacity = fit.free_bytes, fit.capacity_bytes
    need = capacity - free
    bar = memory_bar(memory, capacity, need)
    if fit.fits:
        room = with_small(Markup('<em class="badge fits">fits</em>'), f"{gib(free)} left")
    elif free >= 0:
        room = with_small(Markup('<em class="badge lacks">not here</em>'), f"{memory.engine} does not run on it")
    else:
        room = with_small(Markup('<em class="badge lacks">too small</em>'), f"{gib(-free)} short")
    shared = f" on each of {fit.devices}" if fit.devices > 1 else ""
    return (
        hardware_name(fit.name, fit.hardware, fit.platform),
        with_small(trusted(bar), f"{gib_figure(need)} of {gib(capacity)}{shared}"),
        room,
        *_of_length(memory, whole(fit.max_context_tokens, "no limit found") if fit.max_context_tokens != 0 else "none"),
        whole(fit.max_batch_size, "no limit found") if fit.max_batch_size != 0 else "none",
        usd_per_hour(fit.usd_per_hour),
    )


_RANKED_FIELDS = (
    "rank", "name", "hardware", "platform", "best_value", "usd_per_hour", "usd_per_month", "per_device_bytes", "capacity_bytes", "devices",
    "precision", "engine", "sdk", "replicas", "tokens_per_s", "request_s", "at_best_tokens_per_s", "reasons",
)  # fmt: skip


def ranked_csv(entries: Sequence[Entry]) -> str:
    """The ranked table as CSV in base units, with what the screen shows of each row."""
    rows = (dict(zip(_RANKED_FIELDS, (rank, *_ranked_values(entry)), strict=True)) for rank, entry in enumerate(entries, start=1))
    return csv_text(_RANKED_FIELDS, rows)


def _ranked_values(entry: Entry) -> Iterable[object]:
    memory, cost, speed = entry.memory, entry.cost, entry.speed
    yield from (entry.name, entry.hardware, entry.platform, entry.pareto, float(cost.usd_per_hour), float(cost.total_usd_per_month))
    yield from (None, None) if memory is None else (memory.per_device_bytes, memory.capacity_bytes)
    yield from (entry.devices, entry.precision, entry.engine, entry.sdk, entry.replicas)
    yield from (speed.decode_tokens_per_s, speed.request_s, speed.decode_tokens_per_s_upper_bound)
    yield " ".join(sentence(reason) for reason in entry.reasons)


def csv_text(fields: Sequence[str], rows: Iterable[object]) -> str:
    """These fields of each row as CSV; text that a spreadsheet would run as a formula is quoted as text, None becomes an empty cell."""
    out = io.StringIO()
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(fields)
    sheet.writerows([_inert(row[field]) for field in fields] for row in map(to_json, rows))
    return out.getvalue()


def _inert(cell: object) -> object:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in {"=", "+", "-", "@", "\t", "\r"} else cell


def answer_json(answer: object) -> str:
    """A whole answer as the API gives it."""
    return json.dumps(to_json(answer), ensure_ascii=False, separators=(",", ":"))


def pick_text(pick: Entry | None, model: str, own: OwnHardware | None = None) -> str:
    """The pick in a few plain lines, for a message or a note; before it the visitor's own cards."""
    if own is not None:
        return f"{own_text(own)}\n{pick_text(pick, model)}"
    if pick is None:
        return say("findings", "no_pick", "listed", model=model)
    cost = pick.cost
    (_, monthly), *others = month_figures(cost)
    words = {"model": model, "hardware": pick.name, "id": pick.hardware, "hourly": usd_per_hour(cost.usd_per_hour), "monthly": monthly}
    lines = [say("findings", "pick", "text", **words)]
    lines += [f"{title}: {figure}." for title, figure in others]
    if pick.memory:
        lines.append(f"Memory {memory_words(pick.memory)}{per_device_words(pick)}, {pick.precision} with {pick.engine}.")
    return "\n".join([*lines, *map(sentence, pick.reasons)])


def memory_text(memory: MemoryAnswer, model: str) -> str:
    """A memory answer in a few plain lines."""
    parts = ", ".join(f"{part} {gib(size)}" for part, size in part_bytes(memory).items())
    return f"{model}: {gib(memory.total_bytes)} ({memory_settings(memory)}).\n{parts}."


def fits_csv(fits: Sequence[FitEntry]) -> str:
    """The table of tiers as CSV in base units."""
    return csv_text(_FIT_FIELDS, fits)


def memory_savings_table(answer: SolveAnswer) -> str:
    """Ways to save memory, and the assumptions behind the figures."""
    if not answer.memory_savings:
        return caveat_list(answer.caveats)
    heads = ("Change", "Saved per device", "Memory after", "Speed after")
    rows = [_saving_row(way) for way in answer.memory_savings]
    title = say("findings", "memory", "savings" if answer.fits else "ways_to_fit")
    return show_table(title, heads, rows, "memory-savings") + caveat_list(answer.caveats)


def _saving_row(way: MemorySavingEntry) -> tuple[str, ...]:
    fits = "fits" if way.fits else "does not fit"
    return way.message, gib(way.saved_bytes), with_small(gib(way.per_device_bytes), fits), way.effect if way.fits else "–"


def answer_files(name: str, table: str, answer: object) -> tuple[tuple[str, str, str, str], ...]:
    """The downloads of an answer: its table, and all of it."""
    return (
        ("Download CSV", f"{name}.csv", "text/csv", table),
        ("Download JSON", f"{name}.json", "application/json", answer_json(answer)),
    )


_TENSOR_FIELDS = ("component", "block", "kind", "name", "shape", "count", "parameters", "bytes", "share")


def shape_words(tensor: TensorEntry) -> str:
    """Its extents: "4096 × 14336", or one number."""
    return " × ".join(map(str, tensor.shape)) or "1"


def tensors_table(answer: TensorsAnswer, name: str) -> str:
    """Downloads of the tensors, and all of them as a table behind a line; the treemap is drawn from the same rows."""
    rows = [
        (
            Markup("<code>{}</code>").format(tensor.name),
            f"{tensor.component}, {tensor.block}".replace("_", " "),
            shape_words(tensor),
            whole(tensor.count),
            count(tensor.parameters),
            gib(tensor.bytes),
            f"{100 * tensor.share:.2f} %",
        )
        for tensor in answer.tensors
    ]
    caption = f"{name}: {gib(answer.weights_bytes)} of weights in {answer.precision}, {len(rows)} kinds of tensors"
    lines = [f"{t.name}: {t.count} × {shape_words(t)}, {t.bytes:,} bytes" for t in answer.tensors]
    heads = ("Tensor", "Part of the model", "Shape", "Count", "Parameters", "Bytes", "Share")
    table = fold(say("findings", "memory", "tensors"), show_table(f"{caption}, largest first", heads, rows, "tensors"), "")
    files = answer_files("tensors", tensors_csv(answer), answer)
    return f"<p>{escape(caption)}.</p>{table}{answer_actions(text=chr(10).join([caption, *lines]), query=None, files=files)}"


def tensors_csv(answer: TensorsAnswer) -> str:
    """The tensors as rows; a shape is written as 4096x14336."""
    return csv_text(_TENSOR_FIELDS, [fields_of(tensor) | {"shape": "x".join(map(str, tensor.shape))} for tensor in answer.tensors])


_FIGURE_FIELDS = ("figure", "unit", "executed", "closed_form", "ratio")


def _amount(value: int | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "bytes":
        return with_small(gib(value), f"{whole(value)} bytes")
    if unit == "FLOP":
        return f"{value / 1e12:,.3f} TFLOP" if value >= 1e12 else f"{value / 1e9:,.3f} GFLOP"  # noqa: PLR2004  a tera
    return whole(value)


def _figure_row(figure: FigureEntry) -> tuple[str, ...]:
    ratio = "–" if figure.ratio is None else f"{figure.ratio:.3f}"
    unit = figure.unit
    return figure.name.capitalize(), _amount(figure.executed, unit), _amount(figure.closed_form, unit), ratio


def dry_run_table(answer: DryRunAnswer) -> str:
    """The table, and what can be saved of it."""
    ran = say("findings", "memory", "dry_run", ran=answer.layers_run, layers=answer.layers)
    caption, heads = f"{answer.architecture} executed without values: {ran}", ("Figure", "Executed", "Closed form", "Ratio")
    table = show_table(caption, heads, list(map(_figure_row, answer.figures)), "dry-run")
    text = "\n".join(f"{f.name}: {f.executed:,} {f.unit}" for f in answer.figures)
    return table + answer_actions(text=text, query=None, files=answer_files("dry_run", dry_run_csv(answer), answer))


def dry_run_csv(answer: DryRunAnswer) -> str:
    """The figures as rows."""
    return csv_text(_FIGURE_FIELDS, [fields_of(figure) | {"figure": figure.name} for figure in answer.figures])


def precision_table(answers: Sequence[MemoryAnswer], current: str, link: Callable[[str], str | None]) -> str:
    """One row for each answer, most bytes first; `current` is the precision in use, `link` the query that asks for another."""
    by_size = sorted(answers, key=lambda answer: -answer.weights_bytes)
    here = next((answer.per_device_bytes for answer in by_size if answer.precision == current), None)
    holding = [_fitting(answer) for answer in by_size]
    rows = [_precision_row(answer, fits, current, here, link(answer.precision)) for answer, fits in zip(by_size, holding, strict=True)]
    keys = [_precision_keys(answer, fits) for answer, fits in zip(by_size, holding, strict=True)]
    tools = TableTools(keys=keys, search="Search" if len(rows) > 8 else "")  # noqa: PLR2004  a screen
    heads = ["Precision", "Memory on a device", "Tiers with enough memory", "Cheapest with enough memory"]
    heads += _of_length(answers[0], "Longest context there (tokens)")
    return show_table(say("findings", "memory", "precisions"), heads, rows, "precisions", tools)


def _fitting(answer: MemoryAnswer) -> list[FitEntry]:
    """The tiers that hold it, cheapest first."""
    return sorted((fit for fit in answer.fits if fit.fits), key=lambda fit: (fit.usd_per_hour is None, fit.usd_per_hour or 0))


def _precision_row(answer: MemoryAnswer, holding: Sequence[FitEntry], current: str, here: int | None, query: str | None) -> tuple[str, ...]:
    name, need = answer.precision, gib(answer.per_device_bytes)
    named: str = name if name == current or query is None else Markup('<a href="{}">{}</a>').format(query, name)
    if name == current:
        named = Markup('{} <em class="badge pick">in use</em>').format(name)
    elif here is not None:
        need = with_small(need, deviation(answer.per_device_bytes, here))
    label = with_small(named, precision.weight_format(name).title)
    tiers_judged = len(answer.fits)
    if not holding:
        return label, need, f"none of {tiers_judged}", "–", *_of_length(answer, "–")
    first, names = holding[0], ", ".join(fit.name for fit in holding)
    tiers = Markup("<details><summary>{} of {}</summary>{}</details>").format(len(holding), tiers_judged, names)
    cheapest = with_small(first.name, usd_an_hour(first.usd_per_hour))
    return label, need, tiers, cheapest, *_of_length(answer, whole(first.max_context_tokens, "no limit found"))


def _precision_keys(answer: MemoryAnswer, holding: Sequence[FitEntry]) -> tuple[Key, ...]:
    longest = holding[0].max_context_tokens if holding else None
    price = holding[0].usd_per_hour if holding else None
    return answer.precision, answer.per_device_bytes, len(holding), price, *_of_length(answer, longest)
