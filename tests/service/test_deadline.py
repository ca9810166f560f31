"""Work that takes too long is stopped; everything else passes through."""

from __future__ import annotations

import threading
import time

import pytest

from lib.errors import BadConfig, UnsupportedModel
from lib.service.deadline import within


def endless() -> None:
    """A loop that takes whatever ordinary exception comes for its own."""
    while True:
        try:
            sum(range(1000))
        except Exception:  # noqa: BLE001, S112 as modelling code does
            continue


def test_endless_work_is_stopped_with_a_sentence() -> None:
    """A loop in Python that catches every `Exception` ends all the same, and soon."""
    began = time.perf_counter()
    with pytest.raises(BadConfig, match=r"takes more than 0\.2 s"):
        within(0.2, endless)
    assert time.perf_counter() - began < 5


def test_results_and_refusals_pass_through() -> None:
    """What is finished in time is not touched, nor is what comes after it."""

    def refuse() -> None:
        raise UnsupportedModel("no")

    assert within(0.05, lambda: 7) == 7
    with pytest.raises(UnsupportedModel, match="no"):
        within(0.05, refuse)
    until = time.perf_counter() + 0.2
    while time.perf_counter() < until:
        pass


def test_only_the_thread_that_works_is_stopped() -> None:
    """Another thread goes on."""
    finished = threading.Event()

    def other() -> None:
        until = time.perf_counter() + 0.5
        while time.perf_counter() < until:
            pass
        finished.set()

    beside = threading.Thread(target=other)
    beside.start()
    with pytest.raises(BadConfig):
        within(0.1, endless)
    beside.join()
    assert finished.is_set()
