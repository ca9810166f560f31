"""What runs of the live demo share: their turn on the device, and faults that become scenes like any other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import gradio as gr

from lib.errors import AdvisorError
from lib.live.device_queue import turn, width
from lib.ui.http.api import FAILED

log = logging.getLogger(__name__)

Scene = TypeVar("Scene")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScene:
    """One picture of a measurement or a heartbeat; `card` None leaves the last one."""

    status: str = ""
    card: str | None = None
    busy: bool = False

    def updates(self) -> list[Any]:
        """One value for each output."""
        card = gr.skip() if self.card is None else self.card
        return [self.status, card, gr.update(interactive=not self.busy), gr.update(visible=self.busy)]


def queue_options(queue: str) -> dict[str, Any]:
    """Options of an event that waits its turn with the endpoints of the same device queue; Gradio shows how many are before it.

    An event of the page and a call of the API so come one after the other.
    """
    return {"concurrency_limit": width(queue), "concurrency_id": queue, "api_visibility": "private", "show_progress": "minimal"}


@contextmanager
def close_on_exit(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """The items, closed when the block is left: what runs behind a generator runs no longer than it is listened to."""
    try:
        yield items
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


class ButtonScene(Protocol):
    """A scene as far as its buttons are concerned: the last two updates are those of the button that runs and of the one that stops."""

    @property
    def busy(self) -> bool:
        """Whether something runs."""
        ...

    def updates(self) -> list[Any]:
        """One value for each output."""
        ...


def scene_updates(scene_stream: Iterable[ButtonScene]) -> Iterator[list[Any]]:
    """The scenes' updates.

    The buttons are updated only when they change, otherwise Gradio re-renders the Stop button while it is being clicked.
    """
    before: bool | None = None
    for scene in scene_stream:
        values = scene.updates()
        yield values if scene.busy != before else [*values[:-2], gr.skip(), gr.skip()]
        before = scene.busy


def scenes(work: Callable[[], Iterator[Scene]], queue: str, failed: Callable[[str], Scene]) -> Iterator[Scene]:
    """What a run shows, one scene after the other; whatever goes wrong in the middle is the last scene.

    Closed early (the visitor pressed Stop or left) it closes the run, which ends what runs on the device.
    """
    try:
        with turn(queue), close_on_exit(work()) as scene_stream:
            yield from scene_stream
    except AdvisorError as refused:
        yield failed(str(refused))
    except Exception:
        log.exception("a run of the live demo failed")
        yield failed(FAILED)
