"""Bytes of cache pages that vLLM on TPU (tpu-inference) hands to B sequences of T tokens.

    M = B · Σ_k  L_k · ⌈n_k(T) / s⌉ · s · row_k · b

    row     keys and values of all heads, in whole registers of the chip:
            D ≠ 64   ⌈2·H_kv⌉_p · ⌈D⌉_128          D = 64   ⌈H_kv⌉_p · 128 (key and value side by side)
            latent   ⌈r_kv + d_rope⌉_128
    ⌈x⌉_m   x rounded up to a multiple of m; p = 4 / b elements share a 32-bit word
    s       tokens of a page: 16 above 8192 tokens; below, a 16th of the next power of two of T, at least 16 and at most 256;
            1024 for latent attention
    n(T)    full: T · sliding: one page more than the window of W tokens needs, at most all of T

A head of 80 or 96 thus takes the room of 128, and a model with one or two heads of 64 as much as one with 128.

Limits: one chip; tensor parallelism splits the heads first, and repeats them where there are fewer than chips. The page follows the
server's maximum length, here taken to be T. Pages of mixed kinds are unified further; recurrent states, cross and compressed attention
are counted as transformers holds them.
Source: tpu-inference b8692ff (2026-08-22), `kernels/ragged_paged_attention/v3/kernel.py`, `kernel_hd64.py`, `kernels/mla/v2/kernel.py`,
`layers/vllm/backends/flash_attn.py` and `flash_attn_mla.py`; read 2026-11-21.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lib.laws.kv_cache import Term, cache_bytes_by_kind
from lib.laws.kv_cache_vllm import blocks
from lib.units import Bytes

LANES = 128
LATENT_PAGE = 1024
_LONG, _SHARE, _LEAST, _MOST = 8192, 16, 16, 256
_WORD = 4
_PAIRED = 64


def rounded(value: int, multiple: int) -> int:
    """`value`, up to the next multiple."""
    return math.ceil(value / multiple) * multiple


def page_tokens(tokens: int) -> int:
    """Tokens of a page for a server of this maximum length.

    >>> page_tokens(1024), page_tokens(8192), page_tokens(8193)
    (64, 256, 16)
    """
    if tokens > _LONG:
        return _LEAST
    return min(_MOST, max(_LEAST, (1 << max(0, tokens - 1).bit_length()) // _SHARE))


def row_elements(elements: int, head_dim: int, element_bytes: float) -> int:
    """Elements that one token takes in one layer; `elements` is 2·H_kv·D.

    >>> row_elements(2 * 8 * 128, 128, 2), row_elements(2 * 8 * 96, 96, 2), row_elements(2 * 1 * 64, 64, 2)
    (2048, 2048, 256)
    """
    packed = max(1, round(_WORD / element_bytes))
    count = elements // (2 * head_dim)
    if head_dim == _PAIRED:
        return rounded(count, packed) * LANES
    return rounded(2 * count, packed) * rounded(head_dim, LANES)


def tpu_cache_bytes(
    terms: Sequence[Term],
    *,
    tokens: int,
    batch: int,
    element_bytes: float,
    head_dim: int,
    encoder_tokens: int = 0,
    state_bytes: float | None = None,
) -> tuple[dict[str, Bytes], tuple[str, ...]]:
    """The law by layer kind, and codes of what it leaves open.

    Args:
        terms: what the layers cache.
        tokens: T.
        batch: B.
        element_bytes: bytes of one element of the cache dtype, 1, 2 or 4.
        head_dim: D.
        encoder_tokens: length of the encoder's input.
        state_bytes: bytes of one element of the compute dtype, where it differs from the cache's.

    Codes: `engine_cache_layout` (a kind is counted as transformers holds it).
    """
    found: dict[str, float] = {}
    codes: list[str] = []
    for term in terms:
        latent = "latent" in term.kind and term.holds != "indexer keys"
        heads = not latent and head_dim > 0 and term.elements % (2 * head_dim) == 0 and term.holds == "keys and values"
        if term.growth in {"tokens", "window"} and (latent or heads):
            page = LATENT_PAGE if latent else page_tokens(tokens)
            row = rounded(term.elements, LANES) if latent else row_elements(term.elements, head_dim, element_bytes)
            size = batch * term.layers * blocks(term, tokens, encoder_tokens, page) * page * row * element_bytes
        else:
            held = cache_bytes_by_kind(
                [term], tokens=tokens, batch=batch, element_bytes=element_bytes, encoder_tokens=encoder_tokens, state_bytes=state_bytes
            )
            size = float(sum(held.values()))
            codes.append("engine_cache_layout")
        found[term.kind] = found.get(term.kind, 0) + size
    return {kind: Bytes(math.ceil(size)) for kind, size in found.items()}, tuple(dict.fromkeys(codes))
