"""Billed hours of one replica per day: the hours it runs, or those in which requests keep it awake."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_UP, Decimal

from lib.cost.usage import STARTUP_S, Pace, Usage, request_seconds
from lib.laws.cost.awake import awake
from lib.offer import Offer
from lib.platform_rules import PlatformRules

HOUR_S = 3600
_STEP = Decimal("0.000001")  # hours; awake time is a mean, and money made of it should have an end
SLEEPS = ("spaces", "endpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """Hours a day of one replica. `wakes_per_day` is `None` where nothing sleeps; `slept` tells whether the law of sleep was used."""

    per_day: Decimal
    wakes_per_day: Decimal | None = None
    slept: bool = False


def sleep_time(offer: Offer, usage: Usage, rules: PlatformRules) -> Decimal:
    """Seconds without requests until this offer falls asleep; 0 when it never does. cpu-basic has its own, whatever is asked."""
    if offer.platform not in SLEEPS:
        return Decimal(0)
    if "sleeps_after_48h" in offer.rules:
        return Decimal(rules.sleep.cpu_basic_after_s)
    return max(Decimal(0), usage.sleep_after_s)


def hours(offer: Offer, usage: Usage, rules: PlatformRules, speed: Pace | None) -> Hours:
    """Hours a day, never more than `hours_per_day`: whoever keeps it to these would pause it at their end."""
    after = sleep_time(offer, usage, rules)
    if after == 0 or usage.requests_per_day <= 0:
        return Hours(per_day=usage.hours_per_day)
    billing = rules.endpoints.billing_step_s if offer.platform == "endpoints" else rules.sleep.billing_step_s
    found = awake(
        requests_per_day=usage.requests_per_day,
        window_s=usage.hours_per_day * HOUR_S,
        request_s=request_seconds(usage, speed) or Decimal(0),
        sleep_after_s=after,
        startup_s=STARTUP_S if usage.startup_s is None else usage.startup_s,
        billing_step_s=Decimal(billing),
    )
    awake_hours = (found.seconds_per_day / HOUR_S).quantize(_STEP, rounding=ROUND_UP)
    return Hours(per_day=min(usage.hours_per_day, awake_hours), wakes_per_day=found.wakes_per_day, slept=True)
