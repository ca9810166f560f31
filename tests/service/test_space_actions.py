"""Switching, sleeping, pausing, restarting: through the real client to the stand-in, with every POST counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from account_world import ADA, BOB, OAUTH, READER, add_people, build_account, no_models
from hub_stand_in import Fault
from space_stand_in import FakeSpace, SpaceStandIn

from lib.catalog import load
from lib.errors import (
    AdvisorError,
    AgainstRules,
    BadArgument,
    Conflict,
    HubUnreachable,
    NotPermitted,
    NotSignedIn,
    PaymentNeeded,
    PriceNotConfirmed,
    RateLimited,
    UnknownHardware,
)
from lib.hub.prices import PriceFeed
from lib.service.app import Services
from lib.service.space_actions import preview
from lib.service.space_status import watch


@pytest.fixture
def hub() -> Iterator[SpaceStandIn]:
    """A Hub as new, for each test."""
    with SpaceStandIn() as hub:
        yield add_people(hub)


@pytest.fixture
def account(hub: SpaceStandIn) -> Services:
    """The questions to it."""
    return build_account(hub, models=no_models)


ACTIONS: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("switch_hardware", ("ada/chat", "l4x1", 0.8)),
    ("set_sleep_time", ("ada/large", 3600)),
    ("pause_space", ("ada/chat",)),
    ("restart_space", ("ada/chat",)),
)


@pytest.mark.parametrize(("action", "given"), ACTIONS)
@pytest.mark.parametrize("token", [None, ""])
def test_without_a_token_nothing_is_asked(
    hub: SpaceStandIn, account: Services, monkeypatch: pytest.MonkeyPatch, action: str, given: tuple[object, ...], token: str | None
) -> None:
    """Not even with the server's own token in the environment: the refusal comes before any request."""
    monkeypatch.setenv("HF_TOKEN", ADA)
    with pytest.raises(NotSignedIn, match="your own Hugging Face token"):
        getattr(account, action)(*given, token=token)
    assert hub.requests == []


def test_looking_without_a_token_does_not_use_the_servers(hub: SpaceStandIn, account: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status, preview and watch of a public Space carry no token."""
    monkeypatch.setenv("HF_TOKEN", ADA)
    account.space_status("ada/chat")
    account[preview]("ada/chat", "switch", "l4x1")
    next(account[watch]("ada/chat"))
    assert hub.requests
    assert all("authorization" not in request.headers for request in hub.requests)


def test_a_switch(hub: SpaceStandIn, account: Services) -> None:
    """One POST with flavor and sleep time; before and after with their prices, 0 and 0.80 an hour, 576 a month of 720 hours."""
    found = account.switch_hardware("ada/chat", "l4x1", 0.8, 3600, token=ADA)
    assert hub.actions() == [("/api/spaces/ada/chat/hardware", {"flavor": "l4x1", "sleepTimeSeconds": 3600})]
    assert found["before"] == {
        "hardware": "cpu-basic",
        "name": "CPU Basic",
        "usd_per_hour": 0.0,
        "usd_per_month": 0.0,
        "sleep_time_s": 172_800,
    }
    assert found["after"] == {"hardware": "l4x1", "name": "1x Nvidia L4", "usd_per_hour": 0.8, "usd_per_month": 576.0, "sleep_time_s": 3600}
    assert found["stage"] == "BUILDING"
    assert "needs_credits" in {caveat["code"] for caveat in found["caveats"]}


def test_never_is_sent_as_minus_one_and_an_older_name_as_todays(hub: SpaceStandIn, account: Services) -> None:
    """The default of sleep_time_s; `l4` is told to be `l4x1`."""
    found = account.switch_hardware("ada/chat", "l4", 0.80, token=ADA)
    assert hub.actions() == [("/api/spaces/ada/chat/hardware", {"flavor": "l4x1", "sleepTimeSeconds": -1})]
    assert found["after"]["sleep_time_s"] == -1
    assert "renamed" in {caveat["code"] for caveat in found["caveats"]}


@pytest.mark.parametrize(
    ("tier", "sleep_s", "target", "usd", "sent"),
    [
        ("t4-small", 900, "l4x1", 0.8, {"flavor": "l4x1", "sleepTimeSeconds": 900}),  # kept: else it would bill around the clock
        ("t4-small", None, "l4x1", 0.8, {"flavor": "l4x1", "sleepTimeSeconds": -1}),
        ("cpu-basic", 172_800, "l4x1", 0.8, {"flavor": "l4x1", "sleepTimeSeconds": -1}),  # the 48 hours are the free tier's own
        ("t4-small", 900, "cpu-basic", 0, {"flavor": "cpu-basic"}),
        (None, 900, "l4x1", 0.8, {"flavor": "l4x1", "sleepTimeSeconds": 900}),  # on its way to t4-small: no hardware yet
    ],
)
def test_without_a_sleep_time_a_paid_space_keeps_its_own(
    hub: SpaceStandIn, account: Services, tier: str | None, sleep_s: int | None, target: str, usd: float, sent: dict[str, Any]
) -> None:
    """`None` (null over the API, no --sleep-time on the command line)."""
    hub.add_space(FakeSpace(id="ada/moving", hardware=tier, requested=tier or "t4-small", sleep_s=sleep_s))
    account.switch_hardware("ada/moving", target, usd, None, token=ADA)
    assert hub.actions() == [("/api/spaces/ada/moving/hardware", sent)]


def test_back_to_the_free_cpu_sends_no_sleep_time(hub: SpaceStandIn, account: Services) -> None:
    """Its 48 hours are fixed; free hardware is confirmed with 0."""
    found = account.switch_hardware("ada/large", "cpu-basic", 0, token=ADA)
    assert hub.actions() == [("/api/spaces/ada/large/hardware", {"flavor": "cpu-basic"})]
    assert found["after"]["sleep_time_s"] == 172_800
    assert {"sleep_fixed", "cpu_basic_needs_plan", "cpu_units"} <= {caveat["code"] for caveat in found["caveats"]}


@pytest.mark.parametrize("price", [0.4, 0.79, 0.81, 0, 1, 80, 576])
def test_another_price_changes_nothing(hub: SpaceStandIn, account: Services, price: float) -> None:
    """Both prices are named, and where today's comes from."""
    with pytest.raises(PriceNotConfirmed, match=r"l4x1 costs 0\.80 USD per hour for each replica \(.+2026.+\)"):
        account.switch_hardware("ada/chat", "l4x1", price, token=ADA)
    assert hub.actions() == []


@pytest.mark.parametrize("price", [True, False, None, "0.8", float("nan"), float("inf"), -0.8, [0.8], {"usd": 0.8}, 1e9])
def test_what_is_no_price(hub: SpaceStandIn, account: Services, price: Any) -> None:
    """Refused before the Hub is asked."""
    with pytest.raises(BadArgument, match="confirm_usd_per_hour was"):
        account.switch_hardware("ada/chat", "l4x1", price, token=ADA)
    assert hub.requests == []


def test_the_price_is_asked_for_again_before_it_is_confirmed(hub: SpaceStandIn) -> None:
    """The platform raised l4x1 to 0.90 since the catalog was bundled: 0.80 no longer confirms, 0.90 does."""
    for row in hub.hardware["spaces"]:
        if row["name"] == "l4x1":
            row |= {"unitCostMicroUSD": 15_000, "unitCostUSD": 0.015}
    account = build_account(hub, today=PriceFeed(load(), endpoint=hub.url, limit_s=60.0).refresh, models=no_models)
    with pytest.raises(PriceNotConfirmed, match=r"costs 0\.90 USD per hour for each replica \(GET /api/spaces/hardware"):
        account.switch_hardware("ada/chat", "l4x1", 0.8, token=ADA)
    assert account[preview]("ada/chat", "switch", "l4x1")["confirm_usd_per_hour"] == 0.9
    found = account.switch_hardware("ada/chat", "l4x1", 0.9, token=ADA)
    assert found["prices"]["basis"] == "live"
    assert "price_bundled" not in {caveat["code"] for caveat in found["caveats"]}
    assert [seen.headers.get("authorization") for seen in hub.requests if seen.path == "/api/spaces/hardware"] == [None] * 3


@pytest.mark.parametrize(
    ("hardware", "error", "says"),
    [
        ("h100", AgainstRules, "Nearest today: 'a100-large'"),
        ("h200", AgainstRules, "hardware of Jobs"),
        ("v5litepod-4", AgainstRules, "Cloud TPU"),
        ("moon", UnknownHardware, "no hardware called 'moon'"),
        (7, BadArgument, "hardware was '7'"),
        ("", BadArgument, "hardware was"),
        ("l4x1\n", None, ""),
    ],
)
def test_names_of_tiers(hub: SpaceStandIn, account: Services, hardware: Any, error: type[AdvisorError] | None, says: str) -> None:
    """What is no tier is refused before the Hub is asked; blanks around a name are forgiven."""
    if error is None:
        assert account.switch_hardware("ada/chat", hardware, 0.8, token=ADA)["after"]["hardware"] == "l4x1"
        return
    with pytest.raises(error, match=says):
        account.switch_hardware("ada/chat", hardware, 0.8, token=ADA)
    assert hub.requests == []


@pytest.mark.parametrize("seconds", [0, -2, 1.5, True, "3600", 10**9])
def test_what_is_no_sleep_time(hub: SpaceStandIn, account: Services, seconds: Any) -> None:
    """0 could mean at once or never."""
    with pytest.raises(BadArgument, match=r"sleep_time_s was|seconds was"):
        account.switch_hardware("ada/chat", "l4x1", 0.8, seconds, token=ADA)
    with pytest.raises(BadArgument, match="seconds was"):
        account.set_sleep_time("ada/large", seconds, token=ADA)
    with pytest.raises(BadArgument, match="seconds was"):
        account.set_sleep_time("ada/large", None, token=ADA)  # type: ignore[arg-type]
    assert hub.requests == []


@pytest.mark.parametrize(
    ("space", "hardware", "price", "says"),
    [
        ("ada/large", "a100-large", 2.5, "has a100-large already"),
        ("ada/paused", "l4x1", 0.8, "has l4x1 already"),
        ("ada/docker", "zero-a10g", 0, "Gradio Spaces only"),
        ("ada/page", "l4x1", 0.8, "static Space"),
    ],
)
def test_rules_about_the_space(hub: SpaceStandIn, account: Services, space: str, hardware: str, price: float, says: str) -> None:
    """Found by looking; nothing is changed. The preview says the same."""
    for ask in (
        lambda: account.switch_hardware(space, hardware, price, token=ADA),
        lambda: account[preview](space, "switch", hardware, token=ADA),
    ):
        with pytest.raises(AgainstRules, match=says):
            ask()
    assert hub.actions() == []


def test_zerogpu_within_the_limit_of_the_plan(hub: SpaceStandIn, account: Services) -> None:
    """A PRO account hosts ten: ada has one, so nine more fit and the eleventh is refused."""
    found = account.switch_hardware("ada/chat", "zerogpu", 0, token=ADA)
    assert hub.actions() == [("/api/spaces/ada/chat/hardware", {"flavor": "zero-a10g"})]
    assert found["after"]["sleep_time_s"] is None
    for number in range(8):
        hub.add_space(FakeSpace(id=f"ada/z{number}", hardware="zero-a10g", requested="zero-a10g", sleep_s=None))
    with pytest.raises(AgainstRules, match=r"ada hosts 10 Spaces on ZeroGPU, and its plan \(pro\) allows 10"):
        account.switch_hardware("ada/large", "zero-a10g", 0, token=ADA)
    assert len(hub.actions()) == 1


def test_zerogpu_of_an_organization(hub: SpaceStandIn, account: Services) -> None:
    """The organization's plan counts; one without a known plan is left to the platform, and that is said."""
    hub.add_space(FakeSpace(id="engines/demo"))
    hub.add_space(FakeSpace(id="friends/demo"))
    assert "hosting_not_checked" not in codes(account.switch_hardware("engines/demo", "zero-a10g", 0, token=ADA))
    assert "hosting_not_checked" in codes(account.switch_hardware("friends/demo", "zero-a10g", 0, token=ADA))


def test_a_free_account_is_told_the_conditions_of_zerogpu(account: Services) -> None:
    """Two Spaces, a verified e-mail, an account older than 30 days."""
    found = account.switch_hardware("bob/app", "zero-a10g", 0, token=BOB)
    assert "hosting_conditions" in codes(found)


def test_a_limit_that_cannot_be_checked_is_left_to_the_platform(hub: SpaceStandIn, account: Services) -> None:
    """The list of Spaces fails; the switch is asked for, and says so."""
    hub.faults["/api/spaces?author"] = Fault(status=500)
    assert "hosting_not_checked" in codes(account.switch_hardware("ada/chat", "zero-a10g", 0, token=ADA))


def test_what_a_switch_does_to_sleep_and_replicas_is_said(account: Services) -> None:
    """It slept after an hour and will never; three replicas are billed three times."""
    found = account.switch_hardware("ada/many", "l4x1", 0.8, token=ADA)
    assert {"sleep_changes", "replicas"} <= codes(found)


@pytest.mark.parametrize(
    ("status", "error"),
    [(402, PaymentNeeded), (403, NotPermitted), (409, Conflict), (429, RateLimited), (500, HubUnreachable), (503, HubUnreachable)],
)
def test_what_the_hub_says_is_passed_on_and_nothing_is_tried_twice(
    hub: SpaceStandIn, account: Services, status: int, error: type[AdvisorError]
) -> None:
    """One POST, one refusal."""
    hub.faults["/ada/large/"] = Fault(status=status)
    calls = (
        lambda: account.switch_hardware("ada/large", "l4x1", 0.8, token=ADA),
        lambda: account.set_sleep_time("ada/large", 3600, token=ADA),
        lambda: account.pause_space("ada/large", token=ADA),
        lambda: account.restart_space("ada/large", token=ADA),
    )
    for number, call in enumerate(calls, 1):
        with pytest.raises(error):
            call()
        assert len(hub.actions()) == number


def test_tokens_that_may_less(account: Services) -> None:
    """A reading token is not permitted, a sign-in gets the known 401 with advice, and who cannot pay is told."""
    with pytest.raises(NotPermitted, match="write access"):
        account.pause_space("ada/chat", token=READER)
    with pytest.raises(NotPermitted, match="matter of permission"):
        account.switch_hardware("ada/chat", "l4x1", 0.8, token=OAUTH)
    assert account.pause_space("ada/chat", token=OAUTH)["stage"] == "PAUSED"
    with pytest.raises(PaymentNeeded, match="payment method"):
        account.switch_hardware("bob/app", "l4x1", 0.8, token=BOB)


def test_sleep_pause_restart(hub: SpaceStandIn, account: Services) -> None:
    """Each is one POST; the sleep time comes back, a restart of paid hardware names what it costs from then on."""
    assert account.set_sleep_time("ada/large", 3600, token=ADA)["sleep_time_s"] == 3600
    assert account.set_sleep_time("ada/large", -1, token=ADA)["sleep_time_s"] == -1
    assert account.pause_space("ada/large", token=ADA)["stage"] == "PAUSED"
    found = account.restart_space("ada/large", token=ADA)
    assert found["stage"] == "BUILDING"
    assert "2.50 USD per hour" in next(caveat["message"] for caveat in found["caveats"] if caveat["code"] == "billed")
    account.restart_space("ada/large", True, token=ADA)
    assert hub.spaces["ada/large"].factory
    assert [path.rpartition("/")[2] for path, _ in hub.actions()] == ["sleeptime", "sleeptime", "pause", "restart", "restart?factory=true"]
    with pytest.raises(BadArgument, match="factory was"):
        account.restart_space("ada/large", 1, token=ADA)  # type: ignore[arg-type]


def test_the_fixed_sleep_of_cpu_basic_is_not_touched(hub: SpaceStandIn, account: Services) -> None:
    """Neither alone nor with a switch."""
    with pytest.raises(AgainstRules, match="fixed at 48 hours"):
        account.set_sleep_time("ada/chat", 3600, token=ADA)
    with pytest.raises(AgainstRules, match="fixed at 48 hours"):
        account.switch_hardware("ada/large", "cpu-basic", 0, 3600, token=ADA)
    assert hub.actions() == []


def test_the_preview_names_the_price_and_changes_nothing(hub: SpaceStandIn, account: Services) -> None:
    """Three replicas from 0.40 to 0.80: 1.20 more an hour, 864 more a month of 720 hours; its price is what confirms the switch."""
    found = account[preview]("ada/many", "switch", "l4x1", 3600, token=ADA)
    assert (found["confirm_usd_per_hour"], found["change_usd_per_hour"], found["change_usd_per_month"], found["replicas"]) == (
        0.8,
        1.2,
        864.0,
        3,
    )
    assert "$0.80 an hour instead of $0.40 an hour" in found["effects"][0]
    assert hub.actions() == []
    price = found["confirm_usd_per_hour"]
    assert price is not None
    assert account.switch_hardware("ada/many", "l4x1", price, 3600, token=ADA)["after"] == found["after"]


@pytest.mark.parametrize(
    ("space", "action", "change"),
    [
        ("ada/large", "pause", -2.5),  # billed now
        ("ada/paused", "pause", 0.0),  # not billed already
        ("ada/paused", "restart", 0.8),  # billed again
        ("ada/large", "restart", 0.0),  # billed before and after
        ("ada/chat", "restart", 0.0),  # free
        ("ada/large", "sleep", 0.0),
    ],
)
def test_previews_of_the_other_actions(account: Services, space: str, action: str, change: float | None) -> None:
    """What the action does to the bill per hour."""
    found = account[preview](space, action, sleep_time_s=3600)
    assert found["change_usd_per_hour"] == change
    assert found["effects"]


def codes(answer: Any) -> set[str]:
    """The codes of its caveats."""
    return {caveat["code"] for caveat in answer["caveats"]}


def test_a_price_of_the_catalog_in_use(hub: SpaceStandIn) -> None:
    """A catalog with another price: the answers and the confirmation follow it."""
    offers = tuple(
        row.model_copy(update={"usd_per_hour": Decimal("1.23")}) if (row.platform, row.id) == ("spaces", "l4x1") else row
        for row in load().offers
    )
    account = build_account(hub, today=lambda: replace(load(), offers=offers), models=no_models)
    with pytest.raises(PriceNotConfirmed, match=r"1\.23"):
        account.switch_hardware("ada/chat", "l4x1", 0.8, token=ADA)
    assert account.switch_hardware("ada/chat", "l4x1", 1.23, token=ADA)["usd_per_hour"] == 1.23
