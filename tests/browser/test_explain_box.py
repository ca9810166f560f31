"""The box above all tabs in Chromium: reached by keyboard and from *My Space*, answers, and shows pasted markup as text."""

from __future__ import annotations

import pytest
from page_checks import Open
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_the_box_is_reached_by_keyboard_and_answers(open_page: Open) -> None:
    """On a phone as on a desktop, without scrolling sideways."""
    page = open_page("?tab=memory", width=390)
    page.locator("#explain-box button").first.focus()
    page.keyboard.press("Enter")
    text = page.get_by_label("Error, log, metrics or nvidia-smi table")
    expect(text).to_be_visible()
    page.keyboard.press("Tab")
    expect(text).to_be_focused()
    page.get_by_role("button", name="vLLM does not start").click()
    expect(page.locator("#explained h2")).to_contain_text("One request of 131,072 tokens needs 16.0 GiB")
    expect(page.locator("#explained ol code").first).to_have_text("--max-model-len 26288")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_my_space_opens_it_and_markup_stays_text(open_page: Open) -> None:
    """Nothing that is pasted becomes an element."""
    page = open_page("?tab=space", wait="#space-paste")
    page.locator("#space-paste").click()
    text = page.get_by_label("Error, log, metrics or nvidia-smi table")
    expect(text).to_be_focused()
    text.fill("<img src=x onerror=alert(1)> Memory limit exceeded (14Gi) --model <b>/<i>")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.locator("#explained h2")).to_contain_text("14.0 GiB of host memory")
    assert page.locator("#explained img, #explained b, #explained i").count() == 0
