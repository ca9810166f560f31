"""Trained parameters of a model under a method: matrices with an adapter, frozen towers, and counts.

`train_tower` decides whether an encoder of pictures or sound is trained with the stack that computes the loss, or frozen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from lib.laws import training as law
from lib.laws.activation import FLOAT32, HALF
from lib.laws.media_tokens import TOWERS
from lib.laws.weights import ENDS
from lib.memory.resolve import layer_sizes
from lib.memory.stacks import adapter_bytes
from lib.model.spec import TensorGroup
from lib.workload import ALL_LINEAR, is_targeted

if TYPE_CHECKING:
    from lib.laws.weights import Tensors
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

MATRIX, _STACKED = 2, 3  # axes
_ENDS = frozenset({"embeddings", "head"})
_PROJECTORS_IN_TOWERS = ("merger",)  # of Qwen's and GLM's models


def without_lengths(request: TrainingRequest) -> TrainingRequest:
    """The request with lengths, batch sizes and devices of 1: a cache key for values that do not depend on them."""
    return replace(request, sequence_tokens=1, row_tokens=0, media_tokens=0, micro_batch=1, accumulation=1, devices=1, machines=1)


def encoder_components(spec: ModelSpec) -> frozenset[str]:
    """Components that read pictures or sound, apart from the stack that computes the loss."""
    return TOWERS | {"encoder"} if spec.work == "speech" else TOWERS


def is_projector(group: TensorGroup) -> bool:
    """Whether a tensor projects the encoder's output into the width of the language model."""
    return group.component == "projector" or any(f".{name}" in group.name for name in _PROJECTORS_IN_TOWERS)


def trained_encoder(spec: ModelSpec, request: TrainingRequest) -> Literal["no", "projector", "yes"]:
    """The part of the encoder that is trained. `auto` trains a speech encoder and freezes a picture tower."""
    if request.train_tower != "auto":
        return request.train_tower
    return "yes" if spec.work == "speech" else "no"


def is_frozen(group: TensorGroup, spec: ModelSpec, request: TrainingRequest) -> bool:
    """Whether a tensor belongs to a part of the encoder that is not trained."""
    part = trained_encoder(spec, request)
    trained = part == "yes" or (part == "projector" and is_projector(group))
    return not trained and group.component in encoder_components(spec)


def count_frozen(spec: ModelSpec, request: TrainingRequest) -> int:
    """Parameters of the part of the encoder that is not trained."""
    return sum(group.parameters for group in spec.tensors if is_frozen(group, spec, request))


def frozen_pattern(spec: ModelSpec, request: TrainingRequest) -> str:
    """A regular expression that matches the modules that are not trained and their parameters; "" if all are trained.

    For each frozen tensor it has the shortest path that no trained tensor begins with.
    """
    frozen = [group.name.split(".") for group in spec.tensors if is_frozen(group, spec, request)]
    trained = [group.name.split(".") for group in spec.tensors if not is_frozen(group, spec, request)]
    shared = {tuple(path[:end]) for path in trained for end in range(len(path) + 1)}
    shortest = dict.fromkeys(next(tuple(p[:end]) for end in range(1, len(p) + 1) if tuple(p[:end]) not in shared) for p in frozen)
    paths = [r"\.".join(r"\d+" if part == "*" else re.escape(part) for part in path) for path in shortest]
    return rf"(?:.+\.)?(?:{'|'.join(paths)})(?:\..+)?" if paths else ""


def module_of(group: TensorGroup) -> str:
    """Path of the module of a weight."""
    return group.name.removesuffix(".weight")


EXPERTS_WITH_ADAPTERS = frozenset(
    {
        "afmoe", "cohere2_moe", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1", "ernie4_5_moe", "exaone_moe", "flex_olmo",
        "glm4_moe", "glm4_moe_lite", "glm4v_moe", "glm_moe_dsa", "hunyuan_v1_moe", "longcat_flash", "minimax", "minimax_m2", "mixtral",
        "olmoe", "qwen3_moe", "qwen3_next", "qwen3_omni_moe", "solar_open",
    }
)  # fmt: skip
"""Model types in which peft puts adapters on the stacked weights of experts. Sources: `_MOE_TARGET_MODULE_MAPPING` in
peft/utils/transformers_weight_conversion.py of peft 0.21.2 and conversion_mapping.py of transformers 5.24.0, tried on bundled
configurations of 13 of these types, 2026-11-26. OLMoE has its 189,284,352 trained parameters at rank 16."""
_FUSED = "gate_up_proj"


class AdaptedExperts(NamedTuple):
    """A stacked weight of experts with adapters, and the rank of each expert's adapter."""

    group: TensorGroup
    rank: int

    @property
    def parameters(self) -> int:
        """Parameters of the adapters of all experts."""
        return self.group.count * self.group.shape[0] * self.rank * sum(self.group.shape[-2:])


def adapted_experts(spec: ModelSpec, request: TrainingRequest) -> list[AdaptedExperts]:
    """The stacked weights of experts that get adapters; a fused gate and up projection gets twice the rank.

    peft adds an adapter to the weights of all experts in each pass, and computes the gradient of all these weights.
    """
    if request.method == "full" or spec.model_type not in EXPERTS_WITH_ADAPTERS:
        return []
    stacked = [g for g in spec.tensors if g.kind == "expert" and len(g.shape) == _STACKED]
    every, targets = ALL_LINEAR in request.target_modules, {name.rpartition(".")[2] for name in request.target_modules}
    named = {_FUSED: {"gate_proj", "up_proj"} <= targets, "down_proj": "down_proj" in targets}
    return [
        AdaptedExperts(g, request.rank * (2 if g.name.endswith(_FUSED) else 1))
        for g in stacked
        if every or named.get(g.name.rpartition(".")[2], False)
    ]


def takes_adapter(group: TensorGroup, spec: ModelSpec, request: TrainingRequest) -> bool:
    """Whether a matrix can have an adapter; tables, the head and a frozen encoder get none, experts apart."""
    plain = group.kind == "linear" and len(group.shape) == MATRIX and group.component not in _ENDS and group.name.endswith("weight")
    return plain and not is_frozen(group, spec, request)


def is_adapted(group: TensorGroup, spec: ModelSpec, request: TrainingRequest) -> bool:
    """Whether a matrix gets an adapter."""
    return request.method != "full" and takes_adapter(group, spec, request) and is_targeted(module_of(group), request.target_modules)


def count_trained(spec: ModelSpec, request: TrainingRequest) -> tuple[law.TrainedParameters, int]:
    """Trained parameters, and those of adapters."""
    if request.method == "full":
        width = HALF if request.precision == "bf16" else FLOAT32
        trained = [group for group in spec.tensors if not is_frozen(group, spec, request)]
        shapes = [(group.shape, group.count) for group in trained] or [((spec.parameters_total,), 1)]
        matrices = [g for g in trained if len(g.shape) >= MATRIX and g.kind not in ENDS]
        return law.TrainedParameters(
            parameters=spec.parameters_total - count_frozen(spec, request),
            in_matrices=sum(group.parameters for group in matrices),
            rows_and_columns=sum(
                count * math.prod(shape[:-2]) * (shape[-1] + shape[-2]) for shape, count in shapes if len(shape) >= MATRIX
            ),
            largest=max(math.prod(shape) for shape, _ in shapes),
            width=width,
        ), 0
    count = rows_and_columns = largest = 0
    shapes_with_adapter = [(g.shape[0], g.shape[1], g.count) for g in spec.tensors if is_adapted(g, spec, request)]
    if not spec.tensors:  # a bare parameter count: the matrices of a typical decoder
        layers = layer_sizes(spec).layers
        shapes_with_adapter = [(rows, columns, layers) for rows, columns in _typical_shapes(spec).values()]
    for of in adapted_experts(spec, request):
        count += of.parameters
        rows_and_columns += of.group.count * of.group.shape[0] * (sum(of.group.shape[-2:]) + 2 * of.rank)
        largest = max(largest, of.group.shape[0] * of.rank * max(of.group.shape[-2:]))
    for rows, columns, number in shapes_with_adapter:
        count += number * law.adapter_parameters(rank=request.rank, rows=rows, columns=columns, dora=request.method == "dora")
        rows_and_columns += number * (rows + columns + 2 * request.rank)
        largest = max(largest, request.rank * max(rows, columns))
    width, _ = adapter_bytes(request)
    return law.TrainedParameters(count, count, rows_and_columns, largest, width), count


def _typical_shapes(spec: ModelSpec) -> dict[str, tuple[int, int]]:
    """Rows and columns of the matrices in a layer of a typical decoder, by module."""
    s = layer_sizes(spec)
    query, key, output = (s.query_width, s.hidden), (s.key_width, s.hidden), (s.hidden, s.query_width)
    up, down = (s.mlp_width, s.hidden), (s.hidden, s.mlp_width)
    attention = {"self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": key, "self_attn.o_proj": output}
    return attention | {"mlp.gate_proj": up, "mlp.up_proj": up, "mlp.down_proj": down}


def typical_groups(spec: ModelSpec) -> tuple[TensorGroup, ...]:
    """Layers of a typical decoder, for a bare parameter count."""
    s = layer_sizes(spec)
    matrices = [
        TensorGroup(name=f"layers.*.{name}.weight", component="language_model", kind="linear", shape=shape, count=s.layers)
        for name, shape in _typical_shapes(spec).items()
    ]
    norm = TensorGroup(name="layers.*.norm.weight", component="language_model", kind="norm", shape=(s.hidden,), count=2 * s.layers)
    return (*matrices, norm)


def select_adapted(spec: ModelSpec, request: TrainingRequest) -> Callable[[Tensors], bool]:
    """A function that says whether a group gets an adapter; for a bare parameter count every matrix does."""
    if not spec.tensors:
        return lambda group: request.method != "full" and group.kind == "linear"
    return lambda group: is_adapted(cast("TensorGroup", group), spec, request)
