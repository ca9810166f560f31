"""Hours a day that hardware is awake when it falls asleep after a while without requests.

    a(t) = time of the window within the last D seconds before t      D = b + s
    S₀   = ∫_window exp(-λ·a(t)) dt        O = ∫_outside exp(-λ·a(t)) dt
    S    = S₀ / (1 + λ·u·S₀/W)             asleep within the window
    A    = (W - S) + (24 h - W - O)        awake per day
    N    = λ·S                             wakes per day

    W  length of the daily window in which requests arrive, s      λ  requests per second of the window = requests a day / W
    b  time a request takes, s        s  sleep time: seconds without a request until it falls asleep
    u  start-up at each wake, s, billed; half a billing step is added, by which rounding a spell up to whole steps lengthens it on average

Requests arrive at random (Poisson) within the window and none outside. It is awake at t when one arrived in the D seconds before; the
number of those is Poisson with mean λ·a(t). A request that finds it asleep (probability S/W) wakes it. For a window of 24 h a(t) = D and
the law is that of the busy period of an M/D/∞ queue with a longer first service: asleep for 1 / (λ·u + exp(λ·D)) of the time.

Limits: regular arrivals keep it awake less below one request per D and without a break above. Requests that queue (more than the
hardware serves) lengthen b. Below 24 h, u is spread over the window's mean, which is exact to first order in λ·u. Never more than 24 h.
Source: Takács 1962, "Introduction to the Theory of Queues", ch. 3 (busy period of M/G/∞); billing by the minute while starting or
running: hub-docs spaces-gpus.md, 2026-07-21.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import pairwise

DAY_S = Decimal(86_400)
_DIGITS = 34  # a difference of exponentials close to 1 loses some of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Awake:
    """Expected seconds awake per day, and how often a day it is woken."""

    seconds_per_day: Decimal
    wakes_per_day: Decimal


def awake(
    *,
    requests_per_day: Decimal,
    window_s: Decimal,
    request_s: Decimal,
    sleep_after_s: Decimal,
    startup_s: Decimal,
    billing_step_s: Decimal = Decimal(0),
) -> Awake:
    """How long a day it is awake.

    Once a day on average, 24 h, 5 minutes of sleep time, nothing else: 86400 · (1 - exp(-300/86400)) = 299.48 s.

    >>> few = dict(window_s=Decimal(86400), request_s=Decimal(0), sleep_after_s=Decimal(300), startup_s=Decimal(0))
    >>> round(awake(requests_per_day=Decimal(1), **few).seconds_per_day, 2)
    Decimal('299.48')
    """
    if requests_per_day <= 0 or window_s <= 0:
        return Awake(seconds_per_day=Decimal(0), wakes_per_day=Decimal(0))
    with localcontext() as digits:
        digits.prec = _DIGITS
        rate = requests_per_day / window_s
        inside, outside = _asleep(rate, window_s, request_s + sleep_after_s)
        woken = startup_s + billing_step_s / 2
        asleep = inside / (1 + rate * woken * inside / window_s)
        seconds = (window_s - asleep) + (DAY_S - window_s - outside)
        return Awake(seconds_per_day=max(Decimal(0), min(DAY_S, seconds)), wakes_per_day=rate * asleep)


def _asleep(rate: Decimal, window: Decimal, kept: Decimal) -> tuple[Decimal, Decimal]:
    """∫ exp(-λ·a(t)) dt over the window and over the rest of the day; a(t) is linear between the breaks."""
    days, rest = divmod(kept, DAY_S)
    breaks = sorted({Decimal(0), window, rest, (window + rest) % DAY_S, DAY_S})
    inside = outside = Decimal(0)
    for start, stop in pairwise(breaks):
        first, last = (days * window + _since(t, window) - _since(t - rest, window) for t in (start, stop))
        piece = _integral(rate, first, last, stop - start)
        if start < window:
            inside += piece
        else:
            outside += piece
    return inside, outside


def _since(moment: Decimal, window: Decimal) -> Decimal:
    """Time of the windows between midnight and a moment of this day, negative for one of the day before."""
    return min(moment, window) if moment >= 0 else min(moment + DAY_S, window) - window


def _integral(rate: Decimal, first: Decimal, last: Decimal, length: Decimal) -> Decimal:
    """∫ exp(-λ·a) over a piece on which a goes evenly from `first` to `last`."""
    if first == last:
        return length * (-rate * first).exp()
    return length * ((-rate * first).exp() - (-rate * last).exp()) / (rate * (last - first))
