"""The configuration that most tests use: a small Llama, the plainest kind of decoder."""

from __future__ import annotations

from typing import Any


def llama_config(**changes: Any) -> dict[str, Any]:
    """A Llama of two layers and 202,048 parameters, with changes.

    Per layer: q and o 64*64, k and v 32*64, three of the MLP 64*128, two norms of 64 = 8192 + 4096 + 24576 + 128 = 36992.
    Around them: two tables of 1000*64 and a norm of 64 = 128064.  2 * 36992 + 128064 = 202048.
    Its cache takes 2 layers * keys and values * 2 heads of 16 * 2 bytes = 256 bytes per token.
    """
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "vocab_size": 1000,
        "tie_word_embeddings": False,
        "max_position_embeddings": 2048,
        "torch_dtype": "bfloat16",
    } | changes


LLAMA_8B_CONFIG: dict[str, Any] = llama_config(
    hidden_size=4096,
    intermediate_size=14336,
    num_attention_heads=32,
    num_hidden_layers=32,
    num_key_value_heads=8,
    vocab_size=128256,
    max_position_embeddings=131072,
    rms_norm_eps=1e-05,
    rope_theta=500000.0,
)
"""Llama 3.1 8B's sizes."""
