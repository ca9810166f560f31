"""Runs a few layers of a deep model, and counts bytes, FLOP and operations as if all its layers ran.

The first two layers of each kind run. Two, because the input of the second is a residual stream and no longer the embeddings.
`lib.model.layer_dedup` decides which layers are of one kind. The other layers are skipped: they return their input (`run_only`). A model
that keeps the hidden states of all layers (DeBERTa) needs a tensor for each skipped one, which `aside` can return.

In a dry run the last layer of each kind runs too, and the layer before it, some of whose tensors are alive while the last one runs. For a
skipped layer as many bytes are allocated as the second layer of its kind holds: its cache, the tensors saved for the backward pass and,
after that, its gradients. So peaks are those of the full depth. FLOP and operations are added for each skipped layer.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, float32, nn, ops
from torch.nn import Module, ModuleList
from torch.utils.flop_counter import flop_registry
from transformers.integrations import moe  # noqa: F401 it registers the products of experts
from transformers.pytorch_utils import Conv1D

from lib.model.allocations import MemoryTracker
from lib.model.dry_run_figures import Phase
from lib.model.layer_dedup import cache_positions, first_hidden_states, layer_settings, likeness, wrap_forwards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_WORKING = 2
_HIDDEN = -1
Template = list[int | str | None] | None
"""How a skipped layer builds its return value: for each returned item the argument to return (-1: the hidden states), or None for no item.
None instead of a list: the layer returns the hidden states as a bare tensor."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One layer of a stack: `kind` is shared by equal layers, `positions` are its places in a cache."""

    module: Module
    kind: int
    positions: frozenset[int]


def layers_of(model: Module) -> list[Layer]:
    """The layers of all stacks (lists of modules that are not inside a layer of another one), in the model's own order."""
    inner: set[int] = set()
    layers: list[Layer] = []
    config: Any = getattr(model, "config", None)
    for module in model.modules():
        if not isinstance(module, ModuleList) or id(module) in inner:
            continue
        inner.update(id(m) for item in module for m in item.modules())
        repeated = len({id(item) for item in module}) < len(module)
        kinds: dict[Any, int] = {}
        for position, item in enumerate(module):
            traits: Any = position if repeated else (likeness(item), layer_settings(config, position, len(module)))
            kind = kinds.setdefault(traits, len(layers) + 1)  # unlike that of any other stack
            layers.append(Layer(module=item, kind=kind, positions=cache_positions(item, position)))
    return layers


def select_layers(layers: list[Layer], *, prefix: bool = False) -> list[Layer]:
    """The first two layers of each kind; with `prefix` also all before the last of them."""
    count: Counter[int] = Counter()
    last = 0
    working = []
    for position, layer in enumerate(layers):
        count[layer.kind] += 1
        if count[layer.kind] <= _WORKING:
            working.append(layer)
            last = position
    return layers[: last + 1] if prefix else working


def _source(value: Any, hidden: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | str | None:
    """The argument that a layer returned as `value`: its position or name, -1 for one shaped like the hidden states, None for others."""
    if value is None:
        return None
    arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for key, argument in arguments:
        if argument is value:
            return key
    return _HIDDEN if getattr(value, "shape", None) == hidden.shape else None


def _hand_on(template: Template, hidden: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return value of a skipped layer, built from its arguments as `template` says."""
    if template is None:
        return hidden
    return tuple(
        None if source is None else kwargs.get(source) if isinstance(source, str) else hidden if source == _HIDDEN else args[source]
        for source in template
    )


@contextmanager
def run_only(
    layers: list[Layer],
    working: list[Layer],
    *,
    watch: Callable[[Layer, Callable[..., Any]], Callable[..., Any]] | None = None,
    aside: Callable[[Layer, Tensor], Tensor] | None = None,
) -> Iterator[None]:
    """Let only the `working` ones of the layers compute while this lasts; every `forward` is put back.

    A layer whose output and input differ in shape is never skipped. `watch` wraps the forward of each layer. `aside` is called for each
    skipped layer; it gets the hidden states and returns the tensor that the layer returns in their place.
    """
    templates: dict[int, Template] = {}
    working_ids = {id(layer) for layer in working}

    def replace(layer: Layer, compute: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            hidden = first_hidden_states(args, kwargs)
            if hidden is not None and id(layer) not in working_ids and layer.kind in templates:
                return _hand_on(templates[layer.kind], hidden if aside is None else aside(layer, hidden), args, kwargs)
            output = compute(*args, **kwargs)
            first = output[0] if isinstance(output, tuple) and output else output
            if hidden is not None and getattr(first, "shape", None) == hidden.shape:
                templates[layer.kind] = [_source(v, hidden, args, kwargs) for v in output] if isinstance(output, tuple) else None
            return output

        return forward

    with wrap_forwards() as wrap:
        for layer in layers:
            forward = layer.module.forward
            wrap(layer.module, replace(layer, watch(layer, forward) if watch is not None else forward))
        yield


def _grouped_flop(rows: Any, weight: Any, *_: Any, **__: Any) -> int:
    """A product of each row with the matrix of its expert."""
    return int(2 * rows.numel() * weight.shape[-1])


def _grouped_backward_flop(rows: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 2 * _grouped_flop(rows, weight)


def _attention_flop(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Scores and weighted sums. Key and value may have fewer heads than the query: the kernel repeats them."""
    batch, heads, queries, width = query.shape
    return int(2 * batch * heads * queries * key.shape[-2] * (width + value.shape[-1]))


def _attention_backward_flop(_gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Scores computed again, then the gradients of scores, value, query and key."""
    batch, heads, queries, width = query.shape
    return int(2 * batch * heads * queries * key.shape[-2] * (3 * width + 2 * value.shape[-1]))


_ATTENTION = ("flash", "efficient", "cudnn")
_OWN: dict[Any, Callable[..., int]] = {
    **{getattr(ops.aten, f"_scaled_dot_product_{kernel}_attention"): _attention_flop for kernel in _ATTENTION},
    **{getattr(ops.aten, f"_scaled_dot_product_{kernel}_attention_backward"): _attention_backward_flop for kernel in _ATTENTION},
    ops.aten._grouped_mm: _grouped_flop,  # noqa: SLF001 it has no public name
    ops.transformers.grouped_mm_fallback: _grouped_flop,
    ops.transformers.grouped_mm_fallback_backward: _grouped_backward_flop,
}
"""Products that `flop_registry` does not know, and attention: up to torch 2.11 its formula refuses heads that share a key."""


class RunCounter(MemoryTracker):  # type: ignore[no-untyped-call]
    """Counts FLOP, bytes and operations."""

    def __init__(self, existing: Sequence[Tensor], budget: int) -> None:
        super().__init__(existing, budget)
        self.flop = 0
        self.further_operations = 0
        """Operations of skipped layers."""

    def _result(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = super()._result(func, args, kwargs)
        formula = _OWN.get(func._overloadpacket) or flop_registry.get(func._overloadpacket)  # noqa: SLF001 torch's own counter does so
        if formula is not None:
            self.flop += formula(*args, **kwargs, out_val=result)
        return result

    def _budget_refusal(self) -> str:
        return (
            f"A few layers of this architecture take more than {self._budget:,} operations at this length, as those that compute token by "
            "token do. Ask for a shorter prompt; the closed forms of the estimate answer at every length."
        )

    def begin(self) -> CounterSnapshot:
        """Start another phase: its peak is counted from the bytes alive now."""
        self.peak_bytes = self.live_bytes
        return self.read()

    def read(self) -> CounterSnapshot:
        """The counts as they are."""
        return CounterSnapshot(self.live_bytes, self.flop, self.operations + self.further_operations)

    def phase(self, since: CounterSnapshot) -> Phase:
        """The counts since a reading that `begin` gave."""
        now = self.read()
        return Phase(peak_bytes=self.peak_bytes, flop=now.flop - since.flop, operations=now.operations - since.operations)


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """Counts up to a moment."""

    live_bytes: int
    flop: int
    operations: int


@dataclass(slots=True)
class PerLayerCost:
    """Bytes and work of the layers of one kind in one pass, as the second of them showed."""

    held_bytes: int = 0
    flop: int = 0
    operations: int = 0
    backward_flop: int = 0
    backward_operations: int = 0


@dataclass(slots=True, kw_only=True)
class LayerSkipper:
    """Measures the layers that run, and allocates bytes and counts FLOP for the skipped ones.

    `phase` names the current pass. In a backward pass, layers that recompute are called again; these calls are not counted as a new pass.
    `kinds` are the costs by kind of layer and phase. `stand_ins` are the tensors that hold the bytes of skipped layers. `passed_back` are
    the skipped layers that the gradient has passed. `entered` is the layer that runs, with the bytes alive when it began.
    """

    counter: RunCounter
    working: frozenset[int]
    training: bool
    phase: str = ""
    kinds: dict[tuple[int, str], PerLayerCost] = field(default_factory=dict)
    stand_ins: dict[int, tuple[Layer, Tensor]] = field(default_factory=dict)
    passed_back: list[PerLayerCost] = field(default_factory=list)
    entered: tuple[PerLayerCost, int] | None = None

    def _enter(self) -> CounterSnapshot:
        """The counts as a layer begins. The bytes that the previous layer keeps are those added since it began."""
        now = self.counter.read()
        if self.entered is not None:
            kind, before = self.entered
            kind.held_bytes = now.live_bytes - before
        self.entered = None
        return now

    def watch(self, layer: Layer, compute: Callable[..., Any]) -> Callable[..., Any]:
        """The layer's forward, which records its bytes, FLOP and operations."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            if self.phase == "backward":
                return compute(*args, **kwargs)
            before = self._enter()
            kind = self.kinds.setdefault((layer.kind, self.phase), PerLayerCost())
            self.entered = kind, before.live_bytes
            output = compute(*args, **kwargs)
            first = output[0] if isinstance(output, tuple) and output else output
            after = self.counter.read()
            kind.flop, kind.operations = after.flop - before.flop, after.operations - before.operations
            if self.training and isinstance(first, Tensor) and first.requires_grad:
                self._watch_backward(kind, first, args, kwargs)
            return output

        return forward

    def _watch_backward(self, kind: PerLayerCost, output: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        start: list[CounterSnapshot] = []
        hidden = next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) and v.shape == output.shape and v.requires_grad), None)

        def note_start(_: Tensor) -> None:
            start[:] = [self.counter.read()]

        def note_end(_: Tensor) -> None:
            if start:
                now = self.counter.read()
                kind.backward_flop, kind.backward_operations = now.flop - start[0].flop, now.operations - start[0].operations

        output.register_hook(note_start)  # type: ignore[no-untyped-call]
        if hidden is not None:
            hidden.register_hook(note_end)  # type: ignore[no-untyped-call]

    def stand_aside(self, layer: Layer, hidden: Tensor) -> Tensor:
        """Allocate the bytes of a skipped layer, count its FLOP and operations, and return its input."""
        if self.phase == "backward":
            return hidden
        self._enter()
        kind = self.kinds[layer.kind, self.phase]
        self._hold(layer, kind.held_bytes)
        self.counter.flop += kind.flop
        self.counter.further_operations += kind.operations - 1
        if self.training and hidden.requires_grad:
            hidden.register_hook(lambda _: self._backward(layer, kind))  # type: ignore[no-untyped-call]
        return hidden

    def _hold(self, layer: Layer, more_bytes: int) -> None:
        """Allocate `more_bytes` (or free them, if negative) for a skipped layer."""
        before = self.stand_ins.pop(id(layer), None)
        size = max(0, more_bytes + (0 if before is None else before[1].nbytes))
        del before
        self.stand_ins[id(layer)] = layer, torch.empty(size, dtype=torch.uint8)

    def _backward(self, layer: Layer, kind: PerLayerCost) -> None:
        """The gradient passes a skipped layer: its saved tensors are freed, and its parameters get gradients."""
        self.stand_ins.pop(id(layer), None)
        self.passed_back.append(kind)
        before = self.counter.operations
        for parameter in layer.module.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
        self.counter.further_operations -= self.counter.operations - before

    def let_casts_go(self) -> None:
        """Free the 16-bit copies of trained weights of skipped layers. With recomputation only autocast holds them, and it has ended."""
        for layer, _ in list(self.stand_ins.values()):
            matrices = (m.weight for m in layer.module.modules() if isinstance(m, (nn.Linear, Conv1D)))
            casts = sum(w.numel() * torch.bfloat16.itemsize for w in matrices if w.requires_grad and w.dtype is float32)
            self._hold(layer, -casts)

    def count_backward(self) -> None:
        """Add the work of skipped layers that the gradient passed. The work of their kind is known only after the whole pass."""
        self.counter.flop += sum(kind.backward_flop for kind in self.passed_back)
        self.counter.further_operations += sum(kind.backward_operations for kind in self.passed_back)


@contextmanager
def at_full_depth(layers: list[Layer], counter: RunCounter, *, training: bool, whole: bool) -> Iterator[LayerSkipper]:
    """The model's layers, wrapped: a few of them run, or all if `whole`."""
    last = {layer.kind: place for place, layer in enumerate(layers)}
    at_the_end = {place for end in last.values() for place in (end - 1, end)}
    first = select_layers(layers)
    chosen = layers if whole else [layer for place, layer in enumerate(layers) if place in at_the_end or layer in first]
    depth = LayerSkipper(counter=counter, working=frozenset(map(id, chosen)), training=training)
    with run_only(layers, chosen, watch=depth.watch, aside=depth.stand_aside):
        yield depth
