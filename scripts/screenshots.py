"""Pictures of the running page for the README: every tab, desktop and 390 px, light and dark.

    python scripts/screenshots.py [ADDRESS]

Without an address the app is started for the occasion. Needs Playwright and a Chromium on PATH (tests/requirements.txt,
`apt install chromium`) and Pillow, which comes with Gradio; the pictures go to assets/screenshots/.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "assets" / "screenshots"
WIDTHS = {"desktop": (1280, 1000), "phone": (390, 844)}
TABS = {
    "recommend": "?tab=recommend",
    "memory": "?tab=memory&context=32768&batch=4",
    "cost": "?tab=cost&requests=200&account=pro&in=0.2&out=0.6",
}
CHARTS = {"memory": "#curve .main-svg", "cost": ".chart .main-svg:visible", "recommend": "#front .main-svg"}
START_S = 90


@contextmanager
def _app() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"GRADIO_SERVER_PORT": str(port)}
    app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, start_new_session=True)
    try:
        yield _ready(f"http://127.0.0.1:{port}")
    finally:
        os.killpg(app.pid, signal.SIGTERM)
        app.wait()


def _ready(address: str) -> str:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310  loopback
                return address
        except OSError:
            time.sleep(0.3)
    raise SystemExit(f"The app did not answer within {START_S} s.")


def _take(browser: Browser, address: str) -> Iterator[Path]:
    for device, (width, height) in WIDTHS.items():
        for scheme in ("light", "dark"):
            for tab, query in TABS.items():
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                page.goto(f"{address}/{query}")
                page.locator(".card:visible").first.wait_for()
                if tab in CHARTS:
                    page.locator(CHARTS[tab]).first.wait_for()
                if device == "phone":
                    page.locator(".card:visible").first.evaluate("card => card.scrollIntoView()")
                page.wait_for_timeout(1200)
                path = TARGET / f"{tab}-{device}-{scheme}.png"
                picture = Image.open(BytesIO(page.screenshot()))
                picture.convert("RGB").save(path, optimize=True)
                page.close()
                yield path


def main() -> None:
    """Take all pictures and print their sizes."""
    TARGET.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("No Chromium on PATH.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if len(sys.argv) > 1:
            taken = list(_take(browser, sys.argv[1]))
        else:
            with _app() as address:
                taken = list(_take(browser, address))
        browser.close()
    for path in taken:
        print(f"{path.stat().st_size:>8,} bytes  {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
