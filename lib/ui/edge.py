"""What stands in front of Gradio's own routes: a limit on the size of a body, and calls that Gradio would answer with a bare 500.

Gradio reads a body of any size, and a call with a missing, unknown or superfluous argument dies in it as an unexplained server error.
Here such calls get the sentence they deserve, in Gradio's own form of an error ({"error": …, "title": …}), values left out at the
end of {"data": […]} get their defaults, as the contract promises, and only public names can be called by name (Gradio's `private` hides
a name, it does not close it; the page itself calls by number). Direct calls of the public questions are answered here (`lib.ui.direct`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from lib.errors import AdvisorError, InvalidInput, shown
from lib.ui.answered import Refused, answered
from lib.ui.calls import check_names, filled
from lib.ui.direct import Direct, refusal
from lib.ui.endpoints import Endpoint

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 4 * 2**20  # a megabyte of configuration, escaped twice, and room to spare
_CALL = re.compile(r"/gradio_api/(?P<how>run|api|call/v2|call)/(?P<name>[^/]+)/?")
_DIRECT = {"run", "api"}
_BY_NUMBER = "predict"  # the page's own calls: /run/predict with a function's number
_MCP = "/gradio_api/mcp"
_PARSE_ERROR = -32700
_UPLOAD = "/gradio_api/upload"  # nothing on the page takes a file; what strangers store would stay on the disk


class _TooLarge(InvalidInput):
    """A body beyond the limit."""


class _Unknown(InvalidInput):
    """A name that is not public."""


class Edge:
    """ASGI middleware; touches nothing but POST requests below /gradio_api/."""

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint], public: Callable[[], Collection[str]]) -> None:
        """Stand in front of `app`, whose endpoints are `public`; the arguments of those in `endpoints` are checked here."""
        self._app = app
        self._endpoints = endpoints
        self._answers = {name: answered(endpoint.question, Refused) for name, endpoint in endpoints.items()}
        self._direct = Direct()
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, mended or unchanged, or answer it here."""
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or scope["method"] != "POST" or not path.startswith("/gradio_api/"):
            await self._app(scope, receive, send)
            return
        try:
            if path.startswith(_UPLOAD):
                raise _Unknown("Files are not taken here. Paste the text of a config.json as the model instead.")
            outcome = await self._outcome(path, await _read(scope, receive))
        except AdvisorError as refused:
            status = 413 if isinstance(refused, _TooLarge) else 404 if isinstance(refused, _Unknown) else None
            outcome = refusal(str(refused), refused.code, status)
        if isinstance(outcome, Response):
            await outcome(scope, receive, send)
        else:
            await self._app(_with_length(scope, len(outcome)), _replay(outcome, receive), send)

    async def _outcome(self, path: str, body: bytes) -> bytes | Response:
        """The body to pass on, or the answer."""
        if path.startswith(_MCP):
            return body if _is_json(body) else _unreadable()
        call = _CALL.fullmatch(path)
        if call is None or call["name"] == _BY_NUMBER:
            return body
        endpoint = self._endpoints.get(call["name"])
        if endpoint is None and call["name"] not in self._public():
            raise _Unknown(f"There is no endpoint {shown(call['name'])}. The endpoints are {', '.join(sorted(self._public()))}.")
        if endpoint is None:
            return body
        question = endpoint.question
        sent = _json_object(body)
        if call["how"] == "call/v2":
            check_names(question, {name: value for name, value in sent.items() if name != "oauth_token"})
            return body
        values = sent.get("data")
        if not isinstance(values, list):
            raise InvalidInput(
                f'The body has no list under "data". Accepted: {{"data": [...]}} with the arguments of {question.__name__} in order.'
            )
        full = filled(question, values)
        if call["how"] in _DIRECT:
            return await self._direct(self._answers[call["name"]], full)
        return body if len(full) == len(values) else json.dumps(sent | {"data": full}).encode()


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
