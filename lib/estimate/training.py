"""States and activations of fine-tuning, from a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.laws import training as law
from lib.laws.devices import up

if TYPE_CHECKING:
    from lib.estimate.activation import Activation
    from lib.estimate.setting import Setting
    from lib.model.spec import ModelSpec

ADAPTER_RANK = 16
_FLOAT32 = 4


def adapter_parameters(spec: ModelSpec) -> int:
    """Parameters of LoRA with rank 16 on every plain matrix of the stack; experts, tables and the head stay as they are."""
    shapes: dict[tuple[int, int], int] = {}
    for group in spec.tensors:
        if group.kind == "linear" and len(group.shape) == 2:  # noqa: PLR2004 matrices
            rows, columns = group.shape
            shapes[rows, columns] = shapes.get((rows, columns), 0) + group.count
    return law.adapter_parameters(rank=ADAPTER_RANK, shapes=shapes)


def training_bytes(spec: ModelSpec, setting: Setting, activation: Activation, tokens: int, batch: int) -> dict[str, int]:
    """By what holds them, on one device: activations, and its share of gradients, moments, master copy and adapters."""
    found = activation.training(tokens, batch)
    states = _full(spec.parameters_total, setting.element_bytes) if setting.mode == "full" else _adapted(adapter_parameters(spec))
    return found | {name: up(size, setting.devices) for name, size in states.items()}


def _full(count: int, width: int) -> dict[str, int]:
    """States when every parameter is trained."""
    return {
        "gradients": law.gradient_bytes(parameters=count, element_bytes=width),
        "optimizer": law.optimizer_bytes(parameters=count),
        "master weights": law.master_bytes(parameters=count, element_bytes=width),
    }


def _adapted(count: int) -> dict[str, int]:
    """Adapters in float32 with their states."""
    return {
        "adapters": count * _FLOAT32,
        "gradients": law.gradient_bytes(parameters=count, element_bytes=_FLOAT32),
        "optimizer": law.optimizer_bytes(parameters=count),
    }


def lighter_bytes(spec: ModelSpec, setting: Setting) -> int:
    """What full training in 16 bits saves, on one device, when moments are kept in 16 bits too and there is no master copy."""
    if setting.mode != "full" or setting.element_bytes == _FLOAT32:
        return 0
    count = spec.parameters_total
    states = law.optimizer_bytes(parameters=count) // 2 + law.master_bytes(parameters=count, element_bytes=setting.element_bytes)
    return up(states, setting.devices)


def unchecked_bytes(activation: Activation, tokens: int, batch: int) -> int:
    """What more is kept, on one device, without gradient checkpointing."""
    without = activation.training(tokens, batch, checkpointing=False)
    return sum(without.values()) - sum(activation.training(tokens, batch).values())
