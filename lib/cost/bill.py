"""The monthly bill of one offer for one usage, in parts that add up, with its caveats.

    C = p · (h · r + x) + exposed ports + storage          (`lib.laws.price`: rent, storage)

    p  USD per hour      h  billed hours of one replica per month (`lib.cost.usage.count_hours`)      r  replicas
    x  hours of additional replicas per month

ZeroGPU costs the owner nothing; there the bill states the quota that its visitors spend (`lib.cost.usage`). Taxes, network traffic
and the plan of the account are not counted. Storage has today's prices; the persistent tiers of the past are recognised by name or size,
and a caveat states what the same size costs today.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import Literal

from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules, RetiredStorageTier, StoragePrices
from lib.cost.usage import (
    Capacity,
    RunningHours,
    Usage,
    ZeroGpuUse,
    count_hours,
    estimate_zerogpu_use,
    measure_capacity,
    measure_utilisation,
    quota_caveats,
    request_seconds,
    resolve_sleep_time,
    to_decimal,
)
from lib.errors import BadArgument, UnknownHardware
from lib.laws.price import (
    DAY_H,
    FULL_UTILISATION,
    GB_PER_TB,
    HOUR_S,
    MILLION,
    RENT,
    STORAGE,
    answer_price,
    prompt_price,
    rent,
    share,
    storage,
)
from lib.laws.start_up import cold_start
from lib.provenance import Answer, Caveat, Source, Value
from lib.result import Exact, Hidden, Result, Usd
from lib.speed import SpeedEstimate
from lib.units import GB


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPart(Result):
    """One line of the bill."""

    name: str
    """The thing that is billed."""
    kind: Literal["compute", "storage", "tokens", "credit"]
    """Kind of line; a credit is negative."""
    usd_per_month: Usd
    """Amount."""
    law: str
    """Law that gave the amount."""
    inputs: Mapping[str, str]
    """Values that went into the law."""
    source: str
    """Source of the price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledCapacity(Capacity):
    """The same, with its price."""

    total_usd_per_month: Usd
    """Bill of the replicas that the stated traffic needs, with storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate(Answer):
    """Bill of one way of running or buying, in parts that add up."""

    hardware: str
    """Id of the offer."""
    platform: str
    """Platform of the offer."""
    usd_per_hour: Usd
    """Price of a replica."""
    billed_hours_per_month: Exact
    """Billed hours, counting each replica."""
    compute_usd_per_month: Usd
    """Bill without storage."""
    storage_usd_per_month: Usd
    """Bill of storage."""
    total_usd_per_month: Usd
    """Bill of the stated replicas in the stated hours: the sum of `parts`."""
    usd_per_request: Usd | None
    """Compute that serves the stated traffic, per request; without traffic the share of an hour that a request takes at full use."""
    usd_per_million_output_tokens: Usd | None
    """Price of a million output tokens at full use, at the stated concurrency."""
    usd_per_million_input_tokens: Usd | None
    """Price of a million prompt tokens at full use."""
    usd_per_million_output_tokens_at_traffic: Usd | None
    """Compute that serves the stated traffic, per million output tokens."""
    utilisation: Exact | None
    """Share of the billed time in which requests are served."""
    wakes_per_day: Exact | None
    """Start-ups per day; null if nothing sleeps."""
    payer: Literal["owner", "visitor"]
    """The payer of compute: the owner, or (ZeroGPU) each visitor with quota and credits."""
    capacity: BilledCapacity | None = None
    """Traffic that the stated replicas serve; null if the time of a request is not known."""
    serving_usd_per_month: Hidden[Usd]
    """The bill with as many replicas as the traffic needs."""
    left_running_usd_per_month: Usd | None = None
    """The bill if it is not stopped outside its hours; null if that costs nothing more."""
    zerogpu: ZeroGpuUse | None = None
    """Quota that visitors spend; null on other platforms."""
    parts: tuple[CostPart, ...] = ()
    """Lines of the bill."""


def sum_parts(parts: Iterable[CostPart], *kinds: str) -> Decimal:
    """USD per month of the parts of these kinds; of all when none is named."""
    return sum((part.usd_per_month for part in parts if not kinds or part.kind in kinds), Decimal(0))


DIGITS = 60  # products of a price, hours and counts stay exact, so that parts add up to the last digit


def bill_offer(offer: Offer, usage: Usage, rules: PlatformRules, *, speed: SpeedEstimate | None = None) -> CostEstimate:
    """Price of the offer at this use; prices per token only with a speed estimate."""
    with localcontext() as digits:
        digits.prec = DIGITS
        return _cost(offer, usage, rules, speed)


def price_per_hour(offer: Offer, region: str | None = None) -> Decimal:
    """USD per hour of the whole offer; of a TPU slice, the region's price of a chip-hour × its chips."""
    if region is not None:
        regions = offer.usd_per_hour_by_region
        if region not in regions:
            raise BadArgument("region", region, ", ".join(regions) or f"no region: {offer.id} has one price everywhere")
        return regions[region]
    if offer.usd_per_hour is None:
        raise UnknownHardware(f"'{offer.id}' is no longer offered and has no price of today. /list_hardware lists what can be rented.")
    return offer.usd_per_hour


def _cost(offer: Offer, usage: Usage, rules: PlatformRules, speed: SpeedEstimate | None) -> CostEstimate:
    # Hours that are billed, and their compute and storage.
    price = price_per_hour(offer, usage.region)
    daily = count_hours(offer, usage, rules, speed)
    monthly = daily.per_day * usage.days_per_month
    parts = _compute(offer, usage, rules, price, monthly)
    stored = bill_storage(usage, rules.storage)
    compute = sum_parts(parts)
    storage = Decimal(0) if stored is None else stored.usd_per_month
    # The bill of as many replicas as serve the traffic, and of hardware that nobody stops.
    capacity = measure_capacity(offer, usage, speed)
    serving = compute
    if capacity is not None and capacity.replicas_needed > usage.replicas:
        serving = sum_parts(_compute(offer, replace(usage, replicas=capacity.replicas_needed), rules, price, monthly))
    stops = offer.traits.ends or resolve_sleep_time(offer, usage, rules) > 0
    left_running = None  # stays None if it runs all day anyway, stops by itself or costs nothing
    if not stops and usage.hours_per_day < DAY_H and price > 0:
        left_running = sum_parts(_compute(offer, usage, rules, price, DAY_H * usage.days_per_month))
    used = estimate_zerogpu_use(offer, usage, rules.zerogpu, speed) if offer.traits.per_call else None
    billed = monthly * usage.replicas + usage.extra_replica_hours_per_month
    # Prices of tokens and of a request.
    answer = prompt = per_request = None
    if speed is not None and speed.output_tokens_per_s is not None:
        answer = answer_price(usd_per_hour=price, tokens_per_s=to_decimal(speed.output_tokens_per_s.value))
    if speed is not None and speed.prefill_s is not None and usage.prompt_tokens > 0:
        prompt = prompt_price(usd_per_hour=price, prefill_s=to_decimal(speed.prefill_s), prompt_tokens=usage.prompt_tokens)
    if usage.requests_per_month > 0:  # the month's compute, of as many replicas as serve them, over its requests
        per_request = share(serving, usage.requests_per_month) if usage.hours_per_day > 0 else None
    elif (seconds := request_seconds(usage, speed)) is not None:  # without traffic, the share of an hour that one takes
        per_request = price * seconds / (HOUR_S * usage.concurrency)
    return CostEstimate(
        hardware=offer.id,
        platform=offer.platform,
        usd_per_hour=price,
        billed_hours_per_month=Decimal(0) if used else billed,
        compute_usd_per_month=compute,
        storage_usd_per_month=storage,
        total_usd_per_month=compute + storage,
        capacity=None
        if capacity is None
        else BilledCapacity(
            requests_per_day=capacity.requests_per_day,
            replicas_needed=capacity.replicas_needed,
            total_usd_per_month=serving + storage,
        ),
        serving_usd_per_month=serving + storage,
        left_running_usd_per_month=None if left_running is None else left_running + storage,
        usd_per_request=per_request,
        usd_per_million_output_tokens=answer,
        usd_per_million_input_tokens=prompt,
        usd_per_million_output_tokens_at_traffic=share(serving * MILLION, usage.requests_per_month * usage.output_tokens)
        if speed is not None and speed.tpot_s is not None and usage.hours_per_day > 0
        else None,
        utilisation=None if used else measure_utilisation(usage, speed, billed),
        wakes_per_day=daily.wakes_per_day,
        payer="visitor" if used else "owner",
        zerogpu=used,
        parts=parts if stored is None else (*parts, stored),
        caveats=(
            *([] if used else _price_caveats(offer, usage, rules, price)),
            *([] if used else _sleep_caveats(offer, usage, rules, daily, compute, left_running)),
            *([] if used else _traffic_caveats(usage, daily, speed, capacity, serving)),
            *([] if used else _platform_caveats(offer, usage, rules, price)),
            *(quota_caveats(used, usage, rules.zerogpu) if used else []),
            *([Caveat("replicas_of_visitors")] if used and usage.replicas > 1 else []),
            *storage_caveats(usage, rules.storage, on_hub=offer.traits.on_hub),
        ),
        sources=_sources(offer, usage, rules, daily),
    )


def _compute(offer: Offer, usage: Usage, rules: PlatformRules, price: Decimal, monthly: Decimal) -> tuple[CostPart, ...]:
    return tuple(part for part in (_rent(offer, usage, price, monthly), _ports(offer, usage, rules, monthly)) if part is not None)


def _rent(offer: Offer, usage: Usage, price: Decimal, monthly: Decimal) -> CostPart:
    where = "" if usage.region is None else f" in {usage.region}"
    return CostPart(
        name=f"{offer.name}{where}",
        kind="compute",
        usd_per_month=rent(
            usd_per_hour=price, hours=monthly, replicas=usage.replicas, extra_replica_hours=usage.extra_replica_hours_per_month
        ),
        law=RENT,
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
    if not offer.traits.runs_jobs or not exposed:
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


def _sources(offer: Offer, usage: Usage, rules: PlatformRules, daily: RunningHours) -> tuple[Source, ...]:
    traits, group = offer.traits, rules.group(offer.traits.rules)
    # The second page states how a quota is counted, or how Endpoints scale to zero.
    cited = 2 if traits.per_call or (daily.slept and traits.idle == "scales_to_zero") else 1
    of_platform = () if group is None else group.sources[:cited]
    stored = rules.storage.sources[:2] if usage.storage_gb > 0 else ()
    return tuple(dict.fromkeys((*offer.sources, *of_platform, *stored)))


def _price_caveats(offer: Offer, usage: Usage, rules: PlatformRules, price: Decimal) -> list[Caveat]:
    caveats = []
    if offer.price_secondhand:
        caveats.append(Caveat("price_unverified", {"hardware": offer.id, "checked": offer.checked}))
    if offer.status == "deprecated":
        caveats.append(Caveat("deprecated", {"hardware": offer.id, "since": str(offer.since)}))
    plan = rules.accounts.plan_usd_per_month.get(usage.account, Decimal(0))
    if plan > 0:
        caveats.append(Caveat("plan_not_counted", {"account": usage.account, "usd_per_month": plan}))
    elif "paid_plan_to_create" in offer.rules:
        caveats.append(Caveat("needs_plan", {"hardware": offer.id}))
    if usage.replicas > 1 and offer.traits.runs_spaces and price == 0 and rules.sleep.replicas_paid_only:
        caveats.append(Caveat("replicas_paid_only", {"hardware": offer.id}))
    return caveats


def _sleep_caveats(
    offer: Offer, usage: Usage, rules: PlatformRules, daily: RunningHours, compute: Decimal, left_running: Decimal | None
) -> list[Caveat]:
    wanted_s = usage.sleep_after_s
    caveats = []
    if left_running is not None:
        figures: dict[str, Value] = {
            "hours": usage.hours_per_day,
            "paused_usd_per_month": compute,
            "left_running_usd_per_month": left_running,
        }
        caveats.append(Caveat("paused_outside_hours", figures, variant=offer.traits.idle))
    if not offer.traits.sleeps:
        return [*caveats, Caveat("never_sleeps", {"platform": offer.platform})] if wanted_s > 0 else caveats
    if wanted_s not in {Decimal(0), resolve_sleep_time(offer, usage, rules)}:
        caveats.append(Caveat("sleep_fixed", {"hardware": offer.id, "hours": rules.sleep.cpu_basic_after_s // HOUR_S}, variant="bill"))
    elif wanted_s > 0 and not daily.slept:
        caveats.append(Caveat("traffic_not_stated"))
    if daily.slept and usage.startup_s is None:
        start, file_bytes = cold_start(usage.file_bytes), usage.file_bytes
        times: dict[str, Value] = {"startup_s": start.seconds, "low_s": start.low_s, "high_s": start.high_s, "bytes": file_bytes}
        caveats.append(Caveat("startup_assumed", times, variant="model" if file_bytes else ""))
    if daily.slept and offer.traits.idle == "scales_to_zero":
        values: dict[str, Value] = {"status": rules.endpoints.status_while_starting, "header": rules.endpoints.hold_header}
        caveats.append(Caveat("cold_start", values))
    return caveats


def _traffic_caveats(
    usage: Usage, daily: RunningHours, speed: SpeedEstimate | None, capacity: Capacity | None, serving: Decimal
) -> list[Caveat]:
    if usage.requests_per_day <= 0:
        return []
    if usage.hours_per_day == 0:
        return [Caveat("no_hours", {"requests_per_day": usage.requests_per_day})]
    seconds = request_seconds(usage, speed)
    if seconds is None:
        return [Caveat("request_time_unknown")] if daily.slept else []
    if capacity is None or capacity.replicas_needed <= usage.replicas:
        return []
    values: dict[str, Value] = {
        "requests_per_day": usage.requests_per_day,
        "request_s": seconds,
        "concurrency": usage.concurrency,
        "replicas": usage.replicas,
        "hours": usage.hours_per_day,
        "served": int(capacity.requests_per_day),
        "replicas_needed": capacity.replicas_needed,
        "usd_per_month": serving,
        "used_percent": 100 * FULL_UTILISATION,
    }
    return [Caveat("too_little_capacity", values)]


def _platform_caveats(offer: Offer, usage: Usage, rules: PlatformRules, price: Decimal) -> list[Caveat]:
    caveats = []
    if offer.traits.runs_jobs and usage.hours_per_day * HOUR_S > rules.jobs.default_timeout_s:
        caveats.append(Caveat("job_timeout", {"minutes": rules.jobs.default_timeout_s // 60}))
    if offer.tpu is not None and usage.region is None:
        dearest = max(offer.usd_per_hour_by_region.values())
        if dearest > price:
            caveats.append(Caveat("region_price", {"usd_per_hour": dearest}))
    return caveats


def bill_storage(usage: Usage, prices: StoragePrices) -> CostPart | None:
    """The line for storage; `None` when nothing is stored."""
    if usage.storage_gb <= 0:
        return None
    public = usage.storage_public
    base, rates = (
        (prices.public_usd_per_tb_month, prices.public_volume_rates)
        if public
        else (prices.private_usd_per_tb_month, prices.private_volume_rates)
    )
    included = Decimal(0) if public else included_gb(usage, prices)
    amount = storage(gigabytes=usage.storage_gb, included_gigabytes=included, usd_per_tb_month=base, volume_rates=rates)
    return CostPart(
        name="public storage" if public else "private storage",
        kind="storage",
        usd_per_month=amount,
        law=STORAGE,
        inputs={"held": f"{usage.storage_gb} GB", "included": f"{included} GB", "price": f"{base} USD/TB/month"},
        source=prices.sources[0].source,
    )


def included_gb(usage: Usage, prices: StoragePrices) -> Decimal:
    """Private gigabytes in the plan: per seat for organizations; nothing without an account."""
    seats = usage.seats if usage.account in {"team", "enterprise"} else 1
    return Decimal(prices.included_private.get(usage.account, 0)) / GB * seats


def storage_caveats(usage: Usage, prices: StoragePrices, *, on_hub: bool) -> list[Caveat]:
    """Caveats of the line for storage, and the old tier that it may have meant."""
    if usage.storage_gb <= 0:
        return []
    caveats = []
    tier = find_retired_tier(usage.storage_gb, prices)
    if tier is not None:
        caveats.append(describe_retired_tier(tier, usage, prices))
    if not on_hub:
        caveats.append(Caveat("storage_elsewhere"))
    rates = prices.public_volume_rates if usage.storage_public else prices.private_volume_rates
    if rates and usage.storage_gb > rates[0][0] * GB_PER_TB:
        caveats.append(Caveat("volume_rate", {"from_tb": rates[0][0]}))
    return caveats


def find_retired_tier(name_or_gb: Decimal | str, prices: StoragePrices) -> RetiredStorageTier | None:
    """The old persistent tier that is meant by a name (`small`, `medium`, `large`) or by exactly its size in GB."""
    for tier in prices.retired_tiers:
        if name_or_gb == tier.id if isinstance(name_or_gb, str) else name_or_gb * GB == tier.size:
            return tier
    return None


def describe_retired_tier(tier: RetiredStorageTier, usage: Usage, prices: StoragePrices) -> Caveat:
    """The end of a retired tier, and today's price of its size."""
    size = Decimal(tier.size) / GB
    base = prices.private_usd_per_tb_month
    included = included_gb(usage, prices)
    amount = storage(gigabytes=size, included_gigabytes=included, usd_per_tb_month=base, volume_rates=prices.private_volume_rates)
    values: dict[str, Value] = {
        "tier": tier.id,
        "size_gb": size,
        "last_usd_per_month": tier.last_usd_per_month,
        "until": tier.until,
        "usd_per_month": amount,
        "included_gb": included,
        "usd_per_tb_month": base,
    }
    return Caveat("storage_tier_retired", values)
