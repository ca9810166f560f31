"""From the moments of a trace to the few that can be the fullest, and to the form that a spec keeps."""

from __future__ import annotations

from itertools import product
from typing import Literal, NamedTuple

from lib.errors import UnsupportedModel
from lib.model.activation_ledger import Lengths, Polynomial
from lib.model.spec import ActivationFit

_FIELDS = {
    (0, 0, 0): "constant",
    (1, 0, 0): "per_sequence",
    (0, 1, 0): "per_position",
    (1, 1, 0): "per_token",
    (0, 2, 0): "mask",
    (1, 2, 0): "per_token_squared",
    (1, 0, 1): "per_encoder_token",
    (1, 0, 2): "per_encoder_token_squared",
}
_GRID = [Lengths(*point) for point in product((1, 8, 256), [2**p for p in range(21)], (1, 64, 1500))]
_FAR = Lengths(1 << 10, 1 << 24, 1 << 12)
_CURVED = 0.01


class Key(NamedTuple):
    """What a fit holds for."""

    kernel: Literal["sdpa", "eager"]
    element_bytes: int


def shifted(moment: Polynomial) -> Polynomial:
    """The moment of a step that made the cache one token longer, in terms of the length after it: T becomes T - 1."""
    total: dict[tuple[int, int, int], int] = {}
    for (b, t, e), c in moment.items():
        for power, factor in enumerate({0: (1,), 1: (-1, 1), 2: (1, -2, 1)}[t]):
            total[b, power, e] = total.get((b, power, e), 0) + c * factor
    return {m: c for m, c in total.items() if c}


def envelope(moments: list[Polynomial]) -> list[Polynomial]:
    """Those moments that are the fullest for some lengths."""
    unique = list({tuple(sorted(m.items())): m for m in moments}.values())
    far = [_FAR.value(moment) for moment in unique]
    best = {max(range(len(unique)), key=lambda i: (point.value(unique[i]), far[i])) for point in _GRID}
    return [unique[i] for i in sorted(best)]


def _folded(moment: Polynomial) -> Polynomial:
    """Terms of the encoder's length without a batch count as if for each sequence; there are none that matter."""
    total: dict[tuple[int, int, int], int] = {}
    for (b, t, e), c in moment.items():
        monomial = (1 if e else b, t, e)
        total[monomial] = total.get(monomial, 0) + c
    return total


def fits(key: Key, moments: list[Polynomial], from_tokens: int) -> list[ActivationFit]:
    """The moments in the form of a spec.

    Raises:
        UnsupportedModel: a moment grows in a way that the form does not hold.
    """
    found = []
    for moment in map(_folded, moments):
        if not moment.keys() <= _FIELDS.keys():
            raise UnsupportedModel("Temporary tensors of this model grow in a way that is not known here.")
        named = {_FIELDS[m]: float(c) for m, c in moment.items()}
        values = {"constant": 0.0, "per_token": 0.0, "per_token_squared": 0.0, **named}
        found.append(ActivationFit(kernel=key.kernel, element_bytes=key.element_bytes, from_tokens=from_tokens, **values))
    return found


def _line(first: tuple[int, float], last: tuple[int, float]) -> tuple[float, float]:
    slope = (last[1] - first[1]) / (last[0] - first[0])
    return first[1] - slope * first[0], slope


def _curve(points: dict[int, float]) -> tuple[float, float, float]:
    """Constant, linear and quadratic coefficients through one, two or three points; a straight line where it is straight."""
    lengths = sorted(points)
    if len(lengths) == 1:
        return 0.0, points[lengths[0]] / lengths[0], 0.0
    constant, slope = _line((lengths[-2], points[lengths[-2]]), (lengths[-1], points[lengths[-1]]))
    if len(lengths) == 2:  # noqa: PLR2004 a line
        return constant, slope, 0.0
    a, b, c = lengths
    _, before = _line((a, points[a]), (b, points[b]))
    bend = (slope - before) / (c - a)
    if abs(slope - before) <= _CURVED * abs(slope) or bend < 0:
        return constant, slope, 0.0
    linear = before - bend * (a + b)
    return points[a] - linear * a - bend * a * a, linear, bend


def interpolated(key: Key, peaks: dict[tuple[int, int], int]) -> ActivationFit:
    """A fit through peaks at batches 1 and 2 and one to three lengths."""
    lengths = sorted({tokens for _, tokens in peaks})
    each = _curve({t: float(peaks[2, t] - peaks[1, t]) for t in lengths})
    shared = _curve({t: float(2 * peaks[1, t] - peaks[2, t]) for t in lengths})
    return ActivationFit(
        kernel=key.kernel, element_bytes=key.element_bytes,
        constant=shared[0], per_position=shared[1], mask=shared[2],
        per_sequence=each[0], per_token=each[1], per_token_squared=each[2],
    )  # fmt: skip
