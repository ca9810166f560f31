"""Words for cached tensors, from the names that cache classes give them."""

from __future__ import annotations

import re

from lib.model.spec import Growth

_HOLDS = {
    "keys": "keys and values",
    "values": "keys and values",
    "indexer_keys": "indexer keys",
    "conv_states": "convolution state",
    "conv_state": "convolution state",
    "recurrent_states": "recurrent state",
    "ssm_states": "recurrent state",
    "linear_cache": "recurrent state",
    "rnn_state": "recurrent state",
}
_WORD = re.compile(r"[A-Za-z_]+")


def holds_of(path: str) -> str:
    """What the tensor at `path` of a cache is: a known name, else the path's own words ("compressed kv, compressor")."""
    words = [w.strip("_") for w in _WORD.findall(path) if w.strip("_") not in {"layers", "self_attention_cache", "cross_attention_cache"}]
    for word in reversed(words):
        if word in _HOLDS:
            return _HOLDS[word]
    return ", ".join(word.replace("_", " ") for word in words) or "state"


def kind_of(path: str, holds: str, growth: Growth, *, compressed: bool) -> str:
    """The layer kind that a tensor speaks of; `compressed`: the layer holds blocks of tokens."""
    if "cross_attention_cache" in path or growth == "encoder":
        return "cross attention"
    if holds == "convolution state":
        return "convolution state"
    if growth == "constant":
        return "linear attention state"
    if growth == "window":
        return "sliding window"
    return "compressed attention" if compressed else "full attention"
