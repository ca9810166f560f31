"""The bill of one offer at one use.

What a rent leaves open, as sentences.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules
from lib.cost.result import CostEstimate, CostPart, summed
from lib.cost.tokens import storage_caveats, storage_part
from lib.cost.usage import SLEEPS, STARTUP_S, Hours, Usage, exact, hours, request_seconds, sleep_time
from lib.cost.zerogpu import quota_caveats, zerogpu_use
from lib.errors import BadArgument, UnknownHardware
from lib.laws.price import answer_price, prompt_price, rent, share
from lib.provenance import Caveat, Source
from lib.speed import SpeedEstimate

DAY_H = 24


def rent_caveats(
    offer: Offer, usage: Usage, rules: PlatformRules, daily: Hours, sleeps_after: Decimal, speed: SpeedEstimate | None, price: Decimal
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


def _traffic(usage: Usage, daily: Hours, speed: SpeedEstimate | None) -> list[Caveat]:
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
        dearest = max(offer.usd_per_hour_by_region.values())
        if dearest > price:
            message = f"Price of us-central1; other regions ask up to {dearest} USD per hour."
            found.append(Caveat(code="region_price", message=message))
    return found


MILLION = 1_000_000
HOUR_S = 3600
DIGITS = 60  # products of a price, hours and counts stay exact, so that parts add up to the last digit
RENT_LAW = "USD/h · (hours · replicas + extra replica hours)"


def cost(offer: Offer, usage: Usage, rules: PlatformRules, *, speed: SpeedEstimate | None = None) -> CostEstimate:
    """What the offer costs at this use; prices per token only with a speed estimate.

    Raises:
        UnknownHardware: the offer has no price of today (it was withdrawn).
        BadArgument: the region has no price for this TPU.
    """
    with localcontext() as digits:
        digits.prec = DIGITS
        return _cost(offer, usage, rules, speed)


def price_per_hour(offer: Offer, region: str | None = None) -> Decimal:
    """USD per hour of the whole offer; a TPU slice at the chip-hour of a region × its chips.

    Raises:
        UnknownHardware: the offer was withdrawn.
        BadArgument: the region is not one of the offer's.
    """
    if region is not None:
        regions = offer.usd_per_hour_by_region
        if region not in regions:
            raise BadArgument("region", region, ", ".join(regions) or f"no region: {offer.id} has one price everywhere")
        return regions[region]
    if offer.usd_per_hour is None:
        raise UnknownHardware(f"'{offer.id}' is no longer offered and has no price of today. /list_hardware lists what can be rented.")
    return offer.usd_per_hour


def _cost(offer: Offer, usage: Usage, rules: PlatformRules, speed: SpeedEstimate | None) -> CostEstimate:
    price = price_per_hour(offer, usage.region)
    daily = hours(offer, usage, rules, speed)
    monthly = daily.per_day * usage.days_per_month
    parts = tuple(part for part in (_rent(offer, usage, price, monthly), _ports(offer, usage, rules, monthly)) if part is not None)
    stored = storage_part(usage, rules.storage)
    compute = summed(parts)
    storage = Decimal(0) if stored is None else stored.usd_per_month
    used = zerogpu_use(offer, usage, rules.zerogpu, speed) if offer.platform == "zerogpu" else None
    billed = monthly * usage.replicas + usage.extra_replica_hours_per_month
    return CostEstimate(
        hardware=offer.id,
        platform=offer.platform,
        usd_per_hour=price,
        billed_hours_per_month=Decimal(0) if used else billed,
        compute_usd_per_month=compute,
        storage_usd_per_month=storage,
        total_usd_per_month=compute + storage,
        usd_per_request=_per_request(usage, speed, price, compute),
        usd_per_million_output_tokens=_answer(speed, price),
        usd_per_million_input_tokens=_prompt(usage, speed, price),
        usd_per_million_output_tokens_at_traffic=share(compute * MILLION, usage.requests_per_month * usage.output_tokens)
        if speed is not None and speed.tpot_s is not None
        else None,
        utilisation=None if used else utilisation(usage, speed, billed),
        wakes_per_day=daily.wakes_per_day,
        payer="visitor" if used else "owner",
        zerogpu=used,
        parts=parts if stored is None else (*parts, stored),
        caveats=(
            *([] if used else rent_caveats(offer, usage, rules, daily, sleep_time(offer, usage, rules), speed, price)),
            *(quota_caveats(used, usage, rules.zerogpu) if used else []),
            *storage_caveats(usage, rules.storage, offer.platform),
        ),
        sources=_sources(offer, usage, rules, daily),
    )


def _rent(offer: Offer, usage: Usage, price: Decimal, monthly: Decimal) -> CostPart:
    where = "" if usage.region is None else f" in {usage.region}"
    return CostPart(
        name=f"{offer.name}{where}",
        kind="compute",
        usd_per_month=rent(
            usd_per_hour=price, hours=monthly, replicas=usage.replicas, extra_replica_hours=usage.extra_replica_hours_per_month
        ),
        law=RENT_LAW,
        inputs={
            "USD/h": f"{price}",
            "hours": f"{monthly.normalize():f}",
            "replicas": str(usage.replicas),
            "extra replica hours": f"{usage.extra_replica_hours_per_month.normalize():f}",
        },
        source=offer.source,
    )


def _ports(offer: Offer, usage: Usage, rules: PlatformRules, monthly: Decimal) -> CostPart | None:
    """A Job that answers requests exposes a port, which has its own price."""
    exposed = usage.requests_per_day > 0 if usage.exposed_port is None else usage.exposed_port
    if offer.platform != "jobs" or not exposed:
        return None
    price = rules.jobs.ports_usd_per_hour
    return CostPart(
        name="exposed port",
        kind="compute",
        usd_per_month=rent(usd_per_hour=price, hours=monthly, replicas=usage.replicas),
        law="USD/h · hours · Jobs",
        inputs={"USD/h": f"{price}", "hours": f"{monthly.normalize():f}", "Jobs": str(usage.replicas)},
        source=rules.jobs.sources[0].source,
    )


def _per_request(usage: Usage, speed: SpeedEstimate | None, price: Decimal, compute: Decimal) -> Decimal | None:
    """The month's compute over its requests; without stated traffic, the share of an hour that a request takes."""
    if usage.requests_per_month > 0:
        return share(compute, usage.requests_per_month)
    seconds = request_seconds(usage, speed)
    return None if seconds is None else price * seconds / (HOUR_S * usage.concurrency)


def _answer(speed: SpeedEstimate | None, price: Decimal) -> Decimal | None:
    if speed is None or speed.output_tokens_per_s is None:
        return None
    return answer_price(usd_per_hour=price, tokens_per_s=exact(speed.output_tokens_per_s.value))


def _prompt(usage: Usage, speed: SpeedEstimate | None, price: Decimal) -> Decimal | None:
    if speed is None or usage.prompt_tokens <= 0:
        return None
    return prompt_price(
        usd_per_hour=price, first_token_s=exact(speed.ttft_s.value), prompt_tokens=usage.prompt_tokens, in_flight=usage.concurrency
    )


def utilisation(usage: Usage, speed: SpeedEstimate | None, billed_hours: Decimal) -> Decimal | None:
    """Share of the billed time in which requests are served, above 1 when they cannot all be; `None` when it is not known."""
    seconds = request_seconds(usage, speed)
    if seconds is None or billed_hours <= 0 or usage.requests_per_day <= 0:
        return None
    return usage.requests_per_month * seconds / (billed_hours * HOUR_S * usage.concurrency)


def _sources(offer: Offer, usage: Usage, rules: PlatformRules, daily: Hours) -> tuple[Source, ...]:
    of_platform = {
        "spaces": rules.sleep.sources[:1],
        "zerogpu": rules.zerogpu.sources[:2],
        "endpoints": rules.endpoints.sources[: 2 if daily.slept else 1],
        "jobs": rules.jobs.sources[:1],
    }.get(offer.platform, ())
    stored = rules.storage.sources[:2] if usage.storage_gb > 0 else ()
    return tuple(dict.fromkeys((*offer.sources, *of_platform, *stored)))
