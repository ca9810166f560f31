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
from lib.cost.tokens import TokenPrice, price_request
from lib.cost.usage import BestLoad, Usage, count_hours, estimate_zerogpu_use, measure_capacity, resolve_sleep_time, to_decimal
from lib.laws.price import DAY_H, HOUR_S, beyond_quota, crossing_of_lines, first_where, rent
from lib.speed import SpeedEstimate

Way = Literal["always_on", "sleeping", "zerogpu", "per_token"]
MOST_REQUESTS = 1_000_000_000
NEARLY = Decimal("0.99")


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEvenPoint:
    """Up to `requests_per_day` the way `below` costs less, from there on `above`; `None` when the first always does.

    `tokens_per_month` are prompt and answer tokens at that traffic, `usd_per_month` what both cost there. `within_capacity` tells whether
    the hardware can serve that many in its hours at the stated concurrency, `None` when the time of a request is not known.
    `best_utilisation` is the share of its hours that they take at the load that makes a token cheapest, of `best_concurrency` at a time:
    above 1 not even that serves them. `None` where no such load is known.
    """

    below: Way
    above: Way
    requests_per_day: Decimal | None
    tokens_per_month: Decimal | None
    usd_per_month: Decimal | None
    within_capacity: bool | None
    law: str
    best_concurrency: int | None = None
    best_utilisation: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bills:
    """The bills of one offer at any traffic; those of sleep are remembered."""

    offer: Offer
    usage: Usage
    rules: PlatformRules
    speed: SpeedEstimate | None
    best: BestLoad | None
    sleeping_usd: dict[int, Decimal]

    def always_on(self) -> Decimal:
        hourly = price_per_hour(self.offer, self.usage.region)
        return rent(usd_per_hour=hourly, hours=DAY_H * self.usage.days_per_month, replicas=self.usage.replicas)

    def sleeping(self, requests: int) -> Decimal:
        if requests not in self.sleeping_usd:
            usage = replace(self.usage, requests_per_day=Decimal(requests))
            daily = count_hours(self.offer, usage, self.rules, self.speed).per_day
            hourly = price_per_hour(self.offer, self.usage.region)
            self.sleeping_usd[requests] = rent(usd_per_hour=hourly, hours=daily * self.usage.days_per_month, replicas=self.usage.replicas)
        return self.sleeping_usd[requests]

    def serves(self, requests: Decimal | None) -> bool | None:
        capacity = measure_capacity(self.offer, self.usage, self.speed)
        return None if requests is None or capacity is None else requests <= capacity.requests_per_day

    def best_utilisation(self, requests: Decimal | None) -> Decimal | None:
        best, hours = self.best, self.usage.hours_per_day * self.usage.replicas
        if requests is None or best is None or hours <= 0:
            return None
        return requests * to_decimal(best.request_s) / (hours * HOUR_S * best.concurrency)

    def point(self, below: Way, above: Way, requests: Decimal | None, usd: Decimal | None, law: str) -> BreakEvenPoint:
        tokens = self.usage.prompt_tokens + self.usage.output_tokens
        return BreakEvenPoint(
            below=below,
            above=above,
            requests_per_day=requests,
            tokens_per_month=None if requests is None else requests * self.usage.days_per_month * tokens,
            usd_per_month=usd,
            within_capacity=self.serves(requests),
            law=law,
            best_concurrency=None if self.best is None else self.best.concurrency,
            best_utilisation=self.best_utilisation(requests),
        )


def find_break_even(
    offer: Offer,
    usage: Usage,
    rules: PlatformRules,
    *,
    speed: SpeedEstimate | None = None,
    price: TokenPrice | None = None,
    zerogpu: Offer | None = None,
    best: BestLoad | None = None,
) -> tuple[BreakEvenPoint, ...]:
    """Every pair of ways that is known: per token needs a price, sleeping a sleep time, ZeroGPU an offer that runs the model.

    Free hardware has no bill to cross, nor has a month without days.
    """
    if price_per_hour(offer, usage.region) == 0 or usage.days_per_month <= 0 or offer.platform == "zerogpu":
        return ()
    bills = _Bills(offer=offer, usage=usage, rules=rules, speed=speed, best=best, sleeping_usd={})
    sleeps = resolve_sleep_time(offer, usage, rules) > 0
    points = [_sleep_ends(bills)] if sleeps else []
    if price is not None and price_request(price, usage, rules.providers) > 0:
        points.append(_tokens_against_always_on(bills, price))
        if sleeps:
            points.append(_tokens_against_sleeping(bills, price))
    if zerogpu is not None:
        points += _quota_ends(bills, zerogpu, sleeps=sleeps, price=price)
    return tuple(points)


def _sleep_ends(bills: _Bills) -> BreakEvenPoint:
    """Sleep never costs more than always on; from here on it saves less than a hundredth."""
    full = bills.always_on()
    requests = first_where(lambda n: bills.sleeping(n) >= NEARLY * full, MOST_REQUESTS)
    usd = None if requests is None else bills.sleeping(requests)
    return bills.point(
        "sleeping", "always_on", None if requests is None else Decimal(requests), usd, "least n: sleeping(n) ≥ 0.99 · always on"
    )


def _tokens_against_always_on(bills: _Bills, price: TokenPrice) -> BreakEvenPoint:
    each = price_request(price, bills.usage, bills.rules.providers)
    full = bills.always_on()
    credit = bills.rules.providers.monthly_usd[bills.usage.account]
    requests = crossing_of_lines((full, Decimal(0)), (-credit, each * bills.usage.days_per_month))
    return bills.point("per_token", "always_on", requests, full, "n = (always on + credits) / (days · USD per request)")


def _tokens_against_sleeping(bills: _Bills, price: TokenPrice) -> BreakEvenPoint:
    monthly = price_request(price, bills.usage, bills.rules.providers) * bills.usage.days_per_month
    credit = bills.rules.providers.monthly_usd[bills.usage.account]

    def tokens(n: int) -> Decimal:
        return max(Decimal(0), monthly * n - credit)

    return _against_sleeping(bills, "per_token", tokens)


def _against_sleeping(bills: _Bills, way: Way, bill: Callable[[int], Decimal]) -> BreakEvenPoint:
    """Where a bill without bends downwards overtakes the sleeping one."""
    requests = first_where(lambda n: bill(n) > bills.sleeping(n), MOST_REQUESTS)
    law = f"least n: {way}(n) > sleeping(n)"
    if requests is None:
        return bills.point(way, "sleeping", None, None, law)
    return bills.point(way, "sleeping", Decimal(requests), bills.sleeping(requests), law)


def _quota_ends(bills: _Bills, zerogpu: Offer, *, sleeps: bool, price: TokenPrice | None) -> list[BreakEvenPoint]:
    """Beyond the quota the visitor pays per GPU second; an account that cannot stops at the quota."""
    use = estimate_zerogpu_use(zerogpu, bills.usage, bills.rules.zerogpu, bills.speed)
    free = Decimal(use.daily_quota_s) / use.quota_s_per_request
    if use.usd_per_request_beyond is None:
        law = "n = ⌊quota / quota seconds per request⌋, at most the runs a day that users report; this account cannot pay for more"
        return [bills.point("zerogpu", "always_on", Decimal(use.requests_in_quota), None, law)]
    days, each = bills.usage.days_per_month, use.usd_per_request_beyond
    full = bills.always_on()

    def bill(n: int) -> Decimal:
        spent = n * use.quota_s_per_request - use.daily_quota_s
        return beyond_quota(quota_s=spent, usd_per_gpu_hour=bills.rules.zerogpu.overquota_usd_per_gpu_hour) * days

    line = (-free * each * days, each * days)
    points = [
        bills.point(
            "zerogpu",
            "always_on",
            crossing_of_lines(line, (full, Decimal(0))),
            full,
            "n = quota / q + always on / (days · USD per request)",
        )
    ]
    if sleeps:
        points.append(_against_sleeping(bills, "zerogpu", bill))
    if price is not None:
        points.append(_quota_against_tokens(bills, price, line, free))
    return points


def _quota_against_tokens(bills: _Bills, price: TokenPrice, line: tuple[Decimal, Decimal], free: Decimal) -> BreakEvenPoint:
    """Both are free at first; the one with the dearer request loses in the end, if it was ahead."""
    each = price_request(price, bills.usage, bills.rules.providers) * bills.usage.days_per_month
    credit = bills.rules.providers.monthly_usd[bills.usage.account]
    law = "n = (quota · USD/s - credits / days) / (USD per call - USD per request)"
    meeting = crossing_of_lines(line, (-credit, each))
    if meeting is None or meeting < free or meeting * each < credit:
        ahead: tuple[Way, Way] = ("zerogpu", "per_token") if line[1] <= each else ("per_token", "zerogpu")
        return bills.point(*ahead, None, None, law)
    below: tuple[Way, Way] = ("zerogpu", "per_token") if line[1] > each else ("per_token", "zerogpu")
    return bills.point(*below, meeting, meeting * each - credit, law)
