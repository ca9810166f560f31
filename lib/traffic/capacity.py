"""How much hardware a traffic needs: replicas that keep a target at the 99th percentile, for one tier or for several.

The fewest replicas are searched from what the laws say they serve at most: more replicas one by one while they are few, then by a
quarter. Each try simulates `TRIED_REQUESTS` requests with the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil

from lib.errors import BadArgument
from lib.traffic.engine import TooManyEvents, run_all
from lib.traffic.result import Target, TrafficResult, summarise
from lib.traffic.server import Server, TrafficQuestion, most_requests_per_s, start_simulation

TRIED_REQUESTS = 600
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
    """Whether the 99th percentiles are within the target, and no queue was left that would grow on."""
    late = (target.ttft_s > 0 and result.ttft.p99 > target.ttft_s) or (
        target.tpot_s > 0 and result.tpot is not None and result.tpot.p99 > target.tpot_s
    )
    return not late and not result.refused


def find_replicas(server: Server, question: TrafficQuestion) -> Iterator[Need | None]:
    """The fewest replicas of this hardware that keep `question.target`; None at each try on the way to the answer, which comes last.

    Raises:
        BadArgument: no target is stated, or the requests are not those of a rate.
    """
    if not question.target.stated or question.arrivals not in {"poisson", "bursty"}:
        raise BadArgument("capacity", "true", "true with max_ttft_s or max_tpot_s above 0, and poisson or bursty arrivals")
    tried = replace(question, duration_s=min(question.duration_s, TRIED_REQUESTS / question.requests_per_s))
    replicas = max(1, ceil(question.requests_per_s / most_requests_per_s(server.with_replicas(1), question.shape)))
    result = None
    while replicas <= MOST_REPLICAS:
        yield None
        result = _try(server.with_replicas(replicas), tried)
        if result is not None and keeps(result, question.target):
            yield Need(server=server, replicas=replicas, result=result)
            return
        replicas += 1 if replicas < _BY_ONE else ceil(replicas / 4)
    yield Need(server=server, replicas=None, result=result)


def _try(server: Server, question: TrafficQuestion) -> TrafficResult | None:
    try:
        simulation = run_all(start_simulation(server, question))
    except TooManyEvents:  # so few replicas that requests take each other's cache without end
        return None
    return summarise(simulation, duration_s=question.duration_s, usd_per_hour=server.usd_per_engine_hour, target=question.target)


def rank_needs(needs: Sequence[Need]) -> list[Need]:
    """The cheapest first; those that do not suffice last."""
    return sorted(needs, key=lambda need: (need.replicas is None, need.usd_per_hour or Decimal(0)))
