"""Sizes that a file leaves out are told, sizes under an older name are not."""

from __future__ import annotations

from typing import Any

from model_facts import LLAMA

from lib.model.resolve import resolve_config
from lib.present.sentences import sentence


def _read_caveats(config: dict[str, Any]) -> str:
    return " ".join(sentence(c) for c in resolve_config(config).caveats if c.code == "class_defaults")


def test_a_size_under_an_older_name_is_stated() -> None:
    """BLOOM's files call the width `n_embed`, which no attribute map names; without any name the default is told."""
    bloom = {"model_type": "bloom", "architectures": ["BloomForCausalLM"], "n_layer": 2, "num_attention_heads": 4, "vocab_size": 100}
    assert _read_caveats({**bloom, "n_embed": 96}) == ""
    assert "hidden_size = 64" in _read_caveats(bloom)


def test_a_file_read_as_a_llama_states_its_sizes() -> None:
    """A file of remote code may say `num_layers`, even where that is 32, the default of a Llama."""
    config = {k: v for k, v in LLAMA.items() if k != "num_hidden_layers"} | {
        "model_type": "example-llm",  # transformers 5.24 knows EXAONE 3, the first such file
        "architectures": ["ExampleForCausalLM"],
        "auto_map": {"AutoModelForCausalLM": "modeling_example.ExampleForCausalLM"},
        "num_layers": 32,
        "activation_function": "silu",
    }
    spec = resolve_config(config)
    assert spec.dimensions.layers == 32
    assert [c.code for c in spec.caveats] == ["remote_code_as_llama"]
