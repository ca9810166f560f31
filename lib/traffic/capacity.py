"""How much hardware a traffic needs: replicas that keep a target at the 99th percentile, for one tier or for several.

The fewest replicas are searched from what the laws say they serve at most: more replicas one by one while they are few, then by a
quarter, and at the end between the last two. Where the first try misses the target and `MOST_REPLICAS` do too, nothing is searched between
them. A try simulates at most `TRIED_REPLICAS` of them with their share of the requests,
`TRIED_REQUESTS` with the same seed: that many requests over all replicas would be gone before the first of them is answered, and no queue
would be seen to grow. Fewer replicas level out chance less well, so the answer is rather too many than too few.

`sweep_loads` runs the three policies at several rates of requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil

from lib.errors import BadArgument
from lib.provenance import Caveat
from lib.traffic.replica import Policy
from lib.traffic.result import Target, TrafficResult
from lib.traffic.server import Server, TrafficQuestion, most_requests_per_s, start_simulation, summarise_run
from lib.traffic.simulation import TooManyEvents, run_all

TRIED_REQUESTS, TRIED_REPLICAS = 600, 4
LEAST_S = 300.0
"""Simulated at least, where the requests are not through before: many times what a request takes."""
WAITING_SHARE = 0.05
"""Of the requests that may be waiting when the last one arrives; more is a queue that grows."""
MOST_REPLICAS = 64
_BY_ONE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The replicas that one kind of hardware needs; None where `MOST_REPLICAS` do not suffice, with the best that was reached."""

    server: Server
    replicas: int | None
    result: TrafficResult | None

    @property
    def usd_per_hour(self) -> Decimal | None:
        """The price of all replicas."""
        return None if self.replicas is None or self.server.usd_per_hour is None else self.replicas * self.server.usd_per_hour


def keeps(result: TrafficResult, target: Target) -> bool:
    """Whether the 99th percentiles are within the target, and no queue is left that grows on."""
    late = (target.ttft_s > 0 and result.ttft.p99 > target.ttft_s) or (
        target.tpot_s > 0 and result.tpot is not None and result.tpot.p99 > target.tpot_s
    )
    return not late and not result.refused and result.backlog <= WAITING_SHARE * result.requests


def find_replicas(server: Server, question: TrafficQuestion) -> Iterator[Need | None]:
    """The fewest replicas of this hardware that keep `question.target`; None at each try on the way to the answer, which comes last.

    Raises:
        BadArgument: no target is stated, or the requests are not those of a rate.
    """
    if not question.target.stated or question.arrivals not in {"poisson", "bursty"}:
        raise BadArgument("capacity", "true", "true with max_ttft_s or max_tpot_s above 0, and poisson or bursty arrivals")
    replicas = max(1, ceil(question.requests_per_s / most_requests_per_s(server.with_replicas(1), question.shape)))
    too_few, result = replicas - 1, None
    most_tried = server.plan.scale_to_zero_after_s > 0  # more replicas would sleep more often, and wake later
    while replicas <= MOST_REPLICAS:
        yield None
        result = _try(server, replicas, question)
        if result is not None and keeps(result, question.target):
            break
        if not most_tried:
            yield None
            most_tried, best = True, _try(server, MOST_REPLICAS, question)
            if best is None or not keeps(best, question.target):
                yield Need(server=server, replicas=None, result=best)
                return
        too_few, replicas = replicas, replicas + (1 if replicas < _BY_ONE else ceil(replicas / 4))
    else:
        yield Need(server=server, replicas=None, result=result)
        return
    while replicas - too_few > 1:
        yield None
        between = (replicas + too_few) // 2
        fewer = _try(server, between, question)
        if fewer is not None and keeps(fewer, question.target):
            replicas, result = between, fewer
        else:
            too_few = between
    yield Need(server=server, replicas=replicas, result=result)


def _try(server: Server, replicas: int, question: TrafficQuestion) -> TrafficResult | None:
    """The figures of `replicas` at this traffic, from a share of both; a limit of the Space's own queue is that of all replicas."""
    tried = replicas if server.plan.concurrency_limit else min(replicas, TRIED_REPLICAS)
    rate = question.requests_per_s * tried / replicas
    share = replace(question, requests_per_s=rate, duration_s=min(max(question.duration_s, LEAST_S), TRIED_REQUESTS / rate))
    try:
        simulation = run_all(start_simulation(server.with_replicas(tried), share))
    except TooManyEvents:  # so few replicas that requests take each other's cache without end
        return None
    return summarise_run(simulation, server, share)


def rank_needs(needs: Sequence[Need]) -> list[Need]:
    """The cheapest first; those that do not suffice last."""
    return sorted(needs, key=lambda need: (need.replicas is None, need.usd_per_hour or Decimal(0)))


def describe_needs(needs: Sequence[Need]) -> tuple[Caveat, ...]:
    """That for some hardware no steady part of the tried run is left to count, so that its price is one of the whole run."""
    unsteady = sum(need.replicas is not None and need.result is not None and not need.result.steady for need in needs)
    return (Caveat("needs_not_steady", {"unsteady": unsteady, "total": len(needs)}),) if unsteady else ()


LOADS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Rates, as shares of what continuous batching serves at most by the laws."""
POINT_REQUESTS = 400
"""Requests of each point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One policy at one rate."""

    policy: Policy
    requests_per_s: float
    result: TrafficResult


def sweep_loads(servers: Mapping[Policy, Server], question: TrafficQuestion) -> Iterator[SweepPoint]:
    """Every policy at every load, load by load; requests arrive at random, the same ones for every policy."""
    most = most_requests_per_s(servers["continuous"], question.shape)
    for load in LOADS:
        rate = load * most
        at_rate = replace(question, arrivals="poisson", requests_per_s=rate, duration_s=POINT_REQUESTS / rate)
        for policy, server in servers.items():
            result = summarise_run(run_all(start_simulation(server, at_rate)), server, at_rate)
            if result is not None:
                yield SweepPoint(policy=policy, requests_per_s=rate, result=result)


def describe_points(points: Sequence[SweepPoint]) -> tuple[Caveat, ...]:
    """That at some points no steady part of the run is left to count (`TrafficResult.steady`)."""
    unsteady = [point for point in points if not point.result.steady]
    if not unsteady:
        return ()
    lowest = min(point.requests_per_s for point in unsteady)
    return (Caveat("loads_not_steady", {"points": len(unsteady), "total": len(points), "lowest_requests_per_s": lowest}),)
