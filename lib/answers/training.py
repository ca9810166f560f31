"""The answer of `/estimate_training`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from lib.memory.training import TrainingMemory
from lib.provenance import Answer
from lib.result import ABSENT, Result, Usd
from lib.speed.own_training import OwnTraining
from lib.speed.phases import TrainingPhase
from lib.speed.shardings import ShardingOption
from lib.speed.training_hardware import TrainingOption


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPartEntry(Result):
    """A part of the fullest device at the fullest moment of a step."""

    name: str
    """The tensors that hold the bytes."""
    bytes: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingChangeEntry(Result):
    """A change that saves memory."""

    code: str
    """A stable code."""
    message: str
    """The change, as a sentence."""
    saved_bytes: int
    """Bytes that it saves on the fullest device."""
    device_bytes: int
    """Bytes that the fullest device then needs."""
    speed_ratio: float | None
    """Speed as a share of today's; null if not predicted."""
    hardware: str | None = None
    """Hardware that is too small today and fits after the change, if the run then costs less than on the first of `options`; else null."""
    platform: str | None = None
    """Platform of that hardware."""
    name: str | None = None
    """Its name for people."""
    usd: Usd | None = None
    """Price of the whole run there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingEntry(ShardingOption):
    """A way to share the states over GPUs, with its sentence."""

    message: str
    """GPUs, sharding and bytes as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingAnswer(Answer):
    """A training step in memory by part, and the hardware that runs the training, with hours and dollars."""

    model: str
    """Id of the model; empty without one."""
    method: str
    """full, lora, dora, qlora or lora-8bit."""
    objective: str
    """sft, dpo, kto, reward, orpo, grpo, contrastive, contrastive-cached, rerank or classify."""
    stack: str
    """Training stack."""
    optimizer: str
    """Optimizer."""
    precision: str
    """mixed, bf16 or fp32."""
    weights_format: str
    """Number format of the frozen or trained weights."""
    checkpointing: str
    """none, layers or offloaded."""
    sharding: str
    """How several devices share the states."""
    devices: int
    """Devices that train together."""
    trained_parameters: int
    """Parameters that are trained."""
    tokens_per_step: int
    """Tokens of an optimizer step, at most."""
    total_tokens: int
    """Tokens over all epochs."""
    steps: int
    """Optimizer steps."""
    longest_row_tokens: int
    """Tokens of a row in the longest batch, which decides `device_bytes`; the upper bounds count rows of `sequence_tokens`."""
    parts: tuple[TrainingPartEntry, ...]
    """Parts of `device_bytes`; they add up to it."""
    allocated_bytes: int
    """Bytes that tensors hold."""
    reserved_low_bytes: int
    """Lower bound of the reserved bytes."""
    reserved_bytes: int
    """Bytes that the allocator takes for the tensors."""
    reserved_high_bytes: int
    """Upper bound of the reserved bytes."""
    device_low_bytes: int
    """Lower bound of the device's bytes."""
    device_bytes: int
    """Reserved bytes and the CUDA context: they decide whether a step fits."""
    device_high_bytes: int
    """Upper bound of the device's bytes."""
    host_bytes: int
    """Bytes in the host's memory."""
    options: tuple[TrainingOption, ...]
    """Hardware that trains it: first what fits, then by the price of the whole training."""
    own: Annotated[OwnTraining | None, ABSENT] = None
    """The cards of `own_hardware`, if it names any."""
    phases: tuple[TrainingPhase, ...]
    """Phases of a step: bytes of each and its share of the time."""
    shardings: tuple[ShardingEntry, ...]
    """Ways to share the states over GPUs: for each the hardware with the lowest price that holds the training, and how many GPUs."""
    changes: tuple[TrainingChangeEntry, ...]
    """Changes that save memory."""
    picture_tokens: int = 0
    """Tokens of an example's pictures, in addition to the `sequence_tokens` that were asked for; other counts of tokens contain them."""
    encoder_positions: int = 0
    """Positions that the encoder of pictures or sound reads for an example; 0 without one."""
    trained_encoder: str = ""
    """Part of that encoder that is trained: no, projector or yes; empty without one."""
    server_command: str | None
    """GRPO with vllm-server: the command that starts vLLM by hand; the script starts it by itself. Null otherwise and without a Hub id."""
    command: str | None
    """Command that starts the script on your cards if they train it, else on the first of `options` that does: a Job if Jobs rents that
    hardware, else a line for the machine itself. Null if nothing fits, without a Hub id, and if no script is written: for KTO, supervised
    training of a text encoder, several machines, and some settings of picture models."""
    script: str | None
    """Script that the command runs; null with it."""


def describe_step(step: TrainingMemory) -> dict[str, Any]:
    """The fields of `TrainingAnswer` that the memory of a step fills in."""
    return {
        "parts": tuple(TrainingPartEntry(name=name, bytes=size) for name, size in step.parts.items()),
        "weights_format": step.precision,
        "trained_parameters": step.trained_parameters,
        "tokens_per_step": step.tokens_per_step,
        "allocated_bytes": step.allocated_bytes,
        "host_bytes": step.host_bytes,
        "reserved_low_bytes": step.reserved.low,
        "reserved_bytes": step.reserved.typical,
        "reserved_high_bytes": step.reserved.high,
        "device_low_bytes": step.device.low,
        "device_bytes": step.device.typical,
        "device_high_bytes": step.device.high,
    }
