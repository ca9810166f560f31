"""Bills of several ways side by side, over traffic or hours, and where the cheapest way changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise, product
from typing import Literal

from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules
from lib.cost.bill import bill_offer, bill_storage
from lib.cost.tokens import TokenPrice, bill_tokens
from lib.cost.usage import Usage, estimate_zerogpu_use
from lib.speed import SpeedEstimate

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

    `replicas` and `concurrency` are those of this way (0: those of the use), `alone` that one visitor makes all requests on ZeroGPU.
    """

    kind: Kind
    offer: Offer | None = None
    price: TokenPrice | None = None
    speed: SpeedEstimate | None = None
    replicas: int = 0
    concurrency: int = 0
    alone: bool = True

    def usage(self, usage: Usage) -> Usage:
        """The use with the replicas and the concurrency of this way, without sleep where it runs on."""
        return replace(
            usage,
            replicas=self.replicas or usage.replicas,
            concurrency=self.concurrency or usage.concurrency,
            sleep_after_s=Decimal(0) if self.kind == "running" else usage.sleep_after_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """From here on (requests a day, or hours a day) the way number `after` costs less than `before`; USD per month at that point.

    `ends` tells that `before` cannot carry more than that.
    """

    at: Decimal
    before: int
    after: int
    usd_per_month: Decimal
    ends: bool = False


def price_option(option: Option, usage: Usage, rules: PlatformRules) -> Decimal | None:
    """USD per month; `None` where this way cannot carry that traffic.

    ZeroGPU costs nothing while the visitors' quotas carry the requests. Beyond them one visitor alone pays by GPU seconds, as in
    `lib.cost.break_even`; several do not, and an account that cannot pay does not either: `None`.
    """
    if option.price is not None:
        tokens = bill_tokens(option.price, usage, rules.providers)
        return tokens.total_usd_per_month + _stored(usage, rules)
    if option.offer is None:
        return None
    if option.kind == "zerogpu":
        use = estimate_zerogpu_use(option.offer, usage, rules.zerogpu, option.speed)
        carried = usage.requests_per_day <= (use.requests_in_quota if option.alone else use.most_requests)
        beyond = Decimal(0) if carried else use.usd_per_month_alone if option.alone else None
        return None if beyond is None else beyond + _stored(usage, rules)
    return bill_offer(option.offer, option.usage(usage), rules, speed=option.speed).total_usd_per_month


def _stored(usage: Usage, rules: PlatformRules) -> Decimal:
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
        """Where bills are computed: whole requests, evenly on a logarithmic scale to a decade beyond the stated; or half hours."""
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

    def changes(self, lines: Sequence[Sequence[Decimal | None]]) -> tuple[Change, ...]:
        """Where the first offer's ways and any other way change places, and where the cheapest of all changes; by place on the axis.

        Each point is found by halving between two neighbours of `xs`. Two ways of the same offer are not compared: sleep never costs more.
        """
        changes = set(self._along([_cheapest([line[n] for line in lines]) for n in range(len(self.xs))]))
        first = self.options[0].offer if self.options else None
        for mine, theirs in product(range(len(lines)), repeat=2):
            if self.options[mine].offer is first is not self.options[theirs].offer and first is not None:
                order = (theirs, mine) if self.options[theirs].kind in FREE_FIRST else (mine, theirs)
                changes.update(self._along([_less(order, lines, n) for n in range(len(self.xs))]))
        return tuple(sorted(changes, key=lambda change: (change.at, change.before, change.after)))

    def _along(self, best: Sequence[int | None]) -> Iterator[Change]:
        for (left, before), (right, after) in pairwise(zip(self.xs, best, strict=True)):
            if before is not None and after is not None and before != after:
                yield self._change(before, after, left, right)

    def _change(self, before: int, after: int, low: Decimal, high: Decimal) -> Change:
        while high - low > (1 if self.axis == "requests" else FINEST_H):
            middle = (low + high) / 2
            middle = middle.to_integral_value() if self.axis == "requests" else middle
            first, second = self.bill(before, middle), self.bill(after, middle)
            if first is not None and (second is None or first <= second):
                low = middle
            else:
                high = middle
        ends = self.bill(before, high) is None
        return Change(at=low if ends else high, before=before, after=after, usd_per_month=self.bill(after, high) or Decimal(0), ends=ends)


def _less(pair: tuple[int, int], lines: Sequence[Sequence[Decimal | None]], n: int) -> int | None:
    best = _cheapest([lines[number][n] for number in pair])
    return None if best is None else pair[best]


def _cheapest(bills: Sequence[Decimal | None]) -> int | None:
    prices = [(usd, number) for number, usd in enumerate(bills) if usd is not None]
    return min(prices)[1] if prices else None
