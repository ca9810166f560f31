"""ZeroGPU: what the stated traffic takes from the visitors' quota."""

from __future__ import annotations

from decimal import Decimal

from lib.catalog.offers import Offer
from lib.catalog.rules import ZeroGpuRules
from lib.cost.result import ZeroGpuUse
from lib.cost.usage import Usage, request_seconds
from lib.laws.zerogpu_quota import beyond_quota, calls_per_day, quota_seconds, visitors_needed
from lib.provenance import Caveat, Value
from lib.speed import SpeedEstimate


def zerogpu_use(offer: Offer, usage: Usage, rules: ZeroGpuRules, speed: SpeedEstimate | None) -> ZeroGpuUse:
    """The quota of a visitor with the account of the usage."""
    size = rules.size(offer.id)
    seconds = usage.seconds_on_gpu
    if seconds is None:
        seconds = request_seconds(usage, speed)
    if seconds is None or seconds <= 0:
        seconds = Decimal(rules.default_duration_s)
    each = quota_seconds(seconds=seconds, duration_factor=size.duration_factor, multiplier=size.quota_multiplier)
    daily = rules.daily_quota_s[usage.account]
    carried = calls_per_day(daily_quota_s=daily, call_quota_s=each)
    pays = usage.account in rules.overquota_accounts
    price = rules.overquota_usd_per_gpu_hour
    alone = beyond_quota(quota_s=usage.requests_per_day * each - daily, usd_per_gpu_hour=price) * usage.days_per_month
    return ZeroGpuUse(
        size=size.size,
        seconds=seconds,
        quota_s_per_request=each,
        daily_quota_s=daily,
        requests_in_quota=carried,
        visitors=visitors_needed(calls=usage.requests_per_day, calls_per_visitor=carried),
        usd_per_request_beyond=beyond_quota(quota_s=each, usd_per_gpu_hour=price) if pays else None,
        usd_per_month_alone=alone if pays else None,
    )


def quota_caveats(use: ZeroGpuUse, usage: Usage, rules: ZeroGpuRules) -> list[Caveat]:
    """Who pays, and how far a day's quota goes."""
    calls = use.requests_in_quota
    pays: dict[str, Value] = {
        "seconds": use.seconds,
        "request_quota_s": use.quota_s_per_request,
        "quota_minutes": Decimal(use.daily_quota_s) / 60,
        "account": usage.account,
        "requests_per_visitor": calls,
    }
    caveats = [Caveat("visitor_pays", pays)]
    if usage.requests_per_day > 0 and calls == 0:
        caveats.append(Caveat("quota_too_small"))
    elif usage.requests_per_day > calls:
        caveats.append(Caveat("quota_spread", {"requests_per_day": usage.requests_per_day, "visitors": use.visitors}))
    if use.usd_per_request_beyond is None:
        caveats.append(Caveat("no_overquota", {"accounts": ", ".join(rules.overquota_accounts)}))
    else:
        caveats.append(Caveat("overquota", {"usd_per_request": use.usd_per_request_beyond}))
    return caveats
