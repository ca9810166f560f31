"""Arithmetic of a server's memory that starts from the bytes and tokens of a pasted text.

A log is more exact than a prediction, so its numbers are used first. The prediction adds the bytes of a token if the text has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lib.engines import traits_of
from lib.laws.runtime import LARGEST_SHARE, VLLM_GRAPHS
from lib.service.explain_prediction import stated_share

if TYPE_CHECKING:
    from lib.answers.explain import Printed
    from lib.explain import Explanation

_CENT = 100
_CACHES = ("available_kv_bytes", "kv_cache_bytes")
"""Bytes of the whole KV cache on one card, as logs name them."""
_CARDS = ("total_bytes", "capacity_bytes")
"""Memory of the card, as logs name it."""


def count_cache(said: Explanation, numbers: Mapping[str, Any], predicted: Mapping[str, Printed], engine: Any) -> dict[str, int | float]:
    """The server's share in bytes, the cache of the text's tokens, and the rest of the share; {} for engines that claim no share."""
    card = _card_bytes(numbers, predicted)
    if not traits_of(engine).preallocates or card is None:
        return {}
    share = stated_share(said) or traits_of(engine).memory_share
    share_bytes = int(card * share)
    found: dict[str, int | float] = {"share": share, "card_bytes": card, "share_bytes": share_bytes}
    if "share_for_graphs" in said.steps:
        found["outside_bytes"] = card - share_bytes
    tokens, weights, most = (numbers.get(name) for name in ("kv_cache_tokens", "weights_bytes", "max_model_len"))
    if not isinstance(tokens, int) or (held := _cache_bytes(tokens, numbers, predicted)) is None:
        return found
    found["text_cache_bytes"] = held
    if isinstance(most, int) and most > tokens and (whole := _cache_bytes(most, numbers, predicted)) is not None:
        found |= {"whole_cache_bytes": whole, "lacking_cache_bytes": whole - held}
    if isinstance(weights, int) and (rest := share_bytes - weights - held) > 0:
        found["rest_bytes"] = rest
    return found


def find_shares(
    said: Explanation, numbers: Mapping[str, Any], predicted: Mapping[str, Printed], engine: Any, cache: Mapping[str, int | float]
) -> dict[str, int | float]:
    """Shares of the card from the text's numbers: enough for the missing cache, with room for graphs, with room for other programs.

    `cache` is the result of `count_cache`.
    """
    found: dict[str, int | float] = {}
    card, others = _card_bytes(numbers, predicted), numbers.get("others_bytes")
    if card is None or not traits_of(engine).preallocates:
        return found
    share = stated_share(said) or traits_of(engine).memory_share
    missing = numbers.get("missing_bytes") if "available_bytes" in numbers else cache.get("lacking_cache_bytes")
    if isinstance(missing, int) and missing > 0:
        least = math.ceil(_CENT * (share + missing / card)) / _CENT
        found |= {"share_needed" if least <= LARGEST_SHARE else "share_hopeless": least, "share_missing_bytes": missing}
    if traits_of(engine).captured_graphs:
        found |= _share_for_graphs(card, share, numbers, predicted)
    if isinstance(others, int) and 0 < others < card:
        found["share_floor"] = int(_CENT * (card - others) / card) / _CENT
    return found


def count_logged_requests(numbers: Mapping[str, Any]) -> dict[str, int]:
    """Requests of full length that the cache of the text holds at once, as the log counts them; empty if it does not."""
    tokens, most, printed = (numbers.get(name) for name in ("kv_cache_tokens", "max_model_len", "concurrency"))
    if isinstance(printed, int | float):
        return {"logged_requests": int(printed)} if printed >= 1 else {}
    if isinstance(tokens, int) and isinstance(most, int) and 0 < most <= tokens:
        return {"logged_requests": tokens // most}
    return {}


def _share_for_graphs(card: int, share: float, numbers: Mapping[str, Any], predicted: Mapping[str, Printed]) -> dict[str, float]:
    """The share that leaves room for captured graphs. Its name says whether one request then fits, or that this is unknown."""
    smaller = int(_CENT * (share - VLLM_GRAPHS.high / card)) / _CENT
    low, high = _least_bytes(int(card * share), numbers, predicted)
    if high is not None and high <= card * smaller:
        return {"graphs_share": smaller}
    if low is not None and low > card * smaller:
        return {"graphs_share_hopeless": smaller}
    return {"graphs_share_untested": smaller}


def _least_bytes(share_bytes: int, numbers: Mapping[str, Any], predicted: Mapping[str, Printed]) -> tuple[int | None, int | None]:
    """Bounds of the bytes with which the server starts: all except the counted cache, plus the cache of one request.

    If the bytes of a token are unknown, the cache is at most the share without the weights. Without a token count in the text, the
    prediction is used.
    """
    tokens, one = numbers.get("kv_cache_tokens"), numbers.get("max_model_len")
    length = predicted.get("context_tokens", one)
    if not isinstance(tokens, int) or tokens <= 0:
        whole = predicted.get("per_device_bytes")
        return (whole, whole) if isinstance(whole, int) else (None, None)
    if not isinstance(length, int):
        return None, None
    held, needed = _cache_bytes(tokens, numbers, predicted), _cache_bytes(length, numbers, predicted)
    if held is not None and needed is not None:
        return share_bytes - held + needed, share_bytes - held + needed
    weights = numbers.get("weights_bytes")
    most = share_bytes - weights if isinstance(weights, int) else share_bytes
    return share_bytes - most * max(0, tokens - length) // tokens, None


def _cache_bytes(tokens: int, numbers: Mapping[str, Any], predicted: Mapping[str, Printed]) -> int | None:
    """The cache of `tokens` on one card, by the bytes and tokens of the text or else by the prediction; None if neither is known."""
    held, counted = next((numbers[name] for name in _CACHES if isinstance(numbers.get(name), int)), 0), numbers.get("kv_cache_tokens")
    if held > 0 and isinstance(counted, int) and counted > 0:
        return int(held * tokens // counted)
    one, length = predicted.get("needed_bytes"), predicted.get("context_tokens")
    return one * tokens // length if isinstance(one, int) and isinstance(length, int) and length > 0 else None


def _card_bytes(numbers: Mapping[str, Any], predicted: Mapping[str, Printed]) -> int | None:
    card = next((size for name in _CARDS if isinstance(size := numbers.get(name), int)), predicted.get("capacity_bytes"))
    return card if isinstance(card, int) and card > 0 else None
