"""Fast paths around Gradio: the page, rendered once for all visitors, and API questions that need no queue.

The page. `GET /` and the descriptions of the API are the same for all visitors, except for the address of the app. Gradio builds them again
for each visit. That takes 0.2 s of processor time for this page (3 ms for an empty page), so a few visits a second saturate a processor.
Nothing in them depends on the visitor. There is no password before the page, and deep links are disabled (`lib.ui.http.middleware`). One
event of the page asks for the login, another one reads the values of a link. So each response is rendered once, without a sign-in, under a
placeholder address. Each visitor gets it with the real address. When the configuration of the page (`gr.Blocks.config`) changes, it is
rendered again. A browser that already has the page gets status 304.

The first view. Gradio's page is empty until its scripts have run, which takes seconds on a slow device. So the HTML has a layer with the
title and the pick for the example. The layer covers the page, which stays invisible until its own answer is there (`reveal` in
`assets/page.js`), so nothing moves while the visitor reads. The components hold the example's answer from the start, so the page needs no
request for it. A link asks another question: its page has no answer, and its layer keeps the place of the answer empty. Gradio's
configuration, nine tenths of the HTML, comes last: the layer is shown while it arrives.

The questions. For `POST /gradio_api/run/NAME` and `POST /gradio_api/call/NAME` Gradio makes a session, copies the settings of components,
and passes every value through them. That takes 7 to 10 ms on the thread that serves all visitors; the question itself takes 1 to 2 ms on
another thread. Questions that touch no component are answered by our own routes:

- `run`: {"data": [answer], ...}, or {"error": sentence, "title": code} with the status of the code.
- `call`: {"event_id": ...}, and under it, once, for a minute: an event "complete" with [answer], or "error" with the sentence and its code.
  The id is returned after the question is answered, so a caller with many questions waits for each of them.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import json
import re
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import orjson
from cachetools import LRUCache, TTLCache
from gradio.route_utils import get_root_url
from starlette.datastructures import Headers, QueryParams
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from lib.errors import AdvisorError, InvalidInput
from lib.present.glossary import bind_units
from lib.present.sentences import write_answer
from lib.service.endpoint import Endpoint
from lib.ui import fields as ask
from lib.ui.http import api
from lib.ui.http.bodies import BodyLimits
from lib.ui.http.callers import ANSWER_S, no_answer
from lib.ui.http.fair_queue import Threads
from lib.ui.http.link_preview import LinkPreview, Preview, place_tags, write_tags
from lib.ui.recommend_tab import recommend_updates
from lib.ui.theme import ASSETS, style_sheet
from lib.ui.workload import asks_something, read_link
from lib.units import MIB

if TYPE_CHECKING:
    import gradio as gr
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from lib.service.app import Services
    from lib.ui.events import Page


PATHS = frozenset({"/", "/config", "/config/", "/gradio_api/info", "/gradio_api/info/", "/gradio_api/openapi.json"})
"""Paths that browsers and every `gradio_client` request first, and one more description that is as slow to build."""
_ADDRESSES, _GZIP_LEVEL = 4, 4
"""Number of addresses whose compressed bodies are cached (a Space has two), and the gzip level. Compressing one takes 10 ms."""
_PAGE_EVENT, _LEAST_BYTES = "/gradio_api/run/predict", 2_000
_NOBODYS = "http://rendered.invalid"
LINKED = "/?"
"""The page of a link, which is rendered without the example's answer."""
_OWN_HEADERS = {b"content-length", b"set-cookie", b"cache-control", b"etag"}
_TAGS = b"<!-- link preview -->"


@dataclass(frozen=True, kw_only=True)
class _Rendered:
    """A response, cut where the visitor's address belongs."""

    state: tuple[object, ...]
    headers: list[tuple[bytes, bytes]]
    pieces: list[bytes]

    def body(self, root: str, tags: bytes) -> bytes:
        """The body as it is served under an address, with these tags of a preview."""
        return _escape_script(orjson.dumps(root)[1:-1]).join(self.pieces).replace(_TAGS, tags, 1)

    @functools.cached_property
    def digest(self) -> bytes:
        """A digest of the body without address and tags."""
        return hashlib.blake2b(b"".join(self.pieces), digest_size=16).digest()

    def etag(self, root: str, tags: bytes) -> str:
        """The ETag of the body, the same with and without compression."""
        whole = b"\0".join((self.digest, root.encode(), tags))
        return f'W/"{hashlib.blake2b(whole, digest_size=16).hexdigest()}"'


class PageCache:
    """Answers `PATHS` from the rendered page; everything else is passed on."""

    def __init__(self, app: ASGIApp, page: gr.Blocks, first_view: Skeleton | None = None, preview: LinkPreview | None = None) -> None:
        """Wrap `app`, which serves `page`, with a first view and previews of links in its HTML. Nothing is rendered before a visit."""
        self._app, self._page, self._first_view, self._preview = app, page, first_view, preview
        self._rendered: dict[str, _Rendered] = {}
        self._rendering = asyncio.Lock()
        self._compressed: LRUCache[tuple[str, str], tuple[_Rendered, bytes]] = LRUCache(_ADDRESSES * (len(PATHS) + 1))
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a visit, or pass the request on."""
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or path not in PATHS:
            await self._app(scope, receive, send)
            return
        response = await self._find(scope, receive)
        if response is None:  # it failed: Gradio answers
            await self._app(scope, receive, send)
            return
        root = get_root_url(Request(scope), path, scope["app"].root_path or scope.get("root_path") or self._page.custom_mount_path)
        preview = self._preview if path == "/" else None
        of_link = None if preview is None else await preview.link_tags(scope, root)
        tags = of_link or (b"" if preview is None else write_tags(Preview(), root))
        asked, etag = Headers(scope=scope), response.etag(root, tags)
        headers = [*response.headers, (b"vary", b"accept-encoding"), (b"etag", etag.encode()), (b"cache-control", b"no-cache")]
        if {etag, "*"} & {one.strip() for one in asked.get("if-none-match", "").split(",")}:
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        if accepts_gzip(asked) and of_link is None:  # the body of one link is not kept
            body = await anyio.to_thread.run_sync(self._compress, page_name(scope), response, root, tags)
            headers.append((b"content-encoding", b"gzip"))
        else:
            body = response.body(root, tags)
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _compress(self, page: str, cached: _Rendered, root: str, tags: bytes) -> bytes:
        """The body compressed: a tenth of 0.8 MB."""
        with self._lock:
            entry = self._compressed.get((page, root))
            if entry is None or entry[0] is not cached:
                entry = self._compressed[page, root] = (cached, gzip.compress(cached.body(root, tags), _GZIP_LEVEL, mtime=0))
        return entry[1]

    async def _find(self, scope: Scope, receive: Receive) -> _Rendered | None:
        """The response for all visitors; None if it failed."""
        page = page_name(scope)
        async with self._rendering:
            response = self._rendered.get(page)
            if response is None or any(before is not now for before, now in zip(response.state, self._state(), strict=True)):
                response = await self._render(scope, receive)
                if response is not None:
                    self._rendered[page] = response
        return response

    def _state(self) -> tuple[object, ...]:
        """Inputs of a rendered response."""
        return (self._page.config,) if self._first_view is None else self._first_view.state()

    async def _render(self, scope: Scope, receive: Receive) -> _Rendered | None:
        state = self._state()
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        host = _NOBODYS.removeprefix("http://").encode()
        plain = {"method": "GET", "scheme": "http", "headers": [(b"host", host)], "query_string": b"", "session": {}, "extensions": {}}
        await self._app({**scope, **plain}, receive, keep)
        start, *rest = messages
        if start["status"] != 200:  # noqa: PLR2004 success
            return None
        headers = [(name, value) for name, value in start["headers"] if name.lower() not in _OWN_HEADERS]
        body = b"".join(message.get("body", b"") for message in rest)
        if self._first_view is not None and scope["path"] == "/":
            body = await anyio.to_thread.run_sync(self._first_view.insert, body, page_name(scope) == LINKED)
        if self._preview is not None and scope["path"] == "/":
            body = place_tags(body, _TAGS)
        return _Rendered(state=state, headers=headers, pieces=body.split(_NOBODYS.encode()))


def page_name(scope: Scope) -> str:
    """The name of the rendered response: the path, or `LINKED`."""
    path = str(scope["path"])
    return LINKED if path == "/" and asks_something(QueryParams(scope["query_string"])) else path


class CompressEvents:
    """Compresses the answers to the page's own events: the first one has 140 KB of markup, and a sixth of that when compressed.

    Answers of the API are left as they are: compressing takes longer than many of them.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app, self._compressing = app, GZipMiddleware(app, minimum_size=_LEAST_BYTES, compresslevel=_GZIP_LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        app = self._compressing if scope.get("path") == _PAGE_EVENT and accepts_gzip(Headers(scope=scope)) else self._app
        await app(scope, receive, send)


def accepts_gzip(headers: Headers) -> bool:
    """Whether the caller takes gzip: `Accept-Encoding` names it, or else `*`, with a weight above 0 (RFC 9110, 12.5.3)."""
    weights: dict[str, str] = {}
    for one in headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = one.partition(";")
        weights[coding.strip()] = weight.replace(" ", "")
    weight = next((weights[coding] for coding in ("gzip", "*") if coding in weights), "q=0")
    return re.fullmatch(r"q=0(\.0*)?", weight) is None


def _escape_script(text: bytes) -> bytes:
    """JSON that is safe inside a script of the page."""
    for letter in b"<>&'":  # as Gradio's template escapes them
        text = text.replace(bytes([letter]), b"\\u%04x" % letter)
    return text


_BEFORE = b"<gradio-app"
_CONFIG = re.compile(rb"(?<=<script>window\.gradio_config = )\{.*?\}(?=;</script>)", re.DOTALL)
_INFO = re.compile(rb"(?<=<script>window\.gradio_api_info = )\{.*?\}(?=;</script>)", re.DOTALL)
_SETTINGS = re.compile(rb"<script>window\.gradio_(?:config|api_info) = .*?</script>", re.DOTALL)
_END = b"</body>"
_SHARED = re.compile(r"^\.(card|masthead|eyebrow|quiet|figure|legend|swatch|bar|weights|cache|activations|runtime|why)")
_VARIABLES = re.compile(r"^(\.dark )?\.gradio-container[^{]*\{\s*--")
"""The rules of the page's sheet that the layer needs, by how they begin."""


class Skeleton:
    """The layer of the first view, with the prices of the current catalog."""

    def __init__(self, page: Page, services: Services) -> None:
        """The layer covers `page` and shows answers of `services`."""
        self._page, self._services = page, services

    def state(self) -> tuple[object, ...]:
        """Inputs of the layer; it is unchanged while they are the same objects."""
        return self._page.config, self._services.catalog()

    def insert(self, body: bytes, linked: bool) -> bytes:
        """The page's HTML with the layer before it and the example's answer in it, without the parts that only API callers need."""
        light = put_config_last(lighten_page(body, {} if linked else self._page.first_answer()))
        return light.replace(_BEFORE, self.markup(linked).encode() + _BEFORE, 1)

    def markup(self, linked: bool) -> str:
        """The layer with its own style."""
        values, _ = read_link(ask.QUESTION, {})
        answer = "" if linked else recommend_updates(self._services, ask.EXAMPLE, values)["pick"]
        pick = bind_units(answer.partition('<div class="actions"')[0])
        layer = (ASSETS / "first.html").read_text(encoding="utf-8")
        title = (ASSETS / "header.html").read_text(encoding="utf-8")
        sheet = f"theme.css?v={self._page.theme_hash}"
        # The real card takes its name with it when the layer goes: until then no two elements share it.
        card = pick.replace("pick-name", "first-name")
        return layer.replace("__SHEET__", sheet).replace("__SHARED__", shared_rules()).replace("__TITLE__", title).replace("__PICK__", card)


def shared_rules() -> str:
    """The rules of the page's own sheet that the layer's card needs."""
    blocks = re.findall(r"^[^\s@/][^{}]*\{[^{}]*\}", style_sheet(), flags=re.MULTILINE)
    variables = [re.sub(r"^[^{]*", "#first.dark" if "dark" in rule else "#first", rule) for rule in blocks if _VARIABLES.match(rule)]
    narrow = "@media (max-width: 760px) { .card { padding: 14px 16px; } .figures { gap: 12px 28px; } }"
    return "\n".join([*variables, *(rule for rule in blocks if _SHARED.match(rule)), narrow])


def put_config_last(html: bytes) -> bytes:
    """The page with Gradio's configuration at its end. The scripts that read it are modules, which run after that."""
    moved = b"".join(found[0] for found in _SETTINGS.finditer(html))
    return _SETTINGS.sub(b"", html).replace(_END, moved + _END, 1)


_UNREAD = ("api_info", "api_info_as_input", "api_info_as_output", "example_inputs", "skip_api")


def lighten_page(html: bytes, answered: Mapping[int, Mapping[str, Any]] | None = None) -> bytes:
    """The page's HTML without the parts that only API callers need; these callers read `/config` and `/gradio_api/info`, which keep it.

    `answered` are properties that the components have from the start, by their ids.

    - The components of arguments and answers of `gr.api`, which show nothing. The browser would build all of them before it shows the page:
      for this page they are 300 of 760, and about a sixth of the time.
    - Descriptions of components for API callers, and a property that the server alone reads: a tenth of the compressed HTML.
    - Schemas and example code of the endpoints, two fifths of the HTML. "Use via API" reads them from `/gradio_api/info`.
    """

    def lighten_config(match: re.Match[bytes]) -> bytes:
        config = orjson.loads(match[0])
        unseen = {one["id"] for one in config["components"] if one["type"] == "api"}
        config["components"] = [one for one in config["components"] if one["id"] not in unseen]
        for component in config["components"]:
            for name in _UNREAD:
                component.pop(name, None)
            component["props"].pop("preserved_by_key", None)
            component["props"] |= (answered or {}).get(component["id"], {})
        for layout in (config["layout"], *(page["layout"] for page in config["page"].values())):
            layout["children"] = [one for one in layout["children"] if one["id"] not in unseen]
        return _escape_script(orjson.dumps(config))

    def lighten_info(match: re.Match[bytes]) -> bytes:
        info = orjson.loads(match[0])
        for endpoints in info.values():
            for endpoint in endpoints.values():
                endpoint.pop("code_snippets", None)
                for answer in endpoint["returns"]:
                    answer |= {"type": {}, "python_type": {"type": "", "description": ""}}
        return _escape_script(orjson.dumps(info))

    return _INFO.sub(lighten_info, _CONFIG.sub(lighten_config, html, count=1), count=1)


# Questions.

UNREAD_BYTES = 32 * MIB
"""Most bytes of unread answers that are kept; the oldest answers are dropped first."""


def direct_routes(endpoints: Mapping[str, Endpoint], threads: Threads) -> list[BaseRoute]:
    """The routes to put before Gradio's own: each question is answered on one of `threads`."""
    state = _CallState(threads)
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
    """State that all questions share: threads, limits of bodies, and unread answers. Use it on the event loop only."""

    def __init__(self, threads: Threads) -> None:
        self.bodies, self.threads = BodyLimits(), threads
        self._unread: TTLCache[str, str] = TTLCache(UNREAD_BYTES, ANSWER_S, time.monotonic, len)

    def keep(self, event: str, data: object) -> JSONResponse:
        """Store the text of an event stream and return its id."""
        name, text = uuid.uuid4().hex, f"event: {event}\ndata: {data if isinstance(data, str) else json.dumps(data)}\n\n"
        self._unread[name] = text
        return JSONResponse({"event_id": name})

    async def read(self, request: Request) -> Response:
        """The stream of one call, once."""
        text = self._unread.pop(request.path_params["event"], None)
        if text is None:
            return api.error_response(InvalidInput(no_answer()), 404)
        return Response(text, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


class _QuestionRoutes:
    """One question, as routes ask it."""

    def __init__(self, name: str, endpoint: Endpoint, state: _CallState) -> None:
        self._name, self._endpoint, self._state = name, endpoint, state
        self._answer = api.wrap_question(endpoint.question, api.RefusedQuestion, write=write_answer)

    async def run(self, request: Request) -> Response:
        """Values in order; the answer at once."""
        try:
            began = time.perf_counter()
            data = await self._answer_json(await self._read_values(request))
        except AdvisorError as error:
            return api.error_response(error)
        except api.RefusedQuestion as refusal:
            return api.error_body(str(refusal), refusal.code)
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
            return api.error_response(error)
        except api.RefusedQuestion as refusal:
            return self._state.keep("error", {"error": str(refusal), "title": refusal.code, "visible": True})

    async def _read_values(self, request: Request) -> dict[str, Any]:
        return await self._state.bodies.json_object(await request.body())

    async def _answer_json(self, payload: Mapping[str, Any], *, by_names: bool = False) -> str:
        """The JSON text of a list of one, the answer."""
        question, token = self._endpoint.question, api.token_of(payload)
        values: list[object] = []
        keywords: dict[str, object] = {}
        if by_names:
            keywords = {name: value for name, value in payload.items() if name != "oauth_token"}
            api.check_names(question, keywords)
        else:
            values = api.fill_defaults(question, api.values_of(self._name, payload))
        if self._endpoint.takes_token:
            keywords["token"] = token
        answer = await self._state.threads.run(functools.partial(self._answer, *values, **keywords), heavy=self._endpoint.heavy)
        return f"[{answer}]"
