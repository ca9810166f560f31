"""The tab *Cost* and the pictures of *Recommend* in Chromium."""

from __future__ import annotations

import re
from typing import Any

import pytest
from page_checks import BEYOND, CONTRAST, NAMELESS, STILL, Open, open_box
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

ASK = "?tab=cost&requests=200&in=0.2&out=0.6&hardware=spaces:l4x1"


def test_bills_follow_the_questions(open_page: Open) -> None:
    """Opening the tab answers; naming no sleep gives the whole month, twice the replicas twice of it, and the curve is drawn."""
    page = open_page("?hardware=spaces:l4x1")
    page.get_by_role("tab", name="Cost").click()
    expect(page.locator("#bill")).to_contain_text("a month")
    page.locator(".chart .main-svg:visible").first.wait_for()
    open_box(page, "Month, replicas, storage")
    figure = page.locator("#bill .figure")
    before = figure.inner_text()
    page.locator("#q-replicas input").fill("2")
    expect(figure).not_to_have_text(before)
    dollars = [float(re.sub(r"[^0-9.]", "", text)) for text in (before, figure.inner_text())]
    assert dollars[1] == pytest.approx(2 * dollars[0], rel=0.01)
    expect(page.get_by_role("table", name=re.compile("Ways to save"))).to_be_visible()


def test_another_model_changes_the_bill_that_is_seen(open_page: Open) -> None:
    """While the tab is open it follows the model above."""
    page = open_page(ASK, wait="#bill .card")
    page.get_by_role("combobox", name=re.compile("^Model")).fill("70B")
    page.get_by_role("combobox", name=re.compile("^Model")).press("Enter")
    expect(page.locator("#bill")).to_contain_text("70B parameters")
    expect(page.locator("#ways")).to_contain_text("your own price")


def test_the_roofline_is_drawn_when_it_is_opened(open_page: Open) -> None:
    """Nothing is drawn before; then both passes stand under the roof, in words too."""
    page = open_page()
    box = page.locator("#roofline")
    expect(box.locator(".main-svg")).to_have_count(0)
    open_box(page, re.compile("Roofline"))
    expect(box.locator(".main-svg").first).to_be_visible()
    expect(box).to_contain_text("One step of decoding")
    expect(box).to_contain_text("Reading the prompts")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 390)])
def test_the_tab_can_be_read(open_page: Open, scheme: str, width: int) -> None:
    """Contrast of WCAG 2 AA, a name for every control, nothing beyond the edge, with every box open."""
    page = open_page(ASK, scheme=scheme, width=width, wait="#bill .card")
    page.locator(".chart .main-svg:visible").first.wait_for()
    for box in page.locator(".quiet-accordion > button:visible").all():
        box.click()
    page.evaluate(STILL)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
    beyond: Any = page.evaluate(BEYOND)
    assert beyond == []
