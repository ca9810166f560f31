"""A config.json from outside: read within bounds, looked up field by field, and recognised where it is a Llama under another name.

A configuration decides how many modules are built, so a file of forty bytes could ask for a billion layers. Everything that
would cost memory or time is refused here, before any library sees it, with a sentence that names the key.

Several published decoders (InternLM2, EXAONE 3.x …) bring their own code for a model that is a Llama, tensor for tensor: the same
matrices, at most fused or renamed. Such a file is recognised by what it says, not by its name (`convert_to_llama`):

  * it brings remote code (`auto_map`) for a causal decoder, under a `model_type` that `transformers` does not know;
  * every size a Llama has is stated, under Llama's key or a customary alias;
  * the activation is the gated SiLU, and
  * every other key is switched off or cannot add parameters: nothing, false, 0 or 1, a fraction, a token id, a word.

One key with another meaning (expert counts, latent ranks, per-layer lists) and the file is not a Llama: it is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lib.errors import BadConfig, node_count, quote_value

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 50_000
MAX_TEXT = 20_000
_ONLY = "Paste the model's config.json only."
MAX_KEY = 200
_TOO_DEEP = f"The config is nested more than {MAX_DEPTH} levels deep. Paste the model's config.json unchanged."

_Test = Callable[[str], bool]


def _contains(*words: str) -> _Test:
    return lambda name: any(word in name for word in words)


def _ends_with(*words: str) -> _Test:
    return lambda name: name.endswith(words)


def _counts(name: str) -> bool:
    """Whether a key says how many of something there are; GPT-2's n_inner is a width."""
    parts = name.split("_")
    return name != "n_inner" and (parts[-1] == "states" or not _COUNTING.isdisjoint(parts))


_COUNTING = frozenset({"n", "num", "nums", "number", "count", "counts"})

# Largest integer by what the key means, first match decides. Published models reach: 126 layers, 512 experts, 262 thousand
# words, hidden size 16384, 10 million positions, and in other counts 10 thousand. The limits stand well above, and low enough that a
# build stays short. Keys come from outside and are compared with plain words: an expression could take for ever on one.
_LIMITS: tuple[tuple[_Test, int], ...] = (
    (_contains("token_id", "tokenid", "token_index", "tokenindex", "_id", "seed", "ignore_index", "offset", "revision"), 2**63 - 1),
    (_ends_with("theta", "_base", "base_freq", "_length", "max_tokens", "scale", "window", "flos"), 10**15),
    (_contains("position", "n_ctx", "context", "max_len", "chunk_size", "seq"), 2**30),
    (_contains("vocab"), 2**26),
    (_contains("image_size", "img_size", "crop_size"), 2**14),  # some classes write out a table of all pixels in Python
    (_ends_with("ngram", "level", "levels", "repeat", "repeats", "codebook", "codebooks", "quantizer", "quantizers"), 2_000),
    (_contains("experts_per_tok", "topk", "top_k"), 2**16),
    (lambda name: _contains("size", "dim")(name.partition("expert")[2]), 2**22),
    (_contains("expert"), 2**16),
    (_ends_with("layer", "layers", "depth", "depths", "blocks", "stages"), 2_000),
    (_contains("head_dim", "rank", "kernel"), 2**18),
    (_ends_with("head", "heads", "group", "groups"), 2**16),
    (_contains("num_labels", "n_labels", "num_classes", "class_embeds"), 2**18),
    (_contains("hidden", "d_model", "dim", "width", "channels", "size", "d_ff", "n_embd", "d_kv", "d_inner", "embed"), 2**24),
    (lambda name: _counts(name) and _contains("label", "bucket", "n_floor")(name), 2**18),
    (lambda name: _counts(name) and _contains("states", "number_of")(name), 2_000),
    (lambda name: _counts(name) and not _contains("step", "token", "sample", "train", "update")(name), 2**15),  # those of a training run
)
_OTHER = 10_000_000
_ADDED_UP = ("depth", "depths", "blocks", "repeat", "repeats")  # layers by stage: their sum is what is built
_MOST_LAYERS = 10_000

_POSITIVE = frozenset(
    {"hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "n_embd", "n_layer", "n_head", "d_model", "num_heads"}
)
_SIZES = ("hidden_size", "vocab_size", "head_dim", "intermediate_size", "d_model", "d_ff", "d_kv", "experts_per_tok")
_NUMERAL = re.compile(r"\s*[-+]?\d[\d_,.]*([eE][-+]?\d+)?\s*")


def parse_config(text: str) -> dict[str, Any]:
    """Read the text of a config.json."""
    if len(text) > MAX_CHARACTERS:
        raise BadConfig(f"The config has {len(text):,} characters. Accepted: up to {MAX_CHARACTERS:,}; paste the model's config.json only.")
    if node_count(text.encode(errors="replace"), 2 * MAX_VALUES) > 2 * MAX_VALUES:
        raise BadConfig(f"The config holds more than {MAX_VALUES:,} values, or is nested more than {MAX_DEPTH} levels deep. {_ONLY}")
    try:
        config = json.loads(text, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise BadConfig(_TOO_DEEP) from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a number with too many digits"
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadConfig(
            f"The config is not JSON: {reason}{place}. Paste the whole config.json, from the first {{ to the last }}."
        ) from None
    check_config(config)
    return config  # type: ignore[no-any-return]


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values; refuses a key that occurs twice with different values."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result and result[key] != value:
            raise BadConfig(f"The key {quote_value(key)} stands twice in the config with different values. Keep the right one.")
        result[key] = value
    return result


def _key_text(key: object) -> str:
    """The key as text; refuses one that is longer than any that is published."""
    text = str(key)
    if len(text) > MAX_KEY:
        raise BadConfig(f"The key {quote_value(text)} has {len(text):,} characters. Accepted: up to {MAX_KEY}; take it out, or shorten it.")
    return text


def _is_count_or_size(name: str) -> bool:
    """Whether the key holds a count or a size. num_images does not: -1 is ViLT's own default, as many as come."""
    if name.endswith(_SIZES):
        return True
    rest = name.removeprefix("num_" if name.startswith("num_") else "n_")
    return rest not in {name, "images"} and not rest.endswith(("id", "index"))


@lru_cache(maxsize=1024)
def _range(key: str) -> tuple[int, int, bool]:
    """The least and the most integer that a key accepts, and whether a number written as text under it is a mistake."""
    name = key.lower()
    most = next((limit for test, limit in _LIMITS if test(name)), _OTHER)
    counts = _is_count_or_size(name)
    return 1 if name in _POSITIVE else 0 if counts else -most, most, counts


def _values(config: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Every value with its key (list items under the list's key) and its depth, without recursion."""
    stack: list[tuple[str, Any, int]] = [("", config, 0)]
    while stack:
        key, value, depth = stack.pop()
        yield key, value, depth
        if isinstance(value, Mapping):
            stack.extend((_key_text(k), v, depth + 1) for k, v in value.items())
        elif isinstance(value, (list, tuple)):
            stack.extend((key, v, depth + 1) for v in value)


def check_config(config: Any) -> None:
    """Refuse a parsed configuration that could not be built in reasonable time."""
    if not isinstance(config, Mapping) or not config:
        raise BadConfig(
            f"The config was {quote_value(config)}. Accepted: a JSON object such as {{'model_type': 'llama', 'hidden_size': 4096}}."
        )
    for count, (key, value, depth) in enumerate(_values(config)):
        if depth > MAX_DEPTH:
            raise BadConfig(_TOO_DEEP)
        if count > MAX_VALUES:
            raise BadConfig(f"The config holds more than {MAX_VALUES:,} values. {_ONLY}")
        _check_value(key, value)
        if isinstance(value, (list, tuple)):
            _check_sum(key, value)


def _check_value(key: str, value: Any) -> None:
    name = key.lower()
    if isinstance(value, bool):
        if name in _POSITIVE:
            raise BadConfig(f"{quote_value(key)} was {quote_value(value)}. Accepted: a whole number.")
    elif isinstance(value, int):
        _check_integer(key, value)
    elif isinstance(value, float):
        # Mamba's time_step_limit is published as [0, Infinity].
        if math.isnan(value) or (math.isinf(value) and not name.endswith("_limit")):
            raise BadConfig(f"{quote_value(key)} was {value}. Accepted: a finite number.")
        if name in _POSITIVE:
            raise BadConfig(f"{quote_value(key)} was {quote_value(value)}. Accepted: a whole number.")
    elif isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise BadConfig(f"{quote_value(key)} holds {len(value):,} characters of text. Accepted: up to {MAX_TEXT:,}.")
        if _range(key)[2] and _NUMERAL.fullmatch(value):
            raise BadConfig(f"{quote_value(key)} was the text {quote_value(value)}. Accepted: a number, without quotes.")


def _check_sum(key: str, value: Sequence[Any]) -> None:
    # An item beyond its own limit is refused by name afterwards.
    total = sum(v for v in value if isinstance(v, int) and v <= _MOST_LAYERS) if key.lower().endswith(_ADDED_UP) else 0
    if total > _MOST_LAYERS:
        raise BadConfig(f"{quote_value(key)} adds up to {total:,}. Accepted: up to {_MOST_LAYERS:,} in all.")


def _check_integer(key: str, value: int) -> None:
    least, most, _ = _range(key)
    if abs(value) > most:
        raise BadConfig(f"{quote_value(key)} was {quote_value(value)}. Accepted: up to {most:,}.")
    if value < least:
        raise BadConfig(f"{quote_value(key)} was {quote_value(value)}. Accepted: {least} or more.")


def read_field(config: Any, name: str) -> Any:
    """The value of a field, None if there is none; where layers differ, the largest of theirs."""
    from transformers.integrations.heterogeneity.configuration_utils import (  # noqa: PLC0415 the app starts without transformers
        AmbiguousGlobalPerLayerAttributeError,
    )

    try:
        return getattr(config, name, None)
    except AmbiguousGlobalPerLayerAttributeError:
        values = [getattr(layer, name, None) for layer in config.per_layer_config]
        return max((v for v in values if isinstance(v, int | float)), default=None)


def text_config(config: Any) -> Any:
    """The configuration of the text decoder; the whole if there is no other, or more than one.

    Of an encoder-decoder it answers with the decoder's figures under the customary names (`num_hidden_layers` …); its `decoder_…`
    fields are not to be read.
    """
    try:
        return config.get_text_config(decoder=True)
    except ValueError:
        return config


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
_COPIED = frozenset({
    "rope_theta", "rope_scaling", "rope_parameters", "tie_word_embeddings", "attention_bias", "mlp_bias", "dtype", "torch_dtype",
    "use_cache",
})  # fmt: skip
_HARMLESS = frozenset({
    "transformers_version", "architectures", "auto_map", "model_type", "initializer_range", "pretraining_tp", "quantization_config",
    "id2label", "label2id", "task_specific_params", "use_cache", "output_attentions", "output_hidden_states",
})  # fmt: skip


def _adds_no_parameters(key: str) -> bool:
    return key in _HARMLESS or key.startswith("_") or key.endswith(("token_id", "token_ids")) or "dropout" in key


def _agreed_value(config: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The value under these aliases of one key; None if they disagree or none is stated."""
    stated = [config[k] for k in keys if config.get(k) is not None]
    return stated[0] if stated and all(v == stated[0] for v in stated) else None


def _switched_off(value: object) -> bool:
    """Whether a value cannot add parameters."""
    return (
        value is None
        or value is False
        or isinstance(value, (str, float))
        or (isinstance(value, int) and value in {0, 1} and value is not True)
    )


def list_unknown_sizes(config: Mapping[str, Any], has_field: Callable[[str], bool]) -> list[str]:
    """Keys that may add parameters or mean a forward pass of another kind, and that an architecture does not know."""
    of_losses = {key for key in config if {"aux", "loss"} & set(key.split("_"))}  # of training only
    return [k for k, v in config.items() if not (k in of_losses or has_field(k) or _adds_no_parameters(k) or _switched_off(v))]


def convert_to_llama(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same model as a Llama configuration, or None when the file says anything that a Llama does not have."""
    remote, names = config.get("auto_map"), config.get("architectures")
    decoder = isinstance(names, list) and len(names) == 1 and isinstance(names[0], str) and names[0].endswith("ForCausalLM")
    if not decoder or not isinstance(remote, Mapping) or "AutoModelForCausalLM" not in remote:
        return None
    sizes = {name: _agreed_value(config, keys) for name, keys in _ALIASES.items()}
    if not all(isinstance(v, int) and v > 0 for v in sizes.values()) or _agreed_value(config, _ACTIVATION) not in {"silu", "swish"}:
        return None
    sizes |= {name: value for name, keys in _OPTIONAL.items() if (value := _agreed_value(config, keys)) is not None}
    read = {k for keys in (*_ALIASES.values(), *_OPTIONAL.values(), _ACTIVATION) for k in keys} | _COPIED
    if not all(k in read or _adds_no_parameters(k) or _switched_off(v) for k, v in config.items()):
        return None
    copied = {k: config[k] for k in _COPIED if k in config}
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", **copied, **sizes}
