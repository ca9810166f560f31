"""One copy of an engine in a simulation: its requests, its paged cache, its sleep; batches that are padded and answered together.

A sequence holds what its tokens take, rounded up to whole blocks. A replica without requests sleeps after a while if it may, is not billed
then, and takes its cold start to wake. A padded batch (static, dynamic) is read and answered together, as long as its longest request;
continuous batching goes step by step.
Source: Kwon et al. 2023, arXiv:2309.06180 (paged cache).

Continuous batching is chunked prefill with decoding, a cache that grows by blocks, and preemption. Every step takes one token of each
running sequence and fills the rest of its token budget with prompts. A request joins as soon as a slot and its share of the cache are free,
and leaves when it is answered. If the next token of a running sequence has no room, the sequence that joined last is preempted: it frees
its cache, waits at the front of the queue, and is recomputed with its answer so far.

Steps between two changes of a batch form one event: nothing happens to anyone within them. The time of each is that of their middle,
which is exact where the law is linear in the cached tokens.
Sources: Yu et al. 2022 "Orca" (batches by iteration); Agrawal et al. 2024, arXiv:2403.02310 (chunked prefill in steps with decoding); vLLM
v1/core/sched/scheduler.py (order: running, then waiting).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import simpy

from lib.traffic.arrivals import Arrival

if TYPE_CHECKING:
    from lib.speed.steps import StepTable

Policy = Literal["static", "dynamic", "continuous"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
BLOCK_TOKENS = 16
"""Tokens of a block of the cache, vLLM's default (cache.block_size)."""


class CacheMemory(Protocol):
    """Memory for the cache of one replica, on its fullest device (`lib.memory.CacheHeadroom`)."""

    @property
    def capacity_bytes(self) -> int:
        """Bytes left after weights, activations and runtime."""

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of a sequence of so many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """How requests are served.

    `max_batch_size` sequences at most at a time in a replica, `timeout_s` of dynamic batching, `token_budget` of a continuous step.
    `scale_to_zero_after_s`: seconds without requests after which a replica sleeps, 0 for never; then `cold_start_s` to wake. Replicas that
    may sleep do so at the start. `concurrency_limit`: requests that the app in front of the replicas lets through at a time (of a Gradio
    Space, `default_concurrency_limit`), 0 for no limit. `shared_prefix_tokens`: tokens with which all prompts begin, read and held once.
    """

    policy: Policy = "continuous"
    max_batch_size: int = 32
    timeout_s: float = 0.05
    replicas: int = 1
    token_budget: int = 2048
    cold_start_s: float = 0.0
    scale_to_zero_after_s: float = 0.0
    concurrency_limit: int = 0
    shared_prefix_tokens: int = 0

    @property
    def batch_limit(self) -> int:
        """Sequences that one replica can get at a time."""
        return min(self.max_batch_size, self.concurrency_limit) if self.concurrency_limit else self.max_batch_size


Process = Generator[simpy.Event, Any, None]


class ServedRequest:
    """A request on its way; times in seconds, None before they are known.

    `step_wait_s` is the wait for the step that was running when a replica got the request. `outside_s` are seconds of its answer outside of
    the engine's steps.
    """

    __slots__ = (
        "answered", "arrival", "assigned_s", "cache_bytes", "cached", "done_s", "first_s", "left", "outside_s", "preemptions", "read",
        "started_s", "step_wait_s", "to_read",
    )  # fmt: skip

    def __init__(self, arrival: Arrival, answered: simpy.Event | None = None) -> None:
        self.arrival = arrival
        self.to_read, self.read, self.cached, self.left = arrival.prompt_tokens, 0, 0, arrival.output_tokens
        self.cache_bytes, self.preemptions = 0, 0
        self.assigned_s, self.outside_s = 0.0, 0.0
        self.step_wait_s: float | None = None
        self.started_s: float | None = None
        self.first_s: float | None = None
        self.done_s: float | None = None
        self.answered = answered


class PagedCache:
    """Bytes of the cache of a replica: what sequences of some length take, remembered by blocks; nothing of a shared prefix."""

    def __init__(self, room: CacheMemory, shared_tokens: int) -> None:
        self._bytes, self._room = {}, room  # type: dict[int, int], CacheMemory
        self.shared_tokens = shared_tokens // BLOCK_TOKENS * BLOCK_TOKENS  # whole blocks are shared
        self.shared_bytes = room.sequence_bytes(self.shared_tokens) if self.shared_tokens else 0
        self.capacity = room.capacity_bytes - self.shared_bytes

    def bytes_of(self, tokens: int) -> int:
        """Bytes of a sequence of so many tokens, without the shared prefix."""
        blocks = -(-tokens // BLOCK_TOKENS)
        size = self._bytes.get(blocks)
        if size is None:
            size = max(0, self._room.sequence_bytes(blocks * BLOCK_TOKENS) - self.shared_bytes)
            self._bytes[blocks] = size
        return size


class RequestSource(Protocol):
    """The simulation as its replicas use it: where requests come from and go to."""

    env: simpy.Environment
    plan: ServerPlan
    steps: StepTable
    room: PagedCache

    def count_event(self, sequences: int) -> None:
        """One more step or run of steps."""

    def take_batch(self) -> list[ServedRequest]:
        """The next batch of a policy that pads; nothing if it has to wait."""

    def finish(self, jobs: Sequence[ServedRequest], now_s: float) -> None:
        """Requests that are answered."""


class Replica(ABC):
    """One copy of the engine, as a process; a policy says how it goes through its requests (`_serve`)."""

    def __init__(self, simulation: RequestSource) -> None:
        self.simulation, self.env, self.plan, self.steps = simulation, simulation.env, simulation.plan, simulation.steps
        self.waiting: deque[ServedRequest] = deque()
        self.reading: list[ServedRequest] = []
        self.decoding: list[ServedRequest] = []
        self.cache_bytes, self.peak_bytes = 0, 0
        self.busy_s, self.cold_starts = 0.0, 0
        self.asleep = self.plan.scale_to_zero_after_s > 0
        self.awake: list[tuple[float, float]] = []
        self.billed_since = None if self.asleep else 0.0  # type: float | None
        self.prefix_read = False
        self.idle: simpy.Event | None = None
        self.in_run = False
        self.process = self.env.process(self._serve())

    @property
    def load(self) -> int:
        """Requests that it has."""
        return len(self.waiting) + len(self.reading) + len(self.decoding)

    def has_room(self, job: ServedRequest) -> bool:
        """Whether it can take one more request now."""
        pending = sum(self.simulation.room.bytes_of(one.to_read + 1) for one in self.waiting)
        fits = self.cache_bytes + pending + self.simulation.room.bytes_of(job.to_read + 1) <= self.simulation.room.capacity
        return self.load < self.plan.batch_limit and fits

    def notify(self) -> None:
        """There is something to do: end the idleness, or the run of steps that is under way, after its current step."""
        if self.idle is not None:
            self.idle.succeed()
            self.idle = None
        elif self.in_run:
            self.in_run = False
            self.process.interrupt()

    def bill(self, until_s: float, from_s: float = 0.0) -> float:
        """Seconds that are billed between two moments: those in which it was awake."""
        still = [] if self.billed_since is None else [(self.billed_since, math.inf)]
        return sum(max(0.0, min(end, until_s) - max(begin, from_s)) for begin, end in (*self.awake, *still))

    def _rest(self) -> Process:
        """Wait for work; fall asleep on the way, if it may."""
        self.idle = woken = self.env.event()
        if not self.asleep and self.plan.scale_to_zero_after_s > 0:
            yield woken | self.env.timeout(self.plan.scale_to_zero_after_s)
            if woken.triggered:
                return
            if self.billed_since is not None:
                self.awake.append((self.billed_since, self.env.now))
            self.billed_since, self.asleep = None, True
        yield woken
        if self.asleep:
            self.billed_since, self.asleep, self.prefix_read = self.env.now, False, False
            self.cold_starts += 1
            yield self.env.timeout(self.plan.cold_start_s)

    def _work(self, seconds: float) -> simpy.Event:
        self.simulation.count_event(self.load)
        self.busy_s += seconds
        return self.env.timeout(seconds)

    def _set_cache(self, job: ServedRequest, size: int) -> None:
        self.cache_bytes += size - job.cache_bytes
        job.cache_bytes = size
        self.peak_bytes = max(self.peak_bytes, self.cache_bytes)

    def _skip_prefix(self, jobs: Sequence[ServedRequest]) -> None:
        """A shared prefix is read by the first request after a start, and by no other."""
        for job in jobs:
            if self.prefix_read:
                job.read = min(self.simulation.room.shared_tokens, job.to_read - 1)
            self.prefix_read = True

    def _first_token(self, job: ServedRequest) -> None:
        """It leaves the engine now, and the server after the steps that the law adds while others decode, less the simulated ones."""
        job.first_s = self.env.now
        step_s = self.steps.step_s(len(self.decoding), 0, self._mean_cached())
        steps = self.steps.steps_waited if len(self.decoding) > 1 else 0.0
        job.outside_s = self.steps.fixed_s + max(0.0, steps * step_s - (job.step_wait_s or 0.0))

    def _mean_cached(self) -> float:
        return sum(job.cached for job in self.decoding) / len(self.decoding) if self.decoding else 0.0

    @abstractmethod
    def _serve(self) -> Process:
        """Requests, one batch or step after another, without end."""


class PaddedReplica(Replica):
    """Static and dynamic batching: a batch is read and answered together, padded to its longest request."""

    def _serve(self) -> Process:
        while True:
            batch = self.simulation.take_batch()
            if not batch:
                yield from self._rest()
                continue
            self.decoding = list(batch)
            prompt = max(job.to_read for job in batch)
            output = max(job.left for job in batch)
            self.cache_bytes = len(batch) * self.simulation.room.bytes_of(prompt + output - 1)
            self.peak_bytes = max(self.peak_bytes, self.cache_bytes)
            self._skip_prefix(batch)
            begun = min(job.read for job in batch)
            for job in batch:
                job.started_s = self.env.now
            attention_s = len(batch) * self.steps.attention_s(begun, prompt)
            yield self._work(self.steps.step_s(0, len(batch) * (prompt - begun), 0.0) + attention_s)
            for job in batch:
                job.left -= 1
                self._first_token(job)
            steps = output - 1
            if steps:
                yield self._work(steps * self.steps.step_s(len(batch), 0, prompt + (steps - 1) / 2))
            self.decoding, self.cache_bytes = [], 0
            for job in batch:
                job.left = 0
            self.simulation.finish(batch, self.env.now)


class ContinuousReplica(Replica):
    """Requests join and leave at every step."""

    def _serve(self) -> Process:
        while True:
            if not self.load:
                yield from self._rest()
            self._admit()
            if self.reading:
                yield from self._mixed_step()
            else:
                yield from self._run_of_steps()

    def _admit(self) -> None:
        """Let waiting requests join while a slot and room for their prompt and one token are free, in order."""
        for job in self.waiting:
            if job.step_wait_s is None:
                job.step_wait_s = self.env.now - job.assigned_s
        while self.waiting and len(self.reading) + len(self.decoding) < self.plan.batch_limit:
            job = self.waiting[0]
            size = self.simulation.room.bytes_of(job.to_read + 1)
            if self.cache_bytes + size > self.simulation.room.capacity:
                return
            self.waiting.popleft()
            self.reading.append(job)
            self._set_cache(job, size)
            self._skip_prefix([job])

    def _grow(self, steps: int) -> int:
        """Make room for so many tokens more of each running sequence, or for fewer; sequences are preempted where not even one fits."""
        bytes_of = self.simulation.room.bytes_of
        while True:
            sizes = [bytes_of(job.cached + steps) for job in self.decoding]
            more = sum(sizes) - sum(job.cache_bytes for job in self.decoding)
            if self.cache_bytes + more <= self.simulation.room.capacity:
                for job, size in zip(self.decoding, sizes, strict=True):
                    self._set_cache(job, size)
                return steps
            if steps > 1:
                steps //= 2
            else:
                job = self.reading.pop() if self.reading else self.decoding.pop()
                self._set_cache(job, 0)
                job.to_read, job.read, job.cached = job.arrival.prompt_tokens + job.arrival.output_tokens - job.left, 0, 0
                job.preemptions += 1
                self.waiting.appendleft(job)

    def _mixed_step(self) -> Process:
        """One step: a token of each running sequence, and prompts for the rest of the budget."""
        self._grow(1)
        budget = max(1, self.plan.token_budget - len(self.decoding))
        chunks, attention_s = [], 0.0
        for job in self.reading:
            tokens = min(budget, job.to_read - job.read)
            if tokens <= 0:
                break
            if job.started_s is None:
                job.started_s = self.env.now
            chunks.append((job, tokens))
            attention_s += self.steps.attention_s(job.read, job.read + tokens)
            budget -= tokens
        read = sum(tokens for _, tokens in chunks)
        yield self._work(self.steps.step_s(len(self.decoding), read, self._mean_cached()) + attention_s)
        self._advance(1)
        for job, tokens in chunks:
            job.read += tokens
        for job in [job for job, _ in chunks if job.read == job.to_read]:
            self.reading.remove(job)
            job.cached = job.to_read
            job.left -= 1
            self.decoding.append(job)
            if job.first_s is None:
                self._first_token(job)
        self._leave()

    def _run_of_steps(self) -> Process:
        """Steps of the running sequences until the first of them is answered, the cache is full, or a request comes."""
        steps = self._grow(min(job.left for job in self.decoding))
        each = self.steps.step_s(len(self.decoding), 0, self._mean_cached() + (steps - 1) / 2)
        began = self.env.now
        self.in_run, done = steps > 1, steps
        self.simulation.count_event(self.load)
        try:
            yield self.env.timeout(steps * each)
        except simpy.Interrupt:
            done = min(steps, int((self.env.now - began) / each) + 1)
            yield self.env.timeout(max(0.0, began + done * each - self.env.now))
        self.in_run = False
        self.busy_s += done * each
        self._advance(done)
        self._leave()

    def _advance(self, steps: int) -> None:
        for job in self.decoding:
            job.cached += steps
            job.left -= steps

    def _leave(self) -> None:
        """Those that are answered give their cache back."""
        answered = [job for job in self.decoding if not job.left]
        if answered:
            self.decoding = [job for job in self.decoding if job.left]
            for job in answered:
                self._set_cache(job, 0)
            self.simulation.finish(answered, self.env.now)
