"""Ray Data answers the same rows as this machine; where Ray is not installed, only its refusal is tested."""

from __future__ import annotations

import importlib.util
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


def test_without_ray_or_a_cluster_the_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any part is read."""

    def absent(module: str) -> object:
        raise ImportError(module)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(InvalidInput, match=r"ray is needed .*`pip install -r requirements-fleet\.txt"):
        next(fleet_ray.run_on_ray(iter(()), WorkerSetup(catalog=load()), "10.0.0.1:6379"))


def test_a_cluster_that_goes_away_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is answered stays, and the same command goes on."""
    gone = types.SimpleNamespace(
        exceptions=types.SimpleNamespace(RayError=ZeroDivisionError),
        cluster_resources=lambda: 1 / 0,
        shutdown=lambda: None,
    )
    monkeypatch.setattr(fleet_ray, "connect", lambda _: gone)
    with pytest.raises(LiveError, match="run the same command again"):
        next(fleet_ray.run_on_ray(split_parts(QUESTIONS), WorkerSetup(catalog=load()), "auto"))
