"""Slow answers are worked out once, by one worker, for a bounded number of callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lib.errors import Busy, UnknownModel
from lib.service.fair_turns import CALLER_GONE, FairTurns, SecondsUsed, anonymous_caller
from lib.service.single_flight import SingleFlight


def make_flight(
    *,
    waiting: int = 8,
    patience: float = 5.0,
    keep: int = 2,
    caller: Callable[[], object] = anonymous_caller,
    used: SecondsUsed | None = None,
) -> SingleFlight[str]:
    """A memory for tests."""
    return SingleFlight(keep=keep, workers=1, waiting=waiting, patience=patience, name="test", caller=caller, used=used)


def test_the_same_question_asked_by_many_is_worked_out_once() -> None:
    """Eight callers at the same time, one piece of work."""
    once, calls, gate = make_flight(), [], threading.Event()

    def work() -> str:
        calls.append(1)
        gate.wait(5)
        return "answer"

    with ThreadPoolExecutor(8) as callers:
        answers = [callers.submit(once, "key", work) for _ in range(8)]
        gate.set()
        assert {answer.result(5) for answer in answers} == {"answer"}
    assert len(calls) == 1


def test_work_that_is_given_up_is_stopped_and_asked_anew_by_the_next() -> None:
    """What was stopped answers nobody who comes later."""
    once, stopped, begun = make_flight(), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert stopped.wait(60)
        raise UnknownModel("stopped")

    with once.ask("key", work, stopped.set):
        assert begun.wait(60)
    assert stopped.is_set()
    assert once("key", lambda: "anew") == "anew"


def test_what_is_known_is_not_worked_out_again() -> None:
    """The second call finds the result of the first."""
    once = make_flight()
    assert once("key", lambda: "first") == "first"
    assert once("key", lambda: "second") == "first"


def test_the_least_recently_used_gives_way() -> None:
    """Room for two: a, b, a again, then c pushes b out."""
    once = make_flight(keep=2)
    once("a", lambda: "a")
    once("b", lambda: "b")
    once("a", lambda: "again")
    once("c", lambda: "c")
    assert once.find_result("a") == "a"
    assert once.find_result("b") is None


def test_a_refusal_is_passed_on_and_not_remembered() -> None:
    """The next caller may have better luck (the Hub may be back)."""
    once = make_flight()

    def refuse() -> str:
        raise UnknownModel("no")

    with pytest.raises(UnknownModel):
        once("key", refuse)
    assert once("key", lambda: "now") == "now"


def test_more_callers_than_may_wait_are_refused_at_once_and_known_answers_still_come() -> None:
    """One caller holds the only place; another key is refused; what is known needs no place."""
    once, gate, begun = make_flight(waiting=1), threading.Event(), threading.Event()
    once("known", lambda: "answer")

    def wait_for_gate() -> str:
        begun.set()
        gate.wait(5)
        return "slow"

    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(once, "slow", wait_for_gate)
        begun.wait(5)
        with pytest.raises(Busy):
            once("other", lambda: "other")
        assert once("known", lambda: "again") == "answer"
        gate.set()
        assert waiting.result(5) == "slow"


def test_who_waited_too_long_is_refused_and_the_work_goes_on() -> None:
    """The caller gets a sentence after its patience; a later call finds the finished result."""
    once, gate = make_flight(patience=0.05), threading.Event()

    def wait_for_gate() -> str:
        gate.wait(5)
        return "slow"

    with pytest.raises(Busy):
        once("key", wait_for_gate)
    gate.set()
    for _ in range(100):
        if once.find_result("key"):
            break
        threading.Event().wait(0.02)
    assert once("key", lambda: "again") == "slow"


class Crowd:
    """Callers on threads before one worker, which is held until `done`; `order` is what was worked out, in that order."""

    def __init__(self, waiting: int, used: SecondsUsed | None = None) -> None:
        """Nobody waits yet; the worker is held."""
        self._who, self._threads, self.order = threading.local(), ThreadPoolExecutor(16), []  # type: ignore[var-annotated]
        self.once = make_flight(waiting=waiting, caller=lambda: self._who.name, used=used)
        self._done, begun = threading.Event(), threading.Event()
        self.held = self.ask("stranger", "held", lambda: begun.set() or self._done.wait(5))  # type: ignore[func-returns-value]
        begun.wait(5)

    def ask(self, caller: str, key: str, first: Callable[[], object] = lambda: None) -> Future[str]:
        """A question of a caller's; returns when it waits or was refused."""

        def work() -> str:
            first()
            self.order.append(key)
            return key

        def ask_as_caller() -> str:
            self._who.name = caller
            return self.once(key, work)

        answer = self._threads.submit(ask_as_caller)
        until = time.monotonic() + 60
        while key not in self.once._flights and not answer.done() and time.monotonic() < until:
            time.sleep(0.001)
        return answer

    def release(self) -> None:
        """Let the worker go on."""
        self._done.set()
        self._threads.shutdown(wait=True)


def test_callers_take_turns_whoever_asked_more_often() -> None:
    """A stranger has three questions in line before a visitor's one and another's two: each caller's oldest comes first, in rounds."""
    crowd = Crowd(waiting=16)
    for caller, key in [("stranger", "s1"), ("stranger", "s2"), ("stranger", "s3"), ("ada", "a1"), ("bob", "b1"), ("bob", "b2")]:
        crowd.ask(caller, key)
    crowd.release()
    assert crowd.order == ["held", "s1", "a1", "b1", "s2", "b2", "s3"]


def test_a_caller_whose_questions_took_long_goes_behind_the_others() -> None:
    """Five callers with heavy questions stand first in line; a visitor who used 0.4 s comes before all of them."""
    used = SecondsUsed()
    for number in range(5):
        used.add(f"s{number}", 20.0)
    used.add("ada", 0.4)
    crowd = Crowd(waiting=16, used=used)
    for number in range(5):
        crowd.ask(f"s{number}", f"heavy {number}")
    crowd.ask("ada", "small")
    crowd.release()
    assert crowd.order == ["held", "small", *(f"heavy {number}" for number in range(5))]


def test_seconds_of_work_count_for_whoever_asked() -> None:
    """They are known to every line that shares them."""
    used = SecondsUsed()
    used.add("ada", 0.9)
    assert used.rank("ada") == used.rank("bob") == 0
    once, began = make_flight(used=used), time.monotonic()
    once("key", lambda: str(threading.Event().wait(0.05)))
    assert 0.05 <= used._seconds[None] <= time.monotonic() - began


def test_a_closed_connection_leaves_the_line_and_stops_its_work() -> None:
    """The one behind it in line is never begun; the one under way is told to stop; turns are left too."""
    once, begun, stopped, ended = make_flight(patience=60), threading.Event(), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert ended.wait(60)  # not before both have left: a free worker would begin the one behind
        return "late"

    def ask(key: str) -> str:
        CALLER_GONE.set(begun.is_set)
        return once(key, work if key == "under way" else lambda: pytest.fail("begun for nobody"), stopped.set)

    with ThreadPoolExecutor() as pool:
        under_way = pool.submit(ask, "under way")
        assert begun.wait(60)
        for answer in (under_way, pool.submit(ask, "behind")):
            with pytest.raises(Busy, match="connection was closed"):
                answer.result(60)
        assert stopped.is_set()
        ended.set()
    turns = FairTurns(1, queue_slots=2, own_queue_slots=2)
    with ThreadPoolExecutor() as pool, turns.turn("somebody", 0, _refusal):

        def wait_for_turn() -> None:
            CALLER_GONE.set(lambda: True)
            with turns.turn("gone", 60, _refusal):
                pytest.fail("a turn for nobody")

        with pytest.raises(Busy, match="connection was closed"):
            pool.submit(wait_for_turn).result(60)
    assert not turns._turns.waiting


def test_a_full_line_takes_a_place_from_whoever_has_the_most() -> None:
    """Four places, all the stranger's: a visitor gets the newest of them, the stranger no fifth, and both are told why."""
    crowd = Crowd(waiting=4)
    own = [crowd.ask("stranger", f"s{at}") for at in range(3)]
    with pytest.raises(Busy, match="4 questions about new models wait already, 4 of them from your account"):
        crowd.ask("stranger", "s3").result(5)
    visitor = crowd.ask("ada", "a0")
    with pytest.raises(Busy, match="4 of them from your account"):
        own[2].result(5)
    crowd.release()
    assert (visitor.result(5), crowd.order) == ("a0", ["held", "s0", "a0", "s1"])


def test_who_waited_too_long_is_told_the_place_and_is_not_worked_out() -> None:
    """Nobody waits for the answer any more, so the worker is spared it."""
    once, done, begun = make_flight(patience=0.2), threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as other:
        held = other.submit(once, "held", lambda: str(begun.set() or done.wait(5)))
        begun.wait(5)
        with pytest.raises(Busy, match="this one still has 0 others before it"):
            once("late", lambda: pytest.fail("worked out for nobody"))
        done.set()
        with pytest.raises(Busy, match="being worked out only now"):
            held.result(5)


def _refusal() -> Busy:
    return Busy("not now")


def test_a_caller_who_asks_for_much_leaves_a_turn_to_others() -> None:
    """One of two turns is all that the same caller has at once; another's is granted at once."""
    turns = FairTurns(2, queue_slots=4, own_queue_slots=2)
    with turns.turn("greedy", 0, _refusal):
        with pytest.raises(Busy), turns.turn("greedy", 0.01, _refusal):
            pass
        with turns.turn(None, 0, _refusal):  # where nobody tells callers apart, they are one
            pass


def test_two_callers_who_hold_all_turns_keep_a_third_waiting_for_a_moment_only() -> None:
    """Two callers have three turns each, which is all that one may have; when one of them ends, the third caller is next."""
    turns = FairTurns(6, queue_slots=9, own_queue_slots=3, own_width=3)
    with ExitStack() as held, ThreadPoolExecutor() as pool:
        first = held.enter_context(ExitStack())
        for number in range(6):
            (first if number == 0 else held).enter_context(turns.turn(f"stranger {number % 2}", 0, _refusal))

        def ask(caller: str) -> str:
            with turns.turn(caller, 60, _refusal):
                return caller

        asked = []
        for caller in ("stranger 0", "ada"):
            asked.append(pool.submit(ask, caller))
            while len(turns._turns.waiting) < len(asked):
                threading.Event().wait(0.001)
        first.close()
        assert asked[1].result(60) == "ada"
        held.close()


def test_those_who_wait_are_served_caller_by_caller() -> None:
    """Two wait of the first caller, then one of the second: the second is served before the first's second."""
    turns, served = FairTurns(1, queue_slots=4, own_queue_slots=2), list[str]()
    order: list[Future[None]] = []

    def ask(caller: str, name: str) -> None:
        with turns.turn(caller, 60, _refusal):
            served.append(name)

    with ThreadPoolExecutor() as pool, turns.turn("somebody", 0, _refusal):
        for caller, name in (("greedy", "first"), ("greedy", "second"), ("visitor", "third")):
            waiting = len(turns._turns.waiting)
            order.append(pool.submit(ask, caller, name))
            while len(turns._turns.waiting) == waiting:
                threading.Event().wait(0.001)
    for one in order:
        one.result(60)
    assert served == ["first", "third", "second"]


def test_the_line_is_bounded_for_all_and_for_each() -> None:
    """Who finds it full is refused at once, and holds no thread; those who gave up are in it no longer."""
    turns = FairTurns(1, queue_slots=3, own_queue_slots=2)
    with ThreadPoolExecutor() as pool, ExitStack() as held:
        held.enter_context(turns.turn("somebody", 0, _refusal))

        def wait(caller: str) -> None:
            with turns.turn(caller, 60, _refusal):
                pass

        for caller in ("greedy", "greedy", "visitor"):
            pool.submit(wait, caller)
        while len(turns._turns.waiting) < 3:
            threading.Event().wait(0.001)
        for caller in ("greedy", "another"):
            with pytest.raises(Busy), turns.turn(caller, 60, _refusal):
                pass
        held.close()
    with turns.turn("somebody", 0, _refusal):
        pass
    assert not turns._turns.waiting
