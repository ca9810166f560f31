"""Texts of servers and benchmarks: what is read of them, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.errors import BadArgument
from lib.traffic.metrics import MAX_TEXT, read_metrics

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
