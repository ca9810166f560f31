"""Ways to pay side by side: a provider's price per token, the break-even between two ways, and several along traffic or hours.

Break-even: at how many requests a day always-on, sleeping, ZeroGPU and per-token bills cross. Always on means 24 h a day. ZeroGPU is the
bill of one visitor who makes all the requests (for the owner it is free at any traffic). A provider's bill is its price per million tokens
at the stated traffic, less the account's monthly credits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise, product
from typing import Literal

from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules, ProviderCredits
from lib.cost.bill import CostEstimate, CostPart, bill_offer, bill_storage, price_per_hour, sum_parts
from lib.cost.usage import BestLoad, Usage, count_hours, estimate_zerogpu_use, measure_capacity, resolve_sleep_time, to_decimal
from lib.laws.price import DAY_H, HOUR_S, TOKENS, beyond_quota, crossing_of_lines, first_where, rent, share, tokens_usd
from lib.provenance import Reason, Sentence, Source, Value
from lib.result import Exact, Result, Usd
from lib.speed import SpeedEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrice:
    """USD per million tokens of one provider, or of the visitor's own contract (`provider` says so)."""

    provider: str
    usd_per_million_input: Decimal
    usd_per_million_output: Decimal
    source: Source


def price_request(price: TokenPrice, usage: Usage, rules: ProviderCredits) -> Decimal:
    """USD of one request of the stated shape."""
    asked = (usage.prompt_tokens, price.usd_per_million_input), (usage.output_tokens, price.usd_per_million_output)
    prompt, answer = (tokens_usd(tokens=Decimal(n), usd_per_million=usd, markup_percent=rules.markup_percent) for n, usd in asked)
    return prompt + answer


def bill_tokens(price: TokenPrice, usage: Usage, rules: ProviderCredits) -> CostEstimate:
    """The month at the stated traffic, less the account's monthly credits (which never make it negative)."""
    requests = usage.requests_per_month
    lines = (
        ("prompt tokens", usage.prompt_tokens, price.usd_per_million_input),
        ("answer tokens", usage.output_tokens, price.usd_per_million_output),
    )
    parts = [
        CostPart(
            name=name,
            kind="tokens",
            usd_per_month=tokens_usd(tokens=requests * tokens, usd_per_million=rate, markup_percent=rules.markup_percent),
            law=TOKENS,
            inputs={"requests": f"{requests:f}", "tokens": str(tokens), "price": f"{rate} USD/10⁶"},
            source=price.source.source,
        )
        for name, tokens, rate in lines
    ]
    monthly = rules.monthly_usd[usage.account]
    credit = min(monthly, sum_parts(parts))
    if credit > 0:
        parts.append(
            CostPart(
                name="monthly credits",
                kind="credit",
                usd_per_month=-credit,
                law="-min(credits, tokens)",
                inputs={"account": usage.account, "credits": f"{monthly} USD/month"},
                source=rules.sources[0].source,
            )
        )
    total = sum_parts(parts)
    return CostEstimate(
        hardware=price.provider,
        platform="providers",
        usd_per_hour=Decimal(0),
        billed_hours_per_month=Decimal(0),
        compute_usd_per_month=total,
        storage_usd_per_month=Decimal(0),
        total_usd_per_month=total,
        serving_usd_per_month=total,
        usd_per_request=price_request(price, usage, rules),
        usd_per_million_output_tokens=price.usd_per_million_output,
        usd_per_million_input_tokens=price.usd_per_million_input,
        usd_per_million_output_tokens_at_traffic=share(total * 1_000_000, requests * usage.output_tokens),
        utilisation=None,
        wakes_per_day=None,
        payer="owner",
        parts=tuple(parts),
        sources=(price.source, *rules.sources),
    )


Way = Literal["always_on", "sleeping", "zerogpu", "per_token"]
MOST_REQUESTS = 1_000_000_000
NEARLY = Decimal("0.99")


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEvenPoint(Result):
    """The traffic at which two ways of running a model cost the same."""

    below: Way
    """The cheaper way up to `requests_per_day`."""
    above: Way
    """The cheaper way from there on."""
    requests_per_day: Exact | None
    """Requests a day at which both cost the same; null if `below` always costs less."""
    tokens_per_month: Exact | None
    """Prompt and output tokens at that traffic."""
    usd_per_month: Usd | None
    """Bill of both at that traffic."""
    within_capacity: bool | None
    """Whether the hardware serves that traffic at the stated concurrency; null if the time of a request is not known."""
    best_concurrency: int | None = None
    """Concurrency that makes a token cheapest; null if none is known."""
    best_utilisation: Exact | None = None
    """Share of the hardware's hours that this traffic takes at `best_concurrency`; above 1 it is too much."""
    message: Sentence
    """The same in a sentence."""
    law: str
    """Law that gave the point."""


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

    @property
    def credit(self) -> Decimal:
        return self.rules.providers.monthly_usd[self.usage.account]

    def daily_tokens_usd(self, price: TokenPrice) -> Decimal:
        return price_request(price, self.usage, self.rules.providers) * self.usage.days_per_month

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
        serves, best_utilisation = self.serves(requests), self.best_utilisation(requests)
        concurrency = None if self.best is None else self.best.concurrency
        values: dict[str, Value] = {"below": below, "above": above}
        if requests is not None:
            values["requests"] = int(requests.quantize(Decimal(1), rounding=ROUND_HALF_UP))
        if usd is not None:
            values["usd_per_month"] = usd
        variant = ""
        if requests is None:
            variant = "any_traffic" if below == "sleeping" else "never_dearer"
        elif usd is None:
            variant = "free"
        elif (below, above) == ("sleeping", "always_on"):
            variant = "awake"
        elif "per_token" not in {below, above} or best_utilisation is None or concurrency is None:
            variant = "beyond_capacity" if serves is False else ""
        else:
            values |= {"concurrency": concurrency, "used_percent": 100 * best_utilisation}
            variant = "beyond_best_load" if best_utilisation > 1 else "share"
        return BreakEvenPoint(
            below=below,
            above=above,
            requests_per_day=requests,
            tokens_per_month=None if requests is None else requests * self.usage.days_per_month * tokens,
            usd_per_month=usd,
            within_capacity=serves,
            message=Reason("break_even", values, variant=variant),
            law=law,
            best_concurrency=concurrency,
            best_utilisation=best_utilisation,
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
    if price_per_hour(offer, usage.region) == 0 or usage.days_per_month <= 0 or offer.traits.per_call:
        return ()
    bills = _Bills(offer=offer, usage=usage, rules=rules, speed=speed, best=best, sleeping_usd={})
    sleeps = resolve_sleep_time(offer, usage, rules) > 0
    points: list[BreakEvenPoint] = []
    if sleeps:  # sleep never costs more than always on; from here on it saves less than a hundredth
        nearly = NEARLY * bills.always_on()
        least = first_where(lambda n: bills.sleeping(n) >= nearly, MOST_REQUESTS)
        crossing, usd = (None, None) if least is None else (Decimal(least), bills.sleeping(least))
        points.append(bills.point("sleeping", "always_on", crossing, usd, "least n: sleeping(n) ≥ 0.99 · always on"))
    if price is not None and price_request(price, usage, rules.providers) > 0:
        full, each, credit = bills.always_on(), bills.daily_tokens_usd(price), bills.credit
        requests = crossing_of_lines((full, Decimal(0)), (-credit, each))
        law = "n = (always on + credits) / (days · USD per request)"
        points.append(bills.point("per_token", "always_on", requests, full, law))
        if sleeps:
            points.append(_against_sleeping(bills, "per_token", lambda n: max(Decimal(0), each * n - credit)))
    if zerogpu is not None:
        points += _quota_ends(bills, zerogpu, sleeps=sleeps, price=price)
    return tuple(points)


def _against_sleeping(bills: _Bills, way: Way, bill: Callable[[int], Decimal]) -> BreakEvenPoint:
    """The traffic at which a bill without bends downwards overtakes the sleeping one."""
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
    law = "n = quota / q + always on / (days · USD per request)"
    points = [bills.point("zerogpu", "always_on", crossing_of_lines(line, (full, Decimal(0))), full, law)]
    if sleeps:
        points.append(_against_sleeping(bills, "zerogpu", bill))
    if price is not None:
        points.append(_quota_against_tokens(bills, price, line, free))
    return points


def _quota_against_tokens(bills: _Bills, price: TokenPrice, line: tuple[Decimal, Decimal], free: Decimal) -> BreakEvenPoint:
    """Both are free at first; the one with the more expensive request loses in the end, if it was ahead."""
    each, credit = bills.daily_tokens_usd(price), bills.credit
    law = "n = (quota · USD/s - credits / days) / (USD per call - USD per request)"
    meeting = crossing_of_lines(line, (-credit, each))
    if meeting is None or meeting < free or meeting * each < credit:
        ahead: tuple[Way, Way] = ("zerogpu", "per_token") if line[1] <= each else ("per_token", "zerogpu")
        return bills.point(*ahead, None, None, law)
    below: tuple[Way, Way] = ("zerogpu", "per_token") if line[1] > each else ("per_token", "zerogpu")
    return bills.point(*below, meeting, meeting * each - credit, law)


Kind = Literal["running", "sleeping", "zerogpu", "per_token"]
Axis = Literal["requests", "hours"]
PER_DECADE = 10
LEAST_END = 10_000
MOST_END = 1_000_000_000
FREE_FIRST = frozenset({"zerogpu", "per_token"})
"""Ways that cost nothing without traffic: where bills are equal, these come first."""
FINEST_H = Decimal("0.05")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run it: an offer (`running` around its hours, `sleeping` between requests, `zerogpu`), or a price per token.

    `replicas`, `concurrency` and `file_bytes` are those of this way (0: those of the use); `alone` tells that one visitor makes all
    requests on ZeroGPU.
    """

    kind: Kind
    offer: Offer | None = None
    price: TokenPrice | None = None
    speed: SpeedEstimate | None = None
    replicas: int = 0
    concurrency: int = 0
    file_bytes: int = 0
    alone: bool = True

    def usage(self, usage: Usage) -> Usage:
        """The use with the replicas, the concurrency and the files of this way, without sleep where it runs on."""
        return replace(
            usage,
            replicas=self.replicas or usage.replicas,
            concurrency=self.concurrency or usage.concurrency,
            file_bytes=self.file_bytes or usage.file_bytes,
            sleep_after_s=Decimal(0) if self.kind == "running" else usage.sleep_after_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WayChange:
    """From here on (requests a day, or hours a day) the way number `after` costs less than `before`; USD per month at that point.

    `ends` tells that `before` cannot carry more than that.
    """

    at: Decimal
    before: int
    after: int
    usd_per_month: Decimal
    ends: bool = False


def price_option(option: Option, usage: Usage, rules: PlatformRules) -> Decimal | None:
    """USD per month; `None` if this way cannot carry that traffic.

    ZeroGPU costs nothing while the visitors' quotas carry the requests. Beyond them one visitor alone pays by GPU seconds, as in
    `lib.cost.break_even`; several do not, and an account that cannot pay does not either: `None`.
    """
    if option.price is not None:
        tokens = bill_tokens(option.price, usage, rules.providers)
        return tokens.total_usd_per_month + _storage_usd(usage, rules)
    if option.offer is None:
        return None
    if option.offer.traits.per_call:
        use = estimate_zerogpu_use(option.offer, usage, rules.zerogpu, option.speed)
        carried = usage.requests_per_day <= (use.requests_in_quota if option.alone else use.most_requests)
        beyond = Decimal(0) if carried else use.usd_per_month_alone if option.alone else None
        return None if beyond is None else beyond + _storage_usd(usage, rules)
    return bill_offer(option.offer, option.usage(usage), rules, speed=option.speed).total_usd_per_month


def _storage_usd(usage: Usage, rules: PlatformRules) -> Decimal:
    part = bill_storage(usage, rules.storage)
    return Decimal(0) if part is None else part.usd_per_month


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The ways to compare, along one axis, at one use."""

    options: tuple[Option, ...]
    axis: Axis
    usage: Usage
    rules: PlatformRules

    @property
    def xs(self) -> tuple[Decimal, ...]:
        """Places of computed bills: whole requests, evenly on a logarithmic scale to a decade beyond the stated; or half hours."""
        if self.axis == "hours":
            return tuple(Decimal(half) / 2 for half in range(2, 49))
        stated = self.usage.requests_per_day.to_integral_value()
        end = min(MOST_END, max(LEAST_END, 10 ** len(f"{10 * stated - 1:f}")))
        points = {Decimal(round(10 ** (step / PER_DECADE))) for step in range(PER_DECADE * (len(str(end)) - 1) + 1)}
        return tuple(sorted(points | {max(Decimal(1), stated)}))

    def bill(self, number: int, x: Decimal) -> Decimal | None:
        """The bill of a way at one point of the axis."""
        there = replace(self.usage, hours_per_day=x) if self.axis == "hours" else replace(self.usage, requests_per_day=x)
        return price_option(self.options[number], there, self.rules)

    def lines(self) -> tuple[tuple[Decimal | None, ...], ...]:
        """The bills of each way at each of `xs`."""
        return tuple(tuple(self.bill(number, x) for x in self.xs) for number in range(len(self.options)))

    def changes(self, lines: Sequence[Sequence[Decimal | None]]) -> tuple[WayChange, ...]:
        """Points where the first offer's ways and any other way change places, and where the cheapest of all changes; by place on the axis.

        Each point is found by halving between two neighbours of `xs`. Two ways of the same offer are not compared: sleep never costs more.
        """
        changes = set(self._along([_cheapest([line[n] for line in lines]) for n in range(len(self.xs))]))
        first = self.options[0].offer if self.options else None
        for mine, theirs in product(range(len(lines)), repeat=2):
            if self.options[mine].offer is first is not self.options[theirs].offer and first is not None:
                order = (theirs, mine) if self.options[theirs].kind in FREE_FIRST else (mine, theirs)
                cheaper = [_cheapest([lines[number][n] for number in order]) for n in range(len(self.xs))]
                changes.update(self._along([None if place is None else order[place] for place in cheaper]))
        return tuple(sorted(changes, key=lambda change: (change.at, change.before, change.after)))

    def _along(self, best: Sequence[int | None]) -> Iterator[WayChange]:
        for (left, before), (right, after) in pairwise(zip(self.xs, best, strict=True)):
            if before is not None and after is not None and before != after:
                yield self._change(before, after, left, right)

    def _change(self, before: int, after: int, low: Decimal, high: Decimal) -> WayChange:
        while high - low > (1 if self.axis == "requests" else FINEST_H):
            middle = (low + high) / 2
            middle = middle.to_integral_value() if self.axis == "requests" else middle
            first, second = self.bill(before, middle), self.bill(after, middle)
            if first is not None and (second is None or first <= second):
                low = middle
            else:
                high = middle
        ends = self.bill(before, high) is None
        return WayChange(
            at=low if ends else high, before=before, after=after, usd_per_month=self.bill(after, high) or Decimal(0), ends=ends
        )


def _cheapest(bills: Sequence[Decimal | None]) -> int | None:
    prices = [(usd, number) for number, usd in enumerate(bills) if usd is not None]
    return min(prices)[1] if prices else None
