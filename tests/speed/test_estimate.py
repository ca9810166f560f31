"""Times to first token and between tokens, and their parts: 0 or more, adding up, and no request served sooner for more load."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.catalog import load
from lib.engines import TRAITS, Engine
from lib.errors import InvalidInput, UnsupportedModel
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.speed import SpeedRequest, predict_speed, predict_speeds

CATALOG = load()
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MODELS = (
    LLAMA,
    "meta-llama/Llama-3.1-70B-Instruct",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-0.6B",
    "google-bert/bert-base-uncased",
    "openai/whisper-large-v3",
)
HARDWARE = ("t4-small", "l4x1", "l4x4", "a100-large", "cpu-upgrade", "H100-SXM", "B200", "RTX-4090")
ENGINES: tuple[Engine, ...] = ("transformers", "vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp")


@cache
def spec_of(name: str) -> ModelSpec:
    """A bundled model."""
    spec = bundled.find_spec(name)
    assert spec is not None, name
    return spec


def runs(name: str, hardware: str, engine: Engine) -> bool:
    """Whether this question has an answer."""
    try:
        predict_speed(spec_of(name), CATALOG.resolve_hardware(hardware), SpeedRequest(engine=engine), CATALOG.accelerators)
    except (InvalidInput, UnsupportedModel):
        return False
    return True


ASKABLE = tuple((m, h, e) for m in MODELS for h in HARDWARE for e in ENGINES if spec_of(m).work in TRAITS[e].works and runs(m, h, e))


@settings(max_examples=150, deadline=None)
@given(
    of=st.sampled_from(ASKABLE),
    prompt=st.integers(1, 60_000),
    answer=st.integers(1, 4_000),
    requests=st.integers(1, 300),
    layers=st.none() | st.integers(0, 8),
)
def test_parts_are_positive_and_add_up(of: tuple[str, str, Engine], prompt: int, answer: int, requests: int, layers: int | None) -> None:
    """What is shown explains the whole time, and nothing in it is a gain."""
    name, hardware, engine = of
    request = SpeedRequest(
        engine=engine,
        prompt_tokens=prompt,
        output_tokens=answer,
        concurrency=requests,
        gpu_layers=layers if engine == "llama.cpp" and "x4" not in hardware and "cpu" not in hardware else None,
    )
    found = predict_speed(spec_of(name), CATALOG.resolve_hardware(hardware), request, CATALOG.accelerators)
    for parts, whole in ((found.prompt_parts, found.ttft_s), (found.decode_parts, found.tpot_s)):
        assert all(part.seconds >= 0 for part in parts), [(part.name, part.seconds) for part in parts]
        if whole is not None:
            assert sum(part.seconds for part in parts) == pytest.approx(whole.value, rel=1e-6)


@pytest.mark.parametrize("answer", [1, 3, 500])
def test_no_first_token_comes_sooner_for_more_requests_or_a_longer_prompt(answer: int) -> None:
    """TTFT grows with concurrency and with the prompt, where all run at once and where some wait; not by a jump to a plateau."""
    requests, prompts = (1, 2, 3, 8, 48, 400), (1, 16, 512, 2048, 30_000)
    for name, hardware, engine in ASKABLE:
        spec, where = spec_of(name), CATALOG.resolve_hardware(hardware)
        asked = [SpeedRequest(engine=engine, prompt_tokens=p, output_tokens=answer, concurrency=b) for b in requests for p in prompts]
        table = predict_speeds([(spec, where, one) for one in asked], CATALOG.accelerators)
        ttft = table.ttft_s.value.reshape(len(requests), len(prompts))
        assert (np.diff(ttft, axis=0) >= -1e-9 * ttft[1:]).all(), (name, hardware, engine)
        assert (np.diff(ttft, axis=1) >= -1e-9 * ttft[:, 1:]).all(), (name, hardware, engine)


def test_a_second_request_waits_for_steps_and_no_more() -> None:
    """L8 on an L4, 512 tokens: the second waits for fewer than four decode steps, and every further one adds to it."""
    where = CATALOG.resolve_hardware("l4x1")
    found = [
        predict_speed(spec_of(LLAMA), where, SpeedRequest(engine="vllm", precision="fp8", concurrency=b), CATALOG.accelerators)
        for b in (1, 2, 4, 8, 16)
    ]
    first = [one.ttft_s.value for one in found]
    assert found[1].tpot_s is not None
    assert 0 < first[1] - first[0] < 4 * found[1].tpot_s.value
    assert (np.diff(first) > 0.005).all()
    assert {"decode steps waited for", "prompts ahead"} <= {part.name for part in found[1].prompt_parts}
    assert not {"decode steps waited for", "prompts ahead"} & {part.name for part in found[0].prompt_parts}


def test_the_shorter_of_two_overlapping_parts_states_what_its_law_gives() -> None:
    """One token on an L4: its arithmetic alone takes longer than what it adds to reading the weights, and both stand in the inputs."""
    found = predict_speed(spec_of(LLAMA), CATALOG.resolve_hardware("l4x1"), SpeedRequest(engine="vllm"), CATALOG.accelerators)
    parts = {part.name: part for part in found.decode_parts}
    alone_s = float(parts["arithmetic"].inputs["alone"].removesuffix(" ms")) / 1e3
    assert alone_s > parts["arithmetic"].seconds
    assert "reading weights" in parts["arithmetic"].inputs["counted"]
    assert "alone" not in parts["reading weights"].inputs


@pytest.mark.parametrize("engine", ["vllm", "transformers", "llama.cpp"])
def test_no_prompt_is_read_faster_than_the_silicon_computes(engine: Engine) -> None:
    """Linear layers of Llama 3.1 8B by its config: 32 · (2 · 4096² + 2 · 4096 · 1024 + 3 · 4096 · 14336) = 6.979e9, 2 FLOP each a token.

    At every load of every GPU tier. A server reads one prompt in the same time whatever else runs; a load that waits raises nothing.
    """
    flop = 2 * 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    gpus = [offer for offer in CATALOG.offers if offer.silicon is not None and offer.silicon.kind == "gpu"]
    cards = [offer for offer in gpus if runs(LLAMA, offer.id, engine)]
    loads = (1, 2, 8, 32, 64, 256)
    asked = [(spec_of(LLAMA), card, SpeedRequest(prompt_tokens=512, concurrency=load, engine=engine)) for card in cards for load in loads]
    rows = iter(predict_speeds(asked, CATALOG.accelerators).estimates())
    assert len(cards) > 10
    for card in cards:
        assert card.silicon is not None
        peak = max(card.silicon.peak(name) or 0 for name in ("bf16", "fp16", "fp32")) * card.accelerator_count
        times = [next(rows).prefill_s or 0.0 for _ in loads]
        assert all(512 / seconds <= peak / flop for seconds in times), card.id
        assert all(later <= sooner * 1.05 for sooner, later in pairwise(times)), (card.id, times)


@pytest.mark.parametrize(("hardware", "engine"), [("l4x1", "vllm"), ("a100-large", "transformers"), ("H100-SXM", "vllm")])
def test_a_long_prompt_is_never_read_before_its_arithmetic_is_done(hardware: str, engine: Engine) -> None:
    """The low end of TTFT: products with 6.98e9 weights, and causal attention over 131,072 tokens, which is two thirds of the FLOP."""
    tokens = 131_072 - 256
    offer = CATALOG.resolve_hardware(hardware)
    request = SpeedRequest(engine=engine, prompt_tokens=tokens, output_tokens=256)
    flop = 2 * 6.98e9 * tokens + 2 * 32 * 4096 * tokens**2
    peak = offer.processor.peak("bf16")
    assert peak is not None
    assert predict_speed(spec_of(LLAMA), offer, request, CATALOG.accelerators).ttft_s.low >= 0.99 * flop / peak
