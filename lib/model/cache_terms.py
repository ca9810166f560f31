"""Cache of a model, in terms: as recognised in the tensors of an executed cache, and as computed from a configuration alone.

Executed: the growth of a tensor follows from its shapes at a few lengths. The growths and their n(T) are those of `lib.laws.kv_cache`. One
is accepted only if it gives the observed number of elements at every length that was run; what none explains is `None`, never the nearest
one. W − 1 and m are read off the longest run: for T > m² only one m has ⌊T/m⌋ equal to the axis seen.

Closed form: layer by layer, each by its kind, as `transformers`' own cache reads it from the configuration (`layer_types`, windows, shared
layers). A kind is a way of remembering, not a family of models:

    attention          2 · H_kv · D per token                     H_kv key/value heads, D their width
    latent attention   r + d_rope per token                       r latent width, d_rope width of the rope key
    recurrent states   heads · width · state, a constant          and the last inputs of a convolution
    compressed         an entry for each block of m tokens        and the tokens that do not fill one yet

Where families spell a size differently, every spelling is a row of `_MAMBA2`, `_MAMBA1` or `_DELTA`. A kind that is not known here, or
whose sizes are stated under none of these names, makes the whole answer None: no number is made up. The result is instant, and it is
checked against the executed cache (`lib.model.cache_executed`): a model for which the two differ gets the executed numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from torch import Tensor
from torch.nn import Module
from transformers import PreTrainedConfig

from lib.laws.cache_growth import GROWTHS, Growth, SeenTensor
from lib.laws.kv_cache import units
from lib.model.spec import CacheTerm

_DEPTH = 8
_INDEX = re.compile(r"\[(\d+)\]")
_OUTPUT_FIELDS = ("past_key_values", "cache_params", "state", "mems", "past_buckets_states", "memory")
"""Fields in which `transformers` models return the state that they need at the next step."""


def cache_of(output: Any) -> object | None:
    """The cache that a model's output carries for the next step: the value of the first field that is one, None without any."""
    for name in _OUTPUT_FIELDS:
        value = getattr(output, name, None)
        if value is not None:
            return value  # type: ignore[no-any-return]
    return None


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", child) for i, child in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((f"[{key}]" if type(key) is int else f".{key}", child) for key, child in value.items())
    elif hasattr(value, "__dict__") and not isinstance(value, (Module, PreTrainedConfig, type)):
        yield from ((f".{key}", child) for key, child in vars(value).items())


def tensors_of(cache: object) -> list[tuple[str, Tensor]]:
    """The tensors reachable from a cache, by path ("layers[3].keys"), each object once, in the order in which the cache keeps them.

    A stack, not a nested function that calls itself: such a function refers to itself, so its data would stay alive until the garbage
    collector runs. A trace would count old cache entries as memory until then.
    """
    tensors: list[tuple[str, Tensor]] = []
    visited: set[int] = set()
    stack: list[tuple[str, Any, int]] = [("", cache, 0)]
    while stack:
        path, value, depth = stack.pop()
        if id(value) in visited or depth > _DEPTH or value is None or isinstance(value, (int, float, str)):
            continue
        visited.add(id(value))
        if isinstance(value, Tensor):
            tensors.append((path.lstrip("."), value))
        else:
            stack.extend((path + step, child, depth + 1) for step, child in reversed([*_children(value)]))
    return tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTensor:
    """One cached tensor: its path in the cache ("layers[3].keys"), its shape, and its dtype as torch spells it ("bfloat16")."""

    path: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def index(self) -> int | None:
        """Position in the cache's list of layers; None for a tensor outside any list, or in one that is only a list of tensors."""
        match = _INDEX.search(self.path)
        return int(match[1]) if match and match[0] != self.path else None

    @property
    def name(self) -> str:
        """The path without the layer: the same for equal tensors of different layers."""
        return _INDEX.sub("[]", self.path, count=1)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def describe_tensors(cache: object) -> tuple[CachedTensor, ...]:
    """The floating-point tensors of a cache; integer tensors are bookkeeping and are left out."""
    return tuple(
        CachedTensor(path=path, shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))
        for path, tensor in tensors_of(cache)
        if tensor.is_floating_point()
    )


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
_CONTAINERS = frozenset({"layers", "self_attention_cache", "cross_attention_cache"})


def contents_of(path: str) -> str:
    """Content of the tensor at `path` of a cache: a customary name, else the path's own words ("compressed kv, compressor")."""
    words = [word.strip("_") for word in _WORD.findall(path) if word.strip("_") not in _CONTAINERS]
    for word in reversed(words):
        if word in _HOLDS:
            return _HOLDS[word]
    return ", ".join(word.replace("_", " ") for word in words) or "state"


def layer_kind_of(path: str, contents: str, growth: Growth, *, compressed: bool) -> str:
    """The kind of the layer that a tensor belongs to; `compressed`: the layer holds blocks of tokens."""
    if "cross_attention_cache" in path or growth == "encoder":
        return "cross attention"
    if contents == "convolution state":
        return "convolution state"
    if growth == "constant":
        return "linear attention state"
    if growth == "window":
        return "sliding window"
    return "compressed attention" if compressed else "full attention"


Shapes = Mapping[int, tuple[int, ...]]
"""Shape of one tensor for one sequence, by length of the prompt in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGrowth:
    """`elements` per sequence and per unit of n(T); `span` is W − 1 or m, 0 if it has none."""

    growth: Growth
    elements: int
    span: int = 0

    def at(self, tokens: int) -> int:
        """Elements held for one sequence of `tokens`."""
        return self.elements * units(self.growth, self.span, tokens)


def block_length(shapes: Shapes) -> int:
    """The m for which the longest run holds ⌊T/m⌋ entries along the axis that moves, else 0."""
    before, longest = sorted(shapes)[-2:]
    pairs = [*zip(shapes[before], shapes[longest], strict=False)]
    moving = [extent for previous, extent in pairs if previous != extent]
    return longest // moving[0] if len(shapes[before]) == len(shapes[longest]) and len(moving) == 1 and moving[0] else 0


def _possible_growths(shapes: Shapes, spans: Iterable[int]) -> Iterator[TensorGrowth]:
    shortest, longest = min(shapes), max(shapes)
    seen = SeenTensor(shortest, prod(shapes[shortest]), longest, prod(shapes[longest]), block_length(shapes), tuple(spans))
    for name, row in GROWTHS.items():
        yield from (TensorGrowth(growth=name, elements=elements, span=span) for elements, span in row.candidates(seen))


def fit_growth(shapes: Shapes, spans: Iterable[int] = ()) -> TensorGrowth | None:
    """The growth that gives the elements of every run, or None.

    Args:
        shapes: shape of the tensor for one sequence by length; an absent tensor has a shape with a zero in it, such as (0,).
        spans: block lengths found in the same layer; remainders and steps are tried with these only.

    Returns:
        The first one, in the order of `GROWTHS`, that explains all runs; None for a tensor that is always empty too.
    """
    counts = {length: prod(shape) for length, shape in shapes.items()}
    if not any(counts.values()):
        return None
    for growth in _possible_growths(shapes, sorted(set(spans))):
        if growth.elements > 0 and all(growth.at(length) == count for length, count in counts.items()):
            return growth
    return None


def _term(kind: str, holds: str, elements: int, growth: Growth = "tokens", span: int = 0, dtype: str = "model") -> CacheTerm:
    """Cache of one layer."""
    return CacheTerm(kind=kind, holds=holds, layers=1, elements=elements, growth=growth, span=span, dtype=dtype)


def _size(config: Any, *names: str) -> int:
    """The first of these settings that is a positive whole number, else 0."""
    for name in names:
        value = getattr(config, name, None)
        if type(value) is int and value > 0:
            return value
    return 0


def _heads(config: Any) -> int:
    """Query heads of the decoder."""
    return _size(config, "num_attention_heads", "n_head")


def _kv_heads(config: Any, kind: str) -> int:
    """Heads of keys and values: stated for this kind, stated for all, one (multi-query), or as many as there are query heads."""
    stated = {"sliding": ("swa_num_key_value_heads",), "full": ("num_global_key_value_heads",)}.get(kind.split("_", maxsplit=1)[0], ())
    nested = getattr(config, "attn_config", None)
    if getattr(config, "new_decoder_architecture", None) is not None:  # Falcon: the field is read in one of its two forms only
        return (_size(config, "num_kv_heads") if config.new_decoder_architecture else int(config.multi_query)) or _heads(config)
    if getattr(config, "multi_query", False) is True:
        return 1
    return _size(config, *stated, "num_key_value_heads") or _size(nested, "kv_n_heads") or _heads(config)


def _head_width(config: Any, kind: str) -> int:
    """Width of one key head."""
    stated = {"sliding": ("swa_head_dim",), "full": ("global_head_dim",)}.get(kind.split("_", maxsplit=1)[0], ())
    width = _size(config, *stated, "attention_head_dim", "head_dim", "d_kv", "kv_channels")
    return width or (_size(config, "hidden_size", "d_model") // _heads(config) if _heads(config) else 0)


def _attention(config: Any, kind: str, window: int = 0) -> Iterator[CacheTerm]:
    """Keys and values of one attention layer; `window` counts the tokens it sees, the present one included (0 = all)."""
    growth: Growth = "window" if window else "tokens"
    span = window - 1 if window else 0
    latent, rope = _size(config, "kv_lora_rank"), _size(config, "qk_rope_head_dim")
    if latent and rope:
        name = "latent attention (MLA)"
        yield _term(name, "latent and rope key", latent + rope, growth, span)
        index = _size(config, "index_head_dim")
        if kind == "indexed_attention" and index:
            yield _term(name, "indexer keys", index, growth, span)
        return
    name = {"chunked_attention": "chunked attention"}.get(kind, "sliding window" if window else "full attention")
    count, width = _kv_heads(config, kind), _head_width(config, kind)
    value = _size(config, "swa_v_head_dim" if window else "v_head_dim", "v_head_dim") or width
    yield _term(name, "keys and values", count * (width + value), growth, span)


def _cross_attention(config: Any, positions: int) -> CacheTerm:
    """Keys and values over the encoder's output; `positions` is their number where it is fixed (0 = as long as the input)."""
    elements = 2 * _heads(config) * _head_width(config, "cross")
    if positions:
        return _term("cross attention", "keys and values", elements * positions, "constant")
    return _term("cross attention", "keys and values", elements, "encoder", 1)


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


def _read_sizes(config: Any, spellings: tuple[tuple[str, ...], ...]) -> tuple[int, ...] | None:
    """The sizes under the first spelling of which every part is stated."""
    for names in spellings:
        sizes = tuple(_size(config, name) for name in names)
        if all(sizes):
            return sizes
    return None


def _states(name: str, channels: int, kernel: int, elements: int) -> Iterator[CacheTerm]:
    """The last inputs of a convolution (channels · kernel) and a recurrent state, which is kept in float32."""
    yield _term("convolution state", "convolution state", channels * kernel, "constant")
    yield _term(name, "recurrent state", elements, "constant", dtype="float32")


def _recurrent(config: Any) -> Iterator[CacheTerm]:
    """States of one linear attention or state space layer; nothing if its sizes are not stated."""
    if delta := _read_sizes(config, _DELTA):
        keys, values, key, value, kernel = delta
        yield from _states("linear attention state", 2 * keys * key + values * value, kernel, values * key * value)
    elif mamba2 := _read_sizes(config, _MAMBA2):
        count, width, groups, state, kernel = mamba2
        yield from _states("state space (Mamba 2) state", count * width + 2 * groups * state, kernel, count * width * state)
    elif mamba1 := _read_sizes(config, _MAMBA1):
        inner, state, kernel = mamba1
        yield from _states("state space (Mamba) state", inner, kernel, inner * state)
    elif _size(config, "mamba_d_state") and _size(config, "mamba_d_conv"):
        inner, state = _size(config, "mamba_expand") * _size(config, "hidden_size"), _size(config, "mamba_d_state")
        yield from _states("state space (Mamba) state", inner, _size(config, "mamba_d_conv"), inner * state)
    elif _size(config, "block_size") and hasattr(config, "linear_attn_alpha_factor"):
        yield _term("linear attention state", "recurrent state", _heads(config) * _head_width(config, "linear") ** 2, "constant")


def _convolution(config: Any) -> Iterator[CacheTerm]:
    """The last inputs of a gated short convolution; nothing if its length is not stated."""
    columns, width = _size(config, "conv_L_cache"), _size(config, "hidden_size")
    if columns and width:
        yield _term("convolution state", "convolution state", width * columns, "constant")


def _compressed_terms(config: Any, kind: str) -> Iterator[CacheTerm]:
    """Entries made of m tokens each, the tokens that do not fill one yet, and what the next one needs of the last."""
    rates = getattr(config, "compress_rates", None)
    block, width, index = (rates or {}).get(kind, 0), _size(config, "head_dim"), _size(config, "index_head_dim")
    if not block or not width:
        return
    yield _term("sliding window", "shared keys and values", width, "window", _size(config, "sliding_window") - 1)
    sparse = kind == "compressed_sparse_attention"
    series = 2 if sparse else 1
    for name, entry in (("entries", width), ("index entries", index if sparse else 0)):
        if entry:
            yield _term("compressed attention", name, entry, "blocks", block)
            yield _term("compressed attention", f"open block of {name}", 2 * series * entry, "remainder", block)
            if sparse:
                yield _term("compressed attention", f"overlap of {name}", 2 * block * entry, "step", block)


_SLIDING = frozenset({"sliding_attention", "chunked_attention", "hybrid_sliding"})
_STATES = frozenset({"linear_attention", "hybrid", "hybrid_sliding"})
_COMPRESSED = frozenset({"compressed_sparse_attention", "heavily_compressed_attention"})
_ATTENTION = frozenset({"full_attention", "indexed_attention", "hybrid"}) | _SLIDING


def _layer_terms(config: Any, kind: str, window: int) -> Iterator[CacheTerm]:
    """Cache of one layer of this kind."""
    if kind in _ATTENTION:
        yield from _attention(config, kind, window if kind in _SLIDING else 0)
    if kind in _STATES:
        yield from _recurrent(config)
    if kind == "conv":
        yield from _convolution(config)
    if kind in _COMPRESSED:
        yield from _compressed_terms(config, kind)


def _layers(config: Any) -> list[tuple[Any, str, int]]:
    """Settings, kind and window of each decoder layer, as `transformers`' cache reads them."""
    from transformers.cache_utils import get_layer_types_and_kwargs  # noqa: PLC0415 loaded when first needed

    indexers = getattr(config, "indexer_types", None) or ()
    kinds, settings = get_layer_types_and_kwargs(config)
    each = config.per_layer_config
    kinds = ["full_attention" if part == "shared" else kind for kind, part in zip(kinds, indexers, strict=True)] if indexers else kinds
    stack = _size(config, "num_decoder_layers") if config.is_encoder_decoder else 0
    skipped = getattr(config, "cross_attention_layers", None) or ()
    layers = [(c, k, int(s.get("sliding_window") or 0)) for c, k, s in zip(each, kinds, settings, strict=False)]
    if stack and len(set(kinds)) == 1:  # T5 counts the decoder apart, in a field that the cache does not read
        layers = layers[:1] * stack
    return [layer for position, layer in enumerate(layers) if position not in skipped]


def derive_terms(config: Any) -> tuple[CacheTerm, ...] | None:
    """The terms of all layers, equal layers counted together; None if a kind or a size is unknown.

    Args:
        config: the normalised configuration of a model that keeps a cache; of a nested one the text decoder's part is read.
    """
    try:
        layers_by_term = _count_layers(config.get_text_config(decoder=True))
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):  # accepted by its class, yet without what a kind needs
        return None
    return tuple(replace(term, layers=layers) for term, layers in layers_by_term.items()) or None


def _count_layers(decoder: Any) -> Counter[CacheTerm]:
    """How many layers hold each term; empty if one layer is unknown."""
    layers_by_term: Counter[CacheTerm] = Counter()
    for settings, kind, window in _layers(decoder):
        terms = tuple(_layer_terms(settings, kind, window))
        if kind != "dummy" and (not terms or any(term.elements < 1 for term in terms)):
            return Counter()
        layers_by_term.update(terms)
        if decoder.is_encoder_decoder and kind != "dummy":
            layers_by_term[_cross_attention(settings, _size(decoder, "max_source_positions") if _size(decoder, "num_mel_bins") else 0)] += 1
    return layers_by_term


def _curve(terms: Iterable[CacheTerm]) -> Counter[tuple[str, int, str]]:
    """Elements by growth, span and dtype: equal for terms that hold equally much at every length."""
    total: Counter[tuple[str, int, str]] = Counter()
    for term in terms:
        one_token = term.growth == "window" and term.span == 1  # min(T, 1) is 1 at every length, which a run shows as constant
        growth = "constant" if one_token else term.growth
        span = term.span if growth not in {"tokens", "constant"} else 0
        total[growth, span, term.dtype] += term.layers * term.elements
    return total


def terms_agree(executed: Iterable[CacheTerm], formed: Iterable[CacheTerm] | None) -> bool:
    """Whether the closed form holds exactly the executed bytes, at every length, batch and dtype."""
    return formed is not None and _curve(executed) == _curve(formed)


def name_terms(executed: tuple[CacheTerm, ...], config: Any) -> tuple[CacheTerm, ...]:
    """The executed terms under the kinds of the closed form, where the two agree; else as they are."""
    formed = derive_terms(config)
    return formed if formed is not None and terms_agree(executed, formed) else executed
