"""What Gradio keeps of its sessions, in a small app over real HTTP: nothing of a call that is over, the state of the page's visitors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import gradio as gr
import httpx
import pytest
from gradio.state_holder import SessionState
from starlette.middleware import Middleware

from lib.live.device_queue import DEVICE
from lib.service.endpoint import Endpoint
from lib.ui.http.callers import ANSWER_S, CAPACITY, MOST_STREAMS, Sessions, begin_without_settings, crowded_stream
from lib.ui.http.middleware import ApiMiddleware

MIB = 2**20


def length(model: str) -> dict[str, int]:
    """A question."""
    return {"characters": len(model)}


class App:
    """A page with a public question (0) and an event that counts in a state (1)."""

    def __init__(self) -> None:
        """Launched on a port of its own; nothing is swept unless a test does it."""
        with gr.Blocks() as self.page:
            gr.api(length, api_name="length")
            text, count, state = gr.Textbox(), gr.Number(), gr.State(0)
            text.submit(lambda _, n: (n + 1, n + 1), [text, state], [count, state], api_name="counted", api_visibility="private")
        self.page.queue(max_size=200, default_concurrency_limit=40, api_open=False)
        self.sessions = Sessions(self.page)
        self.sessions._sweep_until_empty = self._skip_sweep  # type: ignore[method-assign]
        asked = {"length": Endpoint(question=length, queue=DEVICE)}  # one without a queue would not come to Gradio
        door = Middleware(ApiMiddleware, endpoints=asked, public=lambda: {0: "length"}, sessions=self.sessions)
        app_kwargs = {"middleware": [door]}
        _, url, _ = self.page.launch(
            prevent_thread_lock=True, quiet=True, app_kwargs=app_kwargs, ssr_mode=False, state_session_capacity=CAPACITY
        )
        self.client = httpx.Client(base_url=f"{url.rstrip('/')}/gradio_api", timeout=60)

    async def _skip_sweep(self) -> None:
        return

    def call(self, model: str) -> str:
        """One call by name, not read; its event id."""
        return str(self.client.post("/call/length", json={"data": [model]}).raise_for_status().json()["event_id"])

    def read(self, event: str) -> str:
        """The stream of one call's answer."""
        return self.client.get(f"/call/length/{event}").text

    def count(self, session: str, text: str = "x") -> int:
        """The page's event in one session, waited for; what it counted."""
        body = {"data": [text, None], "fn_index": 1, "session_hash": session}
        self.client.post("/queue/join", json=body).raise_for_status()
        lines = self.client.get("/queue/data", params={"session_hash": session}).text.splitlines()
        last = [json.loads(line.removeprefix("data: ")) for line in lines if "process_completed" in line][-1]
        return int(last["output"]["data"][0])

    def wait_for_calls(self) -> None:
        """Wait until no call runs."""
        while self.page._queue.event_ids_to_events:
            self.client.get("/info")

    def count_kept(self) -> tuple[int, int, int]:
        """How many sessions, answers and lists of unread answers Gradio keeps."""
        queue = self.page._queue
        return len(self.page.state_holder.session_data), len(queue.pending_messages_per_session), len(queue.pending_event_ids_session)


@pytest.fixture
def app() -> Iterator[App]:
    """The app, ended after the test."""
    started = App()
    yield started
    started.client.close()
    started.page.close()


def test_a_call_that_was_read_leaves_nothing(app: App) -> None:
    """The answer arrives as ever; the sweep after it empties every table."""
    assert '"characters": 2' in app.read(app.call("7B"))
    app.wait_for_calls()
    assert app.count_kept() == (1, 1, 1)
    assert app.sessions.sweep(0.0) is False
    assert app.count_kept() == (0, 0, 0)


def test_an_unread_answer_can_be_read_for_a_minute(app: App) -> None:
    """Its session is dropped at once, the answer stays until its time is up."""
    early, late = app.call("7B"), app.call("8B")
    app.wait_for_calls()
    assert app.sessions.sweep(0.0) is True
    assert app.count_kept() == (0, 2, 2)
    assert app.sessions.sweep(ANSWER_S - 1) is True
    assert '"characters": 2' in app.read(early)
    assert app.sessions.sweep(ANSWER_S) is False
    assert app.count_kept() == (0, 0, 0)
    gone = app.client.get(f"/call/length/{late}")
    assert (gone.status_code, "Call again" in gone.json()["error"]) == (404, True)


def test_a_visitor_of_the_page_keeps_the_state_and_no_copy_of_what_was_sent(app: App) -> None:
    """The state counts on after sweeps; the text that came in is in no table."""
    assert app.count("visitor", "pasted " * 1000) == 1
    app.wait_for_calls()
    state = app.page.state_holder.session_data["visitor"]
    assert "pasted" in str(state.config_values)
    app.sessions.sweep(0.0)
    assert app.count_kept() == (1, 0, 0)
    assert state.config_values == {}
    assert app.count("visitor") == 2
    assert app.count("other") == 1


def test_one_session_has_few_streams_at_a_time(app: App) -> None:
    """Gradio fails, with a traceback in the log, in every stream of a session but the first that is closed; who opens many is refused."""
    app.sessions.streams["greedy"] = MOST_STREAMS
    app.client.post("/queue/join", json={"data": ["x", None], "fn_index": 1, "session_hash": "greedy"}).raise_for_status()
    refused = app.client.get("/queue/data", params={"session_hash": "greedy"})
    assert (refused.status_code, refused.json()["error"]) == (429, crowded_stream())
    assert app.count("visitor") == 1
    limit = time.monotonic() + 20  # the server ends a stream after its last byte has been read
    while "visitor" in app.sessions.streams and time.monotonic() < limit:
        time.sleep(0.01)
    assert app.sessions.streams == {"greedy": MOST_STREAMS}


def test_many_sessions_stay_within_the_capacity(app: App) -> None:
    """A crowd of calls between two sweeps is bounded by Gradio's own setting, and gone with the next sweep."""
    assert app.page.state_holder.capacity == CAPACITY
    app.count("visitor")
    for _ in range(CAPACITY // 10):
        app.call("7B")
    app.wait_for_calls()
    assert app.count_kept()[0] <= CAPACITY
    app.sessions.sweep(0.0)
    app.sessions.sweep(ANSWER_S)
    assert app.count_kept() == (1, 0, 0)
    for _ in range(CAPACITY + 20):
        app.sessions._of_the_page[uuid4().hex] = None
    app.count("late")
    assert len(app.sessions._of_the_page) == CAPACITY


def resident_mib() -> float:
    """Resident memory of this process, which serves the app too."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / MIB


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's own figures")
def test_hostile_bodies_leave_memory_flat(app: App) -> None:
    """2 MB of empty lists a time: refused with a sentence; let in, twenty of them would take more than a gigabyte."""
    body = b'{"data": [[' + b"[]," * 650_000 + b"[]]]}"
    app.client.post("/call/length", content=body)
    before = resident_mib()
    for _ in range(20):
        refused = app.client.post("/call/length", content=body)
        assert refused.status_code == 422
        assert "at most 10,000 values" in refused.json()["error"]
    assert resident_mib() - before < 100
    assert app.count_kept() == (0, 0, 0)


def test_a_session_begins_without_the_settings_of_every_component(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for twice, as by two launches in one process: no setting is collected, and state and components are there."""
    monkeypatch.setattr(SessionState, "__init__", SessionState.__init__)  # put back after the test
    with gr.Blocks() as page:
        text, state = gr.Textbox("7B"), gr.State([1])
    begin_without_settings()
    begin_without_settings()
    monkeypatch.setattr(page.default_config, "config_for_block", lambda *_: pytest.fail("a setting was collected"))
    session = SessionState(page)
    assert (session.config_values, session[state._id]) == ({}, [1])
    assert session[text._id] is text
