"""Slow answers are worked out once, by one worker, for a bounded number of callers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib.errors import Busy, UnknownModel
from lib.service.single_flight import SingleFlight


def fresh(*, waiting: int = 8, patience: float = 5.0, keep: int = 2) -> SingleFlight[str]:
    """A memory for tests."""
    return SingleFlight(keep=keep, workers=1, waiting=waiting, patience=patience, name="test")


def test_the_same_question_asked_by_many_is_worked_out_once() -> None:
    """Eight callers at the same time, one piece of work."""
    once, calls, gate = fresh(), [], threading.Event()

    def work() -> str:
        calls.append(1)
        gate.wait(5)
        return "answer"

    with ThreadPoolExecutor(8) as callers:
        answers = [callers.submit(once, "key", work) for _ in range(8)]
        gate.set()
        assert {answer.result(5) for answer in answers} == {"answer"}
    assert len(calls) == 1


def test_what_is_known_is_not_worked_out_again() -> None:
    """The second call finds the result of the first."""
    once = fresh()
    assert once("key", lambda: "first") == "first"
    assert once("key", lambda: "second") == "first"


def test_the_least_recently_used_gives_way() -> None:
    """Room for two: a, b, a again, then c pushes b out."""
    once = fresh(keep=2)
    once("a", lambda: "a")
    once("b", lambda: "b")
    once("a", lambda: "again")
    once("c", lambda: "c")
    assert once.known("a") == "a"
    assert once.known("b") is None


def test_a_refusal_is_passed_on_and_not_remembered() -> None:
    """The next caller may have better luck (the Hub may be back)."""
    once = fresh()

    def refuse() -> str:
        raise UnknownModel("no")

    with pytest.raises(UnknownModel):
        once("key", refuse)
    assert once("key", lambda: "now") == "now"


def test_more_callers_than_may_wait_are_refused_at_once_and_known_answers_still_come() -> None:
    """One caller holds the only place; another key is refused; what is known needs no place."""
    once, gate, begun = fresh(waiting=1), threading.Event(), threading.Event()
    once("known", lambda: "answer")

    def slow() -> str:
        begun.set()
        gate.wait(5)
        return "slow"

    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(once, "slow", slow)
        begun.wait(5)
        with pytest.raises(Busy):
            once("other", lambda: "other")
        assert once("known", lambda: "again") == "answer"
        gate.set()
        assert waiting.result(5) == "slow"


def test_who_waited_too_long_is_refused_and_the_work_goes_on() -> None:
    """The caller gets a sentence after its patience; a later call finds the finished result."""
    once, gate = fresh(patience=0.05), threading.Event()

    def slow() -> str:
        gate.wait(5)
        return "slow"

    with pytest.raises(Busy):
        once("key", slow)
    gate.set()
    for _ in range(100):
        if once.known("key"):
            break
        threading.Event().wait(0.02)
    assert once("key", lambda: "again") == "slow"
