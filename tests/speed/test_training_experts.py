"""Seconds and bytes of training steps of models with experts, against steps that this project measured on an H100."""

from __future__ import annotations

import statistics

import pytest

from lib.errors import BadArgument
from lib.memory.trained import adapted_experts, count_trained
from lib.memory.training import check_training, step_peaks
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.speed.adapter_work import count_experts
from lib.workload import TrainingRequest
from scripts.check_own_training import Judged, judge
from scripts.own_points import MEASURED, own_runs

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")


def olmoe() -> ModelSpec:
    """OLMoE 1B-7B: 16 layers with 64 experts, of which a token passes 8."""
    spec = bundled.find_spec("allenai/OLMoE-1B-7B-0125-Instruct")
    assert spec is not None
    return spec


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    """Measured runs of models with experts: LoRA on attention, LoRA on experts, full, GRPO."""
    return judge([run for run in own_runs(MEASURED) if run.has_experts])[0]


def test_seconds_agree(judged: list[Judged]) -> None:
    """512 to 32,768 tokens of four models: half within 10 %, nine in ten within 30 %. Rollouts are apart: they are too fast."""
    errors = sorted(abs(one.seconds["step"] - 1) for one in judged if not one.run.request.samples)
    assert len(errors) >= 18
    assert statistics.median(errors) <= 0.1
    assert errors[int(0.9 * (len(errors) - 1))] <= 0.3


def test_reserved_bytes_agree(judged: list[Judged]) -> None:
    """All within 6 %, adapters on experts among them, whose memory was up to 46 % too low."""
    assert max(abs(one.memory["reserved"] - 1) for one in judged) <= 0.06


def test_adapters_of_experts_are_counted_as_peft_makes_them() -> None:
    """Peft 0.21 trained 189,284,352 parameters at rank 16, the routers' adapters among them; 4,194,304 on attention alone."""
    every, attention = TrainingRequest(method="lora", rank=16), TrainingRequest(method="lora", rank=16, target_modules=ATTENTION)
    assert count_trained(olmoe(), every)[1] == 189_284_352 - 16 * 16 * (64 + 2048)
    assert count_trained(olmoe(), attention)[1] == 4_194_304
    merged = count_experts(olmoe(), every)
    assert merged.merged_bytes == merged.weight_bytes == 2 * 16 * 64 * 3 * 2048 * 1024
    assert count_experts(olmoe(), attention).merged_bytes == 0


def test_merged_experts_of_all_layers_stay_without_checkpoints() -> None:
    """Each layer's experts with their adapters are kept for the backward pass, unless layers are recomputed."""
    peaks = {
        kind: step_peaks(olmoe(), TrainingRequest(method="lora", sequence_tokens=512, checkpointing=kind)).loss["saved activations"]
        for kind in ("none", "layers")
    }
    assert peaks["none"] - peaks["layers"] > count_experts(olmoe(), TrainingRequest(method="lora")).weight_bytes


def test_dora_on_experts_is_refused() -> None:
    """Peft raises an error; matrices of attention alone are accepted."""
    with pytest.raises(BadArgument, match="peft puts adapters on the experts"):
        check_training(olmoe(), TrainingRequest(method="dora"))
    check_training(olmoe(), TrainingRequest(method="dora", target_modules=ATTENTION))
    other = bundled.find_spec("Qwen/Qwen1.5-MoE-A2.7B")
    assert other is not None
    assert adapted_experts(other, TrainingRequest(method="lora")) == []
