"""/estimate_speed in-process: checked arguments, ranges, kinds of models; and /diagnose_latency (see tests/traffic/test_latency.py)."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from contract import check_fields
from written import ask

from lib.catalog import load
from lib.errors import BadArgument, UnknownHardware
from lib.present.wording import load_sentences
from lib.service.endpoint import App
from lib.service.models import Models
from lib.service.speed import diagnose_latency, estimate_speed
from lib.traffic.latency import RequestPart

QUESTION = ask(estimate_speed, App(catalog=load, models=Models()))
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
RANGED = ("ttft_s", "inter_token_s", "decode_tokens_per_s", "throughput_tokens_per_s")


def codes(answer: Any) -> set[str]:
    """Codes of the caveats."""
    return {caveat["code"] for caveat in answer["caveats"]}


def test_an_answer_is_json_with_ranges_around_its_figures() -> None:
    """Every figure lies in its range, the bound is named, and nothing is NaN."""
    answer = QUESTION(LLAMA, "l4x1", engine="vllm")
    json.dumps(answer, allow_nan=False)
    for name in RANGED:
        assert answer["low"][name] <= answer[name] <= answer["high"][name]  # type: ignore[literal-required]
    assert answer["bound"] == "bandwidth"
    assert (answer["hardware"], answer["precision"], answer["engine"]) == ("l4x1", "bf16", "vllm")
    assert {part["name"] for part in answer["decode_parts"]} >= {"reading weights", "reading the cache", "host and launches"}
    assert any("calibrate" in source["what"] for source in answer["sources"])


def test_a_16_bit_8b_on_an_l4_cannot_pass_its_memory() -> None:
    """15.0 GB of weights that are read at 300 GB/s: 50 ms a token at best; measured with vLLM: 17.9 tokens/s for a 7B model."""
    answer = QUESTION(LLAMA, "l4x1", engine="vllm")
    assert 12 < (answer["decode_tokens_per_s"] or 0) < 20


def test_more_requests_give_more_tokens_and_slower_ones() -> None:
    """Weights are read once for all: 32 requests together are faster than one, each of them slower."""
    one, many = (QUESTION(LLAMA, "H100-SXM", engine="vllm", concurrency=n) for n in (1, 32))
    assert (many["throughput_tokens_per_s"] or 0) > 8 * (one["throughput_tokens_per_s"] or 0)
    assert (many["inter_token_s"] or 0) > (one["inter_token_s"] or 0)
    assert many["ttft_s"] > one["ttft_s"]


def test_requests_beyond_the_memory_wait() -> None:
    """300 requests of 8192 tokens do not fit beside 16 GB on an L4."""
    answer = QUESTION(LLAMA, "l4x1", engine="vllm", prompt_tokens=8192, concurrency=300)
    assert "requests_wait" in codes(answer)
    assert answer["running_requests"] < 10


def test_what_does_not_fit_is_said() -> None:
    """70B in 16 bits on one L4."""
    assert "does_not_fit" in codes(QUESTION("70B", "l4x1"))


def test_encoders_answer_in_sequences() -> None:
    """Nothing is decoded: no time between tokens, sequences per second instead."""
    answer = QUESTION("google-bert/bert-base-uncased", "t4-small", prompt_tokens=128)
    assert answer["inter_token_s"] is None
    assert answer["decode_tokens_per_s"] is None
    assert answer["unit"] == "sequences"
    assert (answer["items_per_s"] or 0) * answer["ttft_s"] == pytest.approx(1, rel=0.01)


def test_speech_answers_with_a_real_time_factor() -> None:
    """Whisper reads windows of 30 s, padded, one after another: three for 61 s, each with its encoder and its answer."""
    one, padded, three = (QUESTION("openai/whisper-large-v3", "a10g-small", output_tokens=80, audio_seconds=s) for s in (0, 10, 61))
    assert one["unit"] == "windows"
    assert one["request_s"] == pytest.approx(one["ttft_s"] + 79 * (one["inter_token_s"] or 0))
    assert [of["request_s"] for of in (padded, three)] == pytest.approx([one["request_s"], 3 * one["request_s"]])
    expected = [s / one["request_s"] / n for s, n in ((30, 1), (10, 1), (61, 3))]
    assert [of["real_time_factor"] for of in (one, padded, three)] == pytest.approx(expected)
    assert one["low"]["real_time_factor"] < one["real_time_factor"] < one["high"]["real_time_factor"]


def test_an_encoder_of_sound_reads_positions_by_seconds() -> None:
    """wav2vec 2.0: 499 positions for 10 s, 1,499 for the default half minute, whatever the prompt."""
    ten, half = (QUESTION("facebook/wav2vec2-base-960h", "l4x1", prompt_tokens=7, audio_seconds=s) for s in (10, 0))
    assert [of["prompt_parts"][1]["inputs"]["tokens"] for of in (ten, half)] == ["499", "1,499"]
    assert half["real_time_factor"] == pytest.approx(30 / half["ttft_s"])


def test_a_distilled_pipeline_takes_its_own_steps() -> None:
    """FLUX.1-schnell is made for 4 steps (its model card), not for the 28 of its pipeline; stated steps are taken."""
    few = QUESTION("black-forest-labs/FLUX.1-schnell", "l40sx1")
    many = QUESTION("black-forest-labs/FLUX.1-schnell", "l40sx1", steps=28)
    assert any("4 steps" in caveat["message"] for caveat in few["caveats"])
    assert few["ttft_s"] < many["ttft_s"] / 3


def test_pictures_answer_by_size_and_steps() -> None:
    """SDXL, 1024 px, eager on an A100: measured 3.7 s for 30 steps, predicted a third more; a quarter of the pixels takes less."""
    answer = QUESTION("stabilityai/stable-diffusion-xl-base-1.0", "a100-large", steps=30)
    assert answer["unit"] == "pictures"
    assert answer["ttft_s"] == pytest.approx(3.7, rel=0.35)
    assert (
        QUESTION("stabilityai/stable-diffusion-xl-base-1.0", "a100-large", steps=30, width=512, height=512)["ttft_s"] < answer["ttft_s"] / 2
    )
    with pytest.raises(BadArgument, match="width"):
        QUESTION("stabilityai/stable-diffusion-xl-base-1.0", "a100-large", width=1001)


def test_zerogpu_takes_one_call_at_a_time() -> None:
    """Eight requests there are eight calls with a card each: one is timed, and the answer says so; a rented card batches them."""
    one, many = (QUESTION(LLAMA, "zero-a10g", concurrency=n) for n in (1, 8))
    assert many["running_requests"] == 1
    assert (many["ttft_s"], many["throughput_tokens_per_s"]) == (one["ttft_s"], one["throughput_tokens_per_s"])
    assert "calls_not_shared" in codes(many) - codes(one)
    rented = QUESTION(LLAMA, "l40sx1", concurrency=8)
    assert rented["running_requests"] == 8
    assert "calls_not_shared" not in codes(rented)


def test_no_encoder_was_timed_on_a_tpu() -> None:
    """The fit holds decoders on TPUs only, which an embedding model's answer says."""
    said = [one["message"] for one in QUESTION("BAAI/bge-base-en-v1.5", "v5litepod-1")["caveats"]]
    assert any("generates no text" in message for message in said)
    assert "extrapolated" not in codes(QUESTION(LLAMA, "v6e-8", engine="vllm-tpu"))


def test_sound_says_what_its_times_leave_open() -> None:
    """whisper-base, float32, two virtual CPUs: 2.65 s for a window and its first token, 39 ms for each other (optimum-benchmark).

    The predictions are 1.7 and 2.0 times shorter, as the caveat says; wav2vec2's says why its times are too short.
    """
    heard = QUESTION("openai/whisper-base", "cpu-basic", precision="fp32", output_tokens=100)
    assert 2.65 / (heard["ttft_s"] + heard["inter_token_s"]) == pytest.approx(1.7, abs=0.2)  # type: ignore[operator]
    assert (6.57 - 3.02) / 90 / heard["inter_token_s"] == pytest.approx(2.0, abs=0.2)  # type: ignore[operator]
    assert any("whisper-base took 1.7 times" in one["message"] for one in heard["caveats"])
    assert "waveform_convolutions" in codes(QUESTION("facebook/wav2vec2-base-960h", "l4x1"))
    assert not {"waveform_convolutions", "cpu_estimate"} & codes(QUESTION("openai/whisper-base", "l4x1"))


def test_prompts_of_llama_cpp_say_how_far_newer_builds_are_ahead() -> None:
    """RTX 4090, build 8720, Qwen3.5-27B Q4_K: 1,024 tokens at 2,848 tokens/s at once and at 1,431 after 32,768 (github.com/jiegec/kb)."""

    def seconds(prompt_tokens: int) -> float:
        asked = {"precision": "gguf:Q4_K_M", "engine": "llama.cpp", "prompt_tokens": prompt_tokens, "output_tokens": 1}
        answer = QUESTION("Qwen/Qwen3.5-27B", "RTX-4090", **asked)
        assert "prompts_of_2024" in codes(answer)
        return float(answer["ttft_s"])

    assert seconds(1024) * 2848 / 1024 == pytest.approx(1.5, abs=0.2)
    assert (seconds(33_792) - seconds(32_768)) * 1431 / 1024 == pytest.approx(1.8, abs=0.2)
    assert "prompts_of_2024" not in codes(QUESTION("Qwen/Qwen3-8B", "l4x1", engine="vllm"))


def test_hardware_decides_the_engine_where_it_must() -> None:
    """A TPU answers for vllm-tpu, with a caveat; vllm-tpu on a GPU is refused."""
    assert QUESTION(LLAMA, "TPU-v6ex4")["engine"] == "vllm-tpu"
    assert "engine_replaced" in codes(QUESTION(LLAMA, "TPU-v6ex4"))
    with pytest.raises(BadArgument, match="engine"):
        QUESTION(LLAMA, "l4x1", engine="vllm-tpu")


@pytest.mark.parametrize(
    ("name", "value"),
    [("prompt_tokens", 0), ("output_tokens", "256"), ("concurrency", 0), ("concurrency", 2.5), ("engine", "triton"), ("precision", "fp7")],
)
def test_wrong_arguments_are_named(name: str, value: object) -> None:
    """The refusal names the argument."""
    with pytest.raises(BadArgument, match=name):
        QUESTION(LLAMA, "l4x1", **{name: value})  # type: ignore[arg-type]


def test_unknown_hardware_is_refused() -> None:
    """Neither a tier nor silicon."""
    with pytest.raises(UnknownHardware):
        QUESTION(LLAMA, "l5x1")


LATENCY = ask(diagnose_latency, App(catalog=load, models=Models()))
METRICS = "vllm:time_to_first_token_seconds_sum 4\nvllm:time_to_first_token_seconds_count 10\n"


def test_the_answer_is_plain_json_with_the_fields_of_the_contract() -> None:
    """Shares add up; every sentence is worded."""
    answer = LATENCY(LLAMA, "l4x1", preprocess_ms=10, ttft_ms=400, tpot_ms=60)
    check_fields("diagnose_latency", answer)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert sum(part["share"] for part in answer["parts"]) == pytest.approx(1)
    assert [part["name"] for part in answer["parts"]] == list(get_args(RequestPart))
    assert answer["dominant"] == "decode"
    assert all(one["message"] for one in (*answer["reasons"], *answer["next_steps"], *answer["precisions"]))


def test_times_that_are_stated_win_over_those_of_a_text() -> None:
    """400 ms to the first token in the text, 60 ms a token stated."""
    answer = LATENCY(LLAMA, "l4x1", tpot_ms=60, metrics_text=METRICS)
    parts = {part["name"]: part["measured_ms"] for part in answer["parts"]}
    assert (parts["prefill"], parts["decode"]) == (400, 60 * 255)
    assert answer["read_from"] == "vllm"
    assert LATENCY(LLAMA, "l4x1", ttft_ms=100, metrics_text=METRICS)["parts"][3]["measured_ms"] == 100


@pytest.mark.parametrize(
    "asked", [{"ttft_ms": -1}, {"tpot_ms": math.inf}, {"metrics_text": 7}, {"metrics_text": "hello"}, {"queue_ms": "soon"}]
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, Any]) -> None:
    """In a sentence that names the argument."""
    with pytest.raises(BadArgument, match=f"^{next(iter(asked))} was "):
        LATENCY(LLAMA, "l4x1", **asked)


def test_every_part_and_every_effect_has_its_sentence() -> None:
    """Codes that are put together from a name."""
    assert {f"next_{part}" for part in get_args(RequestPart)} | {
        f"format_{effect}" for effect in ("latency", "prompt", "memory", "slower")
    } <= load_sentences("reasons").keys()
