"""Who may wait for the device in Gradio's own queue, and whose turn comes first.

Gradio bounds the length of all its queues together and serves them first come, first served. Here each device queue has a bounded number
of waiting places, a caller few of them (`lib.live.device_queue`), and callers take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lib.live.device_queue import QUEUES, WAITING_PLACES, check_waiting_place
from lib.ui.http.callers import KEY

if TYPE_CHECKING:
    import gradio as gr
    from gradio.queueing import Event


class WaitingPlaces:
    """The waiting places before each device queue of a page. For the event loop that serves it, and no other thread."""

    def __init__(self, page: gr.Blocks, places: int = WAITING_PLACES) -> None:
        """`page` says which of its functions wait for the device, and which events wait in Gradio's queue."""
        self._page, self._places = page, places
        self._arriving: list[tuple[str, Hashable]] = []

    def queue_of(self, number: object) -> str | None:
        """The device queue that the page's function of this number waits in; None where it waits in none."""
        fn = self._page.fns.get(number) if type(number) is int else None
        return fn.concurrency_id if fn is not None and fn.queue and fn.concurrency_id in QUEUES else None

    @contextmanager
    def place(self, queue: str | None, caller: Hashable = None) -> Iterator[None]:
        """A place for the call that is passed on within the block; calls on their way into Gradio's queue count as well.

        Raises:
            Occupied: every place is taken, or every place of this caller's.
        """
        if queue is None:
            yield
            return
        coming = [of for name, of in self._arriving if name == queue]
        check_waiting_place([*coming, *map(_caller_of_event, self._waiting(queue))], caller, self._places)
        self._arriving.append((queue, caller))
        try:
            yield
        finally:
            self._arriving.remove((queue, caller))
            self._take_turns(queue)

    def _waiting(self, queue: str) -> list[Event]:
        events = self._page._queue.event_queue_per_concurrency_id.get(queue)  # noqa: SLF001  Gradio tells it nowhere else
        return events.queue if events is not None else []

    def _take_turns(self, queue: str) -> None:
        """The first waiting call of each caller goes before everybody's second."""
        events, passed = self._waiting(queue), Counter[Hashable]()
        ranks: dict[str, int] = {}
        for event in events:
            ranks[event._id] = passed[_caller_of_event(event)]  # noqa: SLF001  as above
            passed[_caller_of_event(event)] += 1
        events.sort(key=lambda event: ranks[event._id])  # noqa: SLF001  as above


def _caller_of_event(event: Event) -> Hashable:
    return event.request.scope.get(KEY)
