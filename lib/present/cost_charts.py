"""Bills along traffic or hours as lines, the points where ways change places numbered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lib.answers.cost import ChangeEntry, LineEntry, OutlookAnswer
from lib.present.markup import escape
from lib.present.memory_charts import AXIS, MARK, figure_layout
from lib.present.numbers import usd

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

COLOURS = {
    "spaces": "#3d74b8",
    "zerogpu": "#2f9e7a",
    "endpoints": "#d1851a",
    "jobs": "#8b93a1",
    "tpu": "#b8478a",
    "providers": "#8467c9",
}
_HEADROOM = 1.15
_MOST_MARKS = 9


def line_colour(line: LineEntry) -> str:
    """The colour of a way, by where it runs."""
    return COLOURS[line["platform"]]


def line_dash(line: LineEntry) -> str:
    """Sleeping is drawn in dashes beside running."""
    return "dash" if line["kind"] == "sleeping" and line["platform"] == "spaces" else "solid"


def line_swatch(line: LineEntry) -> str:
    """The stroke of a way, for legends and tables."""
    return f'<i class="stroke {line_dash(line)}" style="border-color:{line_colour(line)}"></i>'


def bills_head(answer: OutlookAnswer) -> str:
    """The heading of the chart with its key."""
    along = "hours" if answer["axis"] == "hours" else "traffic"
    names = "".join(f"<span>{line_swatch(line)}{escape(line['label'])}</span>" for line in answer["lines"])
    return f'<div class="chart-head"><h2>Bill per month by {along}</h2><p class="key">{names}</p></div>'


def bills_foot(answer: OutlookAnswer) -> str:
    """The numbered points of the chart as sentences, then what the exact laws say about the chosen hardware."""
    numbered = "".join(f"<li>{escape(change['message'])}</li>" for change in answer["changes"][:_MOST_MARKS])
    listed = f'<ol class="marks">{numbered}</ol>' if numbered else ""
    dotted = any(_full(line, answer["x"]) is not None for line in answer["lines"])
    at_once = answer["bill"]["concurrency"]
    note = f'<p class="quiet">Dotted: more than the hardware serves, {at_once} at a time.</p>' if dotted else ""
    return f'<div class="chart-foot">{listed}{note}</div>' if listed or note else ""


def draw_bills(answer: OutlookAnswer) -> Figure:
    """USD per month of each way, along requests a day (logarithmic) or hours a day."""
    from plotly.graph_objects import Figure, Scatter  # noqa: PLC0415  a quarter of a second that only figures need

    figure, xs = Figure(), answer["x"]
    for line in answer["lines"]:
        for places, points, stroke in _pieces(line, xs):
            figure.add_trace(
                Scatter(
                    x=places,
                    y=points,
                    name=escape(line["label"]),
                    mode="lines",
                    connectgaps=False,
                    line={"width": 2.5, "color": line_colour(line), "dash": stroke},
                    hovertemplate="$%{y:,.2f}",
                )
            )
    _mark(figure, Scatter, answer["changes"][:_MOST_MARKS])
    if answer["stated"] > 0:
        figure.add_vline(x=answer["stated"], line={"width": 1.2, "dash": "dot", "color": MARK})
    by_hours = answer["axis"] == "hours"
    title = "Hours a day" if by_hours else "Requests a day"
    scale: dict[str, Any] = {"range": [0, 24], "dtick": 4} if by_hours else {"type": "log", "tickformat": "~s", "dtick": 1}
    figure.update_layout(
        **figure_layout(height=340),
        hovermode="x unified",
        xaxis=AXIS | scale | {"title": {"text": title}},
        yaxis=AXIS | {"title": {"text": "USD a month"}, "range": [0, _top(answer["lines"])], "tickformat": ",~f"},
    )
    return figure


def _top(lines: Sequence[LineEntry]) -> float:
    """The dearest bill of rented hardware: bills per token and per quota may leave the picture at the top."""
    rented = [point for line in lines if line["kind"] in {"running", "sleeping"} for point in line["usd"] if point is not None]
    every = [point for line in lines for point in line["usd"] if point is not None]
    return float(max(rented or every, default=0.0)) * _HEADROOM or 1.0


def _full(line: LineEntry, xs: Sequence[float]) -> float | None:
    """Where the hardware is at full load, None where that lies beyond the picture."""
    full_at = line["full_at"]
    return full_at if full_at is not None and full_at < xs[-1] else None


def _pieces(line: LineEntry, xs: Sequence[float]) -> list[tuple[list[float], list[float | None], str]]:
    """A line, or its part within and its part beyond what the hardware serves."""
    full_at = _full(line, xs)
    if full_at is None:
        return [(list(xs), list(line["usd"]), line_dash(line))]
    split = max(1, sum(x <= full_at for x in xs))
    within = (list(xs[:split]), list(line["usd"][:split]), line_dash(line))
    return [within, (list(xs[split - 1 :]), list(line["usd"][split - 1 :]), "dot")]


def _mark(figure: Figure, scatter: type, changes: Sequence[ChangeEntry]) -> None:
    if changes:
        figure.add_trace(
            scatter(
                x=[change["at"] for change in changes],
                y=[change["usd_per_month"] for change in changes],
                mode="markers+text",
                text=[str(number) for number in range(1, len(changes) + 1)],
                textfont={"size": 10},
                marker={"size": 17, "color": "rgba(139,147,161,.35)", "line": {"width": 1.5, "color": MARK}},
                cliponaxis=False,
                hovertemplate=[
                    f"{escape(change['after'])} from here on, {usd(change['usd_per_month'])}<extra></extra>" for change in changes
                ],
            )
        )
