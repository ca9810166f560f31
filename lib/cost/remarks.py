"""What a rent leaves open, as sentences."""

from __future__ import annotations

from decimal import Decimal

from lib.cost.hours import SLEEPS, Hours
from lib.cost.usage import STARTUP_S, Pace, Usage, request_seconds
from lib.offer import Offer
from lib.platform_rules import PlatformRules
from lib.provenance import Caveat

DAY_H = 24


def rent_caveats(
    offer: Offer, usage: Usage, rules: PlatformRules, daily: Hours, sleeps_after: Decimal, speed: Pace | None, price: Decimal
) -> list[Caveat]:
    """Remarks on price, account, sleep and traffic, in this order."""
    return [
        *_price(offer, usage, rules, price),
        *_sleep(offer, usage, rules, daily, sleeps_after),
        *_traffic(usage, daily, speed),
        *_platform(offer, usage, rules, price),
    ]


def _price(offer: Offer, usage: Usage, rules: PlatformRules, price: Decimal) -> list[Caveat]:
    found = []
    if not offer.price_verified and offer.price_basis == "bundled":
        found.append(Caveat(code="price_unverified", message=f"The price of {offer.id} is from a secondary source of {offer.checked}."))
    if offer.status == "deprecated":
        found.append(Caveat(code="deprecated", message=f"{offer.id} is on its way out since {offer.since}: it may not be granted."))
    plan = rules.accounts.plan_usd_per_month.get(usage.account, Decimal(0))
    if plan > 0:
        message = f"The plan itself ({usage.account}, {plan} USD/month and user) is not counted."
        found.append(Caveat(code="plan_not_counted", message=message))
    elif "paid_plan_to_create" in offer.rules:
        message = f"Creating a Gradio or Docker Space on {offer.id} needs PRO, Team or Enterprise."
        found.append(Caveat(code="needs_plan", message=message))
    if usage.replicas > 1 and offer.platform == "spaces" and price == 0 and rules.sleep.replicas_paid_only:
        found.append(Caveat(code="replicas_paid_only", message=f"{offer.id} runs as one replica: replicas need paid hardware."))
    return found


def _sleep(offer: Offer, usage: Usage, rules: PlatformRules, daily: Hours, sleeps_after: Decimal) -> list[Caveat]:
    asked = usage.sleep_after_s
    if offer.platform not in SLEEPS:
        if asked > 0:
            return [Caveat(code="never_sleeps", message=f"The sleep time is not used: nothing sleeps on {offer.platform}.")]
        return []
    found = []
    if asked not in {Decimal(0), sleeps_after}:
        hours = rules.sleep.cpu_basic_after_s // 3600
        found.append(Caveat(code="sleep_fixed", message=f"{offer.id} sleeps after {hours} h without visits; that cannot be changed."))
    elif asked > 0 and not daily.slept:
        message = "No requests per day are stated, so it counts as awake all of its hours. With them, the cost shows what sleep saves."
        found.append(Caveat(code="traffic_not_stated", message=message))
    elif asked == 0 and sleeps_after == 0 and usage.hours_per_day < DAY_H:
        what = "paused by hand" if offer.platform == "spaces" else "paused or scaled to zero"
        message = f"Without a sleep time it runs round the clock unless it is {what} outside its {usage.hours_per_day} hours."
        found.append(Caveat(code="paused_outside_hours", message=message))
    if daily.slept and usage.startup_s is None:
        message = f"Each wake counts {STARTUP_S} s of billed start-up, an assumption: your Space's logs tell the real figure."
        found.append(Caveat(code="startup_assumed", message=message))
    if daily.slept and offer.platform == "endpoints":
        status, header = rules.endpoints.status_while_starting, rules.endpoints.hold_header
        message = f"Scaled to zero, it answers {status} while it starts, unless the request carries {header}."
        found.append(Caveat(code="cold_start", message=message))
    return found


def _traffic(usage: Usage, daily: Hours, speed: Pace | None) -> list[Caveat]:
    if usage.requests_per_day <= 0:
        return []
    seconds = request_seconds(usage, speed)
    if seconds is None:
        message = "How long a request takes is not known (no model, no speed estimate), so only sleep time and start-up keep it awake."
        return [Caveat(code="request_time_unknown", message=message)] if daily.slept else []
    needed = usage.requests_per_day * seconds / (3600 * usage.concurrency * usage.replicas)
    if needed <= usage.hours_per_day:
        return []
    message = (
        f"{usage.requests_per_day:f} requests of {seconds:.3g} s take {needed:.3g} hours a day with {usage.concurrency} at a time on "
        f"{usage.replicas} replica(s); only {usage.hours_per_day} are there."
    )
    return [Caveat(code="too_little_capacity", message=message)]


def _platform(offer: Offer, usage: Usage, rules: PlatformRules, price: Decimal) -> list[Caveat]:
    found = []
    if offer.platform == "jobs" and usage.hours_per_day * 3600 > rules.jobs.default_timeout_s:
        minutes = rules.jobs.default_timeout_s // 60
        message = f"A Job ends after {minutes} minutes unless a longer timeout is set."
        found.append(Caveat(code="job_timeout", message=message))
    if offer.platform == "tpu" and usage.region is None and offer.tpu is not None:
        dearest = max(offer.tpu.usd_per_hour_by_region.values())
        if dearest > price:
            message = f"Price of us-central1; other regions ask up to {dearest} USD per hour."
            found.append(Caveat(code="region_price", message=message))
    return found
