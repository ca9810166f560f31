"""The text of a config.json from outside, read within bounds.

A configuration decides how many modules are built, so a file of forty bytes could ask for a billion layers. Everything that
would cost memory or time is refused here, before any library sees it, with a sentence that names the key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lib.bounded_json import node_count
from lib.errors import BadConfig, shown

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 50_000
MAX_TEXT = 20_000
_ONLY = "Paste the model's config.json only."

# Largest integer by what the key means, first match decides. Published models reach: 126 layers, 512 experts, 262 thousand
# words, hidden size 16384, 10 million positions. The limits stand well above, and low enough that a build stays short.
_LIMITS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r".*(token_?id|token_?index|_ids?|seed|ignore_index|offset|revision).*"), 2**63 - 1),
    (re.compile(r".*(theta|_base|base_freq|_length|max_tokens|scale|window|flos)"), 10**15),
    (re.compile(r".*(position|n_ctx|context|max_len|chunk_size|seq).*"), 2**30),
    (re.compile(r".*vocab.*"), 2**26),
    (re.compile(r".*(image|img|crop)_size.*"), 2**14),  # some classes write out a table of all pixels in Python
    (re.compile(r".*(ngram|levels?|repeats?|codebooks?|quantizers?)"), 2_000),
    (re.compile(r".*(experts_per_tok|top_?k).*"), 2**16),
    (re.compile(r".*expert.*(size|dim).*"), 2**22),
    (re.compile(r".*expert.*"), 2**16),
    (re.compile(r".*(layers?|n_layer|depths?|blocks|stages)"), 2_000),
    (re.compile(r".*(head_dim|rank|kernel).*"), 2**18),
    (re.compile(r".*(num_.*heads?|n_heads?|heads?|groups?)"), 2**16),
    (re.compile(r".*(num_labels|n_labels|num_classes|class_embeds).*"), 2**18),
    (re.compile(r".*(hidden|d_model|dim|width|channels|size|d_ff|n_embd|d_kv|d_inner|embed).*"), 2**24),
)
_OTHER = 10_000_000
_ADDED_UP = re.compile(r".*(depths?|blocks|repeats?)")  # layers by stage: their sum is what is built
_MOST_LAYERS = 10_000

_POSITIVE = frozenset(
    {"hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "n_embd", "n_layer", "n_head", "d_model", "num_heads"}
)
# num_images is no count to bound from below: -1 is ViLT's own default, as many as come.
_COUNT = re.compile(
    r"(num|n)_(?!images$|.*(id|index)$).*"
    r"|.*(hidden_size|vocab_size|head_dim|intermediate_size|d_model|d_ff|d_kv|experts_per_tok)"
)
_NUMERAL = re.compile(r"\s*[-+]?\d[\d_,.]*([eE][-+]?\d+)?\s*")


def parse(text: str) -> dict[str, Any]:
    """Read the text of a config.json.

    Raises:
        BadConfig: too long, too deep, not JSON, not an object, a key twice with different values, or a number out of range.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadConfig(f"The config has {len(text):,} characters. Accepted: up to {MAX_CHARACTERS:,}; paste the model's config.json only.")
    if node_count(text.encode(errors="replace"), 2 * MAX_VALUES) > 2 * MAX_VALUES:
        raise BadConfig(f"The config holds more than {MAX_VALUES:,} values, or is nested more than {MAX_DEPTH} levels deep. {_ONLY}")
    try:
        config = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise BadConfig(_too_deep()) from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "a number with too many digits"
        place = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadConfig(
            f"The config is not JSON: {reason}{place}. Paste the whole config.json, from the first {{ to the last }}."
        ) from None
    check(config)
    return config  # type: ignore[no-any-return]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made and made[key] != value:
            raise BadConfig(f"The key {shown(key)} stands twice in the config with different values. Keep the right one.")
        made[key] = value
    return made


def _too_deep() -> str:
    return f"The config is nested more than {MAX_DEPTH} levels deep. Paste the model's config.json unchanged."


def _values(config: Mapping[str, Any]) -> Iterator[tuple[str, Any, int]]:
    """Every value with the key it stands under (list items under the list's key) and its depth, without recursion."""
    stack: list[tuple[str, Any, int]] = [("", config, 0)]
    while stack:
        key, value, depth = stack.pop()
        yield key, value, depth
        if isinstance(value, Mapping):
            stack.extend((str(k), v, depth + 1) for k, v in value.items())
        elif isinstance(value, (list, tuple)):
            stack.extend((key, v, depth + 1) for v in value)


def check(config: Any) -> None:
    """Refuse a parsed configuration that could not be built in reasonable time.

    Raises:
        BadConfig: not an object, too deep, too many values, or a value out of range.
    """
    if not isinstance(config, Mapping) or not config:
        raise BadConfig(f"The config was {shown(config)}. Accepted: a JSON object such as {{'model_type': 'llama', 'hidden_size': 4096}}.")
    for count, (key, value, depth) in enumerate(_values(config)):
        if depth > MAX_DEPTH:
            raise BadConfig(_too_deep())
        if count > MAX_VALUES:
            raise BadConfig(f"The config holds more than {MAX_VALUES:,} values. {_ONLY}")
        _check_value(key, value)
        if isinstance(value, (list, tuple)):
            _check_sum(key, value)


def _check_value(key: str, value: Any) -> None:
    name = key.lower()
    if isinstance(value, bool):
        if name in _POSITIVE:
            raise BadConfig(f"{shown(key)} was {shown(value)}. Accepted: a whole number.")
    elif isinstance(value, int):
        _check_integer(key, value)
    elif isinstance(value, float):
        # Mamba's time_step_limit is published as [0, Infinity].
        if math.isnan(value) or (math.isinf(value) and not name.endswith("_limit")):
            raise BadConfig(f"{shown(key)} was {value}. Accepted: a finite number.")
        if name in _POSITIVE:
            raise BadConfig(f"{shown(key)} was {shown(value)}. Accepted: a whole number.")
    elif isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise BadConfig(f"{shown(key)} holds {len(value):,} characters of text. Accepted: up to {MAX_TEXT:,}.")
        if _COUNT.fullmatch(name) and _NUMERAL.fullmatch(value):
            raise BadConfig(f"{shown(key)} was the text {shown(value)}. Accepted: a number, without quotes.")


def _check_sum(key: str, value: Sequence[Any]) -> None:
    # An item beyond its own limit is refused by name afterwards.
    total = sum(v for v in value if isinstance(v, int) and v <= _MOST_LAYERS) if _ADDED_UP.fullmatch(key.lower()) else 0
    if total > _MOST_LAYERS:
        raise BadConfig(f"{shown(key)} adds up to {total:,}. Accepted: up to {_MOST_LAYERS:,} in all.")


def _check_integer(key: str, value: int) -> None:
    name = key.lower()
    limit = next((limit for pattern, limit in _LIMITS if pattern.fullmatch(name)), _OTHER)
    if abs(value) > limit:
        raise BadConfig(f"{shown(key)} was {shown(value)}. Accepted: up to {limit:,}.")
    least = 1 if name in _POSITIVE else 0 if _COUNT.fullmatch(name) else -limit
    if value < least:
        raise BadConfig(f"{shown(key)} was {shown(value)}. Accepted: {least} or more.")
