"""Who gets a thread next, told by order and not by the clock."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest

from lib.ui.http.callers import become_caller
from lib.ui.http.fair_queue import MOST_THREADS, OWN_THREADS, FairQueue, QueueFull, Threads


class Crowd:
    """Calls that hold a turn until they are let go."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue, self.running, self.refused = queue, list[str](), list[str]()
        self.turns: dict[str, list[anyio.Event]] = {}

    async def call(self, caller: str) -> None:
        """One call of this caller."""
        become_caller(caller)
        try:
            async with self.queue:
                self.running.append(caller)
                end = anyio.Event()
                self.turns.setdefault(caller, []).append(end)
                await end.wait()
        except QueueFull:
            self.refused.append(caller)

    async def end_one(self, caller: str) -> None:
        """Let the first running call of this caller end."""
        self.turns[caller].pop(0).set()
        await anyio.wait_all_tasks_blocked()


def run_crowd(queue: FairQueue, callers: Sequence[str], ends: Sequence[str] = ()) -> Crowd:
    """These callers call in this order; then calls of `ends` end, one after the other."""
    crowd = Crowd(queue)

    async def go() -> None:
        async with anyio.create_task_group() as group:
            for caller in callers:
                group.start_soon(crowd.call, caller)
                await anyio.wait_all_tasks_blocked()
            for caller in ends:
                await crowd.end_one(caller)
            group.cancel_scope.cancel()

    anyio.run(go)
    return crowd


def test_400_calls_of_one_caller_leave_threads_to_another() -> None:
    """Eight run, a bounded number wait, the others are refused, and another caller's call runs at once."""
    crowd = run_crowd(Threads().queue, ["stranger"] * 400 + ["ada"])
    assert crowd.running == ["stranger"] * OWN_THREADS + ["ada"]
    assert 200 < len(crowd.refused) < 400
    assert set(crowd.refused) == {"stranger"}


def test_callers_take_turns() -> None:
    """Who calls once goes before everybody's second."""
    crowd = run_crowd(FairQueue(1, 1, 1), ["a", "a", "a", "b", "c"], ends=["a", "a", "b", "c"])
    assert crowd.running == ["a", "a", "b", "c", "a"]


def test_beyond_the_width_there_is_a_reserve_for_callers_with_few_threads() -> None:
    """Six greedy callers do not hold all threads, so a seventh is served at once."""
    crowd = run_crowd(Threads().queue, [f"greedy {number}" for number in range(6) for _ in range(8)] + ["ada"])
    assert crowd.running[-1] == "ada"
    assert len(crowd.running) == 32 + 2 * 2 + 1 < MOST_THREADS


def test_300_callers_of_a_heavy_question_are_all_served() -> None:
    """They wait without a thread, and none is refused."""
    assert not run_crowd(FairQueue(6, 2, 14), [f"caller {number}" for number in range(300)]).refused


def test_a_call_that_is_given_up_leaves_the_queue() -> None:
    """Its place and its turn go to others."""
    queue = FairQueue(1, 1, 1)
    run_crowd(queue, ["a", "b", "c"])
    assert not queue._turns._running
    assert not queue._turns.waiting


def test_a_wait_ends_with_a_refusal() -> None:
    """Nobody waits for ever."""

    async def wait() -> None:
        queue = FairQueue(1, 1, 1, wait_s=0.01)
        async with queue, queue:
            raise AssertionError

    with pytest.raises(QueueFull, match="had no turn"):
        anyio.run(wait)
