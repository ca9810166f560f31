"""Price against predicted speed: the offers of a ranking, which of them nothing else beats, and the finding above the chart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lib.advisor.result import Entry, Recommendation, Speed, SpeedEnd
from lib.precision import weight_format
from lib.present.cards import PLATFORM_COLOURS, PLATFORM_NAMES, REAL_TIME, request_words
from lib.present.charts import MARK, RING, axis, chart_head, lay_out, swatch
from lib.present.markup import escape
from lib.present.numbers import rate, usd_per_month
from lib.present.sentences import say, short_name
from lib.present.tables import FIRST_ROWS

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

_FREE_BELOW = 2.5  # free hardware is drawn at the lowest price divided by this
_PLOT_PX, _LETTER_PX, _LINE_PX = (270.0, 270.0), 6.6, 16.0
"""Pixels of the plot on a phone 390 px wide, of a letter and of a line. Names that do not overlap there do not overlap elsewhere."""
_BEYOND = 2.0  # the price axis ends at twice the price of the most expensive unbeaten offer
_SCALES, _LEAST_MARKS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)), 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
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
    listed: bool = False
    """Whether the table above the chart shows it before more are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The content of the scatter.

    `unit` is "tokens/s", "× real time" for sound, or "requests/s" if nothing is decoded. `shape` describes the requests; `pick` is marked.
    """

    unit: str
    shape: str
    points: tuple[FrontPoint, ...]
    pick: str = ""
    why_off: str = ""
    """Why the pick is not among the unbeaten ones; "" if it is."""


def speed_front(answer: Recommendation) -> Front:
    """The offers of a ranking that have a predicted speed, with price and range."""
    ranked = [(entry, entry.speed) for entry in answer.ranked]
    told = [(entry, speed, low, high) for entry, speed in ranked if (low := speed.low) and (high := speed.high)]
    speeds, pick = [speed for _, speed, _, _ in told], answer.pick
    decodes = all(speed.throughput_tokens_per_s is not None for speed in speeds)
    unit = "requests/s" if not decodes else REAL_TIME if all(speed.real_time_factor for speed in speeds) else "tokens/s"
    first = answer.ranked[:FIRST_ROWS]
    points = tuple(_front_point(entry, (low, high), unit, listed=entry in first) for entry, _, low, high in told)
    shape = request_words(speeds[0], answer.task) if speeds else ""
    return Front(unit=unit, shape=shape, points=points, pick=pick.hardware if pick else "", why_off=_why_off(pick, answer.ranked))


def _why_off(pick: Entry | None, ranked: Sequence[Entry]) -> str:
    """The advantage of the pick over hardware that is as cheap and faster; "" if there is none."""
    if pick is None or pick.pareto:
        return ""
    usd = pick.cost.total_usd_per_month
    other = next((entry for entry in ranked if entry.pareto and entry.cost.total_usd_per_month <= usd), None)
    if other is None:
        return ""
    lacks = [words for words, holds in _drawbacks(pick, other) if holds]
    if lacks:
        return say("cards", "front", "faster_but", name=other.name, lacks=lacks[0])
    return say("cards", "front", "faster", name=other.name)


def _drawbacks(pick: Entry, other: Entry) -> Iterator[tuple[str, bool]]:
    """Drawbacks of the other, the weightiest first, and whether each applies."""
    codes = {reason.code for reason in other.reasons} - {reason.code for reason in pick.reasons}
    bits = [weight_format(entry.precision).bits for entry in (pick, other)]
    yield f"runs in {other.precision} instead of {pick.precision}", bits[1] < bits[0]
    yield f"takes {other.replicas} replicas", other.replicas > pick.replicas
    yield "is a Job, which ends at its time limit", "jobs_time_limit" in codes
    yield "needs an allowlist", "needs_allowlist" in codes
    yield "needs a paid plan", "needs_subscription" in codes
    yield "leaves little memory free", "fits_tightly" in codes
    yield "uses more of the visitors' quota", pick.offer.traits.per_call and other.offer.traits.per_call


def _front_point(entry: Entry, ends: tuple[SpeedEnd, SpeedEnd], unit: str, *, listed: bool) -> FrontPoint:
    low, high = sorted(_rate_of(end, entry.speed, unit) for end in ends)
    return FrontPoint(
        hardware=entry.hardware,
        platform=entry.platform,
        name=entry.name,
        runs_as=f"{entry.precision} with {entry.engine}",
        usd=float(entry.cost.total_usd_per_month),
        value=_rate_of(entry.speed, entry.speed, unit),
        low=low,
        high=high,
        pareto=entry.pareto,
        listed=listed,
    )


def _rate_of(end: Speed | SpeedEnd, speed: Speed, unit: str) -> float:
    """The rate of all requests together at one end of the range of this speed."""
    at_once, tokens = speed.concurrency or 1, end.throughput_tokens_per_s or 0.0
    if unit == "requests/s":
        return at_once / (end.ttft_s or math.inf)
    together = at_once * (speed.real_time_factor or 0.0)
    return tokens if unit == "tokens/s" else together * tokens / (speed.throughput_tokens_per_s or math.inf)


def front_finding(front: Front) -> str:
    """Price and speed of the pick and of the fastest, in a sentence."""
    picked = next((point for point in front.points if point.hardware == front.pick), None)
    if picked is None:
        return "Price against predicted speed"
    fastest = max(front.points, key=lambda point: point.value)
    says = f"{picked.name}: {rate(picked.value)} {front.unit}, {_monthly(picked)}"
    if fastest.value <= picked.value:
        return f"{says}; nothing listed is faster"
    return f"{says}; the fastest, {fastest.name}, gives {rate(fastest.value)}, {_monthly(fastest)}"


def _monthly(point: FrontPoint) -> str:
    words = usd_per_month(point.usd)
    return words if words == "free" else f"{words} a month"


def front_head(front: Front) -> str:
    """The heading of the scatter with its key."""
    where = dict.fromkeys(point.platform for point in front.points)
    names = [swatch(PLATFORM_COLOURS[name]) + escape(PLATFORM_NAMES[name]) for name in where]
    return chart_head(escape(front_finding(front)), [*names, "◯ the pick"])


def front_foot(front: Front) -> str:
    """How to read the scatter."""
    outside = sum(point.usd > _end(front.points) for point in front.points)
    dearer = f" {say('cards', 'front', 'not_drawn', outside=outside)}" if outside else ""
    off = f'<p class="off-front">{escape(front.why_off)}</p>' if front.why_off else ""
    how = escape(say("cards", "front", "how", shape=front.shape))
    return f'<div class="chart-foot">{off}<p class="quiet">{how}{dearer}</p></div>'


def _end(points: Sequence[FrontPoint]) -> float:
    """USD a month at which the price axis ends."""
    best = [point.usd for point in points if point.pareto]
    return float(max(best, default=0.0) or max((point.usd for point in points), default=0.0)) * _BEYOND or 1.0


def draw_front(front: Front) -> Figure:
    """Draw each point with the range of its prediction; the unbeaten ones are joined by a line and named."""
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    points, figure = front.points, Figure()
    paid = [point.usd for point in points if point.usd > 0]
    free = min(paid, default=1.0) / _FREE_BELOW

    def places(some: Sequence[FrontPoint]) -> dict[str, list[float]]:
        return {"x": [point.usd or free for point in some], "y": [point.value for point in some]}

    best = sorted((point for point in points if point.pareto), key=lambda point: (point.usd, point.value))
    figure.add_scatter(**places(best), mode="lines", line={"width": 2, "color": MARK, "shape": "hv"}, hoverinfo="skip", showlegend=False)
    by_platform: dict[str, list[FrontPoint]] = {}
    for point in points:
        by_platform.setdefault(point.platform, []).append(point)
    for platform, some in by_platform.items():
        sizes = [12 if point.pareto else 7 for point in some]
        marker = {"size": sizes, "opacity": 1, "color": PLATFORM_COLOURS[platform], "line": {"width": 0}}
        hovers = [
            f"<b>{escape(point.name)}</b><br>{_monthly(point)}, {escape(point.runs_as)}<br>"
            f"{rate(point.value)} {front.unit} ({rate(point.low)} to {rate(point.high)})<extra></extra>"
            for point in some
        ]
        bars = _range_bars(some)
        figure.add_scatter(**places(some), name=PLATFORM_NAMES[platform], mode="markers", marker=marker, error_y=bars, hovertemplate=hovers)
    at_pick = places([point for point in points if point.hardware == front.pick][:1])
    figure.add_scatter(**at_pick, mode="markers", marker=RING, hoverinfo="skip", showlegend=False)
    end = _end(points)
    left = math.log10(free) - 0.15
    tall = math.log10(max(one.high for one in points) / min(one.low for one in points)) if points else 1.0
    plane = _Plane(free=free, left=left, price_decades=math.log10(end) - left, speed_decades=tall)
    others = [point for point in points if point.listed and not point.pareto and point.usd <= end]
    for point, side in _choose_labels([*best, *others], plane):
        place = {"x": math.log10(point.usd or free), "xanchor": side.anchor, "xshift": -5 if side.anchor == "right" else 8}
        above = {"y": math.log10(point.value), "yanchor": "bottom" if side.above else "top", "yshift": 3 if side.above else -3}
        figure.add_annotation(text=escape(short_name(point.name)), showarrow=False, font={"size": 11}, **place, **above)
    ticks, rates = _prices(free, end, some_free=len(paid) < len(points)), _rates(points)
    marks = {"tickvals": [at for at, _ in ticks], "ticktext": [text for _, text in ticks]}
    prices = axis("USD a month", type="log", tickangle=0, range=[left, math.log10(end)], **marks)
    speeds = axis(f"{front.unit}, all requests", type="log", tickvals=rates, ticktext=[f"{one:,.10g}" for one in rates])
    lay_out(figure, prices, speeds)
    return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plane:
    """The plot on a phone: its axes in decades, and where a point is in pixels."""

    free: float
    left: float
    price_decades: float
    speed_decades: float

    def box(self, point: FrontPoint, side: _Side) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of the point's name on that side of it."""
        (wide, high), length = _PLOT_PX, (len(short_name(point.name)) + 2) * _LETTER_PX
        x = (math.log10(point.usd or self.free) - self.left) / self.price_decades * wide
        y = math.log10(point.value) / self.speed_decades * high
        left, low = (x if side.anchor == "left" else x - length), (y if side.above else y - _LINE_PX)
        return left, left + length, low, low + _LINE_PX


class _Side(NamedTuple):
    """The place of a name: the end of the name that touches the point, and whether it is above the point."""

    anchor: str
    above: bool


def _sides(point: FrontPoint) -> list[_Side]:
    """Places to try, in order: names of unbeaten points above the line, others below first, those of free points to the right."""
    inward, outward = ("right", "left") if point.usd else ("left", "right")
    if point.pareto:
        return [_Side(inward, above=True)]
    below_first = (False, True) if point.usd else (True, False)
    return [_Side(anchor, above=above) for above in below_first for anchor in (inward, outward)]


def _choose_labels(points: Sequence[FrontPoint], plane: _Plane) -> list[tuple[FrontPoint, _Side]]:
    """The points whose names do not overlap an earlier name, each with the place of its name."""
    taken: list[tuple[float, float, float, float]] = []
    labels: list[tuple[FrontPoint, _Side]] = []
    for point in points:
        for side in _sides(point):
            left, right, low, top = box = plane.box(point, side)
            if left >= 0 and all(left > old[1] or right < old[0] or low >= old[3] or top <= old[2] for old in taken):
                taken.append(box)
                labels.append((point, side))
                break
    return labels


def _range_bars(points: Sequence[FrontPoint]) -> dict[str, Any]:
    up, down = [point.high - point.value for point in points], [point.value - point.low for point in points]
    return {"type": "data", "array": up, "arrayminus": down, "thickness": 1, "width": 0, "color": "rgba(139,147,161,.55)"}


def _scale(low: float, high: float) -> list[float]:
    """Marks of a logarithmic axis: the coarsest scale with at least three marks in this range, so that they fit a phone."""
    marks: list[float] = []
    for steps in _SCALES:
        marks = [at for power in range(-6, 8) for step in steps if low <= (at := step * 10.0**power) <= high]
        if len(marks) >= _LEAST_MARKS:
            break
    return marks


def _rates(points: Sequence[FrontPoint]) -> list[float]:
    return _scale(min((point.low for point in points), default=1.0), max((point.high for point in points), default=1.0))


def _prices(free: float, most: float, *, some_free: bool) -> list[tuple[float, str]]:
    marks = [(at, f"${at / 1000:,.10g}k" if at >= 1000 else f"${at:.10g}") for at in _scale(1.2 * free, most)]  # noqa: PLR2004 as axes say it
    return [(free, "free"), *marks] if some_free else marks
