"""Memory of one training step: ModelSpec × TrainingRequest → bytes on the fullest device by what holds them, allocated and reserved.

estimate_training(spec, TrainingRequest(method="qlora")).reserved.typical

Allocated is what tensors hold at the fullest of a step's moments (`lib.laws.training`), reserved what torch's allocator has taken of the
device for them; reserved and the CUDA context decide whether a step fits. How far the two lie apart depends on the order in which blocks of
different sizes come and go: that share was fitted on published runs (`lib/data/training_constants.json`, `scripts/fit_training.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from lib.errors import BadArgument, UnsupportedModel
from lib.identity import ById
from lib.laws import training as law
from lib.laws.parallelism import ceil_divide
from lib.laws.runtime import CUDA_CONTEXT, Range
from lib.laws.saved_activations import Saved, Training, save_for_backward
from lib.laws.saved_activations import Stack as Layers
from lib.memory.activations import traced_kernel
from lib.memory.resolve import layer_sizes
from lib.memory.search import ENDLESS, find_largest
from lib.memory.weights import weights
from lib.units import Bytes
from lib.workload import ALL_LINEAR, Optimizer, Stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from lib.laws.saved_activations import Group
    from lib.model.spec import ModelSpec, TensorGroup
    from lib.workload import TrainingRequest

_HALF, _FLOAT32, _MATRIX = 2, 4, 2
_NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)  # with double quantization, as in lib.laws.weights
_APART = frozenset({"vision_tower", "audio_tower", "projector", "embeddings", "head"})
_ENDS = frozenset({"embedding", "head"})
_SHOWN_NAMES = 12
FRAGMENTS, CONTEXT = "fragmentation and workspace", "CUDA context"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackTraits:
    """What a training stack does by itself.

    `fused_loss`: logits of all tokens are never held at once. `casts`: adapters are in float32 and cast what they read. `upcasts`: with
    QLoRA, what is not quantized is put into float32 (peft's `prepare_model_for_kbit_training`). `quantizes_experts`: with QLoRA, fused
    experts too, which bitsandbytes by itself leaves as they are.
    """

    name: str
    fused_loss: bool
    casts: bool
    upcasts: bool
    quantizes_experts: bool
    optimizers: frozenset[Optimizer]
    shards: bool


_TORCH: frozenset[Optimizer] = frozenset({"adamw", "adamw_foreach", "sgd"})
_BNB: frozenset[Optimizer] = frozenset({"adamw_8bit", "paged_adamw", "paged_adamw_8bit"})
_TRAINER: frozenset[Optimizer] = frozenset({*_TORCH, *_BNB, "adafactor"})
_WITH_MUON: frozenset[Optimizer] = frozenset({*_TRAINER, "muon"})


def _stack(name: str, optimizers: frozenset[Optimizer], **does: bool) -> StackTraits:
    never = dict.fromkeys(("fused_loss", "casts", "upcasts", "quantizes_experts", "shards"), False)
    return StackTraits(name=name, optimizers=optimizers, **{**never, **does})


STACK_TRAITS: Mapping[Stack, StackTraits] = MappingProxyType(
    {
        "transformers": _stack("transformers Trainer", _TRAINER, casts=True, upcasts=True, shards=True),
        "trl": _stack("TRL with its fused loss", _TRAINER, fused_loss=True, casts=True, upcasts=True, shards=True),
        "unsloth": _stack("Unsloth", _TRAINER, fused_loss=True),
        "ms-swift": _stack("ms-swift", _WITH_MUON, casts=True, upcasts=True, shards=True),
        "axolotl": _stack("axolotl", _WITH_MUON, fused_loss=True, casts=True, quantizes_experts=True, shards=True),
        "torchtune": _stack("torchtune", _TORCH | _BNB, fused_loss=True, shards=True),
    }
)


class Share(NamedTuple):
    """A share known as a range."""

    low: float
    typical: float
    high: float


class Constants(NamedTuple):
    """What was fitted: how much more than what comes and goes the allocator takes, as a share of it, and a fixed part."""

    dynamic: Share
    fixed: Range


@cache
def load_constants() -> Constants:
    """The fitted constants that come with the app."""
    plain = json.loads(files("lib.data").joinpath("training_constants.json").read_text(encoding="utf-8"))
    return Constants(
        dynamic=Share(*plain["memory"]["dynamic_share"]), fixed=Range(*(Bytes(value) for value in plain["memory"]["fixed_bytes"]))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Memory of a step on the fullest device.

    `parts` add up to `device.typical`: what tensors hold at the fullest moment by name, fragmentation, CUDA context. `allocated_bytes` is
    what tensors hold, `device` what the whole card has taken (reserved and the context), which decides whether it fits. `host_bytes` lie in
    the host's memory: paged states, offloaded weights, states and checkpoints.
    """

    precision: str
    parts: dict[str, int]
    allocated_bytes: int
    reserved: Range
    device: Range
    host_bytes: int
    trained_parameters: int
    tokens_per_step: int


def check_training(spec: ModelSpec, request: TrainingRequest) -> None:
    """Refuse what cannot be trained so.

    Raises:
        UnsupportedModel: a model of which no loss over tokens is known.
        BadArgument: what does not belong together, with what is accepted.
    """
    if spec.library == "gguf":
        raise UnsupportedModel(f"{spec.id} is a GGUF file, which is run and not trained. Name the model that it was made from instead.")
    if spec.library == "diffusers" or spec.work not in {"decoder", "embedding decoder", "encoder-decoder", "text encoder"}:
        raise UnsupportedModel(
            f"{spec.id or spec.architecture} has no loss over tokens that is known here (task {spec.task or 'unknown'}). "
            "Accepted: models that write, read or embed text."
        )
    traits = STACK_TRAITS[request.stack]
    if request.optimizer not in traits.optimizers:
        raise BadArgument("optimizer", request.optimizer, f"{', '.join(sorted(traits.optimizers))} with {traits.name}")
    if request.sharding != "none" and request.devices < _HALF:
        raise BadArgument("sharding", request.sharding, "none on one device; or two devices or more")
    if request.sharding == "none" and request.devices > 1:
        raise BadArgument("devices", request.devices, "1 without sharding; or ddp, zero1, zero2, zero3, fsdp, fsdp_offload as sharding")
    if request.sharding != "none" and not traits.shards:
        raise BadArgument("sharding", request.sharding, f"none with {traits.name}, which trains on one device")
    if request.method == "qlora" and spec.tensors and not any(group.convertible for group in spec.tensors):
        raise BadArgument("method", "qlora", "full, lora or dora: this model has no matrix that bitsandbytes would convert")
    if request.method != "full":
        _check_adapter(spec, request)


def _check_adapter(spec: ModelSpec, request: TrainingRequest) -> None:
    if not spec.tensors:
        return
    found = [group for group in spec.tensors if is_adapted(group, request)]
    if not found:
        named = ", ".join(dict.fromkeys(module_name(group) for group in spec.tensors if _may_adapt(group)))
        raise BadArgument("target_modules", ",".join(request.target_modules), f"all-linear, or among {named}")
    missing = [name for name in request.target_modules if name != ALL_LINEAR and all(module_name(g) != name for g in found)]
    if missing:
        named = ", ".join(list(dict.fromkeys(module_name(group) for group in spec.tensors if _may_adapt(group)))[:_SHOWN_NAMES])
        raise BadArgument("target_modules", missing[0], f"all-linear, or among {named}")
    smallest = min(found, key=lambda group: min(group.shape))
    if request.rank > min(smallest.shape):
        rows, columns = smallest.shape
        raise BadArgument(
            "rank", request.rank, f"at most {min(smallest.shape):,}, the smaller side of {module_name(smallest)} ({rows} × {columns})"
        )


def module_name(group: TensorGroup) -> str:
    """The last part of a module's name: `q_proj`."""
    return group.name.removesuffix(".weight").rpartition(".")[2]


def _may_adapt(group: TensorGroup) -> bool:
    return group.kind == "linear" and len(group.shape) == _MATRIX and group.component not in _APART and group.name.endswith("weight")


def is_adapted(group: TensorGroup, request: TrainingRequest) -> bool:
    """Whether a matrix gets an adapter; experts, tables, the head and towers get none."""
    if request.method == "full" or not _may_adapt(group):
        return False
    return ALL_LINEAR in request.target_modules or module_name(group) in request.target_modules


class _Model(NamedTuple):
    """A model under one method: what does not depend on length and batch."""

    weights: int
    upcast: int
    ends: int
    largest_end: int
    precision: str
    width: int
    trained: law.Trained
    adapters: int
    saved: Saved
    largest_dequantized: int
    hidden: int
    layers: int
    vocabulary: int
    dora_step: int


def _trained(spec: ModelSpec, request: TrainingRequest) -> tuple[law.Trained, int]:
    """What is trained, and parameters of adapters."""
    if request.method == "full":
        width = _HALF if request.precision == "bf16" else _FLOAT32
        shapes = [(group.shape, group.count) for group in spec.tensors] or [((spec.parameters_total,), 1)]
        matrices = [g for g in spec.tensors if len(g.shape) >= _MATRIX and g.kind not in _ENDS]
        return law.Trained(
            parameters=spec.parameters_total,
            in_matrices=sum(group.parameters for group in matrices),
            rows_and_columns=sum(count * _stacked(shape) * (shape[-1] + shape[-2]) for shape, count in shapes if len(shape) >= _MATRIX),
            largest=max(_size(shape) for shape, _ in shapes),
            width=width,
        ), 0
    count = rows_and_columns = largest = 0
    for rows, columns, number in _adapted_shapes(spec, request):
        count += number * law.adapter_parameters(rank=request.rank, rows=rows, columns=columns, dora=request.method == "dora")
        rows_and_columns += number * (rows + columns + 2 * request.rank)
        largest = max(largest, request.rank * max(rows, columns))
    width = _HALF if request.precision == "bf16" and not STACK_TRAITS[request.stack].casts else _FLOAT32
    return law.Trained(count, count, rows_and_columns, largest, width), count


def _adapted_shapes(spec: ModelSpec, request: TrainingRequest) -> list[tuple[int, int, int]]:
    """Rows, columns and number of the matrices with an adapter; of a bare parameter count those of a typical decoder."""
    if spec.tensors:
        return [(g.shape[0], g.shape[1], g.count) for g in spec.tensors if is_adapted(g, request)]
    s = layer_sizes(spec)
    each = [(s.query_width, s.hidden), (s.key_width, s.hidden), (s.key_width, s.hidden), (s.hidden, s.query_width)]
    each += [(s.mlp_width, s.hidden), (s.mlp_width, s.hidden), (s.hidden, s.mlp_width)]
    return [(rows, columns, s.layers) for rows, columns in each]


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _stacked(shape: tuple[int, ...]) -> int:
    return _size(shape[:-2])


def _typical_groups(spec: ModelSpec) -> tuple[TensorGroup, ...]:
    """Layers of a typical decoder, for a bare parameter count."""
    from lib.model.spec import TensorGroup  # noqa: PLC0415 a value here, a type above

    s = layer_sizes(spec)
    names = (
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.down_proj",
    )
    shapes = [
        (s.query_width, s.hidden), (s.key_width, s.hidden), (s.key_width, s.hidden), (s.hidden, s.query_width), (s.mlp_width, s.hidden),
        (s.mlp_width, s.hidden), (s.hidden, s.mlp_width),
    ]  # fmt: skip
    matrices = [
        TensorGroup(name=f"layers.*.{name}.weight", component="language_model", kind="linear", shape=shape, count=s.layers)
        for name, shape in zip(names, shapes, strict=True)
    ]
    norm = TensorGroup(name="layers.*.norm.weight", component="language_model", kind="norm", shape=(s.hidden,), count=2 * s.layers)
    return (*matrices, norm)


def _adapts(spec: ModelSpec, request: TrainingRequest) -> Callable[[Group], bool]:
    """Which groups get an adapter; of a bare parameter count every matrix."""
    if not spec.tensors:
        return lambda group: request.method != "full" and group.kind == "linear"
    return lambda group: is_adapted(cast("TensorGroup", group), request)


@lru_cache(maxsize=512)
def _model(key: ById[ModelSpec], request: TrainingRequest) -> _Model:
    """Everything that does not change with length and batch; both are 1 in the request."""
    spec = key.value
    traits = STACK_TRAITS[request.stack]
    trained, adapters = _trained(spec, request)
    element = _FLOAT32 if request.precision == "fp32" else _HALF
    precision = "bnb-nf4" if request.method == "qlora" else "fp32" if request.precision == "fp32" else "bf16"
    of = weights(spec, precision, "fp32" if request.precision == "fp32" else "bf16", keeps_fp32=True, several=True)
    held, largest, upcast = of.total, 0, 0
    if request.method == "qlora":
        largest = element * of.largest_matrix
        if traits.upcasts and element == _HALF:
            upcast = _HALF * sum(g.parameters for g in spec.tensors if g.kind in {*_ENDS, "norm"})
        if traits.quantizes_experts:
            held -= round((element - _NF4) * sum(g.parameters for g in spec.tensors if g.kind == "expert" and len(g.shape) > _MATRIX))
    tensors = [g for g in spec.tensors if g.component not in _APART and g.kind not in _ENDS] or list(_typical_groups(spec))
    sizes = layer_sizes(spec)
    decides = traced_kernel(spec, element) == "eager" or request.attention == "eager"
    cast_bytes = 0 if not traits.casts else _FLOAT32 if request.precision == "bf16" else element  # autocast casts to 16 bits
    how = Training(
        weights=request.method == "full",
        adapted=_adapts(spec, request),
        rank=request.rank, casts=cast_bytes, dora=request.method == "dora", scores=decides, repeats=request.attention != "flash",
    )  # fmt: skip
    stack = Layers(sizes.hidden, sizes.layers, sizes.heads, sizes.kv_heads, sizes.query_width // max(1, sizes.heads))
    dora = _FLOAT32 * max((2 * g.shape[0] * g.shape[1] for g in tensors if how.adapted(g)), default=0) if request.method == "dora" else 0
    ends = sum(group.parameters for group in spec.tensors if group.kind in _ENDS)
    largest_end = max((group.parameters for group in spec.tensors if group.kind in _ENDS), default=0)
    saved = save_for_backward(tensors, stack, how, element)
    return _Model(
        held, upcast, ends, largest_end, precision, element, trained, adapters, saved, largest, sizes.hidden, max(1, sizes.layers),
        sizes.vocabulary, dora,
    )  # fmt: skip


def _moments(spec: ModelSpec, request: TrainingRequest) -> tuple[law.Moments, law.States, _Model]:
    of = _model(ById(spec), _at_once(request))
    n, sharding = request.devices, request.sharding
    tokens = request.sequence_tokens * request.micro_batch
    mixed = request.method == "full" and request.precision == "mixed"
    stream = _FLOAT32 if mixed or (request.method == "qlora" and STACK_TRAITS[request.stack].upcasts) else of.width
    states = law.optimizer_states(
        "adamw" if request.optimizer == "adamw_foreach" else request.optimizer, of.trained, foreach=request.optimizer == "adamw_foreach"
    )
    gradients = law.gradient_bytes(of.trained)
    saved = of.saved
    whole = tokens * (saved.layers + request.sequence_tokens * saved.layers_by_length)
    one = tokens * (saved.one_layer + request.sequence_tokens * saved.one_layer_by_length) + of.largest_dequantized + of.dora_step
    recomputes = request.checkpointing != "none"
    checkpoints = 0 if request.checkpointing == "offloaded" else tokens * stream * of.hidden * of.layers
    by_weights = n if sharding in {"zero3", "fsdp", "fsdp_offload"} else 1
    by_gradients = n if sharding in {"zero2", "zero3", "fsdp", "fsdp_offload"} else 1
    by_states = n if sharding not in {"none", "ddp"} else 1
    offloads = sharding == "fsdp_offload"
    masters = _HALF * of.trained.parameters if mixed else 0
    copies = 0
    if mixed:
        copies = of.weights // of.layers * 2 if recomputes or by_weights > 1 else of.weights
    elif by_weights > 1:
        copies = max(2 * (of.weights - of.width * of.ends) // of.layers, of.width * of.largest_end)
    if sharding == "ddp":
        copies += gradients  # buckets for the exchange
    head = of.ends * of.trained.width if request.method == "full" else 0
    fused = STACK_TRAITS[request.stack].fused_loss if request.fused_loss is None else request.fused_loss
    held = law.Held(
        states={
            "weights": 0 if offloads else ceil_divide(of.weights, by_weights),
            "float32 tables and norms": 0 if offloads else ceil_divide(of.upcast, by_weights),
            "master weights": 0 if offloads else ceil_divide(masters, by_weights),
            "adapters": ceil_divide(of.adapters * of.trained.width, by_weights),
            "optimizer": 0 if offloads else ceil_divide(states.held, by_states),
        },
        copies=copies,
        gradients=ceil_divide(gradients, by_gradients) if not offloads else 0,
        first_gradients=ceil_divide(head, by_gradients),
        kept=round(checkpoints if recomputes else whole),
        layer=round(one),
        passing=round(tokens * of.width * (of.hidden + _passing(spec))),
        loss=law.loss_bytes(tokens=tokens, vocabulary=of.vocabulary, hidden=of.hidden, element_bytes=of.width, fused=fused)
        + (head if fused else 0),
        stepping=0 if offloads else ceil_divide(states.stepping, by_states),
        accumulates=request.accumulation > 1,
        recomputes=recomputes,
    )
    return law.find_moments(held), states, of


class Measured(NamedTuple):
    """Bytes that the layers keep of a micro-batch where nothing is recomputed, scores apart, and those of what is trained."""

    kept_bytes: float
    score_bytes: float
    trained_bytes: int


def measure_training(spec: ModelSpec, request: TrainingRequest) -> Measured:
    """What the speed of a step depends on besides FLOPs."""
    of = _model(ById(spec), _at_once(request))
    tokens = request.sequence_tokens * request.micro_batch
    scores = tokens * request.sequence_tokens * of.saved.layers_by_length
    return Measured(tokens * of.saved.layers, scores, of.trained.parameters * of.trained.width)


def _at_once(request: TrainingRequest) -> TrainingRequest:
    """The request without what changes from one look to the next."""
    return replace(request, sequence_tokens=1, micro_batch=1, accumulation=1, packing=True)


def _passing(spec: ModelSpec) -> int:
    return 2 * layer_sizes(spec).mlp_width


def step_moments(spec: ModelSpec, request: TrainingRequest) -> law.Moments:
    """The four moments of a step, on the fullest device."""
    return _moments(spec, request)[0]


def estimate_training(spec: ModelSpec, request: TrainingRequest, constants: Constants | None = None) -> TrainingMemory:
    """Memory of one step on the fullest device; what does not belong together is not refused here (`check_training`)."""
    moments, states, of = _moments(spec, request)
    fitted = constants or load_constants()
    sums = [(sum(moment.values()), law.moving_bytes(moment)) for moment in moments]

    def taken(share: float, fixed: int) -> Bytes:
        return Bytes(round(max(held + share * moving for held, moving in sums) + fixed))

    reserved = Range(*(taken(share, fixed) for share, fixed in zip(fitted.dynamic, fitted.fixed, strict=True)))
    device = Range(*(Bytes(size + context) for size, context in zip(reserved, CUDA_CONTEXT, strict=True)))
    fullest = max(moments, key=lambda moment: sum(moment.values()) + fitted.dynamic.typical * law.moving_bytes(moment))
    parts = {name: size for name, size in fullest.items() if size}
    allocated = sum(parts.values())
    parts[FRAGMENTS] = reserved.typical - allocated
    parts[CONTEXT] = CUDA_CONTEXT.typical
    offloaded = of.weights + of.upcast + states.held if request.sharding == "fsdp_offload" else 0
    kept = request.sequence_tokens * request.micro_batch * of.width * of.hidden * of.layers if request.checkpointing == "offloaded" else 0
    return TrainingMemory(
        precision=of.precision,
        parts=parts,
        allocated_bytes=allocated,
        reserved=reserved,
        device=device,
        host_bytes=states.paged + offloaded + kept,
        trained_parameters=of.trained.parameters,
        tokens_per_step=request.sequence_tokens * request.micro_batch * request.accumulation * request.devices,
    )


def longest_sequence(spec: ModelSpec, request: TrainingRequest, memory_bytes: int) -> int:
    """The longest sequence with which a step fits devices of so much memory each, at most what the model states; 0 where none does."""
    limit = spec.context_limit or ENDLESS
    return find_largest(
        lambda tokens: estimate_training(spec, replace(request, sequence_tokens=tokens)).device.typical, memory_bytes, limit
    )


def largest_micro_batch(spec: ModelSpec, request: TrainingRequest, memory_bytes: int) -> int:
    """The most sequences of the request's length that fit in a micro-batch; 0 where not one does."""
    return find_largest(lambda batch: estimate_training(spec, replace(request, micro_batch=batch)).device.typical, memory_bytes, ENDLESS)
