"""/compare in-process: arguments, both sides as JSON, reasons; the arithmetic itself is tests/cost/test_compare.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from written import ask

from lib.catalog import load
from lib.errors import BadArgument, InvalidInput
from lib.service.compare import compare
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.speed import estimate_speed

APP = App(catalog=load, models=Models())
QUESTION, SPEED = ask(compare, APP), ask(estimate_speed, APP)
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MEASURED = {"hardware": "l4x1", "tokens_per_s": 100}


def test_cost_per_inference_before_and_after() -> None:
    """135,000 requests of 256 tokens a day are 400 tokens/s: 5 replicas at 100/s, 2 at 250/s, 2880 and 1152 USD a month.

    4,050,000 requests a month: 0.000711 and 0.000284 USD each.
    """
    answer = QUESTION("", MEASURED, MEASURED | {"tokens_per_s": 250}, requests_per_day=135_000, effort_usd=3000)
    assert (answer["before"]["usd_per_month"], answer["after"]["usd_per_month"]) == (2880, 1152)
    assert answer["usd_per_request"]["before"] == pytest.approx(2880 / 4_050_000)
    assert answer["usd_per_request"]["after"] == pytest.approx(1152 / 4_050_000)
    assert answer["usd_per_million_output_tokens"]["after"] == pytest.approx(1152 / (4_050_000 * 256) * 1e6)
    assert (answer["speed_ratio"], answer["verdict"]) == (2.5, "optimise")
    assert [reason["code"] for reason in answer["reasons"]] == ["optimise", "faster", "cheaper_full", "replicas"]
    assert answer["reasons"][0]["message"] == "It saves $20,736 over 12 months, more than the effort of $3,000."
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_a_verdict_against_the_change_says_why() -> None:
    """Slower and dearer: nothing saved; half full, so it is filled first."""
    answer = QUESTION("", MEASURED, {"hardware": "a10g-small", "tokens_per_s": 90}, requests_per_day=3_375)
    codes = [reason["code"] for reason in answer["reasons"]]
    assert codes == ["fill_first", "slower", "dearer_full"]
    assert answer["reasons"][0]["message"].startswith("It saves nothing at this traffic: one replica is used to 10.0 %.")


def test_engines_side_by_side() -> None:
    """Issue 11: one request at a time with transformers against thirty-two with vLLM on the same card."""
    answer = QUESTION(LLAMA, {"hardware": "l4x1"}, {"hardware": "l4x1", "engine": "vllm", "concurrency": 32}, requests_per_day=5000)
    assert answer["speed_ratio"] > 10
    assert answer["before"]["replicas"] > answer["after"]["replicas"] == 1
    assert answer["sources"]


def test_settings_of_a_server_count_on_their_side() -> None:
    """--max-num-seqs 2 makes six of eight wait; a share without room for one request is refused with its side."""
    side = {"hardware": "l40sx1", "engine": "vllm", "concurrency": 8}
    answer = QUESTION(LLAMA, side, {**side, "serving": "--max-num-seqs 2"}, requests_per_day=500)
    assert answer["speed_ratio"] < 0.5
    assert answer["after"]["runs_as"].endswith("concurrency 8, max_num_seqs 2")
    with pytest.raises(InvalidInput, match=r"^After: .* lacks"):
        QUESTION(LLAMA, side, {**side, "serving": {"gpu_memory_utilization": 0.2}})


@pytest.mark.parametrize(
    ("requests", "after", "effort", "verdict"),
    [
        (135_000, 110, 0, "scale_out"),  # still ⌈400/88⌉ = 5 replicas
        (135_000, 250, 30_000, "scale_out"),  # 1728 · 12 = 20736 is below the effort
        (3_375, 200, 0, "fill_first"),  # 10 of 100 tokens/s
        (20_250, 200, 0, "keep"),  # 60 of 100 tokens/s
    ],
)
def test_every_other_verdict(requests: int, after: int, effort: int, verdict: str) -> None:
    """Measured rates alone decide; nothing is looked up."""
    answer = QUESTION("", MEASURED, MEASURED | {"tokens_per_s": after}, requests_per_day=requests, effort_usd=effort)
    assert answer["verdict"] == verdict


def test_an_estimated_side_is_the_speed_estimate() -> None:
    """The rate and its range are those of `/estimate_speed`, and a request takes at least its own time."""
    after = QUESTION(LLAMA, {"hardware": "l4x1"}, {"hardware": "l4x1", "engine": "vllm", "concurrency": 8})["after"]
    speed = SPEED(LLAMA, "l4x1", engine="vllm", concurrency=8)
    assert after["tokens_per_s"] == pytest.approx(speed["throughput_tokens_per_s"])
    assert [after[end] for end in ("low", "high")] == [speed[end]["throughput_tokens_per_s"] for end in ("low", "high")]
    assert after["latency_p50_s"] == pytest.approx(speed["ttft_s"] + 255 * speed["inter_token_s"])
    assert after["gpu_hours_per_million_tokens"] == pytest.approx(1e6 / 3600 / after["tokens_per_s"])


def test_the_wait_counts_the_slots_of_all_replicas() -> None:
    """Ten times the traffic on as many more replicas waits no longer: more slots share one queue."""
    asked = {"hardware": "l4x1", "engine": "vllm", "concurrency": 4}
    little, much = (QUESTION(LLAMA, asked, asked, requests_per_day=requests)["after"] for requests in (15_000, 150_000))
    assert much["replicas"] > little["replicas"]
    assert much["latency_p99_s"] <= little["latency_p99_s"]


def test_two_models_side_by_side() -> None:
    """Each side names its model, and the smaller one answers faster on the same card."""
    small = "Qwen/Qwen2.5-0.5B-Instruct"
    both = QUESTION(LLAMA, {"hardware": "l4x1"}, {"hardware": "l4x1", "model": small})
    assert (both["before"]["model"], both["after"]["model"]) == (LLAMA, small)
    assert both["speed_ratio"] > 1


@pytest.mark.parametrize(
    ("side", "seen"),
    [
        (None, "before was 'null'"),
        ("l4x1", "before was 'l4x1'"),
        ([], "a list of 0"),
        ({"precision": "bf16"}, "an object without hardware"),
        ({"hardware": "l4x1", "colour": "red"}, "colour"),
        ({7: "l4x1"}, "7"),
        ({"hardware": "l4x1", "concurrency": 0}, "Before: concurrency was '0'"),
        ({"hardware": "moon"}, "Before: There is no hardware"),
        ({"hardware": "t4-small", "precision": "fp32"}, "Before: Nvidia T4"),
        ({"hardware": "zerogpu:zero-a10g"}, "not rented by the hour"),
        ({"hardware": "l4x1", "engine": "vllm-tpu"}, "Before: "),
        ({"hardware": "l4x1", "tokens_per_s": 10, "latency_p50_s": 2, "latency_p99_s": 1}, "at least the p50 latency of 2 s"),
        ({"hardware": "l4x1", "tokens_per_s": 1e-9}, "0.001 and more"),
        ({"hardware": "l4x1", "tokens_per_s": float("nan")}, "measured tokens per second"),
        ({"hardware": "l4x1", "model": "sentence-transformers/all-MiniLM-L6-v2"}, "Type the measured tokens per second"),
    ],
)
def test_a_side_that_is_none(side: Any, seen: str) -> None:
    """Refused with the side's name, what was seen and what is accepted."""
    with pytest.raises(InvalidInput, match=seen):
        QUESTION(LLAMA, side, {"hardware": "l4x1"})


def test_wrong_traffic_is_named() -> None:
    """As everywhere."""
    with pytest.raises(InvalidInput, match="Hours a day is 0"):
        QUESTION(LLAMA, MEASURED, MEASURED, hours_per_day=0)
    with pytest.raises(BadArgument, match="prompt_tokens"):
        QUESTION(LLAMA, {"hardware": "l4x1"}, {"hardware": "l4x1"}, prompt_tokens=0)
