"""Turns on the device: how many calls use it at a time, how many may wait for it, and for how long.

A call of the page or the API waits in Gradio's own queue, a call over MCP in a queue of `lib.ui.http.mcp`: neither knows of the other, and
both let a call wait without a thread. Whichever way it came, a call then takes a turn here:

    queue          what takes a turn              at a time                      refused after
    "chat"         a call of the chat             1; on ZeroGPU 8                120 s
    "device"       a measurement, a heartbeat     1; on ZeroGPU 8                120 s
    the hardware   every run on the device        1; on ZeroGPU without limit    30 s, the chat 120 s

Two runs at a time would take each other's time and be counted in each other's memory, so a chat and a measurement share the hardware.
Their calls have separate queues, so that neither fills the waiting places of the other. On ZeroGPU nothing is shared: each call gets a GPU
of its own, and the platform's scheduler knows who waits for one. There a queue lets several calls in, so that one visitor's turn in the
scheduler's queue is not every other's.

Gradio bounds only the length of all its queues together. One caller could fill it with chat calls of up to two minutes each. The page waits
in the same queue, so no visitor could open it for hours. So at most `DEVICE_QUEUE_SLOTS` calls wait for each of these queues on each way,
with at most `OWN_QUEUE_SLOTS` from one caller. The next one is refused immediately.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from lib.errors import AdvisorError, Busy, LiveError
from lib.live.device import on_zero_gpu

CHAT, DEVICE = "chat", "device"
QUEUES = frozenset({CHAT, DEVICE})
"""Names of the queues, which are the `concurrency_id` of Gradio's events too."""
WAIT_S = 120.0
HARDWARE_WAIT_S = 30.0
DEVICE_QUEUE_SLOTS = 20
OWN_QUEUE_SLOTS = 5
"""Of one login or network address, behind which a whole classroom may sit."""
ZEROGPU_WIDTH = 8
"""Calls that are passed on at once: each is a process of its own here until it ends, and a thread of Gradio's forty."""


class Occupied(Busy):
    """The device did not become free in time, or too many wait for it."""

    def __init__(
        self, sentence: str = "The device is at work for others, and this call did not get its turn. Try again in a minute."
    ) -> None:
        super().__init__(sentence)


def _hardware_occupied() -> LiveError:
    return LiveError(
        "Another measurement or an answer of the chat runs on this device, and two at a time would measure each other. "
        "Nothing was started. Try again in a minute."
    )


class DeviceQueue:
    """A queue in which at most `width` calls have their turn at a time; None sets no limit."""

    def __init__(self, width: int | None = 1) -> None:
        """No caller has a turn yet."""
        self._free = None if width is None else threading.Semaphore(width)

    def acquire(self, wait_s: float) -> bool:
        """Take a turn, waiting at most `wait_s` seconds for it; whether it was granted. Give it back with `release`."""
        return self._free is None or self._free.acquire(timeout=wait_s)

    def release(self) -> None:
        """Give a turn back, on whichever thread."""
        if self._free is not None:
            self._free.release()

    @contextmanager
    def turn(self, wait_s: float = WAIT_S, refusal: Callable[[], AdvisorError] = Occupied) -> Iterator[None]:
        """A turn for as long as the block lasts. A generator's block may be left on another thread than the one that entered it.

        Raises:
            AdvisorError: `refusal`, when no turn was granted within `wait_s` seconds.
        """
        if not self.acquire(wait_s):
            raise refusal()
        try:
            yield
        finally:
            self.release()


_queues: dict[str, DeviceQueue] = {}
_hardware, _unlimited = DeviceQueue(), DeviceQueue(None)


def width(queue: str) -> int:
    """How many calls of this queue have their turn at a time where the app runs; Gradio's `concurrency_limit` of its events too."""
    return ZEROGPU_WIDTH if queue in QUEUES and on_zero_gpu() else 1


@contextmanager
def turn(queue: str | None, wait_s: float = WAIT_S) -> Iterator[None]:
    """A turn in the queue of this name while the block runs; with None there is neither a queue nor a wait.

    Raises:
        Occupied: no turn was granted in time.
    """
    if queue is None:
        yield
        return
    with _queues.setdefault(queue, DeviceQueue(width(queue))).turn(wait_s):
        yield


def hardware() -> DeviceQueue:
    """The queue for the hardware of this machine; on ZeroGPU each call has hardware of its own and does not wait."""
    return _unlimited if on_zero_gpu() else _hardware


@contextmanager
def hardware_turn(wait_s: float = HARDWARE_WAIT_S) -> Iterator[None]:
    """The hardware for one run while the block lasts."""
    with hardware().turn(wait_s, _hardware_occupied):
        yield


def check_queue_slot(waiting: Sequence[Hashable], caller: Hashable = None, places: int = DEVICE_QUEUE_SLOTS) -> None:
    """Let one more call of this caller wait, where a call of each of `waiting` waits already."""
    own = waiting.count(caller)
    if len(waiting) >= places:
        raise Occupied(f"{len(waiting)} calls wait for the device, and this one would be number {places + 1}. Try again in some minutes.")
    if own >= min(OWN_QUEUE_SLOTS, places):
        raise Occupied(
            f"{own} calls from your account or network address wait for the device already, of {len(waiting)} in all. "
            "Let one of them end, then send this one again."
        )
