"""Gradio's inside, touched in one file: each touch with its reason. `tests/ui/http/test_gradio_internals.py` fails when Gradio changes one.

- `prevent_hot_reload`. On a Space (SYSTEM=spaces) Gradio starts a second server, on 0.0.0.0:7887, that reads and writes the app's files
  without a login. No setting turns it off. Without this touch, anybody in the same network may replace the app's code.
- `CallerQueue`. Gradio's queue runs an event on a task that does not know who asked. Without this touch, all of the page's events would
  count as one caller.
- `describe_answer`. Gradio derives the listing of an answer from its Python type, and knows no docstrings of fields. Without this touch,
  "Use via API" says of every answer that it is an object.
- `share_threads`. Gradio gives its threads to the first callers. Without this touch, one visitor's events may hold all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio import http_server
from gradio.context import get_blocks_context
from gradio.queueing import Queue

from lib.errors import Busy
from lib.ui.http.callers import KEY, become_caller

if TYPE_CHECKING:
    from lib.ui.http.fair_queue import FairQueue


_WATCH = "watchfn_spaces"


def prevent_hot_reload() -> None:
    """Let the server that Gradio starts on a Space for edits of the code end before it begins. To call before the launch."""
    vars(http_server)[_WATCH] = lambda _reloader: None


class CallerQueue(Queue):
    """Gradio's queue, whose events run in the name of the caller that sent them."""

    async def process_events(self, events: Any, *arguments: Any) -> None:
        """Run the events, on a task of their own."""
        become_caller(events[0].request.scope.get(KEY))
        await super().process_events(events, *arguments)


def describe_answer(schema: Callable[[], dict[str, Any]]) -> None:
    """List the answer of the endpoint that `gr.api` added last with this schema, made when the list is first asked for."""
    page = get_blocks_context()
    if page is None:
        raise LookupError("describe_answer belongs after gr.api, within the page's Blocks")
    answer = page.fns[max(page.fns)].outputs[0]
    vars(answer)["api_info"] = functools.cache(schema)


def gradio_error(sentence: str, code: str) -> gr.Error:
    """A refusal as Gradio takes it, which it neither prints nor replaces by nothing."""
    return gr.Error(sentence, title=code, print_exception=False)


class _EventTurns:
    """The queue as a limiter of the page's events: a refusal is one that the page shows."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue

    async def __aenter__(self) -> None:
        try:
            await self._queue.__aenter__()
        except Busy as error:
            raise gradio_error(str(error), error.code) from None

    async def __aexit__(self, *told: object) -> None:
        await self._queue.__aexit__(*told)


def share_threads(page: gr.Blocks, queue: FairQueue) -> None:
    """Have the page's events wait in `queue` for their threads. Gradio makes its limiter when the server starts, by `create_limiter`."""

    def create_limiter() -> None:
        page.limiter = _EventTurns(queue)  # type: ignore[assignment]

    page.create_limiter = create_limiter  # type: ignore[method-assign]
