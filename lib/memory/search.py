"""The largest number with which something still fits, by interpolation and halving."""

from __future__ import annotations

from collections.abc import Callable

ENDLESS = 2**24
"""Tokens and sequences beyond which a search stops: no limit was found."""
UNLIMITED = 2**62
"""Bytes of a memory of which nothing is known, or that does not count."""


def find_largest(size: Callable[[int], int], capacity: int, limit: int) -> int:
    """The largest n from 1 to `limit` with size(n) ≤ capacity, 0 if even 1 is too large; `size` must not shrink.

    Interpolates, since most sizes are straight lines, and halves when that does not help.

    >>> find_largest(lambda n: 10 + 3 * n, 100, 1000)
    30
    """
    at_limit = size(limit)
    if at_limit <= capacity:
        return limit
    low, high = 1, limit
    at_low = size(low)
    if at_low > capacity:
        return 0
    straight = True
    while high - low > 1:
        guess = low + (capacity - at_low) * (high - low) // (at_limit - at_low) if straight else (low + high) // 2
        middle = min(max(guess, low + 1), high - 1)
        value = size(middle)
        if value <= capacity:
            straight = straight or guess == middle
            low, at_low = middle, value
        else:
            high, at_limit = middle, value
        straight = not straight if guess == middle else straight
    return low
