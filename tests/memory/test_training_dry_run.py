"""The law of a training step beside the dry run of the real architecture, which executes it without values."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Literal

import pytest

from lib.memory.training import step_peaks
from lib.model import bundled
from lib.model.dry_run import dry_run
from lib.model.resolve import resolve_config
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


@pytest.mark.parametrize("name", ["google-bert/bert-base-uncased", "Qwen/Qwen2.5-0.5B"])
def test_autocast_casts_a_float32_stream_for_each_matrix(name: str) -> None:
    """Mixed precision without checkpoints, with and without dropout: within 2 % of the peak that is executed."""
    config, spec = bundled.find_config(name), bundled.find_spec(name)
    assert config is not None
    assert spec is not None
    request = TrainingRequest(
        method="full", checkpointing="none", sequence_tokens=256, micro_batch=4, stack="axolotl", fused_loss=False, packing=False,
    )  # fmt: skip
    executed = dry_run(config, batch=4, prompt_tokens=256, training=request)
    assert max(sum(peak.values()) for peak in step_peaks(spec, request)) == pytest.approx(executed.peak_bytes, rel=0.02)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_dropout_keeps_a_mask(attention: Literal["sdpa", "eager"]) -> None:
    """Two masks of the hidden size in each of BERT's layers; eager attention also keeps one of the scores."""
    spec = bundled.find_spec("google-bert/bert-base-uncased")
    assert spec is not None
    request = TrainingRequest(
        method="full", checkpointing="none", sequence_tokens=256, stack="transformers", packing=False, attention=attention
    )
    saved = [step_peaks(of, request).loss["saved activations"] for of in (spec, replace(spec, drops_hidden=False, drops_scores=False))]
    each = 2 * 768 + (12 * 256 if attention == "eager" else 0)
    assert saved[0] - saved[1] == 12 * 256 * each


def test_dropout_is_read_from_a_configuration() -> None:
    """A rate of 0 keeps no mask; rates that are not stated are those of the class."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100}
    bert = {"model_type": "bert", "architectures": ["BertModel"], **sizes}
    stated, off = resolve_config(bert), resolve_config(bert | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    assert (stated.drops_hidden, stated.drops_scores, off.drops_hidden, off.drops_scores) == (True, True, False, False)
    bundled_spec = bundled.find_spec("BAAI/bge-large-en-v1.5")
    assert bundled_spec is not None
    assert (bundled_spec.drops_hidden, bundled_spec.drops_scores) == (True, True)
