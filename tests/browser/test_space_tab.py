"""The tab *My Space* in Chromium, with a started app that has a token of its own and the Hub's stand-in behind it.

Sign-in is Gradio's local mock: its token is a constant, and the stand-in knows whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hub_repos import llama_8b
from page_checks import BEYOND, CONTRAST, NAMELESS, OPEN_ALL, STILL, UNFOLD, WAIT_MS, Open, open_box
from playwright.sync_api import Browser, Page, expect
from running_app import start_app
from space_stand_in import FakeEndpoint, FakeSpace, Person, SpaceStandIn

pytestmark = pytest.mark.browser

SERVER = "hf_SERVERservSERVERserv"
VISITOR = "hf_VISITORvisiVISITORvisi"
MOCKED = "mock-oauth-token-for-local-dev"
SPACE = re.compile("^Space")
STAGES = """() => { window.passed = []; new MutationObserver(() => {
  const stage = document.querySelector("#progress h2")?.dataset.stage;
  if (stage && stage !== window.passed.at(-1)) window.passed.push(stage);
}).observe(document.body, {childList: true, subtree: true, characterData: true}); }"""

SETTLE_AT_SIGN_IN = """() => document.querySelector("#login").addEventListener(
  "click", () => setTimeout(() => document.querySelector("#settle").click()))"""
"""The page looks at its fields while the sign-in begins, as it does by itself on a busy machine; that took the Space out of the address."""


class Known(Person):
    """A person as Gradio's mock wants to know it."""

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"avatarUrl": "/x.png"}


@pytest.fixture(scope="module")
def hub() -> Iterator[SpaceStandIn]:
    """The Hub with two people and the machine's own account."""
    with SpaceStandIn() as hub:
        hub.add(llama_8b("ada/closed", gated="auto", readers=frozenset({VISITOR, MOCKED, SERVER})))
        hub.people |= {VISITOR: Person(name="ada", is_pro=True), MOCKED: Person(name="ada", is_pro=True), SERVER: Known(name="server")}
        yield hub


@pytest.fixture(autouse=True)
def spaces(hub: SpaceStandIn) -> None:
    """The same Spaces for every test, and no requests yet."""
    hub.seconds_per_stage = 0.0
    hub.add_space(FakeSpace(id="ada/chat", hardware="t4-small", requested="t4-small", sleep_s=3600, models=["Qwen/Qwen3-8B"]))
    hub.add_space(FakeSpace(id="ada/secret", private=True))
    hub.requests.clear()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the app prints."""
    return tmp_path_factory.mktemp("app") / "log"


@pytest.fixture(scope="module")
def app_url(hub: SpaceStandIn, log: Path) -> Iterator[str]:
    """An app with a token in its environment, and no sign-in."""
    with start_app(log=log, HF_ENDPOINT=hub.url, HF_TOKEN=SERVER) as url:
        yield url


def _look(page: Page, space: str) -> None:
    page.get_by_role("textbox", name=SPACE).fill(space)
    page.get_by_role("textbox", name=SPACE).press("Enter")
    expect(page.locator("#space-status")).to_contain_text(space)


def _review(page: Page, tier: str) -> None:
    page.get_by_label(re.compile("^Tier")).click()
    page.get_by_role("option", name=f"· {tier} ·").click()
    page.get_by_role("button", name="Review", exact=True).click()
    expect(page.locator("#review-card")).to_contain_text("Nothing has been changed yet")


def _tokens(hub: SpaceStandIn) -> set[str]:
    sent = {seen.headers.get("authorization", "").removeprefix("Bearer ") for seen in hub.requests}
    return sent - {""}


def test_sign_in_look_switch_confirm_watch(browser: Browser, hub: SpaceStandIn) -> None:
    """The whole way with the sign-in: the price stands on the button, the stages pass by, and only the visitor's token was sent."""
    with start_app(HF_ENDPOINT=hub.url, HF_TOKEN=SERVER, MOCK_LOGIN="1") as url:
        page = browser.new_context().new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(f"{url}/?tab=space")
        _look(page, "ada/chat")
        page.evaluate(SETTLE_AT_SIGN_IN)
        page.get_by_role("button", name="Sign in with Hugging Face").click()
        page.get_by_role("button", name="Sign out (server)").wait_for()
        expect(page.get_by_role("textbox", name=SPACE)).to_have_value("ada/chat")
        expect(page.locator("#space-status")).to_contain_text("Nvidia T4 - small")
        expect(page.locator("#space-size h2")).to_be_visible()
        hub.requests.clear()
        _review(page, "l4x1")
        expect(page.locator("#review-card")).to_contain_text("$576")
        page.evaluate(STAGES)
        page.get_by_role("button", name="Switch to 1x Nvidia L4 at $0.80/hour").click()
        expect(page.locator("#progress")).to_contain_text("It runs on 1x Nvidia L4, $0.80 per hour.")
        expect(page.locator("#space-status")).to_contain_text("1x Nvidia L4")
        assert page.evaluate("window.passed") == ["BUILDING", "APP_STARTING", "RUNNING"]
        info = page.request.get(f"{url}/gradio_api/info").json()["named_endpoints"]
        page.goto(f"{url}/?model=ada/closed")
        expect(page.locator("#facts")).to_contain_text("8.03 billion")  # the sign-in reads it
        page.context.clear_cookies()
        page.goto(f"{url}/?model=ada/closed&concurrency=2")
        expect(page.locator("#facts")).to_contain_text("is gated")
        page.get_by_role("link", name="Sign in with Hugging Face").click()
        expect(page.locator("#facts")).to_contain_text("8.03 billion")
        assert "model=ada/closed&concurrency=2" in unquote(page.url)
        page.context.close()
    assert "/_check_login_status" not in info
    assert [(path, body["flavor"], body["sleepTimeSeconds"]) for path, body in hub.actions()] == [
        ("/api/spaces/ada/chat/hardware", "l4x1", 3600)
    ]
    assert _tokens(hub) == {MOCKED}


def test_a_pasted_token_acts_and_leaves_no_trace(open_page: Open, hub: SpaceStandIn, log: Path) -> None:
    """It opens a private Space and switches it; then its field is empty, and it is in no address, storage, page or log."""
    page = open_page("?tab=space", wait="#space-status .hint")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    token = page.get_by_label(re.compile("Your token"))
    assert token.get_attribute("type") == "password"
    token.fill(VISITOR)
    _look(page, "ada/secret")
    expect(token).to_have_value("")  # looking is over
    assert page.locator("#space-status [data-copy-link]").count() == 0
    token.fill(VISITOR)
    _review(page, "t4-small")
    page.get_by_role("button", name="Switch to Nvidia T4 - small at $0.40/hour").click()
    expect(page.locator("#progress")).to_contain_text("It runs on Nvidia T4 - small")
    expect(token).to_have_value("")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    cookies = str(page.context.cookies())
    assert [path for path, _ in hub.actions()] == ["/api/spaces/ada/secret/hardware"]
    assert _tokens(hub) == {VISITOR}
    assert asked
    seen = unquote(
        " ".join([*asked, stored, cookies, page.content(), log.read_text(encoding="utf-8"), *(one.path for one in hub.requests)])
    )
    assert VISITOR not in seen


def test_a_closed_model_is_answered_to_who_gives_a_token(open_page: Open, hub: SpaceStandIn, log: Path) -> None:
    """The field stands by the refusal only. Its token goes with each question, in a header; the next visitor is refused."""
    page = open_page()
    token, facts = page.get_by_label(re.compile("Token to read this model")), page.locator("#facts")
    expect(token).to_be_hidden()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.url} {request.post_data}"))
    model = page.locator("#model input")
    model.fill("ada/closed")
    model.press("Enter")
    expect(facts).to_contain_text("is gated")
    token.fill(VISITOR)
    token.press("Enter")
    expect(facts).to_contain_text("8.03 billion")
    expect(page.locator(".card:visible").first).to_contain_text("ada/closed")
    page.evaluate(UNFOLD)
    page.get_by_label(re.compile("^Concurrent")).first.fill("4")
    page.wait_for_url(re.compile("concurrency=4"))
    expect(page.locator(".card:visible").first).to_be_visible()
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert _tokens(hub) == {VISITOR}
    assert asked
    shown = unquote(" ".join([*asked, stored, page.content(), log.read_text(encoding="utf-8"), *(one.path for one in hub.requests)]))
    assert VISITOR not in shown
    other = open_page("?model=ada/closed", wait="#facts .refusal")
    expect(other.locator("#facts")).to_contain_text("is gated")


def test_a_token_pasted_as_a_model_is_kept_and_searched_nowhere(open_page: Open, hub: SpaceStandIn, log: Path) -> None:
    """Not in the address, the browser's memory of questions, the log, or a search for suggestions."""
    page = open_page()
    model = page.locator("#model input")
    model.fill("")
    model.press_sequentially(VISITOR)  # suggestions follow the typing
    model.press("Enter")
    expect(page.locator("#facts")).to_contain_text("looks like a token")
    model.fill("ada/closed")
    model.press("Enter")
    page.wait_for_url(re.compile("ada/closed"))
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    shown = " ".join([stored, page.url, log.read_text(encoding="utf-8"), *(one.path for one in hub.requests)])
    assert "ada/closed" in shown
    assert VISITOR not in unquote(shown)
    assert not any("hf_" in unquote(one.path) for one in hub.requests)


def test_without_a_token_of_its_own_nothing_is_done(open_page: Open, hub: SpaceStandIn) -> None:
    """Looking and reviewing are free; acting is refused with a sentence, and the server's token goes nowhere."""
    page = open_page("?tab=space", wait="#space-status .hint")
    assert page.get_by_role("button", name="Sign in with Hugging Face").count() == 0
    _look(page, "ada/chat")
    _review(page, "l4x1")
    page.get_by_role("button", name="Switch to 1x Nvidia L4 at $0.80/hour").click()
    expect(page.locator("#progress").get_by_role("alert")).to_contain_text("your own Hugging Face token is needed")
    expect(page.get_by_role("button", name="Switch to 1x Nvidia L4 at $0.80/hour")).to_be_visible()
    assert hub.actions() == []
    assert _tokens(hub) == set()
    assert hub.spaces["ada/chat"].hardware == "t4-small"


def test_the_account_is_listed_and_one_of_it_stopped(open_page: Open, hub: SpaceStandIn) -> None:
    """Each step takes a token that is emptied once it was sent; nothing happens before the second press."""
    hub.add_endpoint(FakeEndpoint(id="ada/llama"))
    page = open_page("?tab=space", wait="#space-status .hint")
    table, token = page.locator("#account-table"), page.get_by_label(re.compile("Your token"))
    page.get_by_role("button", name="List what runs").click()
    expect(table.get_by_role("alert")).to_contain_text("your own Hugging Face token is needed")
    token.fill(VISITOR)
    page.get_by_role("button", name="List what runs").click()
    expect(table).to_contain_text("$864 a month")  # T4 at 0.40 and L4 at 0.80 for 720 hours
    expect(table).to_contain_text("It is never scaled to zero")
    expect(token).to_have_value("")
    page.get_by_label(re.compile("^Stop one of them")).click()
    page.get_by_role("option", name="ada/llama").click()
    page.locator("#stop-review").click()
    expect(page.locator("#stop-card")).to_contain_text("Nothing has been changed yet")
    page.get_by_role("button", name="Pause ada/llama").click()
    expect(page.locator("#stop-card").get_by_role("alert")).to_contain_text("token is needed")
    assert hub.actions() == []
    token.fill(VISITOR)
    page.get_by_role("button", name="Pause ada/llama").click()
    expect(page.locator("#stop-card")).to_contain_text("ada/llama: Paused.")
    expect(token).to_have_value("")
    assert hub.endpoints["ada/llama"].state == "paused"
    assert _tokens(hub) == {VISITOR}


def test_a_price_that_rose_meanwhile_is_shown_anew(open_page: Open, hub: SpaceStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The price on the card is what was agreed to: at another one nothing is switched, and the review names the new price."""
    page = open_page("?tab=space&space=ada/chat", wait="#space-status .card")
    page.get_by_label(re.compile("Your token")).fill(VISITOR)
    _review(page, "l4x1")
    row = next(row for row in hub.hardware["spaces"] if row["name"] == "l4x1")
    for unit in ("unitCostUSD", "unitCostMicroUSD"):
        monkeypatch.setitem(row, unit, 2 * row[unit])
    page.get_by_role("button", name="Switch to 1x Nvidia L4 at $0.80/hour").click()
    expect(page.locator("#progress").get_by_role("alert")).to_contain_text("no longer $0.80 per hour")
    expect(page.get_by_role("button", name="Switch to 1x Nvidia L4 at $1.60/hour")).to_be_visible()
    assert hub.actions() == []


def test_watching_can_be_stopped_and_the_switch_goes_on(open_page: Open, hub: SpaceStandIn) -> None:
    """Stopping takes nothing back, and says so."""
    hub.seconds_per_stage = 3600
    page = open_page("?tab=space&space=ada/chat", wait="#space-status .card")
    page.get_by_label(re.compile("Your token")).fill(VISITOR)
    _review(page, "l4x1")
    page.get_by_role("button", name="Switch to 1x Nvidia L4 at $0.80/hour").click()
    expect(page.locator("#progress .stages .now")).to_contain_text("Building")
    page.get_by_role("button", name="Stop watching").click()
    expect(page.locator("#progress")).to_contain_text("The Hub continues with the request")
    expect(page.get_by_role("button", name="Stop watching")).to_be_hidden()
    assert hub.spaces["ada/chat"].requested == "l4x1"


def test_the_form_asks_what_it_needs_and_a_change_makes_the_review_void(open_page: Open) -> None:
    """Another sleep time than the reviewed one: nothing is left to confirm. A pause needs no tier; the free CPU has a sleep of its own."""
    page = open_page("?tab=space&space=ada/chat", wait="#space-status .card")
    _review(page, "l4x1")
    confirm = page.get_by_role("button", name="Switch to 1x Nvidia L4 at $0.80/hour")
    expect(confirm).to_be_visible()
    page.get_by_label(re.compile("^Sleep after")).click()
    page.get_by_role("option", name="Never").click()
    expect(confirm).to_be_hidden()
    expect(page.locator("#review-card .card")).to_have_count(0)
    tier, sleep = page.get_by_label(re.compile("^Tier")), page.get_by_label(re.compile("^Sleep after"))
    page.get_by_role("radio", name="Pause").click()
    expect(tier).to_be_hidden()
    expect(sleep).to_be_hidden()
    page.get_by_role("radio", name="Sleep time").click()
    expect(tier).to_be_hidden()
    expect(sleep).to_be_visible()
    page.get_by_role("radio", name="Switch tier").click()
    tier.click()
    page.get_by_role("option", name="· cpu-basic ·").click()
    expect(sleep).to_be_hidden()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_it_can_be_read_and_reached(open_page: Open, width: int, scheme: str) -> None:
    """With a review and its code opened: contrast, names of controls, and nothing beyond the edge."""
    page = open_page("?tab=space&space=ada/chat", width=width, scheme=scheme, wait="#space-status .card")
    expect(page.locator("#space-size h2")).to_be_visible()
    _review(page, "l4x1")
    page.evaluate(OPEN_ALL)
    page.evaluate(STILL)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(BEYOND) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("textbox", name=SPACE).focus()
    reached = []
    while len(reached) < 80 and not str(reached[-1:]).count("Switch to 1x Nvidia L4"):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(e => e === document.body ? '' : e.id + e.type + (e.ariaLabel ?? '') + e.textContent.trim())(document.activeElement)"
            )
        )
    wanted = [
        "Load Space",
        "password",
        "Right-size",
        "radio",
        "Tier",
        "Sleep after",
        "Review",
        "Copy: Python",
        "Switch to 1x Nvidia L4 at $0.80/hour",
    ]
    assert [name for name in wanted if not any(name in seen for seen in reached)] == [], str(reached)


# Every word that a button has said since, however short it stood there.
LISTEN = """button => { window.said = [];
  new MutationObserver(() => window.said.push(button.textContent)).observe(button, {childList: true}); }"""


def test_code_for_the_pick(open_page: Open) -> None:
    """On *Recommend* the files of a Space follow the framework that is chosen; the box is answered once for one opening."""
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if '"pytorch"' in (request.post_data or "") else None)
    open_box(page, re.compile("^Code to copy"))
    code = page.locator("#setup-code")
    expect(code).to_contain_text("python_version")
    expect(code).to_contain_text("torch")
    button = page.get_by_role("button", name="Copy: requirements.txt")
    button.evaluate(LISTEN)
    button.click()
    page.wait_for_function("said.some(words => /^(Copied|Copying is not allowed here)$/.test(words))")
    expect(button).to_have_text("Copy")  # it offers the same again
    assert len(asked) == 1
