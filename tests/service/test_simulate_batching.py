"""/simulate_batching in-process: checked arguments, figures as JSON, capacity, and the loads that the tab draws."""

from __future__ import annotations

import functools
import json
import math
import re
from contextlib import ExitStack
from typing import Any

import pytest
from contract import check_fields
from hypothesis import given, settings
from hypothesis import strategies as st
from written import ask

from lib.catalog import load
from lib.errors import AdvisorError, BadArgument, UnsupportedModel
from lib.service import simulate_batching as module
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.simulate_batching import simulate_batching, stream_loads, stream_needs
from lib.service.speed import estimate_speed
from lib.traffic.server import WorkBudget
from lib.traffic.simulation import TooManyEvents

APP = App(catalog=load, models=Models())
QUESTION, LOADS = ask(simulate_batching, APP), ask(stream_loads, APP)
SPEED = ask(estimate_speed, APP)
NEEDS = ask(stream_needs, APP)
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def test_the_answer_is_plain_json_with_the_fields_of_the_contract() -> None:
    """Percentiles are in order, and the tokens are those of the answered requests."""
    answer = QUESTION(LLAMA, "l4x1", requests_per_s=0.5, duration_s=120, max_ttft_s=1, capacity=True)
    check_fields("simulate_batching", answer)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert answer["ttft_p50_s"] <= answer["ttft_p95_s"] <= answer["ttft_p99_s"] <= answer["latency_p99_s"]
    assert 0 < answer["counted_from_s"] < answer["counted_until_s"] == 120
    assert answer["throughput_tokens_per_s"] * 120 < 256 * answer["completed"] * 1.1
    assert answer["completed"] == answer["requests"]


@pytest.mark.parametrize("asked", ["question", "needs", "loads"])
def test_reading_a_recording_and_the_grid_of_steps_wait_for_their_turn(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has no turn does no work: 300 calls of 140 bytes did theirs at once and held up everybody for 20 s."""
    worked: list[str] = []
    for name in ("read_recording", "resolve_server"):
        make = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, name=name, make=make, **named: (worked.append(name), make(*given, **named))[1])
    recorded = {"arrivals": "recorded", "trace": "time\n0\n1"} if asked == "question" else {}
    target = {"max_ttft_s": 2, "duration_s": 20} if asked == "needs" else {}
    monkeypatch.setattr(module, "_WAIT_S", 0.01)
    bound = {"question": QUESTION, "needs": NEEDS, "loads": LOADS}[asked]

    def answer() -> None:
        result = bound("7B", "l4x1", **recorded, **target)
        if asked != "question":
            next(result)

    with ExitStack() as taken:
        for caller in ("ada", "bob"):
            taken.enter_context(module._TURNS.turn(caller, 1, module.ManySimulations))
        with pytest.raises(module.ManySimulations):
            answer()
        assert worked == []
    answer()
    assert "resolve_server" in worked


def test_a_million_tokens_cost_the_billed_time() -> None:
    """Always on: 0.80 USD / 3600 for the tokens of a second. A run of two minutes and one of ten agree, but for what arrives by chance."""
    answer = QUESTION(LLAMA, "l4x1", requests_per_s=0.5, duration_s=120)
    assert answer["usd_per_million_tokens"] == pytest.approx(0.8 / 3600 / answer["throughput_tokens_per_s"] * 1e6)
    long = QUESTION(LLAMA, "l4x1", requests_per_s=0.5, duration_s=600)
    arrived, arrived_long = answer["requests"] / 120, long["requests"] / 600
    assert answer["usd_per_million_tokens"] * arrived == pytest.approx(long["usd_per_million_tokens"] * arrived_long, rel=0.1)
    assert answer["billed_s"] == pytest.approx(answer["span_s"])
    assert QUESTION(LLAMA, "H100-SXM", requests_per_s=0.5, duration_s=60)["usd_per_million_tokens"] is None


def test_capacity_names_replicas_and_tiers() -> None:
    """The stated tier is among those of its platform, the cheapest first, each within the target."""
    answer = QUESTION(LLAMA, "l4x1", requests_per_s=4, duration_s=60, max_ttft_s=2, max_tpot_s=0.1, capacity=True)
    need = answer["capacity"]
    rows = {tier["hardware"]: tier for tier in need["tiers"]}
    assert rows["l4x1"]["replicas"] == need["replicas"] > 1
    prices = [tier["usd_per_hour"] for tier in need["tiers"] if tier["replicas"]]
    assert prices == sorted(prices)
    assert rows["l4x1"]["usd_per_hour"] == pytest.approx(0.8 * need["replicas"])
    assert all(tier["ttft_p99_s"] <= 2 for tier in need["tiers"] if tier["replicas"])
    assert "t4-small" not in rows


def test_arrivals_of_every_kind() -> None:
    """Bursts wait longer than Poisson arrivals; four clients never have more than four requests on their way; a recording is replayed."""
    poisson, bursty = (QUESTION(LLAMA, "l4x1", arrivals=kind, requests_per_s=1.2, max_batch_size=16) for kind in ("poisson", "bursty"))
    assert bursty["wait_p99_s"] > poisson["wait_p99_s"]
    closed = QUESTION(LLAMA, "l4x1", arrivals="closed", clients=4, duration_s=60)
    assert closed["requests_per_s"] * closed["latency_mean_s"] <= 4.0001  # Little's law
    recorded = QUESTION(LLAMA, "l4x1", arrivals="recorded", trace="arrival_s,prompt_tokens,output_tokens\n0,100,10\n2,200,20\n")
    assert (recorded["completed"], recorded["throughput_tokens_per_s"] * recorded["span_s"]) == (2, pytest.approx(30))
    assert {"few_requests"} <= {caveat["code"] for caveat in recorded["caveats"]}
    short = QUESTION(LLAMA, "l4x1", duration_s=15, lengths="fixed")
    assert "not_steady" in {caveat["code"] for caveat in short["caveats"]}
    assert short["throughput_tokens_per_s"] * short["span_s"] == pytest.approx(256 * short["completed"])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"policy": "greedy"}, "policy was 'greedy'"),
        ({"requests_per_s": math.nan}, "requests_per_s was 'nan'"),
        ({"arrivals": "closed"}, "clients was '0'"),
        ({"arrivals": "recorded"}, "trace was ''"),
        ({"clients": 50}, "clients was '50'. Accepted: 0 where arrivals are poisson"),
        ({"arrivals": "closed", "clients": 5, "trace": "0,1,1"}, "trace was '5 characters'. Accepted: nothing where arrivals are closed"),
        ({"trace": 7}, "trace was '7'"),
        ({"lengths": "uniform", "spread": 2}, "spread was '2.0'"),
        ({"shared_prefix_tokens": 512}, "shared_prefix_tokens was '512'"),
        ({"capacity": True}, "capacity was 'true'"),
        ({"hardware": "t4-small"}, "leaves nothing for the cache"),
        ({"hardware": "zero-a10g"}, "hardware was 'zero-a10g'. Accepted: hardware that is rented by the hour"),
        ({"hardware": "zero-a10g", "engine": "transformers"}, "no server stays on it"),
        ({"requests_per_s": 0.0001, "duration_s": 1}, "at least one request arrives"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any], message: str) -> None:
    """In a sentence that names the argument."""
    with pytest.raises(BadArgument) as refused:
        QUESTION(LLAMA, **({"hardware": "l4x1"} | asked))
    assert message in str(refused.value)


def test_too_much_work_and_models_without_steps_are_refused() -> None:
    """10⁸ events, and an encoder."""
    with pytest.raises(TooManyEvents, match=r"at most 50,000 .* Ask for a duration_s of at most (\d+)") as refused:
        QUESTION(LLAMA, "l4x1", requests_per_s=1000, duration_s=33_334)
    assert re.search(r"a duration_s of at most \d+:", str(refused.value))
    with pytest.raises(UnsupportedModel, match="token by token"):
        QUESTION("google-bert/bert-base-uncased", "l4x1")


@settings(max_examples=15)
@given(
    policy=st.sampled_from(["static", "dynamic", "continuous"]),
    prompt=st.integers(1, 5000),
    output=st.integers(1, 400),
    batch=st.integers(1, 64),
    lengths=st.sampled_from(["fixed", "uniform", "lognormal"]),
    replicas=st.integers(1, 3),
    sleep=st.sampled_from([0, 5]),
)
def test_any_sensible_question_has_figures(
    policy: str, prompt: int, output: int, batch: int, lengths: str, replicas: int, sleep: int
) -> None:
    """Finite, in order, and every request answered or refused."""
    answer = QUESTION(
        LLAMA, "a100-large", policy, 2, prompt, output, batch, duration_s=10,
        lengths=lengths, replicas=replicas, scale_to_zero_after_s=sleep, cold_start_s=1,
    )  # fmt: skip
    assert answer["completed"] + answer["refused"] == answer["requests"]
    assert 0 <= answer["wait_p50_s"] <= answer["wait_p99_s"]
    assert 0 < answer["ttft_p50_s"] <= answer["latency_p99_s"] < math.inf
    assert answer["cache_peak_bytes"] <= answer["cache_bytes"]
    assert 0 < answer["utilisation"] <= 1.000001


def test_the_loads_come_one_by_one() -> None:
    """Each answer holds one load more, with all three policies."""
    seen = [(answer["done"], len(answer["points"])) for answer in LOADS(LLAMA, "l4x1")]
    assert seen == [(3 * load, 3 * load) for load in range(1, len(seen) + 1)]
    *_, last = LOADS(LLAMA, "l4x1", max_batch_size=8)
    assert last["done"] == last["total"]
    with pytest.raises(AdvisorError):
        list(LOADS(LLAMA, "t4-small"))


def test_loads_without_a_steady_part_say_so() -> None:
    """400 requests in batches of 512: a static batch takes most of the run, so the whole run is counted. Batches of 8 do not."""
    *_, large = LOADS(LLAMA, "a100-large", max_batch_size=512, lengths="fixed")
    whole_run = [point for point in large["points"] if not point["steady"]]
    assert {point["policy"] for point in whole_run} == {"static"}
    assert all(point["counted_from_s"] == 0 for point in whole_run)
    (caveat,) = [one for one in large["caveats"] if one["code"] == "loads_not_steady"]
    lowest = min(point["asked_requests_per_s"] for point in whole_run)
    assert f"{len(whole_run)} of {large['total']}, from {lowest:.3g} requests per second on" in caveat["message"]
    *_, small = LOADS(LLAMA, "a100-large", max_batch_size=8)
    assert all(point["steady"] and point["counted_from_s"] > 0 for point in small["points"])
    assert "loads_not_steady" not in {one["code"] for one in small["caveats"]}


def test_tiers_without_a_steady_part_say_so() -> None:
    """Answers of 4,000 tokens take three minutes on an A10G, more than half of the five that are tried; an A100 is through in 90 s."""
    answer = QUESTION(LLAMA, "a100-large", requests_per_s=2, output_tokens=4000, duration_s=60, max_ttft_s=30, capacity=True)
    steady = {tier["hardware"]: tier["steady"] for tier in answer["capacity"]["tiers"] if tier["replicas"]}
    assert (steady["a10g-small"], steady["a100-large"]) == (False, True)
    (caveat,) = [one for one in answer["caveats"] if one["code"] == "needs_not_steady"]
    unsteady = sum(not one for one in steady.values())
    assert caveat["message"].startswith(f"For {unsteady} of {len(answer['capacity']['tiers'])} hardware options")


def test_a_search_for_capacity_is_bounded_and_names_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tries share one budget of work: tiers that it does not reach are named in a caveat, none is called too small."""
    asked: dict[str, Any] = {"requests_per_s": 4, "duration_s": 60, "max_ttft_s": 2, "capacity": True}
    whole = QUESTION(LLAMA, "l4x1", **asked)["capacity"]
    assert whole["left_out"] == []
    monkeypatch.setattr(module, "WorkBudget", functools.partial(WorkBudget, left=12_000))
    answer = QUESTION(LLAMA, "l4x1", **asked)
    need, (caveat,) = answer["capacity"], [one for one in answer["caveats"] if one["code"] == "needs_left_out"]
    assert need["tiers"]
    assert all(tier in whole["tiers"] for tier in need["tiers"])
    assert all(name in caveat["message"] for name in need["left_out"])
    assert {tier["hardware"] for tier in whole["tiers"]} <= {tier["hardware"] for tier in need["tiers"]} | set(need["left_out"])
    monkeypatch.setattr(module, "WorkBudget", functools.partial(WorkBudget, left=100))
    with pytest.raises(TooManyEvents, match="search for capacity was stopped"):
        QUESTION(LLAMA, "l4x1", **asked)


def test_a_recording_is_judged_by_its_own_lengths() -> None:
    """3,000 prompts of 5,000 tokens in steps of 64: refused beforehand, although the stated prompt has one token."""
    trace = "\n".join(f"{at},5000,10" for at in range(3000))
    with pytest.raises(TooManyEvents, match="too much to simulate: 3,000 recorded requests"):
        QUESTION(LLAMA, "l4x1", arrivals="recorded", trace=trace, prompt_tokens=1, output_tokens=1, token_budget=64)


@pytest.mark.parametrize(
    ("model", "hardware"), [("Qwen/Qwen3-8B", "a100-large"), (LLAMA, "a100x4"), ("Qwen/Qwen3-30B-A3B", "H100-SXM"), ("1B", "t4-small")]
)
@pytest.mark.parametrize("tokens", [(2000, 500), (512, 256), (1000, 1000)])
def test_a_closed_loop_waits_about_as_long_as_the_laws_say(model: str, hardware: str, tokens: tuple[int, int]) -> None:
    """The mean TTFT of 16 clients is within a factor of 1.5 of `/estimate_speed` at concurrency 16, by default lengths.

    With lengths that are all equal, the clients stay in lockstep: up to five times as long.
    """
    asked: dict[str, Any] = {"prompt_tokens": tokens[0], "output_tokens": tokens[1], "engine": "vllm"}
    simulated = QUESTION(model, hardware, arrivals="closed", clients=16, **asked)["ttft_mean_s"]
    assert 1 / 1.5 < simulated / SPEED(model, hardware, concurrency=16, **asked)["ttft_s"] < 1.5
