"""From the moments of a trace to the few that can be the fullest, and to the form that a spec keeps."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from lib.errors import UnsupportedModel
from lib.model.activation_storages import Coefficient, Lengths, Polynomial
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
_CLOSE = 0.005
_GRID = [Lengths(*point) for point in product((1, 8, 256), [2**p for p in range(21)], (1, 64, 1500))]


class Key(NamedTuple):
    """What a fit holds for."""

    kernel: Literal["sdpa", "eager"]
    element_bytes: int


def shifted(moment: Polynomial) -> Polynomial:
    """The moment of a step that made the cache one token longer, in terms of the length after it: T becomes T - 1."""
    total: Polynomial = {}
    for (b, t, e), c in moment.items():
        for power, factor in enumerate({0: (1,), 1: (-1, 1), 2: (1, -2, 1)}[t]):
            total[b, power, e] = total.get((b, power, e), 0) + c * factor
    return {m: c for m, c in total.items() if c}


def envelope(moments: list[Polynomial]) -> list[Polynomial]:
    """Those moments that are the fullest for some lengths, as few as leave the peak within `_CLOSE` of the true one."""
    unique = list({tuple(sorted(m.items())): m for m in moments}.values())
    monomials = sorted({monomial for moment in unique for monomial in moment})
    coefficients = np.array([[float(moment.get(m, 0)) for m in monomials] for moment in unique])
    powers = np.array([[float(b**i * t**j * e**k) for b, t, e in _GRID] for i, j, k in monomials])
    heights = coefficients @ powers
    top = np.maximum(heights.max(axis=0), 1.0)
    covered = np.ones(len(_GRID))
    kept: list[int] = []
    point = len(_GRID) - 1
    while not kept or (top[point] - covered[point]) > _CLOSE * top[point]:
        kept.append(int(np.argmax(heights[:, point])))
        covered = np.maximum(covered, heights[kept[-1]])
        point = int(np.argmax((top - covered) / top))
    return [unique[i] for i in sorted(set(kept))]


def _folded(moment: Polynomial) -> Polynomial:
    """Terms of the encoder's length without a batch count as if for each sequence; there are none that matter."""
    total: Polynomial = {}
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


def interpolated(key: Key, peaks: dict[tuple[int, int], Coefficient]) -> ActivationFit:
    """A straight fit through peaks at (1, T), (2, T) and (1, 2T): a scan by chunks takes so much a token and so much a sequence.

    What does not depend on the batch is not told from what does; it counts for each sequence.
    """
    tokens = min(t for _, t in peaks)
    first, second, longer = float(peaks[1, tokens]), float(peaks[2, tokens]), float(peaks[1, 2 * tokens])
    constant = max(0.0, 2 * first - second)
    per_token = (longer - first) / tokens
    return ActivationFit(
        kernel=key.kernel, element_bytes=key.element_bytes, constant=constant, per_sequence=first - constant - per_token * tokens,
        per_token=per_token, per_token_squared=0.0,
    )  # fmt: skip


def doubled(fit: ActivationFit) -> ActivationFit:
    """An upper bound in float32 for a fit in 16 bits: no tensor more than doubles."""
    twice = {name: 2 * getattr(fit, name) for name in _FIELDS.values()}
    return replace(fit, element_bytes=2 * fit.element_bytes, **twice)
