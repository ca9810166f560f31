"""Each touch of Gradio's inside works with the Gradio that is installed."""

from __future__ import annotations

import threading
from typing import Any

import gradio as gr
import httpx
import pytest
from starlette.middleware import Middleware

from lib.ui.events import Page
from lib.ui.http.callers import current_caller
from lib.ui.http.fair_queue import FairQueue
from lib.ui.http.gradio_internals import describe_answer, share_threads
from lib.ui.http.middleware import ApiMiddleware


class Recorded(FairQueue):
    """A queue that notes who took a turn."""

    def __init__(self) -> None:
        super().__init__(4, 4, 4)
        self.callers: list[str] = []

    async def __aenter__(self) -> None:
        self.callers.append(current_caller())
        await super().__aenter__()


def test_an_endpoint_is_listed_with_the_schema_of_its_answer() -> None:
    """In `/gradio_api/info`, from which "Use via API" and gradio_client read."""

    def ask(number: int) -> dict[str, Any]:
        return {"number": number}

    schema = {"type": "object", "properties": {"number": {"type": "integer", "description": "The number."}}}
    with gr.Blocks(analytics_enabled=False) as page:
        gr.api(ask, api_name="ask")
        describe_answer(lambda: schema)
    (returned,) = page.get_api_info()["named_endpoints"]["/ask"]["returns"]
    assert returned["type"] == schema


@pytest.mark.parametrize("queued", [True, False])
def test_an_event_of_the_page_takes_its_turn_in_the_name_of_its_caller(queued: bool) -> None:
    """Those that wait in Gradio's queue, and those that do not."""
    threads = list[str]()
    with Page(analytics_enabled=False) as page:
        gr.Button().click(lambda: threads.append(threading.current_thread().name), api_name="press", api_visibility="private", queue=queued)
    queue = Recorded()
    share_threads(page, queue)
    door = Middleware(ApiMiddleware, endpoints={}, public=dict)
    options: Any = {"app_kwargs": {"middleware": [door]}, "ssr_mode": False, "quiet": True}
    _, url, _ = page.launch(server_name="127.0.0.1", prevent_thread_lock=True, inbrowser=False, **options)
    try:
        call = {"data": [], "fn_index": 0, "session_hash": "s"}
        if queued:
            assert httpx.post(f"{url}gradio_api/queue/join", json=call).is_success
            assert "process_completed" in httpx.get(f"{url}gradio_api/queue/data", params={"session_hash": "s"}, timeout=60).text
        else:
            assert httpx.post(f"{url}gradio_api/run/predict", json=call).is_success
    finally:
        page.close(verbose=False)
    assert len(threads) == 1
    assert set(queue.callers) == {"address 127.0.0.1"}
    assert not queue._turns._running
