"""`/right_size`: which model decides, and the pick beside the current tier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from account_world import ADA, add_people, build_account
from space_stand_in import FakeSpace, SpaceStandIn

from lib.errors import AgainstRules, BadArgument, RepoNotFound, UnknownModel
from lib.service.app import Services

LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen2.5-7B-Instruct"


@pytest.fixture(scope="module")
def hub() -> Iterator[SpaceStandIn]:
    """Nobody changes anything here."""
    with SpaceStandIn() as hub:
        yield add_people(hub)


@pytest.fixture(scope="module")
def account(hub: SpaceStandIn) -> Services:
    """The questions to it; models are those of the bundled catalog."""
    return build_account(hub)


def space(hub: SpaceStandIn, name: str, hardware: str, models: list[str], **more: Any) -> str:
    """One more Space."""
    return hub.add_space(FakeSpace(id=f"ada/{name}", hardware=hardware, requested=hardware, models=models, **more)).id


def codes(entries: list[Any]) -> list[str]:
    """The codes of reasons or caveats."""
    return [entry["code"] for entry in entries]


def test_too_large_a_tier_can_be_left(hub: SpaceStandIn, account: Services) -> None:
    """Qwen 2.5 7B on one A100 80 GB, PRO account: the saving is the A100's month, 2.50 x 720 = 1800, less the pick's."""
    found = account.right_size("ada/large", account="pro")
    assert (found["decision"], found["model"], found["current"]["hardware"]) == ("move", QWEN, "a100-large")
    assert found["current"]["fits"] is True
    assert found["current"]["total_usd_per_month"] == 1800.0
    pick = found["pick"]
    assert pick is not None
    assert found["saving_usd_per_month"] == pytest.approx(1800.0 - pick["cost"]["total_usd_per_month"])
    assert found["saving_usd_per_month"] > 0
    assert codes(found["reasons"])[0] == "saves"
    assert found["ranked"][0] == pick
    assert "authorization" not in hub.requests[-1].headers


def test_too_small_a_tier_has_a_reason_to_move_up(hub: SpaceStandIn, account: Services) -> None:
    """Llama 3.1 70B on a T4: 16 GB hold it in no precision; the extra cost is named as a negative saving."""
    name = space(hub, "small", "t4-small", ["meta-llama/Llama-3.1-70B-Instruct"])
    found = account.right_size(name, requests_per_day=100_000)
    assert (found["decision"], found["current"]["fits"], found["current"]["entry"]) == ("move", False, None)
    assert "Too small" in found["current"]["reason"]
    assert codes(found["reasons"])[:2] == ["current_does_not_do_it", "costs_more"]
    assert found["saving_usd_per_month"] is not None
    assert found["saving_usd_per_month"] < 0


def test_the_pick_itself_stays(hub: SpaceStandIn, account: Services) -> None:
    """Whatever is picked for a model: a Space on it is told to stay, and saves nothing."""
    first = account.right_size("ada/large", priority="cheapest", requests_per_day=100_000)
    assert first["pick"] is not None
    found = account.right_size(space(hub, "right", first["pick"]["hardware"], [QWEN]), priority="cheapest", requests_per_day=100_000)
    assert (found["decision"], found["saving_usd_per_month"], found["reasons"][0]["code"]) == ("stay", 0.0, "stay")
    why = [reason for reason in found["pick"]["reasons"] if reason["code"] not in {"why_not_free", "price_old"}]  # said of the pick
    assert found["current"]["entry"] == {**found["pick"], "reasons": why}


def test_a_space_that_is_on_the_free_cpu_may_stay_there(hub: SpaceStandIn, account: Services) -> None:
    """Only creating one there takes a plan: an encoder that costs nothing today is not moved to 0.03 x 720 = 21.60 a month."""
    small = "sentence-transformers/all-MiniLM-L6-v2"
    found = account.right_size(space(hub, "free", "cpu-basic", [small], sdk="docker"), account="free", priority="cheapest")
    assert (found["decision"], found["current"]["fits"], found["saving_usd_per_month"]) == ("stay", True, 0.0)
    other = account.right_size(space(hub, "paid", "cpu-upgrade", [small], sdk="docker"), account="free", priority="cheapest")
    assert "cpu_basic_needs_plan" in {row["reason_code"] for row in other["rejected"]}  # for one that is not there yet, not settled


def test_the_model_that_needs_the_most_decides(hub: SpaceStandIn, account: Services) -> None:
    """8.03 billion parameters against 7.62; one that nobody can resolve is left out, and said."""
    name = space(hub, "several", "l4x1", [QWEN, LLAMA, "no-such-owner/no-such-model"])
    found = account.right_size(name)
    sizes = {one["id"]: one["total_bytes"] for one in found["models"]}
    assert set(sizes) == {QWEN, LLAMA}
    assert sizes[LLAMA] > sizes[QWEN]
    assert found["model"] == LLAMA
    assert {"largest_decides", "model_left_out"} <= set(codes(found["caveats"]))
    assert "no-such-owner/no-such-model" in next(c["message"] for c in found["caveats"] if c["code"] == "model_left_out")


def test_a_named_model_wins_over_the_linked_ones(account: Services) -> None:
    """The linked ones are not even read."""
    found = account.right_size("ada/large", "350M")
    assert [one["id"] for one in found["models"]] == [found["model"]]
    assert found["model"] != QWEN


def test_no_model_at_all(account: Services) -> None:
    """Nothing linked and nothing named: what to name is said."""
    with pytest.raises(BadArgument, match="ada/zero links none"):
        account.right_size("ada/zero")


def test_none_that_can_be_resolved(hub: SpaceStandIn, account: Services) -> None:
    """The last refusal is the answer."""
    with pytest.raises(RepoNotFound, match="no-such-owner/no-such-model"):
        account.right_size(space(hub, "lost", "l4x1", ["no-such-owner/no-such-model"]))


def test_docker_gets_no_zerogpu(hub: SpaceStandIn, account: Services) -> None:
    """ZeroGPU stands among the rejected, with the SDK as its reason."""
    found = account.right_size(space(hub, "image", "l4x1", [QWEN], sdk="docker"))
    assert all(entry["platform"] != "zerogpu" for entry in found["ranked"])
    assert {row["reason_code"] for row in found["rejected"] if row["platform"] == "zerogpu"} == {"zerogpu_gradio_only"}


def test_zerogpu_is_one_tier_with_two_sizes(hub: SpaceStandIn, account: Services) -> None:
    """A Space on it whose pick is one of its sizes stays where it is."""
    found = account.right_size(
        space(hub, "zeroed", "zero-a10g", [QWEN], sleep_s=None), account="pro", requests_per_day=10, platforms="zerogpu"
    )
    assert found["pick"] is not None
    assert found["pick"]["platform"] == "zerogpu"
    assert (found["decision"], found["saving_usd_per_month"]) == ("stay", 0.0)


def test_the_current_tier_is_judged_when_its_platform_was_not_asked_for(account: Services) -> None:
    """Endpoints only: the A100 Space is still judged, and the pick is said to be elsewhere."""
    found = account.right_size("ada/large", platforms="endpoints")
    assert found["current"]["fits"] is True
    assert {entry["platform"] for entry in found["ranked"]} == {"endpoints"}
    assert "pick_elsewhere" in codes(found["reasons"])


def test_nothing_does_it(account: Services) -> None:
    """A trillion parameters within a dollar a month: no pick, no saving, the rejected say why."""
    found = account.right_size("ada/large", "1T", max_usd_per_month=1, account="pro")
    assert (found["decision"], found["pick"], found["saving_usd_per_month"]) == ("none", None, None)
    assert codes(found["reasons"]) == ["nothing_fits_here"]
    assert found["rejected"]


def test_a_tier_that_is_not_known_is_not_judged(hub: SpaceStandIn, account: Services) -> None:
    """Withdrawn or new: the recommendation stands alone, and no saving is made up."""
    for hardware in ("h100", "quantum-x1"):
        found = account.right_size(space(hub, hardware, hardware, [QWEN]), account="pro")
        assert (found["current"]["fits"], found["saving_usd_per_month"], found["decision"]) == (None, None, "move")
        assert codes(found["reasons"])[0] == "current_not_judged"


def test_replicas_sleep_and_changes_are_told(hub: SpaceStandIn, account: Services) -> None:
    """The months are those of one replica that never sleeps, on the tier the Space is bound for."""
    hub.add_space(
        FakeSpace(id="ada/busy", stage="RUNNING_BUILDING", hardware="t4-small", requested="l4x1", sleep_s=900, replicas=2, models=[QWEN])
    )
    found = account.right_size("ada/busy")
    assert found["current"]["hardware"] == "l4x1"
    assert {"replicas", "sleeps", "changing"} <= set(codes(found["caveats"]))


def test_refusals(account: Services) -> None:
    """Static Spaces have no hardware; wrong arguments are refused before the Hub is asked."""
    with pytest.raises(AgainstRules, match="static Space"):
        account.right_size("ada/page", "7B")
    with pytest.raises(BadArgument, match="model was"):
        account.right_size("ada/large", 7)  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="priority was"):
        account.right_size("ada/large", priority="soon")  # type: ignore[arg-type]
    with pytest.raises(UnknownModel):
        account.right_size("ada/large", "not a model at all!")


def test_a_private_space_with_its_owners_token(hub: SpaceStandIn, account: Services) -> None:
    """The token goes to the Space's address only, not to the models'."""
    asked = len(hub.requests)
    assert account.right_size("ada/secret", "7B", token=ADA)["space"] == "ada/secret"
    sent = [request for request in hub.requests[asked:] if "authorization" in request.headers]
    assert sent
    assert all(request.path.startswith("/api/spaces/ada/secret") for request in sent)
