"""All charts: one layout, one hover, one mark for the pick or the stated value; the key of a chart is markup next to it.

Memory over the context, the map of a model's tensors, and the roofline of a card. Price against speed, bills, traffic and the ledger are
drawn where their rows are, with the helpers of this file.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lib.answers.memory import FitEntry, MemoryAnswer
from lib.answers.model import TensorsAnswer
from lib.answers.speed import PassEntry, RooflineAnswer
from lib.present.cards import PART_COLOURS, PARTS, Memory, part_bytes
from lib.present.markup import escape, fold
from lib.present.numbers import count_words, gib, rate, share, size_unit
from lib.present.sentences import say

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
    """The heading of a chart, which is its finding, with its key and the button for a picture of it; all of it markup already."""
    names = "".join(f"<span>{name}</span>" for name in key)
    picture = '<button type="button" class="act png" data-png aria-label="Save the chart as PNG">PNG</button>'
    return f'<div class="chart-head"><h{level}>{title}</h{level}>{picture}<p class="key">{names}</p></div>'


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


def growth_head(memory: MemoryAnswer, hardware: FitEntry | None = None, requests: int = 1) -> str:
    """The heading of the curve with the colours of the parts; `hardware` is the one that is looked at."""
    key = (f'<i class="swatch {name}"></i>{label}' for name, label in _labels(memory).items())
    return chart_head(escape(growth_finding(hardware, requests)), key)


def growth_finding(hardware: FitEntry | None, requests: int) -> str:
    """Up to which context of each request the hardware holds the model, in a sentence."""
    if hardware is None:
        return say("findings", "charts", "growth")
    longest = hardware.max_context_tokens
    if longest == 0:
        return say("findings", "charts", "holds_none", name=hardware.name)
    held = count_words(requests, "request")
    if longest is None:
        return say("findings", "charts", "holds_any", name=hardware.name, requests=held)
    return say("findings", "charts", "holds", name=hardware.name, requests=held, longest=longest)


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
    """Memory on the fullest device against context length (ascending), as stacked areas under a line for the memory of each card.

    `capacities` are names of cards with the usable bytes of one; `context` is asked for, and marked; the line of `highlight`, whose card is
    looked at, is solid and its name bold.
    """
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    # Areas: the parts of the memory, stacked.
    figure, lengths, (unit, scale) = Figure(), [length for length, _ in points], size_unit()
    for key, label in _labels(points[0][1]).items():
        heights = [_per_device(memory, key) / scale for _, memory in points]
        line, hover = {"width": 0.5, "color": PART_COLOURS[key]}, f"%{{y:.2f}} {unit}"
        area = {"stackgroup": "memory", "mode": "lines", "line": line, "fillcolor": PART_COLOURS[key], "hovertemplate": hover}
        figure.add_scatter(x=lengths, y=heights, name=label, **area)
    # Lines: what each card holds, with its name at the right.
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
    # The context that was asked for.
    figure.add_vline(x=context, line={"width": 1.5, "color": MARK})
    place = {"x": math.log10(context), "y": 1, "yref": "paper", "yanchor": "bottom"}
    figure.add_annotation(text=f"{context:,} tokens", showarrow=False, font_size=11, **place)
    # Axes: powers of two along, up to the highest line.
    powers = [2**power for power in range(lengths[0].bit_length() - 1, lengths[-1].bit_length()) if 2**power >= lengths[0]]
    marks = powers[:: -(1 + len(powers) // _MARKS)][::-1]
    along = axis(
        "Context per request, tokens",
        type="log",
        tickvals=marks,
        hoverformat=",.0f",
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
    sizes: dict[str, int] = {}
    for tensor in answer.tensors:
        sizes[tensor.kind] = sizes.get(tensor.kind, 0) + tensor.bytes
    kinds, (largest, size) = set(sizes), max(sizes.items(), key=lambda pair: pair[1])
    key = (swatch(colour, "swatch") + word for kind, (word, colour) in KIND_COLOURS.items() if kind in kinds)
    return chart_head(
        escape(say("findings", "charts", "tensors", kind=KIND_COLOURS[largest][0], part=share(size, sum(sizes.values())))), key
    )


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


_PASSES = ("#3d74b8", "#c98018")


def draw_roofline(answer: RooflineAnswer) -> Figure:
    """FLOP per second over FLOP per byte: the limits of bandwidth and arithmetic, and the two predicted passes below them."""
    from plotly.graph_objects import Figure  # noqa: PLC0415  a quarter of a second that only figures need

    top, speed, passes = answer.peak_flop_per_s, answer.bandwidth_bytes_per_s, answer.passes
    ridge = top / speed
    low = min([one.flop_per_byte for one in passes] + [ridge]) / 3
    high = max([one.flop_per_byte for one in passes] + [ridge]) * 3
    figure, hover = Figure(), "%{x:.3~g} FLOP per byte: at most %{y:.3~g} TFLOP/s<extra></extra>"
    roof = [low * speed / 1e12, top / 1e12, top / 1e12]
    figure.add_scatter(x=[low, ridge, high], y=roof, mode="lines", line={"width": 2.5, "color": MARK}, name="Roof", hovertemplate=hover)
    for one, colour in zip(passes, _PASSES, strict=False):
        ceiling = min(top, one.flop_per_byte * speed)
        at, reached = one.flop_per_byte, one.flop_per_s / 1e12
        line = {"width": 1.5, "dash": "dot", "color": colour}
        figure.add_scatter(x=[at, at], y=[reached, ceiling / 1e12], mode="lines", line=line, hoverinfo="skip", showlegend=False)
        hover = f"{escape(one.name)}: %{{y:.3~g}} TFLOP/s at %{{x:.3~g}} FLOP per byte<extra></extra>"
        figure.add_scatter(
            x=[at], y=[reached], mode="markers", marker={"size": 13, "color": colour}, name=escape(one.name), hovertemplate=hover
        )
    along = axis("FLOP per byte moved", type="log", tickformat="~s", dtick=1)
    lay_out(figure, along, axis("TFLOP/s", type="log", tickformat="~g", dtick=1), height=320)
    return figure


def roofline_words(answer: RooflineAnswer) -> str:
    """The roofline in sentences: which ceiling bounds each pass, and how much of it is reached."""
    top, speed = answer.peak_flop_per_s, answer.bandwidth_bytes_per_s
    ridge = top / speed
    lines = "".join(_pass(one, ridge, top, speed, colour) for one, colour in zip(answer.passes, _PASSES, strict=False))
    ceilings = f"{top / 1e12:,.0f} TFLOP/s · {speed / 1e9:,.0f} GB/s · they meet at {ridge:,.0f} FLOP per byte"
    runs_as = f"{escape(answer.precision)}, multiplied in {escape(answer.arithmetic)}"
    return chart_head(escape(_roofline_finding(answer, ridge)), [f"{runs_as}: {ceilings}"]) + f'<ul class="passes">{lines}</ul>'


def _roofline_finding(answer: RooflineAnswer, ridge: float) -> str:
    """The bound of each pass on this card, in a sentence."""
    bounds = {True: "memory bandwidth", False: "arithmetic"}
    passes = [f"{one.name.lower()} is limited by {bounds[one.flop_per_byte < ridge]}" for one in answer.passes]
    return f"On {answer.name} {', '.join(passes)}"


def _pass(one: PassEntry, ridge: float, top: float, speed: float, colour: str) -> str:
    by_memory = one.flop_per_byte < ridge
    ceiling = min(top, one.flop_per_byte * speed)
    what = say("findings", "charts", "bound_by_memory" if by_memory else "bound_by_arithmetic")
    return (
        f"<li>{swatch(colour)}<strong>{escape(one.name)}</strong> {rate(one.flop_per_byte)} FLOP per byte, {what}; "
        f"{100 * one.flop_per_s / ceiling:.0f} % of the ceiling is predicted to be reached ({1000 * one.seconds:,.1f} ms).</li>"
    )
