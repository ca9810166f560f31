"""One run of a model on the meta device: what is alive at every moment of a prefill and of a decode step.

Running a few layers of a deep model: the first two of each kind work, the others hand their input on.

Two, because the second meets the embeddings and a residual stream that is no longer the embeddings. A stack is a list of modules that
is not inside another one; which of its layers are equal is told by `lib.model.layer_dedup`.

What attention really allocates on a GPU, for a run on the meta device.

There `scaled_dot_product_attention` would fall back to plain matrix products and hold T² scores that no GPU kernel holds. This mode
answers with tensors of the sizes the CUDA kernels take:

    no mask, 16 bits, head width ≤ 256, equal for keys and values    FlashAttention: output, and float32 log-sum-exp per row;
                                                                     widths are padded to multiples of 8
    otherwise                                                        memory-efficient kernel: a boolean mask once more in the
                                                                     compute dtype; output; above width 128 a float32 accumulator

Source: aten/src/ATen/native/transformers of PyTorch 2.13 (attention.cpp, cuda/sdp_utils.cpp, cuda/attention.cu). Limits: cards before
compute capability 8.0, and float32, have no kernel for shared key heads and take scores: there the "eager" trace is nearer.
A softmax from 16 bits to float32 is one kernel on CUDA; on the meta device its input would first be copied. The grouped product of
a mixture's experts allocates its output; its meta function refuses float32, which the CUDA one takes.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, device, empty, float32, long, no_grad, softmax, zeros
from torch import bool as boolean
from torch.nn import Module, ModuleList, functional
from torch.overrides import TorchFunctionMode
from transformers.modeling_outputs import BaseModelOutput

from lib.model.activation_fit import shifted
from lib.model.activation_storages import Ledger, Lengths, Polynomial, plus, prompt, size_law
from lib.model.layer_dedup import likeness, listed, numbers, returned
from lib.model.meta_device import MetaRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from torch.nn import Module

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


_FLASH_WIDTH = 256
_ACCUMULATOR_WIDTH = 128
_PAD = 8
_HALF = 2
_SOFTMAX = frozenset({softmax, Tensor.softmax, functional.softmax})
_GROUPED = frozenset({getattr(torch, "_grouped_mm", None)})
_SDPA = functional.scaled_dot_product_attention


class GpuKernels(TorchFunctionMode):
    """Replaces attention, the mixed softmax and grouped products by allocations of the same size."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer these calls, and run every other as it is."""
        kwargs = kwargs or {}
        if func is _SDPA:
            return attention(*args, **kwargs)
        if func in _SOFTMAX and kwargs.get("dtype") is float32 and args[0].element_size() == _HALF:
            return empty(args[0].shape, dtype=float32, device=args[0].device)
        if func in _GROUPED:
            return empty((*args[0].shape[:-1], args[1].shape[-1]), dtype=args[0].dtype, device=args[0].device)
        return func(*args, **kwargs)


def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
    """Allocate what the fused kernel allocates; returns a tensor like its output, (batch, heads, length, width)."""
    *leading, length, width = query.shape
    wide = value.shape[-1]
    half = query.element_size() == _HALF
    if attn_mask is not None and attn_mask.dtype is boolean:
        attn_mask = empty(attn_mask.shape, dtype=query.dtype, device=query.device)
    if attn_mask is None and half and width == wide <= _FLASH_WIDTH:
        padded = -(-width // _PAD) * _PAD
        copies = [empty((*t.shape[:-1], padded), dtype=t.dtype, device=t.device) for t in (query, key, value) if padded != width]
        sums = empty((*leading, length), dtype=float32, device=query.device)
        out = _output(query, leading, length, padded)
        del copies, sums
        return out[..., :width]
    accumulator = empty((*leading, length, wide), dtype=float32, device=query.device) if half and wide > _ACCUMULATOR_WIDTH else None
    out = _output(query, leading, length, wide)
    del accumulator, attn_mask
    return out


def _output(query: Tensor, leading: list[int], length: int, width: int) -> Tensor:
    """Laid out as (batch, length, heads, width), as the kernels do, so that the transpose after it needs no copy."""
    if not leading:
        return empty((length, width), dtype=query.dtype, device=query.device)
    return empty((*leading[:-1], length, leading[-1], width), dtype=query.dtype, device=query.device).transpose(-3, -2)


_DEPTH = 8


@dataclass(slots=True)
class Trace:
    """Moments of the prefill and of the decode step; sizes of the prefill's tensors in order, as numbers and as laws."""

    moments: list[Polynomial] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    laws: list[Polynomial] = field(default_factory=list)
    operations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A module to run, its layers, and those of them that compute."""

    module: Module
    layers: list[Layer]
    kept: list[Layer]


def run(stage: Stage, lengths: Lengths, *, budget: int, symbolic: bool = True, decode: bool = True) -> Trace:
    """Prefill as `generate` makes it and, where there is a cache and it is asked for, one decode step.

    Args:
        stage: what to run.
        lengths: primes for a run whose moments are laws, any lengths otherwise.
        budget: operations after which the run is given up.
        symbolic: whether moments are to be laws; else they are numbers (constants).
        decode: whether a step follows.

    Raises:
        UnsupportedModel: the budget is spent.
    """
    named = lengths if symbolic else Lengths(1, 1, 1)
    ledger = Ledger([*stage.module.parameters(), *stage.module.buffers()], named, budget)
    with ExitStack() as modes:
        for mode in (few(stage.layers, stage.kept), no_grad(), MetaRun(0), GpuKernels(), device("meta"), ledger):
            modes.enter_context(mode)
        given = prompt(stage.module, lengths)
        out = stage.module(**given)
        logits = getattr(out, "logits", None)
        sampled = logits[:, -1].to(dtype=float32, copy=True) if logits is not None and "use_cache" in given else None
        cache = returned(out) if "use_cache" in given else None
        encoded = getattr(out, "encoder_last_hidden_state", None)
        del out, logits, sampled, given
        trace = Trace(sizes=list(ledger.sizes), laws=list(ledger.laws), operations=ledger.operations)
        pinned = _pinned(ledger, cache, stage.layers, named)
        trace.moments = [plus(moment, pinned) for moment in ledger.moments(without=_entries(ledger, cache))]
        if cache is not None and decode:
            trace.moments += _step(stage.module, ledger, cache, encoded, lengths)
    return trace


def _step(module: Module, ledger: Ledger, cache: object, encoded: Any, lengths: Lengths) -> list[Polynomial]:
    """Moments of one decode step, less the cache as it was before it."""
    config: Any = module.config
    name = "past_key_values" if hasattr(cache, "get_seq_length") or isinstance(cache, tuple) else "cache_params"
    given: dict[str, Any] = {name: cache, "use_cache": True}
    ids = "input_ids"
    if config.is_encoder_decoder:
        ids = "decoder_input_ids"
        given["encoder_outputs"] = BaseModelOutput(last_hidden_state=encoded)
        module(**given, **{ids: zeros(lengths.batch, lengths.tokens, dtype=long)})
    before: Polynomial = {}
    for entry in _entries(ledger, cache):
        before = plus(before, ledger.laws[entry])
    first = len(ledger.sizes)
    out = module(**given, **{ids: zeros(lengths.batch, 1, dtype=long)})
    logits = getattr(out, "logits", None)
    sampled = logits[:, -1].to(dtype=float32, copy=True) if logits is not None else None
    found = ledger.moments(since=first)
    del sampled
    return [shifted(plus(moment, before, -1)) for moment in found]


def tensors_of(cache: object) -> list[Tensor]:
    """The tensors of a cache object, each once, in the order in which it keeps them.

    A stack, not a nested function that calls itself: such a function refers to itself, so everything it collected would stay alive until
    the garbage collector happens to run, and old entries of the cache would count as memory up to that moment.
    """
    tensors: list[Tensor] = []
    visited: set[int] = set()
    stack: list[tuple[Any, int]] = [(cache, 0)]
    while stack:
        value, depth = stack.pop()
        if id(value) in visited or depth > _DEPTH or value is None or isinstance(value, (int, float, str, bool)):
            continue
        visited.add(id(value))
        parts: Iterable[Any] = ()
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, dict):
            parts = value.values()
        elif isinstance(value, (list, tuple)):
            parts = value
        elif hasattr(value, "__dict__") and "config" not in type(value).__name__.lower():
            parts = (vars(value),)
        stack.extend((part, depth + 1) for part in reversed(tuple(parts)))
    return tensors


def _entries(ledger: Ledger, cache: object) -> set[int]:
    found = (ledger.entry(tensor.untyped_storage()) for tensor in tensors_of(cache))
    return {entry for entry in found if entry is not None}


def _pinned(ledger: Ledger, cache: object, layers: list[Layer], lengths: Lengths) -> Polynomial:
    """Storage that cached slices keep alive beyond their own size, over all layers of each kind."""
    twins = Counter(layer.kind for layer in layers)
    by_number = {number: layer for layer in layers for number in layer.numbers}
    counted: set[tuple[int, int]] = set()
    total: Polynomial = {}
    items = getattr(cache, "layers", None)
    for number, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        owner = by_number.get(number)
        kind = owner.kind if owner else -number - 1
        for position, tensor in enumerate(tensors_of(item)):
            entry = ledger.entry(tensor.untyped_storage())
            if entry is None or (kind, position) in counted:
                continue
            counted.add((kind, position))
            count = twins[kind] if owner else 1
            total = plus(total, plus(ledger.laws[entry], size_law(tensor, lengths), -1), count)
    return total
