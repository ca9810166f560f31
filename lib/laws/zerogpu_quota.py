"""GPU quota that a call on ZeroGPU takes from its visitor, and what goes beyond the day's quota.

    q = d · f · m            K = Q / q                 C = p / 3600 · max(0, n · q - Q) · days

    q  quota seconds of a call     d  seconds on the GPU      f  duration factor of the size (1.5 for `large`, 1 for `xlarge`)
    m  multiplier of the size (1, 2)      Q  the visitor's quota, seconds a day      K  calls a day that it carries
    n  calls a day of that visitor        p  USD per GPU-hour beyond the quota (1 USD per 10 GPU minutes = 6)

The quota is the visitor's, not the owner's: the owner of the Space pays nothing, whatever the traffic. Beyond it PRO, Team and Enterprise
visitors pay from prepaid credits, others wait for the next day. A call asks for its declared seconds before it runs; that what it really
took is counted with the same factor afterwards is an assumption, and a higher declaration can refuse a call that would have fitted.
Source: package spaces 0.51.3 (factor, multiplier); hub-docs spaces-zerogpu.md 2026-07-21 (quota, 1 USD per 10 minutes).
"""

from __future__ import annotations

from decimal import Decimal

HOUR_S = 3600


def quota_seconds(*, seconds: Decimal, duration_factor: Decimal, multiplier: int) -> Decimal:
    """Quota of one call. The default minute on `large`: 60 × 1.5 × 1.

    >>> quota_seconds(seconds=Decimal(60), duration_factor=Decimal("1.5"), multiplier=1)
    Decimal('90.0')
    """
    return seconds * duration_factor * multiplier


def beyond_quota(*, quota_s: Decimal, usd_per_gpu_hour: Decimal) -> Decimal:
    """USD for GPU seconds beyond the quota. Ten minutes: 6 / 3600 × 600.

    >>> beyond_quota(quota_s=Decimal(600), usd_per_gpu_hour=Decimal(6))
    Decimal('1')
    """
    return usd_per_gpu_hour * max(Decimal(0), quota_s) / HOUR_S
