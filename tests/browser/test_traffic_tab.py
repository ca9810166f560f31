"""The tab *Traffic* in Chromium."""

from __future__ import annotations

import re
from typing import Any

import pytest
from page_checks import BEYOND, CONTRAST, NAMELESS, STILL, Open, open_box
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

ASK = "?tab=traffic&hardware=spaces:l4x1&rate=1&duration=60"


def test_traffic_is_simulated_drawn_and_diagnosed(open_page: Open) -> None:
    """A link answers by itself; another policy when Simulate is pressed; the plot follows what is drawn; the box follows its times."""
    page = open_page(ASK, wait="#needs table")
    expect(page.locator("#traffic .card")).to_contain_text("continuous batching")
    expect(page.locator("#loads-chart .main-svg").first).to_be_visible()
    page.get_by_role("radio", name="Static").check()
    page.get_by_role("button", name="Simulate").click()
    expect(page.locator("#traffic .card")).to_contain_text("static batching")
    expect(page.locator("#traffic-status")).to_be_empty()
    page.locator("#loads-chart").get_by_text("Tokens/s").click()
    expect(page.locator("#loads-chart h2")).to_contain_text("Static batching reaches")
    open_box(page, "Where does the latency go?")
    page.get_by_label("TPOT, ms").fill("600")
    expect(page.locator("#latency-answer .figure")).to_contain_text("Decode")
    expect(page.get_by_role("table", name=re.compile("Parts of a request"))).to_contain_text("slower")


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1280), ("light", 390)])
def test_the_tab_can_be_read(open_page: Open, scheme: str, width: int) -> None:
    """Contrast of WCAG 2 AA, a name for every control, nothing beyond the edge, with every box open."""
    page = open_page(ASK, scheme=scheme, width=width, wait="#needs table")
    page.locator("#loads-chart .main-svg").first.wait_for()
    for box in page.locator(".quiet-accordion > button:visible").all():
        box.click()
    page.locator("#latency-answer table").first.wait_for()
    page.evaluate(STILL)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
    beyond: Any = page.evaluate(BEYOND)
    assert beyond == []
