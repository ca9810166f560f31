"""Time that devices spend exchanging activations in one step of a tensor-parallel group.

    t = 2 · L · ( τ · log₂ N + 2 · n · h / λ · (N - 1) / N )       N > 1, else 0

    L  layers, two all-reduces in each   N  devices   τ  latency of an exchange between two   n  tokens in the step
    h  hidden size, 2 bytes each         λ  bytes per second of the link, one direction, as far as reached

Measured: about 20 µs per layer over NVLink in a tuned engine, several times that over PCIe.
Limits: layers split over devices one after the other (pipeline) exchange almost nothing and are not meant here; expert parallel exchanges
are taken as all-reduces.
Source: ring all-reduce, Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002; constants from `scripts/calibrate.py`.
"""

from __future__ import annotations

import numpy as np

from lib.laws.speed.quantity import Array, Quantity


def exchange_time(*, layers: Quantity, devices: Quantity, tokens: Quantity, hidden: Quantity, latency_s: Quantity, link: Quantity) -> Array:
    """Seconds of exchange in a step.

    Two devices, 32 layers, 10 µs: 2 · 32 · 10 µs = 0.64 ms, the bytes of one token being nothing beside it:

    >>> round(float(exchange_time(layers=32, devices=2, tokens=1, hidden=4096, latency_s=1e-5, link=4e11)) * 1e3, 2)
    0.64
    """
    n = np.maximum(devices, 1.0)
    each = latency_s * np.log2(n) + 2.0 * tokens * hidden / link * (n - 1.0) / n
    total: Array = np.where(n > 1.0, 2.0 * layers * each, 0.0)
    return total
