"""What whoever runs the app sees and decides: its health, and whether Spaces can be changed from here."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from contextvars import ContextVar
from datetime import date, timedelta
from typing import Any

import pytest
from fuzz_runs import services_behind_stand_in
from written import written

from lib.catalog import load
from lib.errors import BadArgument, LiveError, RateLimited, SwitchedOff
from lib.service import app as module
from lib.service.app import Services, services
from lib.service.endpoint import App
from lib.service.fair_turns import CALLER_GONE
from lib.service.models import Models
from lib.ui.http.api import public_signature

ACTIONS = ("switch_hardware", "set_sleep_time", "pause_space", "restart_space", "stop_resource")


def test_health_says_how_old_the_prices_are() -> None:
    """Ten days after the oldest bundled price was checked; the rest is what the catalog and the machine say."""
    made = Services(App(catalog=load, models=Models()))
    checked = date.fromisoformat(load().prices["spaces"].checked)
    health = made.health(checked + timedelta(days=10))
    assert health.prices_age_days == 10
    assert (health.status, health.prices, health.prices_checked) == ("ok", "bundled", checked.isoformat())
    assert (health.catalog, health.device in {"cpu", "cuda", "zerogpu"}) == (load().as_of, True)


def test_two_addresses_that_hold_every_place_at_the_hub_deny_it_to_no_third_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One caller has half of the places. A caller who finds all taken waits, and is served when one becomes free."""
    who = ContextVar("who", default="ada")
    turn = services(who.get)._app.spaces.keywords["turn"]  # type: ignore[attr-defined]
    with ExitStack() as first, ExitStack() as others:
        for number in range(module.HUB_CALLS):
            who.set(f"stranger {number % 2}")
            (others if number else first).enter_context(turn())
        with monkeypatch.context() as patch:
            patch.setattr(module, "HUB_WAIT_S", 0.0)
            with pytest.raises(RateLimited, match="at the Hub at a time"):
                others.enter_context(turn())
        who.set("ada")
        asked = CALLER_GONE.set(lambda: bool(first.close()))  # looked at while ada waits
        others.enter_context(turn())
        CALLER_GONE.reset(asked)


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_that_is_switched_off_refuses_whatever_it_is_asked(name: str) -> None:
    """With a token and without one, before anything of the call is looked at; callers are shown the same arguments."""
    on, off = (Services(App(catalog=load, models=Models(), account_actions=acts)) for acts in (True, False))
    for arguments in ({}, {"space_id": "ada/chat", "token": "hf_ada"}, {"nonsense": 1}):
        with pytest.raises(SwitchedOff, match="ACCOUNT_ACTIONS=0"):
            getattr(off, name)(**arguments)
    assert inspect.signature(getattr(off, name)) == inspect.signature(getattr(on, name))
    assert getattr(off, name).__doc__ == getattr(on, name).__doc__


REQUIRED: dict[str, dict[str, Any]] = {
    "chat": {"message": "Hello"},
    "ways_to_save": {"model": "7B"},  # of which no provider is asked
    "compare": {"before": {"hardware": "l4x1"}, "after": {"hardware": "a10g-small"}},
    "switch_hardware": {"hardware": "l4x1", "confirm_usd_per_hour": 0.8},
    "set_sleep_time": {"space_id": "ada/large", "seconds": 3600},
    "stop_resource": {"kind": "job", "name": "ada/687fb701"},
    "explain": {"text": "torch.OutOfMemoryError: CUDA out of memory."},
    "estimate_batch": {"items": 1000},
}
"""Plausible values of what an endpoint has no default for, where they are not those of all."""


def test_what_a_schema_requires_is_all_that_is_needed() -> None:
    """Each endpoint with the arguments that have no default, on a machine where nothing runs: no refusal of another than the device's."""
    common = {"model": "Qwen/Qwen3-0.6B", "hardware": "l4x1", "space_id": "ada/chat"}
    with services_behind_stand_in() as made:
        for name, endpoint in made.endpoints().items():
            parameters = public_signature(endpoint.question).parameters
            needed = [key for key, parameter in parameters.items() if parameter.default is inspect.Parameter.empty]
            sent = {key: (common | REQUIRED.get(name, {}))[key] for key in needed} | ({"token": "hf_ada"} if endpoint.account else {})
            try:
                answer = written(endpoint.question)(**sent)
                assert list(answer)
            except LiveError:
                assert endpoint.queue is not None, name


def test_looking_is_offered_all_the_same() -> None:
    """Only what changes something is switched off."""
    off = Services(App(catalog=load, models=Models(), account_actions=False))
    with pytest.raises(BadArgument):
        off.space_status("not a Space", token=None)


@pytest.mark.parametrize(("value", "acts"), [("0", False), ("1", True), ("", True)])
def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, value: str, acts: bool) -> None:
    """Actions are on unless the variable says 0."""
    monkeypatch.setenv("ACCOUNT_ACTIONS", value)
    assert services().account_actions is acts
