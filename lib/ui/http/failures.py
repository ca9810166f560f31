"""Failures leave the server as sentences with the status of their cause.

Gradio answers every failure of an event with status 500, a refusal as well; FastAPI repeats the values, a token too; an exception on the
way would be a bare 500. `Failures` wraps all of it, corrects the answer, and removes headers that crash Gradio;
`HANDLERS` replaces FastAPI's answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import httpx
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse, Response

from lib.errors import InvalidInput
from lib.ui.http.api import FAILED, error_body, error_response, log_failure
from lib.units import KIB

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HOST_HEADERS = frozenset((b"host", b"x-forwarded-host"))
_NODE_SERVER = b"x-gradio-server"  # of Gradio's own Node server, which is not used here
_HOST = re.compile(rb"[A-Za-z0-9_.:\[\]-]{1,300}")
_SERVER_ERROR = 500
_MOST_BYTES = 64 * KIB


class Failures:
    """Answers every failure behind it in a sentence."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on. A response of status 500 is held back until its sentence is known; every other passes as it comes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        drop_wrong_hosts(scope)
        began, is_error, body = False, False, bytearray()

        async def send_mended(message: Message) -> None:
            nonlocal began, is_error
            if message["type"] == "http.response.start":
                is_error = message["status"] == _SERVER_ERROR
            if not is_error:
                began = True
                await send(message)
                return
            body.extend(message.get("body", b"")[: _MOST_BYTES - len(body)])
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                began = True
                await _mend(bytes(body))(scope, receive, send)

        try:
            await self._app(scope, receive, send_mended)
        except Exception as failure:
            log_failure(f"{scope['method']} request", failure, ())
            if began:
                raise  # the client has half an answer: only a broken connection tells so
            await error_body(FAILED, "internal")(scope, receive, send)


def drop_wrong_hosts(scope: Scope) -> None:
    """Take out headers that name a host which cannot be one: Gradio makes its own address of them, and would die of it.

    The list itself is changed and not a copy: Gradio's CORS rules, which run before, read the host in it as the answer begins.
    If none is left (HTTP/1.0 asks for none) a name takes its place.
    """
    headers = scope["headers"]
    headers[:] = [
        (name, value)
        for name, value in headers
        if name != _NODE_SERVER and (name not in _HOST_HEADERS or _is_host(value.partition(b",")[0].strip()))
    ]
    if not any(name == b"host" for name, _ in headers):
        headers.append((b"host", b"localhost"))


@lru_cache(maxsize=256)
def _is_host(value: bytes) -> bool:
    """Whether Gradio can make an address of it."""
    if not _HOST.fullmatch(value):
        return False
    try:
        httpx.URL(f"http://{value.decode('ascii')}")
    except httpx.InvalidURL:
        return False
    return True


def _mend(body: bytes) -> JSONResponse:
    """The answer in place of one with status 500: its own sentence with the status of its code, or ours."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    sentence, code = (answer.get("error"), answer.get("title")) if isinstance(answer, dict) else (None, None)
    return error_body(sentence, str(code)) if isinstance(sentence, str) and sentence else error_body(FAILED, "internal")


async def _refuse_form(_request: Request, _failure: Exception) -> Response:
    """FastAPI's own answer would repeat the whole body."""
    return error_response(InvalidInput('The request is not of the form that this address takes. See the app\'s page, "Use via API".'))


async def _say_failed(_request: Request, _failure: Exception) -> Response:
    """The answer to a failure in Gradio's middleware, which runs in front of ours; the server logs it."""
    return error_body(FAILED, "internal")


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {RequestValidationError: _refuse_form, Exception: _say_failed}
"""Of FastAPI's exceptions."""
