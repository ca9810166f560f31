"""The tensors of a cache: where a cache object keeps them, what they hold, and how each grows with the length of the sequence.

Growth is told from a tensor's shapes at a few lengths. The growths and their n(T) are those of `lib.laws.kv_cache`. A law is accepted
only if it gives the observed number of elements at every length that was run; what no law explains is `None`, never the nearest one.
W − 1 and m are read off the longest run: for T > m² only one m has ⌊T/m⌋ equal to the axis seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import Tensor
from torch.nn import Module
from transformers import PreTrainedConfig

from lib.laws.kv_cache import units
from lib.model.spec import Growth

_DEPTH = 8
_INDEX = re.compile(r"\[(\d+)\]")
_OUTPUT_FIELDS = ("past_key_values", "cache_params", "state", "mems", "past_buckets_states", "memory")
"""Where `transformers` models return what they want back at the next step."""


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

    A stack, not a nested function that calls itself: such a function refers to itself, so everything it collected would stay alive until
    the garbage collector happens to run, and a trace would count old entries of the cache as memory up to that moment.
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
    """What the tensor at `path` of a cache holds: a customary name, else the path's own words ("compressed kv, compressor")."""
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
class Law:
    """`elements` per sequence and per unit of n(T); `span` is W − 1 or m, 0 where the law has none."""

    growth: Growth
    elements: int
    span: int = 0

    def at(self, tokens: int) -> int:
        """Elements held for one sequence of `tokens`."""
        return self.elements * units(self.growth, self.span, tokens)


def _moving_axis(shapes: Shapes) -> int | None:
    """The only axis whose extent differs between the two longest runs, if there is exactly one."""
    first, second = (shapes[length] for length in sorted(shapes)[-2:])
    if len(first) != len(second):
        return None
    axes = [axis for axis, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    return axes[0] if len(axes) == 1 else None


def block_length(shapes: Shapes) -> int:
    """The m for which the longest run holds ⌊T/m⌋ entries along the axis that moves, else 0."""
    axis = _moving_axis(shapes)
    longest = max(shapes)
    return longest // shapes[longest][axis] if axis is not None and shapes[longest][axis] else 0


def _possible_laws(shapes: Shapes, spans: Iterable[int]) -> Iterable[Law]:
    lengths = sorted(shapes)
    shortest, longest = prod(shapes[lengths[0]]), prod(shapes[lengths[-1]])
    per_token = shortest // lengths[0]
    yield Law(growth="constant", elements=longest)
    yield Law(growth="tokens", elements=per_token)
    if per_token:
        yield Law(growth="window", elements=per_token, span=max(1, longest // per_token))
    block = block_length(shapes)
    if block > 1:
        yield Law(growth="blocks", elements=longest // (lengths[-1] // block), span=block)
    for span in spans:
        yield Law(growth="remainder", elements=per_token, span=span)
        yield Law(growth="step", elements=longest, span=span)


def fit_law(shapes: Shapes, spans: Iterable[int] = ()) -> Law | None:
    """The law that gives the elements of every run, or None.

    Args:
        shapes: shape of the tensor for one sequence by length; an absent tensor has a shape with a zero in it, such as (0,).
        spans: block lengths found in the same layer; remainders and steps are tried with these only.

    Returns:
        The first law, in the order of `_possible_laws`, that explains all runs; None for a tensor that is always empty too.
    """
    counts = {length: prod(shape) for length, shape in shapes.items()}
    if not any(counts.values()):
        return None
    for law in _possible_laws(shapes, sorted(set(spans))):
        if law.elements > 0 and all(law.at(length) == count for length, count in counts.items()):
            return law
    return None
