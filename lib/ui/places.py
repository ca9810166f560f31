"""How many may wait for what is one at a time.

Gradio bounds only the length of all its queues together. A single stranger could so fill that with calls of the chat, each of which takes
up to two minutes, and for hours nobody could as much as open the page, which waits in the same place. So each slot (`lib.ui.turns`) has
places of its own, and who finds them taken is told so at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lib.ui.turns import SLOTS, Occupied

if TYPE_CHECKING:
    import gradio as gr

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
