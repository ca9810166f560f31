"""How much memory a configuration leaves free on the fullest device of an offer."""

from __future__ import annotations

from dataclasses import dataclass

from lib.advisor.tasks import Family
from lib.memory import MemoryEstimate
from lib.units import GIB

COMFORT = 0.10
"""Share of a device that stays free in a comfortable fit: fragmentation of the allocator, longer prompts, other libraries."""

# Peak beyond the weights of pipelines that draw, where the estimate has no trace of them: decoding the picture dominates.
# CogVideoX 2b and 5b, bf16 and int8, 49 frames of 480 x 720 on A100: 24.53 - 12.55, 31.75 - 19.76, 22.29 - 10.30 = 12.0 GiB each.
# FLUX.1-dev bf16, 1024 px on H100: 36.17 GiB less 31.42 GiB of weights; the largest of the published pipelines for pictures.
# github.com/sayakpaul/diffusers-torchao at 9b9f238 (2024-09)
WORKING_BYTES = {"video": 12 * GIB, "image": int(4.75 * GIB)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Memory of a configuration against the capacity of one device; `working_bytes` were added for the pipeline."""

    memory: MemoryEstimate
    needed_bytes: int
    capacity_bytes: int
    working_bytes: int

    @property
    def free_bytes(self) -> int:
        """What stays free on the fullest device; negative when it does not fit."""
        return self.capacity_bytes - self.needed_bytes

    @property
    def fits(self) -> bool:
        """Whether it fits at all."""
        return self.free_bytes >= 0

    @property
    def comfortable(self) -> bool:
        """Whether a tenth stays free, and even the high end of the estimate fits."""
        high = self.needed_bytes * self.memory.high_bytes / max(1, self.memory.total_bytes)
        return self.free_bytes >= COMFORT * self.capacity_bytes and high <= self.capacity_bytes


def measure_headroom(memory: MemoryEstimate, capacity_bytes: int, family: Family) -> Headroom:
    """What this estimate leaves free on a device of this capacity."""
    working = max(0, WORKING_BYTES.get(family, 0) - memory.activation.bytes)
    return Headroom(memory=memory, needed_bytes=memory.per_device_bytes + working, capacity_bytes=capacity_bytes, working_bytes=working)
