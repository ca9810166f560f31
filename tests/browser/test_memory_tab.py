"""The box of inverse questions on the tab *Memory* in Chromium."""

from __future__ import annotations

import re

import pytest
from page_checks import BEYOND, CONTRAST, NAMELESS, Open, open_box
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_limits_of_hardware(open_page: Open, width: int, scheme: str) -> None:
    """Opening answers for an L4, a limit changes what limits it; nothing reaches beyond the screen, text keeps its contrast."""
    page = open_page("?tab=memory&model=meta-llama/Llama-3.1-8B-Instruct", width=width, scheme=scheme, wait="#need .card")
    open_box(page, re.compile("Limits of this hardware"))
    card = page.locator("#solved .card")
    expect(card).to_contain_text("More would not fit in the memory of a device.")
    expect(page.get_by_role("table", name=re.compile("Ways to save memory"))).to_contain_text("Half the context")
    page.get_by_label("Time to first token, s, at most").fill("0.5")
    expect(card).to_contain_text("longer than 500 ms to the first token")
    assert page.evaluate(BEYOND) == []
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
