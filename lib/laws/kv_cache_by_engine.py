"""Bytes of cache by engine: transformers allocates the tensors of its cache classes, the others blocks, cells or pages.

    transformers   `lib.laws.kv_cache`, exact
    vllm           `vllm_cache`, blocks of 16 tokens
    sglang, tensorrt-llm, tgi    `block_cache`, blocks of 1 or 32 tokens
    tei            none: one pass over a text keeps nothing
    llama.cpp      `llamacpp_cache`, cells of 256 tokens, allocated at start
    vllm-tpu       `tpu_cache`, pages whose rows are padded to the chip's registers

Symbols are those of `lib.laws.kv_cache`; each law is at its function, with its limits and sources, and returns codes of open
points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lib.engines import traits_of
from lib.engines.traits import MICRO_BATCH, CacheLayout
from lib.laws import Law, kv_cache
from lib.laws.kv_cache import CacheLayer, cache_bytes_by_kind, width
from lib.units import Bytes

LAWS: Mapping[CacheLayout, Law] = {
    "exact": kv_cache.LAW,
    "grouped blocks": Law(
        equation="B · Σ slots · ⌈n(T) / s⌉ · s · elements · b, in blocks of s tokens",
        source="vllm, v1/kv_cache_interface.py (001cabc); lib/laws/kv_cache_by_engine.py",
    ),
    "blocks": Law(
        equation="B · Σ layers · ⌈n(T) / s⌉ · s · elements · b, in blocks of s tokens",
        source="sglang's page_size, TensorRT-LLM's tokens_per_block; lib/laws/kv_cache_by_engine.py",
    ),
    "even blocks": Law(
        equation="B · Σ layers · max n(T) · elements · b, as many tokens in every layer",
        source="text-generation-inference, models/flash_causal_lm.py (db931fc); lib/laws/kv_cache_by_engine.py",
    ),
    "none": Law(equation="0: one pass keeps no cache", source="text-embeddings-inference 1.9, README"),
    "cells": Law(
        equation="B · Σ layers · elements · b · cells(T)",
        source="llama.cpp, src/llama-kv-cache.cpp (25ae3a9); lib/laws/kv_cache_by_engine.py",
    ),
    "pages": Law(
        equation="B · Σ layers · ⌈n(T) / s⌉ · s · row · b, in pages of s tokens",
        source="tpu-inference b8692ff; lib/laws/kv_cache_by_engine.py",
    ),
}
"""The law of each layout, as shown."""


class EngineCache(NamedTuple):
    """Bytes by layer kind, and codes of open points."""

    by_kind: dict[str, Bytes]
    codes: tuple[str, ...]

    @property
    def bytes(self) -> Bytes:
        """The sum."""
        return Bytes(sum(self.by_kind.values()))


class CacheQuestion(NamedTuple):
    """T (`tokens`), B (`batch`), b (`element_bytes`), D (`head_dim`), u (`micro_batch`) and the terms of the model.

    `encoder_tokens` are the positions of an encoder; `state_bytes` is b of states, None if it does not differ.
    """

    tokens: int
    batch: int
    element_bytes: float
    head_dim: int = 0
    encoder_tokens: int = 0
    state_bytes: float | None = None
    micro_batch: int = MICRO_BATCH
    terms: Sequence[CacheLayer] = ()

    def as_transformers(self, terms: Sequence[CacheLayer]) -> dict[str, Bytes]:
        """Some of the terms as transformers holds them."""
        of = self
        return cache_bytes_by_kind(
            terms, tokens=of.tokens, batch=of.batch, element_bytes=of.element_bytes, encoder_tokens=of.encoder_tokens,
            state_bytes=of.state_bytes,
        )  # fmt: skip


def _sum_up(sizes: Iterable[tuple[str, float]], codes: Iterable[str]) -> EngineCache:
    by_kind: dict[str, float] = {}
    for kind, size in sizes:
        by_kind[kind] = by_kind.get(kind, 0) + size
    return EngineCache({kind: Bytes(math.ceil(size)) for kind, size in by_kind.items()}, tuple(dict.fromkeys(codes)))


# vLLM: tokens of a block, bytes of a scale and the entries that share it, and the ratio of layer counts below which groups are filled up.
_BLOCK = 16
_LATENT_BLOCK = 64
_SCALE_BYTES, _SCALED = 4, 128
_CLOSE = 1.5


def is_state(term: CacheLayer) -> bool:
    """Whether the term is a recurrent or convolution state."""
    return term.growth == "constant" and "state" in term.holds


def _is_plain(term: CacheLayer) -> bool:
    """Whether the term is one of keys and values, of all tokens or of a window."""
    return term.growth in {"tokens", "window"} and term.holds != "indexer keys"


def round_up(value: int, multiple: int) -> int:
    """`value`, up to the next multiple."""
    return math.ceil(value / multiple) * multiple


def slots(layers: int, counts: Sequence[int]) -> int:
    """Layers after filling up to whole groups; `counts` are those of all kinds.

    >>> slots(52, [10, 52]), slots(12, [12, 13]), slots(32, [32])
    (60, 13, 32)
    """
    smallest, largest = min(counts), max(counts)
    group = largest if largest < smallest * _CLOSE else smallest
    return round_up(layers, group)


def blocks(term: CacheLayer, tokens: int, encoder_tokens: int, block: int) -> int:
    """Blocks that one layer holds for one sequence."""
    if term.growth == "window":  # `span` is what the past may hold; the window is one more, and may begin inside a block
        return min(math.ceil(tokens / block), math.ceil((term.span + 1) / block) + 1)
    return math.ceil((encoder_tokens // max(1, term.span) if term.growth == "encoder" else tokens) / block)


def block_tokens(term: CacheLayer, element_bytes: float, state_page: int) -> int:
    """s: tokens of a block, so that one attention layer's block takes in one layer's state."""
    least = _LATENT_BLOCK if "latent" in term.kind else _BLOCK
    wanted = math.ceil(state_page / (term.elements * element_bytes))
    return max(least, round_up(wanted, least))


_ENTRY_BLOCK, _ENTRY_ALIGNED, _ROPE, _ENTRY_SCALES = 256, 576, 64, 8
_FP8_ENTRIES = 512


def entry_blocks(term: CacheLayer, tokens: int) -> int:
    """Bytes of one layer of compressed attention for one sequence in vLLM's fp8_ds_mla layout, in blocks of 256 tokens.

    An entry of 512 elements takes 584 bytes: 448 in fp8, 64 rotated ones in bf16, 8 bytes of scales; one of the indexer 132, in fp8 with a
    float32 scale. Entries of a block are padded to 576 bytes together.
    """
    row = term.elements - _ROPE + 2 * _ROPE + _ENTRY_SCALES if term.holds == "entries" else term.elements + _SCALE_BYTES
    return math.ceil(tokens / _ENTRY_BLOCK) * round_up(_ENTRY_BLOCK // term.span * row, _ENTRY_ALIGNED)


def has_fp8_entries(term: CacheLayer) -> bool:
    """Whether vLLM stores the term in fp8 for every cache format: compressed attention as DeepSeek-V4 has it."""
    fits = 0 < term.span <= _ENTRY_BLOCK and _ENTRY_BLOCK % term.span == 0
    return term.growth == "blocks" and fits and (term.holds == "index entries" or (term.holds, term.elements) == ("entries", _FP8_ENTRIES))


def vllm_cache(question: CacheQuestion) -> EngineCache:
    """Cache blocks that vLLM hands to B sequences of T tokens, by layer kind, and codes of open points.

        M = B · Σ_k  slots(L_k) · ⌈n_k(T) / s⌉ · s · e_k · b          attention, in blocks of s tokens
          + B · Σ_k  slots(L_k) · page                                recurrent layers, one page a sequence and layer

        e, b       elements per token and layer, bytes of an element (as in `lib.laws.kv_cache`)
        s          16 tokens; 64 for latent attention (one row of r_kv + d_rope, keys and values in one); with recurrent layers so
                   many, in steps of 16, that a block of one attention layer is at least one layer's state
        n(T)       full: T · sliding or chunked: one block more than the window of W tokens needs, at most all of T · cross: E
        page       a layer's states, padded to the block of one attention layer
        slots(L)   layers of a kind, filled up to whole groups of g: g is the smallest count of any kind, or the largest one where that
                   is less than 1.5 times the smallest (one kind only: no filling)
        indexer    D_idx + 4 bytes per 128 entries: fp8 with one float32 scale, for every cache dtype
        entries    compressed attention of DeepSeek-V4: `entry_blocks`, fp8 for every cache dtype

    Example: Gemma 3 27B has 10 full and 52 sliding layers, so g = 10 and the sliding ones take 60 slots.

    Limits: vLLM fills the rest of the device with blocks at start; these are the ones a request occupies while it decodes (a chunk of
    the prefill in flight adds its own). The dtype of states is a setting there; float32 is kept where transformers keeps it. Kinds with
    different widths are grouped in ways that are not modelled here: they are counted without filling up. The windows and open blocks of
    compressed attention, which do not grow, are counted as transformers holds them; on data-centre Blackwell vLLM can keep entries in bf16.
    Sources: vllm `vllm/v1/kv_cache_interface.py` (001cabc), `docs/design/hybrid_kv_cache_manager.md` (1153c0c), grouping and the indexer's
    row as in `vllm/v1/core/kv_cache_utils.py` and `vllm/model_executor/models/deepseek_v2.py` of 2026; read 2026-11-21. Entries:
    `vllm/models/deepseek_v4/attention.py` (0484480b), page sizes 64 · 584 → 37,440 as its tests have them; read 2026-11-26.

    Codes: `engine_state_dtype` (states are counted as transformers keeps them), `engine_cache_layout` (a kind is counted without
    the engine's own layout), `engine_fp8_entries` (entries of compressed attention are in fp8).
    """
    states = [t for t in question.terms if is_state(t)]
    paged = [t for t in question.terms if t.growth in {"tokens", "window", "encoder"} and t.holds != "indexer keys"]
    indexers = [t for t in question.terms if t.holds == "indexer keys"]
    rest = [t for t in question.terms if t not in paged and t not in states and t.holds != "indexer keys"]
    state_layers = max((t.layers for t in states), default=0)
    page = padded = sum(math.ceil(t.elements * width(t, question.element_bytes, question.state_bytes)) for t in states)
    even = len({t.elements for t in paged}) == 1 and not any(t.growth in {"blocks", "remainder", "step"} for t in question.terms)
    counts = [t.layers for t in paged] + ([state_layers] if states else [])
    sizes: list[tuple[str, float]] = []
    for term in paged:
        block = block_tokens(term, question.element_bytes, page)
        layers = slots(term.layers, counts) if even else term.layers
        sizes.append(
            (
                term.kind,
                layers * blocks(term, question.tokens, question.encoder_tokens, block) * block * term.elements * question.element_bytes,
            )
        )
        padded = max(padded, math.ceil(block * term.elements * question.element_bytes))
    for term in indexers:
        row = term.elements + _SCALE_BYTES * math.ceil(term.elements / _SCALED)
        sizes.append((term.kind, term.layers * blocks(term, question.tokens, question.encoder_tokens, _LATENT_BLOCK) * _LATENT_BLOCK * row))
    if states:
        sizes.append((states[-1].kind, (slots(state_layers, counts) if even or not paged else state_layers) * padded))
    entries = [t for t in rest if has_fp8_entries(t)]
    sizes += [(term.kind, term.layers * entry_blocks(term, question.tokens)) for term in entries]
    sizes += question._replace(batch=1).as_transformers([t for t in rest if t not in entries]).items()
    own_layout = not entries and bool(rest or (paged and not even))
    codes = [
        code
        for code, said in (("engine_state_dtype", states), ("engine_cache_layout", own_layout), ("engine_fp8_entries", entries))
        if said
    ]
    return _sum_up(((kind, question.batch * size) for kind, size in sizes), codes)


def block_cache(question: CacheQuestion, *, block: int, even: bool) -> EngineCache:
    """Cache blocks for B sequences of T tokens, by layer kind, and codes of unknowns: SGLang, TensorRT-LLM and TGI.

        M = B · Σ_k  L_k · ⌈n_k(T) / s⌉ · s · e_k · b

        s       tokens of a block: 1 in SGLang (page_size) and in TGI (with FlashInfer), 32 in TensorRT-LLM (tokens_per_block)
        n(T)    full: T · sliding: the window, in a pool of its own; TGI has one pool, in which every layer holds as many tokens (`even`):
                there a window only counts where all layers have it

    Limits: latent attention is one row of r_kv + d_rope. Recurrent states, an indexer's keys, compressed and cross attention are counted as
    transformers holds them. SGLang splits its pool between full and sliding layers by a fixed ratio, so that one of them may fill first.
    TGI pages by 16 tokens if there is no FlashInfer (compute capability below 8.0), which adds at most 15 tokens a sequence.
    Sources: sglang docs/advanced_features/server_arguments.md (page_size 1); TensorRT-LLM `tensorrt_llm/llmapi/llm_args.py`
    (`tokens_per_block` 32); text-generation-inference `server/text_generation_server/models/globals.py` (`BLOCK_SIZE`) and
    `flash_causal_lm.py` (`init_kv_cache`), db931fc; read 2026-11-22.

    Codes: `engine_state_dtype`, `engine_cache_layout` as in `vllm_cache`.
    """
    sizes: list[tuple[str, float]] = []
    codes: list[str] = []
    slide_alone = not keeps_windows(question.terms)
    for term in question.terms:
        if _is_plain(term):
            whole = even and not slide_alone
            count = question.tokens if whole or term.growth == "tokens" else min(question.tokens, term.span + 1)
            sizes.append((term.kind, question.batch * term.layers * round_up(count, block) * term.elements * question.element_bytes))
        else:
            sizes += question.as_transformers([term]).items()
            codes.append("engine_state_dtype" if is_state(term) else "engine_cache_layout")
    return _sum_up(sizes, codes)


# llama.cpp: cells are allocated in multiples of 256; a state element takes 4 bytes.
_CELLS = 256
_STATE = 4


def whole_cells(tokens: int) -> int:
    """The next multiple of 256.

    >>> whole_cells(1), whole_cells(256), whole_cells(1025)
    (256, 256, 1280)
    """
    return round_up(tokens, _CELLS)


def keeps_windows(terms: Sequence[CacheLayer]) -> bool:
    """Whether there are layers of another kind than sliding ones: only then does llama.cpp keep a window."""
    return any(t.growth in {"tokens", "blocks"} and t.holds != "indexer keys" for t in terms)


def cells(term: CacheLayer, tokens: int, *, windowed: bool = True, micro_batch: int = MICRO_BATCH) -> int:
    """Cells of one layer for one sequence; `span` is what the past may hold, the window is one more."""
    if term.growth == "window" and windowed:
        return whole_cells(min(whole_cells(tokens), term.span + 1 + micro_batch))
    return whole_cells(tokens)


def llamacpp_cache(question: CacheQuestion) -> EngineCache:
    """Cache that llama.cpp allocates at start for B sequences of T tokens each, by layer kind, and codes of open points.

        M = B · Σ_k  L_k · e_k · b · cells_k   +   B · Σ_states  L · e · 4

        cells   full attention   T, rounded up to 256
                sliding          min(cells of full attention, W + u), rounded up to 256, if there are layers of another kind;
                                 as full attention where every layer slides (Mistral 7B v0.1, Phi-3, StarCoder2)
        e       2·H_kv·D; latent attention one row of r_kv + d_rope and no values
        b       2 (f16) unless a cache type is chosen: q8_0 34/32, q4_0 18/32
        W, u    the window in tokens, and the micro-batch: 512 unless chosen
        states  float32, one row a sequence: recurrent and convolution states both

    Everything is allocated when the context is made, whether a sequence uses it or not. With `--kv-unified` the B sequences share one
    row of cells; then the sum of their lengths counts, and the windows come to B·W + u.

    Limits: builds before 2026 expand latent attention to full heads (some 70 times more for DeepSeek V3). Convolution states are counted
    with all K columns; llama.cpp keeps K − 1. Keys of an indexer, compressed attention and cross attention are not laid out as here; they
    are counted as transformers holds them.
    Sources: llama.cpp `src/llama-kv-cache-iswa.cpp` (02c28f5), `src/llama-kv-cache.cpp` and `src/llama-context.cpp` (25ae3a9),
    `src/llama-memory-recurrent.cpp` (0054ee8); where every layer slides: `src/models/llama.cpp` (069be0a), `starcoder2.cpp` (82234e0) and
    `phi3.cpp` (358a4a0), which drop the window; read 2026-11-21.

    Codes: `engine_cache_layout` (a kind is counted as transformers holds it), `engine_latent_build` (latent attention as in builds
    of 2026).
    """
    sizes: list[tuple[str, float]] = []
    codes: list[str] = []
    windowed = keeps_windows(question.terms)
    for term in question.terms:
        if _is_plain(term):
            count = cells(term, question.tokens, windowed=windowed, micro_batch=question.micro_batch)
            sizes.append((term.kind, question.batch * term.layers * term.elements * question.element_bytes * count))
        elif is_state(term):
            sizes.append((term.kind, question.batch * term.layers * term.elements * _STATE))
        else:
            sizes += question.as_transformers([term]).items()
            codes.append("engine_cache_layout")
        if "latent" in term.kind:
            codes.append("engine_latent_build")
    return _sum_up(sizes, codes)


# TPU: lanes of a register, tokens of a page (above `LONG_CONTEXT` the least), bytes of a word, and the head width that is packed in pairs.
_LANES = 128
_LATENT_PAGE = 1024
LONG_CONTEXT, _SHARE, _LEAST, _MOST = 8192, 16, 16, 256
_WORD = 4
_PAIRED = 64


def page_tokens(tokens: int) -> int:
    """Tokens of a page for a server of this maximum length.

    >>> page_tokens(1024), page_tokens(8192), page_tokens(8193)
    (64, 256, 16)
    """
    if tokens > LONG_CONTEXT:
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
        return round_up(count, packed) * _LANES
    return round_up(2 * count, packed) * round_up(head_dim, _LANES)


def tpu_cache(question: CacheQuestion) -> EngineCache:
    """Cache pages that vLLM on TPU (tpu-inference) hands to B sequences of T tokens, by layer kind, and codes of open points.

        M = B · Σ_k  L_k · ⌈n_k(T) / s⌉ · s · row_k · b

        row     keys and values of all heads, in whole registers of the chip:
                D ≠ 64   ⌈2·H_kv⌉_p · ⌈D⌉_128          D = 64   ⌈H_kv⌉_p · 128 (key and value side by side)
                latent   ⌈r_kv + d_rope⌉_128
        ⌈x⌉_m   x rounded up to a multiple of m; p = 4 / b elements share a 32-bit word
        s       tokens of a page: 16 above 8192 tokens; below, a 16th of the next power of two of T, at least 16 and at most 256;
                1024 for latent attention
        n(T)    full: T · sliding: one page more than the window of W tokens needs, at most all of T

    A head of 80 or 96 thus takes the room of 128, and a model with one or two heads of 64 as much as one with 128.

    Limits: one chip; tensor parallelism splits the heads first, and repeats them if there are fewer than chips. The page follows the
    server's maximum length, here taken to be T. Pages of mixed kinds are unified further; recurrent states, cross and compressed
    attention are counted as transformers holds them.
    Source: tpu-inference b8692ff (2026-08-22), `kernels/ragged_paged_attention/v3/kernel.py`, `kernel_hd64.py`, `kernels/mla/v2/kernel.py`,
    `layers/vllm/backends/flash_attn.py` and `flash_attn_mla.py`; read 2026-11-21.

    Codes: `engine_cache_layout` (a kind is counted as transformers holds it).
    """
    sizes: list[tuple[str, float]] = []
    codes: list[str] = []
    for term in question.terms:
        latent = "latent" in term.kind and term.holds != "indexer keys"
        heads = not latent and question.head_dim > 0 and term.elements % (2 * question.head_dim) == 0 and term.holds == "keys and values"
        if term.growth in {"tokens", "window"} and (latent or heads):
            page = _LATENT_PAGE if latent else page_tokens(question.tokens)
            row = round_up(term.elements, _LANES) if latent else row_elements(term.elements, question.head_dim, question.element_bytes)
            pages = blocks(term, question.tokens, question.encoder_tokens, page)
            sizes.append((term.kind, question.batch * term.layers * pages * page * row * question.element_bytes))
        else:
            sizes += question.as_transformers([term]).items()
            codes.append("engine_cache_layout")
    return _sum_up(sizes, codes)


def engine_cache(engine: str, question: CacheQuestion) -> EngineCache:
    """Bytes of cache that `engine` holds or allocates for B sequences of T tokens.

    Raises:
        ValueError: there is no engine of this name.
    """
    traits = traits_of(engine)
    if not question.terms or traits.cache == "none":
        return EngineCache({}, ())
    if traits.cache == "exact":
        return EngineCache(question.as_transformers(question.terms), ())
    if traits.cache in {"blocks", "even blocks"}:
        return block_cache(question, block=traits.block_tokens, even=traits.cache == "even blocks")
    return {"grouped blocks": vllm_cache, "cells": llamacpp_cache, "pages": tpu_cache}[traits.cache](question)
