"""How the page's events are wired: what counts as a visitor's change, the options that they share, and boxes that answer while open.

`Page` is the Blocks that they belong to: whatever goes wrong in one of its events leaves it as a sentence.

Every event of the page is private, and most bypass Gradio's queue: an answer takes milliseconds. While one answer of an event is under way
only its last change waits (`trigger_mode="always_last"`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.ui.http.api import gradio_error, refusing

if TYPE_CHECKING:
    from gradio.events import Dependency

OUTDATED = (
    "A field of the page cannot hold the value that was sent for it, or values are missing. Correct what was changed last; if nothing is "
    "wrong with it, load the page again: it may be older than the app."
)


class Page(gr.Blocks):
    """Blocks whose events refuse in sentences: Gradio's own refusals quote what was sent, or say nothing."""

    async def preprocess_data(self, *args: Any, **named: Any) -> Any:
        """What the function of an event gets of the values that were sent.

        Raises:
            gr.Error: they are not those of its fields.
        """
        try:
            return await super().preprocess_data(*args, **named)
        except Exception:  # noqa: BLE001  components raise all kinds
            raise gradio_error(OUTDATED, "invalid_input") from None

    async def process_api(self, block_fn: Any, inputs: list[Any], *args: Any, **named: Any) -> Any:
        """The answer of an event.

        Raises:
            gr.Error: a refusal, or a sentence without details where the mistake is ours.
        """
        if block_fn.api_visibility == "public":  # its own function does all this (`lib.ui.http.api.wrap_question`)
            return await super().process_api(block_fn, inputs, *args, **named)
        with refusing("event", block_fn.api_name, gradio_error, inputs) as progress:
            answer = await super().process_api(block_fn, inputs, *args, **named)
            progress.unfinished = bool(answer.get("is_generating"))  # Gradio asks once for each piece of a stream
            return answer


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
    """A box that answers when it is opened, and at each event of `follows` while it is open. `answer` gives one value for each output.

    Opening only sets `is_open`, and one event answers that and the changes: were they two, a change made while the opening is answered
    would be lost, or overwritten by the older answer. Opening takes the queue, because Gradio announces a State's change only there.
    """
    queued: dict[str, Any] = {**AT_ONCE, "queue": True, "concurrency_limit": None}

    def update(opened: bool, *values: Any) -> Any:
        updates = answer(*values) if opened else [gr.skip() for _ in outputs]
        return updates if len(updates) > 1 else updates[0]

    box.expand(lambda: True, None, is_open, api_name=f"{name}_opened", **queued)
    box.collapse(lambda: False, None, is_open, api_name=f"{name}_closed", **queued)
    follow([is_open.change, *follows], update, [is_open, *inputs], outputs, f"{name}_changed")
