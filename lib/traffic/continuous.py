"""Continuous batching in a simulation: chunked prefill beside decoding, a cache that grows by blocks, and preemption.

Every step takes one token of each running sequence and fills the rest of its token budget with prompts. A request joins as soon as a slot
and its share of the cache are free, and leaves when it is answered. Where the next token of a running sequence has no room, the one that
joined last gives its cache back, waits in front, and is read again with what it had answered (preemption by recomputation).

Steps between two changes of a batch form one event: nothing happens to anyone within them. The time of each is that of their middle,
which is exact where the law is linear in the cached tokens.
Sources: Yu et al. 2022 "Orca" (batches by iteration); Agrawal et al. 2024, arXiv:2403.02310 (chunked prefill in steps with decoding); vLLM
v1/core/sched/scheduler.py (order: running, then waiting).
"""

from __future__ import annotations

import simpy

from lib.traffic.replica import Process, Replica


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
                self._preempt()

    def _preempt(self) -> None:
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
            taken = min(budget, job.to_read - job.read)
            if taken <= 0:
                break
            if job.started_s is None:
                job.started_s = self.env.now
            chunks.append((job, taken))
            attention_s += self.steps.attention_s(job.read, job.read + taken)
            budget -= taken
        read = sum(taken for _, taken in chunks)
        yield self._work(self.steps.step_s(len(self.decoding), read, self._mean_cached()) + attention_s)
        self._advance(1)
        for job, taken in chunks:
            job.read += taken
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
