"""What is refused before a run, with the arithmetic: more memory than the device has free, more time than a run may take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lib.errors import DoesNotFit, TooLong
from lib.units import GIB

if TYPE_CHECKING:
    from lib.live.device import Device
    from lib.live.pace import Duration, Pace, Work

LIMIT_S = {"cpu": 120.0, "cuda": 120.0, "zerogpu": 60.0}
"""Seconds that a run is estimated to take at most, by kind of device."""
OVERRUN = 2.0
START_S = 60.0
"""A run is ended when it takes `OVERRUN` times its limit, and `START_S` for Python, torch and transformers on a busy machine."""
SHARE = {"cpu": 0.9, "cuda": 0.95, "zerogpu": 0.95}
"""Of the free memory: the rest is for what else happens meanwhile, and for the allocator's own rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that a run is predicted to take, by part; `runtime_bytes` is the process's own."""

    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    runtime_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.weights_bytes + self.kv_cache_bytes + self.activation_bytes + self.runtime_bytes


def _gib(count: float) -> str:
    return f"{count / GIB:,.2f} GiB"


def room(device: Device) -> int:
    """Bytes that a run may take on the device now."""
    return int(device.free_bytes * SHARE[device.kind])


def free_for(need: Need, device: Device) -> int:
    """The least free memory in which `check_memory` lets a run start."""
    return math.ceil(need.total_bytes / SHARE[device.kind]) + 1  # `room` rounds down


def check_memory(need: Need, device: Device, advice: str) -> None:
    """Refuse what is predicted not to fit.

    Args:
        need: the prediction.
        device: as it is now.
        advice: what would fit instead, a sentence.

    Raises:
        DoesNotFit: with the arithmetic.
    """
    allowed = room(device)
    if need.total_bytes > allowed:
        raise DoesNotFit(
            f"This run needs {_gib(need.total_bytes)}: weights {_gib(need.weights_bytes)} + cache {_gib(need.kv_cache_bytes)} + "
            f"activations {_gib(need.activation_bytes)} + process {_gib(need.runtime_bytes)}. {device.name} has {_gib(device.free_bytes)} "
            f"free, of which a run may take {_gib(allowed)}. {advice}"
        )


def check_time(work: Work, pace: Pace, needed: Duration, limit_s: float) -> None:
    """Refuse what takes longer than a run may.

    Raises:
        TooLong: with the arithmetic, and the longest prompt that would do.
    """
    if needed.total_s <= limit_s:
        return
    rest = limit_s - needed.weights_s - needed.decode_s
    tokens = int(rest * pace.flop_per_s / (2 * work.parameters_per_token)) - 32
    instead = f"A prompt of {tokens:,} tokens would do" if tokens > 0 else "Name a smaller model, or ask for fewer tokens"
    raise TooLong(
        f"This run would take about {needed.total_s:,.0f} s: {needed.weights_s:,.0f} s to make {_gib(work.weights_bytes)} of weights, "
        f"{needed.prompt_s:,.0f} s for {work.prompt_tokens:,} prompt tokens × {2 * work.parameters_per_token / 1e9:,.2f} GFLOP at "
        f"{pace.flop_per_s / 1e9:,.0f} GFLOP/s, {needed.decode_s:,.0f} s for {work.output_tokens:,} tokens × {_gib(work.step_bytes)} at "
        f"{pace.bytes_per_s / 1e9:,.1f} GB/s (both measured on this device just now). A run may take {limit_s:,.0f} s. {instead}."
    )
