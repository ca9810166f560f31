"""How one cached tensor grows with the length of the sequence, told from its shapes at a few lengths.

The growths and their n(T) are those of `lib.laws.kv_cache`. A law is accepted only if it gives the observed number of elements at every
length that was run; what no law explains is `None`, never the nearest one. W and m are read off the longest run: for T > m² only one m
has ⌊T/m⌋ equal to the axis seen.

Words for cached tensors, from the names that cache classes give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lib.laws.kv_cache import units
from lib.model.spec import Growth

Shapes = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """`elements` per sequence and per unit of n(T); `span` is W or m, 0 where the law has none."""

    growth: Growth
    elements: int
    span: int = 0

    def at(self, tokens: int) -> int:
        """Elements held for one sequence of `tokens`."""
        return self.elements * units(self.growth, self.span, tokens)


def size(shape: tuple[int, ...]) -> int:
    """Number of elements of a shape; an empty tensor has none."""
    product = 1
    for extent in shape:
        product *= extent
    return product


def moved_axis(shapes: Shapes) -> int | None:
    """The only axis whose extent differs between the two longest runs, if there is exactly one."""
    first, second = (shapes[length] for length in sorted(shapes)[-2:])
    if len(first) != len(second):
        return None
    moved = [axis for axis, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    return moved[0] if len(moved) == 1 else None


def block_length(shapes: Shapes) -> int:
    """The m for which the longest run holds ⌊T/m⌋ entries along the axis that moves, else 0."""
    axis = moved_axis(shapes)
    longest = max(shapes)
    return longest // shapes[longest][axis] if axis is not None and shapes[longest][axis] else 0


def _guesses(shapes: Shapes, spans: Iterable[int]) -> Iterable[Law]:
    lengths = sorted(shapes)
    shortest, longest = size(shapes[lengths[0]]), size(shapes[lengths[-1]])
    per_token = shortest // lengths[0]
    yield Law(growth="constant", elements=longest)
    yield Law(growth="tokens", elements=per_token)
    if per_token:
        yield Law(growth="window", elements=per_token, span=max(1, longest // per_token))
    block = block_length(shapes)
    if block > 1:
        yield Law(growth="blocks", elements=longest // (lengths[-1] // block), span=block)
    for span in spans:
        yield Law(growth="remainder", elements=per_token, span=span)
        yield Law(growth="step", elements=longest, span=span)


def tell(shapes: Shapes, spans: Iterable[int] = ()) -> Law | None:
    """The law that gives the elements of every run, or None.

    Args:
        shapes: shape of the tensor for one sequence by length; an absent tensor has a shape with a zero in it, such as (0,).
        spans: block lengths found in the same layer; remainders and steps are tried with these only.

    Returns:
        The first law, in the order of the module's list, that explains all runs; None for a tensor that is always empty too.
    """
    counts = {length: size(shape) for length, shape in shapes.items()}
    if not any(counts.values()):
        return None
    for law in _guesses(shapes, sorted(set(spans))):
        if law.elements > 0 and all(law.at(length) == count for length, count in counts.items()):
            return law
    return None


_HOLDS = {
    "keys": "keys and values",
    "values": "keys and values",
    "indexer_keys": "indexer keys",
    "conv_states": "convolution state",
    "conv_state": "convolution state",
    "recurrent_states": "recurrent state",
    "ssm_states": "recurrent state",
    "linear_cache": "recurrent state",
    "rnn_state": "recurrent state",
}
_WORD = re.compile(r"[A-Za-z_]+")


def holds_of(path: str) -> str:
    """What the tensor at `path` of a cache is: a known name, else the path's own words ("compressed kv, compressor")."""
    words = [w.strip("_") for w in _WORD.findall(path) if w.strip("_") not in {"layers", "self_attention_cache", "cross_attention_cache"}]
    for word in reversed(words):
        if word in _HOLDS:
            return _HOLDS[word]
    return ", ".join(word.replace("_", " ") for word in words) or "state"


def kind_of(path: str, holds: str, growth: Growth, *, compressed: bool) -> str:
    """The layer kind that a tensor speaks of; `compressed`: the layer holds blocks of tokens."""
    if "cross_attention_cache" in path or growth == "encoder":
        return "cross attention"
    if holds == "convolution state":
        return "convolution state"
    if growth == "constant":
        return "linear attention state"
    if growth == "window":
        return "sliding window"
    return "compressed attention" if compressed else "full attention"
