"""What a model caches, told from its configuration alone: layer by layer, each by its kind.

The kinds of the layers are those that `transformers`' own cache reads from the same configuration (`layer_types`, windows, shared
layers). It is instant and it can be explained, and it is checked against the executed cache (`lib.model.cache_run`): a model for
which the two differ gets the executed numbers. A kind that is not known here makes the whole answer None.

    attention 2 · H_kv · D per token · latent attention r + d_rope per token · recurrent states a constant   (`lib.model.cache_kinds`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from lib.model.cache_kinds import Held, attention, compressed, convolution, cross_attention, recurrent, size
from lib.model.spec import CacheTerm

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


def named(executed: tuple[CacheTerm, ...], config: Any) -> tuple[CacheTerm, ...]:
    """The executed terms under the kinds of the closed form, where the two agree; else as they are."""
    formed = closed_form(config)
    return formed if formed is not None and agree(executed, formed) else executed
