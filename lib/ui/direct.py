"""One call, one answer, without Gradio's machinery: what stands behind POST /gradio_api/run/<endpoint>.

Gradio copies the configuration of every component on the page for each call that names no session: 10 ms of processor time for this page
and a second for a hundred callers, while the question itself takes one or two milliseconds. The public questions touch no
component, so they are answered here, in Gradio's own form: {"data": [answer], ...}, or {"error": sentence, "title": code}.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from starlette.responses import JSONResponse, Response

from lib.ui.answered import Refused

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
