"""Hardware by the hour.

    C = p · (h · r + x)

    C  USD per month      p  USD per hour      h  billed hours of one replica per month
    r  replicas           x  hours of additional replicas per month, all of them together (autoscaling)

Billing is by the minute, used or not: Spaces while Starting or Running, Jobs likewise, Endpoints while initializing or running;
building, sleeping and paused time is free. Hours stated as a mean per day are not rounded: the last minute begun of each run adds less
than a minute to that run (`lib.laws.idle_sleep` counts it where it matters). For TPU, p is the chip-hour of the region × chips.
Source: hub-docs spaces-gpus.md 2026-07-21, jobs-pricing.md 2026-08-21; hf-endpoints-documentation pricing.md 2026-05-19.

Paying per token instead of renting hardware.

    C = N · (t_in · p_in + t_out · p_out) / 10⁶ · (1 + m)

    C  USD per month      N  requests per month      t_in, t_out  tokens of a request, prompt and answer
    p_in, p_out  USD per million tokens              m  markup of the router (0)

The account's monthly credits are subtracted by the caller, as a part of their own, down to nothing.
Source: hub-docs inference-providers/pricing.md 2026-08-21 (the provider's own price, no markup; credits).

What a million tokens cost on rented hardware that has nothing else to do.

    answer   p / (3600 · φ) · 10⁶                prompt   p / 3600 · τ / (k · t_in) · 10⁶

    p  USD per hour      φ  answer tokens per second, all requests together      τ  time to the first token, s
    t_in  tokens of a prompt                   k  prompts read in that time (requests in flight)

At full use, the best case. The price of the answer carries the whole machine, its prompts included; the price of the prompt is that
of reading alone, for answers of no length. They are two views of the same hour and are not to be added.
At the visitor's own traffic divide what a month costs by the tokens of the month instead (`share`).
Source: the definition; units only.

Where two monthly bills cross.

Two straight lines a₁ + b₁·n and a₂ + b₂·n meet at n = (a₂ - a₁) / (b₁ - b₂). Where one of them bends (sleep), the least whole n from
which the first is dearer is found by halving: exact, because the difference changes its sign only once between the two ends. That holds
for a bill that bends down (sleep: each further request adds less) against one that does not (per token, quota, always on).

Storage on the Hub by the terabyte and month: buckets and volumes that a Space mounts.

    C = Σ_k p_k · max(0, min(G, T_{k+1}) - T_k)          G = max(0, g - g₀)

    C  USD per month      g  terabytes held (10¹² bytes)      g₀  terabytes that the account includes
    p_k  USD per terabyte and month from T_k terabytes on (T_0 = 0)

Private: 18 USD, 16 from 50 TB, 14 from 200 TB, 12 from 500 TB; public add-on: 12 USD, 10 from 50 TB. Billed until deleted, whether the
Space runs or not. The page does not say whether a volume rate covers all of it or what lies above the threshold; the second is taken,
which never makes less storage cost more.
Source: hub-docs storage-limits.md 2026-06-23, storage-buckets.md 2026-06-29.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal


def rent(*, usd_per_hour: Decimal, hours: Decimal, replicas: int = 1, extra_replica_hours: Decimal = Decimal(0)) -> Decimal:
    """USD per month. One L4 around the clock: 0.80 × 24 × 30.

    >>> rent(usd_per_hour=Decimal("0.80"), hours=Decimal(24 * 30))
    Decimal('576.00')
    """
    return usd_per_hour * (hours * replicas + extra_replica_hours)


MILLION = 1_000_000


def tokens_usd(*, tokens: Decimal, usd_per_million: Decimal, markup_percent: Decimal = Decimal(0)) -> Decimal:
    """USD for this many tokens: a million and a half at 0.40 USD.

    >>> tokens_usd(tokens=Decimal(1_500_000), usd_per_million=Decimal("0.40"))
    Decimal('0.60')
    """
    return tokens * usd_per_million * (100 + markup_percent) / (100 * MILLION)


HOUR_S = 3600


def answer_price(*, usd_per_hour: Decimal, tokens_per_s: Decimal) -> Decimal:
    """USD per million answer tokens. 0.80 USD/h at 20 tokens/s: 0.80 / 72000 × 10⁶.

    >>> round(answer_price(usd_per_hour=Decimal("0.80"), tokens_per_s=Decimal(20)), 4)
    Decimal('11.1111')
    """
    return usd_per_hour * MILLION / (HOUR_S * tokens_per_s)


def prompt_price(*, usd_per_hour: Decimal, first_token_s: Decimal, prompt_tokens: int, in_flight: int = 1) -> Decimal:
    """USD per million prompt tokens. 0.80 USD/h, 1000 tokens read in half a second: 0.80 / 3600 × 0.5 / 1000 × 10⁶.

    >>> round(prompt_price(usd_per_hour=Decimal("0.80"), first_token_s=Decimal("0.5"), prompt_tokens=1000), 4)
    Decimal('0.1111')
    """
    return usd_per_hour * first_token_s * MILLION / (HOUR_S * in_flight * prompt_tokens)


def share(usd_per_month: Decimal, units_per_month: Decimal) -> Decimal | None:
    """USD per unit at the visitor's own traffic; `None` without any."""
    return usd_per_month / units_per_month if units_per_month > 0 else None


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


GB_PER_TB = 1000


def storage(
    *, gigabytes: Decimal, included_gigabytes: Decimal, usd_per_tb_month: Decimal, volume_rates: Sequence[tuple[int, Decimal]] = ()
) -> Decimal:
    """USD per month. 250 GB private on a free account: (250 - 100) / 1000 × 18.

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
