"""Gradio's session data is released as soon as no page can need it.

Every call over `POST /gradio_api/call/NAME` is a session of its own to Gradio. Of each of 10,000 of them it keeps the settings of every
component on the page (0.3 MB, and again what came in and went out, a pasted config.json too), and of 2,000 the answers that no client
fetched.

Here:

- no session begins with the settings of every component, which serve nothing but the "deep links" that are closed here
  (`lib.ui.http.middleware`): to collect them takes 30 ms of the thread that serves everybody, for each call;
- a session that only asked public questions is dropped when its calls have ended: they touch no component and keep no state;
- a session of the page keeps its state (`gr.State`), up to `CAPACITY` sessions, and loses the settings that Gradio notes as they change;
- an answer is dropped when it was read, or `ANSWER_S` after the last call of its session ended.

Gradio offers the capacity as a setting and nothing for the rest, so the rest reads and deletes in its own tables: `state_holder.py` and
`queueing.py` of gradio 6.31. `tests/ui/http/test_sessions.py` holds them to what is written here.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradio.state_holder import SessionState

if TYPE_CHECKING:
    import gradio as gr
    from gradio.blocks import Block, BlocksConfig

CAPACITY = 500
ANSWER_S = 60.0
MOST_STREAMS = 2
"""Of one session at a time: a page reads one, and may open the next before the last has ended. Gradio gives each message to one of them,
and fails in each but the first that is closed."""
_EVERY_S = 0.5


def no_answer() -> str:
    """The sentence for an event_id under which nothing is kept."""
    return f"There is no answer under this event_id: it was read, or nobody read it for {ANSWER_S:g} s, or it never was. Call again."


def crowded_stream() -> str:
    """The sentence for one stream too many."""
    return f"{MOST_STREAMS} streams of this session (session_hash) are open already. Read the answers from one of them, or close it."


@dataclass(frozen=True, slots=True)
class _NoSettings:
    """A page as a new session reads it: with its functions, and without components whose settings to collect."""

    default_config: BlocksConfig
    blocks: Mapping[int, Block] = field(default_factory=dict)


def begin_without_settings() -> None:
    """From now on sessions of any page in this process begin so."""
    begin = SessionState.__init__
    if begin.__module__ != __name__:

        def __init__(self: SessionState, blocks: gr.Blocks) -> None:  # noqa: N807  in place of Gradio's
            begin(self, _NoSettings(blocks.default_config))  # type: ignore[arg-type]

        SessionState.__init__ = __init__  # type: ignore[method-assign]


class Sessions:
    """The sessions of a page. For the event loop that serves it, and no other thread."""

    def __init__(self, page: gr.Blocks) -> None:
        """Nothing is watched before the first call."""
        self._page = page
        self._of_the_page: OrderedDict[str, None] = OrderedDict()
        self._ended: dict[str, float] = {}
        self._watch: asyncio.Task[None] | None = None
        self.streams: Counter[str] = Counter()

    def watch(self, session: object, *, of_the_page: bool) -> None:
        """A call of this session is passed on; it calls an event of the page, or else a public question. Sweeps until nothing is left."""
        if of_the_page and isinstance(session, str):
            self._of_the_page[session] = None
            self._of_the_page.move_to_end(session)
            while len(self._of_the_page) > CAPACITY:
                self._of_the_page.popitem(last=False)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._sweep_until_empty())

    def has_answer(self, event: str) -> bool:
        """Whether a call of this event id runs, or its answer waits to be read."""
        queue = self._page._queue  # noqa: SLF001  as below
        return event in queue.event_ids_to_events or any(event in unread for unread in queue.pending_event_ids_session.values())

    def has_stream(self, session: str | None) -> bool:
        """Whether messages of this session's calls wait to be read, or will."""
        return session in self._page._queue.pending_messages_per_session  # noqa: SLF001  as below

    @contextmanager
    def stream(self, session: str) -> Iterator[None]:
        """Count a stream of this session as open while the block runs."""
        self.streams[session] += 1
        try:
            yield
        finally:
            self.streams[session] -= 1
            self.streams += Counter()  # without sessions that have none

    async def _sweep_until_empty(self) -> None:
        waiting = True
        while waiting:
            await asyncio.sleep(_EVERY_S)
            waiting = self.sweep(time.monotonic())

    def sweep(self, now: float) -> bool:
        """Drop what is over at `now`, in seconds; whether a call still runs or an answer still waits to be read."""
        queue, holder = self._page._queue, self._page.state_holder  # noqa: SLF001  Gradio tells it nowhere else
        running = {event.session_hash for event in queue.event_ids_to_events.values()}
        for session, state in list(holder.session_data.items()):
            if session in running:
                continue
            if session in self._of_the_page:
                state.config_values.clear()
            else:
                del holder.session_data[session]
                holder.time_last_used.pop(session, None)
        answers, unread = queue.pending_messages_per_session, queue.pending_event_ids_session
        for session in {*answers, *unread} - running:
            if unread.get(session) and now - self._ended.setdefault(session, now) < ANSWER_S:
                continue
            answers.pop(session, None)
            unread.pop(session, None)
        self._ended = {session: ended for session, ended in self._ended.items() if session in unread and session not in running}
        return bool(running or unread)
