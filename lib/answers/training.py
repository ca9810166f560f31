"""The shape of `/estimate_training`."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.answers.common import Answer


class TrainingPartEntry(TypedDict):
    """What holds so many bytes of the fullest device at the fullest moment of a step."""

    name: str
    bytes: int


class TrainingOptionEntry(TypedDict):
    """A training on one piece of hardware; `platform` is "own" for a card of one's own. Null where nothing is published to derive it from.

    `verdict` is "fits" where even the high value of what a device needs does, "risky" where the typical one does, "no" otherwise.
    `usd` and `hours` are for all tokens. `mfu` is the share of the dense peak that the model's own FLOPs reach.
    """

    hardware: str
    platform: str
    name: str
    accelerator: str
    devices: int
    verdict: str
    capacity_bytes: int
    needed_bytes: int
    longest_sequence_tokens: int
    largest_micro_batch: int
    tokens_per_s_low: float | None
    tokens_per_s: float | None
    tokens_per_s_high: float | None
    mfu: float | None
    hours: float | None
    usd_per_hour: float | None
    usd: float | None


class ChangeEntry(TypedDict):
    """Something to change: what it saves on the fullest device, what that then needs, and its speed as a share of today's."""

    code: str
    message: str
    saved_bytes: int
    device_bytes: int
    speed_ratio: float | None


class TrainingAnswer(Answer):
    """What a training step takes, by part, and where, how fast and for how much it runs.

    `parts` add up to `device_bytes`. Allocated is what tensors hold, reserved what the allocator takes for them, device reserved and the
    CUDA context: it decides whether a step fits. `host_bytes` lie in the host's memory. `command` and
    `script` are null where no flavor of Jobs fits, with sharding, for text encoders, and for models without a Hub id.
    """

    model: str
    method: str
    stack: str
    optimizer: str
    precision: str
    weights_format: str
    checkpointing: str
    sharding: str
    devices: int
    trained_parameters: int
    tokens_per_step: int
    total_tokens: int
    steps: int
    parts: list[TrainingPartEntry]
    allocated_bytes: int
    reserved_low_bytes: int
    reserved_bytes: int
    reserved_high_bytes: int
    device_low_bytes: int
    device_bytes: int
    device_high_bytes: int
    host_bytes: int
    options: list[TrainingOptionEntry]
    changes: list[ChangeEntry]
    command: str | None
    script: str | None
