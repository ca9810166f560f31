"""The tab *GPU or TPU* in Chromium."""

from __future__ import annotations

import re

import pytest
from page_checks import BEYOND, CONTRAST, NAMELESS, Open, open_box
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_the_verdict_follows_the_questions(open_page: Open) -> None:
    """Opening answers; 512 chips weigh for a TPU, one's own data centre is a GPU by a constraint; the recipe is there to copy."""
    page = open_page()
    page.get_by_role("tab", name="GPU or TPU").click()
    figure = page.locator("#choice .figure")
    expect(figure).to_have_text("Either will do")  # one request at a time
    expect(page.get_by_role("table", name=re.compile("Options, predicted"))).to_contain_text("TPU v6e")
    open_box(page, "Scale, team, budget")
    page.get_by_label("Chips or cards together").fill("512")
    expect(figure).to_have_text("Choose a TPU")
    page.get_by_label("In our own data centre").check()
    expect(figure).to_have_text("Choose a GPU")
    expect(page.locator("#choice")).to_contain_text("constraint")
    open_box(page, "Recipes to copy")
    page.locator("#recipes summary", has_text="Queued resource").click()
    expect(page.get_by_role("button", name="Copy: Queued resource: wait for a slice")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_linked_answer_is_readable_on_a_phone(open_page: Open, scheme: str) -> None:
    """A link opens the tab with its answer; nothing reaches beyond 390 px, text keeps its contrast, controls have names."""
    page = open_page("?tab=tpu&model=Qwen/Qwen3-32B&region=europe-west4", width=390, scheme=scheme, wait="#choice .card")
    expect(page.get_by_role("table", name=re.compile("europe-west4"))).to_contain_text("TPU v6e")
    open_box(page, re.compile("Slices of Cloud TPU"))
    expect(page.get_by_role("table", name=re.compile("no longer have"))).to_contain_text("v5e")
    assert page.evaluate(BEYOND) == []
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
