"""What the stacks of fine-tuning do by themselves, each with its own defaults: traits, not constants.

fuses_loss(TrainingRequest(stack="trl"))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from lib.workload import Optimizer, Stack

if TYPE_CHECKING:
    from lib.workload import TrainingRequest


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


def fuses_loss(request: TrainingRequest) -> bool:
    """Whether the logits of all tokens are never held at once: as asked, else as the stack does by itself."""
    return STACK_TRAITS[request.stack].fused_loss if request.fused_loss is None else request.fused_loss
