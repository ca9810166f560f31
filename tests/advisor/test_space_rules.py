"""The platform's rules on switching a Space, against the bundled catalog; figures as in PLATFORM's table of 2026-11-21."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.advisor import space_rules
from lib.advisor.space_rules import ENDPOINT_STAGES, JOB_STAGES, STAGES, find_stage
from lib.catalog import load
from lib.errors import AgainstRules, PriceNotConfirmed, UnknownHardware
from lib.present.sentences import sentence, stage_sentence
from lib.present.wording import load_wording

CATALOG = load()
RULES = CATALOG.rules


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        ("l4x1", "l4x1"),
        ("spaces:l4x1", "l4x1"),
        ("l4", "l4x1"),
        ("L40S", "l40sx1"),
        ("a100", "a100-large"),
        (" t4 ", "t4-small"),
        ("cpu", "cpu-basic"),
        ("zerogpu", "zero-a10g"),
    ],
)
def test_ids_and_older_names(name: str, tier: str) -> None:
    """An older name is answered with today's id, and told; an id is not."""
    found = space_rules.resolve_tier(CATALOG, name)
    assert found.offer.id == tier
    assert [caveat.code for caveat in found.caveats] == ([] if name.removeprefix("spaces:") == tier else ["renamed"])


def test_every_listed_tier_is_found_by_its_own_id() -> None:
    """All of Spaces, and ZeroGPU, whose second size is a matter of the app's functions."""
    for offer in CATALOG.on(("spaces",)):
        assert space_rules.resolve_tier(CATALOG, offer.id).offer is offer
    large = space_rules.resolve_tier(CATALOG, "zero-a10g-xlarge")
    assert large.offer.id == "zero-a10g"
    assert [caveat.code for caveat in large.caveats] == ["zerogpu_size"]
    assert "size='xlarge'" in sentence(large.caveats[0])


@pytest.mark.parametrize(
    ("name", "nearest", "price"),
    [
        ("h100", "a100-large", "2.50"),  # 80 GB again; RTX PRO 6000 has 96 for 2.75
        ("h100x8", "a100x8", "20.00"),  # 640 GB; eight RTX PRO 6000 cost 22
        ("v5e-1x1", "t4-small", "0.40"),  # 16 GB
        ("v5e-2x2", "a100-large", "2.50"),  # 64 GB; 80 cost less than the 96 of an RTX PRO 6000
        ("sprx8", "cpu-upgrade", "0.03"),  # a CPU; the largest today has 8 vCPU
    ],
)
def test_what_was_withdrawn_names_the_nearest_of_today(name: str, nearest: str, price: str) -> None:
    """Cheapest with about the same memory of accelerators."""
    with pytest.raises(
        AgainstRules, match=f"'{name}' .* is no longer offered on Spaces since .* Nearest today: '{nearest}' .* {price} USD"
    ):
        space_rules.resolve_tier(CATALOG, name)


@pytest.mark.parametrize(
    ("name", "product"), [("h200", "Jobs"), ("cpu-xl", "Jobs"), ("v6e-8", "Cloud TPU"), ("aws-inf2-x12", "Inference Endpoints")]
)
def test_hardware_of_other_products(name: str, product: str) -> None:
    """Known, but nothing that a Space runs on."""
    with pytest.raises(AgainstRules, match=f"is hardware of {product}, which a Space cannot run on"):
        space_rules.resolve_tier(CATALOG, name)


@pytest.mark.parametrize("name", ["l5x1", "H100-SXM", "x", "l4x1; rm"])
def test_unknown_names(name: str) -> None:
    """Also plain silicon: no Space runs on that."""
    with pytest.raises(UnknownHardware):
        space_rules.resolve_tier(CATALOG, name)


def test_a_tier_that_the_live_list_dropped_is_withdrawn_too() -> None:
    """The rule looks at the catalog in use, not at the bundled one."""
    offers = tuple(
        row.model_copy(update={"status": "retired", "since": "2026-11-21"}) if (row.platform, row.id) == ("spaces", "l4x1") else row
        for row in CATALOG.offers
    )
    with pytest.raises(AgainstRules, match="since 2026-11-21"):
        space_rules.resolve_tier(replace(CATALOG, offers=offers), "l4")


@pytest.mark.parametrize("offer", CATALOG.on(("spaces", "zerogpu")), ids=lambda offer: offer.id)
def test_only_todays_price_confirms(offer: object) -> None:
    """The figure as JSON shows it is accepted; a cent more or less, half of it and nothing at all are not."""
    price = offer.usd_per_hour  # type: ignore[attr-defined]
    assert space_rules.confirm_price(offer, Decimal(str(float(price)))) == price  # type: ignore[arg-type]
    for wrong in (price + Decimal("0.01"), price + Decimal("0.0001"), price / 2 if price else Decimal(1)):
        with pytest.raises(PriceNotConfirmed, match="Nothing was changed"):
            space_rules.confirm_price(offer, wrong)  # type: ignore[arg-type]


def test_the_noise_of_binary_fractions_is_tolerated() -> None:
    """0.1 + 0.7 is 0.8 but for the last bit."""
    noisy = 0.1 + 0.7
    assert noisy != 0.8
    assert space_rules.confirm_price(CATALOG.offer("l4x1", "spaces"), Decimal(str(noisy))) == Decimal("0.80")


@given(st.decimals(min_value=0, max_value=10_000, allow_nan=False, places=4))
def test_no_other_price_confirms(amount: Decimal) -> None:
    """Whatever the figure, it confirms exactly when it is the price."""
    offer = CATALOG.offer("a100-large", "spaces")
    if amount == Decimal("2.50"):
        assert space_rules.confirm_price(offer, amount) == amount
    else:
        with pytest.raises(PriceNotConfirmed, match=r"costs 2\.50 USD per hour for each replica"):
            space_rules.confirm_price(offer, amount)


def test_the_sleep_of_cpu_basic_is_fixed() -> None:
    """48 hours: never asked for, and refused when anything else is."""
    offer = CATALOG.offer("cpu-basic", "spaces")
    assert space_rules.plan_sleep_with_switch(offer, -1, RULES).seconds is None
    assert space_rules.plan_sleep_with_switch(offer, 172_800, RULES).seconds is None
    with pytest.raises(AgainstRules, match="fixed at 48 hours"):
        space_rules.plan_sleep_with_switch(offer, 3600, RULES)
    for seconds in (-1, 3600, 172_800):
        with pytest.raises(AgainstRules, match="fixed at 48 hours"):
            space_rules.plan_sleep_change(offer, "ada/chat", seconds, RULES)
    assert space_rules.resolve_sleep_time(offer, None, RULES) == 172_800


def test_paid_hardware_sleeps_as_told() -> None:
    """-1 is sent as never; without a word of the Hub it never sleeps."""
    offer = CATALOG.offer("l4x1", "spaces")
    assert space_rules.plan_sleep_with_switch(offer, -1, RULES) == space_rules.SleepSetting(seconds=-1)
    assert space_rules.plan_sleep_with_switch(offer, 3600, RULES) == space_rules.SleepSetting(seconds=3600)
    assert space_rules.plan_sleep_change(offer, "ada/chat", 900, RULES) == space_rules.SleepSetting(seconds=900)
    assert space_rules.resolve_sleep_time(offer, None, RULES) == -1
    assert "billed around the clock" in sentence(space_rules.describe_sleep(offer, None, RULES))
    assert "after 1 hour without" in sentence(space_rules.describe_sleep(offer, 3600, RULES))
    assert "after 15 minutes without" in sentence(space_rules.describe_sleep(offer, 900, RULES))
    assert "after 100 seconds without" in sentence(space_rules.describe_sleep(offer, 100, RULES))


def test_the_sleep_of_zerogpu_is_not_documented() -> None:
    """Nothing is sent unless asked for, and nothing is made up."""
    offer = CATALOG.offer("zero-a10g", "zerogpu")
    assert space_rules.plan_sleep_with_switch(offer, -1, RULES).seconds is None
    assert space_rules.plan_sleep_with_switch(offer, 3600, RULES).seconds == 3600
    assert space_rules.resolve_sleep_time(offer, None, RULES) is None
    for found in (space_rules.plan_sleep_with_switch(offer, -1, RULES), space_rules.plan_sleep_change(offer, "ada/chat", 60, RULES)):
        assert [caveat.code for caveat in found.caveats] == ["sleep_not_documented"]


def test_zerogpu_takes_gradio_only_and_static_spaces_take_nothing() -> None:
    """Docker may have every other tier."""
    zero, paid = CATALOG.offer("zero-a10g", "zerogpu"), CATALOG.offer("l4x1", "spaces")
    space_rules.check_sdk(zero, "ada/chat", "gradio")
    space_rules.check_sdk(paid, "ada/chat", "docker")
    with pytest.raises(AgainstRules, match="Gradio Spaces only; ada/chat is built with docker"):
        space_rules.check_sdk(zero, "ada/chat", "docker")
    for offer in (zero, paid, None):
        with pytest.raises(AgainstRules, match="static Space"):
            space_rules.check_sdk(offer, "ada/chat", "static")


@pytest.mark.parametrize(("plan", "limit"), [("free", 2), ("pro", 10), ("team", 50), ("enterprise", 50)])
def test_hosting_limits(plan: str, limit: int) -> None:
    """One more up to the plan's limit, none beyond."""
    space_rules.check_hosting(RULES, "ada", plan, limit - 1)
    for hosted in (limit, limit + 1):
        with pytest.raises(AgainstRules, match=f"hosts {hosted} Spaces on ZeroGPU, and its plan \\({plan}\\) allows {limit}"):
            space_rules.check_hosting(RULES, "ada", plan, hosted)


def test_a_switch_to_what_it_has_is_none() -> None:
    """The Hub would restart the app for nothing; a way back from a pending change is a change."""
    offer = CATALOG.offer("l4x1", "spaces")
    for current, requested in (("l4x1", "l4x1"), ("l4x1", None), (None, "l4x1")):
        with pytest.raises(AgainstRules, match="has l4x1 already"):
            space_rules.check_change(offer, "ada/chat", current, requested)
    with pytest.raises(AgainstRules, match="already on its way from t4-small to l4x1"):
        space_rules.check_change(offer, "ada/chat", "t4-small", "l4x1")
    space_rules.check_change(offer, "ada/chat", "l4x1", "t4-small")
    space_rules.check_change(offer, "ada/chat", None, None)


def test_stages() -> None:
    """Starting and Running are billed, builds, sleep and pause are not; an unknown stage is passed on as text."""
    assert {name for name, at in STAGES.items() if at.billed} == {"RUNNING", "RUNNING_BUILDING", "RUNNING_APP_STARTING", "APP_STARTING"}
    assert {name for name, at in STAGES.items() if at.failed} == {"NO_APP_FILE", "CONFIG_ERROR", "BUILD_ERROR", "RUNTIME_ERROR"}
    assert not STAGES["BUILDING"].settled
    assert (
        load_wording("terms")["stages"].keys()
        == load_wording("terms")["stage_words"].keys()
        == {*STAGES, *ENDPOINT_STAGES, *JOB_STAGES, "updateFailed", "CANCELED"}
    )
    assert find_stage("TELEPORTING").billed is None
    assert "TELEPORTING" in stage_sentence("TELEPORTING")
