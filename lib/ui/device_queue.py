"""One at a time for whatever shares the device, wherever the call came in.

Gradio's queue lets the events of one `concurrency_id` in one after the other, but a call over MCP passes by that queue.

On ZeroGPU nothing is shared: each call gets a GPU of its own, and the platform's scheduler knows who waits for one. There a slot holds
several, so that one visitor's turn in that queue is not every other's.

How many may wait for what is one at a time.

Gradio bounds only the length of all its queues together. A single stranger could so fill that with calls of the chat, each of which takes
up to two minutes, and for hours nobody could as much as open the page, which waits in the same place. So each slot has
places of its own, and who finds them taken is told so at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lib.errors import AdvisorError, Busy
from lib.live.device import on_zero_gpu

if TYPE_CHECKING:
    import gradio as gr

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


MOST_WAITING = 20


class Places:
    """The places before each slot of a page. For the event loop that serves it, and no other thread."""

    def __init__(self, page: gr.Blocks, most: int = MOST_WAITING) -> None:
        """`page` says which of its functions take turns, and how many events wait for each."""
        self._page, self._most = page, most
        self._coming: Counter[str] = Counter()

    def slot(self, number: object) -> str | None:
        """What the page's function of this number waits for; None where it need not."""
        known = self._page.fns.get(number) if type(number) is int else None
        return known.concurrency_id if known is not None and known.queue and known.concurrency_id in SLOTS else None

    @contextmanager
    def one(self, slot: str | None) -> Iterator[None]:
        """A place for the call that is passed on within; those on their way into the queue count as well.

        Raises:
            Occupied: every place is taken.
        """
        if slot is None:
            yield
            return
        queue = self._page._queue.event_queue_per_concurrency_id.get(slot)  # noqa: SLF001  Gradio tells it nowhere else
        if self._coming[slot] + (len(queue.queue) if queue is not None else 0) >= self._most:
            raise Occupied
        self._coming[slot] += 1
        try:
            yield
        finally:
            self._coming[slot] -= 1
