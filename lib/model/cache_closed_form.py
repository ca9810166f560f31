"""What a model caches, told from its configuration alone: layer by layer, each by its kind.

The kinds of the layers are those that `transformers`' own cache reads from the same configuration (`layer_types`, windows, shared
layers). It is instant and it can be explained, and it is checked against the executed cache (`lib.model.cache_executed`): a model for
which the two differ gets the executed numbers. A kind that is not known here makes the whole answer None.

    attention 2 · H_kv · D per token · latent attention r + d_rope per token · recurrent states a constant   (`lib.model.cache_closed_form`)

What one layer of each kind caches, read from the normalised configuration: sizes and the product they form.

A kind is a way of remembering (full or sliding attention, a latent vector, a recurrent state …), not a family of models. Where
families spell a size differently, every spelling is a row of `_MAMBA2`, `_MAMBA1` or `_DELTA`; a kind whose sizes are not found under
any of them is unknown, and no number is made up for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lib.model.spec import CacheTerm, Growth


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One thing that a layer holds: the term for one layer, and its elements as a product in words ("2 · 8 heads · 128 wide")."""

    term: CacheTerm
    product: str


def _held(kind: str, holds: str, elements: int, product: str, growth: Growth = "tokens", span: int = 0, dtype: str = "model") -> Held:
    return Held(term=CacheTerm(kind=kind, holds=holds, layers=1, elements=elements, growth=growth, span=span, dtype=dtype), product=product)


def size(config: Any, *names: str) -> int:
    """The first of these settings that is a positive whole number, else 0."""
    for name in names:
        value = getattr(config, name, None)
        if type(value) is int and value > 0:
            return value
    return 0


def heads(config: Any) -> int:
    """Query heads of the decoder."""
    return size(config, "num_attention_heads", "n_head")


def kv_heads(config: Any, kind: str) -> int:
    """Heads of keys and values: stated for this kind, stated for all, one (multi-query), or as many as there are query heads."""
    stated = {"sliding": ("swa_num_key_value_heads",), "full": ("num_global_key_value_heads",)}.get(kind.split("_", maxsplit=1)[0], ())
    nested = getattr(config, "attn_config", None)
    if getattr(config, "new_decoder_architecture", None) is not None:  # Falcon: the field is read in one of its two forms only
        return (size(config, "num_kv_heads") if config.new_decoder_architecture else int(config.multi_query)) or heads(config)
    if getattr(config, "multi_query", False) is True:
        return 1
    return size(config, *stated, "num_key_value_heads") or size(nested, "kv_n_heads") or heads(config)


def head_width(config: Any, kind: str) -> int:
    """Width of one key head."""
    stated = {"sliding": ("swa_head_dim",), "full": ("global_head_dim",)}.get(kind.split("_", maxsplit=1)[0], ())
    width = size(config, *stated, "attention_head_dim", "head_dim", "d_kv", "kv_channels")
    return width or (size(config, "hidden_size", "d_model") // heads(config) if heads(config) else 0)


def attention(config: Any, kind: str, window: int = 0) -> Iterator[Held]:
    """Keys and values of one attention layer; `window` is what is kept of the past and the token itself (0 = everything)."""
    growth: Growth = "window" if window else "tokens"
    span = window - 1 if window else 0
    latent, rope = size(config, "kv_lora_rank"), size(config, "qk_rope_head_dim")
    if latent and rope:
        name = "latent attention (MLA)"
        yield _held(name, "latent and rope key", latent + rope, f"{latent} latent + {rope} rope key", growth, span)
        index = size(config, "index_head_dim")
        if kind == "indexed_attention" and index:
            yield _held(name, "indexer keys", index, f"{index} wide index key", growth, span)
        return
    name = {"chunked_attention": "chunked attention"}.get(kind, "sliding window" if window else "full attention")
    count, width = kv_heads(config, kind), head_width(config, kind)
    value = size(config, "swa_v_head_dim" if window else "v_head_dim", "v_head_dim") or width
    product = f"2 · {count} heads · {width} wide" if value == width else f"{count} heads · ({width} key + {value} value)"
    yield _held(name, "keys and values", count * (width + value), product, growth, span)


def cross_attention(config: Any, positions: int) -> Held:
    """Keys and values over the encoder's output; `positions` is their number where it is fixed (0 = as long as the input)."""
    count, width = heads(config), head_width(config, "cross")
    if positions:
        product = f"2 · {count} heads · {width} wide · {positions} positions"
        return _held("cross attention", "keys and values", 2 * count * width * positions, product, "constant")
    return _held("cross attention", "keys and values", 2 * count * width, f"2 · {count} heads · {width} wide", "encoder", 1)


_MAMBA2 = (  # heads, width of a head, groups, state, kernel
    ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"),
    ("n_mamba_heads", "mamba_headdim", "mamba_ngroups", "mamba_d_state", "mamba_d_conv"),
    ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel"),
    ("num_heads", "head_dim", "n_groups", "state_size", "conv_kernel"),
)
_MAMBA1 = (("intermediate_size", "state_size", "conv_kernel"),)  # width, state, kernel
_DELTA = (  # key heads, value heads, width of a key, of a value, kernel
    ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim"),
    ("linear_num_heads", "linear_num_heads", "linear_head_dim", "linear_head_dim", "linear_conv_kernel_dim"),
)


def _read(config: Any, spellings: tuple[tuple[str, ...], ...]) -> tuple[int, ...] | None:
    """The sizes under the first spelling of which every part is stated."""
    for names in spellings:
        found = tuple(size(config, name) for name in names)
        if all(found):
            return found
    return None


def _state(name: str, channels: int, kernel: int, elements: int, product: str) -> Iterator[Held]:
    yield _held("convolution state", "convolution state", channels * kernel, f"{channels} channels · {kernel} columns", "constant")
    yield _held(name, "recurrent state", elements, product, "constant", dtype="float32")


def recurrent(config: Any) -> Iterator[Held]:
    """States of one linear attention or state space layer; nothing if its sizes are not found."""
    if delta := _read(config, _DELTA):
        keys, values, key, value, kernel = delta
        product = f"{values} heads · {key} key · {value} value"
        yield from _state("linear attention state", 2 * keys * key + values * value, kernel, values * key * value, product)
    elif mamba2 := _read(config, _MAMBA2):
        count, width, groups, state, kernel = mamba2
        product = f"{count} heads · {width} wide · {state} state"
        yield from _state("state space (Mamba 2) state", count * width + 2 * groups * state, kernel, count * width * state, product)
    elif mamba1 := _read(config, _MAMBA1):
        yield from _mamba1(*mamba1)
    elif size(config, "mamba_d_state") and size(config, "mamba_d_conv"):
        inner = size(config, "mamba_expand") * size(config, "hidden_size")
        yield from _mamba1(inner, size(config, "mamba_d_state"), size(config, "mamba_d_conv"))
    elif size(config, "block_size") and hasattr(config, "linear_attn_alpha_factor"):
        count, width = heads(config), head_width(config, "linear")
        yield _held("linear attention state", "recurrent state", count * width * width, f"{count} heads · {width} · {width}", "constant")


def _mamba1(inner: int, state: int, kernel: int) -> Iterator[Held]:
    yield from _state("state space (Mamba) state", inner, kernel, inner * state, f"{inner} channels · {state} state")


def convolution(config: Any) -> Iterator[Held]:
    """The last inputs of a gated short convolution; nothing if its length is not found."""
    columns, width = size(config, "conv_L_cache"), size(config, "hidden_size")
    if columns and width:
        yield _held("convolution state", "convolution state", width * columns, f"{width} channels · {columns} columns", "constant")


def compressed(config: Any, kind: str) -> Iterator[Held]:
    """Entries made of m tokens each, the tokens that do not fill one yet, and what the next one needs of the last."""
    rates = getattr(config, "compress_rates", None)
    block, width, index = (rates or {}).get(kind, 0), size(config, "head_dim"), size(config, "index_head_dim")
    if not block or not width:
        return
    window = size(config, "sliding_window")
    yield _held("sliding window", "shared keys and values", width, f"{width} wide", "window", window - 1)
    sparse = kind == "compressed_sparse_attention"
    for name, wide in (("entries", width), ("index entries", index if sparse else 0)):
        if wide:
            series = 2 if sparse else 1
            yield _held("compressed attention", name, wide, f"{wide} wide", "blocks", block)
            yield _held(
                "compressed attention", f"open block of {name}", 2 * series * wide, f"2 · {series} · {wide} wide", "remainder", block
            )
            if sparse:
                yield _held("compressed attention", f"overlap of {name}", 2 * block * wide, f"2 · {block} · {wide} wide", "step", block)


_SLIDING = frozenset({"sliding_attention", "chunked_attention", "hybrid_sliding"})
_STATES = frozenset({"linear_attention", "hybrid", "hybrid_sliding"})
_COMPRESSED = frozenset({"compressed_sparse_attention", "heavily_compressed_attention"})
_ATTENTION = frozenset({"full_attention", "indexed_attention", "hybrid"}) | _SLIDING


def _layer(config: Any, kind: str, window: int) -> Iterator[Held]:
    """What one layer of this kind holds."""
    if kind in _ATTENTION:
        yield from attention(config, kind, window if kind in _SLIDING else 0)
    if kind in _STATES:
        yield from recurrent(config)
    if kind == "conv":
        yield from convolution(config)
    if kind in _COMPRESSED:
        yield from compressed(config, kind)


def _layers(config: Any) -> list[tuple[Any, str, int]]:
    """Settings, kind and window of each decoder layer, as `transformers`' cache reads them."""
    from transformers.cache_utils import get_layer_types_and_kwargs  # noqa: PLC0415 loaded when first needed

    indexers = getattr(config, "indexer_types", None) or ()
    kinds, settings = get_layer_types_and_kwargs(config)
    each = config.per_layer_config
    kinds = ["full_attention" if part == "shared" else kind for kind, part in zip(kinds, indexers, strict=True)] if indexers else kinds
    stack = size(config, "num_decoder_layers") if config.is_encoder_decoder else 0
    skipped = getattr(config, "cross_attention_layers", None) or ()
    found = [(c, k, int(s.get("sliding_window") or 0)) for c, k, s in zip(each, kinds, settings, strict=False)]
    if stack and len(set(kinds)) == 1:  # T5 counts the decoder apart, in a field that the cache does not read
        found = found[:1] * stack
    return [layer for position, layer in enumerate(found) if position not in skipped]


def _fixed_positions(config: Any) -> int:
    """Positions of an encoder of mel frames that takes one length only (30 seconds), 0 for others."""
    return size(config, "max_source_positions") if size(config, "num_mel_bins") else 0


def explained(config: Any) -> tuple[Held, ...] | None:
    """Every term with the product behind its elements, equal layers counted together; None where a kind or a size is unknown.

    Args:
        config: the normalised configuration of a model that keeps a cache; of a nested one the text decoder's part is read.
    """
    try:
        found = _counted(config.get_text_config(decoder=True))
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):  # accepted by its class, yet without what a kind needs
        return None
    return tuple(replace(held, term=replace(held.term, layers=count)) for held, count in found.items()) or None


def _counted(decoder: Any) -> Counter[Held]:
    """What is held, with the number of layers that hold it; empty where one layer is unknown."""
    found: Counter[Held] = Counter()
    for settings, kind, window in _layers(decoder):
        held = tuple(_layer(settings, kind, window))
        if kind != "dummy" and (not held or any(h.term.elements < 1 for h in held)):
            return Counter()
        found.update(held)
        if decoder.is_encoder_decoder and kind != "dummy":
            found[cross_attention(settings, _fixed_positions(decoder))] += 1
    return found


def closed_form(config: Any) -> tuple[CacheTerm, ...] | None:
    """The terms of `explained` alone."""
    held = explained(config)
    return None if held is None else tuple(h.term for h in held)


def curve(terms: Iterable[CacheTerm]) -> Counter[tuple[str, int, str]]:
    """Elements by growth, span and dtype: equal for terms that hold equally much at every length."""
    total: Counter[tuple[str, int, str]] = Counter()
    for term in terms:
        span = term.span if term.growth not in {"tokens", "constant"} else 0
        total[term.growth, span, term.dtype] += term.layers * term.elements
    return total


def agree(executed: Iterable[CacheTerm], formed: Iterable[CacheTerm] | None) -> bool:
    """Whether the closed form holds exactly what was executed, at every length, batch and dtype."""
    return formed is not None and curve(executed) == curve(formed)


def name_terms(executed: tuple[CacheTerm, ...], config: Any) -> tuple[CacheTerm, ...]:
    """The executed terms under the kinds of the closed form, where the two agree; else as they are."""
    formed = closed_form(config)
    return formed if formed is not None and agree(executed, formed) else executed
