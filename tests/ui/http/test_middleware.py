"""The door in front of Gradio: size of a body, names and number of arguments, and everything else untouched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, cast

import anyio
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from lib.errors import HubUnreachable, UnknownModel
from lib.live.device_queue import DEVICE
from lib.request.fields import Arguments, whole_number
from lib.service.endpoint import App, Endpoint, bind_arguments
from lib.service.fair_turns import CALLER_GONE
from lib.ui.http.bodies import LARGE_BYTES, SMALL_BYTES, BodyLimits, Crowded, RefusedBody
from lib.ui.http.fair_queue import Threads
from lib.ui.http.middleware import ApiMiddleware, refuse_request
from lib.ui.http.shortcuts import direct_routes


def ask(model: str, devices: int = 1) -> dict[str, float]:
    """A question."""
    if model == "unknown":
        raise UnknownModel("Nobody knows it. Accepted: 7B.")
    if model == "away":
        raise HubUnreachable("The Hub is away. Try again later.")
    return {"model": len(model), "devices": devices / (model != "bug")}


async def echo(request: Request) -> JSONResponse:
    """Stands where Gradio stands: says what arrived."""
    body = await request.body()
    return JSONResponse({"body": body.decode(), "length": int(request.headers["content-length"])})


class Pulse(Arguments):
    """Arguments of a question that waits for the device."""

    iterations: Annotated[int, whole_number(3, 9)] = 5
    """How often."""


def beat(_: App, arguments: Pulse) -> dict[str, int]:
    """Beat."""
    return {"iterations": arguments.iterations}


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A server that echoes, behind the door."""
    endpoints = {"ask": Endpoint(question=ask), "beat": Endpoint(question=bind_arguments(beat, cast("App", None)), queue=DEVICE)}
    door = Middleware(ApiMiddleware, endpoints=endpoints, public=lambda: {1: "ask", 2: "chat"}, events={1, 2, 3})
    routes = [*direct_routes(endpoints, Threads()), Route("/{path:path}", echo, methods=["POST"])]
    with TestClient(Starlette(routes=routes, middleware=[door])) as opened:
        yield opened


def test_defaults_are_filled_in_and_the_length_is_right(client: TestClient) -> None:
    """The server behind sees all values, and a content-length that fits the new body."""
    answer = client.post("/gradio_api/call/beat", json={"data": [], "session_hash": "s"}).json()
    assert json.loads(answer["body"]) == {"data": [5], "session_hash": "s"}
    assert answer["length"] == len(answer["body"])


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("run/ask", b'{"data": []}', 422, "model is missing"),
        ("call/ask", b'{"data": [1, 2, 3]}', 422, "3 values came"),
        ("call/v2/ask", b'{"modle": "7B"}', 422, "Did you mean model"),
        ("run/ask", b"[" * 100_000, 422, "not a JSON object"),
        ("run/ask", b'{"data": "7B"}', 422, "no list"),
        ("run/ask", b"\xff\xfe", 422, "not a JSON object"),
        ("run/secret", b'{"data": []}', 404, "The endpoints are ask, chat"),
        ("run/<script>", b'{"data": []}', 404, "The endpoints are ask, chat"),
        ("upload", b"anything", 404, "Files are not taken here"),
        ("run/ask", b" " * (LARGE_BYTES + 1), 413, "larger than 2 MiB"),
        ("queue/join", b" " * (LARGE_BYTES + 1), 413, "larger than 2 MiB"),
        ("call/tell", b" " * (SMALL_BYTES + 1), 413, "larger than 64 KiB"),
        ("cancel", b" " * (SMALL_BYTES + 1), 413, "larger than 64 KiB"),
        ("queue/join", '{"fn_index": 1, "data": []}'.encode("utf-16"), 422, "not a JSON object"),
        ("queue/join", b'{"fn_index": 1, "data": ["\\ud800"]}', 422, "not a JSON object"),
        ("queue/join", b'{"fn_index": 9, "data": []}', 404, "load it again"),
        ("run/predict", b'{"data": []}', 404, "load it again"),
        ("run/predict", b'{"fn_index": "1", "data": []}', 422, "fn_index is not a whole number"),
        ("run/predict", b'{"fn_index": true, "data": []}', 422, "fn_index is not a whole number"),
        ("run/predict", b'{"fn_index": 1, "data": "7B"}', 422, "no list"),
        ("run/predict", b'{"fn_index": 1, "data": [], "batched": true}', 422, "batched"),
        ("run/predict", b'{"fn_index": 1, "data": [], "session_hash": "\\n"}', 422, "session_hash"),
        ("run/predict", b'{"fn_index": 1, "data": [], "session_hash": {}}', 422, "session_hash is not a text"),
        ("run/predict", b'{"fn_index": 1, "data": [], "oauth_token": 7}', 422, "oauth_token"),
        ("component_server", b"{}", 404, "Nothing is offered"),
        ("heartbeat/%0d%0aX:", b"{}", 404, "Nothing is offered"),
        ("call/ask", b'{"data": [[' + b"[]," * 600_000 + b"[]]]}", 422, "at most 10,000 values"),
        ("call/v2/ask", b'{"model": [' + b"[]," * 600_000 + b"[]]}", 422, "at most 10,000 values"),
        ("run/predict", b'{"fn_index": 1, "data": [' + b"{}," * 600_000 + b"{}]}", 422, "at most 10,000 values"),
        ("queue/join", b'{"fn_index": 1, "data": [' + b"[]," * 600_000 + b"[]]}", 422, "at most 10,000 values"),
    ],
)
def test_what_gradio_would_answer_without_explanation_gets_a_sentence(
    client: TestClient, path: str, body: bytes, status: int, says: str
) -> None:
    """The sentence stands under "error", as in Gradio's own answers."""
    answer = client.post(f"/gradio_api/{path}", content=body)
    assert answer.status_code == status
    assert says in answer.json()["error"]


@pytest.mark.parametrize(("path", "body"), [("call/beat", {"data": ["many"]}), ("call/v2/beat", {"iterations": 2})])
def test_a_wrong_argument_is_refused_before_the_call_waits_for_the_device(client: TestClient, path: str, body: dict[str, object]) -> None:
    """A call that could only be refused when its turn comes takes nobody's place; a right one is passed on."""
    answer = client.post(f"/gradio_api/{path}", json=body)
    assert (answer.status_code, answer.json()["title"]) == (422, "bad_argument")
    assert "iterations was" in answer.json()["error"]
    assert "body" in client.post("/gradio_api/call/beat", json={"data": []}).json()


def test_a_direct_call_is_answered_in_the_form_of_gradio(client: TestClient) -> None:
    """The answer stands in a list under "data"; the server behind is not asked."""
    answer = client.post("/gradio_api/run/ask", json={"data": ["7B", 2]})
    assert answer.status_code == 200
    assert answer.json()["data"] == [{"model": 2, "devices": 2.0}]
    assert answer.json()["is_generating"] is False


@pytest.mark.parametrize(("how", "sent"), [("call", {"data": ["7B", 2]}), ("call/v2", {"model": "7B", "devices": 2})])
def test_an_answer_that_waits_to_be_read_is_read_once(client: TestClient, how: str, sent: dict[str, object]) -> None:
    """In the form of Gradio's own streams, whose server is not asked."""
    event = client.post(f"/gradio_api/{how}/ask/", json=sent).json()["event_id"]
    read = client.get(f"/gradio_api/{how}/ask/{event}")
    assert (read.text, read.headers["content-type"].partition(";")[0]) == (
        'event: complete\ndata: [{"model":2,"devices":2.0}]\n\n',
        "text/event-stream",
    )
    again = client.get(f"/gradio_api/call/ask/{event}")
    assert (again.status_code, "Call again" in again.json()["error"]) == (404, True)


@pytest.mark.parametrize(("model", "code"), [("unknown", "unknown_model"), ("away", "hub_unreachable")])
def test_a_refusal_that_waits_to_be_read(client: TestClient, model: str, code: str) -> None:
    """The call is taken, and its stream says why there is no answer."""
    event = client.post("/gradio_api/call/ask", json={"data": [model]}).json()["event_id"]
    kind, _, told = client.get(f"/gradio_api/call/ask/{event}").text.partition("\ndata: ")
    assert (kind, json.loads(told)["title"]) == ("event: error", code)


def test_answers_that_nobody_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest make room for new ones."""
    monkeypatch.setattr("lib.ui.http.shortcuts.UNREAD_BYTES", 200)
    with TestClient(Starlette(routes=direct_routes({"ask": Endpoint(question=ask)}, Threads()))) as small:
        events = [small.post("/gradio_api/call/ask", json={"data": ["7B"]}).json()["event_id"] for _ in range(5)]
        assert [small.get(f"/gradio_api/call/ask/{event}").status_code for event in events] == [404, 404, 200, 200, 200]


def test_a_sign_out_from_elsewhere_gets_a_sentence(client: TestClient) -> None:
    """The server behind never sees it."""
    answer = client.get("/logout", headers={"cookie": "session=x", "sec-fetch-site": "cross-site"})
    assert (answer.status_code, "Sign out" in answer.json()["error"]) == (403, True)


@pytest.mark.parametrize("path", ["run/ask/", "api/ask", "api/ask/"])
def test_a_direct_call_has_the_addresses_that_gradio_gives_it(client: TestClient, path: str) -> None:
    """`/api/` is Gradio's older name of `/run/`, and a closing slash changes nothing."""
    assert client.post(f"/gradio_api/{path}", json={"data": ["7B", 2]}).json()["data"] == [{"model": 2, "devices": 2.0}]


@pytest.mark.parametrize(
    ("model", "status", "code"), [("unknown", 422, "unknown_model"), ("away", 503, "hub_unreachable"), ("bug", 500, "internal")]
)
def test_a_refused_direct_call_has_the_status_of_its_cause(client: TestClient, model: str, status: int, code: str) -> None:
    """What the caller can mend, what the Hub did, and what we did are told apart."""
    answer = client.post("/gradio_api/run/ask", json={"data": [model]})
    assert (answer.status_code, answer.json()["title"]) == (status, code)
    assert len(answer.json()["error"]) > 20


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"id": ' + b"9" * 5000 + b"}", b"nonsense"])
def test_an_unreadable_mcp_message_gets_the_answer_of_json_rpc(client: TestClient, body: bytes) -> None:
    """Nesting, numbers and text that no parser takes end in a parse error, not in a bare 500."""
    answer = client.post("/gradio_api/mcp/", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)


@pytest.mark.parametrize(
    "body",
    [
        b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]',
        b'{"jsonrpc": "2.0", "id": {"hf_secret": 1}, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "hf_secret"}',
        b'{"jsonrpc": "2.0", "id": 1, "result": "hf_secret"}',
    ],
)
def test_a_message_that_is_none_is_refused_without_being_repeated(client: TestClient, body: bytes) -> None:
    """The protocol's own library would quote it, or die."""
    answer = client.post("/gradio_api/mcp/", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
    assert "hf_secret" not in answer.text


def test_a_body_in_pieces_is_measured_too(client: TestClient) -> None:
    """Chunked bodies name no length."""
    pieces = (b" " * 2**20 for _ in range(6))
    assert client.post("/gradio_api/run/ask", content=pieces).status_code == 413


@pytest.mark.parametrize("path", ["/gradio_api/run/predict", "/gradio_api/run/chat", "/gradio_api/queue/join"])
def test_other_calls_pass_unchanged(client: TestClient, path: str) -> None:
    """The page's own calls by number, and endpoints that check themselves."""
    body = b'{"data": [1], "fn_index": 3}'
    assert client.post(path, content=body).json()["body"] == body.decode()


async def refused(scope: Scope) -> tuple[int, int]:
    """Status of the answer, and how many parts of the body were received."""
    received, sent = [], list[Message]()

    async def receive() -> Message:
        received.append(True)
        return {"type": "http.request", "body": b" " * 65_536, "more_body": True}

    async def send(message: Message) -> None:
        sent.append(message)

    async def pass_on(*_: object) -> None:
        raise AssertionError("the request was passed on")

    await ApiMiddleware(pass_on, {}, dict)({"type": "http", "query_string": b"", "headers": [], **scope}, receive, send)
    return sent[0]["status"], len(received)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/login", [], 404),
        ("POST", "/login/", [(b"content-type", b"multipart/form-data; boundary=x")], 404),
        ("POST", "/", [], 404),
        ("POST", "/gradio_api/upload", [], 404),
        ("POST", "/gradio_api/vibe-edit", [], 404),
        ("PUT", "/gradio_api/run/ask", [], 404),
        ("GET", "/gradio_api/dev/reload", [], 404),
        ("GET", "/config", [(b"content-length", b"600000000")], 413),
        ("GET", "/static/x", [(b"transfer-encoding", b"chunked")], 413),
    ],
)
def test_the_body_of_what_is_not_offered_is_not_read(method: str, path: str, headers: list[tuple[bytes, bytes]], status: int) -> None:
    """600 MB for `/login` went onto the disk. Only allowed POST requests have a body."""
    assert anyio.run(refused, {"method": method, "path": path, "headers": headers}) == (status, 0)


@pytest.mark.parametrize(("query", "status"), [(b"_nb_redirects=abc", 400), (b"_nb_redirects=%s" % (b"9" * 5_000), 400), (b"error=x", 400)])
def test_a_damaged_address_of_the_sign_in_is_refused(query: bytes, status: int) -> None:
    """Gradio would die of it with a bare 500."""
    assert anyio.run(refused, {"method": "GET", "path": "/login/callback", "query_string": query}) == (status, 0)


def test_an_address_that_is_too_long_is_refused() -> None:
    """Gradio would die of it with a bare 500 and a traceback in the log."""
    assert anyio.run(refused, {"method": "GET", "path": "/", "query_string": b"model=" + b"A" * 70_000}) == (414, 0)


@pytest.mark.parametrize("path", ["/login/callback", "/", "/assets/index.js", "/theme.css", "/gradio_api/queue/data", "/gradio_api/mcp"])
def test_what_the_page_and_clients_read_is_offered(path: str) -> None:
    """With and without a body of zero bytes."""
    scope = {"method": "GET", "path": path, "query_string": b"_nb_redirects=1", "headers": [(b"content-length", b"0")]}
    assert refuse_request(scope) is None


def test_a_call_whose_client_disconnects_ends() -> None:
    """It waits no longer for a thread or a place, and threads that wait for it are told."""
    ended: list[bool] = []

    async def wait(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        try:
            await anyio.sleep_forever()
        finally:
            is_gone = CALLER_GONE.get()
            ended.append(is_gone is not None and is_gone())

    async def call() -> None:
        parts: list[Message] = [{"type": "http.disconnect"}, {"type": "http.request", "body": b'{"data": []}', "more_body": False}]

        async def receive() -> Message:
            return parts.pop()

        door = ApiMiddleware(wait, {"ask": Endpoint(question=ask)}, dict)
        with anyio.fail_after(5):
            await door({"type": "http", "method": "POST", "path": "/gradio_api/run/ask", "headers": []}, receive, cast("Send", None))

    anyio.run(call)
    assert ended == [True]


def deliver(bodies: BodyLimits, pieces: list[bytes], limit: int = LARGE_BYTES) -> bytes:
    """Receive a body that stops coming after these pieces, while its sender stays."""

    async def read_pieces() -> bytes:
        left = list(pieces)

        async def receive() -> Message:
            if not left:
                await anyio.sleep_forever()
            return {"type": "http.request", "body": left.pop(0), "more_body": True}

        return await bodies.receive({"type": "http", "headers": []}, receive, limit)

    return anyio.run(read_pieces)


def test_a_body_that_stops_coming_ends_with_408() -> None:
    """Half of it came; what came is let go."""
    bodies = BodyLimits(seconds=0.05)
    with pytest.raises(RefusedBody, match="did not arrive whole") as caught:
        deliver(bodies, [b" " * 500_000])
    assert caught.value.status == 408
    assert not bodies._arriving


def test_one_sender_leaves_room_for_the_others() -> None:
    """Five bodies of 2 MB from one address are one too many; a sixth from another address is taken."""

    async def crowd() -> list[str]:
        bodies, ends = BodyLimits(seconds=2), []

        async def send(caller: str) -> None:
            parts: list[Message] = [{"type": "http.request", "body": b" " * 2_000_000, "more_body": True}]

            async def receive() -> Message:
                if not parts:
                    await anyio.sleep_forever()
                return parts.pop()

            try:
                await bodies.receive({"type": "http", "headers": []}, receive, LARGE_BYTES, caller)
            except Crowded:
                ends.append(caller)

        async with anyio.create_task_group() as senders:
            for caller in ["stranger"] * 5 + ["ada"]:
                senders.start_soon(send, caller)
            await anyio.wait_all_tasks_blocked()
            senders.cancel_scope.cancel()
        return ends

    assert anyio.run(crowd) == ["stranger"]


def test_bodies_on_their_way_are_bounded_together_and_short_ones_find_room() -> None:
    """Two senders of half a megabyte fill what there is: a third is told so, and one of 64 KiB is not."""

    async def crowd() -> tuple[list[type[BaseException]], bytes]:
        bodies, ends = BodyLimits(seconds=1, at_once=2**20), []

        async def send(size: int) -> bytes:
            parts: list[Message] = [{"type": "http.request", "body": b" " * size, "more_body": size > SMALL_BYTES}]

            async def receive() -> Message:
                if not parts:
                    await anyio.sleep_forever()
                return parts.pop()

            return await bodies.receive({"type": "http", "headers": []}, receive, LARGE_BYTES)

        async def send_too_much() -> None:
            try:
                await send(2**19)
            except (RefusedBody, Crowded) as refusal:
                ends.append(type(refusal))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(send_too_much)
            await anyio.sleep(0.1)
            small = await send(SMALL_BYTES)
        return ends, small

    ends, small = anyio.run(crowd)
    assert ends == [Crowded, RefusedBody, RefusedBody]
    assert len(small) == SMALL_BYTES
