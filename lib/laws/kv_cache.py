"""Bytes held by the key/value cache and recurrent states, as the model's own default cache holds them.

    M = B · Σ_k  L_k · e_k · n_k(T) · b_k

    B    sequences in flight                        T    tokens each sequence's cache has seen
    L_k  layers of kind k                           b_k  bytes of one element
    e_k  elements per layer and unit of n           n_k  units held, by the growth of the kind:

    growth     n(T)          kind of layer, and e
    tokens     T             full attention: 2·H_kv·D; latent attention: r_kv + d_rope, plus D_idx where an indexer keeps its keys
    window     min(T, W−1)   sliding or chunked attention, 2·H_kv·D; `span` is W−1, the tokens kept for the next one
    blocks     ⌊T/m⌋         compressed attention: one entry per m tokens
    remainder  T mod m       its buffer of tokens that do not fill a block yet
    step       [T ≥ m]       what it keeps of the last full block for the next one
    constant   1             recurrent state H·D·N; convolution state C·K; cross attention to a fixed number of positions
    encoder    ⌊E/s⌋         cross attention, 2·H_kv·D, over E encoder tokens of which s make one position

H_kv heads of keys, D their width; the 2 is one key and one value. b is the width of the cache dtype for entries that grow with the prompt,
and of the compute dtype for convolution states. It is 4 for recurrent states, which are float32 in every model dtype.

Worked example, Llama 3.1 8B (32 layers, 8 heads of 128) at 4096 tokens in bfloat16: 32 · 2·8·128 · 4096 · 2 = 536,870,912 bytes.

`cache_bytes` is the law, `cache_bytes_by_kind` its parts, `peak_tokens` where it is largest, and `linear_cache` the same as straight lines
in T for the laws of speed.

Limits: an unpadded batch of equal lengths, after the last step. During a long prefill a sliding layer briefly pins the whole prompt
(one layer at a time is visible in the activations). Serving engines allocate otherwise: `lib.laws.kv_cache_by_engine`.
Sources: Pope et al. 2022, arXiv:2211.05102 (full attention); DeepSeek-AI 2024, arXiv:2405.04434 (latent attention); Gu and Dao 2023,
arXiv:2312.00752 (recurrent state); the cache classes of transformers 5.23.0, as executed by `lib.model.cache_executed`.
"""

# ruff: noqa: D102 the class docstring of the protocol says it
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from lib.laws import Law
from lib.laws.cache_growth import growth_of
from lib.units import Bytes

LAW = Law(equation="B · Σ layers · elements · n(T) · b", source="cache classes of transformers 5.23.0, executed; lib/laws/kv_cache.py")

_FIXED = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


class CacheLayer(Protocol):
    """Cache of one kind of layer, as far as this law looks at it (`lib.model.spec.CacheTerm`).

    Its layer kind, what the tensors are, layers of the kind, e, the name of n, the window, block or ratio of the growth, and a dtype that
    stays or "model": the one chosen.
    """

    @property
    def kind(self) -> str: ...
    @property
    def holds(self) -> str: ...
    @property
    def layers(self) -> int: ...
    @property
    def elements(self) -> int: ...
    @property
    def growth(self) -> str: ...
    @property
    def span(self) -> int: ...
    @property
    def dtype(self) -> str: ...


def units(growth: str, span: int, tokens: int, encoder_tokens: int = 0) -> int:
    """n(T): how many units of e elements a layer holds for one sequence; `span` is W − 1, m or s.

    Raises:
        ValueError: there is no such growth, or it needs a block length and has none.
    """
    row = growth_of(growth)
    if row.in_blocks and span < 1:
        raise ValueError(f"{growth} needs a block length")
    return row.units(tokens, span, encoder_tokens)


def width(term: CacheLayer, element_bytes: float, state_bytes: float | None = None) -> float:
    """b: bytes of one element; a choice of cache precision changes neither fixed dtypes nor, if given apart, states."""
    if term.dtype != "model":
        return _FIXED[term.dtype]
    return state_bytes if state_bytes is not None and term.growth == "constant" and "state" in term.holds else element_bytes


def cache_bytes_by_kind(
    terms: Iterable[CacheLayer] | None,
    *,
    tokens: int,
    batch: int,
    element_bytes: float,
    encoder_tokens: int = 0,
    state_bytes: float | None = None,
) -> dict[str, Bytes]:
    """The law for each layer kind; the parts add up to `cache_bytes`. No terms (an encoder) give no parts.

    Args:
        terms: what the layers cache.
        tokens: T, the tokens that each sequence's cache has seen.
        batch: B, sequences in flight.
        element_bytes: bytes of one element of the cache dtype, with its share of scales if it is quantized (q8_0: 34/32).
        encoder_tokens: E, length of the encoder's input.
        state_bytes: bytes of one element of the compute dtype, if it differs from the cache's.
    """
    parts: dict[str, float] = {}
    for term in terms or ():
        count = batch * term.layers * term.elements * units(term.growth, term.span, tokens, encoder_tokens)
        parts[term.kind] = parts.get(term.kind, 0) + count * width(term, element_bytes, state_bytes)
    return {kind: Bytes(math.ceil(part)) for kind, part in parts.items()}


def cache_bytes(
    terms: Iterable[CacheLayer] | None,
    *,
    tokens: int,
    batch: int,
    element_bytes: float,
    encoder_tokens: int = 0,
    state_bytes: float | None = None,
) -> Bytes:
    """The equation above; arguments as in `cache_bytes_by_kind`."""
    parts = cache_bytes_by_kind(
        terms, tokens=tokens, batch=batch, element_bytes=element_bytes, encoder_tokens=encoder_tokens, state_bytes=state_bytes
    )
    return Bytes(sum(parts.values()))


def peak_tokens(terms: Sequence[CacheLayer], tokens: int) -> tuple[int, ...]:
    """Lengths up to `tokens` at one of which the cache is largest: buffers of unfilled blocks empty when the block is full.

    All other growths never shrink, and buffers repeat with the least common multiple of their block lengths, so the largest is in the last
    such stretch. Where every block length divides the next, it is at the end of a block of some length.
    """
    spans = sorted({term.span for term in terms if growth_of(term.growth).empties})
    stretch = math.lcm(*spans)
    if spans and stretch != spans[-1]:
        return tuple(range(max(0, tokens - stretch + 1), tokens + 1))
    return (tokens, *(last for span in spans if (last := (tokens + 1) // span * span - 1) >= 0))


class LinearCache(NamedTuple):
    """A cache as C(T) = c₀ + c₁·T + c_w·min(T, w), bytes of one sequence of T tokens.

    Attributes:
        constant: c₀, bytes that do not grow with T: states, cross attention, and half a block where a block is being filled.
        per_token: c₁, bytes per token of layers that keep everything; a compressed entry counts for each of its tokens in part.
        windowed_per_token: c_w, bytes per token of layers that keep a window.
        window: w, tokens of that window; of windows of several lengths their mean, weighted by bytes.
    """

    constant: float
    per_token: float
    windowed_per_token: float
    window: float


def linear_cache(terms: Iterable[CacheLayer], element_bytes: float, encoder_tokens: int = 0) -> LinearCache:
    """The law as straight lines, for laws that need it as a few numbers; exact but for blocks and windows of several lengths.

    Raises:
        ValueError: there is no such growth.
    """
    constant = per_token = windowed = weighted = 0.0
    for term in terms:
        size = term.layers * term.elements * width(term, element_bytes)
        line = growth_of(term.growth).line(size, term.span, encoder_tokens)
        constant, per_token, windowed = constant + line.constant, per_token + line.per_token, windowed + line.windowed
        weighted += line.windowed * term.span
    return LinearCache(constant, per_token, windowed, weighted / windowed if windowed else 0.0)
