"""Bytes of cache blocks that vLLM hands to B sequences of T tokens.

    M = B · Σ_k  slots(L_k) · ⌈n_k(T) / s⌉ · s · e_k · b          attention, in blocks of s tokens
      + B · Σ_k  slots(L_k) · page                                recurrent layers, one page a sequence and layer

    e, b       elements a token and layer, bytes of an element (as in `lib.laws.kv_cache`)
    s          16 tokens; 64 for latent attention (one row of r_kv + d_rope, keys and values in one); beside recurrent layers so
               many, in steps of 16, that a block of one attention layer is at least one layer's state
    n(T)       full: T · sliding or chunked: one block more than the window of W tokens needs, at most all of T · cross: E
    page       a layer's states, padded to the block of one attention layer
    slots(L)   layers of a kind, filled up to whole groups of g: g is the smallest count of any kind, or the largest one where that
               is less than 1.5 times the smallest (one kind only: no filling)
    indexer    D_idx + 4 bytes per 128 entries: fp8 with one float32 scale, whatever the cache dtype

Example: Gemma 3 27B has 10 full and 52 sliding layers, so g = 10 and the sliding ones take 60 slots.

Limits: vLLM fills what is left of the device with blocks at start; these are the ones a request occupies while it decodes (a chunk of
the prefill in flight adds its own). The dtype of states is a setting there; float32 is kept where transformers keeps it. Kinds with
different widths, and compressed attention, are grouped in ways not modelled here: they are counted without filling up.
Sources: vllm `vllm/v1/kv_cache_interface.py` (001cabc), `docs/design/hybrid_kv_cache_manager.md` (1153c0c), grouping and the indexer's
row as in `vllm/v1/core/kv_cache_utils.py` and `vllm/model_executor/models/deepseek_v2.py` of 2026; read 2026-11-21.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lib.laws.kv_cache import Term, cache_bytes_by_kind, width
from lib.units import Bytes

BLOCK = 16
LATENT_BLOCK = 64
_SCALE_BYTES, _SCALED = 4, 128
_CLOSE = 1.5


def is_state(term: Term) -> bool:
    """Whether the term is a recurrent or convolution state."""
    return term.growth == "constant" and "state" in term.holds


def slots(layers: int, counts: Sequence[int]) -> int:
    """Layers after filling up to whole groups; `counts` are those of all kinds.

    >>> slots(52, [10, 52]), slots(12, [12, 13]), slots(32, [32])
    (60, 13, 32)
    """
    smallest, largest = min(counts), max(counts)
    group = largest if largest < smallest * _CLOSE else smallest
    return math.ceil(layers / group) * group


def blocks(term: Term, tokens: int, encoder_tokens: int, block: int) -> int:
    """Blocks that one layer holds for one sequence."""
    if term.growth == "window":  # `span` is what the past may hold; the window is one more, and may begin inside a block
        return min(math.ceil(tokens / block), math.ceil((term.span + 1) / block) + 1)
    return math.ceil((encoder_tokens // max(1, term.span) if term.growth == "encoder" else tokens) / block)


def block_tokens(term: Term, element_bytes: float, state_page: int) -> int:
    """s: tokens of a block, so that one attention layer's block takes in one layer's state."""
    least = LATENT_BLOCK if "latent" in term.kind else BLOCK
    wanted = math.ceil(state_page / (term.elements * element_bytes))
    return max(least, math.ceil(wanted / least) * least)


def vllm_cache_bytes(
    terms: Sequence[Term],
    *,
    tokens: int,
    batch: int,
    element_bytes: float,
    encoder_tokens: int = 0,
    state_bytes: float | None = None,
) -> tuple[dict[str, Bytes], tuple[str, ...]]:
    """The law by layer kind, and codes of what it leaves open.

    Codes: `engine_state_dtype` (states are counted as transformers keeps them), `engine_cache_layout` (a kind is counted without
    the engine's own layout).
    """
    states = [t for t in terms if is_state(t)]
    paged = [t for t in terms if t.growth in {"tokens", "window", "encoder"} and t.holds != "indexer keys"]
    held_state = max((t.layers for t in states), default=0)
    page = sum(math.ceil(t.elements * width(t, element_bytes, state_bytes)) for t in states)
    widths = {t.elements for t in paged}
    even = len(widths) == 1 and not any(t.growth in {"blocks", "remainder", "step"} for t in terms)
    counts = [t.layers for t in paged] + ([held_state] if states else [])
    padded = page
    found: dict[str, float] = {}

    def add(kind: str, size: float) -> None:
        found[kind] = found.get(kind, 0) + batch * size

    for term in paged:
        block = block_tokens(term, element_bytes, page)
        layers = slots(term.layers, counts) if even else term.layers
        add(term.kind, layers * blocks(term, tokens, encoder_tokens, block) * block * term.elements * element_bytes)
        padded = max(padded, math.ceil(block * term.elements * element_bytes))
    for term in (t for t in terms if t.holds == "indexer keys"):
        row = term.elements + _SCALE_BYTES * math.ceil(term.elements / _SCALED)
        add(term.kind, term.layers * blocks(term, tokens, encoder_tokens, LATENT_BLOCK) * LATENT_BLOCK * row)
    if states:
        add(states[-1].kind, (slots(held_state, counts) if even or not paged else held_state) * padded)
    rest = [t for t in terms if t not in paged and t not in states and t.holds != "indexer keys"]
    left = cache_bytes_by_kind(
        rest, tokens=tokens, batch=1, element_bytes=element_bytes, encoder_tokens=encoder_tokens, state_bytes=state_bytes
    )
    for kind, size in left.items():
        add(kind, size)
    codes = (("engine_state_dtype",) if states else ()) + (("engine_cache_layout",) if rest or (paged and not even) else ())
    return {kind: Bytes(math.ceil(size)) for kind, size in found.items()}, codes
