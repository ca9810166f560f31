"""What the stacks of fine-tuning do by themselves, each with its own defaults: traits, not constants.

fuses_loss(TrainingRequest(stack="trl"))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from lib.laws.activation import FLOAT32
from lib.workload import Optimizer, Stack

if TYPE_CHECKING:
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
