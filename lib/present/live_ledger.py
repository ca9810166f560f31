"""The ledger as a picture and a table: each prediction against what was measured, and the newest rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from lib.answers.live import LedgerEntry, LedgerStatus
from lib.present.charts import MARK, axis, lay_out
from lib.present.live_cards import KINDS, format_error, format_figure
from lib.present.markup import escape
from lib.present.numbers import whole
from lib.present.tables import table_markup
from lib.units import GIB

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

FigureName = Literal["peak_bytes", "decode_tokens_per_s", "ttft_s"]

FIGURES: tuple[tuple[str, FigureName], ...] = (
    ("Peak memory", "peak_bytes"),
    ("Tokens per second", "decode_tokens_per_s"),
    ("Time to first token", "ttft_s"),
)
"""What the scatter can show, as words and as the field of a row."""
_UNITS = {"peak_bytes": "GiB", "decode_tokens_per_s": "tokens/s", "ttft_s": "s"}
_NAMES = dict(KINDS)
_ABOVE = {"peak_bytes": "too high", "decode_tokens_per_s": "too optimistic", "ttft_s": "too pessimistic"}
_COLOURS = ("#3d74b8", "#d1851a", "#2f9e7a", "#b0527a", "#7a62b8", "#8b93a1")
_BAND = 0.10
_SHOWN, _NEWEST = 5, 25
_PAD = 1.4
_STEPS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))
_MOST_TICKS = 8
_KINDS = {"measure": "measured", "chat": "chat", "job": "measured by a Job"}


class Point(NamedTuple):
    """A row that holds a figure both measured and predicted, both above zero."""

    row: LedgerEntry
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted / measured − 1."""
        return self.predicted / self.measured - 1


def predicted_figure(row: LedgerEntry, figure: FigureName) -> float | None:
    """The prediction for a figure of a row."""
    match figure:
        case "peak_bytes":
            return row["predicted_peak_bytes"]
        case "decode_tokens_per_s":
            return row["predicted_decode_tokens_per_s"]
        case "ttft_s":
            return row["predicted_ttft_s"]


def select_points(rows: Sequence[LedgerEntry], figure: FigureName) -> list[Point]:
    """The rows that hold both ends of this figure."""
    pairs = ((row, row[figure], predicted_figure(row, figure)) for row in rows)
    return [Point(row, measured, predicted) for row, measured, predicted in pairs if measured and predicted]


def _size(figure: FigureName, value: float) -> float:
    return value / GIB if figure == "peak_bytes" else value


def _groups(drawn: Sequence[Point]) -> list[tuple[str, str]]:
    """Devices with their colours, the most frequent first; beyond the palette they share the last."""
    names = [point.row["device"] for point in drawn]
    order = sorted(dict.fromkeys(names), key=lambda name: -names.count(name))
    return [(name, _COLOURS[min(at, len(_COLOURS) - 1)]) for at, name in enumerate(order)]


def scatter_head(rows: Sequence[LedgerEntry], figure: FigureName) -> str:
    """The heading with the devices' colours, and how well the predictions did."""
    points = select_points(rows, figure)
    groups = _groups(points)
    coloured = groups[: len(_COLOURS) - 1] if len(groups) > len(_COLOURS) else groups
    key = "".join(f'<span><i class="dot" style="background:{colour}"></i>{escape(name)}</span>' for name, colour in coloured)
    rest = f'<span><i class="dot" style="background:{_COLOURS[-1]}"></i>others</span>' if len(coloured) < len(groups) else ""
    return (
        f'<div class="chart-head"><h3>{_NAMES[figure]}: predicted against measured</h3><p class="key">{key}{rest}</p></div>'
        f'<div class="chart-foot"><p class="quiet">{_summary(points, figure)}</p></div>'
    )


def _summary(drawn: Sequence[Point], figure: FigureName) -> str:
    errors = [point.error for point in drawn]
    if not errors:
        return f"No row holds both a measured and a predicted {_NAMES[figure].lower()} yet."
    near = sum(abs(error) <= _BAND for error in errors)
    runs = "1 run" if len(errors) == 1 else f"{len(errors)} runs"
    middle = statistics.median(abs(error) for error in errors)
    return (
        f"{runs}; {near} of them predicted within 10 % (the shaded band). The median prediction is {100 * middle:.1f} % off. "
        f"On the dashed line a prediction is exact; above it, {_ABOVE[figure]}."
    )


def draw_scatter(rows: Sequence[LedgerEntry], figure: FigureName) -> Figure | None:
    """Predicted over measured, both logarithmic; none where no row holds both."""
    points = select_points(rows, figure)
    if not points:
        return None
    from plotly.graph_objects import Figure, Scatter  # noqa: PLC0415  a quarter of a second that only figures need

    ends = [_size(figure, end) for point in points for end in (point.measured, point.predicted)]
    low, high = min(ends) / _PAD, max(ends) * _PAD
    drawn = Figure()
    quiet: dict[str, Any] = {"mode": "lines", "hoverinfo": "skip"}
    clear, shade = {"width": 0}, "rgba(139,147,161,.22)"
    drawn.add_trace(Scatter(x=[low, high], y=[low * (1 - _BAND), high * (1 - _BAND)], line=clear, **quiet))
    drawn.add_trace(Scatter(x=[low, high], y=[low * (1 + _BAND), high * (1 + _BAND)], line=clear, fill="tonexty", fillcolor=shade, **quiet))
    drawn.add_trace(Scatter(x=[low, high], y=[low, high], line={"width": 1.5, "dash": "dash", "color": MARK}, **quiet))
    for name, colour in _groups(points):
        drawn.add_trace(_dots(Scatter, [point for point in points if point.row["device"] == name], figure, colour))
    ticks = _ticks(low, high)
    ends = [math.log10(low), math.log10(high)]
    marks: dict[str, Any] = {"type": "log", "tickangle": 0, "range": ends, "tickvals": ticks, "ticktext": [f"{at:,.10g}" for at in ticks]}
    unit = _UNITS[figure]
    lay_out(drawn, axis(f"Measured, {unit}", **marks), axis(f"Predicted, {unit}", **marks), height=380)
    return drawn


def _dots(scatter_type: type, drawn: Sequence[Point], figure: FigureName, colour: str) -> Any:
    return scatter_type(
        x=[_size(figure, point.measured) for point in drawn],
        y=[_size(figure, point.predicted) for point in drawn],
        mode="markers",
        marker={
            "size": 10,
            "color": colour,
            "opacity": 0.85,
            "symbol": ["diamond" if point.row["kind"] == "chat" else "circle" for point in drawn],
            "line": {"width": 0},
        },
        hovertemplate=[_hover(point, figure) for point in drawn],
    )


def _hover(point: Point, figure: FigureName) -> str:
    row = point.row
    return (
        f"<b>{escape(row['model'])}</b> {escape(row['precision'])}<br>{escape(row['device'])}, {_lengths(row)}<br>"
        f"measured {format_figure(figure, point.measured)}, predicted {format_figure(figure, point.predicted)}: "
        f"{format_error(figure, point.error)}<extra></extra>"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round values along a logarithmic axis, the coarsest steps that mark it at least three times."""
    for steps in _STEPS:
        every = [value * 10.0**power for power in range(-6, 9) for value in steps]
        ticks = [at for at in every if low <= at <= high]
        if len(ticks) >= 3:  # noqa: PLR2004  two ends and a middle
            return ticks if len(ticks) <= _MOST_TICKS else ticks[:: math.ceil(len(ticks) / _MOST_TICKS)]
    return [float(f"{low * (high / low) ** part:.2g}") for part in (0.1, 0.5, 0.9)]


def _lengths(row: LedgerEntry) -> str:
    return f"{whole(row['prompt_tokens'])} + {whole(row['output_tokens'])} tokens"


def newest_table(rows: Sequence[LedgerEntry]) -> str:
    """The newest rows as a table; beyond the first few they wait behind a line, and all of them are in the files."""
    heads = ("Model", "Device", "Run", "Peak memory", "Tokens per second", "First token")
    cells = [_cells(row) for row in rows[:_NEWEST]]
    if not cells:
        return ""
    first = table_markup("Newest measurements", heads, cells[:_SHOWN], "measured")
    if len(cells) <= _SHOWN:
        return first
    more = table_markup("More measurements", heads, cells[_SHOWN:], "measured more")
    rest = f"{len(cells) - _SHOWN} more" + (f", of {whole(len(rows))}; the files hold all" if len(rows) > _NEWEST else "")
    return f'{first}<details class="rest"><summary>{rest}</summary>{more}</details>'


def _cells(row: LedgerEntry) -> tuple[str, ...]:
    return (
        f"{escape(row['model'])}<small>{escape(row['when'].replace('T', ' '))}, {_KINDS[row['kind']]}</small>",
        escape(row["device"]) + f"<small>torch {escape(row['torch'])}</small>",
        f"{escape(row['precision'])}, {row['weights']} weights<small>{_lengths(row)}</small>",
        *(_both(row, figure) for figure in get_args(FigureName)),
    )


def _both(row: LedgerEntry, figure: FigureName) -> str:
    measured, guess = row[figure], predicted_figure(row, figure)
    if measured is None:
        return "–"
    beside = (
        "" if guess is None else f"<small>predicted {format_figure(figure, guess)}, {format_error(figure, guess / measured - 1)}</small>"
    )
    return format_figure(figure, measured) + beside


def storage_line(status: LedgerStatus) -> str:
    """How many rows there are, where they lie, whether they outlive a restart, and what is wrong."""
    rows, own = status["rows"], status["own_rows"]
    counted = "1 row" if rows == 1 else f"{whole(rows)} rows"
    whose = f"{whole(own)} of them from this machine" if own < rows else "from this machine"
    there = f"{counted}, {whose}." if rows else "Nothing has been measured yet: the first run of Measure appears here."
    lasts = ", which outlives a restart" if status["lasting"] else ""  # where it does not, `kept` says so
    wrong = f" {status['problem']}" if status["problem"] else ""
    return (
        f'<p class="quiet kept" role="status">{escape(there)} New rows are kept in {escape(status["kept"])}{lasts}.{escape(wrong)} '
        f"{escape(status['copied'])} A row names the model and the device, never who asked or what was said.</p>"
    )
