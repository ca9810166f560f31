"""Slow answers, worked out once: few at a time, shared out by caller.

Cached answers must stay fast while a hundred callers wait for a hundred slow builds. So: the same question asked twice at the same time is
worked out once; different ones wait for a worker (one process builds, and it takes one question at a time: `lib.service.build_process`); at
most `waiting` callers wait, each at most `patience` seconds, and the others are refused with a sentence.

Callers take turns (`lib.service.fair_turns`). When the queue is full, the caller with most entries loses the newest one to a caller with
fewer (longest queue dropped first; McKenney 1990, "Stochastic fairness queueing"). A question whose callers have closed their connections
leaves the queue, and work that can be stopped is stopped.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cachetools import LRUCache

from lib.errors import Busy
from lib.service.fair_turns import RoundRobin, SecondsUsed, anonymous_caller, wait_for

Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Flight(Generic[Result]):
    """A question in line or under way, and those who wait for its answer, each with a caller."""

    key: Hashable
    work: Callable[[], Result]
    caller: Hashable
    stop: Callable[[], object] | None
    waiters: list[tuple[Hashable, Future[Result]]] = field(default_factory=list)
    started: bool = False


class SingleFlight(Generic[Result]):
    """A bounded, single-flight memory of slow results, least recently used out first; refusals are not remembered."""

    def __init__(
        self,
        *,
        keep: int,
        workers: int,
        waiting: int,
        patience: float,
        name: str,
        caller: Callable[[], Hashable] = anonymous_caller,
        used: SecondsUsed | None = None,
    ) -> None:
        """Let `waiting` callers wait up to `patience` seconds for `workers` threads, and keep the last `keep` results.

        With 0 kept, only those who ask at the same time share a result. `caller()` says who asks on the current thread. Seconds of work
        are added to those that callers `used` elsewhere.
        """
        self._used = used or SecondsUsed()
        self._patience, self._most, self._caller = patience, waiting, caller
        self._results: LRUCache[Hashable, Result] = LRUCache(keep)
        self._flights: dict[Hashable, _Flight[Result]] = {}
        self._line = RoundRobin[_Flight[Result]](self._used)
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=name)

    def find_result(self, key: Hashable) -> Result | None:
        """Cached value of the key, without waiting."""
        with self._lock:
            return self._results.get(key)

    def __call__(self, key: Hashable, work: Callable[[], Result], stop: Callable[[], object] | None = None) -> Result:
        """The result of `work()`, remembered under the key; `stop` as for `ask`.

        Raises:
            Busy: too many wait already, the caller is gone, or it waited too long (work that has begun continues, and a later call finds
            its result). AdvisorError: the refusal of `work`.
        """
        with self.ask(key, work, stop) as answer:
            if not wait_for(lambda seconds: bool(wait([answer], seconds).done), self._patience):
                raise self.late_refusal(key)
            return answer.result()

    @contextmanager
    def ask(self, key: Hashable, work: Callable[[], Result], stop: Callable[[], object] | None = None) -> Iterator[Future[Result]]:
        """A place in line while the block runs, for one who looks at the result from time to time.

        When no caller waits any longer for work that has begun, `stop()` of the first one is called.

        Raises:
            Busy: too many wait already.
        """
        caller, answer, flight = self._caller(), Future[Result](), None
        with self._lock:
            if key in self._results:
                answer.set_result(self._results[key])
            else:
                self._make_room(caller)
                flight = self._flights.get(key)
                if flight is None:
                    flight = self._flights[key] = _Flight(key, work, caller, stop)
                    self._line.join(caller, flight)
                    self._workers.submit(self._work_next)
                flight.waiters.append((caller, answer))
        try:
            yield answer
        finally:
            if flight is not None:
                with self._lock:
                    self._leave(flight, caller, answer)

    def late_refusal(self, key: Hashable) -> Busy:
        """The refusal of a caller who waited for the longest allowed time. Work that has begun is not stopped any more."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None:
                flight.stop = None
            ahead = None if flight is None or flight.started else self._line.count_ahead(flight.caller, flight)
            return Busy.for_long_wait(self._patience, ahead)

    def _make_room(self, caller: Hashable) -> None:
        """A place for one more question of this caller, if need be that of a caller with more places; the lock is held."""
        waiters = [(of, answer) for flight in self._flights.values() for of, answer in flight.waiters if not answer.done()]
        if len(waiters) < self._most:
            return
        by_caller = Counter(of for of, _ in waiters)
        greediest, most = by_caller.most_common(1)[0]
        if most < by_caller[caller] + 2:
            raise Busy.for_full_line(len(waiters), by_caller[caller])
        newest = next(answer for of, answer in reversed(waiters) if of == greediest)
        newest.set_exception(Busy.for_full_line(len(waiters), most))

    def _leave(self, flight: _Flight[Result], caller: Hashable, answer: Future[Result]) -> None:
        """One caller waits no longer; a question without a waiting caller is not begun, or stopped where it can be. The lock is held."""
        flight.waiters.remove((caller, answer))
        if not flight.waiters and not flight.started:
            del self._flights[flight.key]
            self._line.leave(flight.caller, flight)
        elif not flight.waiters and not answer.done() and flight.stop is not None:
            del self._flights[flight.key]  # whoever asks now asks anew
            flight.stop()

    def _next(self) -> _Flight[Result] | None:
        """The oldest question of the caller whose turn it is; None when all waiting questions were given up."""
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
        began = time.monotonic()
        try:
            done.set_result(flight.work())
        except BaseException as refused:  # noqa: BLE001  whatever it is, those who wait are told
            done.set_exception(refused)
        self._used.add(flight.caller, time.monotonic() - began)
        self._land(flight, done)

    def _land(self, flight: _Flight[Result], done: Future[Result]) -> None:
        """Remember the result, if there is one, and tell all waiting callers."""
        refused = done.exception()
        with self._lock:
            if self._flights.get(flight.key) is flight:
                del self._flights[flight.key]
            if refused is None and self._results.maxsize:
                self._results[flight.key] = done.result()
            for _, answer in flight.waiters:
                if not answer.done():
                    answer.set_exception(refused) if refused is not None else answer.set_result(done.result())
