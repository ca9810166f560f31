"""What an offer costs by the hour and the month, for the hours a day it runs."""

from __future__ import annotations

from decimal import Decimal

from lib.advisor.result import Cost
from lib.errors import BadCatalog
from lib.offer import Offer
from lib.workload import Workload

DAYS_PER_MONTH = 30
"""Days of a month, as in `/estimate_cost`: a month of round-the-clock use is 720 hours."""


def cost_of(offer: Offer, workload: Workload) -> Cost:
    """Price per hour × hours a day × 30. ZeroGPU and free hardware cost nothing; quota beyond the free one is told as a reason.

    Raises:
        BadCatalog: a listed offer has no price.
    """
    price = offer.usd_per_hour
    if price is None:
        raise BadCatalog(f"offers: {offer.platform} {offer.id} is listed without a price.")
    hourly = Decimal(price)
    return Cost(
        usd_per_hour=hourly,
        usd_per_month=hourly * workload.hours_per_day * DAYS_PER_MONTH,
        hours_per_day=workload.hours_per_day,
        days_per_month=DAYS_PER_MONTH,
    )
