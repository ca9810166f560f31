"""Published measurements of memory against the laws, with the tolerances that they meet."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_memory.py"


@cache
def script() -> ModuleType:
    """The script that prints the errors, as a module."""
    spec = importlib.util.spec_from_file_location("check_memory", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_memory"] = module
    spec.loader.exec_module(module)
    return module


def errors(**wanted: str) -> list[float]:
    """Relative errors of the points with these values."""
    checks: list[Any] = script().checks()
    return [c.error for c in checks if all(c.point[key] == value for key, value in wanted.items())]


@pytest.mark.parametrize(("precision", "within"), [("bf16", 0.03), ("gptq-4", 0.05), ("gptq-8", 0.05), ("awq-4", 0.04)])
def test_inference_peaks_of_qwen(precision: str, within: float) -> None:
    """Peaks that Qwen published for transformers 4.46 on an A100, 1 to 30 720 prompt tokens: half are met within 1.5 %.

    Nine in ten lie within a few per cent. The rest are runs with a prompt of one token, where loading the table of a small
    quantized model is the peak and not its use.
    """
    found = [abs(e) for e in errors(source="qwen25-speed", precision=precision)]
    assert len(found) >= 8
    assert statistics.median(found) <= 0.015
    assert sorted(found)[int(0.9 * (len(found) - 1))] <= within


def test_tensors_of_qwen3_at_the_end_of_a_run() -> None:
    """Allocated tensors after 2048 generated tokens are weights and cache: half of the bf16 points within 0.5 %, all within 3 %."""
    found = [abs(e) for e in errors(source="qwen3-speed", precision="bf16")]
    assert statistics.median(found) <= 0.005
    assert max(found) <= 0.03


def test_whole_prompt_logits_of_older_transformers() -> None:
    """With the logits of the whole prompt and their float32 copy, Qwen2 at 30 720 prompt tokens is met within 10 %."""
    assert statistics.median(map(abs, errors(source="qwen2-speed"))) <= 0.06
    assert max(abs(c.error) for c in script().checks() if c.point["source"] == "qwen2-speed" and c.point["tokens"] > 4096) <= 0.11


def test_lora_without_checkpointing() -> None:
    """LoRA runs of litgpt on one card: half within 7 %, all within 12 %. No run of litgpt is in the fit."""
    found = errors(source="litgpt", method="lora")
    assert len(found) == 11
    assert statistics.median(map(abs, found)) <= 0.07
    assert max(map(abs, found)) <= 0.12


def test_qlora_of_litgpt_is_too_low() -> None:
    """QLoRA runs of litgpt: half within 21 %, all within 31 %, all too low.

    TinyLlama took 2.7 GB more with QLoRA than with LoRA, although its weights were 1.6 GB smaller: litgpt keeps tensors that no law of
    peft's stacks counts.
    """
    found = errors(source="litgpt", method="qlora")
    assert len(found) == 8
    assert statistics.median(map(abs, found)) <= 0.21
    assert -0.31 <= min(found) <= max(found) < 0


def test_sharded_lora_of_70_billion() -> None:
    """torchtune: 27.6 GiB on each of eight cards at batch 2 × 2048; the estimate is 12.5 % more."""
    (found,) = errors(source="torchtune", method="lora")
    assert 0 <= found <= 0.13
