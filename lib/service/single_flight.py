"""Slow answers, worked out once: a bounded memory of results, few workers, and a fair line before them.

A hundred callers with a hundred big configs must not exhaust the machine, and the hundred-and-first who asks for something
already known must not notice them. So: the same question asked twice at the same time is worked out once; different ones stand in line
for a worker (one process builds, and it takes one question at a time: `lib.service.build_process`); at most `waiting` callers wait, each
at most `patience` seconds, and the others are refused with a sentence.

One stranger who asks without a pause must not take the line from everybody else. Callers take turns: of each the oldest question, in the
order in which they were last served. Where the line is full, whoever has the most places in it loses the newest one to a caller with
fewer (fair queueing with the longest queue dropped first; McKenney 1990, "Stochastic fairness queueing").
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitedTooLong
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cachetools import LRUCache

from lib.errors import Busy
from lib.service.fair_turns import FairLine

Result = TypeVar("Result")


def nobody() -> Hashable:
    """The caller where nobody tells one from another."""
    return None


@dataclass(slots=True, eq=False)
class _Flight(Generic[Result]):
    """A question in line or under way, and those who wait for its answer, each with a caller."""

    key: Hashable
    work: Callable[[], Result]
    caller: Hashable
    waiters: list[tuple[Hashable, Future[Result]]] = field(default_factory=list)
    started: bool = False


class SingleFlight(Generic[Result]):
    """A bounded, single-flight memory of slow results, least recently used out first; refusals are not remembered."""

    def __init__(
        self, *, keep: int, workers: int, waiting: int, patience: float, name: str, caller: Callable[[], Hashable] = nobody
    ) -> None:
        """Let `waiting` callers wait up to `patience` seconds for `workers` threads, and keep the last `keep` results.

        With 0 kept, only those who ask at the same time share a result. `caller()` says who asks on the current thread.
        """
        self._patience, self._most, self._caller = patience, waiting, caller
        self._known: LRUCache[Hashable, Result] = LRUCache(keep)
        self._flights: dict[Hashable, _Flight[Result]] = {}
        self._line = FairLine[_Flight[Result]]()
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=name)

    def find_result(self, key: Hashable) -> Result | None:
        """What is remembered under the key, at once."""
        with self._lock:
            return self._known.get(key)

    def __call__(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """The result of `work()`, remembered under the key.

        Raises:
            Busy: too many wait already, or this caller waited too long (work that has begun goes on, and a later call finds its result).
            AdvisorError: whatever `work` refuses with.
        """
        caller, answer = self._caller(), Future[Result]()
        with self._lock:
            if key in self._known:
                return self._known[key]
            self._make_room(caller)
            flight = self._flights.get(key) or self._queue(_Flight(key, work, caller))
            flight.waiters.append((caller, answer))
        try:
            return answer.result(timeout=self._patience)
        except WaitedTooLong:
            with self._lock:
                raise Busy.waited(self._patience, self._ahead(flight)) from None
        finally:
            with self._lock:
                self._leave(flight, caller, answer)

    def _make_room(self, caller: Hashable) -> None:
        """A place for one more of this caller's, if need be that of somebody who has more of them; the lock is held."""
        waiters = [(of, answer) for flight in self._flights.values() for of, answer in flight.waiters if not answer.done()]
        if len(waiters) < self._most:
            return
        held = Counter(of for of, _ in waiters)
        greediest, most = held.most_common(1)[0]
        if most < held[caller] + 2:
            raise Busy.crowded(len(waiters), held[caller])
        newest = next(answer for of, answer in reversed(waiters) if of == greediest)
        newest.set_exception(Busy.crowded(len(waiters), most))

    def _queue(self, flight: _Flight[Result]) -> _Flight[Result]:
        self._flights[flight.key] = flight
        self._line.join(flight.caller, flight)
        self._workers.submit(self._work_next)
        return flight

    def _ahead(self, flight: _Flight[Result]) -> int | None:
        """How many questions are begun before this one; None when it is under way. The lock is held."""
        return None if flight.started else self._line.count_ahead(flight.caller, flight)

    def _leave(self, flight: _Flight[Result], caller: Hashable, answer: Future[Result]) -> None:
        """One waits no longer; a question that nobody waits for is not begun. The lock is held."""
        flight.waiters.remove((caller, answer))
        if not flight.waiters and not flight.started:
            del self._flights[flight.key]
            self._line.leave(flight.caller, flight)

    def _next(self) -> _Flight[Result] | None:
        """The oldest question of the caller who was served least recently; None when all that stood in line was given up."""
        with self._lock:
            first = self._line.take()
            if first is None:
                return None
            _, flight = first
            flight.started = True
            return flight

    def _work_next(self) -> None:
        flight = self._next()
        if flight is None:
            return
        done: Future[Result] = Future()
        try:
            done.set_result(flight.work())
        except BaseException as refused:  # noqa: BLE001  whatever it is, those who wait are told
            done.set_exception(refused)
        self._land(flight, done)

    def _land(self, flight: _Flight[Result], done: Future[Result]) -> None:
        """Remember the result, if there is one, and tell everybody who waits."""
        refused = done.exception()
        with self._lock:
            del self._flights[flight.key]
            if refused is None and self._known.maxsize:
                self._known[flight.key] = done.result()
            for _, answer in flight.waiters:
                if not answer.done():
                    answer.set_exception(refused) if refused is not None else answer.set_result(done.result())
