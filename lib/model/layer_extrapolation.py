"""Bytes, FLOP and operations of a deep model of which few layers compute.

The first two layers of each kind compute, the last one, and the one before that, some of whose tensors are alive while the last one
computes (`lib.model.activation_trace.run_only` says which layers are equal). A layer that stands aside holds as many bytes as the second of
its kind came to hold: cache, what it saved for the backward pass and, after that, its gradients. So peaks are those of the full depth;
FLOP and operations are added for each.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, float32, nn, ops
from torch.utils.flop_counter import flop_registry
from transformers.integrations import moe
from transformers.pytorch_utils import Conv1D

from lib.model.activation_storages import StorageCounter
from lib.model.activation_trace import Layer, run_only, select_layers
from lib.model.dry_run_result import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

assert moe, "imported because it registers the products of experts"  # noqa: S101 or the import would seem unused


def _grouped_flop(rows: Any, weight: Any, *_: Any, **__: Any) -> int:
    """A product of each row with the matrix of its expert."""
    return int(2 * rows.numel() * weight.shape[-1])


def _grouped_backward_flop(rows: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 2 * _grouped_flop(rows, weight)


_FURTHER: dict[Any, Callable[..., int]] = {
    ops.aten._grouped_mm: _grouped_flop,  # noqa: SLF001 it has no public name
    ops.transformers.grouped_mm_fallback: _grouped_flop,
    ops.transformers.grouped_mm_fallback_backward: _grouped_backward_flop,
}
"""Products that `flop_registry` does not know."""


class RunCounter(StorageCounter):  # type: ignore[no-untyped-call]
    """Counts FLOP beside bytes and operations."""

    def __init__(self, known: Sequence[Tensor], budget: int) -> None:
        super().__init__(known, budget)
        self.flop = 0
        self.further_operations = 0
        """Of layers that stand aside."""

    def _result(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = super()._result(func, args, kwargs)
        formula = flop_registry.get(func._overloadpacket) or _FURTHER.get(func._overloadpacket)  # noqa: SLF001 torch's own counter does so
        if formula is not None:
            self.flop += formula(*args, **kwargs, out_val=result)
        return result

    def _spent(self) -> str:
        return (
            f"A few layers of this architecture take more than {self._budget:,} operations at this length, as those that compute token by "
            "token do. Ask for a shorter prompt; the closed forms of the estimate answer at every length."
        )

    def begin(self) -> Reading:
        """Start another phase: its peak is counted from what is alive now."""
        self.peak_bytes = self.live_bytes
        return self.read()

    def read(self) -> Reading:
        """The counts as they are."""
        return Reading(self.live_bytes, self.flop, self.operations + self.further_operations)

    def phase(self, since: Reading) -> Phase:
        """What there was since a reading that `begin` gave."""
        now = self.read()
        return Phase(peak_bytes=self.peak_bytes, flop=now.flop - since.flop, operations=now.operations - since.operations)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was counted up to a moment."""

    live_bytes: int
    flop: int
    operations: int


@dataclass(slots=True)
class KindShare:
    """What the layers of one kind come to hold and do in one pass, as the second of them showed."""

    held_bytes: int = 0
    flop: int = 0
    operations: int = 0
    backward_flop: int = 0
    backward_operations: int = 0


@dataclass(slots=True, kw_only=True)
class Depth:
    """Lets idle layers count: watches the ones that compute, and holds bytes for the others.

    `phase` names the pass that is under way; in a backward pass layers are called again where they recompute, which is no new pass.
    """

    counter: RunCounter
    working: frozenset[int]
    training: bool
    phase: str = ""
    kinds: dict[tuple[int, str], KindShare] = field(default_factory=dict)
    stand_ins: dict[int, tuple[Layer, Tensor]] = field(default_factory=dict)
    passed_back: list[KindShare] = field(default_factory=list)
    entered: tuple[KindShare, int] | None = None

    def _enter(self) -> Reading:
        """The counts as a layer begins; the one before it came to hold what is alive now and was not when it began."""
        now = self.counter.read()
        if self.entered is not None:
            kind, before = self.entered
            kind.held_bytes = now.live_bytes - before
        self.entered = None
        return now

    def watch(self, layer: Layer, compute: Callable[..., Any]) -> Callable[..., Any]:
        """The layer's forward, with what it does noted."""

        def forward(*args: Any, **kwargs: Any) -> Any:
            if self.phase == "backward":
                return compute(*args, **kwargs)
            before = self._enter()
            kind = self.kinds.setdefault((layer.kind, self.phase), KindShare())
            self.entered = kind, before.live_bytes
            output = compute(*args, **kwargs)
            first = output[0] if isinstance(output, tuple) and output else output
            after = self.counter.read()
            kind.flop, kind.operations = after.flop - before.flop, after.operations - before.operations
            if self.training and isinstance(first, Tensor) and first.requires_grad:
                self._watch_backward(kind, first, args, kwargs)
            return output

        return forward

    def _watch_backward(self, kind: KindShare, output: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        start: list[Reading] = []
        hidden = next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor) and v.shape == output.shape and v.requires_grad), None)

        def begun(_: Tensor) -> None:
            start[:] = [self.counter.read()]

        def ended(_: Tensor) -> None:
            if start:
                now = self.counter.read()
                kind.backward_flop, kind.backward_operations = now.flop - start[0].flop, now.operations - start[0].operations

        output.register_hook(begun)  # type: ignore[no-untyped-call]
        if hidden is not None:
            hidden.register_hook(ended)  # type: ignore[no-untyped-call]

    def stand_aside(self, layer: Layer, hidden: Tensor) -> Tensor:
        """Hold and count for a layer that hands its input on."""
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
        """So many bytes more, or fewer, for a layer that stands aside."""
        before = self.stand_ins.pop(id(layer), None)
        size = max(0, more_bytes + (0 if before is None else before[1].nbytes))
        del before
        self.stand_ins[id(layer)] = layer, torch.empty(size, dtype=torch.uint8)

    def _backward(self, layer: Layer, kind: KindShare) -> None:
        """The gradient passes a layer that stands aside: what it saved goes, gradients of its own appear."""
        self.stand_ins.pop(id(layer), None)
        self.passed_back.append(kind)
        before = self.counter.operations
        for parameter in layer.module.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
        self.counter.further_operations -= self.counter.operations - before

    def let_casts_go(self) -> None:
        """Autocast keeps 16-bit copies of trained weights until it ends; where layers recompute, nothing else holds them."""
        for layer, _ in list(self.stand_ins.values()):
            matrices = (m.weight for m in layer.module.modules() if isinstance(m, (nn.Linear, Conv1D)))
            casts = sum(w.numel() * torch.bfloat16.itemsize for w in matrices if w.requires_grad and w.dtype is float32)
            self._hold(layer, -casts)

    def count_backward(self) -> None:
        """Count for the layers that the gradient passed; what one of their kind does is known after the whole pass."""
        self.counter.flop += sum(kind.backward_flop for kind in self.passed_back)
        self.counter.further_operations += sum(kind.backward_operations for kind in self.passed_back)


@contextlib.contextmanager
def at_full_depth(layers: list[Layer], counter: RunCounter, *, training: bool, whole: bool) -> Iterator[Depth]:
    """The model's layers wrapped: few of them compute, unless the `whole` model is to."""
    last = {layer.kind: place for place, layer in enumerate(layers)}
    at_the_end = {place for end in last.values() for place in (end - 1, end)}
    first = select_layers(layers)
    chosen = layers if whole else [layer for place, layer in enumerate(layers) if place in at_the_end or layer in first]
    depth = Depth(counter=counter, working=frozenset(map(id, chosen)), training=training)
    with run_only(layers, chosen, watch=depth.watch, aside=depth.stand_aside):
        yield depth
