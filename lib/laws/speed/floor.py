"""The least time that the datasheet allows for a pass: no prediction, and no end of a range, may be below it.

    t ≥ max( (W + C) / (N · β),  F / (N · φ) )

    W  bytes of weights the pass reads   C  bytes of cache it reads   F  its FLOP
    N  devices that work at the same time   β, φ  datasheet bandwidth and dense peak of one of them

Without a published peak only the memory bounds. For a decode step of one sequence this is `lib.laws.decode_floor`, with the cache.
Source: Williams et al. 2009, "Roofline", doi:10.1145/1498765.1498785.
"""

from __future__ import annotations

import numpy as np

from lib.laws.speed.quantity import Array, Quantity


def floor(*, read_bytes: Quantity, flop: Quantity, devices: Quantity, bandwidth: Quantity, peak: Quantity) -> Array:
    """Seconds at least.

    16.06 GB on 300 GB/s: 53.5 ms, far above the 16.06 GFLOP's 0.13 ms:

    >>> round(float(floor(read_bytes=16.06e9, flop=16.06e9, devices=1, bandwidth=300e9, peak=121e12)), 4)
    0.0535
    """
    moved = np.divide(read_bytes, np.multiply(devices, bandwidth))
    computed = np.where(np.greater(peak, 0), np.divide(flop, np.multiply(devices, np.maximum(peak, 1.0))), 0.0)
    least: Array = np.maximum(moved, computed)
    return least
