"""What is inside a model as tables and as CSV: its tensors with their bytes, and its dry run beside the closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.present.markup import answer_actions, escape
from lib.present.numbers import count, gib, whole
from lib.present.tables import answer_json, csv_text, table_markup

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
    told = f"{name}: {gib(answer['weights_bytes'])} of weights in {answer['precision']}, {len(rows)} kinds of tensors"
    lines = [f"{t['name']}: {t['count']} × {shape_words(t)}, {t['bytes']:,} bytes" for t in answer["tensors"]]
    files = (
        ("Download CSV", "tensors.csv", "text/csv", tensors_csv(answer)),
        ("Download JSON", "tensors.json", "application/json", answer_json(answer)),
    )
    table = table_markup(f"{told}, largest first", _TENSOR_HEADS, rows, "tensors")
    return (
        f"<p>{escape(told)}.</p><details><summary>Every tensor as a table</summary>{table}</details>"
        f"{answer_actions(text=chr(10).join([told, *lines]), query=None, files=files)}"
    )


def tensors_csv(answer: TensorsAnswer) -> str:
    """The tensors as rows; a shape is written as 4096x14336."""
    return csv_text(_TENSOR_FIELDS, [{**tensor, "shape": "x".join(map(str, tensor["shape"]))} for tensor in answer["tensors"]])


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
