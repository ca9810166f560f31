"""The tensors of a cache, whatever class holds it: floating-point tensors by path, each object once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import Module
from transformers import PreTrainedConfig

_DEPTH = 8
_INDEX = re.compile(r"\[(\d+)\]")
_FIELDS = ("past_key_values", "cache_params", "state", "mems", "past_buckets_states", "memory")
"""Where `transformers` models return what they want back at the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One cached tensor: its path in the cache ("layers[3].keys"), its shape, and its dtype as torch spells it ("bfloat16")."""

    path: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def index(self) -> int | None:
        """Position in the cache's list of layers; None for a tensor outside any list, or in one that is only a list of tensors."""
        found = _INDEX.search(self.path)
        return int(found[1]) if found and found[0] != self.path else None

    @property
    def name(self) -> str:
        """The path without the layer: the same for equal tensors of different layers."""
        return _INDEX.sub("[]", self.path, count=1)


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", child) for i, child in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((f"[{key}]" if type(key) is int else f".{key}", child) for key, child in value.items())
    elif hasattr(value, "__dict__") and not isinstance(value, (Module, PreTrainedConfig, type)):
        yield from ((f".{key}", child) for key, child in vars(value).items())


def leaves(cache: object) -> tuple[Leaf, ...]:
    """Every floating-point tensor reachable from `cache`, in the order in which the cache keeps them.

    Integer tensors are bookkeeping and are left out. Two names of one tensor object are one tensor: the memory is held once.
    """
    seen: set[int] = set()
    found: list[Leaf] = []

    def visit(path: str, value: Any, depth: int) -> None:
        if id(value) in seen or depth > _DEPTH or value is None or isinstance(value, (int, float, str)):
            return
        seen.add(id(value))
        if isinstance(value, Tensor):
            if value.is_floating_point():
                found.append(Leaf(path=path.lstrip("."), shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch.")))
            return
        for step, child in _children(value):
            visit(path + step, child, depth + 1)

    visit("", cache, 0)
    return tuple(found)


def returned(output: Any) -> object | None:
    """What a model's output carries for the next step: the value of the first field that is one, None without any."""
    for name in _FIELDS:
        value = getattr(output, name, None)
        if value is not None:
            return value  # type: ignore[no-any-return]
    return None


def shape_of(value: object) -> tuple[int, ...] | None:
    """The shape of a tensor, None for anything else."""
    return tuple(value.shape) if isinstance(value, Tensor) else None


def first_tensor(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The first tensor with a batch, a length and a width among the arguments of a layer: its hidden states."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.ndim >= 3:  # noqa: PLR2004 batch, length, width
            return value
    return None
