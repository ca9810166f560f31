"""What a module is, as far as its cache goes: whether it is handed one, and which layers are equal.

Nothing here knows an architecture. Two layers are equal if they are of one class with equal sub-modules, equal parameter shapes
and equal settings, their own number aside, and every per-layer list of the configuration has the same entry for both.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from torch.nn import Module, ModuleList

_CACHE_ARGUMENT = re.compile(r"past_key_values?|layer_past|past|cache_params|cache|state|mems|past_buckets_states|past_states")
_NUMBER = re.compile(r"(layer|block|attn|attention)?_?(idx|index|id|number)")


@cache
def _takes_cache(forward: Callable[..., Any]) -> bool:
    return any(_CACHE_ARGUMENT.fullmatch(name) for name in inspect.signature(forward).parameters)


def holds_cache(module: Module) -> bool:
    """Whether the module or one inside it is handed a cache."""
    return any(_takes_cache(type(m).forward) for m in module.modules())


@cache
def returns(forward: Callable[..., Any]) -> int:
    """How many values a `forward` returns: 1, or the length of the tuple it is written to return."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, TypeError, SyntaxError):
        return 1
    lengths = {len(n.value.elts) for n in ast.walk(tree) if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)}
    return max(lengths, default=1)


def stacks(model: Module) -> list[list[Module]]:
    """The lists of layers that hold the cache, outermost first, without lists inside their layers."""
    inner: set[int] = set()
    found: list[list[Module]] = []
    for module in model.modules():
        if (
            isinstance(module, ModuleList)
            and id(module) not in inner
            and any(_takes_cache(type(m).forward) for item in module for m in item.modules())
        ):
            found.append(list(module))
            inner.update(id(m) for item in module for m in item.modules())
    return found


def bystanders(layer: Module) -> Iterator[Module]:
    """The largest modules inside `layer` that hold no cache, torch's own (one operation each) aside."""
    for child in layer.children():
        if holds_cache(child):
            yield from bystanders(child)
        elif not type(child).__module__.startswith("torch.nn") or any(True for _ in child.children()):
            yield child


def plain(value: Any) -> Any:
    """A number, a word, or a tuple of such; Ellipsis for anything else."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        parts = tuple(plain(v) for v in value)
        return ... if ... in parts else parts
    return ...


def likeness(layer: Module) -> tuple[Any, ...]:
    """What the layer computes, as far as its modules say, without its own number."""
    parts: list[Any] = []
    for name, module in layer.named_modules():
        settings = tuple(
            (key, kept)
            for key, value in vars(module).items()
            if key[0] != "_" and not _NUMBER.fullmatch(key) and (kept := plain(value)) is not ...
        )
        shapes = tuple((key, tuple(p.shape), p.dtype) for key, p in module._parameters.items() if p is not None)  # noqa: SLF001 direct ones only
        parts.append((name, type(module), settings, shapes))
    return tuple(parts)


def _carried(modules: Iterable[Module]) -> frozenset[int]:
    """The numbers that these modules carry."""
    settings = ((key, value) for module in modules for key, value in vars(module).items())
    return frozenset(value for key, value in settings if type(value) is int and key[0] != "_" and _NUMBER.fullmatch(key))


def numbers(layer: Module, position: int) -> frozenset[int]:
    """The positions in a cache that the layer writes to.

    The numbers of the innermost modules that are handed the cache (a layer with two attentions writes to two places), else
    those of any module of the layer, else its own position.
    """
    innermost = [m for m in layer.modules() if _takes_cache(type(m).forward) and not any(holds_cache(child) for child in m.children())]
    return _carried(innermost) or _carried(layer.modules()) or frozenset({position})


def listed(config: Any, position: int, layers: int) -> tuple[Any, ...]:
    """The entry of this layer in every per-layer list of the configuration and of its parts."""
    entries: list[Any] = []
    for key, value in sorted(vars(config).items()):
        if isinstance(value, (list, tuple)) and len(value) == layers and list(value) != list(range(layers)):
            entries.append((key, repr(value[position])))
        elif hasattr(value, "to_dict") and hasattr(value, "model_type"):
            entries.append((key, listed(value, position, layers)))
    return tuple(entries)
