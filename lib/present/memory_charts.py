"""Memory as bars (markup, which follows every slider at once), as a curve over the context and as a map of tensors (Plotly figures).

The four parts of an estimate have one name, one order and one colour here, for every bar, legend and chart. All figures of the page share
a layout: clear backgrounds for both themes, quiet grids, one font.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from lib.answers.common import EntryMemory, MemoryAnswer
from lib.answers.model import TensorsAnswer
from lib.present.markup import escape
from lib.present.numbers import gib, share, size_unit

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

Memory = MemoryAnswer | EntryMemory
"""What states the four parts: a whole answer, or the memory of a recommended tier."""
PartBytes = Literal["weights_bytes", "kv_cache_bytes", "activation_bytes", "runtime_bytes"]
PARTS: tuple[tuple[str, str, PartBytes], ...] = (
    ("weights", "Weights", "weights_bytes"),
    ("cache", "Cache", "kv_cache_bytes"),
    ("activations", "Activations", "activation_bytes"),
    ("runtime", "Runtime", "runtime_bytes"),
)
# Distinct in hue and in lightness, so that the order survives colour blindness and grey print; both themes carry them.
COLOURS: dict[str, str] = {"weights": "#3d74b8", "cache": "#e39a2d", "activations": "#2f9e7a", "runtime": "#8b93a1"}


def part_bytes(memory: Memory) -> dict[str, int]:
    """Bytes of each part of a memory answer, in the order of `PARTS`."""
    return {key: int(memory[field]) for key, _, field in PARTS}


_GRID = "rgba(128,128,128,.25)"
_CLEAR = "rgba(0,0,0,0)"
_APART = 0.06  # share of the height that a label takes
_NAME_WORDS = 2  # "RTX PRO"
_MARKS = 5
_LINE_LETTERS = 14  # what the margin beside the chart has room for, also in bold


def memory_bar(memory: Memory, capacity: int | None = None, need: int | None = None) -> str:
    """A stacked bar of the parts on the fullest device; with a capacity, the track it has to stay inside.

    `need` replaces the bytes on the fullest device. The bar is drawing only: the same numbers stand beside it as text.
    """
    total = sum(part_bytes(memory).values()) or 1
    need = need or memory["per_device_bytes"] or total
    scale = max(need, capacity or 0)
    segments = "".join(
        f'<i class="seg {key}" style="width:{share(size * need / total, scale):.2f}%"></i>' for key, size in part_bytes(memory).items()
    )
    if capacity is None:
        return f'<div class="bar" aria-hidden="true">{segments}</div>'
    over = " over" if need > capacity else ""
    return f'<div class="bar{over}" aria-hidden="true"><b class="track" style="width:{share(capacity, scale):.2f}%"></b>{segments}</div>'


def memory_legend(memory: Memory) -> str:
    """The parts with their sizes and shares, in the order of the bar."""
    sizes = part_bytes(memory)
    total = sum(sizes.values())
    rows = "".join(
        f'<div><dt><i class="swatch {key}"></i>{label}</dt><dd>{gib(sizes[key])} <small>{share(sizes[key], total):.0f} %</small></dd></div>'
        for key, label, _ in PARTS
    )
    return f'<dl class="legend">{rows}</dl>'


def growth_head() -> str:
    """The heading of the curve with the colours of the parts."""
    names = "".join(f'<span><i class="swatch {name}"></i>{label}</span>' for name, label, _ in PARTS)
    return f'<div class="chart-head"><h2>Memory by context length</h2><p class="key">{names}</p></div>'


def growth_table(points: Sequence[tuple[int, MemoryAnswer]]) -> str:
    """The curve in numbers, behind a line: the parts on the fullest device at each context length."""
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Context, tokens", *(label for _, label, _ in PARTS), "Total"))
    rows = "".join(
        f'<tr><th scope="row">{length:,}</th>'
        + "".join(f"<td>{gib(round(_per_device(memory, key)))}</td>" for key, _, _ in PARTS)
        + f"<td>{gib(int(memory['per_device_bytes']))}</td></tr>"
        for length, memory in points
    )
    reach = 'class="scroll" tabindex="0" role="region" aria-label="The curve as a table"'
    table = f'<div {reach}><table class="split"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f'<details class="rest"><summary>The curve as a table</summary>{table}</details>'


def draw_growth(
    points: Sequence[tuple[int, MemoryAnswer]],
    capacities: Sequence[tuple[str, int]],
    context: int,
    highlight: tuple[str, int] | None = None,
) -> Figure:
    """Memory on the fullest device against context length, as stacked areas under lines of what each card holds.

    Args:
        points: (context in tokens, memory answer), ascending.
        capacities: (name of the card, usable bytes of one), those worth a line.
        context: the length asked for, marked.
        highlight: that of the capacities whose card is looked at: its line is drawn solid and its name is bold.
    """
    from plotly.graph_objects import Figure, Scatter  # noqa: PLC0415  a quarter of a second that only this chart needs

    lengths, (unit, scale) = [length for length, _ in points], size_unit()
    figure = Figure()
    for key, label, _ in PARTS:
        heights = [_per_device(memory, key) / scale for _, memory in points]
        figure.add_trace(
            Scatter(
                x=lengths,
                y=heights,
                name=label,
                stackgroup="memory",
                mode="lines",
                line={"width": 0.5, "color": COLOURS[key]},
                fillcolor=COLOURS[key],
                hovertemplate=f"%{{y:.2f}} {unit}",
            )
        )
    top = max((sum(_per_device(memory, key) for key, _, _ in PARTS) for _, memory in points), default=0) / scale
    near = {*_near(capacities, top), *((highlight,) if highlight else ())}
    lines = _labelled(sorted(near, key=lambda pair: pair[1]), top)
    of_highlight = max((capacity for capacity, _ in lines if highlight and capacity <= highlight[1]), default=None)
    for capacity, name in lines:
        marked = capacity == of_highlight
        text = "<br>".join(escape(line) for line in textwrap.wrap(name, _LINE_LETTERS))
        figure.add_hline(y=capacity / scale, line={"width": 1.2, "dash": "solid" if marked else "dot", "color": "#8b93a1"})
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=6,
            y=capacity / scale,
            align="left",
            showarrow=False,
            text=f"<b>{text}</b>" if marked else text,
            font={"size": 11},
        )
    figure.add_vline(x=context, line={"width": 1.5, "color": "#8b93a1"})
    figure.update_layout(**_layout(max(top, *(capacity / scale for capacity, _ in lines), 0.0), lengths))
    return figure


def short_name(accelerator: str) -> str:
    """An accelerator's id for a line in the chart: "A100-SXM4-80GB" is "A100"."""
    words = accelerator.split("-")
    return " ".join(words[: _NAME_WORDS if words[0] in {"RTX", "TPU"} else 1])


def _labelled(pairs: Sequence[tuple[str, int]], top: float) -> list[tuple[int, str]]:
    """One line for capacities that would be drawn on top of each other, with the names of all of them."""
    lines: list[tuple[int, list[str]]] = []
    for name, capacity in pairs:
        close = lines and capacity - lines[-1][0] < _APART * max(top * size_unit()[1], capacity)
        if close:
            lines[-1][1].append(short_name(name))
        else:
            lines.append((capacity, [short_name(name)]))
    return [(capacity, ", ".join(dict.fromkeys(names))) for capacity, names in lines]


def _per_device(memory: Memory, key: str) -> float:
    sizes = part_bytes(memory)
    total = sum(sizes.values()) or 1
    return sizes[key] * int(memory["per_device_bytes"]) / total


def _near(capacities: Sequence[tuple[str, int]], top: float) -> list[tuple[str, int]]:
    """The lines that matter: every capacity below the top of the curve, and the first one above it."""
    ordered = sorted(capacities, key=lambda pair: pair[1])
    below = [pair for pair in ordered if pair[1] / size_unit()[1] <= top]
    above = [pair for pair in ordered if pair[1] / size_unit()[1] > top]
    return below + above[:1]


def _layout(top: float, lengths: Sequence[int]) -> dict[str, Any]:
    axis = {"gridcolor": _GRID, "zeroline": False}
    powers = [2**power for power in range(lengths[0].bit_length() - 1, lengths[-1].bit_length()) if 2**power >= lengths[0]]
    marks = powers[:: -(1 + len(powers) // _MARKS)][::-1]
    return {
        "template": "none",
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "modebar": {"bgcolor": _CLEAR},
        "font": {"size": 12, "family": "system-ui, sans-serif"},
        "height": 320,
        "margin": {"l": 52, "r": 114, "t": 12, "b": 48},
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": "#1d2530", "font": {"color": "#ffffff"}},
        "showlegend": False,
        "xaxis": axis
        | {
            "title": {"text": "Context per request, tokens"},
            "type": "log",
            "tickvals": marks,
            "ticktext": [f"{mark // 1024:,}K" if mark >= 1024 else str(mark) for mark in marks],  # noqa: PLR2004 as contexts are named
            "tickangle": 0,
            "range": [math.log10(lengths[0]), math.log10(max(lengths[-1], 2 * lengths[0]))],
        },
        "yaxis": axis | {"title": {"text": f"{size_unit()[0]} on a device"}, "range": [0, top * 1.08 or 1]},
    }


GRID = "rgba(128,128,128,.25)"
CLEAR = "rgba(0,0,0,0)"
MARK = "#8b93a1"
AXIS: dict[str, Any] = {"gridcolor": GRID, "zeroline": False}


def figure_layout(*, height: int, right: int = 24, left: int = 64) -> dict[str, Any]:
    """Layout of a figure without legend (its key is markup beside it)."""
    return {
        "template": "none",
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "modebar": {"bgcolor": CLEAR},
        "font": {"size": 12, "family": "system-ui, sans-serif"},
        "height": height,
        "margin": {"l": left, "r": right, "t": 12, "b": 48},
        "hoverlabel": {"bgcolor": "#1d2530", "font": {"color": "#ffffff"}},
        "showlegend": False,
    }


# Dark enough for white letters on both themes.
KIND_COLOURS: dict[str, tuple[str, str]] = {
    "linear": ("Matrices", "#2f66a6"),
    "expert": ("Routed experts", "#7d4a9e"),
    "embedding": ("Embeddings", "#96600c"),
    "head": ("Output head", "#a63d3d"),
    "conv": ("Convolutions", "#1f7457"),
    "norm": ("Norms", "#5b6472"),
    "other": ("Biases and others", "#6b6b3a"),
}
_INNER = "#475160"


def tensor_map_head(answer: TensorsAnswer) -> str:
    """The heading of the treemap with the colours of the kinds that the model has."""
    kinds = {tensor["kind"] for tensor in answer["tensors"]}
    names = "".join(
        f'<span><i class="swatch" style="background:{colour}"></i>{word}</span>'
        for kind, (word, colour) in KIND_COLOURS.items()
        if kind in kinds
    )
    return f'<div class="chart-head"><h2>Where the bytes of the weights are</h2><p class="key">{names}</p></div>'


def draw_tensors(answer: TensorsAnswer, name: str) -> Figure:
    """The tensors as a treemap: component, block, tensor; areas are bytes, colours are kinds. A tile opens when it is chosen."""
    from plotly.graph_objects import Figure, Treemap  # noqa: PLC0415  a quarter of a second that only this chart needs

    sizes: dict[tuple[str, ...], int] = {}
    hover: dict[tuple[str, ...], str] = {}
    colours: dict[tuple[str, ...], str] = {}
    for tensor in answer["tensors"]:
        shape = " × ".join(str(extent) for extent in tensor["shape"])
        leaf = (tensor["component"], tensor["block"], f"{tensor['name']} {shape}")
        hover[leaf] = f"{tensor['count']:,} × [{shape}], {tensor['parameters']:,} parameters"
        colours[leaf] = KIND_COLOURS[tensor["kind"]][1]
        for depth in range(len(leaf) + 1):
            sizes[leaf[:depth]] = sizes.get(leaf[:depth], 0) + tensor["bytes"]
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
    layout = figure_layout(height=460) | {"margin": {"l": 4, "r": 4, "t": 28, "b": 4}, "uniformtext": {"minsize": 10, "mode": "hide"}}
    figure.update_layout(**layout)
    return figure
