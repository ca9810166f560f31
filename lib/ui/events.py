"""How the page's events are wired: what counts as a visitor's change, the options that they share, and boxes that answer while open.

Every event of the page is private, and most bypass Gradio's queue: an answer takes milliseconds. While one answer of an event is under way
only its last change waits (`trigger_mode="always_last"`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

if TYPE_CHECKING:
    from gradio.events import Dependency

AT_ONCE: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
"""Options of an event that is answered past the queue, without a sign of progress."""


def changes(components: Iterable[Any]) -> list[Any]:
    """The events that tell a visitor's change of these components.

    A slider's number box takes any value while it is typed (Gradio refuses one beyond the range) and puts it into the range when it is
    left, which only `change` tells.
    """
    return [event for c in components for event in ((c.input, c.change) if isinstance(c, gr.Slider) else (c.input,))]


def follow(events: Sequence[Any], answer: Callable[..., Any], inputs: Sequence[Any], outputs: Sequence[Any], name: str) -> Dependency:
    """Answer at each of the events; the last one wins."""
    dependency: Dependency = gr.on(events, answer, inputs, outputs, trigger_mode="always_last", api_name=name, **AT_ONCE)
    return dependency


def wire_box(
    box: gr.Accordion,
    is_open: gr.State,
    answer: Callable[..., list[Any]],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    follows: Sequence[Any],
    name: str,
) -> None:
    """A box that answers when it is opened, and at each event of `follows` while it is open. `answer` gives one value for each output."""

    def expand(*values: Any) -> list[Any]:
        return [True, *answer(*values)]

    def update(opened: bool, *values: Any) -> Any:
        updates = answer(*values) if opened else [gr.skip() for _ in outputs]
        return updates if len(updates) > 1 else updates[0]

    def collapse() -> bool:
        return False

    box.expand(expand, inputs, [is_open, *outputs], api_name=f"{name}_opened", **AT_ONCE)
    box.collapse(collapse, None, is_open, api_name=f"{name}_closed", **AT_ONCE)
    follow(follows, update, [is_open, *inputs], outputs, f"{name}_changed")
