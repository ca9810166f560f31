"""Break-even: at how many requests a day always-on, sleeping, ZeroGPU and per-token bills cross.

Always on means 24 h a day. ZeroGPU is the bill of one visitor who makes all the requests (for the owner it is free at any traffic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules
from lib.cost.bill import price_per_hour
from lib.cost.tokens import TokenPrice, request_usd
from lib.cost.usage import Usage, hours, request_seconds, sleep_time
from lib.cost.zerogpu import zerogpu_use
from lib.laws.price import DAY_H, HOUR_S, crossing_of_lines, first_where, rent
from lib.laws.zerogpu_quota import beyond_quota
from lib.speed import SpeedEstimate

Way = Literal["always_on", "sleeping", "zerogpu", "per_token"]
MOST_REQUESTS = 1_000_000_000
NEARLY = Decimal("0.99")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Up to `requests_per_day` the way `below` costs less, from there on `above`; `None` when the first always does.

    `tokens_per_month` are prompt and answer tokens at that traffic, `usd_per_month` what both cost there. `within_capacity` tells whether
    the hardware can serve that many in its hours, `None` when the time of a request is not known.
    """

    below: Way
    above: Way
    requests_per_day: Decimal | None
    tokens_per_month: Decimal | None
    usd_per_month: Decimal | None
    within_capacity: bool | None
    law: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    offer: Offer
    usage: Usage
    rules: PlatformRules
    speed: SpeedEstimate | None
    slept: dict[int, Decimal]

    def always_on(self) -> Decimal:
        hourly = price_per_hour(self.offer, self.usage.region)
        return rent(usd_per_hour=hourly, hours=DAY_H * self.usage.days_per_month, replicas=self.usage.replicas)

    def sleeping(self, requests: int) -> Decimal:
        if requests not in self.slept:
            asked = replace(self.usage, requests_per_day=Decimal(requests))
            daily = hours(self.offer, asked, self.rules, self.speed).per_day
            hourly = price_per_hour(self.offer, self.usage.region)
            self.slept[requests] = rent(usd_per_hour=hourly, hours=daily * self.usage.days_per_month, replicas=self.usage.replicas)
        return self.slept[requests]

    def carries(self, requests: Decimal | None) -> bool | None:
        seconds = request_seconds(self.usage, self.speed)
        if requests is None or seconds is None:
            return None
        return requests * seconds <= self.usage.hours_per_day * HOUR_S * self.usage.concurrency * self.usage.replicas

    def at(self, below: Way, above: Way, requests: Decimal | None, usd: Decimal | None, law: str) -> Crossing:
        tokens = self.usage.prompt_tokens + self.usage.output_tokens
        return Crossing(
            below=below,
            above=above,
            requests_per_day=requests,
            tokens_per_month=None if requests is None else requests * self.usage.days_per_month * tokens,
            usd_per_month=usd,
            within_capacity=self.carries(requests),
            law=law,
        )


def break_even(
    offer: Offer,
    usage: Usage,
    rules: PlatformRules,
    *,
    speed: SpeedEstimate | None = None,
    price: TokenPrice | None = None,
    zerogpu: Offer | None = None,
) -> tuple[Crossing, ...]:
    """Every pair of ways that is known: per token needs a price, sleeping a sleep time, ZeroGPU an offer that runs the model.

    Free hardware has no bill to cross, nor has a month without days.
    """
    if price_per_hour(offer, usage.region) == 0 or usage.days_per_month <= 0 or offer.platform == "zerogpu":
        return ()
    case = _Case(offer=offer, usage=usage, rules=rules, speed=speed, slept={})
    sleeps = sleep_time(offer, usage, rules) > 0
    found = [_sleep_ends(case)] if sleeps else []
    if price is not None and request_usd(price, usage, rules.providers) > 0:
        found.append(_token_line(case, price))
        if sleeps:
            found.append(_token_curve(case, price))
    if zerogpu is not None:
        found += _quota(case, zerogpu, sleeps=sleeps, price=price)
    return tuple(found)


def _sleep_ends(case: _Case) -> Crossing:
    """Sleep never costs more than always on; from here on it saves less than a hundredth."""
    full = case.always_on()
    requests = first_where(lambda n: case.sleeping(n) >= NEARLY * full, MOST_REQUESTS)
    usd = None if requests is None else case.sleeping(requests)
    return case.at("sleeping", "always_on", None if requests is None else Decimal(requests), usd, "least n: sleeping(n) ≥ 0.99 · always on")


def _token_line(case: _Case, price: TokenPrice) -> Crossing:
    each = request_usd(price, case.usage, case.rules.providers)
    full = case.always_on()
    credit = case.rules.providers.monthly_usd[case.usage.account]
    requests = crossing_of_lines((full, Decimal(0)), (-credit, each * case.usage.days_per_month))
    return case.at("per_token", "always_on", requests, full, "n = (always on + credits) / (days · USD per request)")


def _token_curve(case: _Case, price: TokenPrice) -> Crossing:
    monthly = request_usd(price, case.usage, case.rules.providers) * case.usage.days_per_month
    credit = case.rules.providers.monthly_usd[case.usage.account]

    def tokens(n: int) -> Decimal:
        return max(Decimal(0), monthly * n - credit)

    return _curve(case, "per_token", tokens)


def _curve(case: _Case, way: Way, bill: Callable[[int], Decimal]) -> Crossing:
    """Where a bill without bends downwards overtakes the sleeping one."""
    requests = first_where(lambda n: bill(n) > case.sleeping(n), MOST_REQUESTS)
    law = f"least n: {way}(n) > sleeping(n)"
    if requests is None:
        return case.at(way, "sleeping", None, None, law)
    return case.at(way, "sleeping", Decimal(requests), case.sleeping(requests), law)


def _quota(case: _Case, zerogpu: Offer, *, sleeps: bool, price: TokenPrice | None) -> list[Crossing]:
    """Beyond the quota the visitor pays per GPU second; an account that cannot stops at the quota."""
    used = zerogpu_use(zerogpu, case.usage, case.rules.zerogpu, case.speed)
    free = Decimal(used.daily_quota_s) / used.quota_s_per_request
    if used.usd_per_request_beyond is None:
        law = "n = ⌊quota / quota seconds per request⌋; this account cannot pay for more"
        return [case.at("zerogpu", "always_on", Decimal(used.requests_in_quota), None, law)]
    days, each = case.usage.days_per_month, used.usd_per_request_beyond
    full = case.always_on()

    def bill(n: int) -> Decimal:
        spent = n * used.quota_s_per_request - used.daily_quota_s
        return beyond_quota(quota_s=spent, usd_per_gpu_hour=case.rules.zerogpu.overquota_usd_per_gpu_hour) * days

    line = (-free * each * days, each * days)
    found = [
        case.at(
            "zerogpu",
            "always_on",
            crossing_of_lines(line, (full, Decimal(0))),
            full,
            "n = quota / q + always on / (days · USD per request)",
        )
    ]
    if sleeps:
        found.append(_curve(case, "zerogpu", bill))
    if price is not None:
        found.append(_against_tokens(case, price, line, free))
    return found


def _against_tokens(case: _Case, price: TokenPrice, line: tuple[Decimal, Decimal], free: Decimal) -> Crossing:
    """Both are free at first; the one with the dearer request loses in the end, if it was ahead."""
    each = request_usd(price, case.usage, case.rules.providers) * case.usage.days_per_month
    credit = case.rules.providers.monthly_usd[case.usage.account]
    law = "n = (quota · USD/s - credits / days) / (USD per call - USD per request)"
    meeting = crossing_of_lines(line, (-credit, each))
    if meeting is None or meeting < free or meeting * each < credit:
        ahead: tuple[Way, Way] = ("zerogpu", "per_token") if line[1] <= each else ("per_token", "zerogpu")
        return case.at(*ahead, None, None, law)
    below: tuple[Way, Way] = ("zerogpu", "per_token") if line[1] > each else ("per_token", "zerogpu")
    return case.at(*below, meeting, meeting * each - credit, law)
