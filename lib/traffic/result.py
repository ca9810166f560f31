"""What came out of a simulation: throughput, utilisation, queue, percentiles, goodput, and the price of what was answered.

    throughput = tokens that leave the replicas in the steady window / its length
    mean queue = seconds that requests wait within the window / its length          Little's law, doi:10.1287/opre.9.3.383
    goodput = requests answered in the window within both targets / its length      Zhong et al. 2024, arXiv:2401.09670
    USD per million tokens = USD per hour · hours billed in the window / its tokens · 10⁶
    utilisation = seconds of steps / seconds that the replicas were awake

The steady window begins when 95 % of requests would have been served since the first could arrive (the 95th percentile of the time from
a request's first step to its answer) and ends with the arrivals: before it the replicas fill, after it they run empty, and a server that
goes on does neither. Where requests take longer than half of the arrivals there is no such window, and the whole run is counted, which
makes rates too low and tokens too dear. Tokens of an answer are taken to leave evenly between its first and its last.
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
from lib.traffic.replica import Job
from lib.traffic.simulation import Simulation


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
    requests that nobody had begun when the last one arrived. `refused`: longer than the cache of a replica. Rates, queue and price are
    those from `counted_from_s` to `counted_until_s`; `billed_s` and `output_tokens` those of the whole run, to `span_s`.
    """

    requests: int
    completed: int
    refused: int
    span_s: float
    counted_from_s: float
    counted_until_s: float
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

    @property
    def steady(self) -> bool:
        """Whether there was a steady window, so that rates and price are those of a server that goes on."""
        return self.counted_from_s > 0


_INSTANT_S = 1e-12


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
    started, first, done, outside = (_column(jobs, name) for name in ("started_s", "first_s", "done_s", "outside_s"))
    span = max(duration_s, float((done + outside).max()))
    ttft, latency, wait = first - arrived + outside, done - arrived + outside, started - arrived
    several = output > 1
    tpot = (done - first)[several] / (output[several] - 1)
    in_time = np.ones(len(jobs), dtype=np.bool_)
    if target.ttft_s > 0:
        in_time &= ttft <= target.ttft_s
    if target.tpot_s > 0:
        in_time[several] &= tpot <= target.tpot_s
    begin, end = _steady_window(done - started, duration_s) or (0.0, span)
    seconds = end - begin
    tokens = float((_tokens_until(end, first, done, output) - _tokens_until(begin, first, done, output)).sum())
    answered = (done > begin) & (done <= end)
    waited = float(np.maximum(0.0, np.minimum(started, end) - np.maximum(arrived, begin)).sum())
    billed, billed_here = sum(one.bill(span) for one in of.replicas), sum(one.bill(end, begin) for one in of.replicas)
    answer_usd = None
    if usd_per_hour is not None and tokens > 0 and billed_here > 0:
        answer_usd = answer_price(usd_per_hour=usd_per_hour, tokens_per_s=to_decimal(tokens / billed_here))
    return TrafficResult(
        requests=len(jobs) + len(of.refused),
        completed=len(jobs),
        refused=len(of.refused),
        span_s=span,
        counted_from_s=begin,
        counted_until_s=end,
        output_tokens=int(output.sum()),
        requests_per_s=float(answered.sum()) / seconds,
        throughput_tokens_per_s=tokens / seconds,
        utilisation=sum(one.busy_s for one in of.replicas) / billed if billed else 0.0,
        queue_mean=waited / seconds,
        queue_longest=of.longest_queue,
        backlog=of.backlog,
        wait=_spread(wait),
        ttft=_spread(ttft),
        tpot=_spread(tpot) if len(tpot) else None,
        latency=_spread(latency),
        goodput_per_s=float((in_time & answered).sum()) / seconds if target.stated else None,
        on_target=float(in_time.mean()) if target.stated else None,
        billed_s=billed,
        cold_starts=sum(one.cold_starts for one in of.replicas),
        preemptions=sum(job.preemptions for job in jobs),
        cache_peak_bytes=max(one.peak_bytes for one in of.replicas) + of.room.shared_bytes,
        cache_bytes=of.room.capacity + of.room.shared_bytes,
        usd_per_million_tokens=answer_usd,
        events=of.events,
    )


def _steady_window(service_s: NDArray[np.float64], duration_s: float) -> tuple[float, float] | None:
    """From when the replicas are as full as they stay to the last arrival; None where that is less than half of the time."""
    full_s = float(np.percentile(service_s, 95))
    return (full_s, duration_s) if 0 < 2 * full_s <= duration_s else None


def _tokens_until(
    moment_s: float, first: NDArray[np.float64], done: NDArray[np.float64], output: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Tokens of each answer that have left by a moment: the first at its time, the others evenly until the last."""
    share = np.clip((moment_s - first) / np.maximum(done - first, _INSTANT_S), 0.0, 1.0)
    return np.where(moment_s < first, 0.0, 1.0 + (output - 1.0) * share)
