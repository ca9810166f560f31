"""Previews of links in messengers and search engines: a title, a sentence and a picture (Open Graph tags in the page's head).

The preview of a link to the tab Recommend that names a bundled model has its pick, which takes about 30 ms to compute. Browsers do not show
these tags, so they get general ones. A request is from a browser if it has the header `Sec-Fetch-Mode` (all browsers send it since 2023).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, QueryParams
from starlette.responses import FileResponse
from starlette.routing import Route

from lib.errors import AdvisorError, hide_tokens
from lib.model import bundled
from lib.present.cards import model_name
from lib.present.tables import pick_text
from lib.service.recommend import recommend
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.http.callers import name_caller
from lib.ui.tabs import TABS
from lib.ui.theme import ASSETS, TITLE, home_address

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope

    from lib.service.app import Services
    from lib.ui.http.fair_queue import Threads

PICTURE = "/preview.png"
_SENTENCE = "Name a model and its workload. Get the hardware to run it on, with the memory and the price behind the answer."
_LONGEST_QUERY = 2_000
_LINES = 2
"""Lines of the pick's text that a preview has room for: hardware with price, and the second figure."""
_TAG = re.compile(rb"""<meta\s+(?:property="og:|name="twitter:)[^"]*"\s+content="[^"]*"\s*/?>\s*""")


@dataclass(frozen=True, slots=True)
class Preview:
    """The words of a preview, not yet escaped."""

    title: str = TITLE
    sentence: str = _SENTENCE


class LinkPreview:
    """Previews of links to the page, with answers of these services."""

    def __init__(self, services: Services, threads: Threads) -> None:
        """Answers are computed on these threads, in the same fair queue as all heavy questions."""
        self._services, self._threads = services, threads

    async def link_tags(self, scope: Scope, root: str) -> bytes | None:
        """The tags for the link of this request, with the page at address `root`; None if the general tags are enough."""
        query = str(scope["query_string"], "latin-1")
        if not query or len(query) > _LONGEST_QUERY or "sec-fetch-mode" in Headers(scope=scope):
            return None
        asked = dict(QueryParams(query))
        if any(value != hide_tokens(value) or not value.isprintable() for value in (query, *asked.values())):
            return None
        name_caller(scope)
        try:
            return write_tags(await self._threads.run(lambda: read_preview(self._services, asked), heavy=True), root, query)
        except AdvisorError:  # no turn at the threads
            return None


def read_preview(services: Services, asked: Mapping[str, str]) -> Preview:
    """The title and the sentence of a link with these parameters. The Hub is not called."""
    tab = next((tab for tab in TABS if tab.name == asked.get("tab", TABS[0].name)), TABS[0])
    model = asked.get("model", "")[: ask.MODEL_LENGTH]
    if not model or model.lstrip().startswith("{"):
        return Preview(f"{tab.word} · {TITLE}")
    title = f"{model} · {tab.word} · {TITLE}"
    if tab is not TABS[0] or bundled.find_spec(model) is None:
        return Preview(title)
    values, _ = workload.read_link(ask.QUESTION, asked)
    try:
        answer = services[recommend](model, **workload.recommend_arguments(values), **workload.own_hardware(services, values))
    except AdvisorError:
        return Preview(title)
    lines = pick_text(answer.pick, model_name(answer.model, model), answer.own).splitlines()
    return Preview(title, " ".join(lines[:_LINES]))


def place_tags(html: bytes, marker: bytes) -> bytes:
    """The page's HTML with `marker` in place of Gradio's own tags."""
    head, config, rest = html.partition(b"window.gradio_config")
    first = _TAG.search(head)
    at = head.index(b"<head>") + len(b"<head>") if first is None else first.start()
    return head[:at] + marker + _TAG.sub(b"", head[at:]) + config + rest


def write_tags(preview: Preview, root: str, query: str = "") -> bytes:
    """The tags in HTML."""
    address = home_address() or root + "/"
    told = {
        "og:title": preview.title,
        "og:description": preview.sentence,
        "og:type": "website",
        "og:site_name": TITLE,
        "og:url": f"{address}?{query}" if query else address,
        "og:image": root + PICTURE,
        "twitter:card": "summary_large_image",
    }
    tags = [f'<meta property="{name}" content="{escape(words)}" />' for name, words in told.items()]
    return "\n\t\t".join([*tags, f'<meta name="description" content="{escape(preview.sentence)}" />']).encode()


def picture_route() -> Route:
    """The picture of every preview: the page with its first answer."""

    async def answer(_: Request) -> Response:
        return FileResponse(ASSETS / "screenshots" / "recommend-desktop-light.png", headers={"Cache-Control": "public, max-age=86400"})

    return Route(PICTURE, answer, methods=["GET"])
