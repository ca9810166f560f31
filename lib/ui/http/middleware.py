"""ASGI middleware in front of Gradio's own routes: which requests are answered, and what Gradio gets of them.

`ApiMiddleware` looks at every request:

- Only what `ALLOWED` lists is answered: what the page, `gradio_client`, scripts and agents need. Everything else is refused, and its body
  is not read: Gradio's own `/login` would write a body of any size to the disk. Nothing here takes a file: a value that says it is one is
  fetched by Gradio from any address, into the server's disk, before any function of ours is asked; a "deep link" writes half
  a megabyte a session; a "proxy" fetches from other Spaces.
- BodyLimits are received and parsed within bounds (`lib.ui.http.bodies`); sessions end when they are over (`lib.ui.http.callers`).
- A call with missing, unknown or superfluous arguments dies in Gradio with a bare 500. Here it gets a sentence, in Gradio's own form of an
  error, and defaults for values left out at the end of {"data": [...]}, as the contract promises. Only public names can be called by name:
  Gradio's `private` hides a name and does not close it. The page itself calls by number.
- Only the page's own events keep the browser's login, and a foreign page cannot sign a visitor out (`lib.ui.http.callers`).
- A call that has to wait for the device needs a free waiting place (`lib.ui.http.callers`) and valid arguments. The queue learns the caller
  (`lib.ui.http.callers`).

A call by name of a question that needs no queue goes to a route of our own (`lib.ui.http.shortcuts`), which checks it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Container, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import anyio
from starlette.datastructures import Headers, QueryParams

from lib.errors import AdvisorError, InvalidInput, UnreadableJson, quote_value
from lib.service.endpoint import Endpoint, check_arguments
from lib.service.fair_turns import CALLER_GONE
from lib.ui.http import callers
from lib.ui.http.api import UnknownEndpoint, check_names, error_response, fill_defaults, public_signature, token_of, values_of
from lib.ui.http.bodies import LARGE_BYTES, SMALL_BYTES, BodyLimits, replay
from lib.ui.http.mcp import refuse_message

if TYPE_CHECKING:
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Receive, Scope, Send

_SIGN_OUT = "A sign-out is taken from the page of this app only. Open it and press “Sign out” there."
NO_FILES = "Files are not taken here. Paste the text of a config.json as the model instead."
_NOTHING = "Nothing is offered at this address."
_LONG = "The address is longer than 64 kB. Paste a long text on the page instead."
_LONGEST = 64_000
"""Bytes of a query. The library that reads addresses fails from 65,536 bytes of an address on."""
_NO_BODY = "This address takes no body. Send the request without one."
_FILE = "gradio.FileData"
_FILE_ROUTES = ("/gradio_api/upload", "/gradio_api/process_recording")
_API = "/gradio_api/"
_READ = (
    "/", "/agents", "/assets/", "/config", "/favicon.ico", "/healthz", "/ledger.csv", "/ledger.parquet", "/llms.txt", "/login/callback",
    "/login/huggingface", "/logout", "/manifest.json", "/preview.png", "/pwa_icon/", "/robots.txt", "/static/", "/svelte/", "/theme.css",
    *(_API + name for name in ("app_id", "call/", "heartbeat/", "info", "mcp/", "openapi.json", "queue/data")),
    "/gradio_api/startup-events", "/gradio_api/theme.css",
)  # fmt: skip
_CALLED = tuple(_API + name for name in ("api/", "call/", "cancel", "mcp/", "queue/join", "reset", "run/"))
ALLOWED: dict[str, tuple[str, ...]] = {"GET": _READ, "HEAD": _READ, "POST": _CALLED, "DELETE": (_API + "mcp/",)}
"""All that is answered: by method, addresses and, with a slash at the end, beginnings of addresses. Only a POST has a body."""


def is_allowed(method: str, path: str) -> bool:
    """Whether a request is answered. A closing slash changes nothing."""
    whole = _closed(path)
    return any(whole == _closed(one) or (one != "/" and one.endswith("/") and whole.startswith(one)) for one in ALLOWED.get(method, ()))


def _closed(path: str) -> str:
    return path.rstrip("/") + "/"


def refuse_request(scope: Scope) -> JSONResponse | None:
    """The refusal of a request that is not offered here; None for all others. The body of a refused request is not read."""
    path, headers = str(scope["path"]), Headers(scope=scope)
    if path.startswith(_FILE_ROUTES):
        return _refusal(NO_FILES, 404)
    if not path.isprintable() or not is_allowed(scope["method"], path):  # Gradio makes an address of it, in the middle of an answer
        return _refusal(_NOTHING, 404)
    if len(scope.get("query_string", b"")) > _LONGEST:
        return _refusal(_LONG, 414)
    if scope["method"] != "POST" and (headers.get("content-length", "0") != "0" or "transfer-encoding" in headers):
        return _refusal(_NO_BODY, 413)
    return _refuse_login(QueryParams(scope["query_string"])) if path.startswith("/login/") else None


_REDIRECTS = re.compile("[0-9]{1,3}")


def _refuse_login(query: QueryParams) -> JSONResponse | None:
    if not _REDIRECTS.fullmatch(query.get("_nb_redirects", "0")):
        return _refusal("_nb_redirects is not a number of redirects. Open the app's page and sign in there.", 400)
    if "error" in query:
        return _refusal("The sign-in was not completed on huggingface.co. Open the app's page and sign in again.", 400)
    return None


def _refusal(sentence: str, status: int) -> JSONResponse:
    response = error_response(InvalidInput(sentence), status)
    response.headers["connection"] = "close"  # else the server would read the body and throw it away
    return response


def holds_file(payload: Any) -> bool:
    """Whether anything in a call's JSON would be taken for a file by Gradio (`gradio_client.utils.is_file_obj_with_meta`)."""
    unread = [payload]
    while unread:
        value = unread.pop()
        if isinstance(value, list):
            unread += value
        elif isinstance(value, dict):
            meta = value.get("meta")
            if isinstance(meta, dict) and meta.get("_type") == _FILE:
                return True
            unread += value.values()
    return False


_CALL = re.compile(r"/gradio_api/(?P<how>run|api|call/v2|call)/(?P<name>[^/]+)/?")
_EVENT = re.compile(r"/gradio_api/call/(?:v2/)?(?P<name>[^/]+)/(?P<id>[^/]+)/?")
_ONE_SHOT = {"run", "api"}
_BY_NUMBER = "predict"  # the page's own calls: /run/predict with a function's number
_STREAM = "/gradio_api/queue/data"
_QUEUE_BY_NUMBER = "/gradio_api/queue/join"  # and those of gradio_client
_MCP = "/gradio_api/mcp"
_LONG_ARGUMENTS = frozenset({"model", "history"})  # a pasted config.json, a conversation


_AROUND: dict[str, tuple[type, ...]] = {
    "fn_index": (int,),
    "trigger_id": (int,),
    "session_hash": (str,),
    "event_id": (str,),
    "simple_format": (bool,),
    "batched": (bool,),
}
_TYPE_WORDS = {int: "a whole number", str: "a text", bool: "true or false"}
_SESSION_LENGTH = 100


class ApiMiddleware:
    """Refuses unlisted routes, checks POST requests, and passes all others on unread."""

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[str, Endpoint],
        public: Callable[[], Mapping[int, str]],
        places: callers.QueueSlots | None = None,
        *,
        events: Container[int] | None = None,
        sessions: callers.Sessions | None = None,
        bodies: BodyLimits | None = None,
    ) -> None:
        """Wrap `app`, whose public functions are `public`, names by number; calls of those in `endpoints` are checked here.

        `events` are the numbers of all functions; None takes any number.
        `places` bounds how many calls wait for the device, and `sessions` their stored data; None sets no bound. `bodies` are the
        limits on bodies, those of `lib.ui.http.bodies` by default.
        """
        self._app, self._endpoints = app, endpoints
        self._long = {name for name, e in endpoints.items() if _LONG_ARGUMENTS & public_signature(e.question).parameters.keys()}
        self._public, self._events, self._places, self._sessions = public, events, places, sessions
        self._bodies = bodies or BodyLimits()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, mended or unchanged, or refuse it."""
        path = str(scope.get("path", ""))
        refusal = refuse_request(scope) if scope["type"] == "http" else None
        sentence = self._no_answer(scope, path) if scope["type"] == "http" else None
        if refusal is not None:
            await refusal(scope, receive, send)
        elif sentence is not None:
            await error_response(InvalidInput(sentence), 404)(scope, receive, send)
        elif scope["type"] == "http" and callers.is_foreign_logout(scope):
            await error_response(InvalidInput(_SIGN_OUT), 403)(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "GET" and path.rstrip("/") == _STREAM and self._sessions is not None:
            await self._stream(self._sessions, scope, receive, send)
        elif scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
        else:
            try:
                await self._post(path, scope, receive, send)
            except AdvisorError as error:
                await error_response(error)(scope, receive, send)

    async def _post(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a POST request on."""
        scope = callers.name_caller(scope)
        body = await self._bodies.receive(scope, receive, self._most_bytes(path), scope[callers.KEY])
        call = _CALL.fullmatch(path)
        payload: Mapping[str, Any] = {}
        if path.startswith(_MCP):
            refusal = refuse_message(await self._json_of_message(body), Headers(scope=scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        elif _is_numbered(path):
            payload = _checked_call(await self._bodies.json_object(body))
            self._check_number(payload)
        elif call is not None and self._is_direct(call["how"], call["name"]):
            scope = {**scope, "path": f"/gradio_api/{'run' if call['how'] in _ONE_SHOT else call['how']}/{call['name']}"}
        elif call is not None:
            payload, body = await self._checked_by_name(call["how"], call["name"], body)
        page_event = self._is_page_event(path, payload)
        if callers.has_cookies(scope) and (callers.is_foreign(scope) or not page_event):
            scope = callers.strip_login(scope)
        if payload and self._sessions is not None:
            self._sessions.watch(payload.get("session_hash"), of_the_page=page_event)
        place = nullcontext() if self._places is None else self._places.place(self._device_queue(path, call, payload), scope[callers.KEY])
        with place, anyio.CancelScope() as while_connected:
            watch = asyncio.create_task(_cancel_when_gone(receive, while_connected))
            CALLER_GONE.set(lambda: while_connected.cancel_called)  # threads that wait for a build read it
            try:
                await self._app(_with_length(scope, len(body)), replay(body), send)
            finally:
                watch.cancel()

    def _no_answer(self, scope: Scope, path: str) -> str | None:
        """The sentence for an answer that is asked for and not there; Gradio would break off in the middle of its own response."""
        if self._sessions is None or scope["method"] != "GET":
            return None
        event = _EVENT.fullmatch(path)
        endpoint = None if event is None else self._endpoints.get(event["name"])
        is_direct = endpoint is not None and endpoint.queue is None  # then the route itself knows
        if event is not None and not is_direct and not self._sessions.has_answer(event["id"]):
            return callers.no_answer()
        return None

    async def _stream(self, sessions: callers.Sessions, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the reader of a session's answers, unless there are none or others read them already."""
        session = QueryParams(scope["query_string"]).get("session_hash", "")
        if not sessions.has_stream(session):
            sentence = "Nothing is asked in this session (session_hash), so nothing can be read from it. Join the queue first."
            await error_response(InvalidInput(sentence), 404)(scope, receive, send)
        elif sessions.streams[session] >= callers.MOST_STREAMS:
            await error_response(InvalidInput(callers.crowded_stream()), 429)(scope, receive, send)
        else:
            with sessions.stream(session):
                await self._app(scope, receive, send)

    def _is_page_event(self, path: str, payload: Mapping[str, Any]) -> bool:
        """Whether this calls an event of the page: by a number, and not that of a public endpoint."""
        number = payload.get("fn_index")
        return _is_numbered(path) and type(number) is int and number not in self._public()

    def _check_number(self, payload: Mapping[str, Any]) -> None:
        """See that a call by number names a function and sends a list, so that Gradio does not die of it."""
        number = payload.get("fn_index")
        if number is None or (self._events is not None and number not in self._events):
            raise UnknownEndpoint("The page has no event of this number (fn_index). It is older than the app: load it again.")
        values_of("the event", payload)

    def _is_direct(self, how: str, name: str) -> bool:
        """Whether a route of our own answers this call."""
        endpoint = self._endpoints.get(name)
        if endpoint is None or endpoint.queue is None:
            return endpoint is not None
        if how in _ONE_SHOT:
            raise InvalidInput(
                f"{name} waits its turn, so it cannot be answered immediately. POST the same body to /gradio_api/call/{name}, and read the "
                f"answer from GET /gradio_api/call/{name}/EVENT_ID with the event_id that comes back."
            )
        return False

    def _device_queue(self, path: str, call: re.Match[str] | None, payload: Mapping[str, Any]) -> str | None:
        """The device queue that this call waits in; None if it waits for nothing."""
        if self._places is not None and _is_numbered(path):
            return self._places.queue_of(payload.get("fn_index"))
        endpoint = self._endpoints.get(call["name"]) if call is not None else None
        return endpoint.queue if endpoint is not None else None

    def _most_bytes(self, path: str) -> int:
        """How long a body may be: for the page's events and for MCP messages always the longest limit."""
        call = _CALL.fullmatch(path)
        is_long = path.startswith(_MCP) or _is_numbered(path) or (call is not None and call["name"] in self._long)
        return LARGE_BYTES if is_long else SMALL_BYTES

    async def _checked_by_name(self, how: str, name: str, body: bytes) -> tuple[Mapping[str, Any], bytes]:
        """The body of a call by name, and the body to pass on, defaults filled in."""
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            names = set(self._public().values())
            if name not in names:
                raise UnknownEndpoint(f"There is no endpoint {quote_value(name)}. The endpoints are {', '.join(sorted(names))}.")
            return _checked_call(await self._bodies.json_object(body)), body
        payload = await self._bodies.json_object(body)
        token_of(payload)
        if how == "call/v2":
            keywords = {name: value for name, value in payload.items() if name != "oauth_token"}
            check_names(endpoint.question, keywords)
            await self._check_before_waiting(endpoint, keywords)
            return _checked_call(payload), body
        values = values_of(name, payload)
        full = fill_defaults(endpoint.question, values)
        await self._check_before_waiting(endpoint, dict(zip(public_signature(endpoint.question).parameters, full, strict=True)))
        return _checked_call(payload), body if len(full) == len(values) else json.dumps(payload | {"data": full}).encode()

    async def _check_before_waiting(self, endpoint: Endpoint, arguments: Mapping[str, object]) -> None:
        """Refuse now what would be refused after a wait for the device."""
        if endpoint.queue is not None:
            await self._bodies.aside(check_arguments, endpoint.question, arguments)

    async def _json_of_message(self, body: bytes) -> Any:
        """The JSON of an MCP message; None if it is not JSON."""
        try:
            return await self._bodies.parse(body)
        except UnreadableJson:
            return None


def _is_numbered(path: str) -> bool:
    """Whether the function is named by its number in the body."""
    call = _CALL.fullmatch(path)
    return path.rstrip("/") == _QUEUE_BY_NUMBER or (call is not None and call["name"] == _BY_NUMBER and call["how"] in _ONE_SHOT)


def _checked_call(payload: dict[str, Any]) -> dict[str, Any]:
    """The body of a call of a function, when Gradio may have it."""
    for name, types in _AROUND.items():
        value = payload.get(name)
        if value is not None and type(value) not in types:
            raise InvalidInput(
                f"{name} is not {' or '.join(_TYPE_WORDS[kind] for kind in types)}. The page and gradio_client send it right."
            )
    token_of(payload)
    session = payload.get("session_hash") or ""
    if not (session.isascii() and session.isprintable() and len(session) <= _SESSION_LENGTH):
        raise InvalidInput(f"session_hash is not a name of a session. Accepted: up to {_SESSION_LENGTH} plain characters.")
    if payload.get("batched"):
        raise InvalidInput('"batched" is not offered here. Send one call for each question.')
    if holds_file(payload):
        raise InvalidInput(NO_FILES)
    return payload


async def _cancel_when_gone(receive: Receive, work: anyio.CancelScope) -> None:
    """Cancel the work on a request whose client has gone: it leaves the queue. A thread that has begun ends by itself."""
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()


def _with_length(scope: Scope, length: int) -> Scope:
    headers = [(name, value) for name, value in scope["headers"] if name not in {b"content-length", b"transfer-encoding"}]
    return {**scope, "headers": [*headers, (b"content-length", str(length).encode())]}
