"""One at a time for whatever shares the device, wherever the call came in.

Gradio's queue lets the events of one `concurrency_id` in one after the other, but a call over MCP passes by that queue.

On ZeroGPU nothing is shared: each call gets a GPU of its own, and the platform's scheduler knows who waits for one. There a slot holds
several, so that one visitor's turn in that queue is not every other's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lib.errors import AdvisorError, Busy
from lib.live.device import on_zero_gpu

__all__ = ["CHAT", "DEVICE", "SLOTS", "Occupied", "turn", "width"]

CHAT, DEVICE = "chat", "device"
SLOTS = frozenset({CHAT, DEVICE})
"""The slots of what runs on the device."""

LONGEST_WAIT_S = 120.0
ON_ZERO_GPU = 8
"""Calls that are passed on at once: each is a process of its own here until it ends, and a thread of Gradio's forty."""

_slots: dict[str, threading.Semaphore] = {}


def width(slot: str) -> int:
    """How many may hold the slot at the same time, where this runs. For Gradio's `concurrency_limit` too, which keeps the lowest."""
    return ON_ZERO_GPU if slot in SLOTS and on_zero_gpu() else 1


class Occupied(Busy):
    """The device does something else, and went on doing it."""

    def __init__(self) -> None:
        AdvisorError.__init__(
            self,
            "The device is at work for others, and this call did not get its turn. Try again in a minute.",
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
    free = _slots.setdefault(slot, threading.Semaphore(width(slot)))
    if not free.acquire(timeout=wait_s):
        raise Occupied
    try:
        yield
    finally:
        free.release()
