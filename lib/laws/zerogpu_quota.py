"""GPU quota that calls on ZeroGPU take from their visitor, and what goes beyond the day's quota.

    q = d · f · m        K = min(⌊Q / q⌋, runs)        V = ⌈n / K⌉        C = p / 3600 · max(0, n · q - Q) · days

    q  quota seconds of a call            d  seconds on the GPU         f  duration factor of the size (`large` 1.5, `xlarge` 1)
    m  quota multiplier of the size (1, 2)        Q  the visitor's quota, seconds a day        K  calls a day that it carries
    n  calls a day                        V  visitors whose quotas carry n calls at least
    p  USD per GPU-hour beyond the quota (1 USD per 10 GPU minutes = 6)

The quota is the visitor's, not the owner's: the owner of the Space pays nothing, whatever the traffic. Beyond it PRO, Team and Enterprise
visitors pay from prepaid credits, others wait for the next day.

Runs are counted besides: `runs-exceeded` is an answer of the scheduler in the package; how many an account has is not documented, so
the number that users report is taken where there is one (free: 8).

Rounding: a call asks for its declared seconds before it runs, and starts only if they are left. The package drops fractions of a declared
second and rounds declared seconds · f to the nearest whole second (a half to the even one); nothing is rounded up
(`requested_quota_seconds`). What a call really took is charged, as users report; that this time is multiplied by f too and not rounded is
an assumption, on the safe side: the documentation gives `large` as 1 × quota, and answers say so (`duration_factor_assumed`).
Source: package spaces 0.51.3, zero/client.py (`get_duration_seconds`, `schedule`); hub-docs spaces-zerogpu.md 2026-07-21 (quota, 1 USD per
10 minutes).
"""

from __future__ import annotations

import math
from decimal import Decimal

from lib.laws.price import HOUR_S


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


def calls_per_day(*, daily_quota_s: Decimal | int, call_quota_s: Decimal, runs: int | None = None) -> int:
    """Calls a day of one visitor: what the quota carries, and no more than the runs that are counted besides. 0.1 s on `large`: 300 / 0.15.

    >>> calls_per_day(daily_quota_s=300, call_quota_s=Decimal("0.1") * Decimal("1.5"))
    2000
    """
    carried = int(daily_quota_s // call_quota_s)
    return carried if runs is None else min(carried, runs)


def visitors_needed(*, calls: Decimal | int, calls_per_visitor: int) -> int:
    """The fewest visitors whose quotas carry the calls of a day; 0 where not even one call fits a visitor's quota.

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
