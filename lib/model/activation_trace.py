"""One run of a model on the meta device: the storages alive at every moment of a prefill and of a decode step.

Three things make the run cheap and true to a GPU:

* Of a deep model the first two layers of each kind compute and the others hand their input on. Two, because the second meets a residual
  stream that no longer is the embeddings. Layers are equal as `lib.model.layer_dedup` tells. What an
  idle layer hands on is a tensor of its own: a model that keeps those of all layers (DeBERTa) holds them while the last one computes.
* Attention allocates what the CUDA kernels allocate. On the meta device `scaled_dot_product_attention` would fall back to plain matrix
  products and hold T² scores that no GPU kernel holds:

      no mask, 16 bits, head width ≤ 256, equal for keys and values    FlashAttention: output, and float32 log-sum-exp per row;
                                                                       widths are padded to multiples of 8
      otherwise                                                        memory-efficient kernel: a boolean mask once more in the
                                                                       compute dtype; output; above width 128 a float32 accumulator

* A softmax from 16 bits to float32 is one kernel on CUDA (on the meta device its input would first be copied), and the grouped product
  of a mixture's experts allocates its output (its meta function refuses float32, which the CUDA one takes).

Source: aten/src/ATen/native/transformers of PyTorch 2.13 (attention.cpp, cuda/sdp_utils.cpp, cuda/attention.cu). Limits: cards before
compute capability 8.0, and float32, have no kernel for shared key heads and take scores: there the "eager" trace is nearer.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, device, empty, empty_like, float32, long, no_grad, softmax, zeros
from torch import bool as boolean
from torch.nn import Module, ModuleList, functional
from torch.overrides import TorchFunctionMode
from transformers.modeling_outputs import BaseModelOutput

from lib.model.activation_storages import Polynomial, StorageRecorder, add, shift_by_token, size_law
from lib.model.cache_terms import cache_of, tensors_of
from lib.model.layer_dedup import cache_positions, first_hidden_states, layer_settings, likeness, wrap_forwards
from lib.model.meta_device import MetaRun
from lib.model.model_inputs import Lengths, has_argument, prefill_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch.nn import Module

_WORKING = 2
_HIDDEN = -1
Template = list[int | str | None] | None
"""For each returned value the argument handed on in its place (-1: the hidden states), None for nothing; None for a bare tensor."""


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
    """The place of the argument that a layer returned as `value`; -1 for one shaped like the hidden states, None for another."""
    if value is None:
        return None
    arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for key, argument in arguments:
        if argument is value:
            return key
    return _HIDDEN if getattr(value, "shape", None) == hidden.shape else None


def _hand_on(template: Template, hidden: Tensor, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What an idle layer returns: its arguments in the places where a working layer of its kind returned them."""
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

    A layer whose output has not the shape of its input is never skipped. `watch` wraps the forward of each, `aside` is told of a layer that
    hands its hidden states on, and says which tensor it hands on in their place.
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


_FLASH_WIDTH = 256
_ACCUMULATOR_WIDTH = 128
_PAD = 8
_HALF = 2
_SOFTMAX = frozenset({softmax, Tensor.softmax, functional.softmax})
_GROUPED = frozenset({getattr(torch, "_grouped_mm", None)})
_SDPA = functional.scaled_dot_product_attention


def widens_in_softmax(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether this is a softmax from 16 bits to float32, one kernel on CUDA."""
    return func in _SOFTMAX and kwargs.get("dtype") is float32 and args[0].element_size() == _HALF


def takes_flash(query: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether attention of these runs in FlashAttention on CUDA; else in the memory-efficient kernel."""
    return mask is None and query.element_size() == _HALF and query.shape[-1] == value.shape[-1] <= _FLASH_WIDTH


def pad_width(width: int) -> int:
    """The width of a head as FlashAttention takes it."""
    return -(-width // _PAD) * _PAD


class GpuKernels(TorchFunctionMode):
    """Replaces attention, the mixed softmax and grouped products by allocations of the same size."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer these calls, and run every other as it is."""
        kwargs = kwargs or {}
        if func is _SDPA:
            return _allocate_attention(*args, **kwargs)
        if widens_in_softmax(func, args, kwargs):
            return empty(args[0].shape, dtype=float32, device=args[0].device)
        if func in _GROUPED:
            return empty((*args[0].shape[:-1], args[1].shape[-1]), dtype=args[0].dtype, device=args[0].device)
        return func(*args, **kwargs)


def _allocate_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
    """Allocate what the fused kernel allocates; returns a tensor like its output, (batch, heads, length, width)."""
    *leading, length, width = query.shape
    wide = value.shape[-1]
    half = query.element_size() == _HALF
    if attn_mask is not None and attn_mask.dtype is boolean:
        attn_mask = empty(attn_mask.shape, dtype=query.dtype, device=query.device)
    if takes_flash(query, value, attn_mask):
        padded = pad_width(width)
        copies = [empty((*t.shape[:-1], padded), dtype=t.dtype, device=t.device) for t in (query, key, value) if padded != width]
        sums = empty((*leading, length), dtype=float32, device=query.device)
        output = _empty_output(query, leading, length, padded)
        del copies, sums
        return output[..., :width]
    accumulator = empty((*leading, length, wide), dtype=float32, device=query.device) if half and wide > _ACCUMULATOR_WIDTH else None
    output = _empty_output(query, leading, length, wide)
    del accumulator, attn_mask
    return output


def _empty_output(query: Tensor, leading: list[int], length: int, width: int) -> Tensor:
    """In memory as (batch, length, heads, width), as the kernels write it, so that the transpose after it needs no copy."""
    if not leading:
        return empty((length, width), dtype=query.dtype, device=query.device)
    return empty((*leading[:-1], length, leading[-1], width), dtype=query.dtype, device=query.device).transpose(-3, -2)


@dataclass(slots=True)
class Trace:
    """Moments of the prefill and of the decode step; sizes of the prefill's tensors in order, as numbers and as polynomials."""

    moments: list[Polynomial] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    laws: list[Polynomial] = field(default_factory=list)
    operations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A module to run, its layers, and those of them that compute."""

    module: Module
    layers: list[Layer]
    working: list[Layer]


def trace_forward(stage: Stage, lengths: Lengths, *, budget: int, symbolic: bool = True, decode: bool = True) -> Trace:
    """Prefill as `generate` makes it and, where there is a cache and it is asked for, one decode step.

    Args:
        stage: what to run.
        lengths: primes for a run whose moments are polynomials, any lengths otherwise.
        budget: operations after which the run is given up.
        symbolic: whether moments are to be polynomials; else they are numbers (constants).
        decode: whether a step follows.

    Raises:
        UnsupportedModel: the budget is spent.
    """
    unknowns = lengths if symbolic else Lengths(1, 1, 1)
    recorder = StorageRecorder([*stage.module.parameters(), *stage.module.buffers()], unknowns, budget)
    idle: list[int | None] = []

    def aside(_: Layer, hidden: Tensor) -> Tensor:
        copy = empty_like(hidden)
        idle.append(recorder.number_of(copy))
        return copy

    with ExitStack() as modes:
        for mode in (run_only(stage.layers, stage.working, aside=aside), no_grad(), MetaRun(0), GpuKernels(), device("meta"), recorder):
            modes.enter_context(mode)
        inputs = prefill_inputs(stage.module, lengths)
        output = stage.module(**inputs)
        logits = getattr(output, "logits", None)
        last = logits[:, -1].to(dtype=float32, copy=True) if logits is not None and "use_cache" in inputs else None
        cache = cache_of(output) if "use_cache" in inputs else None
        encoder_states = getattr(output, "encoder_last_hidden_state", None)
        del output, logits, last, inputs
        trace = Trace(sizes=list(recorder.sizes), laws=list(recorder.laws), operations=recorder.operations - len(idle))
        pinned = add(_pinned_by_slices(recorder, cache, stage.layers, unknowns), recorder.collected([n for n in idle if n is not None]))
        trace.moments = [add(moment, pinned) for moment in recorder.moments(without=_numbers_of(recorder, cache))]
        if cache is not None and decode:
            trace.moments += _decode_step(stage.module, recorder, cache, encoder_states, lengths)
    return trace


def step_inputs(module: Module, cache: object, encoder_states: Any) -> tuple[str, dict[str, Any]]:
    """The name of a decode step's token ids, and its other arguments."""
    config: Any = module.config
    name = "cache_params" if has_argument(module, "cache_params") else "past_key_values"
    inputs: dict[str, Any] = {name: cache, "use_cache": True}
    if not config.is_encoder_decoder:
        return "input_ids", inputs
    return "decoder_input_ids", {**inputs, "encoder_outputs": BaseModelOutput(last_hidden_state=encoder_states)}


def _decode_step(module: Module, recorder: StorageRecorder, cache: object, encoder_states: Any, lengths: Lengths) -> list[Polynomial]:
    """Moments of one decode step, less the cache as it was before it."""
    config: Any = module.config
    ids, inputs = step_inputs(module, cache, encoder_states)
    if config.is_encoder_decoder:
        module(**inputs, **{ids: zeros(lengths.batch, lengths.tokens, dtype=long)})
    before: Polynomial = {}
    for number in _numbers_of(recorder, cache):
        before = add(before, recorder.laws[number])
    first = len(recorder.sizes)
    output = module(**inputs, **{ids: zeros(lengths.batch, 1, dtype=long)})
    logits = getattr(output, "logits", None)
    last = logits[:, -1].to(dtype=float32, copy=True) if logits is not None else None
    moments = recorder.moments(since=first)
    del last
    return [shift_by_token(add(moment, before, -1)) for moment in moments]


def _numbers_of(recorder: StorageRecorder, cache: object) -> set[int]:
    """The storages of a cache, as the recorder numbers them."""
    numbers = (recorder.number_of(tensor) for _, tensor in tensors_of(cache))
    return {number for number in numbers if number is not None}


def _pinned_by_slices(recorder: StorageRecorder, cache: object, layers: list[Layer], lengths: Lengths) -> Polynomial:
    """Storage that cached slices keep alive beyond their own size, over all layers of each kind."""
    twins = Counter(layer.kind for layer in layers)
    by_position = {position: layer for layer in layers for position in layer.positions}
    counted: set[tuple[int, int]] = set()
    total: Polynomial = {}
    items = getattr(cache, "layers", None)
    for position, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        owner = by_position.get(position)
        kind = owner.kind if owner else -position - 1
        for order, (_, tensor) in enumerate(tensors_of(item)):
            number = recorder.number_of(tensor)
            if number is None or (kind, order) in counted:
                continue
            counted.add((kind, order))
            count = twins[kind] if owner else 1
            total = add(total, add(recorder.laws[number], size_law(tensor, lengths), -1), count)
    return total
