"""Where the time goes: parts beside the laws, the dominant one and its next step, formats by the ridge point; texts of servers."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from lib.catalog import load
from lib.errors import BadArgument, UnsupportedModel
from lib.model import bundled
from lib.speed import SpeedRequest, predict_speed
from lib.traffic.latency import Diagnosis, RequestPart, diagnose_latency
from lib.traffic.metrics import MeasuredTimes

CATALOG = load()
LLAMA = bundled.find_spec("meta-llama/Llama-3.1-8B-Instruct")
REQUEST = SpeedRequest(engine="vllm", prompt_tokens=512, output_tokens=101)


def diagnose_llama(measured: MeasuredTimes, hardware: str = "l4x1", request: SpeedRequest = REQUEST) -> Diagnosis:
    """For Llama-3.1-8B."""
    assert LLAMA is not None
    return diagnose_latency(LLAMA, CATALOG.resolve_hardware(hardware), request, measured, CATALOG.accelerators)


def steps(of: Diagnosis) -> list[str]:
    """Codes of what to do next."""
    return [step.code for step in of.next_steps]


def test_parts_are_measured_and_expected() -> None:
    """Prefill is TTFT less the queue, decode 100 steps of TPOT; expected are the prediction's own figures, with its range."""
    of = diagnose_llama(MeasuredTimes(queue_ms=50, ttft_ms=450, tpot_ms=60, transfer_ms=7))
    parts = {part.name: part for part in of.parts}
    assert tuple(parts) == get_args(RequestPart)
    assert (parts["prefill"].measured_ms, parts["decode"].measured_ms) == (400, 6000)
    assert of.total_ms == 50 + 400 + 6000 + 7
    assert LLAMA is not None
    speed = predict_speed(LLAMA, CATALOG.resolve_hardware("l4x1"), REQUEST, CATALOG.accelerators)
    assert speed.tpot_s is not None
    assert parts["decode"].expected is not None
    assert parts["decode"].expected.high == pytest.approx(100e3 * speed.tpot_s.high)
    assert parts["prefill"].expected is not None
    assert parts["prefill"].expected.value == pytest.approx(1e3 * speed.ttft_s.value)
    assert parts["transfer"].expected is None
    assert parts["transfer"].verdict == "no_law"


@pytest.mark.parametrize(
    ("measured", "dominant", "step"),
    [
        (MeasuredTimes(ttft_ms=300, tpot_ms=600), "decode", "optimise_engine"),  # ten times the step that the laws expect
        (MeasuredTimes(ttft_ms=300, tpot_ms=60), "decode", "as_fast_as_laws"),
        (MeasuredTimes(ttft_ms=90_000, tpot_ms=60), "prefill", "optimise_engine"),
        (MeasuredTimes(queue_ms=90_000, ttft_ms=90_120, tpot_ms=60), "queue", "add_replicas"),
        (MeasuredTimes(queue_ms=90_000, ttft_ms=90_300, tpot_ms=600), "queue", "mend_before_scaling"),
        (MeasuredTimes(preprocess_ms=90_000, ttft_ms=300, tpot_ms=60), "preprocess", "optimise_outside"),
        (MeasuredTimes(transfer_ms=90_000), "transfer", "optimise_outside"),
        (MeasuredTimes(postprocess_ms=90_000, tpot_ms=60), "postprocess", "optimise_outside"),
    ],
)
def test_the_dominant_part_and_what_to_do(measured: MeasuredTimes, dominant: str, step: str) -> None:
    """Optimise what is slower than the laws or outside the engine, scale out what only waits."""
    of = diagnose_llama(measured)
    assert of.dominant is not None
    assert (of.dominant.name, steps(of)[0]) == (dominant, step)
    assert f"next_{dominant}" in steps(of)


def test_nothing_measured_is_said() -> None:
    """The table of what is expected stands alone."""
    of = diagnose_llama(MeasuredTimes())
    assert of.dominant is None
    assert steps(of) == ["measure_first"]
    assert of.parts[4].expected is not None


def test_fewer_bits_cut_latency_below_the_ridge_point_and_memory_above_it() -> None:
    """Alone, four bits take a third of the time of sixteen at least; with thousands at a time they save no time."""
    alone = diagnose_llama(MeasuredTimes(tpot_ms=60))
    four = next(one for one in alone.formats if one.precision == "awq-4")
    assert (four.effect, four.saved > 1 / 3) == ("latency", True)
    assert four.weights_bytes < 8_030_261_248
    assert "smaller_format" in steps(alone)
    assert {reason.code for reason in alone.reasons} >= {"dominant_part", "below_ridge"}
    assert alone.ridge is not None
    assert alone.ridge > 50
    small = bundled.find_spec("Qwen/Qwen3-0.6B")
    assert small is not None
    request = SpeedRequest(engine="transformers", prompt_tokens=16, output_tokens=16, concurrency=4000)
    many = diagnose_latency(small, CATALOG.resolve_hardware("H100-SXM"), request, MeasuredTimes(tpot_ms=60), CATALOG.accelerators)
    assert "above_ridge" in {reason.code for reason in many.reasons}
    assert next(one for one in many.formats if one.precision == "bnb-nf4").effect in {"memory", "slower"}
    faster = {one.precision for one in many.formats if one.effect == "latency"}
    assert faster <= {"fp8-block"}  # the card has units for it


def test_what_has_no_prefill_and_decode_is_not_diagnosed() -> None:
    """An encoder, which makes no tokens; and a card that does not hold the model, of which no law could say how fast it is."""
    encoder = bundled.find_spec("google-bert/bert-base-uncased")
    assert encoder is not None
    with pytest.raises(UnsupportedModel, match="generates no tokens"):
        diagnose_latency(encoder, CATALOG.resolve_hardware("l4x1"), REQUEST, MeasuredTimes(), CATALOG.accelerators)
    large = bundled.find_spec("meta-llama/Llama-3.1-70B-Instruct")
    assert large is not None
    with pytest.raises(BadArgument, match=r"^hardware was 't4-small'.*holds the model and one request"):
        diagnose_latency(large, CATALOG.resolve_hardware("t4-small"), REQUEST, MeasuredTimes(ttft_ms=400), CATALOG.accelerators)


def test_zerogpu_serves_one_call_at_a_time_with_pytorch() -> None:
    """There is no vLLM; with transformers every call has a card of its own, however many come."""
    assert LLAMA is not None
    zero = CATALOG.resolve_hardware("zero-a10g")
    with pytest.raises(BadArgument, match=r"^engine was 'vllm'\. Accepted: transformers on ZeroGPU"):
        diagnose_latency(LLAMA, zero, REQUEST, MeasuredTimes(), CATALOG.accelerators)
    asked = replace(REQUEST, engine="transformers", concurrency=20)
    of = diagnose_latency(LLAMA, zero, asked, MeasuredTimes(), CATALOG.accelerators)
    assert of.speed.running_requests == 1
    assert {caveat.code: caveat.values for caveat in of.caveats}["calls_not_shared"] == {"concurrency": 20}
    assert "too_many_at_once" not in {reason.code for reason in of.reasons}


def test_a_ridge_point_that_no_batch_reaches_is_said() -> None:
    """An 8B on an L4: 16 GB of weights leave some GB, so few requests of 16,000 tokens fit, and the ridge point takes over a hundred."""
    long = replace(REQUEST, prompt_tokens=15_000, output_tokens=1000)
    assert "ridge_out_of_reach" in {reason.code for reason in diagnose_llama(MeasuredTimes(), "l4x1", long).reasons}
    short = replace(REQUEST, prompt_tokens=64)
    assert "ridge_out_of_reach" not in {reason.code for reason in diagnose_llama(MeasuredTimes(), "H200-SXM", short).reasons}


def test_means_of_a_server_are_said_to_be_means() -> None:
    """TGI states no time to first token: that of a prefill batch stands in for it."""
    measured = MeasuredTimes(ttft_ms=300, tpot_ms=50, queue_ms=100, origin="tgi")
    assert {caveat.code for caveat in diagnose_llama(measured).caveats} >= {"means_since_start", "tgi_first_token"}


def test_an_engine_that_the_hardware_outruns_is_said() -> None:
    """28 ms a token with transformers on an A100 are what it launches; vLLM takes 15, and the card's bandwidth allows 8."""
    request = replace(REQUEST, engine="transformers")
    of = diagnose_llama(MeasuredTimes(ttft_ms=60, tpot_ms=28), "a100-large", request)
    assert steps(of)[:3] == ["as_fast_as_engine", "faster_engine", "next_decode"]
    faster = of.next_steps[1].values
    assert (faster["engine"], faster["other"], faster["other_s"] < 0.016) == ("transformers", "vllm", True)
    assert of.next_steps[2].variant == "overhead"
    codes = {reason.code: reason for reason in of.reasons}
    assert "below_ridge" not in codes
    assert 0.007 < codes["overhead_bound"].values["least_s"] < 0.0085
    assert {one.engine: one.tpot_ms for one in of.engines}["vllm"] == pytest.approx(1e3 * faster["other_s"])
    assert "tei" not in {one.engine for one in of.engines}
    served = diagnose_llama(MeasuredTimes(ttft_ms=60, tpot_ms=14.6), "a100-large")
    assert steps(served)[0] in {"as_fast_as_laws", "as_fast_as_engine"}
    assert all(one.values.get("other") != "transformers" for one in served.next_steps)


def test_an_engine_that_runs_no_such_model_is_not_offered_for_it() -> None:
    """TEI makes no text, whatever the card."""
    with pytest.raises(BadArgument, match=r"Accepted: transformers, vllm, sglang, tensorrt-llm, tgi, llama.cpp on NVIDIA A100"):
        diagnose_llama(MeasuredTimes(), "a100-large", replace(REQUEST, engine="vllm-tpu"))
