"""Where two monthly bills cross.

Two straight lines a₁ + b₁·n and a₂ + b₂·n meet at n = (a₂ - a₁) / (b₁ - b₂). Where one of them bends (sleep), the least whole n from
which the first is dearer is found by halving: exact, because the difference changes its sign only once between the two ends. That holds
for a bill that bends down (sleep: each further request adds less) against one that does not (per token, quota, always on).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal


def lines(first: tuple[Decimal, Decimal], second: tuple[Decimal, Decimal]) -> Decimal | None:
    """The n ≥ 0 at which two lines (fixed, per n) meet; `None` when they never do.

    >>> lines((Decimal(576), Decimal(0)), (Decimal(0), Decimal("0.5")))
    Decimal('1152')
    """
    (fixed, slope), (other_fixed, other_slope) = first, second
    if slope == other_slope:
        return None
    meeting = (other_fixed - fixed) / (slope - other_slope)
    return meeting if meeting >= 0 else None


def least(dearer: Callable[[int], bool], most: int) -> int | None:
    """The least whole n in [1, most] at which `dearer` is true, which stays true from there on; `None` when it never is.

    >>> least(lambda n: n * n > 50, 1000)
    8
    """
    low, high = 0, 1
    while not dearer(high):  # doubling first: the answer is usually far below `most`
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if dearer(middle):
            high = middle
        else:
            low = middle
    return high
