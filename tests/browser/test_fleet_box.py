"""Many models at once in Chromium: a file is chosen, rows are answered, Stop keeps those so far, the table sorts, the list downloads."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from page_checks import BEYOND, CONTRAST, NAMELESS, Open
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_a_list_is_answered_stopped_sorted_and_saved(open_page: Open) -> None:
    """A label that begins as a formula is text in the download; on a phone nothing is scrolled sideways."""
    page = open_page("?tab=space", wait="#fleet-box", width=390)
    page.locator("#fleet-box button").first.click()
    models = ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-8B", "org/unheard-of")
    lines = [f"{model},{hardware},=1+{at}" for at, (model, hardware) in enumerate(zip(models, ("t4-small", "a100-large", ""), strict=True))]
    text = "\n".join(["model,hardware,label", *lines])
    page.locator("#fleet-box input[type=file]").set_input_files({"name": "list.csv", "mimeType": "text/csv", "buffer": text.encode()})
    expect(page.locator("#fleet-text textarea")).to_have_value(text)
    page.get_by_role("button", name="Check all rows").click()
    expect(page.locator("#fleet-card h2")).to_contain_text("Today's hardware of 2 rows costs $2,088 a month")
    rows = page.locator("#fleet-card tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("Qwen/Qwen3-8B")
    page.locator("#fleet-card th button", has_text="Model").first.evaluate("button => button.click()")
    expect(rows.first).to_contain_text("org/unheard-of")
    with page.expect_download() as saved:
        page.locator("#fleet-card a", has_text="Download CSV").click()
    with Path(saved.value.path()).open(encoding="utf-8") as file:
        assert [row["label"] for row in csv.DictReader(io.StringIO(file.read()))] == ["'=1+0", "'=1+1", "'=1+2"]
    for check in (BEYOND, NAMELESS, CONTRAST):
        assert page.evaluate(check) == [], check
    many = "model,context_tokens,platforms,priority\n" + "\n".join(f"Qwen/Qwen3-8B,{1000 + at},all,fastest" for at in range(200))
    page.locator("#fleet-text textarea").fill(many)
    page.get_by_role("button", name="Check all rows").click()
    stop = page.locator("#fleet-stop")
    expect(page.locator("#fleet-status")).to_contain_text("of 200 rows are answered")
    stop.evaluate("button => button.click()")  # it is drawn again with each picture of the run
    expect(page.locator("#fleet-status")).to_contain_text("The rows so far are kept")
    expect(stop).to_be_hidden()
    expect(page.get_by_role("button", name="Check all rows")).to_be_enabled()
