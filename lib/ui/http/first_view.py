"""What the served HTML itself shows: the title and the pick for the example, until the page has put itself together.

Gradio's page is empty until its scripts have run, which takes seconds on a slow device; the answer is known before. It stands over the
page in a layer of its own, and the page stays invisible below it until its answer is there (`advisor.opened` in `assets/page.js`), so that
nothing moves under the reader's eyes. A visit by a link, which asks another question, sees the place of the answer without one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from lib.ui import fields as ask
from lib.ui.http.rendered import escape_script
from lib.ui.recommend_tab import recommend_markup
from lib.ui.theme import ASSETS, style_sheet

if TYPE_CHECKING:
    import gradio as gr

    from lib.service.app import Services

_BEFORE = b"<gradio-app"
_CONFIG = re.compile(rb"(?<=<script>window\.gradio_config = )\{.*?\}(?=;</script>)", re.DOTALL)
_SHARED = re.compile(r"^\.(card|masthead|eyebrow|quiet|figure|legend|swatch|bar|weights|cache|activations|runtime|why)")
_VARIABLES = re.compile(r"^(\.dark )?\.gradio-container[^{]*\{\s*--")
"""The rules of the page's sheet that the layer needs, by how they begin."""


class FirstView:
    """The layer, for the prices of one catalog at a time."""

    def __init__(self, page: gr.Blocks, services: Services) -> None:
        """Of this page, with answers of these services."""
        self._page, self._services = page, services

    def state(self) -> tuple[object, ...]:
        """What the layer depends on: while its parts are the same objects, so is the layer."""
        return self._page.config, self._services.catalog()

    def insert(self, body: bytes) -> bytes:
        """The page's HTML with the layer before it, and without what only callers of the API need."""
        return drop_api_components(body).replace(_BEFORE, self.markup().encode() + _BEFORE, 1)

    def markup(self) -> str:
        """The layer with its own style."""
        values, _ = ask.read_link(ask.QUESTION, {})
        pick = recommend_markup(self._services, ask.EXAMPLE, values).pick.partition('<div class="actions"')[0]
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


def drop_api_components(html: bytes) -> bytes:
    """The page's HTML without the components that stand for arguments and answers of `gr.api`.

    Gradio gives each argument of an endpoint a component that shows nothing. The browser builds all of them before it shows the page:
    for this page they are 300 of 760, and about a sixth of the time. Whoever calls the API reads `/config`, which keeps them.
    """

    def lighten(match: re.Match[bytes]) -> bytes:
        config = json.loads(match[0])
        unseen = {one["id"] for one in config["components"] if one["type"] == "api"}
        config["components"] = [one for one in config["components"] if one["id"] not in unseen]
        for layout in (config["layout"], *(page["layout"] for page in config["page"].values())):
            layout["children"] = [one for one in layout["children"] if one["id"] not in unseen]
        return escape_script(json.dumps(config, ensure_ascii=False, separators=(",", ":")))

    return _CONFIG.sub(lighten, html, count=1)
