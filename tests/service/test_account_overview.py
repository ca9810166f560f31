"""`/account_overview` and `/stop_resource`, through the real client to the stand-in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from account_world import ADA, OAUTH, READER, add_people, build_account, no_models
from hub_stand_in import Fault
from space_stand_in import FakeEndpoint, FakeSpace, RunningJob, SpaceStandIn

from lib.errors import BadArgument, NotPermitted, NotSignedIn, RepoNotFound
from lib.service.app import Services


@pytest.fixture
def hub() -> Iterator[SpaceStandIn]:
    """Ada's Spaces, two Endpoints (one scaled to zero) and a Job."""
    with SpaceStandIn() as hub:
        add_people(hub)
        hub.add_endpoint(FakeEndpoint(id="ada/llama"))
        hub.add_endpoint(FakeEndpoint(id="ada/nightly", state="scaledToZero", instance="nvidia-a100", least=0, replicas=0, idle_minutes=15))
        hub.add_job(RunningJob(id="ada/687fb701"))
        hub.add_job(RunningJob(id="ada/687fb702", stage="COMPLETED"))
        yield hub


@pytest.fixture
def account(hub: SpaceStandIn) -> Services:
    """The questions to it."""
    return build_account(hub, models=no_models)


def by_name(found: Any) -> dict[str, Any]:
    """The rows of an answer by name."""
    return {entry["name"]: entry for entry in found["resources"]}


def test_everything_that_the_account_pays_for(hub: SpaceStandIn, account: Services) -> None:
    """Dearest first: A100 2.50, three T4 at 0.40 = 1.20, a Job's A10G 1.00, an Endpoint's L4 0.80; together 5.50 an hour.

    A month of 720 hours without the Job: (2.5 + 1.2 + 0.8) · 720 = 3240.
    """
    found = account.account_overview(token=ADA)
    assert [entry["name"] for entry in found["resources"]][:4] == ["ada/large", "ada/many", "ada/687fb701", "ada/llama"]
    assert (found["usd_per_hour"], found["usd_per_month"], found["always_on"]) == (5.5, 3240.0, 2)
    assert (found["account"], found["organizations"], found["not_listed"]) == ("ada", ["engines", "friends"], [])
    assert {seen.headers["authorization"] for seen in hub.requests} == {f"Bearer {ADA}"}


def test_what_idles(account: Services) -> None:
    """Each way to idle, with the sentence that the Space's own card has."""
    rows = by_name(account.account_overview(token=ADA))
    idling = {name: rows[f"ada/{name}"]["idling"] for name in ("large", "many", "paused", "chat", "zero", "page", "llama", "nightly")}
    assert idling == {
        "large": "always_on", "many": "sleeps_after", "paused": "paused", "chat": "free", "zero": "free", "page": "free",
        "llama": "always_on", "nightly": "asleep",
    }  # fmt: skip
    assert rows["ada/687fb701"]["idling"] == "ends"
    assert rows["ada/large"]["idling_message"] == account.space_status("ada/large")["sleep_message"]
    assert (rows["ada/paused"]["usd_per_month"], rows["ada/paused"]["usd_per_month_running"]) == (0, 576.0)
    assert (rows["ada/687fb701"]["usd_per_month"], rows["ada/687fb701"]["since"]) == (None, "2026-11-21T09:00+00:00")


def test_without_a_token_nothing_is_asked(hub: SpaceStandIn, account: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own token never stands in."""
    monkeypatch.setenv("HF_TOKEN", ADA)
    with pytest.raises(NotSignedIn, match="your own Hugging Face token"):
        account.account_overview(token=None)
    with pytest.raises(NotSignedIn):
        account.stop_resource("job", "ada/687fb701", token="")
    assert hub.requests == []


def test_what_a_token_may_not_list_is_named(account: Services) -> None:
    """A sign-in has no scope for Endpoints and Jobs: the Spaces are there, and the sentence says which permission the others need."""
    found = account.account_overview(token=OAUTH)
    assert "ada/large" in by_name(found)
    assert [(one["kind"], one["code"]) for one in found["not_listed"]] == [("endpoint", "not_permitted"), ("job", "not_permitted")]
    assert "read access to Inference Endpoints" in found["not_listed"][0]["message"]
    assert OAUTH not in json.dumps(found)


def test_an_organization_of_ones_own_only(account: Services) -> None:
    """Another owner is refused with the names that are accepted."""
    assert account.account_overview("engines", token=ADA)["owner"] == "engines"
    with pytest.raises(BadArgument, match="ada, engines, friends"):
        account.account_overview("bob", token=ADA)


def test_long_lists_are_cut(hub: SpaceStandIn, account: Services) -> None:
    """500 of 600 Spaces are listed, and the answer says so, in however many pages the Hub sends them."""
    for number in range(600):
        hub.add_space(FakeSpace(id=f"engines/s{number}"))
    for page in (hub.page, 10):
        hub.page = page
        found = account.account_overview("engines", token=ADA)
        assert (len(found["resources"]), [caveat["code"] for caveat in found["caveats"]]) == (500, ["rows_left_out"])


def test_an_answer_that_cannot_be_read_is_named(hub: SpaceStandIn, account: Services) -> None:
    """The other kinds stand."""
    hub.faults["/v2/endpoint"] = Fault(body=b'{"items": [{"name": 7}]}')
    found = account.account_overview(token=ADA)
    assert [(one["kind"], one["code"]) for one in found["not_listed"]] == [("endpoint", "hub_garbage")]
    assert "ada/687fb701" in by_name(found)


def test_a_state_that_nobody_knows_has_no_bill(hub: SpaceStandIn, account: Services) -> None:
    """Whether it is billed is not known, so the sums leave it out and say so."""
    hub.add_endpoint(FakeEndpoint(id="ada/odd", state="updateFailed"))
    found = account.account_overview(token=ADA)
    row = by_name(found)["ada/odd"]
    assert (row["idling"], row["usd_per_hour"], row["can_stop"]) == ("unknown", None, True)
    assert found["usd_per_hour"] == 5.5
    assert "bill_unknown" in {caveat["code"] for caveat in found["caveats"]}


@pytest.mark.parametrize(
    ("kind", "name", "stage", "path"),
    [
        ("space", "ada/large", "PAUSED", "/api/spaces/ada/large/pause"),
        ("endpoint", "ada/llama", "paused", "/v2/endpoint/ada/llama/pause"),
        ("job", "ada/687fb701", "CANCELED", "/api/jobs/ada/687fb701/cancel"),
    ],
)
def test_stopping(hub: SpaceStandIn, account: Services, kind: str, name: str, stage: str, path: str) -> None:
    """One POST with the visitor's token; then it is not billed any more."""
    assert account.stop_resource(kind, name, token=ADA)["stage"] == stage
    assert [done for done, _ in hub.actions()] == [path]
    assert not by_name(account.account_overview(token=ADA)).get(name, {}).get("usd_per_hour")


@pytest.mark.parametrize(("kind", "name"), [("space", "ada/large"), ("endpoint", "ada/llama"), ("job", "ada/687fb701")])
def test_a_token_that_only_reads_stops_nothing(account: Services, kind: str, name: str) -> None:
    """The Hub's refusal comes with what the token lacks."""
    with pytest.raises(NotPermitted, match="may not"):
        account.stop_resource(kind, name, token=READER)


def test_what_is_not_there(account: Services) -> None:
    """Refused by the Hub, or before it is asked."""
    with pytest.raises(RepoNotFound, match="cancel 'ada/none'"):
        account.stop_resource("job", "ada/none", token=ADA)
    with pytest.raises(BadArgument, match="space, endpoint"):
        account.stop_resource("bucket", "ada/x", token=ADA)
    with pytest.raises(BadArgument, match=r"^name was '\.\./x'\. Accepted: owner/name, as /account_overview names it\."):
        account.stop_resource("job", "../x", token=ADA)
