"""The law of a training step against steps that this project measured on an H100 (`scripts/measure_training.py`)."""

from __future__ import annotations

import statistics

import pytest

from scripts.check_own_training import Judged, judge
from scripts.own_points import MEASURED, own_runs


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    """Every measured run that the law answers."""
    return judge(list(own_runs(MEASURED)))[0]


def test_memory_of_every_phase_agrees(judged: list[Judged]) -> None:
    """Bytes of tensors at the peak of each phase, and reserved bytes."""
    for phase in ("rollout", "scoring", "forward", "backward", "optimizer", "peak of tensors", "reserved"):
        errors = [abs(one.memory[phase] - 1) for one in judged if phase in one.memory]
        assert len(errors) >= 2
        assert statistics.median(errors) <= 0.12, phase


def test_seconds_of_a_step_agree(judged: list[Judged]) -> None:
    """Steps of all kinds, and rollouts and updates of GRPO; experts are slower than predicted and are stated as a limit."""
    for phase, most in (("step", 0.25), ("rollout", 0.2), ("update", 0.25)):
        errors = [abs(one.seconds[phase] - 1) for one in judged if phase in one.seconds and not one.run.has_experts]
        assert len(errors) >= 9
        assert statistics.median(errors) <= most, phase


def test_reserved_bytes_of_varying_lengths_agree(judged: list[Judged]) -> None:
    """No run that varies holds logits: their share was once that of decoders that do, which doubled some."""
    errors = [abs(one.memory["reserved"] - 1) for one in judged if not one.run.request.packing and one.run.kind != "diffusion"]
    assert len(errors) == 4
    assert max(errors) <= 0.3
