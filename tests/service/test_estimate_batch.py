"""/estimate_batch: the capacity against simulated traffic, hours and price by hand, deadlines, other kinds of work, bad input."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace
from typing import Any

import pytest
from commands import parse_words
from huggingface_hub.cli.hf import app as hf
from written import ask

from lib.catalog import load
from lib.errors import AdvisorError
from lib.service.endpoint import App
from lib.service.estimate_batch import PLACES, estimate_batch
from lib.service.models import Models
from lib.traffic.arrivals import RequestShape
from lib.traffic.replica import ServerPlan
from lib.traffic.server import TrafficQuestion, lone_request_s, resolve_server, start_simulation, summarise_run
from lib.traffic.simulation import run_all

CATALOG, MODELS = load(), Models()
PLAN = ask(estimate_batch, App(catalog=load, models=MODELS))
QWEN, BGE = "Qwen/Qwen3-8B", "BAAI/bge-base-en-v1.5"


def option(answer: dict[str, Any], hardware: str, platform: str = "jobs") -> dict[str, Any]:
    """The option on this hardware."""
    return next(one for one in answer["options"] if (one["hardware"], one["platform"]) == (hardware, platform))


FULL_LOAD = [
    (QWEN, "l4x1", 512, 256),
    (QWEN, "a100-large", 512, 256),
    (QWEN, "a100-large", 4096, 64),
    (QWEN, "h200", 128, 512),
    ("Qwen/Qwen3-0.6B", "t4-small", 256, 128),
    ("Qwen/Qwen3-0.6B", "l4x1", 1024, 16),
    ("Qwen/Qwen3-32B", "a100-large", 512, 256),
    ("Qwen/Qwen3-30B-A3B", "h200", 512, 256),
    ("meta-llama/Llama-3.1-8B-Instruct", "l40sx1", 1024, 512),
    ("meta-llama/Llama-3.1-70B-Instruct", "a100x4", 2048, 256),
    ("openai/gpt-oss-20b", "l40sx1", 512, 256),
    ("google/gemma-3-12b-it", "h200", 512, 256),
]
SHARED = [(QWEN, "l4x1", 2048, 64), (QWEN, "a100-large", 4096, 64)]
"""Half of each prompt is the same instruction."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "hardware", "prompt_tokens", "output_tokens", "share"), [*((*row, 0) for row in FULL_LOAD), *((*row, 0.5) for row in SHARED)]
)
def test_the_capacity_is_that_of_traffic_at_full_load(
    model: str, hardware: str, prompt_tokens: int, output_tokens: int, share: float
) -> None:
    """A closed loop with twice as many clients as slots, and random lengths, serves as many requests per second within 10 %."""
    settings = {"engine": "vllm", "serving": {"prefix_share": share}} if share else {}
    planned = option(PLAN(model, 1000, prompt_tokens, output_tokens, platforms="jobs", **settings), hardware)
    offer = CATALOG.resolve_hardware(f"jobs:{hardware}")
    shape = RequestShape(prompt_tokens=prompt_tokens, output_tokens=output_tokens)
    shared = int(share * prompt_tokens)
    plan = ServerPlan(policy="continuous", max_batch_size=planned["batch_size"], shared_prefix_tokens=shared)
    question = TrafficQuestion(shape=shape, plan=plan)
    named = {"precision": planned["precision"], "engine": planned["engine"]}
    server = resolve_server(MODELS(model), offer, question, CATALOG.accelerators, **named)
    clients = 2 * planned["batch_size"]
    lasts_s = 3 * clients / planned["items_per_s"] + 3 * lone_request_s(server, shape)
    loop = replace(question, arrivals="closed", clients=clients, duration_s=lasts_s)
    result = summarise_run(run_all(start_simulation(server, loop, most_events=10**7)), server, loop)
    assert result is not None
    assert result.steady
    assert planned["items_per_s"] == pytest.approx(result.requests_per_s, rel=0.10)


def test_hours_and_price_follow_from_the_capacity() -> None:
    """Start, the parts side by side, each machine billed by the minute; the fewest machines that keep the deadline."""
    items, deadline_h = 1_000_000, 4
    for one in PLAN(QWEN, items, deadline_hours=deadline_h)["options"]:
        rate = one["items_per_s"] / one["shards"]
        seconds = one["start_s"] + items / (rate * one["shards"])
        assert one["hours"] == pytest.approx(seconds / 3600)
        assert one["hours"] <= deadline_h
        assert one["shards"] == 1 or one["start_s"] + items / (rate * (one["shards"] - 1)) > deadline_h * 3600
        assert one["usd"] == pytest.approx(one["usd_per_hour"] * one["shards"] * math.ceil(seconds / 60) / 60)
        assert one["start_s"] == round(120 + one["download_bytes"] / 2e8 + one["download_bytes"] / 1.5e9)


def test_the_cheapest_that_keeps_the_deadline_is_picked() -> None:
    """The pick has the lowest price; a tighter deadline takes more machines and never costs less."""
    whole, tight = PLAN(QWEN, 1_000_000), PLAN(QWEN, 1_000_000, deadline_hours=1)
    for answer in (whole, tight):
        assert answer["pick"] == answer["options"][0]
        assert answer["pick"]["usd"] == min(one["usd"] for one in answer["options"] if one["precision"] == answer["pick"]["precision"])
    assert whole["pick"]["shards"] == 1 < tight["pick"]["shards"]
    assert whole["pick"]["usd"] <= tight["pick"]["usd"]
    assert "lowest price" in whole["notes"][0]["message"]


def test_compressed_weights_count_as_dearer() -> None:
    """FP8 on one card is cheaper than 16 bits on two, and comes after them unless it is so by a fifth."""
    options = PLAN("meta-llama/Llama-3.1-70B-Instruct", 100_000, platforms="jobs")["options"]
    weights = {"bf16": 1, "fp8-tensor": 1.2, "int8-channel": 2, "awq-4": 2.5}
    weighed = [one["usd"] * weights[one["precision"]] for one in options]
    assert weighed == sorted(weighed)
    assert len({one["precision"] for one in options}) > 1


def test_the_deadline_before_the_start_names_no_number() -> None:
    """No number of machines ends before one has started; too many machines are not planned either."""
    answer = PLAN(QWEN, 1_000_000, deadline_hours=0.02)
    assert answer["pick"] is None
    assert {one["reason"]["code"] for one in answer["rejected"]} >= {"batch_start_too_long", "batch_free"}
    crowd = PLAN(QWEN, 10**12, deadline_hours=24)
    assert crowd["pick"] is None
    assert any(one["reason"]["code"] == "batch_too_many" for one in crowd["rejected"])


@pytest.mark.parametrize("shards", [1, 5])
def test_the_command_runs_each_part_on_jobs(shards: int) -> None:
    """The client's own parser reads it; the timeout is stated and longer than the work."""
    pick = PLAN(QWEN, 1_000_000, deadline_hours=0 if shards == 1 else 4, platforms="jobs")["pick"]
    assert pick["shards"] == shards
    line = pick["command"] if shards == 1 else pick["command"].partition("; do ")[2].removesuffix("; done")
    _, read = parse_words(hf, shlex.split(line)[1:])
    assert str(read["flavor"]) == pick["hardware"]
    assert int(read["timeout"].removesuffix("h")) >= 1.5 * pick["hours"]
    assert ("$part/5" in line, bool(read.get("detach"))) == (shards > 1, shards > 1)


@pytest.mark.parametrize(
    ("model", "unit", "scripted"),
    [
        (BGE, "rows", True),
        ("openai/whisper-large-v3", "hours of sound", False),
        ("black-forest-labs/FLUX.1-dev", "pictures", False),
        ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "clips", False),
        (QWEN, "documents", True),
    ],
)
def test_each_kind_of_work_has_its_unit(model: str, unit: str, scripted: bool) -> None:
    """A command comes where there is a script or a server; a batch is larger than one, and an hour gets something done."""
    answer = PLAN(model, 1000)
    assert answer["unit"] == unit
    assert bool(option(answer, "a100-large")["command"]) is scripted
    assert option(answer, "a100-large")["batch_size"] > 1
    assert option(answer, "a100-large")["items_per_s"] > option(answer, "l4x1")["items_per_s"] > 0


def test_a_port_is_billed_where_the_command_starts_a_server() -> None:
    """TEI serves on Jobs: a cent an hour for its port; on a Space there is none."""
    answer = PLAN(BGE, 10_000_000, engine="tei")
    assert option(answer, "l4x1")["usd_per_hour"] == pytest.approx(option(answer, "l4x1", "spaces")["usd_per_hour"] + 0.01)


def test_pictures_in_a_prompt_take_time() -> None:
    """A document with a picture takes longer than one without, and by more than its tokens."""
    rates = [option(PLAN("google/gemma-3-12b-it", 1000, platforms="jobs", **media), "h200")["items_per_s"] for media in ({}, {"images": 2})]
    more_tokens = PLAN("google/gemma-3-12b-it", 1000, 512 + 2 * 256, platforms="jobs")
    assert rates[1] < option(more_tokens, "h200")["items_per_s"] < rates[0]


def test_settings_of_the_server_count() -> None:
    """Four sequences are fewer than the cache holds, a shared prefix is read once; the command has the flags."""
    at_most = {name: {"max_num_seqs": 4, **more} for name, more in (("few", {}), ("shared", {"prefix_share": 0.75}))}
    many = option(PLAN(QWEN, 1000, 2048, 64, platforms="jobs", engine="vllm"), "l4x1")
    few, shared = (option(PLAN(QWEN, 1000, 2048, 64, platforms="jobs", engine="vllm", serving=one), "l4x1") for one in at_most.values())
    assert (few["batch_size"], shared["batch_size"]) == (4, 4)
    assert few["items_per_s"] < many["items_per_s"]
    assert shared["items_per_s"] > 1.2 * few["items_per_s"]
    with pytest.raises(AdvisorError, match="serving"):
        PLAN(QWEN, 1000, serving={"max_num_sequences": 4})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"items": 0}, "items"),
        ({"items": 10**15}, "items"),
        ({"items": "many"}, "items"),
        ({"images": 1}, "images"),
        ({"images": 1, "audio_seconds": 30}, "audio_seconds"),
        ({"platforms": "zerogpu"}, "platforms"),
        ({"platforms": "moon"}, "platforms"),
        ({"deadline_hours": -1}, "deadline_hours"),
        ({"deadline_hours": float("nan")}, "deadline_hours"),
        ({"prompt_tokens": 10**7}, "prompt_tokens"),
        ({"engine": "rm -rf"}, "engine"),
    ],
)
def test_bad_input_is_refused_with_its_name(arguments: dict[str, Any], named: str) -> None:
    """Each refusal names the argument and what is accepted."""
    with pytest.raises(AdvisorError, match=named):
        PLAN(**{"model": QWEN, "items": 1000, **arguments})


def test_every_answer_is_plain_json() -> None:
    """Extremes stay finite, and the places are those that bill by the hour."""
    assert set(PLACES) == {"jobs", "endpoints", "spaces"}
    for items in (1, 10**12):
        json.dumps(PLAN("Qwen/Qwen3-0.6B", items), allow_nan=False)
