"""Turns that callers share: few at a time, a bounded queue before them, served round-robin by caller.

Of each caller the oldest item goes first; first the caller whose work took the fewest seconds lately, then the least recently served one.
So a caller with questions of 20 s goes behind callers with questions of 0.2 s. One caller never holds all turns (`Turns`).

`FairTurns` is for threads; `lib.ui.http.fair_queue` has the same turns on the event loop, and `lib.service.single_flight` serves questions
in this order. The queues are bounded, because each entry holds memory or one of the threads that answer requests.

A caller whose connection is closed waits no longer (`CALLER_GONE`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from cachetools import TTLCache

from lib.errors import AdvisorError, Busy

if TYPE_CHECKING:
    import anyio

Item = TypeVar("Item")

CALLER_GONE: ContextVar[Callable[[], bool] | None] = ContextVar("CALLER_GONE", default=None)
"""Whether the connection of the caller is closed; None if that cannot be known. Called about twice a second, on any thread."""
_LOOK_S = 0.5
_FORGOTTEN_S, _MOST_CALLERS = 600.0, 10_000
_EQUAL_S = 1.0
"""Callers whose seconds differ by less take turns."""


def wait_for(is_ready: Callable[[float], bool], seconds: float) -> bool:
    """Whether it was ready within so many seconds; `is_ready(t)` waits up to `t` seconds.

    Raises:
        Busy: the connection of the caller was closed.
    """
    until, gone = time.monotonic() + seconds, CALLER_GONE.get()
    while not is_ready(max(0.0, min(_LOOK_S, until - time.monotonic()))):
        if gone is not None and gone():
            raise Busy("The connection was closed, so this question is not answered. Ask again.")
        if time.monotonic() >= until:
            return False
    return True


def anonymous_caller() -> Hashable:
    """The caller where callers are not distinguished."""
    return None


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
        """Nothing waits. Without `used`, callers take turns however long their work takes."""
        self._lines: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._used = used

    def __len__(self) -> int:
        """All who wait."""
        return sum(map(len, self._lines.values()))

    def count(self, caller: Hashable) -> int:
        """How many of this caller wait."""
        return len(self._lines.get(caller, ()))

    def join(self, caller: Hashable, item: Item) -> None:
        """Add it behind everything else of this caller."""
        self._lines.setdefault(caller, deque()).append(item)

    def leave(self, caller: Hashable, item: Item) -> None:
        """Remove what waits no longer."""
        line = self._lines[caller]
        line.remove(item)
        if not line:
            del self._lines[caller]

    def take(self, may_serve: Callable[[Hashable], bool] = lambda _: True) -> tuple[Hashable, Item] | None:
        """The oldest of the caller whose turn it is, among those who may be served; None if there is none."""
        able = filter(may_serve, self._lines)
        caller = next(able, _NOBODY) if self._used is None else min(able, key=self._used.rank, default=_NOBODY)
        if caller is _NOBODY:
            return None
        line = self._lines.pop(caller)
        item = line.popleft()
        if line:
            self._lines[caller] = line  # behind all other callers
        return caller, item

    def count_ahead(self, caller: Hashable, item: Item) -> int:
        """How many are taken before this one, if no other joins."""
        callers = [*self._lines] if self._used is None else sorted(self._lines, key=self._used.rank)
        own = self._lines[caller].index(item)
        turn = callers.index(caller)
        return own + sum(min(len(self._lines[of]), own + (at < turn)) for at, of in enumerate(callers) if at != turn)


_NOBODY: Final[Hashable] = object()
"""No caller; None is one."""


def holds_half(own: int, taken: int, slots: int) -> bool:
    """Whether one caller has half as many slots as are free: then it gets no more, so the last ones stay open to callers that have none."""
    return own * 2 >= slots - taken


Signal = TypeVar("Signal", threading.Event, "anyio.Event")
"""Set when the turn of a waiting call comes."""


class Turns(Generic[Signal]):
    """Callers that have a turn and callers that wait for one. Not thread-safe; callers must hold a lock, or be on one event loop."""

    def __init__(self, width: int, own_width: int, *, most: int | None = None, spare: int = 1, used: SecondsUsed | None = None) -> None:
        """Give `width` turns at a time, `own_width` of them to one caller, and up to `most` to callers that have fewer than `spare`."""
        self._width, self._own_width, self._most, self._spare = width, own_width, most or width, spare
        self._running: Counter[Hashable] = Counter()
        self.waiting: RoundRobin[Signal] = RoundRobin(used)

    def join(self, caller: Hashable, granted: Signal) -> None:
        """Set `granted` when the turn of this call comes, which may be at once."""
        self.waiting.join(caller, granted)
        self._grant()

    def leave(self, caller: Hashable, granted: Signal) -> None:
        """Give the turn back, or wait no longer for it."""
        if granted.is_set():
            self.give_back(caller)
        else:
            self.waiting.leave(caller, granted)

    def give_back(self, caller: Hashable) -> None:
        """Give one turn of this caller to those who wait."""
        self._running -= Counter([caller])  # and without callers that have none
        self._grant()

    def _may_run(self, caller: Hashable) -> bool:
        return self._running[caller] < (self._own_width if self._running.total() < self._width else self._spare)

    def _grant(self) -> None:
        while self._running.total() < self._most and (first := self.waiting.take(self._may_run)) is not None:
            caller, granted = first
            self._running[caller] += 1
            granted.set()


class FairTurns:
    """Turns for threads: at most `width` at a time, and a bounded queue before them."""

    def __init__(self, width: int, *, queue_slots: int, own_queue_slots: int, own_width: int | None = None) -> None:
        """Let `queue_slots` calls wait, `own_queue_slots` of one caller, who has at most `own_width` turns: by default all but one."""
        self._queue_slots, self._own_queue_slots = queue_slots, own_queue_slots
        self._used, self._lock = SecondsUsed(), threading.Lock()
        self._turns = Turns[threading.Event](width, own_width or max(1, width - 1), used=self._used)

    @contextmanager
    def turn(self, caller: Hashable, wait_s: float, refusal: Callable[[], AdvisorError]) -> Iterator[None]:
        """A turn while the block runs.

        Raises:
            AdvisorError: `refusal`, when the line is full, or no turn came within `wait_s` seconds.
            Busy: the connection of the caller was closed.
        """
        granted = threading.Event()
        with self._lock:
            waiting = self._turns.waiting
            if waiting.count(caller) >= self._own_queue_slots or len(waiting) >= self._queue_slots:
                raise refusal()
            self._turns.join(caller, granted)
        try:
            if not wait_for(granted.wait, wait_s):
                raise refusal()
            began = time.monotonic()
            try:
                yield
            finally:
                self._used.add(caller, time.monotonic() - began)
        finally:
            with self._lock:
                self._turns.leave(caller, granted)
