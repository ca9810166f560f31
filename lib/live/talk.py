"""Conversations, one after the other: the model is waited for, then the device, then the answer streams.

On ZeroGPU the platform gives each conversation its GPU and its place in the queue. Elsewhere there is one device and one answer at a
time: two at once would take each other's time and be counted in each other's memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from lib.errors import NoGpuFree
from lib.live.chat import LIFE_S, Piece, answer
from lib.live.demo import ROOM, DemoModel, Loaded
from lib.live.device import Device, Size, at_hand, on_zero_gpu
from lib.live.fetch import Note
from lib.live.isolated import AT_WORK
from lib.live.zero import gpu_task, size_for, start_seconds

WAIT_S = 120.0
"""Before somebody who waits for the device is told to come back."""


@dataclass(slots=True)
class Waiting:
    """A model on its way: what is going on, and what came of it."""

    note: Note = "Looking at the device."
    found: tuple[Loaded, Device] | None = None
    failure: Exception | None = None
    started: float = field(default_factory=time.monotonic)

    def tell(self, note: Note) -> None:
        """What is going on now."""
        self.note = note

    def piece(self) -> Piece:
        """A sign of life."""
        words = self.note if isinstance(self.note, str) else self.note()
        return Piece(stage="loading", note=f"{words} ({time.monotonic() - self.started:.0f} s)")


class Talk:
    """The model, the device and whose turn it is. Make it before the app is launched."""

    def __init__(self, demo: DemoModel) -> None:
        """Talk to this model."""
        self._demo = demo
        self._answer = gpu_task(self._on_device, duration=self.declared, size=self.size, doing="answering")

    def declared(self, _ids: object, _limit: object, _temperature: object, seconds: float) -> float:
        """Seconds to ask of the quota: those of the answer, and those until the model is on the GPU."""
        held = self._demo.held
        return seconds + start_seconds(held.weights_bytes if held is not None else 0)

    def size(self, *_: object) -> Size:
        """The size of GPU that the model needs, on ZeroGPU."""
        held = self._demo.held
        return "large" if held is None else size_for(held.weights_bytes * ROOM)

    def ready(self) -> Generator[Piece | tuple[Loaded, Device], None, None]:
        """Signs of life until the model is loaded, then the model and the device it is on. Abandoned, loading goes on for the next one.

        Raises:
            ModelNotAtHand: it cannot be had.
            LiveError: the device failed to take it.
        """
        held = self._demo.held
        if held is not None:
            yield held, at_hand(self.size())
            return
        waiting = Waiting()
        thread = threading.Thread(target=self._load, args=(waiting,), daemon=True, name="load")
        thread.start()
        while thread.is_alive():
            yield waiting.piece()
            thread.join(LIFE_S)
        if waiting.failure is not None:
            raise waiting.failure
        assert waiting.found is not None, "loaded or failed"  # noqa: S101 the thread does one of the two
        yield waiting.found

    def _load(self, waiting: Waiting) -> None:
        try:
            device = at_hand()
            waiting.found = self._demo.load(device, waiting.tell), device
        except Exception as error:  # noqa: BLE001 raised by the one who waits
            waiting.failure = error

    def _on_device(self, ids: list[int], limit: int, temperature: float, seconds: float) -> Generator[Piece, None, None]:
        held = self._demo.held
        assert held is not None, "asked for when ready"  # noqa: S101 `say` is called after `ready`
        yield from answer(held, ids, limit, temperature, seconds)

    def say(self, ids: list[int], limit: int, temperature: float, seconds: float) -> Generator[Piece, None, None]:
        """The answer, when it is this conversation's turn. Call it after `ready`.

        Raises:
            NoGpuFree: others kept the device busy for too long.
            LiveError: ZeroGPU refused, or the device failed.
        """
        own = not on_zero_gpu()
        if own:
            yield from self._wait()
        try:
            with closing(self._answer(ids, limit, temperature, seconds)) as pieces:
                yield from pieces
        finally:
            if own:
                AT_WORK.release()

    def _wait(self) -> Iterator[Piece]:
        until = time.monotonic() + WAIT_S
        while not AT_WORK.acquire(timeout=LIFE_S):
            if time.monotonic() > until:
                raise NoGpuFree("Others kept the device busy for two minutes, and your message was not read. Next: try again in a minute.")
            yield Piece(stage="waiting", note="The device answers somebody else or measures something; your message waits for its turn.")
