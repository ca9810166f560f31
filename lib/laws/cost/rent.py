"""Hardware by the hour.

    C = p · (h · r + x)

    C  USD per month      p  USD per hour      h  billed hours of one replica per month
    r  replicas           x  hours of additional replicas per month, all of them together (autoscaling)

Billing is by the minute, used or not: Spaces while Starting or Running, Jobs likewise, Endpoints while initializing or running;
building, sleeping and paused time is free. Hours stated as a mean per day are not rounded: the last minute begun of each run adds less
than a minute to that run (`lib.laws.cost.awake` counts it where it matters). For TPU, p is the chip-hour of the region × chips.
Source: hub-docs spaces-gpus.md 2026-07-21, jobs-pricing.md 2026-08-21; hf-endpoints-documentation pricing.md 2026-05-19.
"""

from __future__ import annotations

from decimal import Decimal


def rent(*, usd_per_hour: Decimal, hours: Decimal, replicas: int = 1, extra_replica_hours: Decimal = Decimal(0)) -> Decimal:
    """USD per month. One L4 around the clock: 0.80 × 24 × 30.

    >>> rent(usd_per_hour=Decimal("0.80"), hours=Decimal(24 * 30))
    Decimal('576.00')
    """
    return usd_per_hour * (hours * replicas + extra_replica_hours)
