"""One workload for all tabs, kept in the address: the walk over the tabs, reload and Back, numbers out of range, the first screen."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from page_checks import BEYOND, SETTLED, UNFOLD, Open, open_box
from playwright.sync_api import Locator, Page, Request, expect

from lib.workload import prompt_and_output_tokens

pytestmark = pytest.mark.browser

NUMBERS = ("context", "prompt", "answer", "concurrency", "requests", "hours")


def _tab(page: Page, name: str) -> Locator:
    return page.get_by_role("tab", name=name, exact=True)


def _query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def _number(page: Page, name: str) -> Locator:
    return page.locator(f'#q-{name} input[type="number"]')


def _unfold(page: Page) -> None:
    """Open the fold of the workload, whose fields are built at the first opening."""
    page.evaluate(UNFOLD)
    page.locator("#q-context").wait_for()
    page.evaluate(SETTLED)


def test_the_walk_finds_the_same_figures(open_page: Open) -> None:
    """A row's memory and bill in Recommend are those of the tabs that its links open, for the workload that was typed."""
    page = open_page("?context=8192&concurrency=2")
    row = page.get_by_role("row").filter(has_text="1x Nvidia L4").first
    month = re.search(r"(\$[\d,.]+)\sa\smonth", row.inner_text())
    memory = re.search(r"([\d.]+) of", row.inner_text())
    assert month is not None
    assert memory is not None
    row.get_by_role("link", name="Cost").click()
    expect(page.locator("#bill .figure")).to_have_text(month[1])
    assert _query(page)["hardware"] == "spaces:l4x1"
    _tab(page, "Memory").click()
    expect(page.locator("#need .figure")).to_contain_text(memory[1])


def test_the_address_follows_and_brings_back(open_page: Open) -> None:
    """A change replaces the address, a tab adds to the history; reload and Back restore both; what is a default is not in it."""
    page = open_page()
    assert urlsplit(page.url).query == ""
    _unfold(page)
    _number(page, "requests").fill("250")
    page.wait_for_url(re.compile("requests=250"))
    assert _query(page) == {"model": "meta-llama/Llama-3.1-8B-Instruct", "requests": "250"}
    _tab(page, "Cost").click()
    expect(page.locator("#bill .card")).to_be_visible()
    page.wait_for_url(re.compile("tab=cost"))
    page.reload()
    expect(page.locator("#bill .card")).to_be_visible()
    expect(page.locator("#more-bar")).to_contain_text("250 requests a day")
    page.go_back()
    page.wait_for_url(re.compile("^((?!tab=).)*$"))
    expect(_tab(page, "Recommend")).to_have_attribute("aria-selected", "true")
    _unfold(page)
    expect(_number(page, "requests")).to_have_value("250")


def test_own_cards_follow_the_address_and_the_links(open_page: Open) -> None:
    """One button leads to the list; the number is asked of cards alone; the first card of *Recommend* is about them, and leads on."""
    page = open_page()
    page.locator("[data-hardware]").click()
    field = page.get_by_role("combobox", name="Check specific hardware", exact=True)
    expect(field).to_be_focused()
    expect(_number(page, "cards")).not_to_be_visible()
    field.press_sequentially("3090")
    page.get_by_role("option", name=re.compile("RTX 3090 ·")).first.click()
    line = page.locator("#pick .card").first
    expect(line.locator("h2")).to_contain_text("Your NVIDIA GeForce RTX 3090: fits")
    expect(page.locator("#pick .card.pick")).to_contain_text("Or rent hardware")
    expect(page.locator("[data-hardware]")).to_have_text("Hardware: RTX 3090")
    _number(page, "cards").fill("2")
    expect(line.locator("h2")).to_contain_text("Your 2 × NVIDIA GeForce RTX 3090: fits")
    expect(page.locator("[data-hardware]")).to_have_text("Hardware: 2 × RTX 3090")
    assert _query(page) == {"model": "meta-llama/Llama-3.1-8B-Instruct", "hardware": "RTX-3090", "cards": "2"}
    line.get_by_role("link", name="Memory").click()
    expect(page.locator("#need")).to_contain_text("2 × NVIDIA GeForce RTX 3090")
    _tab(page, "Cost").click()
    expect(page.locator("#bill .card.own")).to_contain_text("nothing to rent")
    page.reload()
    expect(page.locator("#bill .card.own")).to_contain_text("2 × NVIDIA GeForce RTX 3090")


def test_a_number_out_of_range_is_said_beside_its_field(open_page: Open) -> None:
    """Minus five in each number field: its own sentence, no question; put right, it answers again."""
    page = open_page()
    _unfold(page)
    for name in NUMBERS:
        field = _number(page, name)
        before = field.input_value()
        field.fill("-5")
        expect(page.locator(f"#q-{name}").get_by_role("alert")).to_contain_text("-5")
        field.fill(before)
        expect(page.locator(".field-error")).to_have_count(0)
    assert urlsplit(page.url).query == ""  # no question was put
    _number(page, "concurrency").fill("3")
    page.wait_for_url(re.compile("concurrency=3"))
    expect(page.locator("#pick .card")).to_be_visible()
    expect(page.locator("#pick .refusal")).to_have_count(0)


def test_a_pasted_config_is_said_in_the_address_and_a_typed_name_goes_first(open_page: Open) -> None:
    """The address holds no config, and says so when it is opened; a name that is entered wins over the box."""
    page = open_page("?config=pasted", wait="#facts .hint")
    expect(page.locator("#facts")).to_contain_text("Links do not carry")
    page.get_by_role("combobox", name=re.compile("^Model")).fill("7B")
    page.get_by_role("combobox", name=re.compile("^Model")).press("Enter")
    expect(page.locator("#pick")).to_contain_text("a model of 7B parameters")
    assert _query(page) == {"model": "7B"}


def test_one_drag_is_one_request(open_page: Open) -> None:
    """However far the slider goes, the server is asked once it stands still."""
    page = open_page()
    _unfold(page)
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if request.method == "POST" else None)
    page.get_by_role("slider", name="range slider for Context length").evaluate(
        """slider => { for (let step = 1; step <= 60; step += 1) {
             slider.value = 4096 + 512 * step;
             slider.dispatchEvent(new InputEvent("input", {bubbles: true}));
           } }"""
    )
    page.wait_for_url(re.compile("context=34816"))
    expect(page.locator("#pick .card")).to_be_visible()
    page.wait_for_function("performance.getEntriesByType('resource').some(one => one.name.includes('context=34816'))")
    assert len([request for request in asked if "context=" in request.url]) == 1  # opening asks too, without a context in its address


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024), (820, 1180), (720, 450)], ids=str)
@pytest.mark.parametrize("tab", ["recommend", "cost"])
def test_small_screens_show_the_answer_first(open_page: Open, tab: str, width: int, height: int) -> None:
    """A phone, tablets and a desktop at 200 %: the answer's heading stands in the first screen, and nothing is cut off."""
    page = open_page(f"?tab={tab}", width=width, wait="#pick .card" if tab == "recommend" else "#bill .card")
    page.set_viewport_size({"width": width, "height": height})
    card = page.locator("#pick h2" if tab == "recommend" else "#bill .figure")
    bounds = card.bounding_box()
    assert bounds is not None
    assert bounds["y"] + bounds["height"] <= height
    assert page.evaluate(BEYOND) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [390, 1280])
def test_a_bad_number_in_the_folded_workload_is_said_on_its_bar(open_page: Open, width: int) -> None:
    """The bar of the fold names the field and what it accepts; put right, it says nothing."""
    page = open_page(width=width)
    bar = page.locator('[data-fold="#more"]')
    bar.click()
    page.evaluate(SETTLED)
    _number(page, "requests").fill("-5")
    expect(page.locator("#q-requests .field-error")).to_be_visible()
    expect(bar.locator(".field-error")).to_have_count(0)
    bar.click()
    expect(bar).to_contain_text("Requests a day was -5. Accepted: 0 to 1,000,000,000.")
    bar.click()
    _number(page, "requests").fill("250")
    bar.click()
    expect(bar).to_contain_text("250 requests a day")
    expect(bar.locator(".field-error")).to_have_count(0)


TOKEN = "hf_" + "aB3" * 11


def test_a_token_gets_into_no_address_and_no_storage(open_page: Open) -> None:
    """Typed as a Space, a model or target modules, before a sign-in, or in an address that is opened; the Space itself comes back."""
    page = open_page(f"?tab=space&space={TOKEN}", wait="[role=tabpanel]")
    page.wait_for_url(lambda url: TOKEN not in url)
    written: list[str] = []

    def look() -> None:
        written.append(page.url)
        written.extend(page.evaluate("[localStorage, sessionStorage, history.state].map(one => JSON.stringify(one))"))

    page.locator("#space :is(input, textarea)").fill(TOKEN)
    page.evaluate("space => advisor.remember(space)", TOKEN)
    look()
    page.evaluate("advisor.remember('owner/name')")
    assert page.url.endswith("?tab=space%26space%3Downer%252Fname")
    _tab(page, "Fine-tune").click()
    page.wait_for_url(re.compile("tab=train"))
    open_box(page, "Adapters, optimizer, precision")
    modules = page.get_by_label("Target modules").first
    modules.fill(f"q_proj,{TOKEN}")
    modules.press("Enter")
    page.locator("#q-rank input").fill("8")
    page.wait_for_url(re.compile("rank=8"))
    look()
    page.get_by_role("combobox", name=re.compile("^Model")).fill(TOKEN)
    page.get_by_role("combobox", name=re.compile("^Model")).press("Enter")
    expect(page.locator("#facts .refusal")).to_be_visible()
    look()
    with page.expect_event("load"):  # Back asks an earlier question by a reload, and a context that is closed during it may never close
        page.go_back()
    written.append(page.url)
    assert [text for text in written if text and TOKEN in text] == []


PARTED = """() => {
  const found = [], unit = /\\d\\s(?:[KMG]i?B|tokens|ms|s|%)(?![\\w])/g;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (!node.parentElement.closest("[role=tabpanel] .card, [role=tabpanel] table") || !node.parentElement.checkVisibility()) continue;
    for (const match of node.data.matchAll(unit)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) found.push(match[0]);
    }
  }
  return found;
}"""
"""Numbers whose unit stands on the next line."""


def test_the_page_is_short_on_a_phone(open_page: Open) -> None:
    """With all boxes folded no tab is higher than 4.1 screens of 844 pixels, no unit is parted from its number, no model's name is cut."""
    page = open_page(width=390)
    field = page.locator("#model input")
    assert field.evaluate("field => field.scrollWidth <= field.clientWidth")
    answers = {
        "Recommend": "#pick .card",
        "Memory": "#need .card",
        "Fine-tune": "#training .card",
        "Cost": "#bill .card",
        "GPU or TPU": "#choice .card",
        "Live demo": "#expected :is(.card, .refusal)",  # whether the model fits depends on the machine
    }
    for name, answer in answers.items():
        _tab(page, name).click()
        expect(page.locator(answer).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollHeight") <= 4.1 * 844, name
        assert page.evaluate(PARTED) == [], name


@pytest.mark.parametrize("context", [512, 4096, 100_000])
def test_the_fold_states_the_automatic_lengths(open_page: Open, context: int) -> None:
    """Prompt and output that are not stated show the values of `prompt_and_output_tokens`."""
    prompt, output = prompt_and_output_tokens(context)
    page = open_page(f"?context={context}")
    expect(page.locator("#more-bar")).to_contain_text(f"prompt {prompt:,} (automatic) · output {output:,} (automatic)")
    _unfold(page)
    for name, tokens in (("prompt", prompt), ("answer", output)):
        expect(page.locator(f"#q-{name}")).to_contain_text(f"0: automatic ({tokens:,})")
    _number(page, "prompt").fill("300")
    expect(page.locator("#more-bar")).to_contain_text("prompt 300 · output")
    expect(page.locator("#q-prompt")).to_contain_text("0: automatic")


def test_tabs_with_other_questions_have_no_workload(open_page: Open) -> None:
    """*Live demo* and *My Space* show the model alone; the question is as it was on the next tab."""
    page = open_page("?concurrency=3")
    for name in ("Live demo", "My Space"):
        _tab(page, name).click()
        expect(page.locator("#workload")).to_be_hidden()
        expect(page.locator("#model")).to_be_visible()
    _tab(page, "Memory").click()
    expect(_number(page, "concurrency")).to_have_value("3")
