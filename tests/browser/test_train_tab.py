"""The tab *Fine-tune* in Chromium."""

from __future__ import annotations

import re

import pytest
from page_checks import BEYOND, CONTRAST, NAMELESS, UNFOLD, Open, open_box
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_linked_answer_is_readable_on_a_phone(open_page: Open, scheme: str) -> None:
    """A link opens the tab with its answer, which follows the method; nothing reaches beyond 390 px, text keeps its contrast."""
    page = open_page("?tab=train&model=Qwen/Qwen3-4B&method=qlora", width=390, scheme=scheme, wait="#training .card")
    expect(page.locator("#training")).to_contain_text("QLoRA")
    expect(page.get_by_role("table", name=re.compile("Hardware that fits"))).to_contain_text("GiB")
    page.evaluate(UNFOLD)
    page.get_by_label("Full", exact=True).check()
    expect(page.locator("#training")).to_contain_text("Optimizer")
    open_box(page, "Script and command")
    assert page.evaluate(BEYOND) == []
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
