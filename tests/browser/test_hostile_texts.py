"""Texts of strangers in Chromium: names, tensors, links, recordings and what the browser keeps stay text in every place that shows them."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hub_repos import as_json, safetensors
from hub_stand_in import Repo, StandIn
from llama import llama_config
from page_checks import OPEN_ALL, SETTLED, Open
from playwright.sync_api import Page, expect

from lib.ui.fields import ALL_FIELDS

pytestmark = pytest.mark.browser

SHORT = "<x-struck onclick=window.struck=1>\"'<img src=x onerror=window.struck=1>"
HOSTILE = (
    '<img src=x onerror="window.struck=1"><svg onload="window.struck=1"></svg><script>window.struck=1</script><x-struck></x-struck>"\' '
    'onfocus="window.struck=1" autofocus x="<a href="javascript:window.struck=1">a</a>[b](javascript:window.struck=1)</textarea></title>'
)
SHOWN = ":is(.card, .refusal, .hint)"
# What a text has made of itself: a script that ran, an element, a handler, or a link that runs a script.
STRUCK = """() => [window.struck, ...[...document.querySelectorAll("*")]
  .filter(e => e.matches("x-struck, [onerror], [onload], [onfocus], [onclick], img[src='x']")
            || [...e.attributes].some(a => /^(xlink:)?href$|^src$|action$/.test(a.name) && /^\\s*javascript:/i.test(a.value)))
  .map(e => e.outerHTML.slice(0, 200))].filter(Boolean)"""


def fill_everything(page: Page) -> None:
    """Open every box and write the text into every field that takes one."""
    page.evaluate(OPEN_ALL)
    page.evaluate(SETTLED)
    for field in page.locator("textarea:visible, input[type=text]:visible").all():
        if field.is_visible() and field.is_editable():
            field.fill(HOSTILE)
            field.blur()


def check(page: Page) -> None:
    """The text stands on the page as a text, and nothing came of it."""
    expect(page.locator("main, body").first).to_contain_text("<x-struck")
    assert page.evaluate(STRUCK) == []


@pytest.fixture
def repo(stand_in: StandIn) -> str:
    """A model whose files and description are named to strike."""
    tensors = {f"model.layers.0.{SHORT}.weight": ("BF16", (64, 64)), SHORT: ("BF16", (8, 8)), "lm_head.weight": ("BF16", (64, 64))}
    config = llama_config(torch_dtype=SHORT, architectures=[HOSTILE], quantization_config={"quant_method": SHORT})
    info = {"pipeline_tag": HOSTILE, "library_name": "transformers", "tags": [HOSTILE]}
    stand_in.add(Repo(id="evil/named", files={"config.json": as_json(config), "model.safetensors": safetensors(tensors)}, info=info))
    return "evil/named"


@pytest.mark.parametrize("tab", ["memory", "traffic"])
def test_hostile_texts_stay_text(open_page: Open, repo: str, tab: str) -> None:
    """In every parameter of a link, in every field, in a model's own files, and among the last questions."""
    page = open_page(f"?tab={tab}&model={repo}", wait=SHOWN)
    assert page.evaluate(STRUCK) == []  # the repository's own texts, before others take their place
    fill_everything(page)
    check(page)
    asked = [{"label": HOSTILE, "query": f"javascript:window.struck=1//{HOSTILE}"}, None, 7, {"label": 1}]
    page.evaluate("([asked, theme]) => { localStorage.questions = asked; localStorage.theme = theme; }", [json.dumps(asked), HOSTILE])
    every = "&".join(f"{name}={quote(HOSTILE)}" for name in ("model", "space", "tier", "units", "__theme", *(f.name for f in ALL_FIELDS)))
    page.goto(f"{page.url.partition('?')[0]}?tab={tab}&{every}")
    page.locator(f"{SHOWN}:visible").first.wait_for()
    page.locator("html.answered").wait_for(state="attached")
    page.locator(".history summary").click()
    expect(page.locator(".history a")).not_to_have_count(0)
    check(page)
