"""What stands in front of Gradio's own routes: a limit on the size of a body, and calls that Gradio would answer with a bare 500.

Gradio reads a body of any size, and a call with a missing, unknown or superfluous argument dies in it as an unexplained server error.
Here such calls get the sentence they deserve, in Gradio's own form of an error ({"error": …, "title": …}), values left out at the
end of {"data": […]} get their defaults, as the contract promises, and only public names can be called by name (Gradio's `private` hides
a name, it does not close it; the page itself calls by number). Direct calls of the public questions are answered here (`lib.ui.direct`).

The login of a browser is for the page's own events: calls of public endpoints, and everything that a foreign page sends, go on without it
(`lib.ui.origins`). Who acts over the API sends a token with the call. Whoever has to wait for the device finds a bounded number of places
(`lib.ui.places`), and what the page does not use is closed (`lib.ui.closed`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from lib.errors import AdvisorError, InvalidInput, shown
from lib.ui.answered import Refused, answered
from lib.ui.calls import check_names, filled
from lib.ui.closed import NO_FILES, closed, holds_file
from lib.ui.direct import Direct, refusal
from lib.ui.endpoints import Endpoint
from lib.ui.origins import anonymous, foreign, signed_in

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lib.ui.places import Places

LARGEST_BODY = 4 * 2**20  # a megabyte of configuration, escaped twice, and room to spare
_CALL = re.compile(r"/gradio_api/(?P<how>run|api|call/v2|call)/(?P<name>[^/]+)/?")
_DIRECT = {"run", "api"}
_BY_NUMBER = "predict"  # the page's own calls: /run/predict with a function's number
_BY_NUMBER_TOO = "/gradio_api/queue/join"  # and those of gradio_client
_MCP = "/gradio_api/mcp"
_PARSE_ERROR = -32700


class _TooLarge(InvalidInput):
    """A body beyond the limit."""


class _Unknown(InvalidInput):
    """A name that is not public."""


class Edge:
    """ASGI middleware; touches nothing but what is closed, and POST requests below /gradio_api/."""

    def __init__(
        self, app: ASGIApp, endpoints: Mapping[str, Endpoint], public: Callable[[], Mapping[int, str]], places: Places | None = None
    ) -> None:
        """Stand in front of `app`, whose public functions are `public`, names by number; calls of those in `endpoints` are checked here.

        `places` bounds how many calls wait for the device; None bounds nothing.
        """
        self._app = app
        self._endpoints = endpoints
        self._answers = {name: answered(e.question, Refused) for name, e in endpoints.items() if not e.queued}
        self._direct = Direct()
        self._public, self._places = public, places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, mended or unchanged, or answer it here."""
        path = str(scope.get("path", ""))
        not_here = closed(path) if scope["type"] == "http" else None
        if not_here is not None:
            await refusal(not_here, InvalidInput.code, 404)(scope, receive, send)
            return
        if scope["type"] != "http" or scope["method"] != "POST" or not path.startswith("/gradio_api/"):
            await self._app(scope, receive, send)
            return
        try:
            outcome = await self._outcome(path, await _read(scope, receive))
            if isinstance(outcome, Response):
                await outcome(scope, receive, send)
                return
            sent = _call(path, outcome)
            if signed_in(scope) and (foreign(scope) or not self._of_the_page(path, sent)):
                scope = anonymous(scope)
            with self._place(path, sent):
                await self._app(_with_length(scope, len(outcome)), _replay(outcome, receive), send)
        except AdvisorError as refused:
            status = 413 if isinstance(refused, _TooLarge) else 404 if isinstance(refused, _Unknown) else None
            await refusal(str(refused), refused.code, status)(scope, receive, send)

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

    async def _outcome(self, path: str, body: bytes) -> bytes | Response:
        """The body to pass on, or the answer."""
        if path.startswith(_MCP):
            return body if _is_json(body) else _unreadable()
        call = _CALL.fullmatch(path)
        if call is None or _numbered(path):
            return body
        endpoint = self._endpoints.get(call["name"])
        if endpoint is None:
            names = set(self._public().values())
            if call["name"] not in names:
                raise _Unknown(f"There is no endpoint {shown(call['name'])}. The endpoints are {', '.join(sorted(names))}.")
            return body
        if endpoint.queued and call["how"] in _DIRECT:
            raise _waits(call["name"])
        sent = _json_object(body)
        token = _token(sent)
        if call["how"] == "call/v2":
            check_names(endpoint.question, {name: value for name, value in sent.items() if name != "oauth_token"})
            return body
        values = sent.get("data")
        if not isinstance(values, list):
            raise InvalidInput(
                f'The body has no list under "data". Accepted: {{"data": [...]}} with the arguments of {call["name"]} in order.'
            )
        full = filled(endpoint.question, values)
        if call["how"] in _DIRECT:
            answer = self._answers[call["name"]]
            return await self._direct(functools.partial(answer, token=token) if endpoint.account else answer, full)
        return body if len(full) == len(values) else json.dumps(sent | {"data": full}).encode()


def _numbered(path: str) -> bool:
    """Whether the function is named by its number in the body."""
    call = _CALL.fullmatch(path)
    return path.rstrip("/") == _BY_NUMBER_TOO or (call is not None and call["name"] == _BY_NUMBER and call["how"] in _DIRECT)


def _call(path: str, body: bytes) -> dict[str, Any]:
    """What a call of a function sends; empty for every other request.

    Raises:
        InvalidInput: no JSON object, a number that is none (Gradio would read "7" and true as numbers too), or a file in it.
    """
    if not (_numbered(path) or _CALL.fullmatch(path)):
        return {}
    sent = _json_object(body)
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


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _unreadable() -> Response:
    """JSON-RPC's own answer to what is no JSON: MCP's server would die in such a body with a bare 500."""
    said = "The body is not JSON, or it is nested too deeply or holds a number too long to be read."
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": _PARSE_ERROR, "message": said}}, status_code=400)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError):
        sent = None
    if not isinstance(sent, dict):
        raise InvalidInput("The body is not a JSON object, or it is nested too deeply to be read as one.")
    return sent


async def _read(scope: Scope, receive: Receive) -> bytes:
    refusal = _TooLarge(f"The request is larger than {LARGEST_BODY // 2**20} MiB. A config.json has a few kilobytes; send only that.")
    length = dict(scope["headers"]).get(b"content-length", b"")
    if length.isdigit() and (len(length) > 12 or int(length) > LARGEST_BODY):  # noqa: PLR2004  a terabyte has 13 digits
        raise refusal
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            raise refusal
    return bytes(body)


def _with_length(scope: Scope, length: int) -> Scope:
    headers = [(name, value) for name, value in scope["headers"] if name not in {b"content-length", b"transfer-encoding"}]
    return {**scope, "headers": [*headers, (b"content-length", str(length).encode())]}


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever still comes (the client going away)."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message
