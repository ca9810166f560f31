"""How far a configuration can be stretched: the laws of memory turned round."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lib.estimate.demand import Demand

ENDLESS = 2**24
"""Tokens and sequences beyond which a search stops: no limit was found."""


def largest(size: Callable[[int], int], capacity: int, limit: int) -> int:
    """The largest n from 1 to `limit` with size(n) ≤ capacity, 0 if even 1 is too large; `size` must not shrink.

    Interpolates, since most sizes are straight lines, and halves when that does not help.

    >>> largest(lambda n: 10 + 3 * n, 100, 1000)
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


def max_context(demand: Demand, capacity: int, batch: int) -> int | None:
    """Longest context that fits, bounded by the model's own limit; None when nothing bounds it."""
    limit = demand.spec.context_limit
    found = largest(lambda tokens: demand.peak(tokens, batch), capacity, limit or ENDLESS)
    return None if limit is None and found == ENDLESS else found


def max_batch(demand: Demand, capacity: int, tokens: int) -> int | None:
    """Most sequences of this length that fit; None when nothing bounds them."""
    found = largest(lambda batch: demand.peak(tokens, batch), capacity, ENDLESS)
    return None if found == ENDLESS else found
