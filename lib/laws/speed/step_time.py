"""Time of one forward pass from its parts.

    device = (t_W³ + t_C³)^(1/3) + t_K        step = device + t_H       (engines that replay a graph or launch ahead of time)
                                              step = (device⁴ + t_H⁴)^(1/4)   (eager engines: launching overlaps with computing)
    then + t_X

    t_W  reading weights   t_C  matrix arithmetic   t_K  reading the cache   t_H  host and launches   t_X  exchange between devices

Reading weights and computing with them overlap within a kernel: the longer of the two, with a rounded corner where both are as long.
Attention is another kernel and adds. Every form is at least its largest part, so no step is faster than its bytes and its FLOP allow.
Limits: kernels that overlap attention with matrices, or the exchange with computing, are a little faster.
Source: Williams et al. 2009, "Roofline", with a smooth corner; the overlap of eager launches: PyTorch's asynchronous execution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lib.laws.speed.quantity import Array, Quantity

_CORNER = 3.0
_OVERLAP = 4.0


def device_time(*, weights_s: Quantity, compute_s: Quantity, cache_s: Quantity) -> Array:
    """Seconds the device works.

    >>> round(float(device_time(weights_s=0.05, compute_s=0.001, cache_s=0.002)), 4)
    0.052
    """
    time: Array = np.cbrt(np.power(weights_s, _CORNER) + np.power(compute_s, _CORNER)) + cache_s
    return time


def step_time(*, device_s: Quantity, host_s: Quantity, exchange_s: Quantity, eager: bool | NDArray[np.bool_]) -> Array:
    """Seconds of the step; `eager` is true where launches overlap.

    3 ms of work behind 24 ms of launches: eager 24.0 ms, as a graph 27 ms if it had as much host time:

    >>> [round(float(step_time(device_s=0.003, host_s=0.024, exchange_s=0.0, eager=e)) * 1e3, 1) for e in (True, False)]
    [24.0, 27.0]
    """
    overlapped = (np.power(device_s, _OVERLAP) + np.power(host_s, _OVERLAP)) ** (1.0 / _OVERLAP)
    total: Array = np.where(eager, overlapped, np.add(device_s, host_s)) + exchange_s
    return total
