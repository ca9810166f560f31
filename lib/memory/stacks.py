"""Training stacks, a row each: their loss, their adapters, their optimizers, and whether they train on several GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from lib.laws.activation import FLOAT32, HALF
from lib.precision import INT8_BASE, QLORA
from lib.request.objectives import OBJECTIVE_TRAITS
from lib.request.sharding import SHARDING_TRAITS
from lib.workload import Optimizer, Stack

if TYPE_CHECKING:
    from lib.workload import TrainingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StackTraits:
    """Behaviour of a training stack by default.

    `fused_loss`: logits of all tokens are never held at once. `casts`: adapters are in float32 and cast their input. `upcasts`: with
    QLoRA, tensors that are not quantized are put into float32 (peft's `prepare_model_for_kbit_training`). `half_adapters`: with QLoRA,
    adapters are put into bf16 and cast nothing (TRL, trl/trainer/sft_trainer.py at f2cd57710, 2026-07-24, which does not call peft's
    function). `experts_in_4_bits`: with QLoRA, fused experts too, which bitsandbytes by itself leaves in 16 bits; "stored" only where the
    checkpoint stores them in 4 bits (Unsloth loads gpt-oss-20b in 12.98 GiB on a T4, and gemma-4-26B-A4B in 46.4 GiB: notebooks of
    2026-08-18).
    """

    name: str
    fused_loss: bool
    casts: bool
    upcasts: bool
    half_adapters: bool
    experts_in_4_bits: Literal["never", "stored", "always"]
    optimizers: frozenset[Optimizer]
    shards: bool
    int8: bool
    """Whether it trains adapters over weights in 8 bits."""
    modelled: Literal["every objective", "sft", "nothing"] = "sft"
    """The objectives whose figures are its own; for any other those of TRL are shown."""


_TORCH: frozenset[Optimizer] = frozenset({"adamw", "adamw_foreach", "sgd"})
_BNB: frozenset[Optimizer] = frozenset({"adamw_8bit", "paged_adamw", "paged_adamw_8bit"})
_TRAINER: frozenset[Optimizer] = frozenset({*_TORCH, *_BNB, "adafactor"})
_WITH_MUON: frozenset[Optimizer] = frozenset({*_TRAINER, "muon"})


def _stack(
    name: str, optimizers: frozenset[Optimizer], *, experts_in_4_bits: Literal["never", "stored", "always"] = "never", **does: bool
) -> StackTraits:
    never = dict.fromkeys(("fused_loss", "casts", "upcasts", "half_adapters", "shards", "int8"), False)
    return StackTraits(name=name, optimizers=optimizers, experts_in_4_bits=experts_in_4_bits, modelled="sft", **{**never, **does})


_TRL = _stack("TRL with its fused loss", _TRAINER, fused_loss=True, casts=True, half_adapters=True, shards=True, int8=True)

STACK_TRAITS: Mapping[Stack, StackTraits] = MappingProxyType(
    {
        "transformers": _stack("transformers Trainer", _TRAINER, casts=True, upcasts=True, shards=True, int8=True),
        "trl": replace(_TRL, modelled="every objective"),
        "unsloth": _stack("Unsloth", _TRAINER, fused_loss=True, experts_in_4_bits="stored", int8=True),
        "ms-swift": _stack("ms-swift", _WITH_MUON, casts=True, upcasts=True, shards=True, int8=True),
        "axolotl": _stack("axolotl", _WITH_MUON, fused_loss=True, casts=True, experts_in_4_bits="always", shards=True, int8=True),
        "torchtune": _stack("torchtune", _TORCH | _BNB, fused_loss=True, shards=True),
        "llama-factory": replace(_TRL, name="LLaMA-Factory", modelled="nothing"),
        "openrlhf": replace(_TRL, name="OpenRLHF", modelled="nothing"),
        "verl": replace(_TRL, name="veRL", modelled="nothing"),
        "nemo-rl": replace(_TRL, name="NeMo RL", modelled="nothing"),
    }
)


SPEECH_STACK: Stack = "transformers"
"""The stack that trains speech models: TRL has no trainer for them."""


def is_modelled(request: TrainingRequest) -> bool:
    """Whether the figures of this stack and objective are the stack's own."""
    modelled = STACK_TRAITS[request.stack].modelled
    return modelled == "every objective" or (modelled == "sft" and request.objective == "sft")


def quantized_base(request: TrainingRequest) -> str | None:
    """The format of base weights that bitsandbytes holds in fewer bits; None for other methods."""
    return {"qlora": QLORA[request.double_quantization], "lora-8bit": INT8_BASE}.get(request.method)


def adapter_bytes(request: TrainingRequest) -> tuple[int, int]:
    """Bytes of an element of the adapters, and of their cast input: 0 if they do not cast."""
    traits = STACK_TRAITS[request.stack]
    if request.quantizes and traits.half_adapters and not request.fp16:
        return HALF, 0
    if not traits.casts:
        return HALF if request.precision == "bf16" else FLOAT32, 0
    if request.shards_weights and request.precision == "mixed":
        return FLOAT32, 0  # FSDP gathers adapters in 16 bits, so they read their input as it is
    return FLOAT32, HALF if request.precision == "mixed" else FLOAT32  # autocast casts to 16 bits


def fuses_loss(request: TrainingRequest) -> bool:
    """Whether the logits of all tokens are never held at once: as asked, else as the stack does by itself."""
    return STACK_TRAITS[request.stack].fused_loss if request.fused_loss is None else request.fused_loss


def autocasts_stream(request: TrainingRequest) -> bool:
    """Whether autocast leaves the stream between layers in float32; FSDP and DeepSpeed cast the parameters, so it is in 16 bits there."""
    traits = SHARDING_TRAITS[request.sharding]
    return request.method == "full" and request.precision == "mixed" and not (traits.weights or traits.states)


def holds_logits(request: TrainingRequest) -> bool:
    """Whether the logits of all tokens of a micro-batch are held at once; of rollouts those of each new token."""
    loss = OBJECTIVE_TRAITS[request.objective].loss
    return request.samples or loss == "logits" or (loss == "tokens" and not fuses_loss(request))
