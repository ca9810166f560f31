"""Bytes of cache that llama.cpp allocates at start for B sequences of T tokens each.

    M = B · Σ_k  L_k · e_k · b · cells_k   +   B · Σ_states  L · e · 4

    cells   full attention   T, rounded up to 256
            sliding          min(cells of full attention, W + u), rounded up to 256, beside layers of another kind;
                             as full attention where every layer slides (Mistral 7B v0.1, Phi-3, StarCoder2)
    e       2·H_kv·D; latent attention one row of r_kv + d_rope and no values
    b       2 (f16) unless a cache type is chosen: q8_0 34/32, q4_0 18/32
    W, u    the window in tokens, and the micro-batch: 512 unless chosen
    states  float32, one row a sequence: recurrent and convolution states both

Everything is allocated when the context is made, whether a sequence uses it or not. With `--kv-unified` the B sequences share one
row of cells; then the sum of their lengths counts, and the windows come to B·W + u.

Limits: builds before 2026 expand latent attention to full heads (some 70 times more for DeepSeek V3). Convolution states are counted with
all K columns; llama.cpp keeps K − 1. Keys of an indexer, compressed attention and cross attention are not laid out as here; they
are counted as transformers holds them.
Sources: llama.cpp `src/llama-kv-cache-iswa.cpp` (02c28f5), `src/llama-kv-cache.cpp` and `src/llama-context.cpp` (25ae3a9),
`src/llama-memory-recurrent.cpp` (0054ee8); where every layer slides: `src/models/llama.cpp` (069be0a), `starcoder2.cpp` (82234e0) and
`phi3.cpp` (358a4a0), which drop the window; read 2026-11-21.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lib.laws.kv_cache import Term, cache_bytes_by_kind
from lib.units import Bytes

PAD = 256
MICRO_BATCH = 512
_STATE = 4


def padded(tokens: int) -> int:
    """The next multiple of 256.

    >>> padded(1), padded(256), padded(1025)
    (256, 256, 1280)
    """
    return math.ceil(tokens / PAD) * PAD


def mixed(terms: Sequence[Term]) -> bool:
    """Whether layers of another kind stand beside the sliding ones: only then does llama.cpp keep a window."""
    return any(t.growth in {"tokens", "blocks"} and t.holds != "indexer keys" for t in terms)


def cells(term: Term, tokens: int, *, windowed: bool = True) -> int:
    """Cells of one layer for one sequence; `span` is what the past may hold, the window is one more."""
    if term.growth == "window" and windowed:
        return padded(min(padded(tokens), term.span + 1 + MICRO_BATCH))
    return padded(tokens)


def llamacpp_cache_bytes(
    terms: Sequence[Term],
    *,
    tokens: int,
    batch: int,
    element_bytes: float = 2.0,
    encoder_tokens: int = 0,
) -> tuple[dict[str, Bytes], tuple[str, ...]]:
    """The law by layer kind, and codes of what it leaves open.

    Codes: `engine_cache_layout` (a kind is counted as transformers holds it), `engine_latent_build` (latent attention as in builds
    of 2026).
    """
    found: dict[str, float] = {}
    codes: list[str] = []
    windowed = mixed(terms)
    for term in terms:
        if term.growth in {"tokens", "window"} and term.holds != "indexer keys":
            size = batch * term.layers * term.elements * element_bytes * cells(term, tokens, windowed=windowed)
        elif term.growth == "constant" and "state" in term.holds:
            size = float(batch * term.layers * term.elements * _STATE)
        else:
            held = cache_bytes_by_kind([term], tokens=tokens, batch=batch, element_bytes=element_bytes, encoder_tokens=encoder_tokens)
            size = float(sum(held.values()))
            codes.append("engine_cache_layout")
        if "latent" in term.kind:
            codes.append("engine_latent_build")
        found[term.kind] = found.get(term.kind, 0) + size
    return {kind: Bytes(math.ceil(size)) for kind, size in found.items()}, tuple(dict.fromkeys(codes))
