"""The table of steps beside the laws that it is made of, and a simulated lone request beside the prediction for it."""

from __future__ import annotations

import numpy as np
import pytest

from lib.catalog import load
from lib.errors import UnsupportedModel
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.speed import SpeedRequest, predict_speed
from lib.speed.batch import describe_passes, tabulate
from lib.speed.calibration import load_calibration
from lib.speed.steps import resolve_steps
from lib.speed.timing import reach_rates, time_forward_pass

CATALOG = load()
CASES = [
    ("meta-llama/Llama-3.1-8B-Instruct", "l4x1", "vllm"),
    ("openai/gpt-oss-20b", "l40sx1", "vllm"),
    ("Qwen/Qwen3-0.6B", "t4-small", "transformers"),
    ("Qwen/Qwen3-8B", "a100-large", "llama.cpp"),
]


def spec_of(name: str) -> ModelSpec:
    """A bundled model."""
    spec = bundled.find_spec(name)
    assert spec is not None
    return spec


@pytest.mark.parametrize(("name", "hardware", "engine"), CASES)
def test_a_lone_request_takes_what_the_laws_predict(name: str, hardware: str, engine: str) -> None:
    """Prompt and the fixed time that come before the first token, with no step waited for, and a step in the middle of the answer."""
    where = CATALOG.resolve_hardware(hardware)
    request = SpeedRequest(engine=engine, prompt_tokens=700, output_tokens=300)  # type: ignore[arg-type]
    predicted = predict_speed(spec_of(name), where, request, CATALOG.accelerators)
    steps = resolve_steps(spec_of(name), where, request, CATALOG.accelerators, sequences=8, prefill_tokens=2048, longest=1000).steps
    step_s = steps.step_s(1, 0, 850)
    first_s = steps.step_s(0, 700, 0.0) + steps.attention_s(0, 700) + steps.fixed_s
    assert first_s == pytest.approx(predicted.ttft_s.value, rel=1e-6)
    assert predicted.tpot_s is not None
    assert step_s == pytest.approx(predicted.tpot_s.value, rel=1e-3)


@pytest.mark.parametrize(("name", "hardware", "engine"), CASES[:3])
def test_what_lies_between_the_points_of_the_grid_is_close(name: str, hardware: str, engine: str) -> None:
    """Every number of sequences, chunk and length, where the laws are asked themselves: within 3 %, half of them within 0.2 %."""
    request = SpeedRequest(engine=engine)  # type: ignore[arg-type]
    of = resolve_steps(
        spec_of(name), CATALOG.resolve_hardware(hardware), request, CATALOG.accelerators, sequences=256, prefill_tokens=8192, longest=4096
    )
    random = np.random.default_rng(0)
    n, m, t = random.integers(1, 257, 400), random.integers(0, 8193, 400) * (random.random(400) < 0.5), random.integers(1, 4097, 400)
    row, _ = describe_passes(of.engine_config)
    rows = tabulate([row], [of.engine_config.ceilings]).take(np.zeros(400, dtype=np.int64))
    constants = load_calibration().constants
    asked = time_forward_pass(
        rows,
        constants,
        reach_rates(rows, constants),
        tokens=(n + m).astype(float),
        cached_tokens=t.astype(float),
        sequences=n.astype(float),
    )
    looked_up = [of.steps.step_s(*one) for one in zip(n.tolist(), m.tolist(), t.tolist(), strict=True)]
    errors = np.abs(np.array(looked_up) / asked.total - 1)
    assert errors.max() < 0.03
    assert np.median(errors) < 0.002


def test_chunks_of_a_prompt_add_up_to_it() -> None:
    """However a prompt is cut, its attention takes the same; later chunks take longer."""
    steps = resolve_steps(
        spec_of(CASES[0][0]), CATALOG.resolve_hardware("l4x1"), SpeedRequest(engine="vllm"), CATALOG.accelerators,
        sequences=1, prefill_tokens=8192, longest=8192,
    ).steps  # fmt: skip
    chunks = [steps.attention_s(at, at + 2048) for at in range(0, 8192, 2048)]
    assert sum(chunks) == pytest.approx(steps.attention_s(0, 8192))
    assert chunks == sorted(chunks)


def test_models_without_steps_are_refused() -> None:
    """An encoder generates nothing."""
    with pytest.raises(UnsupportedModel, match="token by token"):
        resolve_steps(
            spec_of("google-bert/bert-base-uncased"), CATALOG.resolve_hardware("l4x1"), SpeedRequest(), CATALOG.accelerators,
            sequences=1, prefill_tokens=512, longest=512,
        )  # fmt: skip
