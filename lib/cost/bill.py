"""The bill of one offer at one use."""

from __future__ import annotations

from decimal import Decimal, localcontext

from lib.cost.hours import Hours, hours, sleep_time
from lib.cost.quota import quota_caveats, zerogpu_use
from lib.cost.remarks import rent_caveats
from lib.cost.result import CostEstimate, CostPart, summed
from lib.cost.storage import storage_caveats, storage_part
from lib.cost.usage import Pace, Usage, exact, request_seconds
from lib.errors import BadArgument, UnknownHardware
from lib.laws.cost.rent import rent
from lib.laws.cost.token_price import answer_price, prompt_price, share
from lib.offer import Offer
from lib.platform_rules import PlatformRules
from lib.provenance import Source

MILLION = 1_000_000
HOUR_S = 3600
DIGITS = 60  # products of a price, hours and counts stay exact, so that parts add up to the last digit
RENT_LAW = "USD/h · (hours · replicas + extra replica hours)"


def cost(offer: Offer, usage: Usage, rules: PlatformRules, *, speed: Pace | None = None) -> CostEstimate:
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
        regions = {} if offer.tpu is None else offer.tpu.usd_per_hour_by_region
        if region not in regions:
            raise BadArgument("region", region, ", ".join(regions) or f"no region: {offer.id} has one price everywhere")
        return regions[region]
    if offer.usd_per_hour is None:
        raise UnknownHardware(f"'{offer.id}' is no longer offered and has no price of today. /list_hardware lists what can be rented.")
    return offer.usd_per_hour


def _cost(offer: Offer, usage: Usage, rules: PlatformRules, speed: Pace | None) -> CostEstimate:
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
        if speed is not None and speed.inter_token_s is not None
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


def _per_request(usage: Usage, speed: Pace | None, price: Decimal, compute: Decimal) -> Decimal | None:
    """The month's compute over its requests; without stated traffic, the share of an hour that a request takes."""
    if usage.requests_per_month > 0:
        return share(compute, usage.requests_per_month)
    seconds = request_seconds(usage, speed)
    return None if seconds is None else price * seconds / (HOUR_S * usage.concurrency)


def _answer(speed: Pace | None, price: Decimal) -> Decimal | None:
    if speed is None or not speed.throughput_tokens_per_s:
        return None
    return answer_price(usd_per_hour=price, tokens_per_s=exact(speed.throughput_tokens_per_s))


def _prompt(usage: Usage, speed: Pace | None, price: Decimal) -> Decimal | None:
    if speed is None or speed.ttft_s is None or usage.prompt_tokens <= 0:
        return None
    return prompt_price(
        usd_per_hour=price, first_token_s=exact(speed.ttft_s), prompt_tokens=usage.prompt_tokens, in_flight=usage.concurrency
    )


def utilisation(usage: Usage, speed: Pace | None, billed_hours: Decimal) -> Decimal | None:
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
