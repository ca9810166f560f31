"""`/agents` and `/llms.txt`: how scripts and agents call the app, made of the endpoints' own arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse
from starlette.routing import Route

from lib.present.agents_text import EndpointText, agents_text
from lib.ui.http.api import Endpoint
from lib.ui.http.mcp import PATH, description, input_schema

if TYPE_CHECKING:
    from starlette.requests import Request

_HOST = re.compile(r"[A-Za-z0-9.\-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Robots-Tag": "all"}


def routes(endpoints: Mapping[str, Endpoint]) -> list[Route]:
    """The routes to put before Gradio's own."""

    async def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse(agents_text(own_address(request), PATH, list_endpoints(endpoints)), headers=_HEADERS)

    return [Route(path, answer, methods=["GET"]) for path in ("/agents", "/llms.txt")]


def list_endpoints(endpoints: Mapping[str, Endpoint]) -> list[EndpointText]:
    """What the text says of each endpoint; read from its signature and docstring, as MCP reads them."""
    return [
        EndpointText(
            name=name,
            summary=" ".join(description(endpoint.question).split()),
            arguments=input_schema(endpoint.question),
            account=endpoint.account,
            waits=endpoint.queue is not None,
            writes=endpoint.writes,
        )
        for name, endpoint in endpoints.items()
    ]


def own_address(request: Request) -> str:
    """The app's address as the caller knows it, which proxies pass on; a Host header that is no host name is not repeated."""
    host = request.headers.get("x-forwarded-host", request.headers.get("host", ""))
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme).partition(",")[0].strip()
    if not _HOST.fullmatch(host) or scheme not in {"http", "https"}:
        return "http://127.0.0.1:7860"
    return f"{scheme}://{host}{request.scope.get('root_path', '').rstrip('/')}"
