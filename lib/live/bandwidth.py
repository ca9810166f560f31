"""How fast this device reads memory, measured: the floor where no datasheet is at hand.

A matrix of float32 is multiplied by a vector on all threads, which reads each element once and does next to no arithmetic with it. The
matrix is as large as the working set that the floor is for, so what fits a cache is read from that cache here too. The fastest of
several passes counts: whatever else the machine does can only make a pass slower.
Where it ends: a call takes a microsecond or more, so a set smaller than some MiB looks slower than it is; then the rate of a set of
`SMALL_BYTES` stands in when it is higher. A matrix product may read a little faster than this does, hence `MARGIN`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SMALL_BYTES = 8 * 2**20
MARGIN = 1.25
"""The floor is set for a memory a quarter faster than the fastest pass seen: on a shared host neighbours come and go."""
_PASSES, _ENOUGH_S, _LIMIT_S = 12, 0.15, 3.0  # at least so many passes, for so long; less only where the limit ends first
_FLOAT = 4


def _fastest(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of the fastest of some passes, the first (which warms up) not counted."""
    work()
    wait()
    best, passes, began = math.inf, 0, time.perf_counter()
    while passes < _PASSES or time.perf_counter() - began < _ENOUGH_S:
        start = time.perf_counter_ns()
        work()
        wait()
        best = min(best, (time.perf_counter_ns() - start) / 1e9)
        passes += 1
        if time.perf_counter() - began > _LIMIT_S:
            break
    return best


def _rate(size_bytes: int, device: torch.device, wait: Callable[[], object]) -> float:
    import torch  # noqa: PLC0415 loaded when first needed

    width = max(1, math.isqrt(size_bytes // _FLOAT))
    height = max(1, size_bytes // _FLOAT // width)
    matrix, vector = torch.ones(height, width, device=device), torch.ones(width, device=device)
    again = max(1, min(64, 2**21 // size_bytes)) if size_bytes else 1  # several reads per pass, so that the clock's own cost fades

    def by_product() -> None:
        for _ in range(again):
            torch.mv(matrix, vector)

    def by_sum() -> None:
        for _ in range(again):
            matrix.sum()

    return again * height * width * _FLOAT / min(_fastest(by_product, wait), _fastest(by_sum, wait))


def read_bandwidth(size_bytes: int, device: torch.device, wait: Callable[[], object]) -> float:
    """Bytes per second at which a working set of this size is read; `wait` returns when the device has done all that it was given."""
    sizes = {size_bytes, max(size_bytes, SMALL_BYTES)}
    return max(_rate(size, device, wait) for size in sizes)
