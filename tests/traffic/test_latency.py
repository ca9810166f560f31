"""Where the time goes: parts beside the laws, the dominant one and its next step, formats by the ridge point; texts of servers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.catalog import load
from lib.errors import BadArgument, UnsupportedModel
from lib.model import bundled
from lib.speed import SpeedRequest, predict_speed
from lib.traffic.latency import MAX_TEXT, Diagnosis, MeasuredTimes, RequestPart, diagnose_latency, read_metrics

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


VLLM = """# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1",model_name="a"} 3.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="a"} 8.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="a"} 10.0
vllm:time_to_first_token_seconds_sum{engine="1",model_name="a"} 4.0
vllm:time_to_first_token_seconds_count{engine="1",model_name="a"} 20.0
vllm:inter_token_latency_seconds_sum{model_name="a"} 50.0
vllm:inter_token_latency_seconds_count{model_name="a"} 1000.0
vllm:request_queue_time_seconds_sum{model_name="a"} 3.0
vllm:request_queue_time_seconds_count{model_name="a"} 30.0
vllm:request_prompt_tokens_sum{model_name="a"} 30000.0
vllm:request_prompt_tokens_count{model_name="a"} 30.0
vllm:request_generation_tokens_sum{model_name="a"} 1e+03
vllm:request_generation_tokens_count{model_name="a"} 30.0
vllm:num_requests_running{model_name="a"} 7.0
"""
TGI = """tgi_request_queue_duration_sum 2
tgi_request_queue_duration_count 20
tgi_request_validation_duration_sum 0.1
tgi_request_validation_duration_count 20
tgi_batch_inference_duration_sum{method="prefill"} 4
tgi_batch_inference_duration_count{method="prefill"} 20
tgi_batch_inference_duration_sum{method="decode"} 90
tgi_batch_inference_duration_count{method="decode"} 900
tgi_request_mean_time_per_token_duration_sum 1
tgi_request_mean_time_per_token_duration_count 20
tgi_batch_current_size 4
"""


def test_metrics_of_servers_are_means_over_all_requests() -> None:
    """vLLM: 12 s over 30 requests of two engines; TGI: queue 100 ms and a prefill batch of 200 ms before the first token."""
    read = read_metrics(VLLM)
    assert (read.ttft_ms, read.tpot_ms, read.queue_ms) == pytest.approx((400, 50, 100))
    assert (read.prompt_tokens, read.output_tokens, read.concurrency, read.origin) == (1000, 33, 7, "vllm")
    read = read_metrics(TGI)
    assert (read.ttft_ms, read.tpot_ms, read.queue_ms, read.preprocess_ms) == pytest.approx((300, 50, 100, 5))
    assert (read.concurrency, read.origin) == (4, "tgi")
    assert {caveat.code for caveat in diagnose_llama(read).caveats} >= {"means_since_start", "tgi_first_token"}


def test_the_json_of_a_benchmark_is_read() -> None:
    """As `vllm bench serve --save-result` writes it."""
    saved = {"completed": 10, "total_input_tokens": 5120, "total_output_tokens": 1280, "mean_ttft_ms": 250.5, "mean_tpot_ms": 31.25,
             "max_concurrency": 8, "ttfts": [0.2] * 10}  # fmt: skip
    read = read_metrics(json.dumps(saved))
    assert (read.ttft_ms, read.tpot_ms, read.prompt_tokens, read.output_tokens, read.concurrency) == (250.5, 31.25, 512, 128, 8)


@pytest.mark.parametrize("value", ["NaN", "-5", "Infinity", '"fast"', "true"])
def test_a_benchmark_with_a_time_that_is_none_is_refused(value: str) -> None:
    """Also where another time could be read: a figure is not dropped in silence."""
    with pytest.raises(BadArgument, match=r"^metrics_text was 'mean_tpot_ms: .*Accepted: a number from 0 on for mean_tpot_ms"):
        read_metrics(f'{{"mean_ttft_ms": 250.5, "mean_tpot_ms": {value}}}')
    assert read_metrics('{"mean_ttft_ms": 250.5, "mean_tpot_ms": null}').tpot_ms == 0


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


@pytest.mark.parametrize(
    "text",
    ["hello", "{}", "[]", "[1]", "null{", '{"mean_ttft_ms": "fast"}', '{"mean_ttft_ms": true}', '{"mean_ttft_ms": 1e999}', "[" * 100_000,
     '{"mean_ttft_ms": ' + "9" * 5000 + "}", "vllm:time_to_first_token_seconds_sum NaN\n", "vllm:time_to_first_token_seconds_sum 5\n",
     "a" * (MAX_TEXT + 1), "vllm:x{" * 50_000, "[" + "[]," * 300_000 + "[]]", '{"mean_ttft_ms": 9e14}',
     "vllm:time_to_first_token_seconds_sum 1e17\nvllm:time_to_first_token_seconds_count 1", '{"mean_ttft_ms": 5, "max_concurrency": 1e8}'],
    ids=range(18),
)  # fmt: skip
def test_what_holds_no_known_time_is_refused(text: str) -> None:
    """In a short sentence that names the argument."""
    with pytest.raises(BadArgument, match=r"^metrics_text was ") as refused:
        read_metrics(text)
    assert len(str(refused.value)) < 400


@given(text=st.text(max_size=300) | st.text(alphabet='vllm:tgi_{}"=0129.\n ', max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Never anything else."""
    try:
        read_metrics(text)
    except BadArgument:
        return
