"""Seconds of a training step with states in host memory."""

from __future__ import annotations

import pytest

from lib.catalog import load
from lib.model import bundled
from lib.request.sharding import Sharding
from lib.speed.training import predict_step
from lib.workload import TrainingRequest


@pytest.mark.parametrize(("sharding", "micro_batch", "alone", "offloaded"), [("zero2", 1, 4.19, 1.81), ("zero3", 2, 4.45, 2.05)])
def test_the_range_holds_published_offloading(sharding: Sharding, micro_batch: int, alone: float, offloaded: float) -> None:
    """LLaMA 7B in full on 8 A800, 64 samples a step: gist chenyaofo/d4cd6a20ab4b95cb3a49491747e2139a, in samples/s."""
    catalog, spec = load(), bundled.find_spec("meta-llama/Llama-2-7b-hf")
    assert spec is not None
    seconds = []
    for name in (sharding, f"{sharding}_offload"):
        asked = TrainingRequest(
            method="full", sharding=name, devices=8, micro_batch=micro_batch, accumulation=8 // micro_batch, sequence_tokens=4096,
            stack="transformers",
        )  # fmt: skip
        speed = predict_step(spec, asked, catalog.accelerator("A100-SXM4-80GB"), catalog.accelerators)
        assert speed is not None
        seconds.append((asked.step_tokens / speed.tokens_per_s, asked.step_tokens / speed.tokens_per_s_low, speed.host_s))
    measured = 64 / offloaded - 64 / alone
    (_, slow_alone, _), (least, slowest, host_s) = seconds
    assert host_s < measured < slowest - slow_alone
    assert least < 64 / offloaded < slowest
