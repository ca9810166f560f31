"""All charts: one layout, one hover, one mark for what was picked or stated; the key of a chart is markup beside it.

Memory over the context, the map of a model's tensors, predicted speed against price with its front, and the roofline of a card. Bills,
traffic and the ledger are drawn where their rows are, with the helpers of this file.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lib.advisor.result import Entry, Recommendation, Speed, SpeedEnd
from lib.answers.memory import MemoryAnswer
from lib.answers.model import TensorsAnswer
from lib.answers.speed import PassEntry, RooflineAnswer
from lib.present.cards import PART_COLOURS, PARTS, PLATFORM_COLOURS, PLATFORM_NAMES, REAL_TIME, Memory, part_bytes, request_words
from lib.present.markup import escape, fold
from lib.present.numbers import gib, rate, share, size_unit, usd_per_month

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

MARK = "#8b93a1"
_CLEAR = "rgba(0,0,0,0)"


def axis(title: str, **settings: Any) -> dict[str, Any]:
    """An axis with a quiet grid."""
    return {"gridcolor": "rgba(128,128,128,.25)", "zeroline": False, "title": {"text": title}, **settings}


def lay_out(
    figure: Figure, x: dict[str, Any], y: dict[str, Any], *, hover: str = "closest", height: int = 340, left: int = 64, right: int = 24
) -> None:
    """Give a figure the layout of all: clear on both themes, without legend; `x` and `y` are the axes."""
    figure.update_layout(**_look(height, {"l": left, "r": right, "t": 18, "b": 48}), hovermode=hover, xaxis=x, yaxis=y)


def _look(height: int, margin: dict[str, int]) -> dict[str, Any]:
    clear = dict.fromkeys(("paper_bgcolor", "plot_bgcolor"), _CLEAR) | {"modebar": {"bgcolor": _CLEAR}, "showlegend": False}
    letters = {"font": {"size": 12, "family": "system-ui, sans-serif"}, "hoverlabel": {"bgcolor": "#1d2530", "font": {"color": "#ffffff"}}}
    return {"template": "none", **clear, **letters, "height": height, "margin": margin}


def chart_head(title: str, key: Iterable[str], level: int = 2) -> str:
    """The heading of a chart with its key; all of it markup already."""
    names = "".join(f"<span>{name}</span>" for name in key)
    return f'<div class="chart-head"><h{level}>{title}</h{level}><p class="key">{names}</p></div>'


def curve_table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """The numbers of a chart behind a line; all of it markup already."""
    columns = "".join(f'<th scope="col">{name}</th>' for name in heads)
    lines = "".join(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{one}</td>" for one in rest)}</tr>' for first, *rest in rows)
    reach = 'class="scroll" tabindex="0" role="region" aria-label="Show as table"'
    table = f'<div {reach}><table class="split"><thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table></div>'
    return fold("Show as table", table)


RING = {"size": 20, "color": _CLEAR, "line": {"width": 2.5, "color": MARK}}
"""The marker around the recommended or selected point."""


def swatch(colour: str, shape: str = "dot") -> str:
    """A dot of this colour for a key."""
    return f'<i class="{shape}" style="background:{colour}"></i>'


_APART = 0.06  # share of the height that a label takes
_MARKS = 5
_LINE_LETTERS = 14  # what the margin beside the chart has room for, also in bold


def _labels(memory: Memory) -> dict[str, str]:
    return {key: label for key, label, _ in PARTS if key in part_bytes(memory)}


def growth_head(memory: MemoryAnswer) -> str:
    """The heading of the curve with the colours of the parts."""
    return chart_head("Memory by context length", (f'<i class="swatch {name}"></i>{label}' for name, label in _labels(memory).items()))


def growth_table(points: Sequence[tuple[int, MemoryAnswer]]) -> str:
    """The curve in numbers, behind a line: the parts on the fullest device at each context length."""
    labels = _labels(points[0][1])
    rows = [
        (f"{length:,}", *(gib(round(_per_device(memory, key))) for key in labels), gib(int(memory.per_device_bytes)))
        for length, memory in points
    ]
    return curve_table(("Context, tokens", *labels.values(), "Total"), rows)


def draw_growth(
    points: Sequence[tuple[int, MemoryAnswer]],
    capacities: Sequence[tuple[str, int]],
    context: int,
    highlight: tuple[str, int] | None = None,
) -> Figure:
    """Memory on the fullest device against context length (ascending), as stacked areas under lines of what each card holds.

    `capacities` are names of cards with the usable bytes of one; `context` is asked for, and marked; the line of `highlight`, whose card is
    looked at, is solid and its name bold.
    """
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    figure, lengths, (unit, scale) = Figure(), [length for length, _ in points], size_unit()
    for key, label in _labels(points[0][1]).items():
        heights = [_per_device(memory, key) / scale for _, memory in points]
        line, hover = {"width": 0.5, "color": PART_COLOURS[key]}, f"%{{y:.2f}} {unit}"
        area = {"stackgroup": "memory", "mode": "lines", "line": line, "fillcolor": PART_COLOURS[key], "hovertemplate": hover}
        figure.add_scatter(x=lengths, y=heights, name=label, **area)
    top = max(int(memory.per_device_bytes) for _, memory in points) / scale
    near = dict.fromkeys([*_near(capacities, top), *([highlight] if highlight else [])])
    lines = _merge_labels(sorted(near, key=lambda pair: pair[1]))
    of_highlight = max((capacity for capacity, _ in lines if highlight and capacity <= highlight[1]), default=None)
    for capacity, name in lines:
        marked = capacity == of_highlight
        text = "<br>".join(escape(line) for line in textwrap.wrap(name, _LINE_LETTERS))
        figure.add_hline(y=capacity / scale, line={"width": 1.2, "dash": "solid" if marked else "dot", "color": MARK})
        beside = {"x": 1, "xref": "paper", "xanchor": "left", "xshift": 6, "align": "left", "showarrow": False, "font": {"size": 11}}
        figure.add_annotation(y=capacity / scale, text=f"<b>{text}</b>" if marked else text, **beside)
    figure.add_vline(x=context, line={"width": 1.5, "color": MARK})
    place = {"x": math.log10(context), "y": 1, "yref": "paper", "yanchor": "bottom"}
    figure.add_annotation(text=f"{context:,} tokens", showarrow=False, font_size=11, **place)
    powers = [2**power for power in range(lengths[0].bit_length() - 1, lengths[-1].bit_length()) if 2**power >= lengths[0]]
    marks = powers[:: -(1 + len(powers) // _MARKS)][::-1]
    along = axis(
        "Context per request, tokens",
        type="log",
        tickvals=marks,
        ticktext=[f"{mark // 1024:,}K" if mark >= 1024 else str(mark) for mark in marks],  # noqa: PLR2004 as contexts are named
        tickangle=0,
        range=[math.log10(lengths[0]), math.log10(max(lengths[-1], 2 * lengths[0]))],
    )
    height = max(top, *(capacity / scale for capacity, _ in lines), 0.0)
    up = axis(f"{unit} on a device", range=[0, height * 1.08 or 1])
    lay_out(figure, along, up, hover="x unified", height=320, left=52, right=114)
    return figure


def short_name(accelerator: str) -> str:
    """An accelerator's id for a line in the chart: "A100-SXM4-80GB" is "A100"."""
    words = accelerator.split("-")
    return " ".join(words[: 2 if words[0] in {"RTX", "TPU"} or words[1:2] in (["Pro"], ["Max"], ["Ultra"]) else 1])


def _merge_labels(pairs: Sequence[tuple[str, int]]) -> list[tuple[int, str]]:
    """One line for capacities that would be drawn on top of each other, with the names of all of them."""
    lines: list[tuple[int, list[str]]] = []
    for name, capacity in pairs:
        if lines and capacity - lines[-1][0] < _APART * pairs[-1][1]:
            lines[-1][1].append(short_name(name))
        else:
            lines.append((capacity, [short_name(name)]))
    return [(capacity, ", ".join(dict.fromkeys(names))) for capacity, names in lines]


def _per_device(memory: MemoryAnswer, key: str) -> float:
    sizes = part_bytes(memory)
    total = sum(sizes.values()) or 1
    return sizes[key] * int(memory.per_device_bytes) / total


def _near(capacities: Sequence[tuple[str, int]], top: float) -> list[tuple[str, int]]:
    """The lines that matter: every capacity below the top of the curve, and the first one above it."""
    ordered = sorted(capacities, key=lambda pair: pair[1])
    below = sum(capacity / size_unit()[1] <= top for _, capacity in ordered)
    return ordered[: below + 1]


# White letters have a contrast of 4.5 on them, and they of 3 on the panels of both themes.
KIND_COLOURS: dict[str, tuple[str, str]] = {
    "linear": ("Matrices", "#3673ba"),
    "expert": ("Routed experts", "#9257b8"),
    "embedding": ("Embeddings", "#9d650d"),
    "head": ("Output head", "#c14848"),
    "conv": ("Convolutions", "#237f60"),
    "norm": ("Norms", "#36788c"),
    "other": ("Biases and others", "#74743f"),
}
_INNER = "#657286"


def tensor_map_head(answer: TensorsAnswer) -> str:
    """The heading of the treemap with the colours of the kinds that the model has."""
    kinds = {tensor.kind for tensor in answer.tensors}
    key = (swatch(colour, "swatch") + word for kind, (word, colour) in KIND_COLOURS.items() if kind in kinds)
    return chart_head("Where the bytes of the weights are", key)


def draw_tensors(answer: TensorsAnswer, name: str) -> Figure:
    """The tensors as a treemap: component, block, tensor; areas are bytes, colours are kinds. A tile opens when it is chosen."""
    from plotly.graph_objects import Figure, Treemap  # noqa: PLC0415  a quarter of a second that only figures need

    sizes: dict[tuple[str, ...], int] = {}
    hover: dict[tuple[str, ...], str] = {}
    colours: dict[tuple[str, ...], str] = {}
    for tensor in answer.tensors:
        shape = " × ".join(str(extent) for extent in tensor.shape)
        leaf = (tensor.component, tensor.block, f"{tensor.name} {shape}")
        hover[leaf] = f"{tensor.count:,} × [{shape}], {tensor.parameters:,} parameters"
        colours[leaf] = KIND_COLOURS[tensor.kind][1]
        for depth in range(len(leaf) + 1):
            sizes[leaf[:depth]] = sizes.get(leaf[:depth], 0) + tensor.bytes
    total = sizes.get((), 0)
    figure = Figure(
        Treemap(
            ids=["/".join(("all", *path)) for path in sizes],
            parents=["/".join(("all", *path[:-1])) if path else "" for path in sizes],
            labels=[escape(path[-1].partition(".*.")[2] or path[-1]).replace("_", " ") if path else escape(name) for path in sizes],
            values=list(sizes.values()),
            customdata=[[gib(size), share(size, total), hover.get(path, "")] for path, size in sizes.items()],
            branchvalues="total",
            marker={"colors": [colours.get(path, _INNER) for path in sizes], "line": {"width": 1, "color": "rgba(255,255,255,.5)"}},
            texttemplate="%{label}<br>%{customdata[0]}",
            hovertemplate="%{label}<br>%{customdata[0]}, %{customdata[1]:.1f} %<br>%{customdata[2]}<extra></extra>",
            tiling={"pad": 1},
            pathbar={"visible": True},
        )
    )
    figure.update_layout(**_look(460, {"l": 4, "r": 4, "t": 28, "b": 4}), uniformtext={"minsize": 10, "mode": "hide"})
    return figure


_FREE_BELOW = 2.5  # free hardware stands at the lowest price over this
_PLOT_PX, _LETTER_PX, _LINE_PX = (270.0, 270.0), 6.6, 16.0
"""The plot on a phone of 390 px, and what a name takes of it: names that do not write over each other there do so nowhere."""
_BEYOND = 2.0  # the picture ends at twice the price of the dearest that is worth it
_SCALES, _LEAST_MARKS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)), 3
_PASSES = ("#3d74b8", "#c98018")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """What the scatter draws.

    `unit` is "tokens/s", "× real time" on sound, "requests/s" where nothing is decoded; `shape` says which requests; `pick` is marked.
    """

    unit: str
    shape: str
    points: tuple[FrontPoint, ...]
    pick: str = ""


def speed_front(answer: Recommendation) -> Front:
    """The offers of a ranking that have a predicted speed, with price and range."""
    ranked = [(entry, entry.speed) for entry in answer.ranked]
    told = [(entry, speed, low, high) for entry, speed in ranked if (low := speed.low) and (high := speed.high)]
    speeds, pick = [speed for _, speed, _, _ in told], answer.pick
    decodes = all(speed.throughput_tokens_per_s is not None for speed in speeds)
    unit = "requests/s" if not decodes else REAL_TIME if all(speed.real_time_factor for speed in speeds) else "tokens/s"
    points = tuple(_front_point(entry, (low, high), unit) for entry, _, low, high in told)
    shape = request_words(speeds[0], answer.task) if speeds else ""
    return Front(unit=unit, shape=shape, points=points, pick=pick.hardware if pick else "")


def _front_point(entry: Entry, ends: tuple[SpeedEnd, SpeedEnd], unit: str) -> FrontPoint:
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
    )


def _rate_of(end: Speed | SpeedEnd, speed: Speed, unit: str) -> float:
    """The rate of all requests together at one end of the range of this speed."""
    at_once, tokens = speed.concurrency or 1, end.throughput_tokens_per_s or 0.0
    if unit == "requests/s":
        return at_once / (end.ttft_s or math.inf)
    together = at_once * (speed.real_time_factor or 0.0)
    return tokens if unit == "tokens/s" else together * tokens / (speed.throughput_tokens_per_s or math.inf)


def front_head(front: Front) -> str:
    """The heading of the scatter with its key."""
    where = dict.fromkeys(point.platform for point in front.points)
    names = [swatch(PLATFORM_COLOURS[name]) + escape(PLATFORM_NAMES[name]) for name in where]
    return chart_head("Price against predicted speed", [*names, "◯ the pick"])


def front_foot(front: Front) -> str:
    """How to read the scatter."""
    outside = sum(point.usd > _end(front.points) for point in front.points)
    dearer = f" {outside} others cost more and are not faster than the best drawn." if outside else ""
    return (
        f'<div class="chart-foot"><p class="quiet">Predicted for {escape(front.shape)}; the bars span the range of the prediction. '
        f"On the line: nothing else is both as cheap and as fast.{dearer}</p></div>"
    )


def _end(points: Sequence[FrontPoint]) -> float:
    """The price at which the picture ends."""
    best = [point.usd for point in points if point.pareto]
    return float(max(best, default=0.0) or max((point.usd for point in points), default=0.0)) * _BEYOND or 1.0


def draw_front(front: Front) -> Figure:
    """Each point with the range of its prediction; the unbeaten ones joined and named."""
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    points, figure = front.points, Figure()
    paid = [point.usd for point in points if point.usd > 0]
    free = min(paid, default=1.0) / _FREE_BELOW

    def places(some: Sequence[FrontPoint]) -> dict[str, list[float]]:
        return {"x": [point.usd or free for point in some], "y": [point.value for point in some]}

    best = sorted((point for point in points if point.pareto), key=lambda point: (point.usd, point.value))
    figure.add_scatter(**places(best), mode="lines", line={"width": 2, "color": MARK, "shape": "hv"}, hoverinfo="skip")
    for platform in dict.fromkeys(point.platform for point in points):
        some = [point for point in points if point.platform == platform]
        sizes = [12 if point.pareto else 7 for point in some]
        marker = {"size": sizes, "opacity": 1, "color": PLATFORM_COLOURS[platform], "line": {"width": 0}}
        figure.add_scatter(
            **places(some), mode="markers", marker=marker, error_y=_range_bars(some), hovertemplate=[_hover(p, front.unit) for p in some]
        )
    at_pick = places([point for point in points if point.hardware == front.pick][:1])
    figure.add_scatter(**at_pick, mode="markers", marker=RING, hoverinfo="skip")
    end = _end(points)
    left = math.log10(free) - 0.15
    decades = math.log10(end) - left, math.log10(max(one.high for one in points) / min(one.low for one in points)) if points else 1.0
    for point in _choose_labels(best, *decades):
        place = {"x": math.log10(point.usd or free), "xanchor": "right" if point.usd else "left", "xshift": -5 if point.usd else 8}
        above = {"y": math.log10(point.value), "yanchor": "bottom", "yshift": 3}
        figure.add_annotation(text=escape(point.hardware), showarrow=False, font={"size": 11}, **place, **above)
    ticks, rates = _prices(free, end, some_free=len(paid) < len(points)), _rates(points)
    marks = {"tickvals": [at for at, _ in ticks], "ticktext": [text for _, text in ticks]}
    prices = axis("USD a month", type="log", tickangle=0, range=[left, math.log10(end)], **marks)
    speeds = axis(f"{front.unit}, all requests", type="log", tickvals=rates, ticktext=[f"{one:,.10g}" for one in rates])
    lay_out(figure, prices, speeds)
    return figure


def _choose_labels(best: Sequence[FrontPoint], price_decades: float, speed_decades: float) -> list[FrontPoint]:
    """Those whose names do not write over the one before: a line above it, or to the right of it by their own length."""
    labels: list[FrontPoint] = []
    for point in best:
        if labels:
            last, (wide, high) = labels[-1], _PLOT_PX
            above = math.log10(point.value / last.value) * high > _LINE_PX * speed_decades
            beside = last.usd and math.log10(point.usd / last.usd) * wide > (len(point.hardware) + 2) * _LETTER_PX * price_decades
            if not (above or beside):
                continue
        labels.append(point)
    return labels


def _range_bars(points: Sequence[FrontPoint]) -> dict[str, Any]:
    up, down = [point.high - point.value for point in points], [point.value - point.low for point in points]
    return {"type": "data", "array": up, "arrayminus": down, "thickness": 1, "width": 0, "color": "rgba(139,147,161,.55)"}


def _hover(point: FrontPoint, unit: str) -> str:
    return (
        f"<b>{escape(point.name)}</b> {escape(point.hardware)}<br>{usd_per_month(point.usd)} a month, {escape(point.runs_as)}<br>"
        f"{rate(point.value)} {unit} ({rate(point.low)} to {rate(point.high)})<extra></extra>"
    )


def _scale(low: float, high: float) -> list[float]:
    """Where a logarithmic axis is marked: as coarsely as leaves three marks in this range, few enough for a phone."""
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


def draw_roofline(answer: RooflineAnswer) -> Figure:
    """FLOP per second over FLOP per byte: what bandwidth and arithmetic allow, and the two passes as predicted below it."""
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    top, speed, passes = answer.peak_flop_per_s, answer.bandwidth_bytes_per_s, answer.passes
    ridge = top / speed
    low = min([one.flop_per_byte for one in passes] + [ridge]) / 3
    high = max([one.flop_per_byte for one in passes] + [ridge]) * 3
    figure, hover = Figure(), "%{x:.3~g} FLOP per byte: at most %{y:.3~g} TFLOP/s<extra></extra>"
    roof = [low * speed / 1e12, top / 1e12, top / 1e12]
    figure.add_scatter(x=[low, ridge, high], y=roof, mode="lines", line={"width": 2.5, "color": MARK}, hovertemplate=hover)
    for one, colour in zip(passes, _PASSES, strict=False):
        ceiling = min(top, one.flop_per_byte * speed)
        at, reached = one.flop_per_byte, one.flop_per_s / 1e12
        line = {"width": 1.5, "dash": "dot", "color": colour}
        figure.add_scatter(x=[at, at], y=[reached, ceiling / 1e12], mode="lines", line=line, hoverinfo="skip")
        hover = f"{escape(one.name)}: %{{y:.3~g}} TFLOP/s at %{{x:.3~g}} FLOP per byte<extra></extra>"
        figure.add_scatter(x=[at], y=[reached], mode="markers", marker={"size": 13, "color": colour}, hovertemplate=hover)
    along = axis("FLOP per byte moved", type="log", tickformat="~s", dtick=1)
    lay_out(figure, along, axis("TFLOP/s", type="log", tickformat="~g", dtick=1), height=320)
    return figure


def roofline_words(answer: RooflineAnswer) -> str:
    """The roofline in sentences: which ceiling bounds each pass, and how much of it is reached."""
    top, speed = answer.peak_flop_per_s, answer.bandwidth_bytes_per_s
    ridge = top / speed
    lines = "".join(_pass(one, ridge, top, speed, colour) for one, colour in zip(answer.passes, _PASSES, strict=False))
    return (
        f'<div class="chart-head"><h2>Roofline of {escape(answer.name)} <code>{escape(answer.hardware)}</code></h2>'
        f'<p class="key">{escape(answer.precision)}, multiplied in {escape(answer.arithmetic)}: {top / 1e12:,.0f} TFLOP/s · '
        f"{speed / 1e9:,.0f} GB/s · they meet at {ridge:,.0f} FLOP per byte</p></div>"
        f'<ul class="passes">{lines}</ul>'
    )


def _pass(one: PassEntry, ridge: float, top: float, speed: float, colour: str) -> str:
    by_memory = one.flop_per_byte < ridge
    ceiling = min(top, one.flop_per_byte * speed)
    what = "left of the ridge: memory bandwidth bounds it" if by_memory else "right of the ridge: arithmetic bounds it"
    return (
        f"<li>{swatch(colour)}<strong>{escape(one.name)}</strong> {rate(one.flop_per_byte)} FLOP per byte, {what}; "
        f"{100 * one.flop_per_s / ceiling:.0f} % of the ceiling is predicted to be reached ({1000 * one.seconds:,.1f} ms).</li>"
    )
