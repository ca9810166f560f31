"""Running a few layers of a deep model: the first two of each kind work, the others hand their input on.

Two, because the second meets the embeddings and a residual stream that is no longer the embeddings. A stack is a list of modules that
is not inside another one; which of its layers are equal is told by `lib.model.likeness`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import Module, ModuleList

from lib.model.likeness import likeness, listed, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_WORKING = 2
_NDIM = 3
_HIDDEN = -1
Template = list[int | str | None] | None
"""For each returned value the argument handed on in its place (-1: the hidden states), None for nothing; None for a bare tensor."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One layer of a stack: `kind` is shared by equal layers, `numbers` are its places in a cache."""

    module: Module
    kind: int
    numbers: frozenset[int]


def layers_of(model: Module) -> list[Layer]:
    """The layers of all stacks, in the model's own order."""
    inner: set[int] = set()
    found: list[Layer] = []
    config: Any = getattr(model, "config", None)
    for module in model.modules():
        if not isinstance(module, ModuleList) or id(module) in inner:
            continue
        inner.update(id(m) for item in module for m in item.modules())
        repeated = len({id(item) for item in module}) < len(module)
        kinds: dict[Any, int] = {}
        for position, item in enumerate(module):
            looks: Any = position if repeated else (likeness(item), listed(config, position, len(module)))
            kind = kinds.setdefault(looks, len(found) + position + 1)
            found.append(Layer(module=item, kind=kind, numbers=numbers(item, position)))
    return found


def working(layers: list[Layer], *, prefix: bool = False) -> list[Layer]:
    """The first two layers of each kind; with `prefix` also all before the last of them."""
    count: Counter[int] = Counter()
    last = 0
    kept = []
    for position, layer in enumerate(layers):
        count[layer.kind] += 1
        if count[layer.kind] <= _WORKING:
            kept.append(layer)
            last = position
    return layers[: last + 1] if prefix else kept


def _hidden(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    """The first tensor with a batch, a length and a width among a layer's arguments."""
    return next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) and v.ndim >= _NDIM), None)


def _source(value: Any, hidden: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | str | None:
    if value is None:
        return None
    for position, given in enumerate(args):
        if given is value:
            return position
    for name, given in kwargs.items():
        if given is value:
            return name
    return _HIDDEN if getattr(value, "shape", None) == hidden.shape else None


def _handed_on(template: Template, hidden: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if template is None:
        return hidden
    return tuple(
        None if source is None else kwargs.get(source) if isinstance(source, str) else hidden if source == _HIDDEN else args[source]
        for source in template
    )


@contextmanager
def few(layers: list[Layer], kept: list[Layer]) -> Iterator[None]:
    """Let only some layers compute while this lasts; every `forward` is put back.

    A layer whose output has not the shape of its input is never skipped.
    """
    templates: dict[int, Template] = {}
    working_ones = {id(layer) for layer in kept}
    saved: list[tuple[Module, dict[str, Any]]] = []

    def replace(layer: Layer, run: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            hidden = _hidden(args, kwargs)
            if hidden is not None and id(layer) not in working_ones and layer.kind in templates:
                return _handed_on(templates[layer.kind], hidden, args, kwargs)
            made = run(*args, **kwargs)
            first = made[0] if isinstance(made, tuple) and made else made
            if hidden is not None and getattr(first, "shape", None) == hidden.shape:
                templates[layer.kind] = [_source(v, hidden, args, kwargs) for v in made] if isinstance(made, tuple) else None
            return made

        return forward

    try:
        for layer in layers:
            saved.append((layer.module, {k: v for k, v in vars(layer.module).items() if k == "forward"}))
            layer.module.forward = replace(layer, layer.module.forward)
        yield
    finally:
        for module, before in reversed(saved):
            vars(module).pop("forward", None)
            vars(module).update(before)
