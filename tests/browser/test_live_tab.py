"""The tab *Live demo* in Chromium, with a model made on the spot: streaming, stopping, measuring, and nothing fetched from anyone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tiny_chat
from contract import TINY_CONFIG
from page_checks import BEYOND, CONTRAST, NAMELESS, OPEN_ALL, STILL, WAIT_MS, Open, open_box
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
LINK = "?tab=live"
READY = "#device:has(strong)"
HOSTILE = (
    'Look <img src="http://127.0.0.1:9/a"> ![b](http://127.0.0.1:9/b) <svg><image href="http://127.0.0.1:9/c"/></svg> '
    '<div style="background:url(http://127.0.0.1:9/d)">e</div> $$x^2$$ **bold**'
)
# How answers grew: the lengths of the last one, and the signs of life beneath it, one after the other.
GROWTH = """() => { window.grown = []; window.told = new Set(); new MutationObserver(() => {
  const length = [...document.querySelectorAll("#talk .bot .message, #talk .bot.message")].at(-1)?.textContent.trim().length ?? 0;
  if (length && length !== window.grown.at(-1)) window.grown.push(length);
  const note = document.querySelector("#chat-status")?.textContent.trim();
  if (note) window.told.add(note);
}).observe(document.querySelector("#chat"), {childList: true, subtree: true, characterData: true}); }"""

# The tiny model is done within a second: Stop is pressed as soon as it is there.
STOP_AT_ONCE = """() => { const seen = new MutationObserver(() => { const stop = document.querySelector("#chat-stop");
  if (stop?.checkVisibility()) { seen.disconnect(); stop.click(); } });
  seen.observe(document.querySelector("#chat"), {childList: true, subtree: true, attributes: true}); }"""


@pytest.fixture(autouse=True)
def _model(demo_folder: Path) -> None:
    """The chat's model, if no test before has put it there."""
    if not demo_folder.exists():
        tiny_chat.save(demo_folder)


def say(page: Page, text: str) -> None:
    """Type a message and send it."""
    page.get_by_role("textbox", name="Message").fill(text)
    page.get_by_role("textbox", name="Message").press("Enter")


def watch_growth(page: Page, tokens: int) -> list[int]:
    """How the next answer grew. Whole words are told, and of these random tokens one in a hundred ends a word: one answer may have none."""
    page.get_by_role("spinbutton", name="number input for Longest answer, tokens").fill(str(tokens))
    page.evaluate("window.grown.length = 0")
    page.get_by_role("button", name="New conversation").click()
    say(page, "Go on")
    expect(page.locator("#chat-card .card")).to_contain_text(f"{tokens} written")
    found: list[int] = page.evaluate("window.grown")
    return found


def test_a_chat_streams_stops_and_shows_its_figures(open_page: Open) -> None:
    """The answer grows before the eye; Stop ends the next one in the middle and leaves the model free; markup stays text."""
    page = open_page(LINK, wait=READY)
    expect(page.locator("#device")).to_contain_text(re.compile(r"runs on CPU \(\d+ cores?, "))
    open_box(page, "Answer length and temperature")
    longest = page.get_by_role("spinbutton", name="number input for Longest answer, tokens")
    longest.fill("120")
    page.evaluate(GROWTH)
    say(page, HOSTILE)
    card = page.locator("#chat-card .card")
    for name in ("Time to first token", "Tokens per second", "Peak memory", "predicted", "120 written"):
        expect(card).to_contain_text(name)
    assert "Writing the answer." in page.evaluate("[...window.told]")
    asked = page.locator("#talk").get_by_text("Look").first
    expect(asked).to_contain_text('<\u2060img src="http://127.0.0.1:9/a">')
    expect(asked.locator("strong")).to_have_text("bold")
    expect(page.locator("#talk .katex")).to_have_count(0)
    assert any(len(watch_growth(page, number)) > 1 for number in range(200, 206))
    longest.fill("256")
    page.evaluate(STOP_AT_ONCE)
    say(page, "Again")
    expect(page.locator("#chat-status")).to_contain_text("Stopped")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_hidden()
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    longest.fill("3")
    say(page, "Short")
    expect(card).to_contain_text("3 written")
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator("#talk")).to_contain_text("Ask something")


def test_a_measurement_is_shown_and_kept(open_page: Open) -> None:
    """A pasted architecture: foreseen, run in stages, compared; then the ledger has its row, its picture and its files."""
    page = open_page()
    open_box(page, "Paste a config.json instead")
    page.get_by_role("textbox", name=re.compile("^config.json")).fill(TINY_CONFIG)
    page.get_by_role("button", name="Find hardware").click()
    expect(page.locator("#pick")).to_contain_text("the pasted config")
    page.get_by_role("tab", name="Live demo").click()
    page.locator("#live").get_by_label("Prompt tokens").fill("16")
    page.locator("#live").get_by_label("Output tokens").fill("4")
    expect(page.locator("#expected")).to_contain_text("16 prompt and 4 output tokens")
    expect(page.locator("#expected")).to_contain_text("memory fits")
    page.locator("#measure-run").click()
    expect(page.locator("#measure-status .stages")).to_be_visible()
    page.locator("#measure-card .card, #measure-status .refusal").first.wait_for(timeout=4 * WAIT_MS)  # a new process imports torch
    expect(page.locator("#measure-status .refusal")).to_have_count(0)
    card = page.locator("#measure-card")
    expect(card).to_contain_text("the pasted config with random weights in bf16")
    for name in ("Time to first token", "Tokens per second", "Peak memory"):
        expect(card.get_by_role("rowheader", name=name)).to_be_visible()
    with page.expect_download() as figures:
        card.get_by_role("link", name="Download CSV").click()
    assert figures.value.path().read_text(encoding="utf-8").startswith("figure,measured,predicted,error_ratio")
    expect(page.locator("#ledger-rows")).to_contain_text("LlamaForCausalLM#")
    page.locator("#ledger-chart .main-svg").first.wait_for()
    page.get_by_role("radio", name="Tokens per second").check()
    expect(page.locator("#ledger-chart")).to_contain_text("Tokens per second: predicted against measured")
    with page.expect_download() as rows:
        page.locator("#ledger-kept").get_by_role("link", name="Download CSV").click()
    assert "LlamaForCausalLM#" in rows.value.path().read_text(encoding="utf-8")
    with page.expect_download() as parquet:
        page.locator("#ledger-kept").get_by_role("link", name="Download Parquet").click()
    assert parquet.value.path().read_bytes().startswith(b"PAR1")


def test_a_measurement_that_cannot_be_is_refused_with_the_arithmetic(open_page: Open) -> None:
    """405 billion parameters in 16 bits are 756 GiB: a smaller model is offered by default; without it, a refusal before and by the run."""
    page = open_page(f"{LINK}&model=meta-llama/Meta-Llama-3.1-405B", wait=READY)
    expect(page.locator("#expected")).to_contain_text("starts a smaller run instead")
    page.get_by_label("Run a smaller model if this one does not fit here").uncheck()
    expect(page.locator("#expected .refusal")).to_contain_text("This run needs")
    page.locator("#measure-run").click()
    expect(page.locator("#measure-status .refusal")).to_contain_text("This run needs")
    expect(page.locator("#measure-run")).to_be_enabled()


def test_a_heartbeat_is_valid_and_the_published_one_is_explained(open_page: Open) -> None:
    """A small product; the floor, cold apart from warm; 268 MB at 1,640 GB/s are 0.164 ms; the script can be read and saved."""
    page = open_page(LINK, wait=READY)
    open_box(page, "Sizes and repetitions")
    for name, value in (("Hidden", "512"), ("Intermediate", "1024"), ("Timed products", "20")):
        page.get_by_label(name, exact=True).fill(value)
    page.get_by_role("button", name="Run the heartbeat").click()
    card = page.locator("#beat-card")
    for name in ("128 × 512 by 512 × 1,024 in float32", "First product, cold", "Warm, median", "Floor", "Efficiency", "Achieved"):
        expect(card).to_contain_text(name)
    expect(card.locator(".badge").first).to_have_text("valid")
    page.locator("#tpu-story summary").first.click()
    expect(page.locator("#tpu-story")).to_contain_text("0.164 ms")
    page.get_by_text("The script for a TPU").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download heartbeat_tpu.py").click()
    compile(saved.value.path().read_text(encoding="utf-8"), "heartbeat_tpu.py", "exec")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_everything_can_be_read_and_named(open_page: Open, scheme: str, width: int) -> None:
    """With an answer and everything opened: contrast of WCAG 2 AA, a name for every control, and nothing beyond the edge."""
    page = open_page(LINK, wait=READY, scheme=scheme, width=width)
    say(page, "Hi `code`")
    expect(page.locator("#chat-card .card")).to_be_visible()
    page.evaluate(OPEN_ALL)
    page.evaluate(STILL)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(BEYOND) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
