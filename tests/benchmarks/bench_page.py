"""Our page and an empty Gradio page in Chromium, in turns on one machine: what opening costs, and what a drag of a slider asks.

    python tests/benchmarks/bench_page.py [pairs]

Each opening has a context of its own, so nothing is cached. The first answer is the card of the pick, which the served HTML holds; the page
can be used from "ready" on; on the empty page both are its field. Layout
shift is the browser's own figure (sum of shifts that no input caused), and so is the longest task. The phone has this machine's
processor, with and without a slow network. The machine's load slows both pages: the ratio is what counts.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from running_app import start_app  # noqa: E402  the folder of the tests' helpers

WATCH = """window.shifted = 0; window.longest = 0;
new PerformanceObserver((list) => { for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration); })
  .observe({ type: "longtask", buffered: true });
new PerformanceObserver((list) => { for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifted += one.value; })
  .observe({ type: "layout-shift", buffered: true });"""
ARRIVED = "(selector) => { if (document.querySelector(selector)?.checkVisibility()) return performance.now(); }"
DRAG = """slider => { for (let step = 1; step <= 60; step += 1) {
  slider.value = 4096 + 512 * step; slider.dispatchEvent(new InputEvent("input", {bubbles: true})); } }"""
SIZES = {"desktop": (1440, 900), "phone": (390, 844), "phone, slow 4G": (390, 844)}
SLOW_4G = {"offline": False, "latency": 150, "downloadThroughput": 1_600_000 / 8, "uploadThroughput": 750_000 / 8}
"""A round trip of 150 ms, 1.6 Mbit/s down and 0.75 up."""
QUIET_MS = 3_000


def open_page(browser: Browser, url: str, first: str, ready: str, size: str) -> tuple[Page, dict[str, float]]:
    """The page with its answer, and what opening it took."""
    page = browser.new_context(viewport={"width": SIZES[size][0], "height": SIZES[size][1]}).new_page()
    page.add_init_script(WATCH)
    traffic: list[Any] = []
    kilobytes: list[float] = []
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    if size.endswith("slow 4G"):
        network.send("Network.emulateNetworkConditions", SLOW_4G)
    network.on("Network.loadingFinished", lambda done: kilobytes.append(done["encodedDataLength"] / 1000))
    page.on("request", lambda request: traffic.append(request))  # noqa: PLW0108  Playwright marks what it is given
    page.goto(url, wait_until="commit")  # the first answer is shown before everything is loaded
    arrived, usable = (page.wait_for_function(ARRIVED, arg=what, polling=20, timeout=120_000).json_value() for what in (first, ready))
    page.wait_for_timeout(QUIET_MS)
    posts = [one for one in traffic if one.method == "POST"]
    return page, {
        "first answer, s": arrived / 1000,
        "ready, s": usable / 1000,
        "longest task, ms": page.evaluate("window.longest"),
        "requests": len(traffic),
        "KB": sum(kilobytes),
        "POSTs": len(posts),
        "layout shift": page.evaluate("window.shifted"),
    }


def drag_posts(page: Page) -> int:
    """How many questions one drag asks."""
    asked: list[Any] = []
    page.locator('[data-fold="#more"]').click()
    page.wait_for_timeout(1_000)
    page.on("request", lambda request: asked.append(request) if request.method == "POST" else None)
    page.get_by_role("slider", name="range slider for Context length").evaluate(DRAG)
    page.wait_for_timeout(QUIET_MS)
    return len(asked)


def main() -> None:
    """Measure pairs, print medians of both pages and the ratio of the first answers."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rows: dict[str, list[dict[str, float]]] = {}
    drags = []
    with (
        start_app(HF_HUB_OFFLINE="1") as ours,
        start_app(script=str(ROOT / "tests" / "benchmarks" / "empty_gradio.py")) as empty,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(pairs + 1):  # the first of each fills caches of the machine
            for name, url, first, ready in (("empty", empty, "textarea", "textarea"), ("ours", ours, ".card", "html.answered")):
                for size in SIZES:
                    page, figures = open_page(browser, url, first, ready, size)
                    rows.setdefault(f"{name}, {size}", []).append(figures)
                    if name == "ours" and size == "desktop":
                        drags.append(drag_posts(page))
                    page.context.close()
        browser.close()
    medians = {name: {what: statistics.median(one[what] for one in seen[1:]) for what in seen[0]} for name, seen in rows.items()}
    for name, figures in medians.items():
        print(f"{name:>15}: " + ", ".join(f"{what} {value:.2f}" for what, value in figures.items()))  # noqa: T201 - a benchmark prints
    for size in SIZES:
        for what in ("first answer", "ready"):
            ratio = medians[f"ours, {size}"][f"{what}, s"] / medians[f"empty, {size}"][f"{what}, s"]
            print(f"{what} on {size}: {ratio:.1f} times the empty page's")  # noqa: T201
    print(f"POSTs of one drag: {max(drags)}; load {os.getloadavg()[0]:.1f}")  # noqa: T201


if __name__ == "__main__":
    main()
