"""Remote code that is a Llama under another name.

Several published decoders (InternLM2, EXAONE 3.x …) bring their own code for what is, tensor for tensor, a Llama: the same
matrices, at most fused or renamed. Such a file is recognised by what it says, not by its name:

  * it brings remote code (`auto_map`) for a causal decoder, under a `model_type` that `transformers` does not know;
  * every size a Llama has is stated, under Llama's key or a customary alias;
  * the activation is the gated SiLU, and
  * every other key is switched off or cannot add parameters: nothing, false, 0 or 1, a fraction, a token id, a word.

One key with another meaning (expert counts, latent ranks, per-layer lists) and the file is not a Llama: it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ALIASES = {
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size"),
    "num_hidden_layers": ("num_hidden_layers", "num_layers", "n_layer", "n_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
}
_OPTIONAL = {
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim",),
    "max_position_embeddings": ("max_position_embeddings", "seq_length", "model_max_length"),
    "rms_norm_eps": ("rms_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"),
}
_ACTIVATION = ("hidden_act", "activation_function")
_KEPT = frozenset(
    {
        "rope_theta",
        "rope_scaling",
        "rope_parameters",
        "tie_word_embeddings",
        "attention_bias",
        "mlp_bias",
        "dtype",
        "torch_dtype",
        "use_cache",
    }
)
_HARMLESS = frozenset(
    {
        "transformers_version",
        "architectures",
        "auto_map",
        "model_type",
        "initializer_range",
        "pretraining_tp",
        "quantization_config",
        "id2label",
        "label2id",
        "task_specific_params",
        "use_cache",
        "output_attentions",
        "output_hidden_states",
    }
)


def _harmless(key: str) -> bool:
    return key in _HARMLESS or key.startswith("_") or key.endswith(("token_id", "token_ids")) or "dropout" in key


def _one(config: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    stated = [config[k] for k in keys if config.get(k) is not None]
    return stated[0] if stated and all(v == stated[0] for v in stated) else None


def _switched_off(value: object) -> bool:
    return (
        value is None
        or value is False
        or isinstance(value, (str, float))
        or (isinstance(value, int) and value in {0, 1} and value is not True)
    )


def as_llama(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same model as a Llama configuration, or None when the file says anything that a Llama does not have."""
    remote, names = config.get("auto_map"), config.get("architectures")
    decoder = isinstance(names, list) and len(names) == 1 and isinstance(names[0], str) and names[0].endswith("ForCausalLM")
    if not decoder or not isinstance(remote, Mapping) or "AutoModelForCausalLM" not in remote:
        return None
    sizes = {name: _one(config, keys) for name, keys in _ALIASES.items()}
    if not all(isinstance(v, int) and v > 0 for v in sizes.values()) or _one(config, _ACTIVATION) not in {"silu", "swish"}:
        return None
    sizes |= {name: value for name, keys in _OPTIONAL.items() if (value := _one(config, keys)) is not None}
    known = {k for keys in (*_ALIASES.values(), *_OPTIONAL.values(), _ACTIVATION) for k in keys} | _KEPT
    if not all(k in known or _harmless(k) or _switched_off(v) for k, v in config.items()):
        return None
    kept = {k: config[k] for k in _KEPT if k in config}
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", **kept, **sizes}
