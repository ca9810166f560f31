"""A Space watched on its way, through the real client to the stand-in, with a clock that only waiting moves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from account_world import ADA, Hand, add_people, build_account, no_models
from hub_stand_in import Fault
from space_stand_in import SpaceStandIn

from lib.errors import HubUnreachable, NotPermitted, RepoNotFound
from lib.service.app import Services
from lib.service.space_status import watch


@pytest.fixture
def hub() -> Iterator[SpaceStandIn]:
    """A Hub as new."""
    with SpaceStandIn() as hub:
        yield add_people(hub)


@pytest.fixture
def hand() -> Hand:
    """Time, moved by hand."""
    return Hand()


@pytest.fixture
def account(hub: SpaceStandIn, hand: Hand) -> Services:
    """The questions to it."""
    return build_account(hub, hand=hand, models=no_models)


def test_a_switch_passes_through_its_stages(account: Services) -> None:
    """BUILDING, APP_STARTING, RUNNING on the tier that was asked for, about two seconds apart."""
    account.switch_hardware("ada/chat", "l4x1", 0.8, token=ADA)
    seen = list(account[watch]("ada/chat", token=ADA, hardware="L4"))  # an older name, as the visitor may have written it
    assert [one["stage"] for one in seen] == ["BUILDING", "APP_STARTING", "RUNNING"]
    assert [one["elapsed_s"] for one in seen] == [0.0, 2.0, 4.3]  # 2, then 2 * 1.15
    assert [(one["done"], one["arrived"]) for one in seen] == [(False, False), (False, False), (True, True)]
    assert (seen[-1]["hardware"], seen[-1]["usd_per_hour"], seen[-1]["billed_now"]) == ("l4x1", 0.8, True)


def test_the_server_is_asked_with_the_visitors_token(hub: SpaceStandIn, account: Services) -> None:
    """Each look."""
    account.restart_space("ada/secret", token=ADA)
    list(account[watch]("ada/secret", token=ADA))
    assert {request.headers.get("authorization") for request in hub.requests} == {f"Bearer {ADA}"}


@pytest.mark.parametrize(
    ("ending", "stages"), [("RUNTIME_ERROR", ["BUILDING", "APP_STARTING", "RUNTIME_ERROR"]), ("BUILD_ERROR", ["BUILDING", "BUILD_ERROR"])]
)
def test_an_error_stage_ends_it(hub: SpaceStandIn, account: Services, ending: str, stages: list[str]) -> None:
    """Done, and not arrived, with what the Hub says about the error."""
    hub.spaces["ada/chat"].ending = ending
    account.switch_hardware("ada/chat", "l4x1", 0.8, token=ADA)
    seen = list(account[watch]("ada/chat", token=ADA, hardware="l4x1"))
    assert [one["stage"] for one in seen] == stages
    last = seen[-1]
    assert (last["done"], last["arrived"], last["failed"]) == (True, False, True)
    assert last["error"] == "Exit code: 1. Reason: CUDA out of memory"


def test_a_space_that_runs_already_has_arrived(account: Services) -> None:
    """One item."""
    assert [(one["done"], one["arrived"]) for one in account[watch]("ada/large")] == [(True, True)]


def test_running_on_the_old_hardware_is_no_arrival(hub: SpaceStandIn, account: Services) -> None:
    """The Hub tells RUNNING while the change is still pending; nobody named the tier, so what was requested counts."""
    space = hub.spaces["ada/chat"]
    space.hardware, space.requested, space.to_come = "t4-small", "l4x1", ["BUILDING", "RUNNING"]
    seen = list(account[watch]("ada/chat"))
    assert [(one["stage"], one["hardware"], one["arrived"]) for one in seen] == [
        ("RUNNING", "t4-small", False),
        ("BUILDING", "t4-small", False),
        ("RUNNING", "l4x1", True),
    ]


def test_a_stage_from_before_the_action_gets_some_seconds(hub: SpaceStandIn, account: Services) -> None:
    """The Hub still tells RUNTIME_ERROR right after the switch; then it builds."""
    space = hub.spaces["ada/chat"]
    space.stage, space.hardware, space.requested, space.to_come = "RUNTIME_ERROR", "l4x1", "l4x1", ["RUNTIME_ERROR", "BUILDING", "RUNNING"]
    seen = list(account[watch]("ada/chat", hardware="l4x1"))
    assert [one["stage"] for one in seen if not one["done"]][:1] == ["RUNTIME_ERROR"]
    assert (seen[-1]["stage"], seen[-1]["arrived"]) == ("RUNNING", True)


def test_a_stage_that_stays_as_it_was_ends_after_these_seconds(account: Services) -> None:
    """Paused, or running on something else than was asked for: after half a minute it will not change by itself."""
    for space, hardware in (("ada/paused", ""), ("ada/large", "l4x1")):
        seen = list(account[watch](space, hardware=hardware))
        assert (seen[-1]["done"], seen[-1]["arrived"]) == (True, False)
        assert 30 <= seen[-1]["elapsed_s"] <= 45
        assert 3 <= len(seen) <= 4  # the first, those of every 15 s, the last


def test_it_ends_after_the_time_and_looks_less_and_less_often(hub: SpaceStandIn, account: Services, hand: Hand) -> None:
    """A build that never ends: half an hour, as the platform's own limit; an item at least every 15 s, a look at most every 10."""
    hub.spaces["ada/chat"].stage = "BUILDING"
    seen = list(account[watch]("ada/chat"))
    assert (seen[-1]["done"], seen[-1]["arrived"], seen[-1]["elapsed_s"]) == (True, False, 1800.0)
    gaps = [later["elapsed_s"] - earlier["elapsed_s"] for earlier, later in itertools.pairwise(seen)]
    assert max(gaps) <= 15.1
    assert 1800 / 10 <= len(hub.requests) <= 1800 / 10 + 20
    assert hand.now == 1800.0


def test_the_hub_may_fail_for_a_while(hub: SpaceStandIn, account: Services) -> None:
    """The trouble is told, the last known state stays, and it goes on when the Hub answers again."""
    account.switch_hardware("ada/chat", "l4x1", 0.8, token=ADA)
    watched = account[watch]("ada/chat", token=ADA, hardware="l4x1")
    assert next(watched)["trouble"] is None
    hub.faults["/runtime"] = Fault(status=503)
    told = next(watched)
    assert told["trouble"] is not None
    assert "503" in told["trouble"]
    assert (told["stage"], told["done"]) == ("BUILDING", False)
    hub.faults.clear()
    rest = list(watched)
    assert rest[-1]["arrived"]
    assert rest[-1]["trouble"] is None


def test_the_hub_may_not_fail_for_ever(hub: SpaceStandIn, account: Services) -> None:
    """Six failures in a row end it with the Hub's own refusal; one of permission at once."""
    hub.spaces["ada/chat"].stage = "BUILDING"
    for status, error, looks in ((503, HubUnreachable, 6), (403, NotPermitted, 1), (404, RepoNotFound, 1)):
        watched = account[watch]("ada/chat", token=ADA)
        next(watched)
        asked = len(hub.requests)
        hub.faults["/runtime"] = Fault(status=status)
        with pytest.raises(error):
            list(watched)
        assert len(hub.requests) - asked == looks
        hub.faults.clear()


def test_closing_ends_it(hub: SpaceStandIn, account: Services) -> None:
    """No look after that."""
    hub.spaces["ada/chat"].stage = "BUILDING"
    watched = account[watch]("ada/chat")
    next(watched)
    asked = len(hub.requests)
    watched.close()  # type: ignore[attr-defined]  # a generator
    assert list(watched) == []
    assert len(hub.requests) == asked
