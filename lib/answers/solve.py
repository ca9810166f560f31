"""The shape of `/solve`."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.answers.common import Answer


class MaximumEntry(TypedDict):
    """The most that is possible; 0: not even one, null: nothing bounds it.

    `limited_by`: what one more would pass: memory, model, engine, ttft, speed, zerogpu or nothing.
    """

    value: int | None
    limited_by: str
    message: str


class PrecisionTryEntry(TypedDict):
    """One precision of the weights: whether it fits, and whether it meets the limits; speed is null where it is not predicted."""

    precision: str
    fits: bool
    meets_limits: bool
    weights_bytes: int
    per_device_bytes: int
    ttft_s: float | None
    tokens_per_s: float | None


class CheapestTierEntry(TypedDict):
    """The offer with the lowest price per hour that does the work within the limits, all its machines together."""

    hardware: str
    platform: str
    name: str
    precision: str
    engine: str
    replicas: int
    usd_per_hour: float
    ttft_s: float | None
    tokens_per_s: float | None


class MemorySavingEntry(TypedDict):
    """A way to take less memory: bytes that a device saves, whether it fits then, and seconds after / before (null: not predicted)."""

    code: str
    message: str
    effect: str
    saved_bytes: int
    per_device_bytes: int
    fits: bool
    tpot_ratio: float | None
    ttft_ratio: float | None
    needs: dict[str, str | int]


class SolveAnswer(Answer):
    """What hardware takes of a model at most, within limits on the first token and on speed.

    Bytes are those of the fullest device for what was asked, which `fits` and `meets_limits` judge; the engine runs `copies` of the model,
    each on `devices`. `precisions` go from most bytes to fewest; `best_precision` is the first of them that fits and keeps the limits.
    """

    model: str
    hardware: str
    platform: str
    name: str
    precision: str
    engine: str
    devices: int
    copies: int
    context_tokens: int
    concurrency: int
    fits: bool
    meets_limits: bool
    per_device_bytes: int
    capacity_bytes: int
    free_bytes: int
    ttft_s: float | None
    tokens_per_s: float | None
    longest_context: MaximumEntry
    most_requests: MaximumEntry
    largest_batch: MaximumEntry
    best_precision: str | None
    precisions: list[PrecisionTryEntry]
    cheapest: CheapestTierEntry | None
    memory_savings: list[MemorySavingEntry]
