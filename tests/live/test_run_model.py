"""Random weights made after a build on the meta device: the model is the one that transformers builds by itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lib.live.run_model import BLOCK, build_on_meta, give_memory, time_run
from lib.model.build import config_class, model_class

COMMON: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "vocab_size": 211,
    "max_position_embeddings": 256,
}
ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
CALLS = {"output_hidden_states": True, "output_attentions": True, "use_cache": False, "return_dict": False}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": COMMON | {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_scaling": ROPE},
    "tied": COMMON | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 16, "tie_word_embeddings": True},
    "windows": COMMON
    | {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        "head_dim": 16,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    },
    "experts": COMMON
    | {
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "head_dim": 16,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    },
    "alibi": {
        "model_type": "bloom",
        "architectures": ["BloomForCausalLM"],
        "hidden_size": 64,
        "n_head": 4,
        "n_layer": 2,
        "vocab_size": 211,
    },
    "state": {
        "model_type": "mamba2",
        "architectures": ["Mamba2ForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "vocab_size": 211,
        "num_heads": 8,
        "head_dim": 16,
        "state_size": 16,
        "n_groups": 1,
        "chunk_size": 16,
    },
    "encoder": COMMON | {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
}


def _build_in_memory(config: dict[str, Any]) -> Any:
    """The same class, constructed in memory by its own constructor."""
    made = config_class(config).from_dict(dict(config))
    return model_class(made, config)[0](made).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_values_give_the_same_logits(family: str) -> None:
    """Parameters are copied into a model built in memory; only what is computed (rotary frequencies, masks, windows) could differ."""
    config = FAMILIES[family]
    made, own = give_memory(build_on_meta(config, "fp32"), "fp32", "cpu"), _build_in_memory(config)
    own.load_state_dict(made.state_dict(), strict=True)
    prompt = torch.randint(0, 211, (1, 24), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        ours, theirs = made(input_ids=prompt).logits, own(input_ids=prompt).logits
    assert torch.isfinite(ours).all()
    assert ours.std() > 0  # a model of zeros would agree with anything
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_tied_tensors_stay_one() -> None:
    """Head and table of a tied model share memory; the count of bytes is the prediction's."""
    made = give_memory(build_on_meta(FAMILIES["tied"], "bf16"), "bf16", "cpu")
    assert made.lm_head.weight is made.model.embed_tokens.weight
    assert made.dtype == torch.bfloat16


def test_no_two_rows_are_equal() -> None:
    """Equal rows of a router would send every token to the same experts; the noise repeats after a prime number of values."""
    made = give_memory(build_on_meta(FAMILIES["experts"], "fp32"), "fp32", "cpu")
    router = made.model.layers[0].mlp.gate.weight
    assert len(torch.unique(router, dim=0)) == len(router)
    assert all(BLOCK % divisor for divisor in range(2, 1001))  # 1001 squared is above: prime


def test_what_a_half_precision_load_keeps_in_float32_is_kept() -> None:
    """T5's wo stays in float32 in a float16 load, as from_pretrained has it, and not in a bfloat16 one."""
    config = {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": 32,
        "d_ff": 48,
        "d_kv": 8,
        "num_heads": 4,
        "num_layers": 2,
        "vocab_size": 211,
    }
    for precision, kept in (("fp16", torch.float32), ("bf16", torch.bfloat16)):
        made = give_memory(build_on_meta(config, precision), precision, "cpu")
        kinds = {name.rpartition("DenseReluDense.")[2]: p.dtype for name, p in made.named_parameters() if "DenseReluDense" in name}
        assert kinds["wo.weight"] == kept
        assert kinds["wi.weight"] != torch.float32


def test_what_a_file_says_of_calls_changes_no_run() -> None:
    """Kept hidden states, tuples and no cache would be another run than the predicted one, or none."""
    built = build_on_meta(FAMILIES["llama"] | CALLS | {"rope_scaling": ROPE | {"use_cache": False}}, "fp32")
    said = built.model.config
    assert (said.output_hidden_states, said.output_attentions, said.return_dict) == (False, False, True)
    timed = time_run(give_memory(built, "fp32", "cpu"), 8, 4, "cpu")
    assert len(timed.steps_s) == 3
