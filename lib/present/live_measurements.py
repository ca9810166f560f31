"""Measured compared with predicted: the figures of a run, its prediction, its result, and the ledger as a picture and a table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from lib.answers.live import (
    ChatMetrics,
    ChatPrediction,
    ErrorRatio,
    ExpectedAnswer,
    MeasureAnswer,
    MeasurePrediction,
    RunEnd,
)
from lib.present.cards import answer_details, model_name
from lib.present.charts import MARK, axis, chart_head, lay_out, swatch
from lib.present.html import STRONG, render_html, trusted, with_small
from lib.present.markup import escape, fold
from lib.present.numbers import count_words, format_seconds, gib, tokens_per_s, whole
from lib.present.sentences import say
from lib.present.tables import csv_text, show_table
from lib.units import GIB

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from lib.live.ledger import LedgerStatus
    from lib.live.measurements import Measurement

FigureName = Literal["ttft_s", "decode_tokens_per_s", "peak_bytes", "picture_s"]
KINDS: tuple[tuple[FigureName, str], ...] = (
    ("ttft_s", "Time to first token"),
    ("decode_tokens_per_s", "Tokens per second"),
    ("peak_bytes", "Peak memory"),
)
"""The figures of a run on this device."""
_MORE_LESS = {
    "ttft_s": ("pessimistic", "optimistic"),
    "decode_tokens_per_s": ("optimistic", "pessimistic"),
    "peak_bytes": ("high", "low"),
    "picture_s": ("pessimistic", "optimistic"),
}
_SAME = 0.005
_TWICE = 2.0
_WIDEST = 2.0  # times the length of the other bar, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """One figure; texts are "" if nothing was predicted. `ratio` is predicted / measured."""

    name: str
    measured: str
    predicted: str
    between: str
    off: str
    ratio: float | None


def format_figure(kind: FigureName, value: float) -> str:
    """A figure of this kind with its unit."""
    if kind == "peak_bytes":
        return gib(int(value))
    return tokens_per_s(value) if kind == "decode_tokens_per_s" else format_seconds(value)


def format_error(kind: FigureName, ratio: float | None) -> str:
    """The error of a prediction in words, from predicted / measured − 1: memory "4 % too high", a time or a rate "3.1× too optimistic".

    A time that was predicted too short and a rate that was predicted too high are both "too optimistic".
    """
    if ratio is None:
        return ""
    if abs(ratio) < _SAME:
        return "right to half a percent"
    more, less = _MORE_LESS[kind]
    word = f"too {more if ratio > 0 else less}"
    factor = ratio + 1
    if factor >= _TWICE:
        return f"{factor:.1f}× {word}"
    if factor <= 1 / _TWICE:
        return f"{1 / factor:.1f}× {word}" if factor > 0 else word
    return f"{abs(ratio) * 100:.0f} % {word}"


def compare_figures(run: MeasureAnswer | ChatMetrics) -> Iterator[ComparedFigure]:
    """The measured figures of a run, each with its prediction and error."""
    for kind, name in KINDS:
        figure = _beside(kind, name, getattr(run, kind), run.predicted, run.error_ratio)
        if figure is not None:
            yield figure


def _beside(
    kind: FigureName, name: str, measured: float | None, predicted: MeasurePrediction | ChatPrediction, errors: ErrorRatio
) -> ComparedFigure | None:
    """One measured figure with its prediction; None if it was not measured."""
    if measured is None:
        return None
    guess, error = getattr(predicted, kind), getattr(errors, kind)
    return ComparedFigure(
        name=name,
        measured=format_figure(kind, measured),
        predicted="" if guess is None else format_figure(kind, guess),
        between=_between(kind, predicted.low, predicted.high),
        off=format_error(kind, error),
        ratio=None if error is None else error + 1,
    )


def _between(kind: FigureName, low: RunEnd, high: RunEnd) -> str:
    """The predicted range, "" if the prediction gives none for this figure."""
    ends = [end for end in (getattr(low, kind, None), getattr(high, kind, None)) if end is not None]
    if not ends:
        return ""
    first, last = format_figure(kind, min(ends)), format_figure(kind, max(ends))
    if first == last:
        return ""
    number, _, unit = first.rpartition(" ")
    return f"{number} to {last}" if last.endswith(f" {unit}") else f"{first} to {last}"


def predicted_below(figure: ComparedFigure) -> Markup:
    """The measured figure, and the prediction in small letters below it."""
    between = f" ({figure.between})" if figure.between else ""
    if not figure.predicted:
        return with_small(figure.measured, "not predicted")
    return with_small(with_small(figure.measured, f"predicted {figure.predicted}{between}"), figure.off)


def measured_table(run: MeasureAnswer, caption: str) -> str:
    """Measured and predicted, with a row and two bars for each figure."""
    heads = ("Figure", "Measured", "Predicted", "The prediction was")
    rows = [
        (
            Markup("{}{}").format(figure.name, trusted(ratio_bars(figure.ratio))),
            STRONG.format(figure.measured),
            with_small(figure.predicted or "–", figure.between),
            figure.off or "–",
        )
        for figure in compare_figures(run)
    ]
    return show_table(caption, heads, rows, "against")


def ratio_bars(ratio: float | None) -> str:
    """Two bars on one scale: measured, and below it predicted. Decoration only; the numbers follow as text."""
    if ratio is None:
        return ""
    cut = min(ratio, _WIDEST)
    scale = max(1.0, cut)
    return (
        '<span class="bars" aria-hidden="true">'
        f'<i class="measured" style="width:{100 / scale:.1f}%"></i><i class="predicted" style="width:{100 * cut / scale:.1f}%"></i></span>'
    )


def figure_words(figure: ComparedFigure) -> str:
    """A figure on one line."""
    guess = f", predicted {figure.predicted} ({figure.off})" if figure.predicted else ""
    return f"{figure.name}: {figure.measured}{guess}"


STAGES = {
    "starting": "A fresh process",
    "building": "Building the architecture",
    "weights": "Random weights on the device",
    "warm-up": "Warming up",
    "running": "Measured run",
}
"""The stages of a measurement, in order."""
_VERDICTS = {
    "confirmed": ("fits", "prediction confirmed"),
    "memory_off": ("lacks", "memory differs by over 10 %"),
    "speed_off": ("lacks", "speed differs from the prediction"),
    "invalid": ("lacks", "not valid"),
}


def expected_card(run: ExpectedAnswer, reference: str) -> str:
    """The prediction of a run before it starts, and its memory compared with the limit."""
    figures = []
    for kind, name in KINDS:
        if (figure := getattr(run.predicted, kind)) is not None:
            between = _between(kind, run.low, run.high)
            figures.append((f"{name} of the model" if kind == "peak_bytes" else name, with_small(format_figure(kind, figure), between)))
    name = model_name(run.model, reference)
    return render_html("expected.html.j2", run=run, name=name, figures=figures, time=_time(run))


def expected_s(run: ExpectedAnswer) -> float | None:
    """Seconds that a run is predicted to take; None if its speed is not predicted."""
    first, rate = run.predicted.ttft_s, run.predicted.decode_tokens_per_s
    return None if first is None else first + (run.output_tokens / rate if rate else 0.0)


def instead_link(model: str) -> str:
    """A link that takes another model in place of a refused one (`assets/page.js`); "" without another model."""
    link = Markup('<p class="actions"><a class="act" href="?tab=live&amp;model={}" data-model="{}">Try {} instead</a></p>')
    return str(link.format(quote(model), model, model)) if model else ""


def _time(run: ExpectedAnswer) -> str:
    """The predicted duration and the allowed one. The device's pace, probed at the start, decides."""
    seconds = expected_s(run)
    if seconds is None:
        return say("cards", "live", "limit", limit=run.limit_s)
    code = "predicted" if seconds <= run.limit_s else "predicted_refusal"
    return say("cards", "live", code, expected_s=format_seconds(seconds), limit=run.limit_s)


def measure_card(run: MeasureAnswer, reference: str) -> str:
    """The result: the run, the verdict, and every figure with the prediction for exactly this run."""
    mark, word = _VERDICTS[run.verdict.code]
    return render_html(
        "measured.html.j2",
        run=run,
        name=model_name(run.model, reference),
        mark=mark,
        word=word,
        table=trusted(measured_table(run, _caption(run))),
        details=trusted(answer_details(run)),
    )


def _caption(run: MeasureAnswer) -> str:
    return f"{whole(run.prompt_tokens)} prompt tokens, {whole(run.output_tokens)} output tokens: measured against predicted"


def measure_text(run: MeasureAnswer, reference: str) -> str:
    """The result in plain words."""
    head = (
        f"{model_name(run.model, reference)} with {run.weights} weights in {run.precision} on {run.device}, "
        f"{run.prompt_tokens} prompt and {run.output_tokens} output tokens"
    )
    return "\n".join([head, run.verdict.message, *map(figure_words, compare_figures(run))])


def measure_csv(run: MeasureAnswer) -> str:
    """The figures as rows: name, measured, predicted, predicted / measured − 1."""
    sides = {"measured": run, "predicted": run.predicted, "error_ratio": run.error_ratio}
    rows = ({"figure": kind} | {name: getattr(side, kind) for name, side in sides.items()} for kind, _ in KINDS)
    return csv_text(("figure", *sides), rows)


# The ledger.

FIGURES: tuple[tuple[str, FigureName], ...] = (*((name, kind) for kind, name in reversed(KINDS)), ("Seconds per picture", "picture_s"))
"""Figures of a row: those that the scatter can show and the table has, as words and as the field."""
_UNITS = {"peak_bytes": "GiB", "decode_tokens_per_s": "tokens/s", "ttft_s": "s", "picture_s": "s"}
_NAMES = {kind: name for name, kind in FIGURES}
_COLOURS = ("#3d74b8", "#c98018", "#2f9e7a", "#b0527a", "#7a62b8", "#8b93a1")
_BAND = 0.10
_FIRST, _NEWEST = 5, 25
_PAD = 1.4
_STEPS = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))
_MOST_TICKS = 8
_RUN_KINDS = {"measure": "measured", "chat": "chat", "job": "measured by a Job", "start": "start lines"}


class Point(NamedTuple):
    """A row that holds a figure both measured and predicted, both above zero."""

    row: Measurement
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted / measured − 1."""
        return self.predicted / self.measured - 1


def _figures_of(row: Measurement, figure: FigureName) -> tuple[float | None, float | None]:
    """A figure of a row, measured and predicted."""
    return getattr(row, figure), getattr(row, f"predicted_{figure}")


def select_points(rows: Sequence[Measurement], figure: FigureName) -> list[Point]:
    """The rows that hold both ends of this figure."""
    pairs = ((row, *_figures_of(row, figure)) for row in rows)
    return [Point(row, measured, predicted) for row, measured, predicted in pairs if measured and predicted]


def _size(figure: FigureName, value: float) -> float:
    return value / GIB if figure == "peak_bytes" else value


def _groups(points: Sequence[Point]) -> list[tuple[str, str]]:
    """Devices with their colours, the most frequent first; beyond the palette they share the last."""
    names = [point.row.device for point in points]
    order = sorted(dict.fromkeys(names), key=lambda name: -names.count(name))
    return [(name, _COLOURS[min(at, len(_COLOURS) - 1)]) for at, name in enumerate(order)]


def scatter_head(rows: Sequence[Measurement], figure: FigureName) -> str:
    """The heading with the devices' colours, and how well the predictions did."""
    points = select_points(rows, figure)
    groups = _groups(points)
    key = [swatch(colour) + escape(name) for name, colour in groups]
    if len(groups) > len(_COLOURS):
        key[len(_COLOURS) - 1 :] = [f"{swatch(_COLOURS[-1])}others"]
    errors = [abs(point.error) for point in points]
    runs = f", {_median_words(errors)}" if errors else ""
    head = chart_head(f"{_NAMES[figure]}: predicted against measured{runs}", key, level=3)
    return f'{head}<div class="chart-foot"><p class="quiet">{escape(_summary(points, figure) + _other_figures(rows, figure))}</p></div>'


def _median_words(errors: Sequence[float]) -> str:
    return f"median error {100 * statistics.median(errors):.3g} % on {count_words(len(errors), 'run')}"


def _other_figures(rows: Sequence[Measurement], figure: FigureName) -> str:
    """The median errors of the figures that are not drawn: those of speed are larger than those of memory."""
    words = []
    for name, kind in FIGURES:
        errors = [abs(point.error) for point in select_points(rows, kind)]
        if kind != figure and errors:
            words.append(f"{name}: {_median_words(errors)}.")
    return " ".join(["", *words])


def _summary(points: Sequence[Point], figure: FigureName) -> str:
    errors = [point.error for point in points]
    if not errors:
        return say("cards", "live", "no_rows", figure=_NAMES[figure].lower())
    near = sum(abs(error) <= _BAND for error in errors)
    middle = statistics.median(abs(error) for error in errors)
    return say("cards", "live", "scatter", runs=len(errors), near=near, middle=100 * middle, direction=_MORE_LESS[figure][0])


def draw_scatter(rows: Sequence[Measurement], figure: FigureName) -> Figure | None:
    """Predicted over measured, both logarithmic; none if no row holds both."""
    points = select_points(rows, figure)
    if not points:
        return None
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    ends = [_size(figure, end) for point in points for end in (point.measured, point.predicted)]
    low, high = min(ends) / _PAD, max(ends) * _PAD
    chart, xs = Figure(), [low, high]
    quiet: dict[str, Any] = {"x": xs, "mode": "lines", "hoverinfo": "skip", "showlegend": False}
    clear, shade = {"width": 0}, "rgba(139,147,161,.22)"
    chart.add_scatter(y=[at * (1 - _BAND) for at in xs], line=clear, **quiet)
    chart.add_scatter(y=[at * (1 + _BAND) for at in xs], line=clear, fill="tonexty", fillcolor=shade, **quiet)
    chart.add_scatter(y=xs, line={"width": 1.5, "dash": "dash", "color": MARK}, **quiet)
    for name, colour in _groups(points):
        some = [point for point in points if point.row.device == name]
        symbols = ["diamond" if point.row.kind == "chat" else "circle" for point in some]
        chart.add_scatter(
            x=[_size(figure, point.measured) for point in some],
            y=[_size(figure, point.predicted) for point in some],
            name=escape(name),
            mode="markers",
            marker={"size": 10, "color": colour, "opacity": 0.85, "symbol": symbols, "line": {"width": 0}},
            hovertemplate=[_hover(point, figure) for point in some],
        )
    ticks = _ticks(low, high)
    ends = [math.log10(low), math.log10(high)]
    marks: dict[str, Any] = {"type": "log", "tickangle": 0, "range": ends, "tickvals": ticks, "ticktext": [f"{at:,.10g}" for at in ticks]}
    unit = _UNITS[figure]
    lay_out(chart, axis(f"Measured, {unit}", **marks), axis(f"Predicted, {unit}", **marks), height=380)
    return chart


def _hover(point: Point, figure: FigureName) -> str:
    row = point.row
    return (
        f"<b>{escape(row.model)}</b> {escape(row.precision)}<br>{escape(row.device)}, {_lengths(row)}<br>"
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


def _lengths(row: Measurement) -> str:
    """The size of the run: tokens, or a picture's pixels and steps."""
    if row.steps is not None:
        size = "" if row.width is None or row.height is None else f"{whole(row.width)} × {whole(row.height)}, "
        guidance = "" if row.guidance is None else f", guidance {row.guidance:g}"
        return f"{size}{count_words(row.steps, 'step')}{guidance}"
    return f"{whole(row.prompt_tokens)} + {whole(row.output_tokens)} tokens"


def newest_table(rows: Sequence[Measurement]) -> str:
    """The newest rows as a table; beyond the first few they wait behind a line, and all of them are in the files."""
    heads = ("Model", "Device", "Run", *(name for name, _ in FIGURES))
    cells = [_ledger_row(row) for row in rows[:_NEWEST]]
    if not cells:
        return ""
    first = show_table("Newest measurements", heads, cells[:_FIRST], "measured")
    if len(cells) <= _FIRST:
        return first
    more = show_table("More measurements", heads, cells[_FIRST:], "measured more")
    rest = f"{len(cells) - _FIRST} more" + (f", of {whole(len(rows))}; the files hold all" if len(rows) > _NEWEST else "")
    return first + fold(rest, more)


def _ledger_row(row: Measurement) -> tuple[str, ...]:
    return (
        with_small(row.model, f"{row.when.replace('T', ' ')}, {_RUN_KINDS[row.kind]}"),
        with_small(row.device, row.engine),
        with_small(f"{row.precision}, {row.weights} weights", _lengths(row)),
        *(_both(row, figure) for _, figure in FIGURES),
    )


def _both(row: Measurement, figure: FigureName) -> str:
    measured, guess = _figures_of(row, figure)
    if measured is None:
        return "–"
    predicted = "" if guess is None else f"predicted {format_figure(figure, guess)}, {format_error(figure, guess / measured - 1)}"
    return with_small(format_figure(figure, measured), predicted)


def storage_line(status: LedgerStatus) -> str:
    """How many rows there are, where they lie, whether they outlive a restart, and any problem with the storage."""
    rows, own = status.rows, status.own_rows
    whose = f"{whole(own)} of them from this machine" if own < rows else "from this machine"
    rows_words = f"{count_words(rows, 'row')}, {whose}." if rows else say("cards", "live", "none_measured")
    lasts = ", which outlives a restart" if status.lasting else ""  # where it does not, `kept` says so
    wrong = f" {status.problem}" if status.problem else ""
    return (
        f'<p class="quiet kept" role="status">{escape(rows_words)} New rows are kept in {escape(status.place)}{lasts}.{escape(wrong)} '
        f"{escape(status.copied)} A row names the model and the device, never a visitor or a message.</p>"
    )
