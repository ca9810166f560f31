"""A time limit on work that nobody can wait for: a configuration that makes a constructor count pixels in Python for hours.

A thread cannot be stopped from outside, but CPython raises an exception in it when it executes its next instruction. The limits on
sizes (`lib.model.config`) and on torch calls (`lib.model.meta`) come first; this is what holds when they do not.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

from lib.errors import BadConfig

T = TypeVar("T")


class _Stop(BaseException):
    """Raised in the working thread; no `except Exception` on the way takes it for its own."""


def _raise_in(thread: int, stop: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(stop) if stop else None)


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work()`, which is stopped when it takes longer.

    Raises:
        BadConfig: it took longer.
    """
    here, lock, done = threading.get_ident(), threading.Lock(), False

    def stop() -> None:
        with lock:
            if not done:
                _raise_in(here, _Stop)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        try:
            return work()
        finally:
            timer.cancel()
            with lock:
                done = True
            _raise_in(here, None)  # one that was sent and has not arrived
    except _Stop:
        raise BadConfig(
            f"Working this configuration out takes more than {seconds:g} s and was stopped. Check its sizes and counts, or "
            " give the parameter count instead (such as '7B')."
        ) from None
