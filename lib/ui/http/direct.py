"""Questions that need no queue are answered by routes of our own, over `run` and over `call`.

Gradio answers `POST /gradio_api/run/NAME` and `POST /gradio_api/call/NAME` as it answers the page: it makes a session, copies the
settings of components, and passes every value through them, which takes 7 to 10 ms on the thread that serves everybody, while the question
itself takes one or two milliseconds on another. These questions touch no component, so the answer needs nothing of Gradio but its form.

- `run`: {"data": [answer], ...}, or {"error": sentence, "title": code} with the status of the code.
- `call`: {"event_id": ...}, and under it, once, for a minute: an event "complete" with [answer], or "error" with the sentence and its code.
  The question is answered before the event's name is told, so that who asks for much waits for it.
"""

from __future__ import annotations

import functools
import json
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
from cachetools import TTLCache
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from lib.errors import AdvisorError, InvalidInput
from lib.ui.http.api import (
    CALLS_AT_ONCE,
    Endpoint,
    Refusal,
    check_names,
    error_body,
    error_response,
    fill_defaults,
    token_of,
    values_of,
    wrap_question,
)
from lib.ui.http.bodies import Bodies
from lib.ui.http.sessions import ANSWER_S, no_answer

if TYPE_CHECKING:
    from starlette.requests import Request

UNREAD_BYTES = 32 * 2**20
"""Of answers that nobody has read yet; the oldest make room."""


def direct_routes(endpoints: Mapping[str, Endpoint]) -> list[BaseRoute]:
    """The routes to put before Gradio's own: each question is answered on a thread of a bounded number."""
    state = _CallState()
    routes: list[BaseRoute] = []
    for name, endpoint in endpoints.items():
        if endpoint.queue is not None:
            continue
        answer = _QuestionRoutes(name, endpoint, state)
        routes += [
            Route(f"/gradio_api/run/{name}", answer.run, methods=["POST"]),
            Route(f"/gradio_api/call/{name}", answer.call, methods=["POST"]),
            Route(f"/gradio_api/call/v2/{name}", answer.call_by_names, methods=["POST"]),
        ]
        routes += [Route(f"/gradio_api/{how}/{name}/{{event}}", state.read, methods=["GET"]) for how in ("call", "call/v2")]
    return routes


class _CallState:
    """What all questions share: threads, the reading of bodies, and answers that wait to be read. For the event loop only."""

    def __init__(self) -> None:
        self.bodies = Bodies()
        self.threads = functools.cache(lambda: anyio.CapacityLimiter(CALLS_AT_ONCE))
        self._unread: TTLCache[str, str] = TTLCache(UNREAD_BYTES, ANSWER_S, time.monotonic, len)

    def keep(self, event: str, data: object) -> JSONResponse:
        """Keep what a stream will tell, and name it."""
        name, text = uuid.uuid4().hex, f"event: {event}\ndata: {data if isinstance(data, str) else json.dumps(data)}\n\n"
        self._unread[name] = text
        return JSONResponse({"event_id": name})

    async def read(self, request: Request) -> Response:
        """The stream of one call, once."""
        text = self._unread.pop(request.path_params["event"], None)
        if text is None:
            return error_response(InvalidInput(no_answer()), 404)
        return Response(text, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


class _QuestionRoutes:
    """One question, as routes ask it."""

    def __init__(self, name: str, endpoint: Endpoint, state: _CallState) -> None:
        self._name, self._endpoint, self._state = name, endpoint, state
        self._answer = wrap_question(endpoint.question, Refusal)

    async def run(self, request: Request) -> Response:
        """Values in order; the answer at once."""
        try:
            began = time.perf_counter()
            data = await self._answer_json(await self._read_values(request))
        except AdvisorError as error:
            return error_response(error)
        except Refusal as refusal:
            return error_body(str(refusal), refusal.code)
        took = time.perf_counter() - began
        head = json.dumps({"is_generating": False, "duration": took, "average_duration": took})
        return Response(f'{{"data": {data}, {head[1:]}', media_type="application/json")

    async def call(self, request: Request) -> Response:
        """Values in order; the answer under a name."""
        return await self._respond_call(request, by_names=False)

    async def call_by_names(self, request: Request) -> Response:
        """Values by the names of the arguments; the answer under a name."""
        return await self._respond_call(request, by_names=True)

    async def _respond_call(self, request: Request, *, by_names: bool) -> Response:
        try:
            return self._state.keep("complete", await self._answer_json(await self._read_values(request), by_names=by_names))
        except AdvisorError as error:
            return error_response(error)
        except Refusal as refusal:
            return self._state.keep("error", {"error": str(refusal), "title": refusal.code, "visible": True})

    async def _read_values(self, request: Request) -> dict[str, Any]:
        return await self._state.bodies.json_object(await request.body())

    async def _answer_json(self, sent: Mapping[str, Any], *, by_names: bool = False) -> str:
        """The JSON text of a list of one, the answer.

        Raises:
            InvalidInput: what was sent does not fit the question.
            Refusal: the question was refused.
        """
        question, token = self._endpoint.question, token_of(sent)
        values: list[object] = []
        keywords: dict[str, object] = {}
        if by_names:
            keywords = {name: value for name, value in sent.items() if name != "oauth_token"}
            check_names(question, keywords)
        else:
            values = fill_defaults(question, values_of(self._name, sent))
        if self._endpoint.takes_token:
            keywords["token"] = token
        work = functools.partial(self._answer, *values, **keywords)
        return await anyio.to_thread.run_sync(lambda: json.dumps([work()], allow_nan=False), limiter=self._state.threads())
