"""Published measurements beside predictions, each with its source; bands as wide as measurements of the same kind differ.

The fit saw some of them (`scripts/calibrate.py`); its tables of errors say how it does on models that it did not see. What it cannot see
is here too: formats that a card emulates, processors, and prompts far longer than most that were measured.
"""

from __future__ import annotations

import itertools

import pytest

from lib.catalog import load
from lib.engines import Engine
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.speed import ExplainedSpeed, SpeedRequest, predict_speed

CATALOG = load()
LLAMA_7B = "meta-llama/Llama-2-7b-hf"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_1B = "meta-llama/Llama-3.2-1B-Instruct"
QWEN_3B = "Qwen/Qwen2.5-3B-Instruct"
QWEN_600M = "Qwen/Qwen3-0.6B"


def ask(
    model: str,
    hardware: str,
    *,
    precision: str = "fp16",
    engine: Engine = "transformers",
    prompt: int = 512,
    answer: int = 256,
    batch: int = 1,
) -> ExplainedSpeed:
    """The estimate for a bundled model."""
    spec = bundled.find_spec(model)
    assert isinstance(spec, ModelSpec)
    request = SpeedRequest(precision=precision, engine=engine, prompt_tokens=prompt, output_tokens=answer, concurrency=batch)
    return predict_speed(spec, CATALOG.resolve_hardware(hardware), request, CATALOG.accelerators)


def step_s(found: ExplainedSpeed) -> float:
    """Seconds of a decode step."""
    assert found.tpot_s is not None
    return found.tpot_s.value


def codes(found: ExplainedSpeed) -> set[str]:
    """Codes of the caveats."""
    return {caveat.code for caveat in found.caveats}


@pytest.mark.parametrize(("batch", "seconds"), [(1, 0.0334), (8, 0.206), (32, 0.816)])
def test_prefill_of_llama_2_7b_with_transformers(batch: int, seconds: float) -> None:
    """256 tokens each, fp16, A100-SXM4-80GB: optimum-benchmark examples/running-llamas, transformers 4.35.2, eager attention."""
    assert ask(LLAMA_7B, "A100-SXM4-80GB", prompt=256, batch=batch).ttft_s.value == pytest.approx(seconds, rel=0.25)


@pytest.mark.parametrize(("batch", "tokens_per_s"), [(16, 481), (32, 627), (64, 742)])
def test_decode_of_llama_2_7b_with_transformers(batch: int, tokens_per_s: float) -> None:
    """512 tokens after 256, as above: beyond a batch of 8 the cache that is copied at each step takes most of the time."""
    found = ask(LLAMA_7B, "A100-SXM4-80GB", prompt=256, answer=512, batch=batch)
    assert batch / step_s(found) == pytest.approx(tokens_per_s, rel=0.25)
    copied = next(part for part in found.decode_parts if part.name == "copying the cache")
    assert copied.seconds > 0.25 * step_s(found)


def test_only_transformers_copies_its_cache() -> None:
    """An engine that pages it has no such part."""
    found = ask(LLAMA_7B, "A100-SXM4-80GB", engine="vllm", batch=32)
    assert "copying the cache" not in {part.name for part in found.decode_parts}


@pytest.mark.parametrize(("tokens", "seconds"), [(10_000, 0.976), (50_000, 8.53), (100_000, 24.9), (200_000, 79.4)])
def test_long_prompts_with_transformers(tokens: int, seconds: float) -> None:
    """An 8B Llama in bf16 with FlashAttention-2 on an A100 80GB: microsoft/MInference experiments/README.md (fb56c917f6)."""
    found = ask(LLAMA_8B, "A100-SXM4-80GB", precision="bf16", prompt=tokens, answer=1)
    assert found.ttft_s.value == pytest.approx(seconds, rel=0.25)


def test_a_long_prompt_with_vllm() -> None:
    """The same 8B, 100,000 tokens, vLLM with FlashAttention on the A100: 21.7 s (same source)."""
    found = ask(LLAMA_8B, "A100-SXM4-80GB", precision="bf16", engine="vllm", prompt=100_000, answer=1)
    assert found.ttft_s.value == pytest.approx(21.7, rel=0.25)


@pytest.mark.parametrize("engine", ["transformers", "vllm", "llama.cpp"])
@pytest.mark.parametrize("hardware", ["L4", "A100-SXM4-80GB", "H100-SXM", "RTX-4090", "T4"])
def test_attention_takes_over_as_prompts_grow(engine: Engine, hardware: str) -> None:
    """Eight times the prompt takes more than eight times as long, and never more than 64 times: from linear toward quadratic."""
    times = [
        ask(LLAMA_8B, hardware, engine=engine, precision="auto", prompt=tokens, answer=1).ttft_s.value for tokens in (2048, 16384, 131072)
    ]
    assert 6 < times[1] / times[0] < 64
    assert 8 < times[2] / times[1] < 64
    assert times[2] / times[1] > times[1] / times[0]


@pytest.mark.parametrize(("batch", "tokens_per_s"), [(1, 25.66), (8, 189.6)])
def test_decode_on_a_t4(batch: int, tokens_per_s: float) -> None:
    """Qwen2.5-3B fp16, 64 tokens after 64: bitsandbytes benchmarking/README.md (95f9af309d), transformers 4.46.3.

    That release repeated keys for each query head, which costs more the larger the batch; today's does not.
    """
    found = ask(QWEN_3B, "T4", prompt=64, answer=64, batch=batch)
    assert batch / step_s(found) == pytest.approx(tokens_per_s, rel=0.25)


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_bf16_on_a_t4_is_emulated(engine: Engine) -> None:
    """A T4 multiplies bf16 at about 2 TFLOP/s: slower than fp16, prompts several times (training: 4.3 times, earino.github.io)."""
    half, brain = (ask(LLAMA_1B, "T4", engine=engine, precision=name) for name in ("fp16", "bf16"))
    assert step_s(brain) > 1.02 * step_s(half)
    assert brain.ttft_s.value > 4 * half.ttft_s.value
    assert "emulated_dtype" in codes(brain)
    assert "emulated_dtype" not in codes(half)


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("hardware", ["T4", "A100-SXM4-80GB", "A10G"])
def test_fp8_without_units_and_kernels_is_never_ahead_of_16_bits(hardware: str, batch: int) -> None:
    """On cards before Ada transformers stores fp8 and multiplies in 16 bits, and the answer says so."""
    half, eight = (ask(LLAMA_1B, hardware, precision=name, batch=batch) for name in ("fp16", "fp8"))
    assert step_s(eight) >= step_s(half) * (1 - 1e-9)
    assert eight.ttft_s.value >= half.ttft_s.value * (1 - 1e-9)
    assert "emulated_dtype" in codes(eight)


@pytest.mark.parametrize("hardware", ["T4", "A100-SXM4-80GB", "A10G"])
def test_weight_only_kernels_save_reading_and_no_arithmetic(hardware: str) -> None:
    """Marlin of vLLM reads 8 bits and multiplies in 16: tokens come faster, by less than twice; a long prompt is not faster."""
    half, eight = (ask(LLAMA_8B, hardware, engine="vllm", precision=name) for name in ("fp16", "fp8"))
    assert 0.5 * step_s(half) < step_s(eight) < 0.9 * step_s(half)
    half, eight = (ask(LLAMA_8B, hardware, engine="vllm", precision=name, prompt=2048) for name in ("fp16", "fp8"))
    assert half.ttft_s.value <= eight.ttft_s.value < 1.4 * half.ttft_s.value
    assert "weight_only" in codes(eight)


def test_fp8_with_units_carries_no_caveat() -> None:
    """An L4 has them, and reads half of the bytes."""
    half, eight = (ask(LLAMA_8B, "L4", engine="vllm", precision=name) for name in ("bf16", "fp8"))
    assert "emulated_dtype" not in codes(eight)
    assert step_s(eight) < step_s(half)


def test_packed_weights_are_unpacked_before_long_prompts() -> None:
    """4 bits of bitsandbytes on an A100: a prompt takes about 20 ms longer than in fp16 (measured for 7B: 52.6 and 26.0 ms)."""
    half, four = (ask(LLAMA_7B, "A100-SXM4-80GB", precision=name, prompt=128, answer=2) for name in ("fp16", "bnb-nf4"))
    assert four.ttft_s.value > half.ttft_s.value + 0.01
    assert "unpacking weights" in {part.name for part in four.prompt_parts}
    assert "unpacking weights" not in {part.name for part in four.decode_parts}, "one row is unpacked in registers"


@pytest.mark.parametrize(("model", "seconds"), [(QWEN_600M, 2.0), (LLAMA_1B, 4.2)])
def test_the_rates_of_a_processor_are_not_reduced_twice(model: str, seconds: float) -> None:
    """512 tokens on cpu-upgrade, 0.3 TFLOP/s reached: 2 · parameters · 512 / 0.3e12, less the logits that only the last position needs."""
    found = ask(model, "cpu-upgrade", precision="auto")
    assert found.ttft_s.value == pytest.approx(seconds, rel=0.30)
    assert "cpu_estimate" in codes(found)


def test_bf16_without_instructions_is_no_faster_than_float32() -> None:
    """Measured with torch 2.13 limited to AVX2 and AVX-512: one row takes 1.6-1.9 times as long as in float32."""
    single, brain = (ask(LLAMA_1B, "cpu-upgrade", precision=name) for name in ("fp32", "bf16"))
    assert step_s(brain) >= step_s(single) * (1 - 1e-9)
    assert "emulated_dtype" in codes(brain)


def test_named_processors_get_their_own_figures() -> None:
    """Sapphire Rapids has matrix units (AMX) for bf16, Ice Lake has none; the same eight virtual CPUs otherwise."""
    generic, ice, sapphire = (
        ask(LLAMA_1B, name, precision="bf16") for name in ("azure-intel-xeon-x8", "aws-intel-icl-x8", "aws-intel-spr-x8")
    )
    assert sapphire.ttft_s.value < 0.7 * min(generic.ttft_s.value, ice.ttft_s.value)
    assert step_s(sapphire) < 0.7 * step_s(generic)
    assert "emulated_dtype" not in codes(sapphire)
    assert "emulated_dtype" in codes(ice)


def test_more_cores_read_faster_but_less_than_in_proportion() -> None:
    """Cores share memory channels: twice the virtual CPUs of a processor give more bandwidth, and less than twice."""
    steps = [step_s(ask(LLAMA_1B, f"aws-intel-spr-x{size}", precision="bf16")) for size in (2, 4, 8, 16)]
    ratios = [slow / fast for slow, fast in itertools.pairwise(steps)]
    assert all(1 < ratio < 2 for ratio in ratios)
