"""Slow answers, worked out once, and turns at work that takes a processor: few at a time, shared out by caller.

A hundred callers with a hundred big configs must not exhaust the machine, and the hundred-and-first who asks for something
already known must not notice them. So: the same question asked twice at the same time is worked out once; different ones stand in line
for a worker (one process builds, and it takes one question at a time: `lib.service.build_process`); at most `waiting` callers wait, each
at most `patience` seconds, and the others are refused with a sentence.

Callers take turns (`RoundRobin`): of each the oldest question; first the caller whose work took the fewest seconds lately, then the one who
was served least recently. So a caller with questions of 20 s goes behind callers with questions of 0.2 s. When the line is full, the
caller with most entries loses the newest one to a caller with fewer (longest queue dropped first; McKenney 1990, "Stochastic fairness
queueing").

Turns (`FairTurns`) are few at a time: one caller never has all of them, and has few slots in the queue. The queue is bounded, because each
entry holds one of the threads that answer requests.

A caller whose connection is closed waits no longer (`CALLER_GONE`): its question leaves the line, and work that can be stopped is stopped.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from cachetools import LRUCache, TTLCache

from lib.errors import AdvisorError, Busy

Item = TypeVar("Item")

CALLER_GONE: ContextVar[Callable[[], bool] | None] = ContextVar("CALLER_GONE", default=None)
"""Whether the connection of the caller is closed; None where that cannot be known. Called about twice a second, on any thread."""
_LOOK_S = 0.5
_FORGOTTEN_S, _MOST_CALLERS = 600.0, 10_000
_EQUAL_S = 1.0
"""Callers whose seconds differ by less take turns."""


def _wait_for(is_ready: Callable[[float], bool], seconds: float) -> bool:
    """Whether it was ready within so many seconds; `is_ready(t)` waits up to `t` seconds."""
    until, gone = time.monotonic() + seconds, CALLER_GONE.get()
    while not is_ready(max(0.0, min(_LOOK_S, until - time.monotonic()))):
        if gone is not None and gone():
            raise Busy("The connection was closed, so this question is not answered. Ask again.")
        if time.monotonic() >= until:
            return False
    return True


class SecondsUsed:
    """Seconds that the work of each caller took, forgotten ten minutes after the latest. Several lines may share it."""

    def __init__(self) -> None:
        """Every caller has used nothing."""
        self._seconds: TTLCache[Hashable, float] = TTLCache(_MOST_CALLERS, _FORGOTTEN_S)
        self._lock = threading.Lock()

    def add(self, caller: Hashable, seconds: float) -> None:
        """The work of this caller took so many seconds more."""
        with self._lock:
            self._seconds[caller] = self._seconds.get(caller, 0.0) + seconds

    def rank(self, caller: Hashable) -> int:
        """The lower, the earlier the turn."""
        with self._lock:
            return int(self._seconds.get(caller, 0.0) / _EQUAL_S)


class RoundRobin(Generic[Item]):
    """Items that wait, by caller: of each the oldest first; callers by the seconds they used, then the least recently served first.

    Not thread-safe; callers must hold a lock.
    """

    def __init__(self, used: SecondsUsed | None = None) -> None:
        """Nothing waits. Without `used`, callers take turns whatever their work takes."""
        self._lines: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._used = used or SecondsUsed()

    def __len__(self) -> int:
        """All who wait."""
        return sum(map(len, self._lines.values()))

    def count(self, caller: Hashable) -> int:
        """How many of this caller wait."""
        return len(self._lines.get(caller, ()))

    def join(self, caller: Hashable, item: Item) -> None:
        """Stand behind everything else of this caller."""
        self._lines.setdefault(caller, deque()).append(item)

    def leave(self, caller: Hashable, item: Item) -> None:
        """Wait no longer."""
        line = self._lines[caller]
        line.remove(item)
        if not line:
            del self._lines[caller]

    def take(self, may_serve: Callable[[Hashable], bool] = lambda _: True) -> tuple[Hashable, Item] | None:
        """The oldest of the caller whose turn it is, among those who may be served; None where there is none."""
        caller = min(filter(may_serve, self._lines), key=self._used.rank, default=_NOBODY)
        if caller is _NOBODY:
            return None
        line = self._lines.pop(caller)
        item = line.popleft()
        if line:
            self._lines[caller] = line  # behind everybody else
        return caller, item

    def count_ahead(self, caller: Hashable, item: Item) -> int:
        """How many are taken before this one, if nobody else comes."""
        callers, own = sorted(self._lines, key=self._used.rank), self._lines[caller].index(item)
        turn = callers.index(caller)
        return own + sum(min(len(self._lines[of]), own + (at < turn)) for at, of in enumerate(callers) if at != turn)


_NOBODY: Final[Hashable] = object()
"""No caller; None is one."""


class FairTurns:
    """At most `width` turns at a time, and a line before them."""

    def __init__(self, width: int, *, queue_slots: int, own_queue_slots: int, own_width: int | None = None) -> None:
        """Let `queue_slots` calls wait, `own_queue_slots` of one caller, who has at most `own_width` turns: by default all but one."""
        self._free, self._own_width = width, own_width or max(1, width - 1)
        self._queue_slots, self._own_queue_slots = queue_slots, own_queue_slots
        self._running: Counter[Hashable] = Counter()
        self._used = SecondsUsed()
        self._line = RoundRobin[threading.Event](self._used)
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, caller: Hashable, wait_s: float, refusal: Callable[[], AdvisorError]) -> Iterator[None]:
        """A turn while the block runs.

        Raises:
            AdvisorError: `refusal`, when the line is full, or no turn came within `wait_s` seconds.
            Busy: the connection of the caller was closed.
        """
        granted = self._join(caller, refusal)
        try:
            if not _wait_for(granted.wait, wait_s):
                raise refusal()
            began = time.monotonic()
            try:
                yield
            finally:
                self._used.add(caller, time.monotonic() - began)
        finally:
            self._leave(caller, granted)

    def _join(self, caller: Hashable, refusal: Callable[[], AdvisorError]) -> threading.Event:
        granted = threading.Event()
        with self._lock:
            if self._line.count(caller) >= self._own_queue_slots or len(self._line) >= self._queue_slots:
                raise refusal()
            self._line.join(caller, granted)
            self._grant()
        return granted

    def _leave(self, caller: Hashable, granted: threading.Event) -> None:
        with self._lock:
            if granted.is_set():
                self._free += 1
                self._running[caller] -= 1
                self._running += Counter()  # without callers that have none
            else:
                self._line.leave(caller, granted)
            self._grant()

    def _grant(self) -> None:
        """Give free turns to those who wait; the lock is held."""
        while self._free and (first := self._line.take(lambda caller: self._running[caller] < self._own_width)) is not None:
            caller, granted = first
            granted.set()
            self._free -= 1
            self._running[caller] += 1


Result = TypeVar("Result")


def anonymous_caller() -> Hashable:
    """The caller where callers are not distinguished."""
    return None


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
        """What is remembered under the key, at once."""
        with self._lock:
            return self._results.get(key)

    def __call__(self, key: Hashable, work: Callable[[], Result], stop: Callable[[], object] | None = None) -> Result:
        """The result of `work()`, remembered under the key; `stop` as for `ask`.

        Raises:
            Busy: too many wait already, the caller is gone, or it waited too long (work that has begun goes on, and a later call finds its
                result).
            AdvisorError: whatever `work` refuses with.
        """
        with self.ask(key, work, stop) as answer:
            if not _wait_for(lambda seconds: bool(wait([answer], seconds).done), self._patience):
                raise self.late_refusal(key)
            return answer.result()

    @contextmanager
    def ask(self, key: Hashable, work: Callable[[], Result], stop: Callable[[], object] | None = None) -> Iterator[Future[Result]]:
        """A place in line while the block runs, for one who looks at the result from time to time.

        When nobody waits any longer for work that has begun, `stop()` of the first who asked is called.

        Raises:
            Busy: too many wait already.
        """
        caller, answer, flight = self._caller(), Future[Result](), None
        with self._lock:
            if key in self._results:
                answer.set_result(self._results[key])
            else:
                self._make_room(caller)
                flight = self._flights.get(key) or self._queue(_Flight(key, work, caller, stop))
                flight.waiters.append((caller, answer))
        try:
            yield answer
        finally:
            if flight is not None:
                with self._lock:
                    self._leave(flight, caller, answer)

    def late_refusal(self, key: Hashable) -> Busy:
        """The refusal of one who waited for as long as anybody may. Work that has begun is not stopped any more."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is not None:
                flight.stop = None
            return Busy.for_long_wait(self._patience, self._ahead(flight) if flight else None)

    def _make_room(self, caller: Hashable) -> None:
        """A place for one more of this caller's, if need be that of somebody who has more of them; the lock is held."""
        waiters = [(of, answer) for flight in self._flights.values() for of, answer in flight.waiters if not answer.done()]
        if len(waiters) < self._most:
            return
        by_caller = Counter(of for of, _ in waiters)
        greediest, most = by_caller.most_common(1)[0]
        if most < by_caller[caller] + 2:
            raise Busy.for_full_line(len(waiters), by_caller[caller])
        newest = next(answer for of, answer in reversed(waiters) if of == greediest)
        newest.set_exception(Busy.for_full_line(len(waiters), most))

    def _queue(self, flight: _Flight[Result]) -> _Flight[Result]:
        self._flights[flight.key] = flight
        self._line.join(flight.caller, flight)
        self._workers.submit(self._work_next)
        return flight

    def _ahead(self, flight: _Flight[Result]) -> int | None:
        """How many questions are begun before this one; None when it is under way. The lock is held."""
        return None if flight.started else self._line.count_ahead(flight.caller, flight)

    def _leave(self, flight: _Flight[Result], caller: Hashable, answer: Future[Result]) -> None:
        """One waits no longer; a question that nobody waits for is not begun, or stopped where it can be. The lock is held."""
        flight.waiters.remove((caller, answer))
        if not flight.waiters and not flight.started:
            del self._flights[flight.key]
            self._line.leave(flight.caller, flight)
        elif not flight.waiters and not answer.done() and flight.stop is not None:
            del self._flights[flight.key]  # whoever asks now asks anew
            flight.stop()

    def _next(self) -> _Flight[Result] | None:
        """The oldest question of the caller whose turn it is; None when all that stood in line was given up."""
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
        """Remember the result, if there is one, and tell everybody who waits."""
        refused = done.exception()
        with self._lock:
            if self._flights.get(flight.key) is flight:
                del self._flights[flight.key]
            if refused is None and self._results.maxsize:
                self._results[flight.key] = done.result()
            for _, answer in flight.waiters:
                if not answer.done():
                    answer.set_exception(refused) if refused is not None else answer.set_result(done.result())
