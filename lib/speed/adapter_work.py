"""Work that a training step has besides its FLOPs: adapters, weights that are unpacked, and experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lib.memory.trained import adapted_experts, select_adapted, typical_groups

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


_STACKED = 3  # axes
MERGE_PASSES = 5.4
"""Bytes that adding adapters to the weights of experts moves, over the bytes of these weights: 5.1 to 5.8 with the shapes of six models on
an H100 (`torch.baddbmm` in bf16, rank 16, 2026-11-26)."""


class Adapters(NamedTuple):
    """Matrices that have an adapter, and the sum of their rows and columns."""

    matrices: int
    width: int


def count_adapters(spec: ModelSpec, request: TrainingRequest) -> Adapters:
    """The adapters of a model; of a bare parameter count those of a typical decoder."""
    adapted = select_adapted(spec, request)
    matrices = [group for group in spec.tensors or typical_groups(spec) if adapted(group)]
    return Adapters(sum(group.count for group in matrices), sum(group.count * sum(group.shape) for group in matrices))


def count_unpacked(spec: ModelSpec, request: TrainingRequest) -> int:
    """Bytes in 16 bits of the weights that bitsandbytes holds in fewer bits and unpacks for every pass."""
    return 2 * sum(group.parameters for group in spec.tensors if group.convertible) if request.quantizes else 0


class ExpertWork(NamedTuple):
    """Work of experts in one call of the layers: forward, backward or recomputed.

    `routed_bytes`: inputs and outputs of the matrices of a token's experts, in 16 bits, for each token. `weight_bytes`: weights of all
    experts, which a batch reads. `merged_bytes`: those to which peft adds adapters. `gradient_parameters`: weights that a token passes and
    whose gradient the adapters need, although they are frozen. `layers`: layers with experts.
    """

    routed_bytes: int = 0
    weight_bytes: int = 0
    merged_bytes: int = 0
    gradient_parameters: int = 0
    layers: int = 0


def count_experts(spec: ModelSpec, request: TrainingRequest) -> ExpertWork:
    """The work of experts with stacked weights; nothing for a dense model."""
    stacked = [group for group in spec.tensors if group.kind == "expert" and len(group.shape) == _STACKED and group.experts]
    if not stacked:
        return ExpertWork()
    merged = [of.group for of in adapted_experts(spec, request)]
    return ExpertWork(
        routed_bytes=sum(2 * g.count * g.experts_per_token * sum(g.shape[-2:]) for g in stacked),
        weight_bytes=sum(2 * g.parameters for g in stacked),
        merged_bytes=sum(2 * g.parameters for g in merged),
        gradient_parameters=sum(g.parameters * g.experts_per_token // g.experts for g in merged),
        layers=max(g.count for g in stacked),
    )
