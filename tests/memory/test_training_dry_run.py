"""The law of a training step beside the dry run of the real architecture, which executes it without values."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest

from lib.memory.training import step_peaks
from lib.model import bundled
from lib.model.dry_run import dry_run
from lib.workload import TrainingRequest


@pytest.mark.parametrize(
    ("name", "method", "checkpointing"),
    [
        *product(("meta-llama/Llama-3.2-1B",), ("full", "lora", "qlora"), (True, False)),
        *product(("Qwen/Qwen3-0.6B",), ("full", "lora", "qlora"), (True,)),  # normed queries and keys
        *product(("Qwen/Qwen2.5-0.5B",), ("full", "lora", "qlora"), (False,)),  # biases
        ("google/gemma-2-2b", "qlora", True),  # capped logits
        ("google-bert/bert-base-uncased", "lora", True),  # a loss in the dtype of the logits
    ],
)
def test_peak_of_a_step(name: str, method: Literal["full", "lora", "qlora"], checkpointing: bool) -> None:
    """512 tokens in bf16 with fused AdamW and the plain loss: within 5 % of the peak that is executed."""
    config, spec = bundled.find_config(name), bundled.find_spec(name)
    assert config is not None
    assert spec is not None
    asked = TrainingRequest(
        method=method, precision="bf16", checkpointing="layers" if checkpointing else "none", sequence_tokens=512, stack="axolotl",
        fused_loss=False, packing=False,
    )  # fmt: skip
    executed = dry_run(config, prompt_tokens=512, training=asked)
    closed = max(sum(moment.values()) for moment in step_peaks(spec, asked))
    assert closed == pytest.approx(executed.peak_bytes, rel=0.05)


def test_autocast_keeps_every_layers_copies_until_the_loss() -> None:
    """Mixed precision with checkpoints: at the end of the forward pass the 16-bit copies of all layers are there, after it those of one."""
    name = "meta-llama/Llama-3.2-1B"
    config, spec = bundled.find_config(name), bundled.find_spec(name)
    assert config is not None
    assert spec is not None
    request = TrainingRequest(method="full", sequence_tokens=512, stack="axolotl", fused_loss=False, packing=False)
    executed = dry_run(config, prompt_tokens=512, training=request)
    assert executed.training is not None
    peaks = step_peaks(spec, request)
    base = executed.weights_bytes + executed.buffer_bytes
    assert sum(peaks.logits.values()) == pytest.approx(base + executed.training.forward.peak_bytes, rel=0.05)
    assert max(sum(peak.values()) for peak in peaks) == pytest.approx(executed.peak_bytes, rel=0.05)
    assert peaks.logits["16-bit copies"] > 4 * peaks.loss["16-bit copies"]
