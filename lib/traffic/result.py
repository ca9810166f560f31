"""What came out of a simulation: throughput, utilisation, queue, percentiles, goodput, and the price of what was answered.

    throughput = output tokens / span        span: from 0 s to the last answer, at least the time in which requests arrived
    utilisation = seconds of steps / seconds that the replicas were awake
    mean queue = Σ waits / span              Little's law, doi:10.1287/opre.9.3.383
    goodput = requests within both targets / span         Zhong et al. 2024, arXiv:2401.09670
    USD per million tokens = USD per hour · billed hours of all replicas / output tokens · 10⁶

Percentiles are those of all requests that were answered, by linear interpolation between the two nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from lib.cost.usage import to_decimal
from lib.laws.price import answer_price
from lib.traffic.engine import Job, Simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Seconds that a request has to keep: to its first token, and between its tokens; 0 sets no target."""

    ttft_s: float = 0.0
    tpot_s: float = 0.0

    @property
    def stated(self) -> bool:
        """Whether there is any."""
        return self.ttft_s > 0 or self.tpot_s > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Mean and percentiles of a time, in seconds."""

    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficResult:
    """Figures of one simulation.

    `tpot` is None where no request has two tokens, `usd_per_million_tokens` (output tokens) where nothing is rented, `goodput_per_s` and
    `on_target` (a share) where no target is stated. `cache_peak_bytes` of `cache_bytes` on the fullest device of a replica. `backlog`:
    requests that nobody had begun when the last one arrived. `refused`: longer than the cache of a replica.
    """

    requests: int
    completed: int
    refused: int
    span_s: float
    output_tokens: int
    requests_per_s: float
    throughput_tokens_per_s: float
    utilisation: float
    queue_mean: float
    queue_longest: int
    backlog: int
    wait: Spread
    ttft: Spread
    tpot: Spread | None
    latency: Spread
    goodput_per_s: float | None
    on_target: float | None
    billed_s: float
    cold_starts: int
    preemptions: int
    cache_peak_bytes: int
    cache_bytes: int
    usd_per_million_tokens: Decimal | None
    events: int


def _spread(values: NDArray[np.float64]) -> Spread:
    p50, p95, p99 = np.percentile(values, (50, 95, 99)).tolist()
    return Spread(mean=float(values.mean()), p50=p50, p95=p95, p99=p99)


def _column(jobs: Sequence[Job], name: str) -> NDArray[np.float64]:
    return np.array([getattr(job, name) for job in jobs], dtype=np.float64)


def summarise(of: Simulation, *, duration_s: float, usd_per_hour: Decimal | None = None, target: Target = Target()) -> TrafficResult | None:
    """The figures of a simulation that has ended; None where no request was answered."""
    jobs = of.jobs
    if not jobs:
        return None
    arrived = np.array([job.arrival.at_s for job in jobs])
    output = np.array([job.arrival.output_tokens for job in jobs], dtype=np.float64)
    first, done = _column(jobs, "first_s"), _column(jobs, "done_s")
    outside = _column(jobs, "outside_s")
    span = max(duration_s, float((done + outside).max()))
    ttft, latency, wait = first - arrived + outside, done - arrived + outside, _column(jobs, "started_s") - arrived
    several = output > 1
    tpot = (done - first)[several] / (output[several] - 1)
    kept = np.ones(len(jobs), dtype=np.bool_)
    if target.ttft_s > 0:
        kept &= ttft <= target.ttft_s
    if target.tpot_s > 0:
        kept[several] &= tpot <= target.tpot_s
    billed = sum(one.bill(span) for one in of.replicas)
    tokens = int(output.sum())
    price = None if usd_per_hour is None else answer_price(usd_per_hour=usd_per_hour, tokens_per_s=to_decimal(tokens / billed))
    return TrafficResult(
        requests=len(jobs) + len(of.refused),
        completed=len(jobs),
        refused=len(of.refused),
        span_s=span,
        output_tokens=tokens,
        requests_per_s=len(jobs) / span,
        throughput_tokens_per_s=tokens / span,
        utilisation=sum(one.busy_s for one in of.replicas) / billed if billed else 0.0,
        queue_mean=float(wait.sum()) / span,
        queue_longest=of.longest_queue,
        backlog=of.backlog,
        wait=_spread(wait),
        ttft=_spread(ttft),
        tpot=_spread(tpot) if len(tpot) else None,
        latency=_spread(latency),
        goodput_per_s=float(kept.sum()) / span if target.stated else None,
        on_target=float(kept.mean()) if target.stated else None,
        billed_s=billed,
        cold_starts=sum(one.cold_starts for one in of.replicas),
        preemptions=sum(job.preemptions for job in jobs),
        cache_peak_bytes=max(one.peak_bytes for one in of.replicas) + of.room.shared_bytes,
        cache_bytes=of.room.capacity + of.room.shared_bytes,
        usd_per_million_tokens=price,
        events=of.events,
    )
