"""The three policies side by side along the load, as lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lib.answers.traffic import LoadEntry, LoadsAnswer
from lib.present.markup import escape
from lib.present.memory_charts import AXIS, MARK, figure_layout

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

POLICY_NAMES = {"static": "Static", "dynamic": "Dynamic", "continuous": "Continuous"}
COLOURS = {"static": "#8b93a1", "dynamic": "#d1851a", "continuous": "#3d74b8"}
DASHES = {"static": "dot", "dynamic": "dash", "continuous": "solid"}
MEASURES: Mapping[str, tuple[str, str, bool]] = {
    "ttft": ("TTFT p99, seconds", "Time to first token at p99", True),
    "latency": ("Latency p99, seconds", "Time of a request at p99", True),
    "throughput": ("Output tokens per second", "Throughput", False),
    "price": ("USD per million output tokens", "Price of a million tokens", True),
}
"""What is drawn: the axis, the heading, whether the axis is logarithmic."""


def policy_swatch(policy: str) -> str:
    """The stroke of a policy, for legends and tables."""
    style = DASHES[policy].replace("dot", "dotted")
    return f'<i class="stroke {style}" style="border-color:{COLOURS[policy]}"></i>'


def measured(point: LoadEntry, measure: str) -> float | None:
    """The figure of a point that is drawn."""
    match measure:
        case "latency":
            return point["latency_p99_s"]
        case "throughput":
            return point["throughput_tokens_per_s"]
        case "price":
            return point["usd_per_million_tokens"]
    return point["ttft_p99_s"]


def loads_head(measure: str) -> str:
    """The heading of the chart with its key."""
    names = "".join(f"<span>{policy_swatch(policy)}{name}</span>" for policy, name in POLICY_NAMES.items())
    return f'<div class="chart-head"><h2>{escape(MEASURES[measure][1])} by load</h2><p class="key">{names}</p></div>'


def draw_loads(answer: LoadsAnswer, measure: str, stated: float) -> Figure:
    """A line for each policy along the requests per second, with the stated rate marked; all loads are on the axis from the start.

    Points without a steady part of their run are hollow.
    """
    from plotly.graph_objects import Figure, Scatter  # noqa: PLC0415  a quarter of a second that only figures need

    figure = Figure()
    title, _, logarithmic = MEASURES[measure]
    for policy, name in POLICY_NAMES.items():
        points = [point for point in answer["points"] if point["policy"] == policy]
        figure.add_trace(
            Scatter(
                x=[point["asked_requests_per_s"] for point in points],
                y=[measured(point, measure) for point in points],
                name=name,
                mode="lines+markers",
                line={"width": 2.5, "color": COLOURS[policy], "dash": DASHES[policy]},
                marker={"size": 5, "symbol": ["circle" if point["steady"] else "circle-open" for point in points]},
                hovertemplate="%{y:.3~g}",
            )
        )
    most = answer["most_requests_per_s"]
    if 0 < stated <= most * 1.13:
        figure.add_vline(x=stated, line={"width": 1.2, "dash": "dot", "color": MARK})
    scale = {"type": "log", "tickformat": "~g", "nticks": 6} if logarithmic else {"tickformat": "~s", "rangemode": "tozero"}
    figure.update_layout(
        **figure_layout(height=340),
        hovermode="x unified",
        xaxis=AXIS | {"title": {"text": "Requests per second"}, "range": [0, most * 1.13], "tickformat": "~g"},
        yaxis=AXIS | {"title": {"text": title}} | scale,
    )
    return figure
