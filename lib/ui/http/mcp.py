"""The public questions as tools of the Model Context Protocol (streamable HTTP): JSON answers with their schemas.

Gradio's own server answers with Python text and no output schema, so this one is served in its place, where clients of a Space look
for it: `/gradio_api/mcp/`, and `/gradio_api/mcp/schema` for the Hub's own listing. A tool's schemas are those of
the model of its arguments and of its answer's type; its description is its question's docstring. The server keeps no session: every
request gets its own transport, which ends with it, so there is nothing to start with the app and nothing to close. The package is imported
at the first request (0.7 s), not at the start.

A tool that acts for the caller, or reads a gated model, takes the caller's token from the header X-HF-Token. It never takes it from
arguments, because agents show and store those. One that streams answers with its last, fullest piece.

`/agents` and `/llms.txt` say how scripts and agents call the app, made of the same.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import gradio as gr
from gradio.context import LocalContext
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from lib.errors import Busy, InvalidInput, quote_value, read_json
from lib.live.device_queue import DEVICE_QUEUE_SLOTS, WAIT_S, width
from lib.present.agents import EndpointText, agents_text
from lib.service.endpoint import Endpoint, check_arguments
from lib.ui.http import api
from lib.ui.http.bodies import MOST_NODES, replay
from lib.ui.http.callers import VISITOR_HEADER
from lib.ui.http.fair_queue import FairQueue, Threads

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.types import CallToolResult, Tool
    from starlette.types import Message, Receive, Scope, Send

    from lib.request.fields import Arguments
    from lib.ui.http.api import Question


Result = TypeVar("Result")


def description(question: Question) -> str:
    """The docstring down to its list of arguments."""
    return (inspect.getdoc(question) or "").split("\nArgs:", 1)[0].strip()


def input_schema(question: Question) -> dict[str, Any]:
    """The JSON schema of the question's arguments, in the order of its signature."""
    model: type[Arguments] = question.arguments  # type: ignore[attr-defined]  # `bind_arguments` puts it there
    return model.json_schema()


def tool_hints(name: str, endpoint: Endpoint) -> dict[str, str | bool]:
    """Hints that a client may show before it calls the tool (`ToolAnnotations` of the protocol, 2025-03-26 and later).

    The world is open to tools that may ask the Hub: for a model or for an account.
    """
    return {
        "title": name.replace("_", " ").capitalize(),
        "readOnlyHint": not endpoint.writes,
        "destructiveHint": endpoint.destroys,
        "idempotentHint": endpoint.repeatable,
        "openWorldHint": endpoint.account or "model" in api.public_signature(endpoint.question).parameters,
    }


PATH = "/gradio_api/mcp"
_ALLOWED = {"Allow": "POST"}
_WHOSE = " It acts for the account whose Hugging Face token comes in the HTTP header X-HF-Token."
_READS = " A gated or private model is read with your token from the header X-HF-Token."


class McpEndpoint:
    """ASGI application for one URL; the server behind it is built at the first request."""

    def __init__(self, endpoints: Mapping[str, Endpoint], threads: Threads) -> None:
        """Serve these questions as tools of the same names, each on one of `threads`."""
        self._endpoints, self._threads = endpoints, threads
        self._answers = {name: tool_function(endpoint) for name, endpoint in endpoints.items()}
        self._device_queues = functools.cache(_device_queue)
        self._building = threading.Lock()
        self._fixing, self._fixed = anyio.Lock(), dict[tuple[str, str], list[bytes]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; only POST has a meaning without sessions."""
        if scope["method"] != "POST":
            await Response("This MCP server keeps no sessions: send POST requests.\n", 405, _ALLOWED)(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        message = read_json(body, MOST_NODES)
        key = _fixed_answer(message, Headers(scope=scope))
        if key is None:
            await self._pass_on(scope, replay(body, receive), send)
            return
        async with self._fixing:
            if key not in self._fixed:
                self._fixed[key] = await self._fix_answer(scope, *key)
        answer = json.dumps(message["id"]).encode().join(self._fixed[key])
        await Response(answer, media_type="application/json")(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the protocol's own library answer."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager  # noqa: PLC0415
        from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415

        server = await anyio.to_thread.run_sync(self._server)
        # The Host header names whatever proxy stands in front (*.hf.space); the check guards servers that trust their local network,
        # and these tools hold nothing that is not public.
        open_to_any_host = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True, security_settings=open_to_any_host)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    async def _fix_answer(self, scope: Scope, method: str, version: str) -> list[bytes]:
        """The library's answer to this method, cut where the caller's id belongs. It takes 10 to 50 ms of the thread that serves all."""
        named = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "", "version": ""}}
        message = {"jsonrpc": "2.0", "id": _ID, "method": method, "params": named if method == "initialize" else {}}
        kinds = [(b"accept", b"application/json, text/event-stream"), (b"content-type", b"application/json"), (b"host", b"localhost")]
        sent: list[Message] = []

        async def keep(part: Message) -> None:
            sent.append(part)

        await self._pass_on({**scope, "headers": kinds}, replay(json.dumps(message).encode()), keep)
        return b"".join(part.get("body", b"") for part in sent).split(json.dumps(_ID).encode(), 1)

    async def schema(self, _request: Request) -> Response:
        """The tools, for listings that do not speak the protocol."""
        return Response(await anyio.to_thread.run_sync(lambda: self._schema), media_type="application/json")

    @functools.cached_property
    def _schema(self) -> bytes:
        return json.dumps([tool | {"meta": {"endpoint_name": tool["name"]}} for tool in self.tools]).encode()

    @functools.cached_property
    def tools(self) -> list[dict[str, Any]]:
        """The tools, in the protocol's own words."""
        return [
            {
                "name": name,
                "description": description(endpoint.question) + (_WHOSE if endpoint.account else _READS if endpoint.takes_token else ""),
                "inputSchema": input_schema(endpoint.question),
                "outputSchema": api.output_schema(endpoint.question),
                "annotations": tool_hints(name, endpoint),
            }
            for name, endpoint in self._endpoints.items()
        ]

    def _server(self) -> Server[object, object]:
        with self._building:  # two first requests: one builds, one waits
            return self._tool_server

    @functools.cached_property
    def _tool_server(self) -> Server[object, object]:
        from mcp.server.lowlevel import Server  # noqa: PLC0415
        from mcp.types import Tool  # noqa: PLC0415

        server: Server[object, object] = Server("spaces-hardware-advisor")
        tools = [Tool(**tool) for tool in self.tools]

        @server.list_tools()  # type: ignore[no-untyped-call, untyped-decorator]
        async def list_tools() -> list[Tool]:
            return tools

        @server.call_tool(validate_input=False)  # type: ignore[untyped-decorator]  # our own checks speak in sentences
        async def call_tool(name: str, arguments: dict[str, Any]) -> CallToolResult:
            return await self._in_turn(name, arguments, cast("Request", server.request_context.request))

        return server

    async def _in_turn(self, name: str, arguments: dict[str, Any], request: Request) -> CallToolResult:
        """The answer, on a thread; calls of a device queue wait for their turn without one."""
        endpoint = self._endpoints.get(name)
        if endpoint is None or endpoint.queue is None:
            return await self._answer_on_thread(name, arguments, request)
        try:
            api.check_names(endpoint.question, arguments)
            await self._threads.run(functools.partial(check_arguments, endpoint.question, arguments))
            async with self._device_queues(endpoint.queue):
                return await self._answer_on_thread(name, arguments, request)
        except (InvalidInput, Busy) as error:
            return _refusal_result(str(error))

    async def _answer_on_thread(self, name: str, arguments: dict[str, Any], request: Request) -> CallToolResult:
        endpoint = self._endpoints.get(name)
        try:
            work = functools.partial(self._result, name, arguments, request)
            return await self._threads.run(work, heavy=endpoint is not None and endpoint.heavy)
        except Busy as error:
            return _refusal_result(str(error))

    def _result(self, name: str, arguments: dict[str, Any], request: Request) -> CallToolResult:
        from mcp.types import CallToolResult, TextContent  # noqa: PLC0415

        try:
            result = self._answer(name, arguments, request)
        except (api.RefusedQuestion, InvalidInput) as refusal:
            return _refusal_result(str(refusal))
        return CallToolResult(content=[TextContent(type="text", text=json.dumps(result))], structuredContent=result)

    def _answer(self, name: str, arguments: dict[str, Any], request: Request) -> dict[str, Any]:
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            raise InvalidInput(f"There is no tool {quote_value(name)}. The tools are {', '.join(self._answers)}.")
        api.check_names(endpoint.question, arguments)
        own = {"token": request.headers.get(VISITOR_HEADER) or None} if endpoint.takes_token else {}
        if endpoint.queue is not None:
            LocalContext.request.set(gr.Request(request=request))  # where `spaces` looks for whose GPU seconds these are
        return dict(self._answers[name](**arguments, **own))


def _device_queue(name: str) -> FairQueue:
    """The calls over MCP that wait for a device queue; Gradio's calls wait for it in Gradio's own queue."""
    at_once = width(name)
    return FairQueue(at_once, at_once, at_once, queue_slots=DEVICE_QUEUE_SLOTS, wait_s=WAIT_S)


def tool_function(endpoint: Endpoint) -> Callable[..., Mapping[str, Any]]:
    """The function that a call of the tool asks: a stream's last piece, any other answer as it is."""
    if endpoint.streams:
        return api.last_piece(api.wrap_stream(endpoint.question, api.RefusedQuestion, endpoint.queue))
    return api.wrap_question(endpoint.question, api.RefusedQuestion, endpoint.queue)


def _refusal_result(sentence: str) -> CallToolResult:
    from mcp.types import CallToolResult, TextContent  # noqa: PLC0415

    return CallToolResult(content=[TextContent(type="text", text=sentence)], isError=True)


_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_VERSIONS = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}")
_METHOD_LENGTH = 100


def refuse_message(message: object, headers: Headers) -> JSONResponse | None:
    """JSON-RPC's own answer to an invalid message; None for a valid one.

    Some would end in a bare 500, others would be repeated in the answer. `message` is None if the body is not JSON.
    """
    version = headers.get("mcp-protocol-version")
    if message is None:
        sentence = (
            f"The body is not JSON of at most {MOST_NODES:,} values, or it is nested too deeply or holds a value that cannot be read."
        )
        return _refused_message(_PARSE_ERROR, sentence)
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not _is_method(message.get("method")):
        return _refused_message(
            _INVALID_REQUEST, 'The body is not one JSON-RPC request. Accepted: {"jsonrpc": "2.0", "id", "method", "params"}.'
        )
    if type(message.get("id", 0)) not in (int, str) or not isinstance(message.get("params", {}), dict):
        return _refused_message(_INVALID_REQUEST, '"id" is not a whole number or a text, or "params" is not an object.')
    if version is not None and not _VERSIONS.fullmatch(version):
        return _refused_message(_INVALID_REQUEST, "The header MCP-Protocol-Version is not the date of a version, such as 2025-06-18.")
    return None


_ID = "the id of the request"
"""Placeholder of a request's id in answers that are the same for every request."""


def _fixed_answer(message: Any, headers: Headers) -> tuple[str, str] | None:
    """Method and version of a valid request whose answer depends on nothing else; None for every other message."""
    from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS  # noqa: PLC0415

    params = message.get("params") or {}
    is_usual = "application/json" in headers.get("accept", "") and headers.get("content-type", "").startswith("application/json")
    if "id" not in message or not is_usual or headers.get("mcp-protocol-version", _NEWEST) not in (_NEWEST, *SUPPORTED_PROTOCOL_VERSIONS):
        return None
    if message["method"] == "tools/list" and params.keys() <= {"cursor", "_meta"}:
        return "tools/list", _NEWEST
    client, version = params.get("clientInfo"), params.get("protocolVersion")
    is_named = isinstance(client, dict) and client.keys() == {"name", "version"} and all(isinstance(text, str) for text in client.values())
    if message["method"] != "initialize" or not is_named or params.get("capabilities") != {} or not isinstance(version, str):
        return None
    return "initialize", version if version in SUPPORTED_PROTOCOL_VERSIONS else _NEWEST


_NEWEST = "2099-12-31"
"""Placeholder of unknown protocol versions: the server answers with its newest."""


def _is_method(method: object) -> bool:
    return isinstance(method, str) and len(method) <= _METHOD_LENGTH


def _refused_message(code: int, sentence: str) -> JSONResponse:
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": sentence}}, status_code=400)


def routes(endpoints: Mapping[str, Endpoint], threads: Threads) -> list[BaseRoute]:
    """The routes to put before Gradio's own, with and without the closing slash."""
    endpoint = McpEndpoint(endpoints, threads)
    return [Route(f"{PATH}/schema", endpoint.schema), Route(PATH, endpoint), Route(f"{PATH}/", endpoint)]


_HOST_NAME = re.compile(r"[A-Za-z0-9.\-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_ADDRESS = "http://the-address-of-this-app.invalid"
"""Placeholder of the app's address in the text, which is built once."""
_AGENT_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Robots-Tag": "all"}


def agent_routes(endpoints: Mapping[str, Endpoint]) -> list[Route]:
    """The routes to put before Gradio's own."""

    @functools.cache
    def pieces() -> list[bytes]:
        return agents_text(_ADDRESS, PATH, list_endpoints(endpoints)).encode().split(_ADDRESS.encode())

    async def answer(request: Request) -> PlainTextResponse:
        text = own_address(request).encode().join(await anyio.to_thread.run_sync(pieces))
        return PlainTextResponse(text, headers=_AGENT_HEADERS)

    return [Route(path, answer, methods=["GET"]) for path in ("/agents", "/llms.txt")]


def list_endpoints(endpoints: Mapping[str, Endpoint]) -> list[EndpointText]:
    """The text about each endpoint, as MCP describes it."""
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
    """The app's address as the caller knows it, which proxies pass on; a Host header that is not a host name is not repeated."""
    host = request.headers.get("x-forwarded-host", request.headers.get("host", ""))
    scheme = request.headers.get("x-forwarded-proto", request.url.scheme).partition(",")[0].strip()
    if not _HOST_NAME.fullmatch(host) or scheme not in {"http", "https"}:
        return "http://127.0.0.1:7860"
    return f"{scheme}://{host}{request.scope.get('root_path', '').rstrip('/')}"
