"""What a measurement says of the prediction it stands beside, in one word and one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal["confirmed", "memory_off", "speed_off", "invalid"]

MEMORY_WITHIN = 0.10
"""Of the measured peak: what the prediction of memory promises."""
RESOLUTION = 16 * 2**20
"""Bytes below which a resident set tells nothing: pages of libraries, Python's heap, kernels' scratch. Seen: 11 to 19 MiB on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRate:
    """A prediction with its range, and what was measured; None where either is missing."""

    predicted: float | None
    low: float | None
    high: float | None
    measured: float | None

    @property
    def inside(self) -> bool | None:
        """Whether the measurement lies in the range; None where one is missing."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


def _deviation_words(error: float) -> str:
    return f"{abs(error):.1%} {'more' if error > 0 else 'less'} than was measured"


def _speed(rate: ComparedRate) -> str:
    if rate.measured is None:
        return "Nothing is decoded by this model: the first figure is the whole pass."
    if rate.inside is None or rate.predicted is None:
        return f"Decoding: {rate.measured:,.1f} tokens/s, nothing predicted for this device."
    where = "inside" if rate.inside else "outside"
    return (
        f"Decoding: {rate.measured:,.1f} tokens/s, {where} the predicted range of {rate.low:,.1f} to {rate.high:,.1f} "
        f"({rate.predicted:,.1f} expected)."
    )


def judge_prediction(
    predicted: int, measured: int, rate: ComparedRate, *, floor_tokens_per_s: float | None, resolution: int
) -> tuple[Code, str]:
    """A code and its sentence.

    Args:
        predicted: peak of memory, in bytes.
        measured: the same.
        rate: tokens a second while decoding.
        floor_tokens_per_s: the most that the memory's bandwidth allows, where the datasheet states it.
        resolution: bytes that the measurement of memory cannot tell apart.
    """
    if floor_tokens_per_s is not None and rate.measured is not None and rate.measured > floor_tokens_per_s:
        said = (
            f"{rate.measured:,.1f} tokens/s is more than the {floor_tokens_per_s:,.1f} that the device's memory bandwidth allows when "
            "every step reads the weights: the clock, not the device, is wrong, and this measurement counts for nothing."
        )
        return "invalid", said
    error, apart = predicted / max(1, measured) - 1, abs(predicted - measured)
    close = abs(error) <= MEMORY_WITHIN
    unclear = not close and apart <= resolution
    memory = f"Memory: predicted {_deviation_words(error)}"
    if close:
        memory += f", inside the promised {MEMORY_WITHIN:.0%}"
    if unclear:
        memory += f"; the {apart / 2**20:,.1f} MiB between them are below what can be told apart here ({resolution / 2**20:,.0f} MiB)"
    code: Code = "memory_off" if not close and not unclear else "speed_off" if rate.inside is False else "confirmed"
    return code, f"{memory}. {_speed(rate)}"
