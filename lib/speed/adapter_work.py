"""Work that a training method adds to a pass: matrices with adapters, and weights that are unpacked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lib.memory.trained import select_adapted, typical_groups

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


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
