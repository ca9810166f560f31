"""`/space_status` and the references to Spaces, through the real client to the stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from account_world import ADA, add_people, build_account
from space_stand_in import FakeSpace, SpaceStandIn

from lib.errors import BadArgument, RepoNotFound
from lib.service.reference import check_space_id


@pytest.fixture(scope="module")
def hub() -> Iterator[SpaceStandIn]:
    """Nobody changes anything here."""
    with SpaceStandIn() as hub:
        yield add_people(hub)


def test_a_public_space_needs_no_token(hub: SpaceStandIn) -> None:
    """cpu-basic: free, not billed although it runs, and asleep after 48 hours whatever the Hub says."""
    seen = len(hub.requests)
    found = build_account(hub).space_status("ada/chat")
    assert (found["stage"], found["hardware"], found["usd_per_hour"], found["usd_per_month"]) == ("RUNNING", "cpu-basic", 0.0, 0.0)
    assert (found["sleep_time_s"], found["billed_now"], found["changing"], found["settled"]) == (172_800, False, False, True)
    assert found["models"] == ["meta-llama/Llama-3.1-8B-Instruct"]
    assert found["sdk"] == "gradio"
    assert "at most 8 CPU units" in next(caveat["message"] for caveat in found["caveats"] if caveat["code"] == "cpu_units")
    assert all("authorization" not in request.headers for request in hub.requests[seen:])


def test_paid_hardware_by_the_hour_and_the_month(hub: SpaceStandIn) -> None:
    """a100-large costs 2.50 an hour: 720 hours are 1800; without a sleep time it never sleeps."""
    found = build_account(hub).space_status("https://huggingface.co/spaces/ada/large")
    assert (found["usd_per_hour"], found["usd_per_month"], found["total_usd_per_month"]) == (2.5, 1800.0, 1800.0)
    assert (found["sleep_time_s"], found["billed_now"]) == (-1, True)
    assert "around the clock" in found["sleep_message"]
    codes = {caveat["code"] for caveat in found["caveats"]}
    assert ("price_bundled" in codes, "cpu_units" in codes) == (True, False)


def test_every_replica_is_billed(hub: SpaceStandIn) -> None:
    """Three T4 at 0.40 are 1.20 an hour and 864 a month of 720 hours; the tier's own price stays 0.40."""
    found = build_account(hub).space_status("ada/many")
    assert (found["usd_per_hour"], found["replicas"], found["total_usd_per_hour"], found["total_usd_per_month"]) == (0.4, 3, 1.2, 864.0)
    assert "replicas" in {caveat["code"] for caveat in found["caveats"]}


def test_a_paused_space_is_not_billed(hub: SpaceStandIn) -> None:
    """It has no hardware now, and nothing is changing; what it would run on has its price."""
    found = build_account(hub).space_status("ada/paused")
    assert (found["hardware"], found["requested_hardware"], found["requested_usd_per_hour"]) == (None, "l4x1", 0.8)
    assert (found["billed_now"], found["changing"], found["settled"], found["usd_per_hour"]) == (False, False, True, None)


def test_a_static_space_is_never_billed(hub: SpaceStandIn) -> None:
    """Files that are served: it runs on no hardware and has no price."""
    hub.add_space(FakeSpace(id="ada/files", sdk="static", hardware=None, requested=None, sleep_s=None, replicas=None))
    found = build_account(hub).space_status("ada/files")
    assert (found["stage"], found["billed_now"], found["usd_per_hour"]) == ("RUNNING", False, None)


def test_zerogpu_says_what_is_not_documented(hub: SpaceStandIn) -> None:
    """Its sleep rule is not."""
    found = build_account(hub).space_status("ada/zero")
    assert (found["hardware_name"], found["usd_per_hour"], found["sleep_time_s"]) == ("ZeroGPU", 0.0, None)
    assert found["sleep_message"] == "When it sleeps is not documented."


def test_a_private_space_needs_a_token_that_may_see_it(hub: SpaceStandIn) -> None:
    """Its owner sees it; strangers learn that it may be private."""
    assert build_account(hub).space_status("ada/secret", token=ADA)["private"] is True
    with pytest.raises(RepoNotFound, match="private"):
        build_account(hub).space_status("ada/secret")


def test_a_pending_change_has_two_prices(hub: SpaceStandIn) -> None:
    """From t4-small to l4x1: what is billed now, and what will be."""
    hub.add_space(FakeSpace(id="ada/moving", stage="RUNNING_BUILDING", hardware="t4-small", requested="l4x1", sleep_s=-1))
    found = build_account(hub).space_status("ada/moving")
    assert (found["usd_per_hour"], found["requested_usd_per_hour"], found["requested_usd_per_month"]) == (0.4, 0.8, 576.0)
    assert (found["changing"], found["settled"], found["billed_now"]) == (True, False, True)


def test_a_tier_that_nobody_knows_has_no_price(hub: SpaceStandIn) -> None:
    """It is named as the Hub names it; nothing is made up."""
    hub.add_space(FakeSpace(id="ada/new", hardware="quantum-x1", requested="quantum-x1", sleep_s=60))
    found = build_account(hub).space_status("ada/new")
    assert (found["hardware"], found["usd_per_hour"], found["total_usd_per_month"], found["sleep_time_s"]) == ("quantum-x1", None, None, 60)
    assert "tier_unknown" in {caveat["code"] for caveat in found["caveats"]}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (" ada/chat ", "ada/chat"),
        ("https://huggingface.co/spaces/ada/chat", "ada/chat"),
        ("https://hf.co/spaces/ada/chat/tree/main", "ada/chat"),
    ],
)
def test_ids_and_pages(text: str, name: str) -> None:
    """The id, or the address of its page."""
    assert check_space_id(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "", "chat", "a/b/c", "../x", "ada/..", "ada/../x", "ada/ch at", "ada/chat?x=1", "ada/chat#", "ada\n/chat", "ada/" + "x" * 300,
        7, None, ["ada/chat"], "https://huggingface.co/ada/chat", "https://evil.example/spaces/ada/chat",
        "https://[huggingface.co/spaces/a/b", "x" * 5000, "аda/chat",
    ],
)  # fmt: skip
def test_what_cannot_be_a_space(text: object) -> None:
    """Refused before anything is asked."""
    with pytest.raises(BadArgument, match="space_id was"):
        check_space_id(text)
