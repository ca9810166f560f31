"""`/what_runs` is `/recommend` asked about every model of the catalog: the same verdicts and figures, in a stated order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from written import ask

from lib.advisor.rank import LEVELS
from lib.catalog import load
from lib.catalog.offers import Offer
from lib.errors import BadArgument, UnknownHardware
from lib.model.bundled import find_spec, list_ids
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.recommend import recommend
from lib.service.what_runs import find_hardware, what_runs

APP = App(catalog=load, models=Models(), quantized=lambda _: None)
RUNS, RECOMMEND = ask(what_runs, APP), ask(recommend, APP)
SAME = ("precision", "engine", "devices", "gpu_layers", "cpu_moe_layers", "repository", "memory", "speed", "verdict")
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("RTX-4090", {"context_tokens": 8192, "min_tokens_per_s": 15}),
    ("RTX-3060", {"task": "auto", "context_tokens": 2048}),
    ("RTX-3090x2", {"concurrency": 8}),
    ("H100-SXM", {"task": "image-text-to-text", "max_ttft_s": 1}),
    ("M4-Max-64GB", {"context_tokens": 32_768}),
    ("l4x1", {"task": "auto"}),
    ("zero-a10g", {}),
    ("cpu-upgrade", {"task": "auto", "context_tokens": 1024}),
    ("jobs:a100-large", {"engine": "vllm", "precision": "bf16"}),
    ("t4-small", {"task": "text-to-image"}),
    ("RTX-4090", {"engine": "vllm", "serving": {"gpu_memory_utilization": 0.5}}),
)
"""Tasks, cards, tiers and Macs; of each at most `PAIRS` models are asked again."""
PAIRS = 28


def asked_again(model: str, hardware: str, task: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """What `/recommend` says of one model there; None where it is refused."""
    found = find_hardware(load(), hardware)
    if not isinstance(found, Offer):
        own: dict[str, Any] = RECOMMEND(model, task=task, platforms="zerogpu", limit=1, own_hardware=hardware, **arguments)["own"]
        return own["runs_as"]
    ranked = RECOMMEND(model, task=task, platforms=found.platform, **arguments)["ranked"]
    return next((entry for entry in ranked if entry["hardware"] == found.id and entry["platform"] == found.platform), None)


@pytest.mark.slow
def test_every_verdict_and_figure_is_that_of_recommend() -> None:
    """More than 200 pairs of a model and hardware, those that run and those that do not."""
    pick, compared, ran = random.Random(26), 0, 0  # noqa: S311  a sample, the same each time
    for hardware, asked in QUESTIONS:
        arguments = dict(asked)
        task = arguments.pop("task", "text-generation")
        answer = RUNS(hardware, task=task, limit=10_000, **arguments)
        rows = {row["model"]: row for row in answer["models"]}
        assert answer["models_total"] == len(rows)
        assert len(rows) + sum(answer["refused"].values()) == answer["considered"]
        others = [one for one in list_ids() if one not in rows and _is_judged(one, task, asked.get("context_tokens", 4096))]
        for model in [*pick.sample(sorted(rows), min(len(rows), PAIRS - 8)), *pick.sample(others, min(8, len(others)))]:
            entry = asked_again(model, hardware, task, arguments)
            assert (entry is None) == (model not in rows), (model, hardware)
            compared += 1
            if entry is not None:
                ran += 1
                row = rows[model]
                assert {name: row[name] for name in SAME} == {name: entry[name] for name in SAME}, (model, hardware)
    assert compared >= 200
    assert ran >= 100


def _is_judged(model: str, task: str, context: int) -> bool:
    """Whether hardware decides: the model is for the task and reads the context."""
    spec = find_spec(model)
    assert spec is not None
    return (task in {"auto", spec.task}) and (spec.context_limit is None or spec.context_limit >= context)


def test_the_better_verdict_comes_first_then_the_larger_model() -> None:
    """The order is the stated one, and says that it is a proxy."""
    answer = RUNS("RTX-4090", limit=10_000, host_memory="64 GB DDR5-5600")
    order = [(LEVELS[row["verdict"]], -row["parameters_total"] * row["parameters_active"]) for row in answer["models"]]
    assert order == sorted(order)
    assert "ordered_by_size" in {caveat["code"] for caveat in answer["caveats"]}
    short = [row for row in answer["models"] if row["longest_context"] is not None and row["longest_context"] < 4096]
    assert short == []


def test_a_miss_names_what_would_run_it() -> None:
    """The nearest first; the hardware named does run the model."""
    answer = RUNS("RTX-4090", limit=1)
    assert 0 < len(answer["misses"]) <= 10
    first = next(miss for miss in answer["misses"] if miss["would"])
    assert first["misses_bytes"] > 0
    larger = RUNS(first["would"], query=first["model"])
    assert first["model"] in {row["model"] for row in larger["models"]}
    rented = next(miss for miss in RUNS("l4x1", limit=1)["misses"] if miss["would"])
    assert rented["model"] in {row["model"] for row in RUNS(rented["would"], query=rented["model"])["models"]}


def test_a_query_filters_by_name_and_a_limit_cuts() -> None:
    """A substring in any case; the total counts all."""
    answer = RUNS("RTX-4090", query="qWEN3", limit=2)
    assert len(answer["models"]) == 2 < answer["models_total"]
    assert all("qwen3" in row["model"].lower() for row in (*answer["models"], *answer["misses"]))
    nothing = RUNS("RTX-4090", query="no such model")
    assert (nothing["considered"], nothing["models"], nothing["misses"], nothing["refused"]) == (0, [], [], {})


def test_a_context_beyond_all_models_is_said() -> None:
    """Every model of vision reads less than ten million tokens."""
    answer = RUNS("RTX-4090", task="image-text-to-text", context_tokens=100_000_000)
    assert answer["models"] == []
    assert set(answer["refused"]) == {"context_too_short"}
    assert "context_beyond_all" in {caveat["code"] for caveat in answer["caveats"]}


@pytest.mark.parametrize(
    ("hardware", "arguments", "error", "said"),
    [
        ("RTX-409", {}, UnknownHardware, "RTX-4090"),
        ("RTX-4090x0", {}, UnknownHardware, "1 to"),
        ("TPU-v6ex4", {}, UnknownHardware, "not a graphics card or a Mac"),
        ("", {}, UnknownHardware, "empty"),
        (7, {}, UnknownHardware, "7"),
        ("RTX-4090", {"context_tokens": -1}, BadArgument, "from 1 to"),
        ("RTX-4090", {"concurrency": 0}, BadArgument, "from 1 to"),
        ("RTX-4090", {"min_tokens_per_s": -5.0}, BadArgument, "from 0 to"),
        ("RTX-4090", {"limit": 10**12}, BadArgument, "10,000"),
        ("RTX-4090", {"query": "x" * 201}, BadArgument, "at most 200"),
        ("RTX-4090", {"query": "a\nb"}, BadArgument, "part of a model's id"),
        ("RTX-4090", {"task": "inference-api"}, BadArgument, "a task that hardware does"),
        ("RTX-4090", {"task": "chatting"}, BadArgument, "chat"),
    ],
)
def test_wrong_arguments_are_refused_with_what_is_accepted(
    hardware: object, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    """Each names what is accepted."""
    with pytest.raises(error, match=said):
        RUNS(hardware, **arguments)
