"""Equal questions of `/recommend` are answered once, as long as model and prices are the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from lib import advisor
from lib.catalog import load
from lib.service.endpoint import App, bind_arguments
from lib.service.models import Models
from lib.service.recommend import recommend

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the advisor is asked from now on."""
    workloads: list[Any] = []
    answer = advisor.recommend

    def note(spec: Any, workload: Any, catalog: Any) -> Any:
        workloads.append(workload)
        return answer(spec, workload, catalog)

    monkeypatch.setattr(advisor, "recommend", note)
    return workloads


def test_the_same_question_is_answered_once_and_another_one_anew(asked: list[Any]) -> None:
    """The same arguments in other words are the same question; another context, another length of the lists or other prices are not."""
    catalog = load()
    prices = [replace(catalog)]  # a catalog of its own, whatever other tests asked
    ask = bind_arguments(recommend, App(catalog=lambda: prices[-1], models=Models()))
    first = ask(MODEL, context_tokens=4096, hours_per_day=24)
    assert ask(MODEL, hours_per_day=24.0) is first
    assert len(asked) == 1
    assert ask(MODEL, context_tokens=2048)["pick"] is not None
    assert len(ask(MODEL, limit=1)["ranked"]) == 1
    prices.append(replace(catalog))  # as a refresh of the prices does
    assert ask(MODEL) == first
    assert len(asked) == 4


def test_who_asks_meanwhile_waits_for_the_answer_of_the_first(asked: list[Any]) -> None:
    """Eight at the same time, one answer."""
    catalog, together = replace(load()), threading.Barrier(8)
    ask = bind_arguments(recommend, App(catalog=lambda: catalog, models=Models()))

    def visit(_: int) -> Any:
        together.wait(10)
        return ask(MODEL)

    with ThreadPoolExecutor(8) as visitors:
        answers = list(visitors.map(visit, range(8)))
    assert all(answer is answers[0] for answer in answers)
    assert len(asked) == 1
