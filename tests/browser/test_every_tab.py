"""What a tab owes everybody, in Chromium: axe finds nothing, a number out of range is refused in a sentence, Tab reaches all."""

from __future__ import annotations

from importlib.resources import files

import pytest
from page_checks import BEYOND, OPEN_ALL, SETTLED, STILL, UNFOLD, Open, draw_charts, open_box
from playwright.sync_api import Page, expect

from lib.ui.tabs import BOX_FIELDS
from lib.ui.tabs import TAB_NAMES as TABS

pytestmark = pytest.mark.browser

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
FINDINGS = """rules => axe.run(document, {...rules, resultTypes: ["violations"]})
  .then(({violations}) => violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 90))]))"""
EVERY_RULE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}

WIDE_TEXT = "* { letter-spacing: .12em !important; word-spacing: .16em !important; line-height: 1.5 !important; }"
"""What a reader may set without losing content: WCAG 2.2, 1.4.12. It also stands for fonts wider than those of this machine."""

# Where Tab stops in the tab that is shown: of the radios with one name only one, and nothing that is folded, hidden or disabled.
STOPS = """() => { const named = new Set();
  return [...document.querySelectorAll("[role=tabpanel] :is(a[href], button, input, select, textarea, summary, [tabindex='0'])")]
    .filter(e => e.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && !e.disabled && e.tabIndex >= 0)
    .filter(e => e.type !== "radio" || (e.checked && !named.has(e.name) && named.add(e.name))); }"""
WATCH = (
    """() => { window.reached = new Set(); window.unmarked = [];
  document.addEventListener("focusin", ({target}) => { window.reached.add(target);
    const marks = [target, target.nextElementSibling, target.parentElement, target.closest(".block"), target.closest(".wrap")]
      .filter(Boolean).map(e => getComputedStyle(e))
      .some(style => (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none");
    if (target.closest("[role=tabpanel]") && !marks) window.unmarked.push(target.outerHTML.slice(0, 90)); });
  return ("""
    + STOPS
    + ")().length; }"
)
MISSED = "() => (" + STOPS + ")().filter(e => !window.reached.has(e)).map(e => e.outerHTML.slice(0, 90))"

# Controls in groups that the arrow keys go through: those that are visible, with the group's place among all groups.
GROUPED = """() => [...document.querySelectorAll("[role=tabpanel] :is([role=toolbar], .sorts thead, .rows tbody)")]
  .map(group => [...group.querySelectorAll("a[href], button, summary, input, [tabindex]")].filter(e => e.checkVisibility()))
  .filter(all => all.length)"""
ONE_STOP = f"() => ({GROUPED})().map(all => all.filter(e => e.tabIndex === 0).length)"
WALKED = f"""() => ({GROUPED})().map(all => {{
  all.find(e => e.tabIndex === 0).focus();
  const press = key => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {{key, bubbles: true}}));
  press("Home");
  const reached = new Set([document.activeElement]);
  for (const _ of all) {{ press("ArrowRight"); reached.add(document.activeElement); }}
  return all.length - reached.size;
}})"""
MOST_STOPS = 45
"""Of the Tab key up to the end of a tab, with all boxes folded."""

TAB = '[role="tab"][aria-selected="true"]'
BEHIND = "#colophon :is(a, summary, button)"
FIRST_SHOWN = {"live": "[role=tabpanel]", "space": "[role=tabpanel]"}  # these two answer when a button is pressed

# Number fields of the shown tab with a range that the page's script checks: their ids, and whether each has a slider.
RANGED = """() => [...document.querySelectorAll('[role=tabpanel] input[type=number]')].filter(e => e.checkVisibility())
  .map(e => e.closest('[id^="q-"]')).map(box => [box.id, Boolean(box.querySelector('input[type=range]'))])"""
BOXED = {f"q-{field.name}" for fields in BOX_FIELDS.values() for field in fields}
NUMBERS_IN_BOXES = {"memory": 2, "cost": 4, "traffic": 7, "live": 9, "space": 2}


def _open_boxes(page: Page) -> None:
    """Open every box, those inside boxes too, and wait until their fields stay."""
    page.evaluate(UNFOLD)
    for _ in range(2):
        page.evaluate(OPEN_ALL)
        page.evaluate(SETTLED)


@pytest.mark.parametrize("tab", TABS)
def test_axe_finds_nothing(open_page: Open, tab: str) -> None:
    """WCAG 2.2 AA and best practices, heading order included: in light, in dark, on a phone in both, with every box open."""
    small = "&model=HuggingFaceTB/SmolLM2-135M-Instruct" if tab == "live" else ""  # runs on any device, whatever memory is free now
    page = open_page(f"?tab={tab}{small}", wait=FIRST_SHOWN.get(tab, ".answers .card"))
    _open_boxes(page)
    if tab == "live":  # the run on every tier, which comes after the device's answer
        page.locator(".run-tiers").wait_for(state="attached")
    draw_charts(page)
    _open_boxes(page)  # what was answered meanwhile
    page.evaluate(AXE)
    assert page.evaluate(FINDINGS, EVERY_RULE) == []
    page.locator('[data-tool="theme"]').click()
    page.evaluate(STILL)
    assert page.evaluate(FINDINGS, COLOURS) == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate(UNFOLD)
    page.evaluate(SETTLED)
    assert page.evaluate(FINDINGS, EVERY_RULE) == []
    page.locator('[data-tool="theme"]').click()
    page.evaluate(STILL)
    assert page.evaluate(FINDINGS, COLOURS) == []
    for width in (390, 720, 768, 820):  # a phone, a desktop at 200 %, tablets
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(SETTLED)
        assert page.evaluate(BEYOND) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.add_style_tag(content=WIDE_TEXT)
    for width in (390, 820):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(SETTLED)
        assert page.evaluate(BEYOND) == []


@pytest.mark.parametrize("tab", TABS)
def test_minus_five_is_refused_beside_each_field(open_page: Open, tab: str) -> None:
    """Each number of the tab and its boxes gets a sentence with its own name, nothing freezes, and what was there before is answered."""
    shown = FIRST_SHOWN.get(tab, ".answers .card")
    page = open_page(f"?tab={tab}", wait=shown)
    _open_boxes(page)
    ranged: list[tuple[str, bool]] = page.evaluate(RANGED)
    assert len({name for name, _ in ranged} & BOXED) == NUMBERS_IN_BOXES.get(tab, 0)
    fields = {name: page.locator(f"#{name} input[type=number]") for name, _ in ranged}
    before = {name: field.input_value() for name, field in fields.items()}
    for name in [name for name, slides in ranged if slides]:  # Gradio puts a slider's number into its range when it is left
        fields[name].fill("-5")
        expect(page.locator(f"#{name}").get_by_role("alert")).to_contain_text(" was -5. Accepted: ")
        fields[name].fill(before[name])
    plain = [name for name, slides in ranged if not slides]
    for name in plain:
        fields[name].fill("-5")
    for name in plain:
        expect(page.locator(f"#{name}").get_by_role("alert")).to_contain_text(" was -5. Accepted: ")
    for name in plain:
        fields[name].fill(before[name])
    expect(page.locator(".field-error")).to_have_count(0)
    if page.locator("#workload").is_visible():
        page.locator("#q-requests input").fill("250")
        page.wait_for_url(lambda url: "requests=250" in url)
    expect(page.locator(f"{shown}:visible").first).to_be_visible()


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("THUDM/CogVideoX-2b", ("width", "height", "denoising", "frames")),
        ("Qwen/Qwen2.5-VL-7B-Instruct", ("images", "image_width", "image_height")),
        ("openai/whisper-large-v3", ("sound",)),
    ],
)
def test_minus_five_is_refused_in_the_fields_of_media(open_page: Open, model: str, names: tuple[str, ...]) -> None:
    """What the workload asks of models that make or take pictures or sound, on a page that a link opens."""
    page = open_page(f"?model={model}")
    page.evaluate(UNFOLD)
    page.evaluate(SETTLED)
    for name in names:
        field = page.locator(f"#q-{name} input[type=number]")
        before = field.input_value()
        field.fill("-5")
        expect(page.locator(f"#q-{name}").get_by_role("alert")).to_contain_text(" was -5. Accepted: ")
        field.fill(before)
    expect(page.locator(".field-error")).to_have_count(0)


def test_a_bad_number_stops_what_shows_its_reason(open_page: Open) -> None:
    """That of a box its box only, that of a tab its tab; no other tab stands still for it, and Links do not carry it."""
    page = open_page("?tab=memory&hardware=spaces:l4x1")
    page.evaluate(UNFOLD)
    page.locator("#solve > button").click()
    expect(page.locator("#solved .card")).to_be_visible()
    page.locator("#q-solve-ttft input").fill("-5")
    expect(page.locator("#q-solve-ttft").get_by_role("alert")).to_contain_text("at most was -5. Accepted: 0 to 86,400.")
    page.locator("#q-requests input").fill("250")
    page.wait_for_url(lambda url: "requests=250" in url)
    page.get_by_role("tab", name="Cost").click()
    open_box(page, "Month, replicas, storage")
    page.locator("#q-storage input").fill("-5")
    expect(page.locator("#q-storage").get_by_role("alert")).to_be_visible()
    page.locator("#q-requests input").fill("300")
    page.get_by_role("tab", name="Memory", exact=True).click()
    page.wait_for_url(lambda url: "tab=memory" in url and "requests=300" in url and "storage" not in url)
    expect(page.locator("#need .card")).to_be_visible()


CHOICES = """() => [...new Set([...document.querySelectorAll("[role=tabpanel] input[type=radio]")]
  .filter(e => e.checkVisibility()).map(e => e.name))]"""


@pytest.mark.parametrize("tab", TABS)
def test_the_keyboard_goes_through_a_tab(open_page: Open, tab: str) -> None:
    """The Tab key stops at every control in both directions and leaves the tab after few presses.

    Arrow keys go through the choices of a field, and the controls of a row, a head or a toolbar.
    """
    page = open_page(f"?tab={tab}", wait=FIRST_SHOWN.get(tab, ".answers .card"))
    draw_charts(page)  # its table is a stop of its own
    for _ in range(MOST_STOPS + 1):  # the last one is behind the tab
        page.keyboard.press("Tab")
        if page.evaluate("end => document.activeElement.matches(end)", BEHIND):
            break
    else:
        pytest.fail(f"the tab ends after more than {MOST_STOPS} stops")
    assert set(page.evaluate(ONE_STOP)) <= {1}
    assert set(page.evaluate(WALKED)) <= {0}
    for key, start, end in (("Tab", TAB, BEHIND), ("Shift+Tab", BEHIND, TAB)):
        page.locator(start).first.focus()
        stops = page.evaluate(WATCH)
        for _ in range(2 * stops + 10):
            page.keyboard.press(key)
            if page.evaluate("end => document.activeElement.matches(end)", end):
                break
        else:
            pytest.fail("the focus did not get beyond the tab")
        assert page.evaluate(MISSED) == []
        assert page.evaluate("window.unmarked") == []
    for name in page.evaluate(CHOICES):
        chosen = page.locator(f"input[name='{name}']:checked")
        value = chosen.input_value()
        chosen.focus()
        page.keyboard.press("ArrowRight")
        expect(chosen).not_to_have_value(value)
        page.keyboard.press("ArrowLeft")
        expect(chosen).to_have_value(value)


def test_up_and_down_go_from_row_to_row(open_page: Open) -> None:
    """To the same control of the next row; a search that hides the stop gives the group another one."""
    page = open_page()
    ticks = page.locator("#ranked [data-tick]")
    ticks.first.focus()
    for key, place in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
        page.keyboard.press(key)
        expect(ticks.nth(place)).to_be_focused()
    page.locator("#ranked [data-search]").fill("T4")
    expect(page.locator("#ranked tbody tr:not([hidden]) [tabindex='0']")).to_have_count(1)


def test_arrow_keys_go_from_tab_to_tab(open_page: Open) -> None:
    """Right, left, the last and the first; the tab that is left is no stop of the Tab key any more."""
    page = open_page()
    shown = page.locator(TAB)
    shown.focus()
    for key, word in (("ArrowRight", "What runs here"), ("ArrowLeft", "Recommend"), ("ArrowLeft", "My Space"), ("Home", "Recommend")):
        page.keyboard.press(key)
        expect(shown).to_have_text(word)
        expect(shown).to_be_focused()
    expect(page.locator("[role=tab][tabindex='0']")).to_have_text("Recommend")
