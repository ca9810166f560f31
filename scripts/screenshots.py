"""Pictures of the running page for the README: every tab, desktop and 390 px, light and dark.

    python scripts/screenshots.py [TAB ...]

The script starts the app with a ledger of its own. `tests/support/space_stand_in.py` imitates the Hub, so that *My Space* has a Space to
show and no real one is touched. *Live demo* measures once, for a few seconds, on this machine; a busy one is measured as slow. Needs
Playwright and a Chromium on PATH (tests/requirements.txt, `apt install chromium`) and Pillow, which comes with Gradio;
the pictures go to assets/screenshots/.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "assets" / "screenshots"
WIDTHS = {"desktop": (1280, 1000), "phone": (390, 844)}
SMALL_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
TABS = {
    "recommend": "?tab=recommend",
    "what-runs": "?tab=what-runs",
    "memory": "?tab=memory&context=32768&concurrency=4&hardware=spaces:a100-large",
    "cost": "?tab=cost&requests=200&account=pro&in=0.2&out=0.6&hardware=spaces:l4x1",
    "tpu": "?tab=tpu&places=on_gcp",
    "traffic": "?tab=traffic&hardware=spaces:l4x1&rate=1.2",
    "train": "?tab=train",
    "live": f"?tab=live&model={SMALL_MODEL}",
    "space": "?tab=space&space=ada/chat",
}
CHARTS = {
    "traffic": "#loads-chart .main-svg",
    "memory": "#curve .main-svg",
    "cost": ".chart .main-svg:visible",
    "recommend": "#front .main-svg",
}
HEIGHTS = {("space", "desktop"): 1660, ("traffic", "desktop"): 1240}
"""Pictures that are higher than the window: down to the button that confirms, down to the plot."""
AIMS = {
    ("live", "desktop"): "#live .card.press",
    ("live", "phone"): ".measured-card",
    ("traffic", "phone"): "#loads-chart",
    ("space", "desktop"): "#tabs",
}
"""The element at the upper edge of a picture: on a desktop else the page's, on a phone the first card's."""
START_S = 90
RUN_MS = 180_000
MACHINE = "hf_thisMachineThisMachine"  # opens nothing: the stand-in knows whose it is


@contextmanager
def _app() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with _hub() as hub, TemporaryDirectory() as folder:
        own = {"GRADIO_SERVER_PORT": str(port), "LEDGER_PATH": f"{folder}/ledger.sqlite", "MOCK_LOGIN": "1"}
        environment = os.environ | own | {"HF_ENDPOINT": hub, "HF_TOKEN": MACHINE}
        app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, start_new_session=True)
        try:
            yield _wait_for_answer(f"http://127.0.0.1:{port}")
        finally:
            os.killpg(app.pid, signal.SIGTERM)
            app.wait()


@contextmanager
def _hub() -> Iterator[str]:
    """The imitated Hub with one Space on a tier that is too large for its model."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
    from hub_stand_in import Fault  # type: ignore[import-not-found]  # noqa: PLC0415  of the tests
    from space_stand_in import FakeSpace, Person, SpaceStandIn  # type: ignore[import-not-found]  # noqa: PLC0415

    class AnyPerson(Person):  # type: ignore[misc]
        """A person as Gradio's mocked sign-in wants to know one."""

        def to_json(self) -> dict[str, Any]:
            return dict(super().to_json(), avatarUrl="/avatar.png")

    with SpaceStandIn() as hub:
        for platform in ("spaces", "jobs"):  # the bundled prices are shown, as such
            hub.faults[f"/api/{platform}/hardware"] = Fault(status=503)
        hub.people[MACHINE] = AnyPerson(name="ada")
        hub.add_space(FakeSpace(id="ada/chat", hardware="a100-large", requested="a100-large", sleep_s=3600, models=["Qwen/Qwen3-8B"]))
        yield str(hub.url)


def _wait_for_answer(address: str) -> str:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310  loopback
                return address
        except OSError:
            time.sleep(0.3)
    raise SystemExit(f"The app did not answer within {START_S} s.")


def _after_measuring(page: Page) -> None:
    """One run of Measure, small enough for two cores, and one heartbeat."""
    page.locator("#live").get_by_label("Number format of the weights").click()
    page.get_by_role("option", name="32-bit (fp32)").click()
    page.locator("#live").get_by_label("Prompt tokens").fill("128")
    page.locator("#live").get_by_label("Output tokens").fill("32")
    page.locator("#expected").get_by_text("128 prompt and 32 output tokens").wait_for()
    page.locator("#measure-run").click()
    page.locator("#measure-card .card").wait_for(timeout=RUN_MS)
    page.get_by_role("button", name="Run the heartbeat").click()
    page.locator("#beat-card .card").wait_for(timeout=RUN_MS)


def _at_review(page: Page) -> None:
    """The right size found, its tier taken, and the review of the switch on the page; nothing is confirmed."""
    page.locator("#space-size .card").wait_for()
    page.get_by_role("button", name="Use this tier").click()
    page.get_by_label(re.compile("^Sleep after")).wait_for(state="hidden")  # the tier has arrived: ZeroGPU's sleep is its own affair
    page.get_by_role("button", name="Review", exact=True).click()
    page.locator("#review-card .card").wait_for()


def _after_simulating(page: Page) -> None:
    """Everything that the tab shows in the end."""
    page.locator("#needs table").wait_for()


ACTS: dict[str, Callable[[Page], None]] = {"live": _after_measuring, "space": _at_review, "traffic": _after_simulating}


def _take(browser: Browser, address: str, tabs: Sequence[str]) -> Iterator[Path]:
    for tab in tabs:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"{address}/{TABS[tab]}")
        page.locator("html.answered").wait_for(state="attached")
        page.locator(".card:visible").first.wait_for()
        if tab in CHARTS:
            page.locator(CHARTS[tab].split()[0]).first.scroll_into_view_if_needed()  # a chart is drawn when it comes into view
            page.locator(CHARTS[tab]).first.wait_for()
        if tab in ACTS:
            ACTS[tab](page)
        for device, (width, height) in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": HEIGHTS.get((tab, device), height)})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                _aim(page, tab, device)
                path = TARGET / f"{tab}-{device}-{scheme}.png"
                picture = Image.open(BytesIO(page.screenshot()))
                picture.convert("RGB").save(path, optimize=True)
                yield path
        page.close()


def _aim(page: Page, tab: str, device: str) -> None:
    """Scroll to what the picture is of, and let drawings and colours settle."""
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(1200)
    aim = AIMS.get((tab, device)) or (".card:visible" if device == "phone" else "body")
    page.locator(aim).first.evaluate("aim => aim.scrollIntoView()")
    page.wait_for_timeout(300)


def main() -> None:
    """Take all pictures and print their sizes."""
    TARGET.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("No Chromium on PATH.")
    with sync_playwright() as playwright, _app() as address:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        paths = list(_take(browser, address, sys.argv[1:] or list(TABS)))
        browser.close()
    for path in paths:
        print(f"{path.stat().st_size:>8,} bytes  {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
