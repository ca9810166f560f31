"""`/zerogpu_quota`: the declaration, the platform's checks, and the visitor's own quota through the real client to the stand-in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from account_world import build_account, no_models
from space_stand_in import Person, SpaceStandIn

from lib.catalog import load
from lib.errors import BadArgument, HubGarbage, NotPermitted
from lib.present.zerogpu_cards import quota_card
from lib.service.app import Services
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models
from lib.service.zerogpu_quota import zerogpu_quota

ADA, BOB = "hf_ada", "hf_bob"
QUOTA = {"base": 2400, "current": 18.5, "resetsAt": "2026-11-27T09:12:03.000Z", "overquotaUsed": 0}


@pytest.fixture
def hub() -> Iterator[SpaceStandIn]:
    """Ada may read her billing, Bob's token may not."""
    with SpaceStandIn() as hub:
        hub.people |= {ADA: Person(name="ada", is_pro=True, quota=dict(QUOTA)), BOB: Person(name="bob", quota=None)}
        yield hub


@pytest.fixture
def account(hub: SpaceStandIn) -> Services:
    """The questions to it."""
    return build_account(hub, models=no_models)


def codes(answer: Any) -> dict[str, str]:
    """The checks of an answer: code to sentence."""
    return {check["code"]: check["message"] for check in answer["checks"]}


def test_a_call_is_compared_with_what_is_left(hub: SpaceStandIn, account: Services) -> None:
    """12 s: 17 declared, 34 reserved on the whole card and 26 on half of it (17 · 1.5 = 25.5); 18.5 s are left."""
    whole = account.zerogpu_quota(call_s=12, size="xlarge", account="pro", token=ADA)
    assert (whole["declaration"], whole["reserved_s"], whole["charged_s"]) == ('@spaces.GPU(duration=17, size="xlarge")', 34, 24.0)
    assert (whole["verdict"], whole["longest_declared_s"], whole["left"]["resets_at"]) == ("waits", 9, "2026-11-27T09:12:03+00:00")
    assert "refused now" in codes(whole)["zerogpu_check_left"]
    assert account.zerogpu_quota(call_s=12, account="pro", token=ADA)["reserved_s"] == 26
    hub.people[ADA].quota = {"base": 2400, "current": 2400}  # not used yet: without a time
    assert account.zerogpu_quota(call_s=12, account="pro", token=ADA)["verdict"] == "passes"
    assert {seen.headers["authorization"] for seen in hub.requests} == {f"Bearer {ADA}"}


def test_without_a_token_nothing_is_asked_and_nothing_is_guessed(hub: SpaceStandIn, account: Services) -> None:
    """The default minute: 90 s; more than 42 GiB of weights take the whole card; limits that nobody publishes are null."""
    answer = account.zerogpu_quota()
    assert (answer["declared_s"], answer["reserved_s"], answer["verdict"], answer["left"]) == (60, 90, "unknown", None)
    assert answer["longest_call_s"] is None
    assert "not published" in codes(answer)["zerogpu_check_cap"]
    assert account.zerogpu_quota(weights_gb=46)["size"] == "xlarge"
    assert account.zerogpu_quota(call_s=400)["verdict"] == "never"
    assert account.zerogpu_quota(account="team")["runs_a_day_reported"] is None
    assert hub.requests == []


def test_a_token_that_may_not_read_billing_is_told_which_permission_it_lacks(account: Services) -> None:
    """Neither it nor an answer that is none is repeated."""
    with pytest.raises(NotPermitted, match="token"):
        account.zerogpu_quota(token=BOB)
    with pytest.raises(BadArgument, match="large"):
        account.zerogpu_quota(size="huge")


@pytest.mark.parametrize(
    "quota", [{"base": -1, "current": 3}, {"base": 1}, {"base": "x", "current": 2}, {"base": 1, "current": 1e400}, [1]]
)
def test_an_answer_that_is_no_quota_is_refused(hub: SpaceStandIn, account: Services, quota: Any) -> None:
    """Fields that are missing, no number, negative or endless."""
    hub.people[ADA].quota = quota
    with pytest.raises(HubGarbage):
        account.zerogpu_quota(token=ADA)


def test_the_card_has_the_line_to_copy() -> None:
    """And each check."""
    answer = bind_arguments(zerogpu_quota, App(catalog=load, models=Models()))(call_s=30)
    card = quota_card(answer)
    assert "duration=42" in card
    assert card.count("<li>") == len(answer.checks) == 6
    json.dumps([check.values for check in answer.checks], default=str)
