"""Turns at work that takes a processor: few at a time, shared out by caller.

Who asks a hundred times waits behind whoever asks once: of those who wait, callers take turns in the order in which they were last served
(as in `lib.service.single_flight`), one caller never has all turns at once, and has few places in the line. The line is bounded, for
everybody in it holds one of the threads that answer requests.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from lib.errors import AdvisorError


class FairTurns:
    """At most `width` turns at a time, and a line before them."""

    def __init__(self, width: int, *, places: int, own_places: int) -> None:
        """Let `places` wait, `own_places` of one caller. Nobody has a turn yet."""
        self._free, self._own_width = width, max(1, width - 1)
        self._places, self._own_places = places, own_places
        self._running: Counter[Hashable] = Counter()
        self._line: OrderedDict[Hashable, deque[threading.Event]] = OrderedDict()
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
            own = len(self._line.get(caller, ()))
            if own >= self._own_places or sum(map(len, self._line.values())) >= self._places:
                raise refusal()
            self._line.setdefault(caller, deque()).append(granted)
            self._grant()
        return granted

    def _leave(self, caller: Hashable, granted: threading.Event) -> None:
        with self._lock:
            if granted.is_set():
                self._free += 1
                self._running[caller] -= 1
                self._running += Counter()  # without callers that have none
            else:
                self._line[caller].remove(granted)
                if not self._line[caller]:
                    del self._line[caller]
            self._grant()

    def _grant(self) -> None:
        """Give free turns to those who wait; the lock is held."""
        while self._free:
            next_callers = [caller for caller in self._line if self._running[caller] < self._own_width]
            if not next_callers:
                return
            line = self._line.pop(next_callers[0])
            line.popleft().set()
            if line:
                self._line[next_callers[0]] = line  # behind everybody else
            self._free -= 1
            self._running[next_callers[0]] += 1
