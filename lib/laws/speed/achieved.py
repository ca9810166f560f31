"""Bandwidth and compute that are reached, from the datasheet and fitted shares.

    β = max_g  β_g · σ(z + z_g)              φ(n) = max_g  φ_g · σ(y + y_g) · n / (n + h·h_g)

    β_g, φ_g  the highest datasheet bandwidth and dense peak of class g among the cards that this card equals or exceeds in
              both ceilings (the card itself for its own class; 0 where there is none)
    z, y      logits of the share reached, by engine and weight format    z_g, y_g  by card class
    σ(x) = 1 / (1 + e⁻ˣ)     n  rows (tokens) in the step     h·h_g  rows at which half of the rate is reached

The share falls with small steps: 128 rows reach 35-47 % of an H100's matmul rate, 512 rows 80 %. The maximum over classes says that a
card whose two ceilings are both higher is never credited with less than the lower card, whatever its class: a faster card never
comes out slower. It overrates cards whose software does not yet reach what their sheet says (MI300X).
Limits: one share for all sizes of matrices; power limits under long load are inside the class's share.
Source: shares fitted by `scripts/calibrate.py`; form: Williams et al. 2009, "Roofline"; rows: published matmul tables.
"""

from __future__ import annotations

import numpy as np

from lib.laws.speed.quantity import Array, Quantity, fraction


def achieved_bandwidth(*, by_class: Array, logit: Quantity, class_logit: Array) -> Array:
    """Bytes per second that are reached; `by_class` has one column per card class.

    >>> float(achieved_bandwidth(by_class=np.array([[300e9, 0.0]]), logit=0.0, class_logit=np.array([0.0, 1.0]))[0]) / 1e9
    150.0
    """
    shares = fraction(np.asarray(logit, dtype=np.float64)[..., None] + class_logit)
    reached: Array = (by_class * shares).max(axis=-1)
    return reached


def achieved_compute(*, by_class: Array, logit: Quantity, class_logit: Array, rows: Quantity, half_rows: Array) -> Array:
    """FLOP per second that are reached with so many rows; `half_rows` has one entry per class.

    >>> one = np.array([[1e12]])
    >>> eighty, common = np.array([80.0]), np.zeros(1)
    >>> float(achieved_compute(by_class=one, logit=0.0, class_logit=common, rows=eighty, half_rows=eighty)[0]) / 1e12
    0.25
    """
    shares = fraction(np.asarray(logit, dtype=np.float64)[..., None] + class_logit)
    n = np.asarray(rows, dtype=np.float64)[..., None]
    reached: Array = (by_class * shares * n / (n + half_rows)).max(axis=-1)
    return reached
