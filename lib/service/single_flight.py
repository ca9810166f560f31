"""Slow answers, worked out once: a bounded memory of results, one worker, and a limit on how many may wait.

A hundred callers with a hundred big configs must not exhaust the machine, and the hundred-and-first who asks for something
already known must not notice them. So: the same question asked twice at the same time is worked out once; different ones queue
for one worker (one process builds, and it takes one question at a time: `lib.service.build_process`); more than `waiting` callers, or
a wait beyond `patience`, are refused with a sentence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitedTooLong
from typing import Generic, TypeVar

from cachetools import LRUCache

from lib.errors import Busy

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """A bounded, single-flight memory of slow results, least recently used out first; refusals are not remembered."""

    def __init__(self, *, keep: int, workers: int, waiting: int, patience: float, name: str) -> None:
        """Let `waiting` callers wait up to `patience` seconds for `workers` threads, and keep the last `keep` results.

        With 0 kept, only those who ask at the same time share a result.
        """
        self._patience = patience
        self._known: LRUCache[Hashable, Result] = LRUCache(keep)
        self._under_way: dict[Hashable, Future[Result]] = {}
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(waiting)
        self._workers = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=name)

    def known(self, key: Hashable) -> Result | None:
        """What is remembered under the key, at once."""
        with self._lock:
            return self._known.get(key)

    def __call__(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """The result of `work()`, remembered under the key.

        Raises:
            Busy: too many callers wait already, or this one waited too long (the work goes on, and a later call finds its result).
            AdvisorError: whatever `work` refuses with.
        """
        found = self.known(key)
        if found is not None:
            return found
        if not self._room.acquire(blocking=False):
            raise Busy
        try:
            return self._started(key, work).result(timeout=self._patience)
        except WaitedTooLong:
            raise Busy from None
        finally:
            self._room.release()

    def _started(self, key: Hashable, work: Callable[[], Result]) -> Future[Result]:
        with self._lock:
            if key in self._known:  # finished between the look-up and now
                done: Future[Result] = Future()
                done.set_result(self._known[key])
                return done
            future = self._under_way.get(key)
            if future is None:
                future = self._workers.submit(self._work, key, work)
                self._under_way[key] = future
            return future

    def _work(self, key: Hashable, work: Callable[[], Result]) -> Result:
        try:
            result = work()
            if self._known.maxsize:
                with self._lock:
                    self._known[key] = result
            return result
        finally:
            with self._lock:
                self._under_way.pop(key, None)
