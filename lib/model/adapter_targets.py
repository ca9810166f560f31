"""Which matrices of a model get an adapter, and which targets and ranks are refused; of a spec's tensors and of executed modules alike.

is_targeted("model.layers.*.self_attn.q_proj", ("q_proj",))

As peft's `all-linear`: every linear module but the output head; experts in one tensor, tables and towers get none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lib.errors import BadArgument
from lib.workload import ALL_LINEAR

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec, TensorGroup
    from lib.workload import TrainingRequest

_MATRIX = 2
_SHOWN_NAMES = 12
APART = frozenset({"vision_tower", "audio_tower", "projector", "embeddings", "head"})


def is_targeted(module: str, targets: Iterable[str]) -> bool:
    """Whether one of the targets is `ALL_LINEAR` or the end of a module's name.

    >>> is_targeted("layers.0.self_attn.q_proj", ("q_proj",)), is_targeted("layers.0.self_attn.q_proj", ("proj",))
    (True, False)
    """
    return any(target in (ALL_LINEAR, module) or module.endswith(f".{target}") for target in targets)


def check_targets(targets: Sequence[str], modules: Sequence[str]) -> None:
    """Refuse a target that names none of the linear modules.

    Raises:
        BadArgument: with the names that are there.
    """
    for target in targets:
        if not any(is_targeted(module, (target,)) for module in modules):
            names = list(dict.fromkeys(module.rpartition(".")[2] for module in modules))[:_SHOWN_NAMES]
            accepted = f"{ALL_LINEAR}, or the end of a linear module's name, among {', '.join(names) or 'none, for it has none'}"
            raise BadArgument("target_modules", target, accepted)


def check_rank(rank: int, module: str, rows: int, columns: int) -> None:
    """Refuse a rank above the smaller side of a matrix; a gate with one output takes any.

    Raises:
        BadArgument: with the largest rank that it takes.
    """
    most = min(rows, columns)
    if most > 1 and rank > most:
        accepted = f"at most {most:,}, the smaller side of {module.rpartition('.')[2]} ({rows} × {columns})"
        raise BadArgument("rank", rank, accepted)


def _module(group: TensorGroup) -> str:
    return group.name.removesuffix(".weight")


def _takes_adapter(group: TensorGroup) -> bool:
    return group.kind == "linear" and len(group.shape) == _MATRIX and group.component not in APART and group.name.endswith("weight")


def is_adapted(group: TensorGroup, request: TrainingRequest) -> bool:
    """Whether a matrix gets an adapter; experts, tables, the head and towers get none."""
    return request.method != "full" and _takes_adapter(group) and is_targeted(_module(group), request.target_modules)


def check_adapters(spec: ModelSpec, request: TrainingRequest) -> None:
    """Refuse targets and a rank that the tensors of a model do not take.

    Raises:
        BadArgument: see `check_targets` and `check_rank`.
    """
    linear = [group for group in spec.tensors if _takes_adapter(group)]
    check_targets(request.target_modules, [_module(group) for group in linear])
    for group in sorted(linear, key=lambda group: min(group.shape)):
        if is_adapted(group, request):
            check_rank(request.rank, _module(group), *group.shape)
