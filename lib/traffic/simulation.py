"""Requests through replicas of an engine, step by step: a discrete-event simulation (SimPy), and the figures of one that has ended.

    static       a batch starts when it is full (or none can come); it is read and answered together, padded to its longest request,
                 and answers are complete when the whole batch is
    dynamic      the same, but a batch also starts when its oldest request has waited for the timeout
    continuous   requests join and leave at every step (`lib.traffic.replica`)

Requests go first come first served to the replica with the fewest, and wait together while none has room.
Sources: Yu et al. 2022 "Orca" (batches by request and by iteration); SimPy (simpy.readthedocs.io).

The result (`summarise`): throughput, utilisation, queue, percentiles, goodput, and the price of the answers.

    throughput = tokens that leave the replicas in the steady window / its length
    mean queue = seconds that requests wait within the window / its length          Little's law, doi:10.1287/opre.9.3.383
    goodput = requests answered in the window within both targets / its length      Zhong et al. 2024, arXiv:2401.09670
    USD per million tokens = USD per hour · hours billed in the window / its tokens · 10⁶
    utilisation = seconds of steps / seconds that the replicas were awake

The steady window begins one service time after the first possible arrival (the 95th percentile of the time from a request's first step to
its answer) and ends with the last arrival. Before it the replicas fill up, after it they run empty; a server in operation does neither. If
requests take longer than half of the time of arrivals, there is no such window. Then the whole run is counted, which makes rates too low
and tokens too expensive. The tokens of an answer are assumed to leave evenly between its first and its last. Percentiles are those of all
requests that were answered, by linear interpolation between the two nearest.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import numpy as np
import simpy
from numpy.typing import NDArray

from lib.cost.usage import to_decimal
from lib.errors import InvalidInput
from lib.laws.price import answer_price
from lib.result import HIDDEN, Result, Usd
from lib.traffic.arrivals import Arrival
from lib.traffic.replica import CacheMemory, ContinuousReplica, PaddedReplica, PagedCache, Process, Replica, ServedRequest, ServerPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from lib.speed.steps import StepTable


_EPSILON_S = 1e-9
_SEQUENCES = 64  # sequences whose bookkeeping takes as long as the rest of a step's
_REFUSAL_S = 1.0  # until a client whose request was refused sends another


class TooManyEvents(InvalidInput):
    """A question that would take too much work."""

    code = "too_many_events"


class Simulation:
    """Requests through a server. Call `advance` until it returns True; then `jobs` holds every served request."""

    def __init__(
        self,
        plan: ServerPlan,
        steps: StepTable,
        room: CacheMemory,
        *,
        arrivals: Sequence[Arrival] = (),
        clients: int = 0,
        lengths: Iterator[tuple[int, int]] | None = None,
        until_s: float = math.inf,
        most_events: float = 10**9,
    ) -> None:
        """Open loop: `arrivals` in the order of their times. Closed loop: `clients` draw `lengths` and send none after `until_s`."""
        self.env, self.plan, self.steps = simpy.Environment(), plan, steps
        self.room = PagedCache(room, plan.shared_prefix_tokens)
        self.queue: deque[ServedRequest] = deque()
        self.in_service, self.longest_queue, self.backlog = 0, 0, 0
        self.jobs: list[ServedRequest] = []
        self.refused: list[Arrival] = []
        self.events, self.most_events, self.work_done = 0, float(most_events), 0.0
        self._closed, self._sending = clients > 0, max(1, clients)  # a closed loop; clients (or streams of arrivals) that still send
        self._over = self.env.event()
        copy = ContinuousReplica if plan.policy == "continuous" else PaddedReplica
        self.replicas: list[Replica] = [copy(self) for _ in range(plan.replicas)]
        if clients:
            for _ in range(clients):
                self.env.process(self._client(lengths or iter(()), until_s))
        else:
            self.env.process(self._arrive(arrivals))

    def advance(self, events: int = 10**9) -> bool:
        """Simulate at most `events` events; True if all requests are answered.

        Raises:
            TooManyEvents: the limit of events is passed.
        """
        while events and not self._over.processed:
            self.env.step()
            events -= 1
        return self._over.processed

    def count_event(self, sequences: int) -> None:
        """Count a step or a run of steps of the engine; many sequences make it count as several.

        Raises:
            TooManyEvents: the limit of events is passed.
        """
        self.events += 1
        self.work_done += event_work(sequences)
        if self.work_done > self.most_events:
            raise TooManyEvents(
                f"The simulation was stopped after {self.most_events:,.0f} steps of the engine, at {self.env.now:,.0f} s of simulated time "
                f"with {len(self.jobs):,} requests answered. Ask for a shorter time, fewer requests or "
                "more room for the cache: requests that take each other's cache are read again and again."
            )

    def _arrive(self, arrivals: Sequence[Arrival]) -> Process:
        for arrival in arrivals:
            if arrival.at_s > self.env.now:
                yield self.env.timeout(arrival.at_s - self.env.now)
            self._enter(arrival)
        self._end_sending()

    def _client(self, lengths: Iterator[tuple[int, int]], until_s: float) -> Process:
        while self.env.now < until_s and (drawn := next(lengths, None)) is not None:
            answered = self.env.event()
            if self._enter(Arrival(self.env.now, *drawn), answered):
                outside_s = yield answered
                yield self.env.timeout(outside_s)
            else:
                yield self.env.timeout(_REFUSAL_S)
        self._end_sending()

    def _end_sending(self) -> None:
        self._sending -= 1
        if not self._sending:
            self.backlog = len(self.queue) + sum(len(replica.waiting) for replica in self.replicas)
        self._dispatch()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._sending and not self.queue and not self.in_service and not self._over.triggered:
            self._over.succeed()

    def _enter(self, arrival: Arrival, answered: simpy.Event | None = None) -> bool:
        """A request arrives; one that alone would not fit is refused, as engines do."""
        if self.room.bytes_of(arrival.prompt_tokens + arrival.output_tokens) > self.room.capacity:
            self.refused.append(arrival)
            return False
        self.queue.append(ServedRequest(arrival, answered))
        self.longest_queue = max(self.longest_queue, len(self.queue))
        self._dispatch()
        if self.plan.policy == "dynamic" and self.queue:
            self.env.timeout(self.plan.timeout_s).callbacks.append(lambda _: self._dispatch())
        return True

    def _dispatch(self) -> None:
        """Send waiting requests to replicas that have room."""
        if self.plan.policy != "continuous":
            if self._batch_is_ready():
                idle = [replica for replica in self.replicas if replica.idle is not None]
                if idle:
                    min(idle, key=lambda one: one.asleep).notify()
            return
        limit = self.plan.concurrency_limit or math.inf
        while self.queue and self.in_service < limit:
            able = [replica for replica in self.replicas if replica.has_room(self.queue[0])]
            if not able:
                return
            replica = min(able, key=lambda one: (one.asleep, one.load))
            job = self.queue.popleft()
            job.assigned_s = self.env.now
            replica.waiting.append(job)
            self.in_service += 1
            replica.notify()

    def _batch_is_ready(self) -> bool:
        """Whether a static or dynamic batch starts now: it is full, no request can join it, or its oldest one has waited long enough."""
        if not self.queue:
            return False
        no_more_come = not self._sending or (self._closed and not self.in_service)
        waited = self.plan.policy == "dynamic" and self.env.now - self.queue[0].arrival.at_s >= self.plan.timeout_s - _EPSILON_S
        return len(self.queue) >= self.plan.batch_limit or no_more_come or waited

    def take_batch(self) -> list[ServedRequest]:
        """The next batch, first come first served, as many as fit when all are padded to the longest; nothing if it has to wait."""
        if not self._batch_is_ready():
            return []
        batch: list[ServedRequest] = []
        prompt = output = 0
        limit = self.plan.batch_limit if not self.plan.concurrency_limit else self.plan.concurrency_limit - self.in_service
        while self.queue and len(batch) < min(limit, self.plan.batch_limit):
            arrival = self.queue[0].arrival
            longest = max(prompt, arrival.prompt_tokens) + max(output, arrival.output_tokens) - 1
            if batch and (len(batch) + 1) * self.room.bytes_of(longest) > self.room.capacity:
                break
            prompt, output = max(prompt, arrival.prompt_tokens), max(output, arrival.output_tokens)
            batch.append(self.queue.popleft())
        self.in_service += len(batch)
        return batch

    def finish(self, jobs: Sequence[ServedRequest], now_s: float) -> None:
        """These requests are answered."""
        for job in jobs:
            job.done_s = now_s
            self.jobs.append(job)
            if job.answered is not None:
                job.answered.succeed(job.outside_s)
        self.in_service -= len(jobs)
        self._dispatch()
        self._end_if_done()


def event_work(sequences: float) -> float:
    """The work of a step in units of that of a few sequences: each of them is looked at."""
    return 1 + sequences / _SEQUENCES


def run_all(simulation: Simulation, report: Callable[[Simulation], None] | None = None, every: int = 20_000) -> Simulation:
    """The simulation, run to its end; `report` is called with it from time to time."""
    while not simulation.advance(every):
        if report is not None:
            report(simulation)
    return simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Seconds that a request has to keep: to its first token, and between its tokens; 0 sets no target."""

    ttft_s: float = 0.0
    tpot_s: float = 0.0

    @property
    def is_stated(self) -> bool:
        """Whether there is any."""
        return self.ttft_s > 0 or self.tpot_s > 0


@dataclass(frozen=True, kw_only=True)
class TrafficResult(Result):
    """The figures of one simulation.

    Rates, mean queue, goodput and price are those of the steady part of the run: from when the replicas are as full as they stay to the
    last arrival. Without such a part they run from 0 to the last answer, and a caveat says so.
    """

    requests: int
    """Requests that arrived."""
    completed: int
    """Requests that were answered."""
    refused: int
    """Requests that are longer than the cache of a replica."""
    span_s: float
    """Seconds to the last answer."""
    counted_from_s: float
    """Start of the steady part, in seconds."""
    counted_until_s: float
    """End of the steady part, in seconds."""
    output_tokens: Annotated[int, HIDDEN]
    """Output tokens of the whole run."""
    requests_per_s: float
    """Requests answered per second."""
    throughput_tokens_per_s: float
    """Output tokens per second of all requests."""
    utilisation: float
    """Share of the billed time in which replicas compute."""
    queue_mean: float
    """Mean number of requests before their first step."""
    queue_longest: int
    """Largest number of requests before their first step."""
    backlog: int
    """Requests that had not begun when the last one arrived."""
    wait_mean_s: Annotated[float, HIDDEN]
    """Mean time before the first step, in seconds."""
    wait_p50_s: float
    """Median time before the first step, in seconds."""
    wait_p99_s: float
    """99th percentile of the time before the first step, in seconds."""
    ttft_mean_s: float
    """Mean of the time to first token, in seconds."""
    ttft_p50_s: float
    """Median of the time to first token, in seconds."""
    ttft_p95_s: float
    """95th percentile of the time to first token, in seconds."""
    ttft_p99_s: float
    """99th percentile of the time to first token, in seconds."""
    tpot_mean_s: float | None
    """Mean of the time per output token, in seconds; null if no answer has two tokens."""
    tpot_p50_s: float | None
    """Median of the time per output token, in seconds; null if no answer has two tokens."""
    tpot_p95_s: float | None
    """95th percentile of the time per output token, in seconds; null if no answer has two tokens."""
    tpot_p99_s: float | None
    """99th percentile of the time per output token, in seconds; null if no answer has two tokens."""
    latency_mean_s: float
    """Mean of the whole time of a request, in seconds."""
    latency_p50_s: float
    """Median of the whole time of a request, in seconds."""
    latency_p95_s: float
    """95th percentile of the whole time of a request, in seconds."""
    latency_p99_s: float
    """99th percentile of the whole time of a request, in seconds."""
    goodput_per_s: float | None
    """Requests per second that keep the targets; null without a target."""
    on_target: float | None
    """Share of the requests that keep the targets; null without a target."""
    billed_s: float
    """Billed seconds of all replicas up to the last answer."""
    cold_starts: int
    """Starts of a replica that requests waited for."""
    preemptions: int
    """Sequences that gave up their KV cache and were recomputed."""
    cache_peak_bytes: int
    """Largest use of the KV cache on the fullest device of a replica."""
    cache_bytes: int
    """Bytes for the KV cache on that device."""
    usd_per_million_tokens: Usd | None
    """Price of a million output tokens; null if the hardware has no price."""
    events: int
    """Simulated steps and runs of steps."""

    @property
    def steady(self) -> bool:
        """Whether there was a steady window, so that rates and price are those of a server in operation."""
        return self.counted_from_s > 0


_INSTANT_S = 1e-12


def _spread(name: str, values: NDArray[np.float64]) -> dict[str, float | None]:
    """Mean and percentiles of a time by the names of their fields; None without values."""
    spread = [float(values.mean()), *np.percentile(values, (50, 95, 99)).tolist()] if len(values) else [None] * 4
    return {f"{name}_{point}_s": value for point, value in zip(("mean", "p50", "p95", "p99"), spread, strict=True)}


def summarise(
    simulation: Simulation, *, duration_s: float, usd_per_hour: Decimal | None = None, target: Target = Target()
) -> TrafficResult | None:
    """The figures of a simulation that has ended; None if no request was answered."""
    jobs = simulation.jobs
    if not jobs:
        return None
    # Times of each request.
    arrived = np.array([job.arrival.at_s for job in jobs])
    output = np.array([job.arrival.output_tokens for job in jobs], dtype=np.float64)
    times = np.array([(job.started_s, job.first_s, job.done_s, job.outside_s) for job in jobs], dtype=np.float64)
    started, first, done, outside = times.T
    span = max(duration_s, float((done + outside).max()))
    ttft, latency, wait = first - arrived + outside, done - arrived + outside, started - arrived
    several = output > 1
    tpot = (done - first)[several] / (output[several] - 1)
    # Requests that keep both targets.
    in_time = np.ones(len(jobs), dtype=np.bool_)
    if target.ttft_s > 0:
        in_time &= ttft <= target.ttft_s
    if target.tpot_s > 0:
        in_time[several] &= tpot <= target.tpot_s
    # Counted from when the replicas are as full as they stay to the last arrival, unless that is less than half of the time.
    full_s = float(np.percentile(done - started, 95))
    begin, end = (full_s, duration_s) if 0 < 2 * full_s <= duration_s else (0.0, span)
    seconds = end - begin
    # Tokens, requests, waiting time and billed time within the window.
    tokens = float((_tokens_until(end, first, done, output) - _tokens_until(begin, first, done, output)).sum())
    answered = (done > begin) & (done <= end)
    waited = float(np.maximum(0.0, np.minimum(started, end) - np.maximum(arrived, begin)).sum())
    billed, billed_here = sum(one.bill(span) for one in simulation.replicas), sum(one.bill(end, begin) for one in simulation.replicas)
    answer_usd = None
    if usd_per_hour is not None and tokens > 0 and billed_here > 0:
        answer_usd = answer_price(usd_per_hour=usd_per_hour, tokens_per_s=to_decimal(tokens / billed_here))
    return TrafficResult(
        requests=len(jobs) + len(simulation.refused),
        completed=len(jobs),
        refused=len(simulation.refused),
        span_s=span,
        counted_from_s=begin,
        counted_until_s=end,
        output_tokens=int(output.sum()),
        requests_per_s=float(answered.sum()) / seconds,
        throughput_tokens_per_s=tokens / seconds,
        utilisation=sum(replica.busy_s for replica in simulation.replicas) / billed if billed else 0.0,
        queue_mean=waited / seconds,
        queue_longest=simulation.longest_queue,
        backlog=simulation.backlog,
        wait_mean_s=float(wait.mean()),
        wait_p50_s=float(np.percentile(wait, 50)),
        wait_p99_s=float(np.percentile(wait, 99)),
        **_spread("ttft", ttft),  # type: ignore[arg-type]  # floats: at least one request was answered
        **_spread("tpot", tpot),  # type: ignore[arg-type]  # None without an answer of two tokens
        **_spread("latency", latency),  # type: ignore[arg-type]  # as of the first token
        goodput_per_s=float((in_time & answered).sum()) / seconds if target.is_stated else None,
        on_target=float(in_time.mean()) if target.is_stated else None,
        billed_s=billed,
        cold_starts=sum(replica.cold_starts for replica in simulation.replicas),
        preemptions=sum(job.preemptions for job in jobs),
        cache_peak_bytes=max(replica.peak_bytes for replica in simulation.replicas) + simulation.room.shared_bytes,
        cache_bytes=simulation.room.capacity + simulation.room.shared_bytes,
        usd_per_million_tokens=answer_usd,
        events=simulation.events,
    )


def _tokens_until(
    moment_s: float, first: NDArray[np.float64], done: NDArray[np.float64], output: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Tokens of each answer that have left by a moment: the first at its time, the others evenly until the last."""
    share = np.clip((moment_s - first) / np.maximum(done - first, _INSTANT_S), 0.0, 1.0)
    return np.where(moment_s < first, 0.0, 1.0 + (output - 1.0) * share)
