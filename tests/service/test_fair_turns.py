"""Turns are shared out by caller."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lib.errors import Busy
from lib.service.fair_turns import FairTurns


def _refusal() -> Busy:
    return Busy("not now")


def test_a_caller_who_asks_for_much_leaves_a_turn_to_others() -> None:
    """One of two turns is all that the same caller has at once; another's is granted at once."""
    turns = FairTurns(2, places=4, own_places=2)
    with turns.turn("greedy", 0, _refusal):
        with pytest.raises(Busy), turns.turn("greedy", 0.01, _refusal):
            pass
        with turns.turn(None, 0, _refusal):  # where nobody tells callers apart, they are one
            pass


def test_those_who_wait_are_served_caller_by_caller() -> None:
    """Two wait of the first caller, then one of the second: the second is served before the first's second."""
    turns, served = FairTurns(1, places=4, own_places=2), list[str]()
    order: list[Future[None]] = []

    def ask(caller: str, name: str) -> None:
        with turns.turn(caller, 60, _refusal):
            served.append(name)

    with ThreadPoolExecutor() as pool, turns.turn("somebody", 0, _refusal):
        for caller, name in (("greedy", "first"), ("greedy", "second"), ("visitor", "third")):
            waiting = len(turns._line)
            order.append(pool.submit(ask, caller, name))
            while len(turns._line) == waiting:
                threading.Event().wait(0.001)
    for one in order:
        one.result(60)
    assert served == ["first", "third", "second"]


def test_the_line_is_bounded_for_all_and_for_each() -> None:
    """Who finds it full is refused at once, and holds no thread; those who gave up are in it no longer."""
    turns = FairTurns(1, places=3, own_places=2)
    with ThreadPoolExecutor() as pool, ExitStack() as held:
        held.enter_context(turns.turn("somebody", 0, _refusal))

        def wait(caller: str) -> None:
            with turns.turn(caller, 60, _refusal):
                pass

        for caller in ("greedy", "greedy", "visitor"):
            pool.submit(wait, caller)
        while len(turns._line) < 3:
            threading.Event().wait(0.001)
        for caller in ("greedy", "another"):
            with pytest.raises(Busy), turns.turn(caller, 60, _refusal):
                pass
        held.close()
    with turns.turn("somebody", 0, _refusal):
        pass
    assert not turns._line
