"""Running a few layers of a deep model: the first two of each kind work, the others hand their input on.

Two, because the second meets the embeddings and a residual stream that is no longer the embeddings. Which layers are equal is told by
`lib.model.pass_through`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lib.model.cache_leaves import first_tensor
from lib.model.pass_through import Layer, arrange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch.nn import Module

_WORKING = 2
Template = list[int | str | None]
"""For each returned value: the argument that is handed on in its place (-1: the hidden states), None for nothing."""


def kinds(module: Module) -> list[Layer]:
    """The layers of the module's stacks, each with the first layer equal to it."""
    return arrange(module, module.config)


def working(layers: list[Layer]) -> list[Layer]:
    """The first two layers of each kind, and those whose kind is not known."""
    count: Counter[int] = Counter()
    kept = []
    for layer in layers:
        count[id(layer.first)] += 1
        if layer.twin is None or count[id(layer.first)] <= _WORKING:
            kept.append(layer)
    return kept


def _template(made: Any, hidden: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Template | None:
    """How a layer's output follows from its input when nothing is computed; None for a bare tensor."""
    if not isinstance(made, tuple):
        return None
    template: Template = []
    for value in made:
        source: int | str | None = None
        if value is not None:
            source = next((i for i, a in enumerate(args) if a is value), None)
            source = source if source is not None else next((k for k, a in kwargs.items() if a is value), None)
            if source is None and getattr(value, "shape", None) == hidden.shape and -1 not in template:
                source = -1
        template.append(source)
    return template


def _handed_on(template: Template | None, hidden: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if template is None:
        return hidden

    def value(source: int | str | None) -> Any:
        if source is None:
            return None
        if isinstance(source, str):
            return kwargs.get(source)
        return hidden if source == -1 else args[source]

    return tuple(value(source) for source in template)


@contextmanager
def few(layers: list[Layer]) -> Iterator[None]:
    """Let only the working layers compute while this lasts; every `forward` is put back."""
    templates: dict[int, Template | None] = {}
    kept = {id(layer) for layer in working(layers)}
    saved: list[tuple[Module, dict[str, Any]]] = []

    def replace(layer: Layer, run: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            hidden = first_tensor(args, kwargs)
            kind = id(layer.first)
            if id(layer) in kept or kind not in templates or hidden is None:
                made = run(*args, **kwargs)
                if hidden is not None:
                    templates[kind] = _template(made, hidden, args, kwargs)
                return made
            return _handed_on(templates[kind], hidden, args, kwargs)

        return forward

    try:
        for layer in layers:
            saved.append((layer.module, {k: v for k, v in vars(layer.module).items() if k == "forward"}))
            layer.module.forward = replace(layer, layer.module.forward)  # type: ignore[method-assign]
        yield
    finally:
        for module, before in reversed(saved):
            vars(module).pop("forward", None)
            vars(module).update(before)
