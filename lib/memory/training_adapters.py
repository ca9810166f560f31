"""What each training stack does by itself, and what is trained under a request: the matrices with an adapter, their parameters.

check_training(spec, TrainingRequest(rank=16))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from lib.errors import BadArgument, UnsupportedModel
from lib.laws import training as law
from lib.laws.activation import FLOAT32
from lib.memory.resolve import layer_sizes
from lib.model.spec import check_adapters, is_adapted
from lib.workload import Optimizer, Stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from lib.laws.activation import Group
    from lib.model.spec import ModelSpec, TensorGroup
    from lib.workload import TrainingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StackTraits:
    """What a training stack does by itself.

    `fused_loss`: logits of all tokens are never held at once. `casts`: adapters are in float32 and cast what they read. `upcasts`: with
    QLoRA, what is not quantized is put into float32 (peft's `prepare_model_for_kbit_training`). `half_adapters`: with QLoRA, adapters are
    put into bf16 and cast nothing (TRL, trl/trainer/sft_trainer.py at f2cd57710, 2026-07-24, which does not call peft's function).
    `quantizes_experts`: with QLoRA, fused experts too, which bitsandbytes by itself leaves as they are.
    """

    name: str
    fused_loss: bool
    casts: bool
    upcasts: bool
    half_adapters: bool
    quantizes_experts: bool
    optimizers: frozenset[Optimizer]
    shards: bool


HALF = 2
_TORCH: frozenset[Optimizer] = frozenset({"adamw", "adamw_foreach", "sgd"})
_BNB: frozenset[Optimizer] = frozenset({"adamw_8bit", "paged_adamw", "paged_adamw_8bit"})
_TRAINER: frozenset[Optimizer] = frozenset({*_TORCH, *_BNB, "adafactor"})
_WITH_MUON: frozenset[Optimizer] = frozenset({*_TRAINER, "muon"})


def _stack(name: str, optimizers: frozenset[Optimizer], **does: bool) -> StackTraits:
    never = dict.fromkeys(("fused_loss", "casts", "upcasts", "half_adapters", "quantizes_experts", "shards"), False)
    return StackTraits(name=name, optimizers=optimizers, **{**never, **does})


STACK_TRAITS: Mapping[Stack, StackTraits] = MappingProxyType(
    {
        "transformers": _stack("transformers Trainer", _TRAINER, casts=True, upcasts=True, shards=True),
        "trl": _stack("TRL with its fused loss", _TRAINER, fused_loss=True, casts=True, half_adapters=True, shards=True),
        "unsloth": _stack("Unsloth", _TRAINER, fused_loss=True),
        "ms-swift": _stack("ms-swift", _WITH_MUON, casts=True, upcasts=True, shards=True),
        "axolotl": _stack("axolotl", _WITH_MUON, fused_loss=True, casts=True, quantizes_experts=True, shards=True),
        "torchtune": _stack("torchtune", _TORCH | _BNB, fused_loss=True, shards=True),
    }
)


def adapter_bytes(request: TrainingRequest) -> tuple[int, int]:
    """Bytes of an element of the adapters, and of what they cast their input to: 0 where they read it as it is."""
    traits = STACK_TRAITS[request.stack]
    if request.method == "qlora" and traits.half_adapters:
        return HALF, 0
    if not traits.casts:
        return HALF if request.precision == "bf16" else FLOAT32, 0
    return FLOAT32, HALF if request.precision == "mixed" else FLOAT32  # autocast casts to 16 bits


def fuses_loss(request: TrainingRequest) -> bool:
    """Whether the logits of all tokens are never held at once: as asked, else as the stack does by itself."""
    return STACK_TRAITS[request.stack].fused_loss if request.fused_loss is None else request.fused_loss


_MATRIX = 2
ENDS = frozenset({"embedding", "head"})


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
    if request.sharding != "none" and request.devices < HALF:
        raise BadArgument("sharding", request.sharding, "none on one device; or two devices or more")
    if request.sharding == "none" and request.devices > 1:
        raise BadArgument("devices", request.devices, "1 without sharding; or ddp, zero1, zero2, zero3, fsdp, fsdp_offload as sharding")
    if request.sharding != "none" and not traits.shards:
        raise BadArgument("sharding", request.sharding, f"none with {traits.name}, which trains on one device")
    if request.method == "qlora" and spec.tensors and not any(group.convertible for group in spec.tensors):
        raise BadArgument("method", "qlora", "full, lora or dora: this model has no matrix that bitsandbytes would convert")
    if request.method != "full" and spec.tensors:
        check_adapters(spec, request)


def count_trained(spec: ModelSpec, request: TrainingRequest) -> tuple[law.Trained, int]:
    """What is trained, and parameters of adapters."""
    if request.method == "full":
        width = HALF if request.precision == "bf16" else FLOAT32
        shapes = [(group.shape, group.count) for group in spec.tensors] or [((spec.parameters_total,), 1)]
        matrices = [g for g in spec.tensors if len(g.shape) >= _MATRIX and g.kind not in ENDS]
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
    width, _ = adapter_bytes(request)
    return law.Trained(count, count, rows_and_columns, largest, width), count


def _typical_shapes(spec: ModelSpec) -> dict[str, tuple[int, int]]:
    """Rows and columns of the matrices in a layer of a typical decoder, by module."""
    s = layer_sizes(spec)
    query, key, output = (s.query_width, s.hidden), (s.key_width, s.hidden), (s.hidden, s.query_width)
    up, down = (s.mlp_width, s.hidden), (s.hidden, s.mlp_width)
    attention = {"self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": key, "self_attn.o_proj": output}
    return attention | {"mlp.gate_proj": up, "mlp.up_proj": up, "mlp.down_proj": down}


def _adapted_shapes(spec: ModelSpec, request: TrainingRequest) -> list[tuple[int, int, int]]:
    """Rows, columns and number of the matrices with an adapter; of a bare parameter count those of a typical decoder."""
    if spec.tensors:
        return [(g.shape[0], g.shape[1], g.count) for g in spec.tensors if is_adapted(g, request)]
    layers = layer_sizes(spec).layers
    return [(rows, columns, layers) for rows, columns in _typical_shapes(spec).values()]


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _stacked(shape: tuple[int, ...]) -> int:
    return _size(shape[:-2])


def typical_groups(spec: ModelSpec) -> tuple[TensorGroup, ...]:
    """Layers of a typical decoder, for a bare parameter count."""
    from lib.model.spec import TensorGroup  # noqa: PLC0415 a value here, a type above

    s = layer_sizes(spec)
    matrices = [
        TensorGroup(name=f"layers.*.{name}.weight", component="language_model", kind="linear", shape=shape, count=s.layers)
        for name, shape in _typical_shapes(spec).items()
    ]
    norm = TensorGroup(name="layers.*.norm.weight", component="language_model", kind="norm", shape=(s.hidden,), count=2 * s.layers)
    return (*matrices, norm)


def select_adapted(spec: ModelSpec, request: TrainingRequest) -> Callable[[Group], bool]:
    """Which groups get an adapter; of a bare parameter count every matrix."""
    if not spec.tensors:
        return lambda group: request.method != "full" and group.kind == "linear"
    return lambda group: is_adapted(cast("TensorGroup", group), request)
