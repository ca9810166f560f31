"""ZeroGPU: what the stated traffic takes from the visitors' quota."""

from __future__ import annotations

from decimal import Decimal

from lib.catalog.offers import Offer
from lib.catalog.rules import ZeroGpuRules
from lib.cost.result import ZeroGpuUse
from lib.cost.usage import Usage, request_seconds
from lib.laws.zerogpu_quota import beyond_quota, calls_per_day, quota_seconds, visitors_needed
from lib.provenance import Caveat
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


def quota_caveats(used: ZeroGpuUse, usage: Usage, rules: ZeroGpuRules) -> list[Caveat]:
    """Who pays, and how far a day's quota goes."""
    minutes = Decimal(used.daily_quota_s) / 60
    who = (
        f"A call of {used.seconds.normalize():f} s takes {used.quota_s_per_request.normalize():f} s of the visitor's own quota "
        f"({minutes.normalize():f} minutes a day for the account '{usage.account}'): {used.requests_in_quota} such calls a day. "
        "The owner of the Space pays nothing for the GPU."
    )
    found = [Caveat(code="visitor_pays", message=who)]
    if usage.requests_per_day > 0 and used.requests_in_quota == 0:
        found.append(Caveat(code="quota_too_small", message="A single call takes more than this account's whole daily quota."))
    elif usage.requests_per_day > used.requests_in_quota:
        found.append(
            Caveat(
                code="quota_spread",
                message=f"{usage.requests_per_day.normalize():f} requests a day need the quota of at least {used.visitors} such visitors.",
            )
        )
    if used.usd_per_request_beyond is None:
        paying = ", ".join(rules.overquota_accounts)
        found.append(Caveat(code="no_overquota", message=f"Beyond the quota this account waits for the next day; {paying} can pay."))
    else:
        each = f"{used.usd_per_request_beyond.quantize(Decimal('0.0001')):f}"
        found.append(Caveat(code="overquota", message=f"Beyond the quota each further call costs its visitor {each} USD."))
    return found
