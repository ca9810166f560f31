"""A Hub with people and Spaces, and the account questions that ask it; shared by the tests of `lib.service.space_actions`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from space_stand_in import FakeSpace, Person, SpaceStandIn
from written import Written

from lib.catalog import Catalog, load
from lib.errors import RepoNotFound
from lib.hub.spaces import Spaces
from lib.model import bundled
from lib.model.resolve import resolve_count
from lib.model.spec import ModelSpec
from lib.service.app import Services
from lib.service.endpoint import App, Time
from lib.service.reference import read_reference

ADA, READER, OAUTH, BOB = "hf_ada", "hf_ada_read", "hf_ada_oauth", "hf_bob"


@dataclass
class Hand:
    """A clock that only moves when somebody waits."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        """Wait: nothing else makes time pass."""
        assert seconds > 0
        self.now += seconds

    @property
    def time(self) -> Time:
        """As the watch takes it."""
        return Time(clock=lambda: self.now, sleep=self.sleep)


def add_people(hub: SpaceStandIn) -> SpaceStandIn:
    """Ada (PRO, in a Team organization), a token of hers that only reads, one of a sign-in, and Bob, who cannot pay."""
    hub.people |= {
        ADA: Person(name="ada", is_pro=True, orgs={"engines": "team", "friends": None}),
        READER: Person(name="ada", kind="read", is_pro=True),
        OAUTH: Person(name="ada", kind="oauth", is_pro=True),
        BOB: Person(name="bob", can_pay=False),
    }
    hub.add_space(FakeSpace(id="ada/chat", models=["meta-llama/Llama-3.1-8B-Instruct"]))
    hub.add_space(
        FakeSpace(id="ada/large", hardware="a100-large", requested="a100-large", sleep_s=None, models=["Qwen/Qwen2.5-7B-Instruct"])
    )
    hub.add_space(FakeSpace(id="ada/paused", stage="PAUSED", hardware=None, requested="l4x1", sleep_s=3600))
    hub.add_space(FakeSpace(id="ada/many", hardware="t4-small", requested="t4-small", sleep_s=3600, replicas=3))
    hub.add_space(FakeSpace(id="ada/zero", hardware="zero-a10g", requested="zero-a10g", sleep_s=None))
    hub.add_space(FakeSpace(id="ada/secret", private=True))
    hub.add_space(FakeSpace(id="ada/page", sdk="static", hardware=None, requested=None, sleep_s=None, replicas=None))
    hub.add_space(FakeSpace(id="ada/docker", sdk="docker"))
    hub.add_space(FakeSpace(id="bob/app"))
    return hub


def at_hand(model: object) -> ModelSpec:
    """Models that need no network: the bundled ones and bare counts; no other is on the Hub."""
    reference = read_reference(model)
    if reference.kind == "count":
        return resolve_count(reference.text)
    spec = bundled.find_spec(reference.text)
    if spec is None:
        raise RepoNotFound(f"There is no public model '{reference.text}'.")
    return spec


def no_models(model: object) -> ModelSpec:
    """Where no model is asked for."""
    raise AssertionError(f"nobody asked for {model}")


def build_account(
    hub: SpaceStandIn,
    *,
    today: Callable[[], Catalog] | None = None,
    hand: Hand | None = None,
    models: Callable[[object], ModelSpec] = at_hand,
) -> Any:
    """The questions, with the bundled catalog and this Hub, answered in JSON."""
    app = App(
        catalog=load,
        models=models,  # type: ignore[arg-type]
        refreshed_catalog=today,
        spaces=lambda token: Spaces(token, hub.url),
        time=Time() if hand is None else hand.time,
    )
    return Written(Services(app))
