"""What whoever runs the app sees and decides: its health, and whether Spaces can be changed from here."""

from __future__ import annotations

import inspect
from datetime import date, timedelta

import pytest

from lib.catalog import load
from lib.errors import BadArgument, SwitchedOff
from lib.service.app import Services, services
from lib.service.endpoint import App
from lib.service.models import Models

ACTIONS = ("switch_hardware", "set_sleep_time", "pause_space", "restart_space", "stop_resource")


def test_health_says_how_old_the_prices_are() -> None:
    """Ten days after the oldest bundled price was checked; the rest is what the catalog and the machine say."""
    made = Services(App(catalog=load, models=Models()))
    checked = date.fromisoformat(load().prices["spaces"].oldest)
    health = made.health(checked + timedelta(days=10))
    assert health["prices_age_days"] == 10
    assert (health["status"], health["prices"], health["prices_checked"]) == ("ok", "bundled", checked.isoformat())
    assert (health["catalog"], health["device"] in {"cpu", "cuda", "zerogpu"}) == (load().as_of, True)


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_that_is_switched_off_refuses_whatever_it_is_asked(name: str) -> None:
    """With a token and without one, before anything of the call is looked at; callers are shown the same arguments."""
    on, off = (Services(App(catalog=load, models=Models(), account_actions=acts)).account for acts in (True, False))
    for arguments in ({}, {"space_id": "ada/chat", "token": "hf_ada"}, {"nonsense": 1}):
        with pytest.raises(SwitchedOff, match="ACCOUNT_ACTIONS=0"):
            getattr(off, name)(**arguments)
    assert inspect.signature(getattr(off, name)) == inspect.signature(getattr(on, name))
    assert getattr(off, name).__doc__ == getattr(on, name).__doc__


def test_looking_is_offered_all_the_same() -> None:
    """Only what changes something is switched off."""
    off = Services(App(catalog=load, models=Models(), account_actions=False)).account
    with pytest.raises(BadArgument):
        off.space_status("not a Space", token=None)


@pytest.mark.parametrize(("value", "acts"), [("0", False), ("1", True), ("", True)])
def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, value: str, acts: bool) -> None:
    """Actions are on unless the variable says 0."""
    monkeypatch.setenv("ACCOUNT_ACTIONS", value)
    assert services().account_actions is acts
