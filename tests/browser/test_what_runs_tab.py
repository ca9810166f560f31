"""The tab *What runs here* in Chromium."""

from __future__ import annotations

import re

import pytest
from page_checks import SETTLED, Open
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_judging_shows_progress_until_it_is_stopped_and_a_change_asks_anew(open_page: Open) -> None:
    """Verdicts for a workload that nobody asked about before; after Stop no answer comes, and the next change gets one."""
    page = open_page("?tab=what-runs&have=RTX-3080&context=7680&concurrency=3&kind=auto", wait="#what-runs-stop")
    stop, found = page.locator("#what-runs-stop"), page.locator("#what-runs")
    stop.click()
    expect(found).to_contain_text("Stopped")
    expect(stop).to_be_hidden()
    page.wait_for_timeout(3_000)
    expect(found).to_contain_text("Stopped")
    page.locator("#q-concurrency input").fill("4")
    expect(found.locator(".card h2")).to_contain_text(re.compile("runs [0-9]+ of [0-9]+ models"))
    expect(stop).to_be_hidden()
    for width in (770, 962, 1000, 1100, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(SETTLED)
        assert page.evaluate("[...document.querySelectorAll('main .scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length") == 0
