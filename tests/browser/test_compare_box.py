"""*Compare* in Chromium: rows and models side by side, in the address, as text and as a picture."""

from __future__ import annotations

import re

import pytest
from page_checks import BEYOND, SETTLED, UNFOLD, Open
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LINK = "?compare=spaces:l4x1,spaces:a100-large"


def test_ticked_rows_stand_side_by_side(open_page: Open) -> None:
    """Two ticks and there is a finding; the address has them; without one of them nothing is compared any more."""
    page = open_page()
    tick = page.locator("#ranked [data-tick]")
    tick.nth(2).check()
    expect(page.locator("#compare-bar")).to_contain_text("Tick another one")
    expect(page.locator("#compared .card")).to_have_count(0)
    tick.nth(3).check()
    expect(page.locator("#compared h2")).to_have_text(re.compile("costs|as fast"))
    expect(page.locator("#compared thead th")).to_have_count(3)
    assert "compare=spaces:" in page.url
    page.evaluate(UNFOLD)
    page.evaluate(SETTLED)
    page.locator("#q-requests input").fill("5000")  # it follows the question, and the ticks stay
    page.wait_for_url(lambda url: "requests=5000" in url and "compare=" in url)
    expect(tick.nth(2)).to_be_checked()
    for left in (1, 0):
        page.locator("#compare-bar [data-drop]").first.click()
        expect(page.locator("#compare-bar [data-drop]")).to_have_count(left)
    expect(page.locator("#compared .card")).to_have_count(0)
    assert "compare=" not in page.url
    assert page.locator("#ranked [data-tick]:checked").count() == 0


def test_a_link_opens_the_same_comparison(open_page: Open) -> None:
    """With its ticks, which may be among the rows that are hidden at first; as picture, as text."""
    page = open_page(LINK)
    expect(page.locator("#compared h2")).to_be_visible()
    assert page.locator("#ranked [data-tick]:checked").count() == 2
    with page.expect_download() as saved:
        page.locator("[data-picture]").click()
    assert saved.value.suggested_filename.endswith(".png")
    assert saved.value.path().read_bytes()[:4] == b"\x89PNG"
    finding = page.locator("#compared h2").inner_text().replace("\xa0", " ")
    assert finding in (page.locator("#compared [data-copy]").get_attribute("data-copy") or "")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(BEYOND) == []


def test_another_model_is_compared(open_page: Open) -> None:
    """Named in the field; one that cannot be read says so in its column, and is removed there."""
    page = open_page()
    page.get_by_text("Compare with another model").click()
    field = page.get_by_label("Another model")
    field.fill("Qwen/Qwen2.5-0.5B-Instruct")
    field.press("Enter")
    expect(page.locator("#compared thead")).to_contain_text("Qwen2.5-0.5B-Instruct")
    field.fill("7Bx")
    field.press("Enter")
    expect(page.locator("#compared")).to_contain_text("7Bx")
    page.get_by_role("button", name="Remove 7Bx").click()
    expect(page.locator("#compared")).not_to_contain_text("7Bx")
