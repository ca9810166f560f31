"""Chromium and the app opened in it; each opened page is checked for errors and for requests to strangers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from page_checks import WAIT_MS, Open
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=WAIT_MS)  # a busy machine needs more than the five seconds that are usual


@pytest.fixture(scope="module")  # Playwright's event loop stays open in this thread until it is closed, and other tests run loops
def browser(chromium_path: str) -> Iterator[Browser]:
    """Chromium as the system installs it."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser, app_url: str) -> Iterator[Open]:
    """Opens the app in a fresh context and waits for an answer; at the end: no error in the page, no request to anyone else."""
    errors: list[str] = []
    strangers: list[str] = []
    home = urlsplit(app_url).netloc
    with ExitStack() as contexts:

        def open_address(query: str = "", *, width: int = 1280, scheme: str = "light", wait: str = ".card") -> Page:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
            contexts.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(WAIT_MS)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on(
                "request",
                lambda request: (
                    strangers.append(request.url)
                    if urlsplit(request.url).scheme in {"http", "https", "ws", "wss"} and urlsplit(request.url).netloc != home
                    else None
                ),
            )
            page.goto(app_url + "/" + query)
            page.locator("html.answered").wait_for(state="attached")  # before that a picture of the answer stands over the page
            page.locator(f"{wait}:visible").first.wait_for()
            return page

        yield open_address
    assert errors == []
    assert strangers == []
