"""Ten journeys through the page in Chromium, each with its clicks and seconds: `pytest -m browser tests/browser/test_journeys.py -s`.

A click on anything counts one, and so does each field that is filled. A journey ends when its answer is on the page.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from page_checks import SETTLED, Open
from playwright.sync_api import Locator, Page, expect
from running_app import start_app
from space_stand_in import FakeSpace, Person, SpaceStandIn

pytestmark = pytest.mark.browser

MORE = '[data-fold="#more"]'
OWNER = "hf_OWNERownerOWNERowner"
MOST_CLICKS = 5
MOST_CLICKS_OF_A_SWITCH = 9


@pytest.fixture(scope="module")
def hub() -> Iterator[SpaceStandIn]:
    """The Hub with one Space and its owner."""
    with SpaceStandIn() as hub:
        hub.people |= {OWNER: Person(name="ada", is_pro=True)}
        hub.seconds_per_stage = 0.0
        hub.add_space(FakeSpace(id="ada/chat", hardware="t4-small", requested="t4-small", sleep_s=-1, models=["Qwen/Qwen3-8B"]))
        yield hub


@pytest.fixture(scope="module")
def app_url(hub: SpaceStandIn) -> Iterator[str]:
    """An app whose Hub is the stand-in."""
    with start_app(HF_ENDPOINT=hub.url) as url:
        yield url


@dataclass
class Visitor:
    """Acts on the page and counts."""

    page: Page
    clicks: int = 0

    def click(self, target: Locator) -> None:
        """One click; fields that it shows have then settled."""
        target.click()
        self.clicks += 1
        self.page.evaluate(SETTLED)

    def fill(self, target: Locator, text: str) -> None:
        """One field."""
        target.fill(text)
        self.clicks += 1

    def choose(self, field: str, option: str | re.Pattern[str]) -> None:
        """An option of a list: the list and the option are a click each."""
        self.click(self.page.locator(f"{field} input[role=combobox], {field} input").first)
        self.click(self.page.get_by_role("option", name=option).first)

    def name_model(self, model: str) -> None:
        """Type a model and press the button."""
        self.fill(self.page.get_by_role("combobox", name=re.compile("^Model")), model)
        self.click(self.page.get_by_role("button", name="Find hardware"))


def small_model_for_free(visitor: Visitor) -> None:
    """7B for free."""
    visitor.name_model("7B")
    expect(visitor.page.locator("#pick")).to_contain_text("7B parameters")
    expect(visitor.page.locator("#pick .figures").first).to_contain_text("Free")


def large_model_within_a_budget(visitor: Visitor) -> None:
    """70B for 20 users with 2,000 USD a month."""
    page = visitor.page
    visitor.name_model("70B")
    visitor.fill(page.locator("#q-concurrency input"), "20")
    visitor.click(page.locator(MORE))
    visitor.fill(page.locator("#q-budget input"), "2000")
    page.wait_for_url(lambda url: "budget=2000" in url)
    expect(page.locator("#pick :is(.card.pick, .card.none)")).to_be_visible()
    expect(page.locator("#pick")).to_contain_text(re.compile(r"\$[\d,.]+"))


def out_of_memory(visitor: Visitor) -> None:
    """An error of a T4."""
    page = visitor.page
    visitor.click(page.locator("#explain-box button").first)
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.58 GiB of which "
        "1.10 GiB is free."
    )
    visitor.fill(page.get_by_label("Error, log, metrics or nvidia-smi table"), text)
    visitor.click(page.get_by_role("button", name="Explain", exact=True))
    expect(page.locator("#explained h2")).to_be_visible()


def train_with_qlora(visitor: Visitor) -> None:
    """QLoRA of 8B."""
    visitor.click(visitor.page.get_by_role("link", name="Fine-tune 8B with QLoRA"))
    expect(visitor.page.locator(".training-card")).to_contain_text("QLoRA of")
    expect(visitor.page.locator(".training-card .figures")).to_contain_text("$")


def pictures_for_visitors(visitor: Visitor) -> None:
    """SDXL for 500 visitors."""
    page = visitor.page
    visitor.name_model("stabilityai/stable-diffusion-xl-base-1.0")
    expect(page.locator("#pick")).to_contain_text("stable-diffusion-xl")
    visitor.click(page.locator(MORE))
    visitor.fill(page.locator("#q-requests input"), "500")
    page.wait_for_url(lambda url: "requests=500" in url)
    expect(page.locator("#pick .card.pick")).to_contain_text("stable-diffusion-xl")


def gpu_or_tpu(visitor: Visitor) -> None:
    """GPU or TPU."""
    visitor.click(visitor.page.get_by_role("tab", name="GPU or TPU"))
    expect(visitor.page.locator("#verdict")).to_be_visible()


def two_models(visitor: Visitor) -> None:
    """Two models side by side."""
    page = visitor.page
    visitor.click(page.get_by_text("Compare with another model"))
    visitor.fill(page.get_by_label("Another model"), "Qwen/Qwen3-8B")
    visitor.click(page.locator("#compare-model button"))
    expect(page.locator("#compared thead")).to_contain_text("Qwen3-8B")


def own_card(visitor: Visitor) -> None:
    """The visitor's own RTX 4090."""
    page = visitor.page
    visitor.click(page.locator("[data-hardware]"))
    expect(page.locator("#q-hardware input")).to_be_focused()
    page.keyboard.type("4090")  # the list is open and narrows
    visitor.clicks += 1
    visitor.click(page.get_by_role("option", name=re.compile("4090")).first)
    expect(page.locator("#pick .card.own")).to_contain_text("RTX 4090: fits")


def switch_with_sleep(visitor: Visitor) -> None:
    """A Space moves to an L4 and sleeps after an hour."""
    page = visitor.page
    visitor.click(page.get_by_role("tab", name="My Space"))
    visitor.fill(page.get_by_role("textbox", name=re.compile("^Space")), "ada/chat")
    page.keyboard.press("Enter")
    expect(page.locator("#space-status")).to_contain_text("It is running.")
    visitor.fill(page.get_by_label(re.compile("Your token")), OWNER)
    visitor.click(page.get_by_label(re.compile("^Tier")))
    visitor.click(page.get_by_role("option", name="· l4x1 ·"))
    visitor.click(page.get_by_label(re.compile("^Sleep after")))
    visitor.click(page.get_by_role("option", name="1 hour", exact=True))
    visitor.click(page.get_by_role("button", name="Review", exact=True))
    expect(page.locator("#review-card")).to_contain_text("Nothing has been changed yet")
    expect(page.locator("#review-card")).to_contain_text("1 hour")
    visitor.click(page.get_by_role("button", name="Switch to 1x Nvidia L4 at $0.80/hour"))
    expect(page.locator("#progress")).to_contain_text("It runs on 1x Nvidia L4")


def share_with_a_colleague(visitor: Visitor) -> None:
    """A link that gives the same answer."""
    page = visitor.page
    visitor.click(page.locator(MORE))
    visitor.fill(page.locator("#q-requests input"), "250")
    page.wait_for_url(lambda url: "requests=250" in url)
    link = page.locator("#pick [data-copy-link]")
    expect(link).to_have_attribute("href", re.compile("requests=250"))
    address, pick = link.get_attribute("href") or "", page.locator("#pick-name").inner_text()
    visitor.click(link)
    page.goto(page.url.partition("?")[0] + address)
    page.locator("html.answered").wait_for(state="attached")
    expect(page.locator("#pick-name")).to_have_text(pick)


JOURNEYS: tuple[tuple[Callable[[Visitor], None], int], ...] = (
    (small_model_for_free, MOST_CLICKS),
    (large_model_within_a_budget, MOST_CLICKS),
    (out_of_memory, MOST_CLICKS),
    (train_with_qlora, MOST_CLICKS),
    (pictures_for_visitors, MOST_CLICKS),
    (gpu_or_tpu, MOST_CLICKS),
    (two_models, MOST_CLICKS),
    (own_card, MOST_CLICKS),
    (switch_with_sleep, MOST_CLICKS_OF_A_SWITCH),
    (share_with_a_colleague, MOST_CLICKS),
)


@pytest.mark.parametrize(("journey", "most"), JOURNEYS, ids=lambda case: getattr(case, "__name__", ""))
def test_a_journey_takes_few_clicks(open_page: Open, journey: Callable[[Visitor], None], most: int) -> None:
    """From the first page to the answer; the Space's switch is done in at most nine clicks."""
    visitor = Visitor(page=open_page())
    began = time.monotonic()
    journey(visitor)
    sys.stdout.write(f"\n{journey.__name__.replace('_', ' ')}: {visitor.clicks} clicks, {time.monotonic() - began:.1f} s\n")
    assert visitor.clicks <= most
