"""Tables in Chromium: sorted by their heads, searched, and opened, with the keyboard alone."""

from __future__ import annotations

import re

import pytest
from page_checks import BEYOND, CONTRAST, NAMELESS, SETTLED, UNFOLD, Open, open_box
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser


def _prices(rows: Locator) -> list[float]:
    return [float(key) for key in rows.evaluate_all("rows => rows.map(row => row.cells[1].dataset.key)")]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_table_is_sorted_searched_and_opened(open_page: Open, width: int, scheme: str) -> None:
    """Enter on a head sorts and says so; words leave the rows that hold them; the rest comes on demand."""
    page = open_page("?platforms=spaces,endpoints,jobs", width=width, scheme=scheme, wait="#ranked table")
    table = page.locator("#ranked table")
    rows = table.locator("tbody tr:visible")
    expect(rows).to_have_count(5)
    head = table.get_by_role("columnheader", name="Price per hour")
    head.get_by_role("button").press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert _prices(rows) == sorted(_prices(table.locator("tbody tr")))[:5]
    head.get_by_role("button").press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    assert _prices(rows) == sorted(_prices(table.locator("tbody tr")), reverse=True)[:5]
    page.locator("#ranked").get_by_label("Search").fill("l40s")
    expect(page.locator("#ranked [data-of]")).to_have_text(re.compile(r"\d+ of \d+"))
    assert all("l40s" in text.lower() for text in rows.all_inner_texts())
    page.locator("#ranked").get_by_label("Search").fill("")
    page.locator("#ranked [data-more]").press("Enter")
    expect(table.locator("tbody tr:not(:visible)")).to_have_count(0)
    page.evaluate("document.querySelector('#ranked table').dataset.before = 'yes'")
    page.evaluate(UNFOLD)
    page.evaluate(SETTLED)
    page.locator("#q-requests input").evaluate("field => { field.value = 5000; field.dispatchEvent(new Event('input', {bubbles: true})); }")
    expect(page.locator("#ranked table:not([data-before])")).to_be_visible()  # another answer: sorted as before, all of it shown
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(table.locator("tbody tr:not(:visible)")).to_have_count(0)
    assert _prices(rows) == sorted(_prices(rows), reverse=True)
    open_box(page, re.compile("Rejected hardware"))
    why = page.get_by_label(re.compile("Why not"))
    refused = page.locator("#rejected tbody tr")
    name = refused.last.locator("th [data-words]").inner_text()
    why.fill(name)
    expect(refused.locator("visible=true").first).to_contain_text(name)
    assert refused.locator("visible=true").count() < refused.count()
    assert page.evaluate(BEYOND) == []
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []


def test_every_precision_stands_with_its_tiers(open_page: Open) -> None:
    """The box answers when it is opened; the smallest format comes first when memory is sorted."""
    page = open_page("?tab=memory", wait="#need .card")
    open_box(page, re.compile("Every precision"))
    table = page.locator("#precision-table table")
    expect(table.locator("tbody tr").first).to_contain_text("fp32")
    table.get_by_role("button", name="Memory on a device").click()
    expect(table.locator("tbody tr").first).to_contain_text(re.compile("4 bit|INT4|NF4"))
    assert page.evaluate(NAMELESS) == []
