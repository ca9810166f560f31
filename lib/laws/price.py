"""Money: rent by the hour, hours awake, prices per token, storage by the month, and where two bills cross. Amounts are `Decimal` USD.

Each law is at its function with its source and limits: rent, tokens, what a million tokens cost on rented hardware, replicas, storage,
crossings.

ZeroGPU has no price by the hour. The GPU quota that calls take from their visitor, and the price of what goes beyond:

    q = d · f · m        K = min(1 + ⌊(Q - r) / q⌋, runs)        V = ⌈n / K⌉        C = p / 3600 · max(0, n · q - Q) · days

    q  quota seconds of a call            d  seconds on the GPU         f  duration factor of the size (`large` 1.5, `xlarge` 1)
    m  quota multiplier of the size (1, 2)        Q  the visitor's quota, seconds a day        K  calls a day that it carries
    r  quota seconds reserved before a call runs (r ≤ Q, else K = 0)
    n  calls a day                        V  visitors whose quotas carry n calls at least
    p  USD per GPU-hour beyond the quota (1 USD per 10 GPU minutes = 6)

The quota is the visitor's, not the owner's: the owner of the Space pays nothing at any traffic. Beyond it PRO, Team and Enterprise
visitors pay from prepaid credits, others wait for the next day.

Runs are counted besides: `runs-exceeded` is an answer of the scheduler in the package; how many an account has is not documented, so
the number that users report is taken if there is one (free: 8).

Rounding: a call asks for its declared seconds before it runs, and starts only if they are left. The package drops fractions of a declared
second and rounds declared seconds · f to the nearest whole second (a half to the even one); nothing is rounded up
(`requested_quota_seconds`). What a call really took is charged, as users report; that this time is multiplied by f too and not rounded is
an assumption, on the safe side: the documentation gives `large` as 1 × quota, and answers say so (`duration_factor_assumed`).
Source: package spaces 0.51.3, zero/client.py (`get_duration_seconds`, `schedule`); hub-docs spaces-zerogpu.md 2026-07-21 (quota, 1 USD per
10 minutes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import pairwise

HOUR_S = 3600
DAY_H = 24
MILLION = 1_000_000
GB_PER_TB = 1000
FULL_UTILISATION = Decimal("0.8")
"""Utilisation up to which hardware is planned to be filled; above it waits grow quickly (M/M/1: five times the service time at 0.8)."""

RENT = "USD/h · (hours · replicas + extra replica hours)"
TOKENS = "requests · tokens · USD/10⁶"
STORAGE = "Σ USD/TB/month · TB beyond what the account includes"
"""Equations as a bill shows them; their sources are the price lists of the rows."""


def rent(*, usd_per_hour: Decimal, hours: Decimal, replicas: int = 1, extra_replica_hours: Decimal = Decimal(0)) -> Decimal:
    """USD per month of hardware by the hour: C = p · (h · r + x).

        p  USD per hour      h  billed hours of one replica per month      r  replicas
        x  hours of additional replicas per month, all of them together (autoscaling)

    Billing is by the minute, used or not: Spaces while Starting or Running, Jobs likewise, Endpoints while initializing or running;
    building, sleeping and paused time is free. Hours stated as a mean per day are not rounded: the last minute begun of each run adds
    less than a minute to that run (`awake_time` counts it where it matters). For TPU, p is the chip-hour of the region × chips.
    Source: hub-docs spaces-gpus.md 2026-07-21, jobs-pricing.md 2026-08-21; hf-endpoints-documentation pricing.md 2026-05-19.

    One L4 around the clock: 0.80 × 24 × 30.

    >>> rent(usd_per_hour=Decimal("0.80"), hours=Decimal(24 * 30))
    Decimal('576.00')
    """
    return usd_per_hour * (hours * replicas + extra_replica_hours)


def tokens_usd(*, tokens: Decimal, usd_per_million: Decimal, markup_percent: Decimal = Decimal(0)) -> Decimal:
    """USD for tokens at a provider's price: N · p / 10⁶ · (1 + m), with the markup m of the router (0).

    The account's monthly credits are subtracted by the caller, as a part of their own, down to nothing.
    Source: hub-docs inference-providers/pricing.md 2026-08-21 (the provider's own price, no markup; credits).

    A million and a half at 0.40 USD:

    >>> tokens_usd(tokens=Decimal(1_500_000), usd_per_million=Decimal("0.40"))
    Decimal('0.60')
    """
    return tokens * usd_per_million * (100 + markup_percent) / (100 * MILLION)


def answer_price(*, usd_per_hour: Decimal, tokens_per_s: Decimal) -> Decimal:
    """USD per million output tokens on rented hardware at full use, the best case: p / (3600 · φ) · 10⁶.

        p  USD per hour      φ  output tokens per second, all requests together

    This price carries the whole machine, its prompts included; `prompt_price` is that of reading alone. They are two views of the same
    hour and are not to be added. At the visitor's own traffic divide the month by its tokens instead (`share`).

    0.80 USD/h at 20 tokens/s: 0.80 / 72000 × 10⁶.

    >>> round(answer_price(usd_per_hour=Decimal("0.80"), tokens_per_s=Decimal(20)), 4)
    Decimal('11.1111')
    """
    return usd_per_hour * MILLION / (HOUR_S * tokens_per_s)


def prompt_price(*, usd_per_hour: Decimal, prefill_s: Decimal, prompt_tokens: int) -> Decimal:
    """USD per million prompt tokens, for answers of no length: p / 3600 · τ / t · 10⁶.

        τ  seconds that the hardware is occupied by reading one prompt, without its waits      t  tokens of a prompt

    0.80 USD/h, 1000 tokens read in half a second: 0.80 / 3600 × 0.5 / 1000 × 10⁶.

    >>> round(prompt_price(usd_per_hour=Decimal("0.80"), prefill_s=Decimal("0.5"), prompt_tokens=1000), 4)
    Decimal('0.1111')
    """
    return usd_per_hour * prefill_s * MILLION / (HOUR_S * prompt_tokens)


def gpu_hours_per_million_tokens(*, devices: int, tokens_per_s: Decimal) -> Decimal:
    """GPU-hours that a million output tokens take at full use: 10⁶ / (3600 · φ) · d devices.

    Two cards at 20 tokens/s: 10⁶ / 72000 × 2.

    >>> round(gpu_hours_per_million_tokens(devices=2, tokens_per_s=Decimal(20)), 2)
    Decimal('27.78')
    """
    return MILLION * devices / (HOUR_S * tokens_per_s)


def replicas_needed(*, tokens_per_s: Decimal, replica_tokens_per_s: Decimal, utilisation: Decimal) -> int:
    """Replicas for a load of Φ output tokens per second when each is filled up to a utilisation ρ: max(1, ⌈Φ / (ρ · φ)⌉).

    100 tokens/s on replicas of 40, filled to 80 %: ⌈100 / 32⌉.

    >>> replicas_needed(tokens_per_s=Decimal(100), replica_tokens_per_s=Decimal(40), utilisation=Decimal("0.8"))
    4
    """
    return max(1, math.ceil(tokens_per_s / (utilisation * replica_tokens_per_s)))


def share(usd_per_month: Decimal, units_per_month: Decimal) -> Decimal | None:
    """USD per unit at the visitor's own traffic; `None` without any."""
    return usd_per_month / units_per_month if units_per_month > 0 else None


def storage(
    *, gigabytes: Decimal, included_gigabytes: Decimal, usd_per_tb_month: Decimal, volume_rates: Sequence[tuple[int, Decimal]] = ()
) -> Decimal:
    """USD per month of buckets and of volumes that a Space mounts: C = Σ_k p_k · max(0, min(G, T_{k+1}) - T_k), G = max(0, g - g₀).

        g  terabytes held (10¹² bytes)      g₀  terabytes that the account includes
        p_k  USD per terabyte and month from T_k terabytes on (T_0 = 0)

    Private: 18 USD, 16 from 50 TB, 14 from 200 TB, 12 from 500 TB; public add-on: 12 USD, 10 from 50 TB. Billed until deleted, whether
    the Space runs or not. The page does not say whether a volume rate covers all of it or the part above the threshold; the second is
    taken, which never makes less storage cost more.
    Source: hub-docs storage-limits.md 2026-06-23, storage-buckets.md 2026-06-29.

    250 GB private on a free account: (250 - 100) / 1000 × 18.

    >>> storage(gigabytes=Decimal(250), included_gigabytes=Decimal(100), usd_per_tb_month=Decimal(18))
    Decimal('2.7')
    """
    billed = max(Decimal(0), gigabytes - included_gigabytes)
    steps = [(Decimal(0), usd_per_tb_month), *((Decimal(start * GB_PER_TB), rate) for start, rate in sorted(volume_rates))]
    total = Decimal(0)
    for number, (start, rate) in enumerate(steps):
        stop = steps[number + 1][0] if number + 1 < len(steps) else billed
        total += rate * max(Decimal(0), min(billed, stop) - start)
    return total / GB_PER_TB


def crossing_of_lines(first: tuple[Decimal, Decimal], second: tuple[Decimal, Decimal]) -> Decimal | None:
    """The n ≥ 0 at which two bills a₁ + b₁·n and a₂ + b₂·n are equal, (a₂ - a₁) / (b₁ - b₂); `None` when they never are.

    >>> crossing_of_lines((Decimal(576), Decimal(0)), (Decimal(0), Decimal("0.5")))
    Decimal('1152')
    """
    (fixed, slope), (other_fixed, other_slope) = first, second
    if slope == other_slope:
        return None
    meeting = (other_fixed - fixed) / (slope - other_slope)
    return meeting if meeting >= 0 else None


def first_where(dearer: Callable[[int], bool], most: int) -> int | None:
    """The least whole n in [1, most] at which `dearer` is true, which stays true from there on; `None` when it never is.

    For a bill that bends down (sleep: each further request adds less) against one that does not (per token, quota, always on) the
    difference changes its sign only once, so halving is exact.

    >>> first_where(lambda n: n * n > 50, 1000)
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


def quota_seconds(*, seconds: Decimal, duration_factor: Decimal, multiplier: int) -> Decimal:
    """Quota of one call that takes these seconds. The default minute on `large`: 60 × 1.5 × 1.

    >>> quota_seconds(seconds=Decimal(60), duration_factor=Decimal("1.5"), multiplier=1)
    Decimal('90.0')
    """
    return seconds * duration_factor * multiplier


def requested_quota_seconds(*, declared_s: int, duration_factor: Decimal, multiplier: int) -> int:
    """Quota that has to be left before a call of these declared seconds starts: 61 × 1.5 = 91.5, of which the package makes 92.

    >>> requested_quota_seconds(declared_s=61, duration_factor=Decimal("1.5"), multiplier=1)
    92
    """
    return round(declared_s * duration_factor) * multiplier


ROOM = Decimal("1.4")
"""Declared seconds over measured ones. An overrun may be aborted; a judgement, as in guides for Spaces (huggingface/skills, ZeroGPU)."""


def declared_seconds(*, call_s: float) -> int:
    """Whole seconds to declare for a call that was measured. 12 s: 12 × 1.4 = 16.8.

    >>> declared_seconds(call_s=12)
    17
    """
    return math.ceil(Decimal(str(call_s)) * ROOM)


def calls_per_day(
    *, daily_quota_s: Decimal | int, call_quota_s: Decimal, reserved_s: Decimal | int | None = None, runs: int | None = None
) -> int:
    """Calls a day of one visitor: 1 + ⌊(Q - r) / q⌋ where r ≤ Q, else 0; at most the runs that are counted besides.

        r  quota seconds that a call reserves before it runs; without a figure they equal the charge q, which makes it ⌊Q / q⌋

    A call starts only if its reservation is left, so the last one has to pass it too. A minute on `large`, declared as 84 s:
    1 + ⌊(300 - 126) / 90⌋.

    >>> calls_per_day(daily_quota_s=300, call_quota_s=Decimal(90), reserved_s=126)
    2
    """
    reserved = call_quota_s if reserved_s is None else reserved_s
    carried = 1 + int((daily_quota_s - reserved) // call_quota_s) if reserved <= daily_quota_s else 0
    return carried if runs is None else min(carried, runs)


def visitors_needed(*, calls: Decimal | int, calls_per_visitor: int) -> int:
    """The fewest visitors whose quotas carry the calls of a day; 0 if not even one call fits a visitor's quota.

    >>> visitors_needed(calls=100, calls_per_visitor=3)
    34
    """
    return math.ceil(Decimal(calls) / calls_per_visitor) if calls_per_visitor else 0


def beyond_quota(*, quota_s: Decimal, usd_per_gpu_hour: Decimal) -> Decimal:
    """USD for GPU seconds beyond the quota. Ten minutes: 6 / 3600 × 600.

    >>> beyond_quota(quota_s=Decimal(600), usd_per_gpu_hour=Decimal(6))
    Decimal('1')
    """
    return usd_per_gpu_hour * max(Decimal(0), quota_s) / HOUR_S


DAY_S = Decimal(86_400)
_DIGITS = 34  # a difference of exponentials close to 1 loses some of them


@dataclass(frozen=True, slots=True, kw_only=True)
class AwakeTime:
    """Expected seconds awake per day, and how often a day it is woken."""

    seconds_per_day: Decimal
    wakes_per_day: Decimal


def awake_time(
    *,
    requests_per_day: Decimal,
    window_s: Decimal,
    request_s: Decimal,
    sleep_after_s: Decimal,
    startup_s: Decimal,
    billing_step_s: Decimal = Decimal(0),
) -> AwakeTime:
    """How long a day hardware is awake that falls asleep after a while without requests.

        a(t) = time of the window within the last D seconds before t      D = b + s
        S₀   = ∫_window exp(-λ·a(t)) dt        O = ∫_outside exp(-λ·a(t)) dt
        S    = S₀ / (1 + λ·u·S₀/W)             asleep within the window
        A    = (W - S) + (24 h - W - O)        awake per day
        N    = λ·S                             wakes per day

        W  length of the daily window in which requests arrive, s      λ  requests per second of the window = requests a day / W
        b  time a request takes, s        s  sleep time: seconds without a request until it falls asleep
        u  start-up at each wake, s, billed; half a billing step is added, by which rounding a spell up to whole steps lengthens it

    Requests arrive at random (Poisson) within the window and none outside. It is awake at t when one arrived in the D seconds before; the
    number of those is Poisson with mean λ·a(t). A request that finds it asleep (probability S/W) wakes it. For a window of 24 h a(t) = D
    and the law is that of the busy period of an M/D/∞ queue with a longer first service: asleep for 1 / (λ·u + exp(λ·D)) of the time.

    Limits: regular arrivals keep it awake less below one request per D and without a break above. Requests that queue (more than the
    hardware serves) lengthen b. Below 24 h, u is spread over the window's mean, which is exact to first order in λ·u. Never above 24 h.
    Source: Takács 1962, "Introduction to the Theory of Queues", ch. 3 (busy period of M/G/∞); billing by the minute while starting or
    running: hub-docs spaces-gpus.md, 2026-07-21.

    Once a day on average, 24 h, 5 minutes of sleep time, nothing else: 86400 · (1 - exp(-300/86400)) = 299.48 s.

    >>> few = dict(window_s=Decimal(86400), request_s=Decimal(0), sleep_after_s=Decimal(300), startup_s=Decimal(0))
    >>> round(awake_time(requests_per_day=Decimal(1), **few).seconds_per_day, 2)
    Decimal('299.48')
    """
    if requests_per_day <= 0 or window_s <= 0:
        return AwakeTime(seconds_per_day=Decimal(0), wakes_per_day=Decimal(0))
    with localcontext() as digits:
        digits.prec = _DIGITS
        rate = requests_per_day / window_s
        inside, outside = _asleep(rate, window_s, request_s + sleep_after_s)
        woken = startup_s + billing_step_s / 2
        asleep = inside / (1 + rate * woken * inside / window_s)
        seconds = (window_s - asleep) + (DAY_S - window_s - outside)
        return AwakeTime(seconds_per_day=max(Decimal(0), min(DAY_S, seconds)), wakes_per_day=rate * asleep)


def _asleep(rate: Decimal, window: Decimal, awake_s: Decimal) -> tuple[Decimal, Decimal]:
    """∫ exp(-λ·a(t)) dt over the window and over the rest of the day; a(t) is linear between the breaks."""
    days, rest = divmod(awake_s, DAY_S)
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
