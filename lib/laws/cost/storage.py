"""Storage on the Hub by the terabyte and month: buckets and volumes that a Space mounts.

    C = Σ_k p_k · max(0, min(G, T_{k+1}) - T_k)          G = max(0, g - g₀)

    C  USD per month      g  terabytes held (10¹² bytes)      g₀  terabytes that the account includes
    p_k  USD per terabyte and month from T_k terabytes on (T_0 = 0)

Private: 18 USD, 16 from 50 TB, 14 from 200 TB, 12 from 500 TB; public add-on: 12 USD, 10 from 50 TB. Billed until deleted, whether the
Space runs or not. The page does not say whether a volume rate covers all of it or what lies above the threshold; the second is taken,
which never makes less storage cost more.
Source: hub-docs storage-limits.md 2026-06-23, storage-buckets.md 2026-06-29.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

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
