"""Predicted speed against price with its front, and the roofline of a card."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lib.answers.common import EntrySpeed, PassEntry, RankedEntry, RooflineAnswer, SpeedEnd
from lib.present.cards import PLATFORM_NAMES
from lib.present.cost_rows import COLOURS
from lib.present.markup import escape
from lib.present.memory_charts import AXIS, MARK, figure_layout
from lib.present.numbers import usd_per_month

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

_FREE_BELOW = 2.5  # free hardware stands at the lowest price over this
_PLOT_PX, _LETTER_PX, _LINE_PX = (270.0, 270.0), 6.6, 16.0
"""The plot on a phone of 390 px, and what a name takes of it: names that do not write over each other there do so nowhere."""
_BEYOND = 2.0  # the picture ends at twice the price of the dearest that is worth it
_WIDE, _NARROW = 200.0, 30.0  # ratios from which an axis is marked at 1, and at 1 and 3; below at 1, 2, 5
_PASSES = ("#3d74b8", "#d1851a")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One offer in the scatter: USD a month, and the rate of all requests with its range."""

    hardware: str
    platform: str
    name: str
    runs_as: str
    usd: float
    value: float
    low: float
    high: float
    pareto: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What the scatter draws.

    `unit` is "tokens/s", or "requests/s" where nothing is decoded; `shape` says which requests; `pick` is the hardware to mark.
    """

    unit: str
    shape: str
    places: tuple[Place, ...]
    pick: str = ""


def speed_front(entries: Sequence[RankedEntry], pick: RankedEntry | None = None) -> Front:
    """The offers of a ranking that have a predicted speed, with price and range."""
    predicted = [(entry, speed, low, high) for entry in entries if (low := (speed := entry["speed"])["low"]) and (high := speed["high"])]
    decodes = all(speed["throughput_tokens_per_s"] is not None for _, speed, _, _ in predicted)
    shape = ""
    if predicted:
        first = predicted[0][1]
        answer = f" and {first['output_tokens']} output tokens" if decodes else ""
        together = "1 request" if first["concurrency"] == 1 else f"{first['concurrency']} concurrent requests"
        shape = f"{together} with {first['prompt_tokens']} prompt{answer or ' tokens'}"
    places = tuple(_place(entry, (speed, low, high), decodes=decodes) for entry, speed, low, high in predicted)
    return Front(unit="tokens/s" if decodes else "requests/s", shape=shape, places=places, pick=pick["hardware"] if pick else "")


def _place(entry: RankedEntry, ends: Sequence[EntrySpeed | SpeedEnd], *, decodes: bool) -> Place:
    value, one, other = ((end["throughput_tokens_per_s"] if decodes else 1 / (end["ttft_s"] or math.inf)) or 0.0 for end in ends)
    return Place(
        hardware=entry["hardware"],
        platform=entry["platform"],
        name=entry["name"],
        runs_as=f"{entry['precision']} with {entry['engine']}",
        usd=entry["cost"]["total_usd_per_month"],
        value=value,
        low=min(one, other),
        high=max(one, other),
        pareto=entry["pareto"],
    )


def front_head(front: Front) -> str:
    """The heading of the scatter with its key."""
    where = dict.fromkeys(place.platform for place in front.places)
    names = "".join(f'<span><i class="dot" style="background:{COLOURS[name]}"></i>{escape(PLATFORM_NAMES[name])}</span>' for name in where)
    return f'<div class="chart-head"><h2>Price against predicted speed</h2><p class="key">{names}<span>◯ the pick</span></p></div>'


def front_foot(front: Front) -> str:
    """How to read the scatter."""
    outside = sum(place.usd > _end(front.places) for place in front.places)
    dearer = f" {outside} more cost still more and are no faster than the best drawn." if outside else ""
    return (
        f'<div class="chart-foot"><p class="quiet">Predicted for {escape(front.shape)}; the bars span the range of the prediction. '
        f"On the line: nothing else is both as cheap and as fast.{dearer}</p></div>"
    )


def _end(places: Sequence[Place]) -> float:
    """The price at which the picture ends."""
    best = [place.usd for place in places if place.pareto]
    return float(max(best, default=0.0) or max((place.usd for place in places), default=0.0)) * _BEYOND or 1.0


def draw_front(front: Front) -> Figure:
    """Each place with the range of its prediction; the unbeaten ones joined and named."""
    from plotly.graph_objects import Figure, Scatter  # noqa: PLC0415  a quarter of a second that only figures need

    places = front.places
    paid = [place.usd for place in places if place.usd > 0]
    free = min(paid, default=1.0) / _FREE_BELOW
    best = sorted((place for place in places if place.pareto), key=lambda place: (place.usd, place.value))
    figure = Figure()
    figure.add_trace(
        Scatter(
            x=[place.usd or free for place in best],
            y=[place.value for place in best],
            mode="lines",
            line={"width": 2, "color": MARK, "shape": "hv"},
            hoverinfo="skip",
        )
    )
    for platform in dict.fromkeys(place.platform for place in places):
        figure.add_trace(_dots(Scatter, [place for place in places if place.platform == platform], free, front.unit))
    picked = [place for place in places if place.hardware == front.pick][:1]
    figure.add_trace(
        Scatter(
            x=[place.usd or free for place in picked],
            y=[place.value for place in picked],
            mode="markers",
            marker={"size": 20, "color": "rgba(0,0,0,0)", "line": {"width": 2.5, "color": MARK}},
            hoverinfo="skip",
        )
    )
    end = _end(places)
    left = math.log10(free) - 0.15
    decades = math.log10(end) - left, math.log10(max(one.high for one in places) / min(one.low for one in places)) if places else 1.0
    for place in _choose_labels(best, *decades):
        figure.add_annotation(
            x=math.log10(place.usd or free),
            y=math.log10(place.value),
            text=escape(place.hardware),
            showarrow=False,
            xanchor="right" if place.usd else "left",
            yanchor="bottom",
            xshift=-5 if place.usd else 8,
            yshift=3,
            font={"size": 11},
        )
    ticks = _prices(free, end, some_free=len(paid) < len(places))
    figure.update_layout(
        **figure_layout(height=340),
        hovermode="closest",
        xaxis=AXIS
        | {
            "type": "log",
            "title": {"text": "USD a month"},
            "tickangle": 0,
            "range": [left, math.log10(end)],
            "tickvals": [at for at, _ in ticks],
            "ticktext": [t for _, t in ticks],
        },
        yaxis=AXIS
        | {
            "type": "log",
            "title": {"text": f"{front.unit}, all requests"},
            "tickvals": (rates := _rates(places)),
            "ticktext": [f"{rate:,.10g}" for rate in rates],
        },
    )
    return figure


def _choose_labels(best: Sequence[Place], price_decades: float, speed_decades: float) -> list[Place]:
    """Those whose names do not write over the one before: a line above it, or to the right of it by their own length."""
    labels: list[Place] = []
    for place in best:
        if labels:
            last, (wide, high) = labels[-1], _PLOT_PX
            above = math.log10(place.value / last.value) * high > _LINE_PX * speed_decades
            beside = last.usd and math.log10(place.usd / last.usd) * wide > (len(place.hardware) + 2) * _LETTER_PX * price_decades
            if not (above or beside):
                continue
        labels.append(place)
    return labels


def _dots(scatter_type: type, places: Sequence[Place], free: float, unit: str) -> Any:
    lengths = [(place.high - place.value, place.value - place.low) for place in places]
    return scatter_type(
        x=[place.usd or free for place in places],
        y=[place.value for place in places],
        mode="markers",
        marker={
            "size": [12 if place.pareto else 7 for place in places],
            "opacity": 1,
            "color": COLOURS[places[0].platform],
            "line": {"width": 0},
        },
        error_y={
            "type": "data",
            "array": [up for up, _ in lengths],
            "arrayminus": [down for _, down in lengths],
            "thickness": 1,
            "width": 0,
            "color": "rgba(139,147,161,.55)",
        },
        hovertemplate=[
            f"<b>{escape(place.name)}</b> {escape(place.hardware)}<br>{usd_per_month(place.usd)} a month, "
            f"{escape(place.runs_as)}<br>{_rate(place, unit)}<extra></extra>"
            for place in places
        ],
    )


def _rate(place: Place, unit: str) -> str:
    return f"{_figure(place.value)} {unit} ({_figure(place.low)} to {_figure(place.high)})"


def _figure(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004  one decimal below ten


def _steps(ratio: float) -> tuple[int, ...]:
    """How finely a logarithmic axis over this ratio is marked: at least two marks, few enough for a phone."""
    return (1,) if ratio > _WIDE else (1, 3) if ratio > _NARROW else (1, 2, 5)


def _rates(places: Sequence[Place]) -> list[float]:
    low, high = min((place.low for place in places), default=1.0), max((place.high for place in places), default=1.0)
    steps = [value * 10.0**power for power in range(-6, 8) for value in _steps(high / max(low, 1e-9))]
    return [at for at in steps if low <= at <= high]


def _prices(free: float, most: float, *, some_free: bool) -> list[tuple[float, str]]:
    steps = [value * 10.0**power for power in range(-1, 6) for value in _steps(most / free)]
    marks = [(at, f"${at:,.10g}") for at in steps if 1.2 * free < at <= most]
    return [(free, "free"), *marks] if some_free else marks


def draw_roofline(answer: RooflineAnswer) -> Figure:
    """FLOP per second over FLOP per byte: what bandwidth and arithmetic allow, and the two passes as predicted below it."""
    from plotly.graph_objects import Figure, Scatter  # noqa: PLC0415  a quarter of a second that only figures need

    top, speed = answer["peak_flop_per_s"], answer["bandwidth_bytes_per_s"]
    ridge = top / speed
    passes = answer["passes"]
    low = min([one["flop_per_byte"] for one in passes] + [ridge]) / 3
    high = max([one["flop_per_byte"] for one in passes] + [ridge]) * 3
    figure = Figure()
    figure.add_trace(
        Scatter(
            x=[low, ridge, high],
            y=[low * speed / 1e12, top / 1e12, top / 1e12],
            mode="lines",
            line={"width": 2.5, "color": MARK},
            hovertemplate="%{x:.3~g} FLOP per byte: at most %{y:.3~g} TFLOP/s<extra></extra>",
        )
    )
    for one, colour in zip(passes, _PASSES, strict=False):
        ceiling = min(top, one["flop_per_byte"] * speed)
        at, reached = one["flop_per_byte"], one["flop_per_s"] / 1e12
        figure.add_trace(
            Scatter(
                x=[at, at], y=[reached, ceiling / 1e12], mode="lines", line={"width": 1.5, "dash": "dot", "color": colour}, hoverinfo="skip"
            )
        )
        figure.add_trace(
            Scatter(
                x=[at],
                y=[reached],
                mode="markers",
                marker={"size": 13, "color": colour},
                hovertemplate=f"{escape(one['name'])}: %{{y:.3~g}} TFLOP/s at %{{x:.3~g}} FLOP per byte<extra></extra>",
            )
        )
    figure.update_layout(
        **figure_layout(height=320),
        hovermode="closest",
        xaxis=AXIS | {"type": "log", "title": {"text": "FLOP per byte moved"}, "tickformat": "~s", "dtick": 1},
        yaxis=AXIS | {"type": "log", "title": {"text": "TFLOP/s"}, "tickformat": "~g", "dtick": 1},
    )
    return figure


def roofline_words(answer: RooflineAnswer) -> str:
    """The roofline in sentences: which ceiling bounds each pass, and how much of it is reached."""
    top, speed = answer["peak_flop_per_s"], answer["bandwidth_bytes_per_s"]
    ridge = top / speed
    lines = "".join(_pass(one, ridge, top, speed, colour) for one, colour in zip(answer["passes"], _PASSES, strict=False))
    return (
        f'<div class="chart-head"><h2>Roofline of {escape(answer["name"])} <code>{escape(answer["hardware"])}</code></h2>'
        f'<p class="key">{escape(answer["precision"])}, multiplied in {escape(answer["arithmetic"])}: {top / 1e12:,.0f} TFLOP/s · '
        f"{speed / 1e9:,.0f} GB/s · they meet at {ridge:,.0f} FLOP per byte</p></div>"
        f'<ul class="passes">{lines}</ul>'
    )


def _pass(one: PassEntry, ridge: float, top: float, speed: float, colour: str) -> str:
    by_memory = one["flop_per_byte"] < ridge
    ceiling = min(top, one["flop_per_byte"] * speed)
    what = "left of the ridge: memory bandwidth bounds it" if by_memory else "right of the ridge: arithmetic bounds it"
    return (
        f'<li><i class="dot" style="background:{colour}"></i><strong>{escape(one["name"])}</strong> '
        f"{_figure(one['flop_per_byte'])} FLOP per byte, {what}; "
        f"{100 * one['flop_per_s'] / ceiling:.0f} % of the ceiling is predicted to be reached ({1000 * one['seconds']:,.1f} ms).</li>"
    )
