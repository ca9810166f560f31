"""Requests through replicas of an engine, step by step: a discrete-event simulation (SimPy).

    static       a batch starts when it is full (or nobody else can come); it is read and answered together, padded to its longest request,
                 and answers are complete when the whole batch is
    dynamic      the same, but a batch also starts when its oldest request has waited for the time-out
    continuous   requests join and leave at every step (`lib.traffic.replica`)

Requests go first come first served to the replica with the fewest, and wait together while none has room.
Sources: Yu et al. 2022 "Orca" (batches by request and by iteration); SimPy (simpy.readthedocs.io).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import simpy

from lib.errors import InvalidInput
from lib.traffic.arrivals import Arrival
from lib.traffic.replica import CacheRoom, ContinuousReplica, Job, PaddedReplica, PagedCache, Process, Replica, ServerPlan, Steps

if TYPE_CHECKING:
    from collections.abc import Callable

_EPSILON_S = 1e-9
_SEQUENCES = 64  # sequences whose bookkeeping takes as long as the rest of a step's
_REFUSAL_S = 1.0  # until a client whose request was refused sends another


class TooManyEvents(InvalidInput):
    """A question that would take too much work."""

    code = "too_many_events"


class Simulation:
    """Requests through a server. `advance` goes on for some events; when it says that it has ended, `jobs` holds every request served."""

    def __init__(
        self,
        plan: ServerPlan,
        steps: Steps,
        room: CacheRoom,
        *,
        arrivals: Sequence[Arrival] = (),
        clients: int = 0,
        lengths: Iterator[tuple[int, int]] | None = None,
        until_s: float = math.inf,
        most_events: int = 10**9,
    ) -> None:
        """Open loop: `arrivals` in the order of their times. Closed loop: `clients` draw `lengths` and send none after `until_s`."""
        self.env, self.plan, self.steps = simpy.Environment(), plan, steps
        self.room = PagedCache(room, plan.shared_prefix_tokens)
        self.queue: deque[Job] = deque()
        self.in_service, self.longest_queue, self.backlog = 0, 0, 0
        self.jobs: list[Job] = []
        self.refused: list[Arrival] = []
        self.events, self.most_events, self._work_done = 0, most_events, 0.0
        self._closed, self._sending = clients > 0, max(1, clients)
        self._over = self.env.event()
        copy = ContinuousReplica if plan.policy == "continuous" else PaddedReplica
        self.replicas: list[Replica] = [copy(self) for _ in range(plan.replicas)]
        if clients:
            for _ in range(clients):
                self.env.process(self._client(lengths or iter(()), until_s))
        else:
            self.env.process(self._arrive(arrivals))

    def advance(self, events: int = 10**9) -> bool:
        """Go on for at most so many events of the simulation; whether all requests are answered.

        Raises:
            TooManyEvents: the limit of events is passed.
        """
        while events and not self._over.processed:
            self.env.step()
            events -= 1
        return self._over.processed

    def count_event(self, sequences: int) -> None:
        """One more step or run of steps; with many sequences it is the work of several.

        Raises:
            TooManyEvents: there were too many.
        """
        self.events += 1
        self._work_done += event_work(sequences)
        if self._work_done > self.most_events:
            raise TooManyEvents(
                f"The simulation was stopped after {self.most_events:,} steps of the engine, at {self.env.now:,.0f} s of simulated time "
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
            self.backlog = len(self.queue) + sum(len(one.waiting) for one in self.replicas)
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
        self.queue.append(Job(arrival, answered))
        self.longest_queue = max(self.longest_queue, len(self.queue))
        self._dispatch()
        if self.plan.policy == "dynamic" and self.queue:
            self.env.timeout(self.plan.timeout_s).callbacks.append(lambda _: self._dispatch())
        return True

    def _dispatch(self) -> None:
        """Send waiting requests to replicas that have room."""
        if self.plan.policy != "continuous":
            if self._batch_is_ready():
                idle = [one for one in self.replicas if one.idle is not None]
                if idle:
                    min(idle, key=lambda one: one.asleep).notify()
            return
        limit = self.plan.concurrency_limit or math.inf
        while self.queue and self.in_service < limit:
            able = [one for one in self.replicas if one.has_room(self.queue[0])]
            if not able:
                return
            replica = min(able, key=lambda one: (one.asleep, one.load))
            job = self.queue.popleft()
            job.assigned_s = self.env.now
            replica.waiting.append(job)
            self.in_service += 1
            replica.notify()

    def _batch_is_ready(self) -> bool:
        if not self.queue:
            return False
        nobody_else = not self._sending or (self._closed and not self.in_service)
        waited = self.plan.policy == "dynamic" and self.env.now - self.queue[0].arrival.at_s >= self.plan.timeout_s - _EPSILON_S
        return len(self.queue) >= self.plan.batch_limit or nobody_else or waited

    def take_batch(self) -> list[Job]:
        """The next batch, first come first served, as many as fit when all are padded to the longest; nothing if it has to wait."""
        if not self._batch_is_ready():
            return []
        batch: list[Job] = []
        prompt = output = 0
        limit = self.plan.batch_limit if not self.plan.concurrency_limit else self.plan.concurrency_limit - self.in_service
        while self.queue and len(batch) < min(limit, self.plan.batch_limit):
            one = self.queue[0].arrival
            longest = max(prompt, one.prompt_tokens) + max(output, one.output_tokens) - 1
            if batch and (len(batch) + 1) * self.room.bytes_of(longest) > self.room.capacity:
                break
            prompt, output = max(prompt, one.prompt_tokens), max(output, one.output_tokens)
            batch.append(self.queue.popleft())
        self.in_service += len(batch)
        return batch

    def finish(self, jobs: Sequence[Job], now_s: float) -> None:
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
