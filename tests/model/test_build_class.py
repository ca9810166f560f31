"""Which class stands for a configuration: types that `transformers` runs by the classes of another."""

from __future__ import annotations

from typing import Any

import pytest

from lib.model.resolve import resolve_config

# hidden 64, feed-forward 96, 4 heads of 16 with 2 for keys and values, 2 layers, 100 words, a head of its own:
# a layer is 2 · 64·64 + 2 · 64·32 + 3 · 64·96 + 2 · 64 = 30,848; in all 2 · 30,848 + 2 · 100·64 + 64 = 74,560.
_SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "bias": False,
    "qkv_bias": False,
}
_PARAMETERS = 74_560


@pytest.mark.parametrize(
    ("named", "told"),
    [("InternLM3ForCausalLM", {"architecture_inferred"}), ("LlamaForCausalLM", set()), (None, {"architecture_inferred"})],
)
def test_a_type_that_runs_by_the_classes_of_another(named: str | None, told: set[str]) -> None:
    """`transformers` has a configuration for InternLM3 and no module of models beside it: its auto classes take Llama's."""
    spec = resolve_config({**_SMALL, "model_type": "internlm3", **({"architectures": [named]} if named else {})})
    assert (spec.architecture, spec.parameters_total) == ("LlamaForCausalLM", _PARAMETERS)
    # Keys and values of 2 heads, 16 wide, for each token in each of 2 layers.
    assert [(t.layers, t.elements, t.growth) for t in spec.cache_terms or ()] == [(2, 2 * 2 * 16, "tokens")]
    assert {c.code for c in spec.caveats} == told
