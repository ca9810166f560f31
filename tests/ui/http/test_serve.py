"""Endpoints that act in someone's name, wait or stream, over real HTTP in a small app of their own."""

from __future__ import annotations

import ctypes
import gc
import inspect
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import pairwise
from types import SimpleNamespace
from typing import Annotated, Any
from urllib.parse import urlsplit

import gradio as gr
import gradio.oauth
import httpx
import psutil
import pytest
from gradio.context import LocalContext
from gradio_client import Client
from gradio_client.exceptions import AppError
from itsdangerous import TimestampSigner
from pydantic import create_model
from running_app import ROOT
from typing_extensions import TypedDict

from lib.errors import TooLong
from lib.request.fields import Arguments, Checked
from lib.service.endpoint import Endpoint
from lib.ui.events import Page
from lib.ui.http import api, serve
from lib.ui.http.api import FAILED
from lib.ui.http.fair_queue import FairQueue
from lib.ui.http.serve import KEEP_ALIVE_S, SWITCH_S, after_launch, launch_arguments, share_process

CALLERS = "hf_the_token_of_the_call"
BROWSERS = "hf_the_token_of_the_cookie"
closed = threading.Event()
spans: list[tuple[float, float]] = []


class Who(TypedDict):
    """Whose token arrived; never the token itself."""

    whose: str


class Piece(TypedDict):
    """How far it came."""

    n: int


def _name_owner(token: str | None) -> str:
    return {CALLERS: "caller", BROWSERS: "browser", None: "nobody"}.get(token, "garbage")


def who(space_id: str, hours: int = 1, *, token: str | None = None) -> Who:
    """Whose token this is.

    Args:
        space_id: anything
        hours: anything
        token: the caller's own
    """
    if space_id == "bug":
        raise RuntimeError(f"Illegal header value {token}")
    return {"whose": f"{_name_owner(token)} {hours}"}


def count(to: int, pause_s: float = 0.02) -> Iterator[Piece]:
    """Count.

    Args:
        to: how far
        pause_s: between two
    """
    try:
        for n in range(1, to + 1):
            if n == 13:
                raise TooLong("Thirteen is too far. Ask for twelve.")
            yield {"n": n}
            time.sleep(pause_s)
    finally:
        closed.set()


def hold(seconds: float) -> Who:
    """Hold the device.

    Args:
        seconds: how long
    """
    began = time.monotonic()
    time.sleep(seconds)
    spans.append((began, time.monotonic()))
    request = LocalContext.request.get(None)
    return {"whose": request.headers.get("x-ip-token", "nobody") if request else "no request"}


for question in (who, count, hold):  # a model of its arguments, as `lib.service.endpoint.bind_arguments` gives each endpoint
    parameters = inspect.signature(question, eval_str=True).parameters.values()
    public: dict[str, Any] = {
        one.name: (
            Annotated[one.annotation, Checked(lambda _, value: value, one.annotation)],
            ... if one.default is one.empty else one.default,
        )
        for one in parameters
        if one.kind is not one.KEYWORD_ONLY
    }
    vars(question)["arguments"] = create_model("Sent", __base__=Arguments, **public)

TABLE = {
    "who": Endpoint(question=who, account=True),
    "count": Endpoint(question=count, queue="device"),
    "hold": Endpoint(question=hold, queue="device"),
}


def show_login(token: gr.OAuthToken | None) -> str:
    """What an event of the page sees of the browser's login."""
    return _name_owner(token.token if token else None)


def small_page(*, login: bool) -> gr.Blocks:
    """The endpoints, and two events of the page: one in the queue, one past it."""
    page: gr.Blocks
    with Page(analytics_enabled=False) as page:
        if login:
            gr.LoginButton()
        seen, button = gr.Textbox(), gr.Button()
        button.click(show_login, None, seen, api_name="mine", api_visibility="private")
        button.click(show_login, None, seen, api_name="mine_at_once", api_visibility="private", queue=False)
        api.register(TABLE)
    return page


def launch_page(page: gr.Blocks, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the page, served as the app serves its own."""
    monkeypatch.setattr(serve, "Skeleton", lambda _page, _services: None)  # this page has no pick to show
    options: dict[str, Any] = launch_arguments(page, SimpleNamespace(endpoints=lambda: TABLE))  # type: ignore[arg-type]
    _, url, _ = page.launch(server_name="127.0.0.1", quiet=True, prevent_thread_lock=True, inbrowser=False, **options)
    return url.rstrip("/")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A small app whose visitors can sign in (Gradio's own stand-in for the Hub's login)."""
    profile = {"name": "N", "preferred_username": "n", "profile": "p", "picture": "/p"}
    with pytest.MonkeyPatch.context() as patch:
        info = {"access_token": BROWSERS, "scope": "openid", "expires_at": 0, "userinfo": profile}
        patch.setattr(gradio.oauth, "_get_mocked_oauth_info", lambda: info)
        patch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
        page = small_page(login=True)
        yield launch_page(page, patch)
        page.close(verbose=False)


@pytest.fixture(scope="module")
def login() -> dict[str, str]:
    """The headers of a browser that is signed in: the cookie as Gradio signs it."""
    profile = {"name": "N", "preferred_username": "n", "profile": "p", "picture": "/p"}
    info = {"access_token": BROWSERS, "scope": "openid", "expires_at": int(time.time()) + 3600, "userinfo": profile}
    signer = TimestampSigner(sha256(b"-v4").hexdigest())
    return {"cookie": f"session={signer.sign(b64encode(json.dumps({'oauth_info': info}).encode())).decode()}"}


def post(url: str, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> httpx.Response:
    """One request as plain HTTP sends it."""
    return httpx.post(f"{url}/gradio_api/{path}", json=body, headers=headers, timeout=60)


def call_by_name(url: str, name: str, body: dict[str, Any], headers: dict[str, str] | None = None, *, how: str = "call") -> str:
    """The stream of one call by name."""
    event = post(url, f"{how}/{name}", body, headers).json()["event_id"]
    return httpx.get(f"{url}/gradio_api/call/{name}/{event}", timeout=60).text


def by_number(url: str, name: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
    """The answer to one call by number through the queue, as the page and gradio_client make it."""
    numbers = {found["api_name"]: found["id"] for found in httpx.get(f"{url}/config").json()["dependencies"]}
    session = f"s{time.monotonic_ns()}"
    assert post(url, "queue/join", body | {"fn_index": numbers[name], "session_hash": session}, headers).status_code == 200
    with httpx.stream("GET", f"{url}/gradio_api/queue/data?session_hash={session}", timeout=60) as events:
        for line in events.iter_lines():
            if "process_completed" in line:
                return json.loads(line.removeprefix("data: "))["output"]["data"][0]
    raise AssertionError("the stream ended without an answer")


def at_once(url: str, name: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
    """The answer to one call by number past the queue, as the page makes it."""
    numbers = {found["api_name"]: found["id"] for found in httpx.get(f"{url}/config").json()["dependencies"]}
    answer = post(url, "run/predict", body | {"fn_index": numbers[name], "session_hash": "s"}, headers)
    return answer.json()["data"][0]


def tool(url: str, name: str, arguments: dict[str, Any], **headers: str) -> dict[str, Any]:
    """One call of a tool over MCP, without a session."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    accepting = {"accept": "application/json, text/event-stream", **headers}
    result: dict[str, Any] = post(url, "mcp/", message, accepting).json()["result"]
    return result


@pytest.mark.parametrize("host", ["", "Host: [::1\r\n", "Host: a b\r\n"])
def test_a_request_with_an_origin_and_no_host_to_compare_it_with_is_answered(url: str, host: str, caplog: pytest.LogCaptureFixture) -> None:
    """HTTP/1.0 asks for no Host. Gradio's rules on origins look at it as the answer begins, and would die of it with a traceback."""
    at = urlsplit(url)
    with socket.create_connection((at.hostname or "", at.port or 0), 20) as line:
        line.sendall(f"GET /config HTTP/1.0\r\nOrigin: http://evil.example\r\n{host}\r\n".encode())
        head = line.makefile("rb").readline()
    assert head.split()[1] == b"200"
    assert not [record for record in caplog.records if record.exc_info]


def test_the_token_of_the_call_reaches_the_question(url: str) -> None:
    """In the body of a direct call, of both kinds of queued calls, through gradio_client, and as a header over MCP."""
    sent = {"oauth_token": CALLERS}
    assert post(url, "run/who", {"data": ["a"], **sent}).json()["data"] == [{"whose": "caller 1"}]
    assert '"caller 2"' in call_by_name(url, "who", {"data": ["a", 2], **sent})
    assert '"caller 3"' in call_by_name(url, "who", {"space_id": "a", "hours": 3, **sent}, how="call/v2")
    client = Client(url, oauth_token=CALLERS, verbose=False, analytics_enabled=False)
    assert client.predict("a", hours=4, api_name="/who") == {"whose": "caller 4"}
    assert tool(url, "who", {"space_id": "a"}, **{"x-hf-token": CALLERS})["structuredContent"] == {"whose": "caller 1"}


def test_the_login_of_a_browser_does_not_act_over_the_api(url: str, login: dict[str, str]) -> None:
    """By name, by number and over MCP it is as if nobody were signed in."""
    assert post(url, "run/who", {"data": ["a"]}, login).json()["data"] == [{"whose": "nobody 1"}]
    assert '"nobody 1"' in call_by_name(url, "who", {"data": ["a"]}, login)
    assert '"nobody 1"' in call_by_name(url, "who", {"space_id": "a"}, login, how="call/v2")
    assert by_number(url, "who", {"data": ["a", 1]}, login) == {"whose": "nobody 1"}
    assert at_once(url, "who", {"data": ["a", 1]}, login) == {"whose": "nobody 1"}
    assert tool(url, "who", {"space_id": "a"}, **login)["structuredContent"] == {"whose": "nobody 1"}


def test_a_token_that_was_sent_counts_beside_a_login(url: str, login: dict[str, str]) -> None:
    """Gradio itself would prefer the cookie."""
    assert '"caller 1"' in call_by_name(url, "who", {"data": ["a"], "oauth_token": CALLERS}, login)
    assert by_number(url, "who", {"data": ["a", 1], "oauth_token": CALLERS}, login) == {"whose": "caller 1"}


def test_a_login_is_not_taken_for_a_token_of_the_call() -> None:
    """The second lock behind the first: what Gradio reads from a login has an expiry, what came with the call has none."""
    assert api._call_token(gr.OAuthToken(token=BROWSERS, scope="openid", expires_at=int(time.time()) + 3600)) is None
    assert api._call_token(gr.OAuthToken(token=CALLERS, scope="", expires_at=0)) == CALLERS
    assert api._call_token(None) is None


@pytest.mark.parametrize("asked", [by_number, at_once])
def test_the_page_itself_sees_the_login_and_a_foreign_page_does_not(url: str, login: dict[str, str], asked: Callable[..., Any]) -> None:
    """The browser names the page that sent the request; both ways into an event heed it."""
    name = {"by_number": "mine", "at_once": "mine_at_once"}[asked.__name__]
    assert asked(url, name, {"data": []}, login) == "browser"
    assert asked(url, name, {"data": []}, login | {"origin": url}) == "browser"
    assert asked(url, name, {"data": []}, login | {"origin": "https://elsewhere.example"}) == "nobody"
    assert asked(url, name, {"data": []}, login | {"origin": "null"}) == "nobody"


def test_the_token_is_in_no_listing(url: str) -> None:
    """Gradio says that the endpoint takes one, and asks for it nowhere among the arguments; the tool says where it goes."""
    info = httpx.get(f"{url}/gradio_api/info").json()["named_endpoints"]
    assert [parameter["parameter_name"] for parameter in info["/who"]["parameters"]] == ["space_id", "hours"]
    assert (info["/who"].get("oauth_token"), info["/hold"].get("oauth_token")) == ("optional", None)
    tools = {listed["name"]: listed for listed in httpx.get(f"{url}/gradio_api/mcp/schema").json()}
    assert list(tools["who"]["inputSchema"]["properties"]) == ["space_id", "hours"]
    assert ("X-HF-Token" in tools["who"]["description"], "X-HF-Token" in tools["hold"]["description"]) == (True, False)


def test_the_token_is_in_no_error_and_in_no_log(url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """The question dies of an error that names the token, as HTTP libraries do."""
    with caplog.at_level(logging.DEBUG):
        answers = [
            post(url, "run/who", {"data": ["bug"], "oauth_token": CALLERS}).text,
            call_by_name(url, "who", {"data": ["bug"], "oauth_token": CALLERS}),
            json.dumps(tool(url, "who", {"space_id": "bug"}, **{"x-hf-token": CALLERS})),
            post(url, "run/who", {"data": ["a"], "oauth_token": [CALLERS]}).text,
        ]
    assert all(FAILED in answer for answer in answers[:3])
    assert '\\"oauth_token\\" is not a text' in answers[3]
    assert "Illegal header value (what the caller sent)" in caplog.text
    out, err = capfd.readouterr()
    assert not any(CALLERS in text for text in (*answers, caplog.text, out, err))


def test_a_stream_comes_piece_by_piece(url: str) -> None:
    """gradio_client sees every piece and keeps the last; plain HTTP sees events; a tool answers with the last."""
    client = Client(url, verbose=False, analytics_enabled=False)
    assert list(client.submit(3, api_name="/count")) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert client.predict(2, api_name="/count") == {"n": 2}
    events = call_by_name(url, "count", {"data": [2]})
    assert [line for line in events.splitlines() if line.startswith("event")] == ["event: generating"] * 2 + ["event: complete"]
    assert tool(url, "count", {"to": 4})["structuredContent"] == {"n": 4}


def test_an_error_in_the_middle_of_a_stream_is_a_sentence(url: str) -> None:
    """After twelve pieces the question refuses."""
    events = call_by_name(url, "count", {"data": [20, 0]})
    assert '{"n": 12}' in events
    assert events.rstrip().splitlines()[-2] == "event: error"
    assert "Thirteen is too far. Ask for twelve." in events
    with pytest.raises(AppError, match="Ask for twelve"):
        Client(url, verbose=False, analytics_enabled=False).predict(20, 0, api_name="/count")
    refused = tool(url, "count", {"to": 20, "pause_s": 0})
    assert (refused["isError"], refused["content"][0]["text"]) == (True, "Thirteen is too far. Ask for twelve.")


def test_who_stops_listening_stops_the_question(url: str) -> None:
    """A cancelled job and a closed connection both close the generator long before its end (12 pieces of two seconds)."""
    closed.clear()
    job = Client(url, verbose=False, analytics_enabled=False).submit(12, 2, api_name="/count")
    while not job.outputs():
        time.sleep(0.02)
    job.cancel()
    assert closed.wait(15)
    closed.clear()
    event = post(url, "call/count", {"data": [12, 2]}).json()["event_id"]
    with httpx.stream("GET", f"{url}/gradio_api/call/count/{event}", timeout=60) as events:
        next(line for line in events.iter_lines() if '"n"' in line)
    assert closed.wait(15)


def test_a_stream_of_a_session_that_asked_nothing_is_refused(url: str) -> None:
    """Gradio would begin an answer and break it off."""
    refused = httpx.get(f"{url}/gradio_api/queue/data", params={"session_hash": "nobody"}, timeout=60)
    assert (refused.status_code, refused.json()["title"]) == (404, "invalid_input")


def test_what_waits_is_not_answered_at_once(url: str) -> None:
    """The sentence says where to ask instead."""
    refused = post(url, "run/hold", {"data": [0]})
    assert refused.status_code == 422
    assert "POST the same body to /gradio_api/call/hold" in refused.json()["error"]


def test_a_slot_is_shared_by_the_queue_and_mcp(url: str) -> None:
    """Four calls from both sides never overlap; over MCP, ZeroGPU still finds whose seconds they are."""
    spans.clear()
    seen: list[str] = []

    def over_mcp() -> None:
        seen.append(tool(url, "hold", {"seconds": 0.1}, **{"x-ip-token": "visitor"})["structuredContent"]["whose"])

    def over_http() -> None:
        call_by_name(url, "hold", {"data": [0.1]})

    threads = [threading.Thread(target=target) for target in (over_mcp, over_http, over_mcp, over_http)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    in_order = sorted(spans)
    assert len(in_order) == 4
    assert all(before[1] <= after[0] for before, after in pairwise(in_order))
    assert seen == ["visitor", "visitor"]


def listening_ports() -> set[int]:
    """The ports on which this process listens."""
    return {one.laddr.port for one in psutil.Process().net_connections("tcp") if one.status == psutil.CONN_LISTEN}


def test_on_a_space_the_queue_is_open_by_name_and_no_other_port_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradio closes its direct calls there (`api_open=False`), not those that wait. It opens no second server, which would write files."""
    monkeypatch.setenv("SYSTEM", "spaces")
    monkeypatch.setenv("SPACE_ID", "me/app")
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    before, page = listening_ports(), small_page(login=False)
    url = launch_page(page, monkeypatch)
    try:
        assert isinstance(page.limiter._queue, FairQueue)  # type: ignore[union-attr]  # the page's events wait in it too
        page.server.watch_thread.join(10)
        assert not page.server.watch_thread.is_alive()
        assert listening_ports() - before == {urlsplit(url).port}
        assert '{"n": 2}' in call_by_name(url, "count", {"data": [2]})
        assert '"caller 1"' in call_by_name(url, "who", {"data": ["a"], "oauth_token": CALLERS})
        assert post(url, "run/who", {"data": ["a"]}).status_code == 200
    finally:
        page.close(verbose=False)


def test_a_connection_outlives_the_patience_of_common_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uvicorn alone would close each after 5 s, while a client is sending its next request. Garbage is collected again, too."""
    page = small_page(login=False)
    url = launch_page(page, monkeypatch)
    warmed = threading.Event()
    monkeypatch.setattr(gc, "callbacks", [])  # which spares the collections of other tests
    gc.disable()  # as app.py does while it starts
    try:
        after_launch(page, warmed.set)
        assert warmed.wait(60)
        assert gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
    with httpx.Client(base_url=url) as client:
        client.get("/config")
        assert KEEP_ALIVE_S in {connection.timeout_keep_alive for connection in page.server.server_state.connections}
    page.close()


def test_garbage_is_collected_again_where_nothing_answers_the_first_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the launch on: a visit may fail, or wait for an answer that never ends. What survives is spared from then on."""
    warmed = threading.Event()
    monkeypatch.setattr(gc, "callbacks", [])
    page: Any = SimpleNamespace(server=SimpleNamespace(config=SimpleNamespace()), local_url="http://127.0.0.1:9/")
    gc.disable()
    try:
        after_launch(page, warmed.set)
        assert gc.isenabled()
        assert warmed.wait(60)
        assert len(gc.callbacks) == 1
    finally:
        gc.enable()
        gc.unfreeze()


def test_all_open_files_that_the_system_allows_are_allowed() -> None:
    """Each connection is one. Started with a soft limit of 256, the app would be deaf at 250 connections."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512)); from lib.ui.http.serve import raise_file_limit; "
    code += "raise_file_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout == "(512, 512)\n"


def test_computing_threads_leave_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads give the interpreter up sooner than by default, the C library takes the limit of its arenas, and files may be opened."""
    before, told, raised = sys.getswitchinterval(), list[int](), list[str]()
    assert before > SWITCH_S
    libc = ctypes.CDLL("libc.so.6")
    accept = libc.mallopt

    class Library:
        def mallopt(self, setting: int, value: int) -> None:
            told.extend((setting, value, accept(setting, value)))

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    monkeypatch.setattr(serve, "raise_file_limit", lambda: raised.append("files"))  # the limit of this process stays
    try:
        share_process()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        assert told == [-8, 2, 1]  # M_ARENA_MAX of malloc.h; 1 is mallopt's word for success
        assert raised == ["files"]
    finally:
        sys.setswitchinterval(before)
