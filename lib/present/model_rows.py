"""What is inside a model as tables and as CSV: its tensors with their bytes, and its dry run beside the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lib import precision
from lib.answers.common import FitEntry, MemoryAnswer
from lib.present.markup import answer_actions, escape
from lib.present.numbers import count, deviation, gib, usd_per_hour, whole
from lib.present.tables import Key, TableTools, answer_json, csv_text, table_markup

if TYPE_CHECKING:
    from lib.answers.model import DryRunAnswer, FigureEntry, TensorEntry, TensorsAnswer


_TENSOR_HEADS = ("Tensor", "Part of the model", "Shape", "Count", "Parameters", "Bytes", "Share")
_TENSOR_FIELDS = ("component", "block", "kind", "name", "shape", "count", "parameters", "bytes", "share")


def shape_words(tensor: TensorEntry) -> str:
    """Its extents: "4096 × 14336", or one number."""
    return " × ".join(str(extent) for extent in tensor["shape"]) or "1"


def tensors_table(answer: TensorsAnswer, name: str) -> str:
    """What can be saved of the tensors, and all of them as a table behind a line; the treemap is drawn from the same rows."""
    rows = [
        (
            f"<code>{escape(tensor['name'])}</code>",
            escape(f"{tensor['component']}, {tensor['block']}".replace("_", " ")),
            shape_words(tensor),
            whole(tensor["count"]),
            count(tensor["parameters"]),
            gib(tensor["bytes"]),
            f"{100 * tensor['share']:.2f} %",
        )
        for tensor in answer["tensors"]
    ]
    caption = f"{name}: {gib(answer['weights_bytes'])} of weights in {answer['precision']}, {len(rows)} kinds of tensors"
    lines = [f"{t['name']}: {t['count']} × {shape_words(t)}, {t['bytes']:,} bytes" for t in answer["tensors"]]
    files = (
        ("Download CSV", "tensors.csv", "text/csv", tensors_csv(answer)),
        ("Download JSON", "tensors.json", "application/json", answer_json(answer)),
    )
    table = table_markup(f"{caption}, largest first", _TENSOR_HEADS, rows, "tensors")
    return (
        f"<p>{escape(caption)}.</p><details><summary>Every tensor as a table</summary>{table}</details>"
        f"{answer_actions(text=chr(10).join([caption, *lines]), query=None, files=files)}"
    )


def tensors_csv(answer: TensorsAnswer) -> str:
    """The tensors as rows; a shape is written as 4096x14336."""
    return csv_text(_TENSOR_FIELDS, [{**tensor, "shape": "x".join(map(str, tensor["shape"]))} for tensor in answer["tensors"]])


DRY_RUN_ABOUT = (
    "Runs the real model class on tensors without values, in a process of its own, and counts bytes, FLOP and operations beside the closed "
    "forms: context, sequences and purpose as above, in bfloat16. It takes seconds."
)
DRY_RUN_CHOOSE = "Name a model above to execute it."
DRY_RUN_UNDER_WAY = "Building the architecture and executing it. The run is ended when it takes too long or too much memory."
DRY_RUN_STOPPED = "Stopped. The run was ended, unless somebody else waits for the same one."
_HEADS = ("Figure", "Executed", "Closed form", "Ratio")
_FIGURE_FIELDS = ("figure", "unit", "executed", "closed_form", "ratio")
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
    return csv_text(_FIGURE_FIELDS, [{**figure, "figure": figure["name"]} for figure in answer["figures"]])


_PRECISION_HEADS = ("Precision", "Memory on a device", "Tiers that hold it", "Cheapest of them", "Longest context there (tokens)")


def precision_table(answers: Sequence[MemoryAnswer], current: str, link: Callable[[str], str | None]) -> str:
    """One row for each answer, most bytes first; `current` is the precision in use, `link` the query that asks for another."""
    by_size = sorted(answers, key=lambda answer: -answer["weights_bytes"])
    here = next((answer["per_device_bytes"] for answer in by_size if answer["precision"] == current), None)
    holding = [_fitting(answer) for answer in by_size]
    rows = [_cells(answer, fits, current, here, link(answer["precision"])) for answer, fits in zip(by_size, holding, strict=True)]
    keys = [_keys(answer, fits) for answer, fits in zip(by_size, holding, strict=True)]
    tools = TableTools(keys=keys, search="Search" if len(rows) > 8 else "")  # noqa: PLR2004  a screen
    return table_markup("Every precision that this engine loads, and where it fits", _PRECISION_HEADS, rows, "precisions", tools)


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
    ids = ", ".join(f"<code>{escape(fit['hardware'])}</code>" for fit in holding)
    return f"<details><summary>{len(holding)} of {tried}</summary>{ids}</details>"


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
