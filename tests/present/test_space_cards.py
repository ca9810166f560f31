"""A Space, its right size and an action on it in words: prices, stages, and nothing of strangers as markup."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from space_fake import MONTH, USD, acted, preview, progress, size, status

from lib.answers.spaces import Volume
from lib.present import space_cards
from lib.present.sentences import sentence
from lib.provenance import Caveat

NASTY = '<img src=x onerror="document.title=1">'


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "never"), (60, "1 minute"), (5_400, "90 minutes"), (3_600, "1 hour"), (172_800, "2 days"), (61, "61 seconds")],
)
def test_a_sleep_time_in_its_largest_unit(seconds: int, words: str) -> None:
    """The unit is the largest that divides the time."""
    assert space_cards.sleep_words(seconds) == words


def test_the_card_names_stage_hardware_and_both_prices() -> None:
    """What a Space is doing, on what, per hour and month, and whether that is billed now."""
    card = space_cards.status_card(status())
    for words in (
        "It is running.",
        "Nvidia T4 - small",
        "$0.40",
        "$288",
        "Billed at $0.40 per hour",
        "after 1 hour without a visit it sleeps",
        "Qwen/Qwen3-8B",
    ):
        assert words in card


def test_free_and_unknown_are_told_apart() -> None:
    """No price is not free, and nobody claims to know what the platform does not tell."""
    assert "Free of charge." in space_cards.status_card(status(usd_per_hour=Decimal(0), usd_per_month=Decimal(0), billed_now=False))
    unknown = space_cards.status_card(status(usd_per_hour=None, usd_per_month=None, billed_now=None))
    assert "no list price" in unknown
    assert "is not known" in unknown


def test_replicas_are_added_up() -> None:
    """Three replicas of 0.40 USD: 1.20 an hour, 864 a month."""
    card = space_cards.status_card(
        status(replicas=3, requested_replicas=3, total_usd_per_hour=Decimal("1.2"), total_usd_per_month=Decimal(864))
    )
    assert "3: $1.20 per hour, $864 per month together" in card


def test_nothing_of_strangers_is_markup() -> None:
    """A Space's owner writes its error, its volumes and its models."""
    volume = Volume(type="bucket", source=NASTY, mount_path=NASTY, read_only=None)
    cards = [
        space_cards.status_card(status(error=NASTY, volumes=(volume,), models=(NASTY,), hardware_name=NASTY, stage=NASTY, space=NASTY)),
        space_cards.progress_card(progress(error=NASTY, trouble=NASTY, space=NASTY, stage_message=NASTY)),
        space_cards.review_card("switch", preview(space=NASTY, effects=(NASTY,))),
        space_cards.done_card("sleep", acted(space=NASTY, caveats=(Caveat("sdk_unknown", {"space": NASTY}),))),
        space_cards.sending_card("pause", NASTY),
    ]
    for card in cards:
        assert "<img" not in card
        assert "&lt;img" in card


def test_the_review_goes_from_now_to_then() -> None:
    """Hardware, both prices and the sleep time, with what it costs more, what follows and what to mind."""
    card = space_cards.review_card("switch", preview())
    for words in (
        "Nothing has been changed yet",
        "$0.40",
        "$0.80",
        "$288",
        "$576",
        "1 hour",
        "never",
        "The app restarts.",
        "with this switch it will never sleep.",
    ):
        assert words in card
    assert "$0.40 per hour more, up to $288 a month more." in card


def test_a_paused_space_is_not_billed() -> None:
    """A pause keeps the tier and ends the bill; a restart after it begins one."""
    tier = preview().before
    paused = space_cards.review_card("pause", preview(after=tier, change_usd_per_hour=-USD, change_usd_per_month=-MONTH))
    assert "<strong>not billed</strong>" in paused
    assert "$0.40 per hour less" in paused
    woken = space_cards.review_card("restart", preview(after=tier, change_usd_per_hour=USD, change_usd_per_month=MONTH))
    assert ">not billed</td>" in woken
    assert "<strong>$0.40</strong>" in woken


@pytest.mark.parametrize(
    ("action", "changed", "label"),
    [
        ("switch", {}, "Switch to 1x Nvidia L4 at $0.80/hour"),
        ("switch", {"replicas": 2}, "Switch to 1x Nvidia L4 at $0.80/hour for each of 2 replicas"),
        ("restart", {}, "Restart at $0.80/hour"),
        ("factory", {}, "Factory restart at $0.80/hour"),
        ("pause", {}, "Pause ada/chat"),
        ("sleep", {}, "Never sleep"),
    ],
)
def test_the_button_carries_the_price(action: space_cards.Action, changed: dict[str, Any], label: str) -> None:
    """What costs says how much before it is pressed."""
    assert space_cards.confirm_label(action, preview(**changed)) == label


def test_the_stages_are_marked_as_they_are_passed() -> None:
    """Building, starting, running; the old hardware still running is no stage on the way."""
    asked = space_cards.progress_card(progress())
    assert asked.count('class="ahead"') == 3
    building = space_cards.progress_card(progress(stage="BUILDING"))
    assert building.index('class="now"') < building.index('class="ahead"')
    starting = space_cards.progress_card(progress(stage="RUNNING_APP_STARTING"))
    assert (starting.count('class="done"'), starting.count('aria-current="step"')) == (1, 1)
    arrived = space_cards.progress_card(
        progress(arrived=True, done=True, hardware="l4x1", hardware_name="1x Nvidia L4", usd_per_hour=2 * USD)
    )
    assert arrived.count('class="done"') == 3
    assert "It runs on 1x Nvidia L4, $0.80 per hour." in arrived


def test_an_error_stage_is_said() -> None:
    """The stage's own sentence and what the platform wrote."""
    card = space_cards.progress_card(
        progress(stage="RUNTIME_ERROR", stage_message="The app ended.", failed=True, done=True, error="no CUDA")
    )
    assert "The app ended." in card
    assert "no CUDA" in card
    assert "failed" in card


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (185, "3 min 05 s")])
def test_elapsed_time(seconds: float, words: str) -> None:
    """Seconds below a minute, then minutes."""
    assert space_cards.format_elapsed(seconds) == words


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "and save $1,224 a month"),
        ({"saving_usd_per_month": -50.0}, "for $50.00 a month more"),
        ({"saving_usd_per_month": 0.0}, "at the same price"),
        ({"decision": "stay"}, "Already on the right tier"),
        ({"decision": "none", "pick": None}, "Nothing on the chosen platforms runs it"),
    ],
)
def test_the_verdict_on_the_size(changed: dict[str, Any], words: str) -> None:
    """Saving, costing more, the same, staying, or nothing."""
    card = space_cards.size_card(size(**changed))
    assert words in card
    assert "18.0 GiB" in card
    assert sentence(size().reasons[0]) in card


def test_why_a_tier_is_too_small() -> None:
    """Moving up comes with its reason."""
    small = replace(size().current, fits=False, reason="16.7 GiB do not fit.")
    assert "The current tier does not run it: 16.7 GiB do not fit." in space_cards.size_card(size(current=small))
