"""Ray Data answers the same rows as this machine; where Ray is not installed, only its refusal is tested."""

from __future__ import annotations

import importlib.util
import os
import signal
import types
from contextlib import closing
from itertools import chain

import pytest

from lib.catalog import load
from lib.errors import InvalidInput, LiveError
from lib.service import fleet_ray
from lib.service.fleet import answer_row
from lib.service.fleet_files import Cells, split_parts
from lib.service.fleet_run import WorkerSetup
from lib.service.models import Models

QUESTIONS: list[Cells] = [{"model": f"{size}B", "hardware": "l4x1" if size % 2 else ""} for size in range(1, 11)]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (requirements-fleet.txt)")
def test_ray_answers_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two waves, with two workers; each part once."""
    monkeypatch.setattr(fleet_ray, "WAVE_PARTS", 2)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    parts = split_parts(QUESTIONS, 3)
    with closing(fleet_ray.run_on_ray(parts, WorkerSetup(catalog=load()), "auto", 2)) as answered:
        found = {part.number: rows for part, rows in answered}
    rows = list(chain.from_iterable(found[number] for number in sorted(found)))
    assert rows == [answer_row(Models(), load(), at, cells) for at, cells in enumerate(QUESTIONS)]


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_refusal_says_what_to_do() -> None:
    """Before any part is read."""
    with pytest.raises(InvalidInput, match=r"ray is needed .*`pip install -r requirements-fleet\.txt"):
        next(fleet_ray.run_on_ray(iter(()), WorkerSetup(catalog=load()), "10.0.0.1:6379"))


def test_a_cluster_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself waits for minutes where a cluster died; its process is ended."""
    monkeypatch.setattr(fleet_ray, "CONNECT_S", 0)
    monkeypatch.setattr(fleet_ray, "_GRACE_S", 0)
    with pytest.raises(InvalidInput, match="no answer within 0 s"):
        next(fleet_ray.run_on_ray(split_parts(QUESTIONS), WorkerSetup(catalog=load()), "auto"))


def test_a_cluster_that_goes_away_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray tells it, or ends the process that it runs in; what is answered stays, and the same command goes on."""
    told: list[object] = []
    gone = types.SimpleNamespace(
        exceptions=types.SimpleNamespace(RayError=ZeroDivisionError),
        cluster_resources=lambda: 1 / 0,
        shutdown=lambda: told.append("shut down"),
    )
    monkeypatch.setattr(fleet_ray, "connect", lambda _: gone)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    fleet_ray.drive(types.SimpleNamespace(send=told.append), WorkerSetup(catalog=load()), "auto", None)  # type: ignore[arg-type]
    sentence, end = told
    assert "run the same command again" in str(sentence)
    assert end == "shut down"
    monkeypatch.setattr(fleet_ray, "drive", os.abort)  # a process that ends without a word
    with pytest.raises(LiveError, match=r"went away or failed \(its driver ended"):
        next(fleet_ray.run_on_ray(split_parts(QUESTIONS), WorkerSetup(catalog=load()), "auto"))
