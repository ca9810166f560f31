"""How the cache of one kind of layer grows with the length T: one row for each growth.

A new growth is a name in `Growth` and a row in `GROWTHS`: its n(T), the same as a straight line, how it is recognised in the tensors of an
executed model, and which of its tokens attention reads. `lib.laws.kv_cache` has the law that uses the rows.

Sources: caches of the architectures of transformers, executed on the meta device (`lib.model.cache_executed`). Limits: a growth that no row
describes is refused, and the model's cache is then unknown.
"""

# ruff: noqa: ARG005 the functions of all rows take the same arguments
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

Growth = Literal["tokens", "window", "blocks", "remainder", "step", "constant", "encoder"]


class Line(NamedTuple):
    """Bytes as c₀ + c₁·T + c_w·min(T, span)."""

    constant: float = 0.0
    per_token: float = 0.0
    windowed: float = 0.0


class SeenTensor(NamedTuple):
    """A cached tensor of one sequence, as runs of several lengths showed it."""

    shortest: int
    """Tokens of the shortest run."""
    at_shortest: int
    """Its elements then."""
    longest: int
    """Tokens of the longest run."""
    at_longest: int
    """Its elements then."""
    block: int
    """The m for which the longest run has ⌊T/m⌋ entries along the axis that moves; 0 if no m fits."""
    spans: tuple[int, ...]
    """Block lengths of other tensors of the layer."""

    @property
    def per_token(self) -> int:
        """Elements of each token of the shortest run."""
        return self.at_shortest // self.shortest


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthTraits:
    """The properties of one growth; `span` is W − 1, m or s, E the tokens of the encoder."""

    units: Callable[[int, int, int], int]
    """n(T), from T, span and E."""
    line: Callable[[float, int, int], Line]
    """Bytes as a straight line, from the bytes of one unit, span and E."""
    candidates: Callable[[SeenTensor], Iterable[tuple[int, int]]]
    """Pairs of (elements of a unit, span) that may explain a tensor; they are checked at every length that was run."""
    attended: Literal["all", "window", "none"]
    """The tokens that an attention layer of this kind reads at each step, where it is attention."""
    in_blocks: bool = False
    """It needs a block length as its span."""
    empties: bool = False
    """It shrinks when a block is full."""


GROWTHS: Mapping[Growth, GrowthTraits] = MappingProxyType(
    {
        "constant": GrowthTraits(
            units=lambda tokens, span, encoder: 1,
            line=lambda size, span, encoder: Line(constant=size),
            candidates=lambda seen: [(seen.at_longest, 0)],
            attended="none",
        ),
        "tokens": GrowthTraits(
            units=lambda tokens, span, encoder: tokens,
            line=lambda size, span, encoder: Line(per_token=size),
            candidates=lambda seen: [(seen.per_token, 0)],
            attended="all",
        ),
        "window": GrowthTraits(
            units=lambda tokens, span, encoder: min(tokens, span),
            line=lambda size, span, encoder: Line(windowed=size),
            candidates=lambda seen: [(seen.per_token, max(1, seen.at_longest // seen.per_token))] if seen.per_token else [],
            attended="window",
        ),
        "blocks": GrowthTraits(
            units=lambda tokens, span, encoder: tokens // span,
            line=lambda size, span, encoder: Line(per_token=size / span),
            candidates=lambda seen: [(seen.at_longest // (seen.longest // seen.block), seen.block)] if seen.block > 1 else [],
            attended="all",
            in_blocks=True,
        ),
        "remainder": GrowthTraits(
            units=lambda tokens, span, encoder: tokens % span,
            line=lambda size, span, encoder: Line(constant=size * span / 2),
            candidates=lambda seen: [(seen.per_token, span) for span in seen.spans],
            attended="none",
            in_blocks=True,
            empties=True,
        ),
        "step": GrowthTraits(
            units=lambda tokens, span, encoder: int(tokens >= span),
            line=lambda size, span, encoder: Line(constant=size),
            candidates=lambda seen: [(seen.at_longest, span) for span in seen.spans],
            attended="none",
            in_blocks=True,
        ),
        "encoder": GrowthTraits(
            units=lambda tokens, span, encoder: encoder // max(1, span),
            line=lambda size, span, encoder: Line(constant=size * (encoder // max(1, span))),
            candidates=lambda seen: [],  # it is recognised by runs of several encoder lengths (`lib.model.cache_executed`)
            attended="none",
        ),
    }
)
"""In the order in which they are tried on an executed cache."""
_BY_NAME: Mapping[str, GrowthTraits] = {name: row for name, row in GROWTHS.items()}  # noqa: C416 a wider type of key


def growth_of(name: str) -> GrowthTraits:
    """The row of a growth.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in _BY_NAME:
        raise ValueError(f"no such growth: {name}")
    return _BY_NAME[name]
