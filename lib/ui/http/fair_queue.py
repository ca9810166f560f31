"""One queue in front of the threads that answer: callers take turns, and waiting costs no thread.

Every call that needs a thread waits here on the event loop: plain HTTP calls, MCP tools, and the page's own events (Gradio takes its thread
limiter from `lib.ui.http.gradio_internals`). Callers are served round-robin. One caller has at most `own_width` threads, so a caller with
400 open calls delays another caller's first call by nothing. Up to `width` threads are shared in this way. The threads beyond them, up to
`most`, are a reserve for callers that have few: calls that wait in a thread, for a model's build or the Hub, then never hold them all.

The queue is bounded. A caller may have half of the free places at most, so the last places stay open to callers that have none.
"""

from __future__ import annotations

from contextlib import nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar, cast

import anyio

from lib.errors import Busy
from lib.service.fair_turns import Turns, holds_half
from lib.ui.http.callers import current_caller

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Result = TypeVar("Result")

THREADS, OWN_THREADS, MOST_THREADS = 32, 8, 160
"""At most 150 calls wait in a thread for a build, the Hub, a simulation or the device (`lib.service.models`, `lib.hub.spaces`,
`lib.hub.client`, `lib.service.simulate_batching`, the device's queues). So a thread is always free for a call that does not wait."""
HEAVY, OWN_HEAVY, MOST_HEAVY = 6, 2, 14
"""The same for questions that compute for more than about 30 ms."""
SPARE = 2
"""Threads of one caller while `width` or more are in use; of heavy questions one."""
QUEUE_SLOTS, WAIT_S = 400, 60.0

_served: ContextVar[Hashable] = ContextVar("_served")


class QueueFull(Busy):
    """No place to wait, or no turn in time."""


class FairQueue:
    """Turns at threads. For one event loop. `async with queue:` is a turn of the current caller, so anyio takes it for a limiter."""

    def __init__(self, width: int, own_width: int, most: int, *, queue_slots: int = QUEUE_SLOTS, wait_s: float = WAIT_S) -> None:
        """Give `width` turns at a time, `own_width` to one caller, and up to `most` in all where callers have few."""
        self._turns = Turns[anyio.Event](width, own_width, most=most, spare=min(SPARE, own_width - 1) or 1)
        self._queue_slots, self._wait_s = queue_slots, wait_s

    async def __aenter__(self) -> None:
        """Wait for a turn.

        Raises:
            QueueFull: the caller has its share of the places already, or no turn came in time.
        """
        caller = current_caller()
        _served.set(caller)
        own, waiting = self._turns.waiting.count(caller), len(self._turns.waiting)
        if holds_half(own, waiting, self._queue_slots):
            raise QueueFull(f"{own} of your calls wait already, of {waiting} in all. Wait for their answers, then try again.")
        granted = anyio.Event()
        self._turns.join(caller, granted)
        try:
            with anyio.fail_after(self._wait_s):
                await granted.wait()
        except BaseException as failure:
            self._turns.leave(caller, granted)
            if isinstance(failure, TimeoutError):
                raise QueueFull(f"The server is busy: this call had no turn within {self._wait_s:g} s. Try again in a minute.") from None
            raise

    async def __aexit__(self, *_: object) -> None:
        """Give the turn back."""
        self._turns.give_back(_served.get())


class Threads:
    """The threads of one server, behind one queue; heavy questions wait in a narrower one first."""

    def __init__(self) -> None:
        """No thread is in use."""
        self.queue = FairQueue(THREADS, OWN_THREADS, MOST_THREADS)
        self._heavy = FairQueue(HEAVY, OWN_HEAVY, MOST_HEAVY)

    async def run(self, work: Callable[[], Result], *, heavy: bool = False) -> Result:
        """`work()` on a thread, when it is the current caller's turn."""
        async with self._heavy if heavy else nullcontext():
            return await anyio.to_thread.run_sync(work, limiter=cast("anyio.CapacityLimiter", self.queue))
