"""The three policies side by side along the load: figures of each at several rates of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lib.provenance import Caveat
from lib.traffic.plan import Policy
from lib.traffic.result import TrafficResult
from lib.traffic.server import Server, TrafficQuestion, most_requests_per_s, start_simulation, summarise_run
from lib.traffic.simulation import run_all

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
        asked = replace(question, arrivals="poisson", requests_per_s=rate, duration_s=POINT_REQUESTS / rate)
        for policy, server in servers.items():
            result = summarise_run(run_all(start_simulation(server, asked)), server, asked)
            if result is not None:
                yield SweepPoint(policy=policy, requests_per_s=rate, result=result)


def describe_points(points: Sequence[SweepPoint]) -> tuple[Caveat, ...]:
    """That at some points no steady part of the run is left to count (`TrafficResult.steady`)."""
    unsteady = [point for point in points if not point.result.steady]
    if not unsteady:
        return ()
    lowest = min(point.requests_per_s for point in unsteady)
    return (Caveat("loads_not_steady", {"points": len(unsteady), "total": len(points), "lowest_requests_per_s": lowest}),)
