"""Who asks: a login before an address, and of forwarded addresses only what a proxy of the platform's appended.

Whose page a request comes from, requests without their login, and who may put the page into a frame.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio.queueing import EventQueue
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from lib.live.device_queue import OWN_QUEUE_SLOTS, Occupied
from lib.service.endpoint import Endpoint
from lib.ui.http.callers import (
    KEY,
    MOST_EVENTS,
    FrameAncestors,
    QueueSlots,
    caller_of,
    current_caller,
    has_cookies,
    is_foreign,
    is_foreign_logout,
    name_caller,
    strip_login,
)
from lib.ui.http.middleware import ApiMiddleware, holds_file

PROXY = "10.16.3.80"


def scope(forwarded: str | None = None, client: str = PROXY, **further: Any) -> dict[str, Any]:
    """A request over this connection."""
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    return {"type": "http", "headers": headers, "client": (client, 4711), **further}


@pytest.mark.parametrize(
    ("forwarded", "caller"),
    [
        ("203.0.113.9", PROXY),  # kept for documents, so no public address
        ("8.8.8.8", "8.8.8.8"),
        ("1.1.1.1, 8.8.8.8", "8.8.8.8"),  # what stands left, the client may have written itself
        ("1.1.1.1, 8.8.8.8, 10.0.0.7", "8.8.8.8"),
        ("nonsense, ", PROXY),
        (None, PROXY),
        ("2606:4700:1:2:aaaa::1", "2606:4700:1:2::/64"),
        ("2606:4700:1:2:bbbb::2", "2606:4700:1:2::/64"),
        ("1.1.1.1, 8.8.8.8:51234", "8.8.8.8"),  # some proxies write the port
        ("1.1.1.1, [2606:4700:1:2::9]:443", "2606:4700:1:2::/64"),
        ("1.1.1.1, ::ffff:8.8.8.8", "8.8.8.8"),  # else all of IPv4 would be one network of 64 bits
        ("8.8.8.8, unknown", PROXY),  # no proxy wrote that, so what stands left is the client's too
        ("8.8.8.8, 0x08.0x08.0x08.0x08", PROXY),
        ("8.8.8.8, 8.8.8.8%eth0", PROXY),
        ("9.9.9.9, " * 5_000 + "8.8.8.8", "8.8.8.8"),
        (", ".join(["10.0.0.1"] * 5_000), PROXY),
    ],
)
def test_on_a_space_the_rightmost_public_address_counts(monkeypatch: pytest.MonkeyPatch, forwarded: str | None, caller: str) -> None:
    """The platform's proxy appends the address that it saw."""
    monkeypatch.setenv("SPACE_ID", "ada/advisor")
    assert caller_of(scope(forwarded)) == f"address {caller}"


def test_elsewhere_the_header_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says that a proxy stands in front, so anybody could write it."""
    monkeypatch.delenv("SPACE_ID", raising=False)
    assert caller_of(scope("8.8.8.8", client="192.0.2.1")) == "address 192.0.2.1"


def test_a_login_goes_before_the_address() -> None:
    """The session is signed by the server; two visitors behind one address are two."""
    signed = scope(session={"oauth_info": {"userinfo": {"sub": "63fe", "preferred_username": "ada"}}})
    assert caller_of(signed) == "login 63fe"


def test_the_caller_is_known_on_the_thread_that_answers_and_nowhere_else() -> None:
    """Outside a request there is none."""
    before = current_caller()
    named = name_caller(scope(client="192.0.2.1"))
    assert (before, current_caller(), caller_of(named)) == ("", "address 192.0.2.1", "address 192.0.2.1")


FEW = 2


def say(message: str) -> Iterator[dict[str, str]]:
    """A question that streams."""
    yield {"said": message}


@pytest.fixture(scope="module")
def busy_page() -> Iterator[tuple[str, gr.Blocks]]:
    """A page whose slot `chat` is taken until the test is over, behind the door, with two places before it; and its address."""
    done = threading.Event()

    def take(_: str) -> str:
        done.wait(60)
        return ""

    with gr.Blocks() as page:
        field = gr.Textbox()
        field.submit(take, field, field, api_name="taken", api_visibility="private", concurrency_limit=1, concurrency_id="chat")
        field.change(lambda text: text, field, field, api_name="free", api_visibility="private")
        gr.api(say, api_name="say", concurrency_limit=1, concurrency_id="chat")
    page.queue(max_size=200, api_open=False)
    asked = {"say": Endpoint(question=say, queue="chat")}
    door = Middleware(ApiMiddleware, endpoints=asked, public=lambda: {2: "say"}, places=QueueSlots(page, FEW))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, app_kwargs={"middleware": [door]}, ssr_mode=False)
    yield url.rstrip("/"), page
    done.set()
    page.close()


def join(url: str, number: object, session: str) -> httpx.Response:
    """One event of the page."""
    return httpx.post(f"{url}/gradio_api/queue/join", json={"data": ["x"], "fn_index": number, "session_hash": session}, timeout=60)


def test_a_crowd_before_one_slot_is_told_at_once_and_the_rest_of_the_page_answers(busy_page: tuple[str, gr.Blocks]) -> None:
    """One event runs and two wait: the next one is refused by number and by name alike, while an event without a slot is taken."""
    url, page = busy_page
    assert join(url, 0, "first").status_code == 200
    waiting = page._queue.event_queue_per_concurrency_id["chat"]
    for _ in range(200):  # until the first one runs and so has left the queue
        if not waiting.queue:
            break
        threading.Event().wait(0.05)
    assert [join(url, 0, f"s{at}").status_code for at in range(FEW)] == [200, 200]
    refused = join(url, 0, "late")
    by_name = httpx.post(f"{url}/gradio_api/call/say", json={"data": ["x"]}, timeout=60)
    assert (refused.status_code, by_name.status_code) == (503, 503)
    assert refused.json()["title"] == "busy"
    assert len(waiting.queue) == FEW
    assert join(url, 1, "other").status_code == 200


@pytest.mark.parametrize("number", ["0", 0.0, True, [0]])
def test_a_number_that_gradio_would_read_its_own_way_is_refused(busy_page: tuple[str, gr.Blocks], number: object) -> None:
    """Otherwise "0" would be function 0 to Gradio, and none with a slot to the door."""
    answer = join(busy_page[0], number, "odd")
    assert (answer.status_code, "fn_index" in answer.text) == (422, True)


def test_calls_on_their_way_into_the_queue_count() -> None:
    """Three at once, before Gradio has counted any: the third finds no place, and each place is free again afterwards."""
    places = QueueSlots(gr.Blocks(), FEW)
    with places.place("chat"), places.place("chat"), pytest.raises(Occupied), places.place("chat"):
        pytest.fail("a third place was given")
    with places.place("chat"), places.place(None):
        pass


class Waiting:
    """An event of Gradio's queue."""

    def __init__(self, name: str, caller: str) -> None:
        """One that this caller asked for."""
        self._id, self.request = name, SimpleNamespace(scope={KEY: caller})


def test_one_caller_has_few_of_the_places_and_the_first_call_of_each_goes_first() -> None:
    """A stranger's sixth call finds no place although fifteen are free; ada's first then waits behind the stranger's first alone."""
    page = gr.Blocks()
    places, line = QueueSlots(page), EventQueue("chat", 1)
    page._queue.event_queue_per_concurrency_id["chat"] = line
    for at in range(OWN_QUEUE_SLOTS):
        with places.place("chat", "stranger"):
            line.queue.append(Waiting(f"s{at}", "stranger"))  # type: ignore[arg-type]
    with pytest.raises(Occupied, match="5 calls from your account or network address wait"), places.place("chat", "stranger"):
        pytest.fail("a sixth place was given")
    with places.place("chat", "ada"):
        line.queue.append(Waiting("a0", "ada"))  # type: ignore[arg-type]
    assert [event._id for event in line.queue] == ["s0", "a0", "s1", "s2", "s3", "s4"]


def test_a_wide_slot_has_places_too() -> None:
    """On ZeroGPU several run at once (`lib.live.device_queue.width`), and the crowd before them is as bounded."""
    with gr.Blocks() as page:
        gr.api(say, api_name="say", concurrency_limit=8, concurrency_id="chat")
        gr.api(say, api_name="other", queue=False)
    assert [QueueSlots(page).queue_of(number) for number in page.fns] == ["chat", None]


def test_one_caller_never_has_all_of_the_events_of_the_page() -> None:
    """A caller may have half of the free places, so a caller who has none still finds one."""
    page = gr.Blocks()
    places, running = QueueSlots(page), page._queue.event_ids_to_events

    def send(caller: str) -> None:
        for _ in range(MOST_EVENTS):
            with places.place("7", caller):
                running[f"event {len(running)}"] = Waiting("", caller)  # type: ignore[assignment]

    for caller in ("stranger", "other", "third", "ada"):
        with pytest.raises(Occupied, match="are not answered yet"):
            send(caller)
    shares = Counter(event.request.scope[KEY] for event in running.values())
    assert shares["stranger"] < MOST_EVENTS / 2
    assert shares["ada"] > MOST_EVENTS / 20


@pytest.mark.parametrize("path", ["deep_link?session_hash=first", "dev/reload", "upload", "process_recording"])
def test_what_the_page_does_not_use_is_closed(busy_page: tuple[str, gr.Blocks], path: str) -> None:
    """Those routes write files for strangers, or hold a connection for nothing."""
    method = "POST" if path in ("upload", "process_recording") else "GET"
    assert httpx.request(method, f"{busy_page[0]}/gradio_api/{path}", timeout=60).status_code == 404


FILE = {"path": "http://example.invalid/large", "meta": {"_type": "gradio.FileData"}}


def test_a_file_in_a_call_is_refused_before_gradio_fetches_it(busy_page: tuple[str, gr.Blocks]) -> None:
    """Wherever it stands, and however the text is written; a message that only speaks of such a thing is text."""
    url = f"{busy_page[0]}/gradio_api/queue/join"
    sent = {"data": [{"deep": [FILE]}], "fn_index": 1, "session_hash": "f"}
    escaped = json.dumps(sent).replace("meta", "\\u006deta")
    for body in (json.dumps(sent).encode(), escaped.encode()):
        answer = httpx.post(url, content=body, headers={"content-type": "application/json"}, timeout=60)
        assert (answer.status_code, "Files are not taken" in answer.text) == (422, True)
    assert not holds_file({"data": [json.dumps(FILE), {"meta": "gradio.FileData"}, {"path": "x", "meta": {"_type": "other"}}]})


def test_a_number_where_a_name_belongs_is_refused_as_unknown(busy_page: tuple[str, gr.Blocks]) -> None:
    """/call/predict is no endpoint; Gradio dies in it with a bare 500."""
    answer = httpx.post(f"{busy_page[0]}/gradio_api/call/predict", json={"data": ["x"], "fn_index": 1}, timeout=60)
    assert answer.status_code == 404


def origin_scope(**headers: str) -> dict[str, Any]:
    """A request with these headers; `_` stands for `-`."""
    return {"type": "http", "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"host": "here.example"}, False),
        ({"host": "here.example", "origin": "https://here.example"}, False),
        ({"host": "here.example:7860", "origin": "http://here.example:7860"}, False),
        ({"host": "here.example", "origin": "https://HERE.example"}, False),
        ({"host": "inner:7860", "origin": "https://me-app.hf.space"}, False),
        ({"host": "inner:7860", "origin": "https://my.domain"}, False),
        ({"host": "inner:7860", "origin": "https://elsewhere.example", "sec_fetch_site": "same-origin"}, False),
        ({"host": "here.example", "origin": "null"}, True),
        ({"host": "here.example", "origin": "https://there.example"}, True),
        ({"host": "here.example", "origin": "https://here.example.there.example"}, True),
        ({"host": "here.example", "origin": "http://here.example:81"}, True),
        ({"host": "here.example", "origin": "https://[broken"}, True),
        ({"host": "", "origin": ""}, True),
        ({"host": "here.example", "origin": "https://there.example", "x_forwarded_host": "there.example"}, True),
        ({"host": "here.example", "origin": "https://here.example", "sec_fetch_site": "cross-site"}, True),
        ({"host": "here.example", "sec_fetch_site": "cross-site"}, True),
        ({"host": "here.example", "sec_fetch_site": "same-site"}, True),
        ({"host": "here.example", "sec_fetch_site": "same-origin"}, False),
        ({"host": "here.example", "sec_fetch_site": "none"}, False),
    ],
)
def test_a_foreign_page_is_told_from_ours(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], expected: bool) -> None:
    """Ours are the Host that was asked and the names in SPACE_HOST; what a page can set itself proves nothing."""
    monkeypatch.setenv("SPACE_HOST", "me-app.hf.space,my.domain")
    assert is_foreign(origin_scope(**headers)) is expected


@pytest.mark.parametrize(
    ("headers", "path", "expected"),
    [
        ({"sec_fetch_site": "same-origin"}, "/logout", False),
        ({"sec_fetch_site": "none"}, "/logout", False),
        ({"sec_fetch_site": "cross-site"}, "/logout", True),
        ({"sec_fetch_site": "cross-site", "referer": "https://here.example/"}, "/logout/", True),
        ({"referer": "https://here.example/?tab=space"}, "/logout", False),
        ({"referer": "https://there.example/?https://here.example/"}, "/logout", True),
        ({}, "/logout", True),
        ({"sec_fetch_site": "cross-site"}, "/", False),
    ],
)
def test_only_our_own_page_signs_a_visitor_out(headers: dict[str, str], path: str, expected: bool) -> None:
    """A picture or a link on a foreign page would otherwise do it; who is not signed in cannot be signed out."""
    assert is_foreign_logout(origin_scope(host="here.example", cookie="session=x", **headers) | {"path": path}) is expected
    assert is_foreign_logout(origin_scope(host="here.example", **headers) | {"path": path}) is False


def test_an_anonymous_request_has_neither_cookies_nor_what_was_read_from_them() -> None:
    """The original keeps both: the session middleware writes its answer from it."""
    signed = origin_scope(host="here", cookie="session=x") | {"session": {"oauth_info": {"access_token": "t"}}}
    unsigned = strip_login(signed)
    assert (has_cookies(signed), has_cookies(unsigned)) == (True, False)
    assert unsigned["session"] == {}
    assert signed["session"]
    assert "session" not in strip_login(origin_scope(cookie="a=b"))


async def answer_page(request: Request) -> Response:
    """Stands where Gradio stands."""
    return JSONResponse({}) if request.url.path == "/data" else HTMLResponse("<p>page</p>")


def test_only_the_hub_may_frame_the_page() -> None:
    """Pages carry the header, data does not need it."""
    app = Starlette(routes=[Route("/{path:path}", answer_page)], middleware=[Middleware(FrameAncestors)])
    with TestClient(app) as client:
        said = client.get("/").headers["content-security-policy"]
        assert said == "frame-ancestors 'self' https://huggingface.co https://*.huggingface.co"
        assert "content-security-policy" not in client.get("/data").headers
