"""A bounded memory of answers: the least recently used go first, and none outlives its time.

Only what a stranger may read is kept. What was read with a visitor's token belongs to that visitor and is never put here.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Holds values of a total `weight` of at most `most`, each for `seconds`."""

    def __init__(self, *, most: int, seconds: float, weight: Callable[[V], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._weight, self._clock = most, seconds, weight, clock
        self._held: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: K) -> V | None:
        """The value, None when it is not held or too old."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            if self._clock() - held[0] > self._seconds:
                del self._held[key]
                return None
            self._held.move_to_end(key)
            return held[1]

    def keep(self, key: K, value: V) -> None:
        """Hold a value; others give way. One that is heavier than the whole cache is not held."""
        with self._lock:
            self._held.pop(key, None)
            if self._weight(value) > self._most:
                return
            self._held[key] = (self._clock(), value)
            while sum(self._weight(kept) for _, kept in self._held.values()) > self._most:
                self._held.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
