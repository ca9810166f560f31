"""The tools of the page in Chromium: words of the field, unit of sizes, theme, the defaults again, the last questions."""

from __future__ import annotations

import re

import pytest
from page_checks import BEYOND, CONTRAST, NAMELESS, Open
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_a_word_is_explained_on_focus_and_put_away(open_page: Open) -> None:
    """The tooltip comes with the keyboard, describes its word, stays on the screen, and goes with Escape."""
    page = open_page("?tab=memory", width=390, scheme="dark", wait="#need .card")
    word = page.locator("#need abbr.term:visible").first
    word.focus()
    tip = page.get_by_role("tooltip")
    expect(tip).to_be_visible()
    expect(word).to_have_attribute("aria-describedby", "term-tip")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(BEYOND) == []
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_unit_theme_reset_and_history(open_page: Open) -> None:
    """Sizes in GB stand in the address and everywhere; the theme is kept; reset leaves the model; the last questions can be opened."""
    page = open_page("?tab=memory&context=8192", wait="#need .card")
    expect(page.locator("#need .legend")).to_contain_text("1.00 GiB")
    page.get_by_role("button", name="Sizes in GB").click()
    page.wait_for_url("**units=GB**")
    expect(page.locator("#need .legend")).to_contain_text("1.07 GB")
    expect(page.locator("#need")).not_to_contain_text("GiB")
    page.get_by_role("button", name="Dark theme").click()
    expect(page.locator("body")).to_have_class(re.compile("dark"))
    page.get_by_role("button", name="Sizes in GiB").click()
    expect(page.locator("#need .legend")).to_contain_text("1.00 GiB")
    expect(page.locator("body")).to_have_class(re.compile("dark"))
    expect(page.locator("#more-bar")).to_contain_text("8,192 tokens of context")
    page.get_by_role("button", name="Reset the question").click()
    expect(page.locator("#more-bar")).to_contain_text("4,096 tokens of context")
    page.get_by_role("tab", name="Cost").click()
    page.wait_for_url("**tab=cost**")
    page.locator(".history summary").click()
    expect(page.locator(".history a").first).to_have_text(re.compile("Llama-3.1-8B-Instruct · Cost"))
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(CONTRAST) == []
