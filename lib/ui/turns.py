"""One at a time for whatever shares the device, wherever the call came in.

Gradio's queue lets the events of one `concurrency_id` in one after the other, but a call over MCP passes by that queue.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from lib.errors import AdvisorError, Busy

__all__ = ["Occupied", "turn"]

LONGEST_WAIT_S = 120.0

_slots: defaultdict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(1))


class Occupied(Busy):
    """The device does something else, and went on doing it."""

    def __init__(self) -> None:
        AdvisorError.__init__(
            self,
            "The device is at work for others, one call at a time, and this one did not get its turn. Try again in a minute.",
        )


@contextmanager
def turn(slot: str | None, wait_s: float = LONGEST_WAIT_S) -> Iterator[None]:
    """Hold the slot while the block runs; `None` is no slot, and no waiting.

    The block may be left on another thread than the one that entered it, as a generator's steps are.

    Raises:
        Occupied: it did not become free in time.
    """
    if slot is None:
        yield
        return
    free = _slots[slot]
    if not free.acquire(timeout=wait_s):
        raise Occupied
    try:
        yield
    finally:
        free.release()
