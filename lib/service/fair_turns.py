"""Turns at work that takes a processor: few at a time, shared out by caller.

Who asks a hundred times waits behind whoever asks once: of those who wait, callers take turns in the order in which they were last served
(`FairLine`, in which questions of `lib.service.single_flight` stand too), one caller never has all turns at once, and has few places in the
line. The line is bounded, for everybody in it holds one of the threads that answer requests.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from lib.errors import AdvisorError

Item = TypeVar("Item")


class FairLine(Generic[Item]):
    """Who waits, by caller: of each the oldest first, callers in the order in which they were last served. Its user holds a lock."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._lines: OrderedDict[Hashable, deque[Item]] = OrderedDict()

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
        """The oldest of the caller who was served least recently, among those who may be served; None where there is none."""
        caller = next((caller for caller in self._lines if may_serve(caller)), _NOBODY)
        if caller is _NOBODY:
            return None
        line = self._lines.pop(caller)
        item = line.popleft()
        if line:
            self._lines[caller] = line  # behind everybody else
        return caller, item

    def count_ahead(self, caller: Hashable, item: Item) -> int:
        """How many are taken before this one, if nobody else comes."""
        callers, own = list(self._lines), self._lines[caller].index(item)
        turn = callers.index(caller)
        return own + sum(min(len(self._lines[of]), own + (at < turn)) for at, of in enumerate(callers) if at != turn)


_NOBODY = object()
"""No caller; None is one."""


class FairTurns:
    """At most `width` turns at a time, and a line before them."""

    def __init__(self, width: int, *, places: int, own_places: int) -> None:
        """Let `places` wait, `own_places` of one caller. Nobody has a turn yet."""
        self._free, self._own_width = width, max(1, width - 1)
        self._places, self._own_places = places, own_places
        self._running: Counter[Hashable] = Counter()
        self._line = FairLine[threading.Event]()
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, caller: Hashable, wait_s: float, refusal: Callable[[], AdvisorError]) -> Iterator[None]:
        """A turn while the block runs.

        Raises:
            AdvisorError: `refusal`, when the line is full, or no turn came within `wait_s` seconds.
        """
        granted = self._join(caller, refusal)
        try:
            if not granted.wait(wait_s):
                raise refusal()
            yield
        finally:
            self._leave(caller, granted)

    def _join(self, caller: Hashable, refusal: Callable[[], AdvisorError]) -> threading.Event:
        granted = threading.Event()
        with self._lock:
            if self._line.count(caller) >= self._own_places or len(self._line) >= self._places:
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
