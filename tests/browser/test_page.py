"""The page in Chromium: answers, sliders, errors, keyboard, dark and light, narrow, and nothing asked of third parties."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from llama import llama_config
from page_checks import BEYOND, CONTRAST, NAMELESS, SETTLED, STILL, UNFOLD, Open, open_box
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

pytestmark = pytest.mark.browser

EXAMPLE = "meta-llama/Llama-3.1-8B-Instruct"
MODEL = re.compile("^Model")


def _ask(page: Page, model: str) -> None:
    field = page.get_by_role("combobox", name=MODEL)
    field.click()
    field.fill(model)
    field.press("Enter")


def _context(page: Page) -> Locator:
    """The number of the context length, in the workload's fold."""
    page.evaluate(UNFOLD)
    page.locator("#q-context").wait_for()
    page.evaluate(SETTLED)
    return page.get_by_role("spinbutton", name="number input for Context length", exact=True)


def test_the_page_opens_with_an_answer(open_page: Open) -> None:
    """Without a click there is a pick with a price, the ranked table, and one h1."""
    page = open_page()
    expect(page.locator("#pick")).to_contain_text(EXAMPLE)
    expect(page.locator("#pick")).to_contain_text("Price")
    expect(page.locator("#pick")).to_contain_text(re.compile("Prices"))
    expect(page.get_by_role("table", name="Everything that qualifies, best first")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_count(1)


def test_another_model_gets_another_answer(open_page: Open) -> None:
    """A parameter count is a model too; its line says that it is an estimate."""
    page = open_page()
    _ask(page, "70B")
    expect(page.locator("#facts")).to_contain_text("70.0 billion")
    expect(page.locator("#facts")).to_contain_text("estimated from the parameter count alone")
    expect(page.locator("#pick")).not_to_contain_text(EXAMPLE)


def test_names_are_suggested(open_page: Open) -> None:
    """Typing narrows the suggestions to names that hold the words; choosing one answers without another click."""
    page = open_page()
    field = page.get_by_role("combobox", name=MODEL)
    field.fill("")
    field.press_sequentially("gpt2")
    page.wait_for_function(
        """() => { const names = [...document.querySelectorAll("#model-names option")].map((option) => option.value);
                   return names.length > 0 && names.every((name) => name.includes("gpt2")); }"""
    )  # read in one piece: the list is replaced while letters are typed
    # the list itself is drawn by the browser, outside the page: this is the event with which a choice arrives
    field.evaluate(
        """field => { field.value = "openai-community/gpt2";
                      field.dispatchEvent(new InputEvent("input", {bubbles: true, inputType: "insertReplacementText"})); }"""
    )
    expect(page.locator("#pick")).to_contain_text("openai-community/gpt2")


def test_a_pasted_config_is_a_model(open_page: Open) -> None:
    """The text of a config.json is answered like an id."""
    page = open_page()
    open_box(page, "Paste a config.json")
    page.get_by_role("textbox", name=re.compile("^config.json")).fill(json.dumps(llama_config()))
    page.get_by_role("button", name="Find hardware").click()
    expect(page.locator("#facts")).to_contain_text("counted by building the architecture")
    expect(page.locator("#pick")).to_contain_text("the pasted config")


@pytest.mark.parametrize("model", ["nobody/no-such-model-0", '<img src=x onerror="document.title=1">/x', "{", "-7B"])
def test_a_refusal_is_a_sentence(open_page: Open, model: str) -> None:
    """What is no model is answered with a sentence in the page, the input stays, and nothing of it is run."""
    page = open_page()
    _ask(page, model)
    expect(page.locator("#facts").get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("combobox", name=MODEL)).to_have_value(model)
    expect(page.locator("#facts img")).to_have_count(0)
    expect(page).to_have_title("Spaces Hardware Advisor")
    _ask(page, EXAMPLE)
    expect(page.locator("#pick")).to_contain_text(EXAMPLE)


def test_sliders_answer_at_once(open_page: Open) -> None:
    """More context takes more cache: from 4,096 to 65,536 tokens it grows sixteenfold."""
    page = open_page("?tab=memory&hardware=spaces:a100-large&engine=transformers")
    cache = page.locator("#need .legend div", has_text="Cache").locator("dd")
    expect(cache).to_contain_text("0.50 GiB")  # 131 072 bytes for each of 4 096 tokens
    _context(page).fill("65536")
    expect(cache).to_contain_text("8.00 GiB")
    page.get_by_label("Concurrent requests").and_(page.get_by_role("spinbutton")).first.fill("2")
    expect(cache).to_contain_text("16.0 GiB")


def test_a_number_can_be_opened(open_page: Open) -> None:
    """Behind the estimate stand law, inputs, exact bytes and source, and the split of the cache by layer kind."""
    page = open_page("?tab=memory")
    open_box(page, "How each number is computed")
    explain = page.locator("#explain")
    expect(explain.get_by_role("heading", name=re.compile("Cache"))).to_be_visible()
    expect(explain).to_contain_text("full attention")
    expect(explain).to_contain_text("Exactly 536,870,912 bytes")


def test_the_curve_is_drawn(open_page: Open) -> None:
    """Plotly draws memory against context, when the chart comes into view."""
    page = open_page("?tab=memory")
    page.locator("#curve").scroll_into_view_if_needed()
    page.locator("#curve .js-plotly-plot .main-svg").first.wait_for()
    expect(page.locator("#curve .fills path")).to_have_count(4)


def test_a_link_repeats_the_question(open_page: Open) -> None:
    """The link of an answer opens the same tab with the same questions."""
    page = open_page("?tab=memory")
    _context(page).fill("8192")
    expect(page.locator("#need .legend")).to_contain_text("1.00 GiB")
    link = page.locator("#need [data-copy-link]").get_attribute("href")
    again = open_page(str(link))
    expect(_context(again)).to_have_value("8192")
    expect(again.locator("#need .legend")).to_contain_text("1.00 GiB")


def test_a_link_keeps_its_question_while_fields_settle(browser: Browser, app_url: str) -> None:
    """A change before the link has filled the fields finds the defaults in the others: these are not asked."""
    page = browser.new_page()
    held: list[Route] = []
    page.route("**/gradio_api/run/predict?*", lambda route: held.append(route) if not held else route.continue_())
    page.goto(app_url + "/?model=Qwen/Qwen3-8B&requests=70")
    page.locator("#q-concurrency input").fill("2")
    page.wait_for_timeout(1_000)
    assert "model=Qwen/Qwen3-8B" in page.url
    held[0].continue_()
    expect(page.locator("#pick")).to_contain_text("Qwen3-8B")
    expect(page.locator("#more-bar")).to_contain_text("70 requests a day")
    assert "model=Qwen/Qwen3-8B&concurrency=2&requests=70" in page.url
    page.close()


def test_the_page_asks_nothing_while_it_opens_and_then_each_change(browser: Browser, app_url: str) -> None:
    """It holds the example's answer. A change at the first moment is asked, and nothing takes it back."""
    page = browser.new_page()
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if request.method == "POST" else None)
    page.goto(app_url)
    page.locator("html.answered").wait_for(state="attached")
    expect(page.locator("#pick")).to_contain_text("1 × 4,096 tokens")
    assert asked == []
    at_once = page.locator("#q-concurrency input")
    at_once.fill("16")
    expect(page.locator("#pick")).to_contain_text("16 × 4,096 tokens")
    expect(at_once).to_have_value("16")
    page.close()


def test_an_answer_can_be_saved(open_page: Open) -> None:
    """The CSV comes out of the page itself."""
    page = open_page()
    with page.expect_download() as saved:
        page.locator("#pick").get_by_role("link", name="Download CSV").click()
    assert saved.value.suggested_filename == "recommendation.csv"
    assert saved.value.path().read_text(encoding="utf-8").startswith("rank,name,hardware,platform")


def test_a_link_with_nonsense_opens_the_page(open_page: Open) -> None:
    """Values that read as nothing are named, and the defaults stand."""
    page = open_page(f"?tab=memory&context={quote('<b>9</b>')}&concurrency=-1&devices=nan")
    expect(page.locator("#facts")).to_contain_text("context, concurrency, devices")
    expect(_context(page)).to_have_value("4096")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("tab", ["recommend", "memory"])
def test_text_can_be_read_in_both_modes(open_page: Open, scheme: str, tab: str) -> None:
    """Every text has the contrast that WCAG 2 AA asks for, and every control has a name."""
    page = open_page(f"?tab={tab}", scheme=scheme)
    for box in page.locator(".quiet-accordion > button:visible").all():
        box.click()
    page.evaluate(STILL)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []


@pytest.mark.parametrize("tab", ["recommend", "memory"])
def test_a_narrow_screen_shows_everything(open_page: Open, tab: str) -> None:
    """At 390 pixels nothing reaches beyond the edge, also with everything opened."""
    page = open_page(f"?tab={tab}", width=390)
    page.evaluate(UNFOLD)
    for box in page.locator(".quiet-accordion > button:visible").all():
        box.click()
    if tab == "memory":
        page.locator("#curve").scroll_into_view_if_needed()
        page.locator("#curve .main-svg").first.wait_for()
    beyond: Any = page.evaluate(BEYOND)
    assert beyond == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_keyboard_reaches_everything(open_page: Open) -> None:
    """Tab alone goes from the model through the questions to the downloads, and the focus can be seen."""
    page = open_page()
    page.get_by_role("combobox", name=MODEL).focus()
    reached: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()")
        reached.append(str(name))
        if name == "Download JSON":
            break
    wanted = [
        "Find hardware",
        "Concurrent requests",
        "My plan",
        "More",
        "Hardware: we choose",
        "Memory",
        "Copy as text",
        "Copy link",
        "Download CSV",
        "Download JSON",
    ]
    assert [name for name in wanted if not any(name in seen for seen in reached)] == []
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_first_stop_leads_past_the_question_to_the_answer(open_page: Open) -> None:
    """The button is seen while it has the focus; then the next stop is in the answer, and the address is as it was."""
    page = open_page()
    address = page.url
    page.keyboard.press("Tab")
    skip = page.get_by_role("button", name="Skip to the answer")
    expect(skip).to_be_focused()
    assert skip.bounding_box()["height"] > 20  # type: ignore[index]  # it is shown
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("Boolean(document.activeElement.closest('.answers'))")
    assert page.url == address
    expect(page.get_by_role("button", name="Price per hour", exact=True)).to_have_count(1)  # its arrow is not part of its name


def test_paper_is_white_and_has_no_buttons(open_page: Open) -> None:
    """The dark theme goes while the page is printed and comes back; fields and actions are left out, the answer is not."""
    page = open_page("?__theme=dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.evaluate("document.body.classList.contains('dark')")
    expect(page.locator("#pick .card")).to_be_visible()
    expect(page.locator(".actions:visible, .page-tools:visible, .controls:visible")).to_have_count(0)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.body.classList.contains('dark')")


def test_a_number_beyond_the_range_is_answered_as_what_the_box_then_shows(open_page: Open) -> None:
    """Five tokens are below the slider's least of 512: the field says so; when it is left the box goes there, and so does the answer."""
    page = open_page("?tab=memory")
    box = _context(page)
    card = page.locator(".card:visible").filter(has_text="GiB").first
    expect(card).to_contain_text("16.4 GiB")
    box.fill("5")
    expect(page.locator("#q-context").get_by_role("alert")).to_contain_text("Context length was 5. Accepted: 512 to 131,072.")
    box.press("Tab")
    expect(box).to_have_value("512")
    expect(card).to_contain_text("15.6 GiB")


TABS = ("recommend", "what-runs", "memory", "train", "cost", "tpu", "traffic", "live", "space")


@pytest.mark.parametrize("tab", TABS)
def test_a_link_with_an_unusable_model_opens_and_gives_the_reason(open_page: Open, tab: str) -> None:
    """Nothing covers the page until it gives up waiting (20 s before): the tab itself says what is wrong and what is accepted."""
    page = open_page(f"?tab={tab}&model=%7B", wait=".refusal")
    expect(page.locator("#facts .refusal")).to_contain_text("The config is not JSON")
    if tab not in {"space", "what-runs"}:  # they answer without a model
        expect(page.locator("[data-no-model]:visible").first).to_contain_text("The config is not JSON")
    assert page.evaluate("performance.now()") < 15_000  # the page itself takes 3 s on a busy machine


def test_the_page_shows_itself_where_its_script_fails(open_page: Open) -> None:
    """Its style uncovers it after four seconds at most, without the class that the script sets."""
    page = open_page()
    page.evaluate("document.documentElement.classList.remove('answered')")
    expect(page.locator("#model")).to_be_hidden()
    style = "getComputedStyle(document.querySelector('.gradio-container'))"
    assert page.evaluate(f"parseFloat({style}.animationDelay) + parseFloat({style}.animationDuration)") <= 4
    page.wait_for_function(f"{style}.visibility === 'visible'")


def test_no_link_carries_a_pasted_config(open_page: Open) -> None:
    """Neither the address, nor the history, nor the button: it says that the config.json stays here."""
    page = open_page()
    open_box(page, "Paste a config.json")
    page.get_by_role("textbox", name=re.compile("^config.json")).fill(json.dumps(llama_config()))
    page.get_by_role("button", name="Find hardware").click()
    link = page.get_by_role("link", name="Copy link, without the config.json")
    expect(link.first).to_be_visible()
    kept = page.evaluate("[location.href, localStorage.getItem('questions') ?? '', ...[...document.links].map(a => a.href)].join(' ')")
    assert "hidden_size" not in kept
    assert "config=pasted" in kept


def test_a_choice_by_keyboard_keeps_the_focus(open_page: Open) -> None:
    """Enter takes the choice, and the next Tab goes on from the field, not from the top of the page."""
    page = open_page()
    page.evaluate(UNFOLD)
    for name in ("Precision", "Check specific hardware"):
        field = page.get_by_role("combobox", name=name, exact=True)
        field.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(field).to_be_focused()
        expect(page.get_by_role("listbox")).to_have_count(0)


def test_opened_reasons_are_not_cut_off(open_page: Open) -> None:
    """At 1440 px the table with all its reasons open is as wide as its place."""
    page = open_page(width=1440)
    page.evaluate("document.querySelectorAll('.scroll details:not([open]) > summary').forEach(e => e.checkVisibility() && e.click())")
    wide = page.evaluate("[...document.querySelectorAll('main .scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length")
    assert wide == 0
