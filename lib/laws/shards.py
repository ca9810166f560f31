"""A pile of work on machines side by side, each with its own part: how many keep a deadline, the hours, and the bill.

    h = t + N / (r · n)        n = ⌈N / (r · (D - t))⌉        C = p · n · ⌈h / b⌉ · b

    N  items      r  items per second of one machine      n  machines (shards)      t  seconds until a machine works
    D  seconds until the deadline      p  USD per second of a machine      b  seconds of a billing step

Source: arithmetic. Limits: the parts are equal, so all machines end together; a machine that is not free at once makes it later.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

from lib.laws import Law
from lib.laws.price import HOUR_S

SHARDS = Law("items / (items per second of one machine · (seconds until the deadline - seconds until it works))", "arithmetic")
SHARDED_BILL = Law("price · machines · seconds of each, rounded up to the billing step", "arithmetic")


class ShardedWork(NamedTuple):
    """Machines, the seconds of each until its part is done, and the price of all."""

    shards: int
    seconds: float
    usd: Decimal


def shards_needed(*, items: int, items_per_s: float, start_s: float, deadline_s: float) -> int | None:
    """The fewest machines that end by the deadline; None if no number does, because the start alone takes as long.

    1000 items at one a second, after a start of 100 s, within 350 s: four parts of 250 s.

    >>> shards_needed(items=1000, items_per_s=1.0, start_s=100.0, deadline_s=350.0)
    4
    >>> shards_needed(items=1, items_per_s=1.0, start_s=100.0, deadline_s=100.0) is None
    True
    """
    left_s = deadline_s - start_s
    return max(1, math.ceil(items / (items_per_s * left_s))) if left_s > 0 else None


def split_work(*, items: int, items_per_s: float, start_s: float, shards: int, usd_per_hour: Decimal, billing_step_s: int) -> ShardedWork:
    """The work on this many machines.

    Two machines at 0.80 USD an hour take 100 s to start and 500 s for their parts, billed as ten minutes each:

    >>> split_work(items=1000, items_per_s=1.0, start_s=100.0, shards=2, usd_per_hour=Decimal("0.80"), billing_step_s=60)
    ShardedWork(shards=2, seconds=600.0, usd=Decimal('0.2666666666666666666666666667'))
    """
    seconds = start_s + items / (items_per_s * shards)
    billed_s = math.ceil(seconds / billing_step_s) * billing_step_s
    return ShardedWork(shards, seconds, usd_per_hour * shards * billed_s / HOUR_S)
