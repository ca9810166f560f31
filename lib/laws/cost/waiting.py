"""How long a request waits for a free slot.

    P(wait > t) = C(c, A) · exp(-(c - A) · t / T)          A = λ · T,  A < c

    C(c, A)  Erlang's C: the probability that all slots are taken      c  slots (requests served at once, all replicas)
    λ  requests per second      T  mean time of a request once it is served, s      A  slots in use on average

Random arrivals, times of random length, first come first served. Batched generation has steadier times than that, so waits are rather
shorter; bursts make them longer. At A ≥ c the queue grows without end.
Source: Erlang 1917, "Solution of some problems in the theory of probabilities of significance in automatic telephone exchanges".
"""

from __future__ import annotations

import math


def erlang_c(*, slots: int, load: float) -> float:
    """Probability that an arriving request has to wait; 1 when the load is not below the slots.

    One slot half in use is taken half of the time; two slots at load 1: 1/3 (Erlang B 1/5, C = B / (1 - A/c·(1-B))).

    >>> erlang_c(slots=1, load=0.5), round(erlang_c(slots=2, load=1.0), 4)
    (0.5, 0.3333)
    """
    if load >= slots:
        return 1.0
    blocked = 1.0
    for taken in range(1, slots + 1):  # Erlang B by its recursion, which cannot overflow
        blocked = load * blocked / (taken + load * blocked)
    return blocked / (1.0 - load / slots * (1.0 - blocked))


def wait_seconds(*, slots: int, load: float, request_s: float, percentile: float) -> float | None:
    """The wait that this share of requests (0.5, 0.99) stays below; `None` when the queue never empties.

    >>> round(wait_seconds(slots=1, load=0.5, request_s=2.0, percentile=0.99), 2)
    15.65
    """
    if load >= slots:
        return None
    waits = erlang_c(slots=slots, load=load)
    if waits <= 1.0 - percentile:
        return 0.0
    return request_s / (slots - load) * math.log(waits / (1.0 - percentile))
