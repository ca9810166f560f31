"""What stands in front of Gradio's own routes: limits on bodies and sessions, and calls that Gradio would answer with a bare 500.

Bodies are received and parsed within bounds (`lib.ui.http.bodies`), and sessions are let go when they are over (`lib.ui.http.sessions`).
A call with a missing, unknown or superfluous argument dies in Gradio as an unexplained server error. Here it gets the sentence that it
deserves, in Gradio's own form of an error ({"error": …, "title": …}), values left out at the end of {"data": […]} get their defaults, as
the contract promises, and only public names can be called by name (Gradio's `private` hides a name, it does not close it; the page itself
calls by number). Direct calls of the public questions are answered here.

The login of a browser is for the page's own events: calls of public endpoints, and everything that a foreign page sends, go on without
it. Who acts over the API sends a token with the call. Whoever has to wait for the device finds a bounded number of places
(`lib.ui.device_queue`), and what the page does not use is closed.

What Gradio offers and this page does not use: ways in which strangers could fill the server's disk, or have it fetch files for them.

Nothing here takes a file. A value that says it is one is fetched by Gradio from whatever address it names, into the server's cache,
before any function of ours is asked; a "deep link" writes half a megabyte for each session, with what that session was shown in it.

Whose page sent a request, and the request without the browser's login.

The session cookie travels with requests from any site (Gradio sets SameSite=None, for a Space is shown inside another site), and Gradio's
own CORS rules let any site send any header along with it. So a form on a foreign page could act in the name of whoever is signed in here.
What a page cannot set are Host, Origin and Sec-Fetch-Site; X-Forwarded-Host it can, so that one is not asked.

One call, one answer, without Gradio's machinery: what stands behind POST /gradio_api/run/<endpoint>.

Gradio copies the configuration of every component on the page for each call that names no session: 10 ms of processor time for this page
and a second for a hundred callers, while the question itself takes one or two milliseconds. The public questions touch no
component, so they are answered here, in Gradio's own form: {"data": [answer], ...}, or {"error": sentence, "title": code}.

Who may show the page in a frame: the Hub, where a Space's page is one, and the page itself.

A login's cookie comes along into a frame on any site (it has to, for the Hub's own frame), so a foreign page could lay this one under its
own buttons and have a visitor confirm a switch unknowingly. The browser refuses frames of other sites by this header.
"""

from __future__ import annotations

import functools
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from starlette.responses import JSONResponse, Response

from lib.bounded_json import UnreadableJson
from lib.errors import AdvisorError, InvalidInput, shown
from lib.ui.http.api import Endpoint, Refused, answered, check_names, filled
from lib.ui.http.api import public as signature_of
from lib.ui.http.bodies import LARGE_BYTES, MOST_NODES, SMALL_BYTES, Bodies, RefusedBody
from lib.ui.http.sessions import ANSWER_S, Sessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lib.ui.device_queue import Places

NO_FILES = "Files are not taken here. Paste the text of a config.json as the model instead."
_TAKING = ("/gradio_api/upload", "/gradio_api/process_recording")
_OTHER = ("/gradio_api/deep_link", "/gradio_api/dev/")
_FILE = "gradio.FileData"


def closed(path: str) -> str | None:
    """The sentence for a route that is not offered here; None for all others."""
    if path.startswith(_TAKING):
        return NO_FILES
    return "Nothing is offered at this address." if path.startswith(_OTHER) else None


def holds_file(sent: Any) -> bool:
    """Whether anything in a call's JSON would be taken for a file by Gradio (`gradio_client.utils.is_file_obj_with_meta`)."""
    left = [sent]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            meta = value.get("meta")
            if isinstance(meta, dict) and meta.get("_type") == _FILE:
                return True
            left += value.values()
    return False


def foreign(scope: Scope) -> bool:
    """Whether a page of another site sent this. What names no origin was not sent by a page at all."""
    headers: dict[bytes, str] = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin")
    if origin is None:
        return False
    site = headers.get(b"sec-fetch-site")
    if site is not None:  # the browser itself says so, and it knows of no proxy between
        return site != "same-origin"
    return _host(origin) not in _ours(headers.get(b"host", ""))


def signed_in(scope: Scope) -> bool:
    """Whether the browser sent cookies along; a login is one of them."""
    return any(name.lower() == b"cookie" for name, _ in scope["headers"])


def anonymous(scope: Scope) -> Scope:
    """The same request from somebody who is not signed in: no cookies, and nothing of what was read from them."""
    unsigned = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name.lower() != b"cookie"]}
    if "session" in scope:  # Gradio's session middleware stands before ours and has read the cookie already
        unsigned["session"] = type(scope["session"])()
    return unsigned


def _host(origin: str) -> str | None:
    """Host and port of an origin; none of the opaque one (`null`)."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _ours(host: str) -> set[str]:
    """The names of this server. On a Space, SPACE_HOST lists them, a custom domain too."""
    names = [host, *os.environ.get("SPACE_HOST", "").split(",")]
    return {name.strip().lower() for name in names if name.strip()}


Answer = Callable[..., Mapping[str, Any]]

AT_ONCE = 40
_STATUS = {
    "internal": 500,
    "bad_catalog": 500,
    "repo_not_found": 404,
    "repo_gated": 403,
    "not_permitted": 403,
    "rate_limited": 429,
    "hub_garbage": 502,
    "hub_error": 502,
    "hub_unreachable": 503,
    "busy": 503,
}
_MENDABLE = 422  # every other code is something that the caller can mend


def refusal(sentence: str, code: str, status: int | None = None) -> Response:
    """A refusal in Gradio's form."""
    return JSONResponse({"error": sentence, "title": code}, status_code=status or _STATUS.get(code, _MENDABLE))


class Direct:
    """Answers questions on threads of their own, a bounded number at a time."""

    def __init__(self) -> None:
        """No thread is started before the first question."""
        self._limit: anyio.CapacityLimiter | None = None

    async def __call__(self, answer: Answer, values: Sequence[object]) -> Response:
        """The answer to one question, or its refusal."""
        if self._limit is None:
            self._limit = anyio.CapacityLimiter(AT_ONCE)
        try:
            return Response(await anyio.to_thread.run_sync(_worked_out, answer, values, limiter=self._limit), media_type="application/json")
        except Refused as refused:
            return refusal(str(refused), refused.code)


def _worked_out(answer: Answer, values: Sequence[object]) -> str:
    began = time.perf_counter()
    data = [answer(*values)]
    took = time.perf_counter() - began
    return json.dumps({"data": data, "is_generating": False, "duration": took, "average_duration": took}, allow_nan=False)


_CALL = re.compile(r"/gradio_api/(?P<how>run|api|call/v2|call)/(?P<name>[^/]+)/?")
_EVENT = re.compile(r"/gradio_api/call/(?:v2/)?[^/]+/(?P<id>[^/]+)/?")
_DIRECT = {"run", "api"}
_BY_NUMBER = "predict"  # the page's own calls: /run/predict with a function's number
_BY_NUMBER_TOO = "/gradio_api/queue/join"  # and those of gradio_client
_MCP = "/gradio_api/mcp"
_PARSE_ERROR = -32700
_LONG = frozenset({"model", "history"})  # arguments that may be long: a pasted config.json, a conversation


class _Unknown(InvalidInput):
    """A name that is not public."""


class Edge:
    """ASGI middleware; touches nothing but what is closed, and POST requests below /gradio_api/."""

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[str, Endpoint],
        public: Callable[[], Mapping[int, str]],
        places: Places | None = None,
        *,
        sessions: Sessions | None = None,
        bodies: Bodies | None = None,
    ) -> None:
        """Stand in front of `app`, whose public functions are `public`, names by number; calls of those in `endpoints` are checked here.

        `places` bounds how many calls wait for the device, and `sessions` what is kept of them; None bounds nothing. `bodies` are the
        limits on what is sent, those of `lib.ui.http.bodies` by default.
        """
        self._app = app
        self._endpoints = endpoints
        self._answers = {name: answered(e.question, Refused) for name, e in endpoints.items() if not e.queued}
        self._direct = Direct()
        self._long = {name for name, e in endpoints.items() if _LONG & signature_of(e.question).parameters.keys()}
        self._public, self._places, self._sessions = public, places, sessions
        self._bodies = bodies or Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, mended or unchanged, or answer it here."""
        path = str(scope.get("path", ""))
        not_here = (closed(path) or self._over(scope, path)) if scope["type"] == "http" else None
        if not_here is not None:
            await refusal(not_here, InvalidInput.code, 404)(scope, receive, send)
            return
        if scope["type"] != "http" or scope["method"] != "POST" or not path.startswith("/gradio_api/"):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._bodies.receive(scope, receive, self._most_bytes(path))
            outcome, sent = await self._outcome(path, body)
            if isinstance(outcome, Response):
                await outcome(scope, receive, send)
                return
            of_the_page = self._of_the_page(path, sent)
            if signed_in(scope) and (foreign(scope) or not of_the_page):
                scope = anonymous(scope)
            if sent and self._sessions is not None:
                self._sessions.watch(sent.get("session_hash"), of_the_page=of_the_page)
            with self._place(path, sent):
                await self._app(_with_length(scope, len(outcome)), _replay(outcome, receive), send)
        except AdvisorError as refused:
            status = refused.status if isinstance(refused, RefusedBody) else 404 if isinstance(refused, _Unknown) else None
            await refusal(str(refused), refused.code, status)(scope, receive, send)

    def _over(self, scope: Scope, path: str) -> str | None:
        """The sentence for an answer that is asked for and not there; Gradio would break off in the middle of its own answer."""
        event = _EVENT.fullmatch(path)
        if self._sessions is None or scope["method"] != "GET" or event is None or self._sessions.has_answer(event["id"]):
            return None
        return f"There is no answer under this event_id: it was read, or nobody read it for {ANSWER_S:g} s, or it never was. Call again."

    def _of_the_page(self, path: str, sent: Mapping[str, Any]) -> bool:
        """Whether this calls an event of the page: by a number, and not that of a public endpoint."""
        number = sent.get("fn_index")
        return _numbered(path) and type(number) is int and number not in self._public()

    def _place(self, path: str, sent: Mapping[str, Any]) -> AbstractContextManager[None]:
        """A place before the slot that this call waits for; none is needed where it waits for nothing."""
        if self._places is None:
            return nullcontext()
        call = _CALL.fullmatch(path)
        endpoint = self._endpoints.get(call["name"]) if call is not None else None
        by_name = endpoint.slot if endpoint is not None and endpoint.queued else None
        return self._places.one(self._places.slot(sent.get("fn_index")) if _numbered(path) else by_name)

    def _most_bytes(self, path: str) -> int:
        """How long a body may be: the page's events and MCP messages, whatever they ask, as long as the longest."""
        call = _CALL.fullmatch(path)
        long = path.startswith(_MCP) or _numbered(path) or (call is not None and call["name"] in self._long)
        return LARGE_BYTES if long else SMALL_BYTES

    async def _outcome(self, path: str, body: bytes) -> tuple[bytes | Response, Mapping[str, Any]]:
        """The body to pass on, or the answer; and what a call of a function sends (empty for every other request)."""
        if path.startswith(_MCP):
            return (body if await self._is_json(body) else _unreadable()), {}
        call = _CALL.fullmatch(path)
        if call is None or _numbered(path):
            return body, _checked(await self._bodies.json_object(body)) if _numbered(path) else {}
        endpoint = self._endpoints.get(call["name"])
        if endpoint is None:
            names = set(self._public().values())
            if call["name"] not in names:
                raise _Unknown(f"There is no endpoint {shown(call['name'])}. The endpoints are {', '.join(sorted(names))}.")
            return body, _checked(await self._bodies.json_object(body))
        if endpoint.queued and call["how"] in _DIRECT:
            raise _waits(call["name"])
        sent = await self._bodies.json_object(body)
        token = _token(sent)
        if call["how"] == "call/v2":
            check_names(endpoint.question, {name: value for name, value in sent.items() if name != "oauth_token"})
            return body, _checked(sent)
        values = sent.get("data")
        if not isinstance(values, list):
            raise InvalidInput(
                f'The body has no list under "data". Accepted: {{"data": [...]}} with the arguments of {call["name"]} in order.'
            )
        full = filled(endpoint.question, values)
        if call["how"] in _DIRECT:
            answer = self._answers[call["name"]]
            return await self._direct(functools.partial(answer, token=token) if endpoint.account else answer, full), sent
        return (body if len(full) == len(values) else json.dumps(sent | {"data": full}).encode()), _checked(sent)

    async def _is_json(self, body: bytes) -> bool:
        try:
            await self._bodies.parsed(body)
        except UnreadableJson:
            return False
        return True


def _numbered(path: str) -> bool:
    """Whether the function is named by its number in the body."""
    call = _CALL.fullmatch(path)
    return path.rstrip("/") == _BY_NUMBER_TOO or (call is not None and call["name"] == _BY_NUMBER and call["how"] in _DIRECT)


def _checked(sent: dict[str, Any]) -> dict[str, Any]:
    """What a call of a function sends, when Gradio may have it.

    Raises:
        InvalidInput: a number that is none (Gradio would read "7" and true as numbers too), or a file in it.
    """
    if type(sent.get("fn_index")) not in (int, type(None)):
        raise InvalidInput("fn_index is not a whole number. Accepted: the number of a function as /config lists it.")
    if holds_file(sent):
        raise InvalidInput(NO_FILES)
    return sent


def _waits(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} waits its turn, so it cannot be answered at once. POST the same body to /gradio_api/call/{name}, and read the answer "
        f"from GET /gradio_api/call/{name}/EVENT_ID with the event_id that comes back."
    )


def _token(sent: Mapping[str, object]) -> str | None:
    """The caller's own token, if one came.

    Raises:
        InvalidInput: it is no text; what it is, is not repeated.
    """
    token = sent.get("oauth_token")
    if token is not None and not isinstance(token, str):
        raise InvalidInput('"oauth_token" is not a text. Accepted: your own Hugging Face token as a text, or nothing.')
    return token or None


def _unreadable() -> Response:
    """JSON-RPC's own answer to what is no JSON: MCP's server would die in such a body with a bare 500."""
    said = f"The body is not JSON of at most {MOST_NODES:,} values, or it is nested too deeply or holds a number too long to be read."
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": _PARSE_ERROR, "message": said}}, status_code=400)


def _with_length(scope: Scope, length: int) -> Scope:
    headers = [(name, value) for name, value in scope["headers"] if name not in {b"content-length", b"transfer-encoding"}]
    return {**scope, "headers": [*headers, (b"content-length", str(length).encode())]}


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever still comes (the client going away)."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


_HEADER = (b"content-security-policy", b"frame-ancestors 'self' https://huggingface.co https://*.huggingface.co")


class Framing:
    """ASGI middleware: every page says who may frame it."""

    def __init__(self, app: ASGIApp) -> None:
        """Stand in front of `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the header to an answer that is a page."""

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in headers):
                    message = {**message, "headers": [*headers, _HEADER]}
            await send(message)

        await self._app(scope, receive, told if scope["type"] == "http" else send)
