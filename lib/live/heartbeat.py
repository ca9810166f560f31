"""The heartbeat: one matrix product timed over and over, and the time that it cannot beat.

    y[b, i] = x[b, h] @ w[h, i]        FLOPs = 2 · b · h · i        bytes = s · (b·h + h·i + b·i)

    floor = max( (bytes − cache) / bandwidth ,  FLOPs / peak )          efficiency = floor / median

b batch, h hidden, i intermediate, s bytes per element. Each of the three matrices crosses the memory's bus once at least, except what the
cache still held from the iteration before (`cache`, the last level's whole size; a measured bandwidth counts caches by itself).
A time below the floor did not wait for the work: a device that computes asynchronously hands the call back at once, and a clock
stopped there has timed the dispatch. So such a result is called invalid, never fast.

Source: Williams, Waterman, Patterson 2009, "Roofline", doi:10.1145/1498765.1498785. This file is the arithmetic;
`lib.live.heartbeat_run` runs it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lib.catalog.silicon import Accelerator
from lib.laws.forward_pass import Floor, roofline
from lib.provenance import Source

Dtype = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[Dtype, ...] = ("float32", "float16", "bfloat16")
ELEMENT_BYTES: dict[Dtype, int] = {"float32": 4, "float16": 2, "bfloat16": 2}
SHORT: dict[Dtype, str] = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
"""The catalog's names of the types."""


UNKNOWN_CACHE_BYTES = 256 * 2**20
"""The last cache of a GPU whose data sheet states none: as large as any that is built (MI300X, 256 MiB), so the floor stays one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulCase:
    """The shapes that are multiplied, and the number of products."""

    batch: int = 128
    hidden: int = 4096
    intermediate: int = 16384
    iterations: int = 100
    warmup: int = 5
    dtype: Dtype = "float32"

    @property
    def flops(self) -> int:
        """Floating-point operations of one product: a multiplication and an addition per term."""
        return 2 * self.batch * self.hidden * self.intermediate

    @property
    def weight_bytes(self) -> int:
        """Bytes of w."""
        return ELEMENT_BYTES[self.dtype] * self.hidden * self.intermediate

    @property
    def moved_bytes(self) -> int:
        """Bytes that one product reads and writes at least: x and w once, y once."""
        return self.weight_bytes + ELEMENT_BYTES[self.dtype] * self.batch * (self.hidden + self.intermediate)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRoof:
    """What bounds a device: bytes/s, FLOP/s where a peak is known, bytes of cache that need not be read again, and where it is from.

    `measured` marks a bandwidth that was measured here instead of read in a datasheet.
    """

    bandwidth: float
    peak: float | None
    cache_bytes: int
    measured: bool
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulTimes:
    """Seconds of the first product, before anything was warm, and of each one after the warm-up."""

    cold_first_s: float
    warm_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """The verdict. `p95_s` is the nearest rank: the shortest time that at least 95 % of the warm iterations did not exceed.

    `valid` is false when any time lies below the floor; then `efficiency` is None, for it would be a share above one.
    """

    mean_s: float
    median_s: float
    p95_s: float
    min_s: float
    cold_first_s: float
    achieved_flops_per_s: float
    floor: Floor
    efficiency: float | None
    valid: bool


def datasheet_roof(silicon: Accelerator, dtype: Dtype, *, tf32: bool = False) -> DeviceRoof:
    """The roof of a card or chip by its datasheet.

    Where the type has no unit of its own the fastest floating-point unit stands in: nothing on the chip is faster, so the floor stays
    a floor. `tf32` says that float32 is multiplied in TF32, which torch leaves off unless told otherwise.
    """
    name = "tf32" if tf32 and dtype == "float32" else SHORT[dtype]
    peak = silicon.peak(name) or silicon.fastest("fp32", "tf32", "fp16", "bf16")
    return DeviceRoof(
        bandwidth=silicon.bandwidth,
        peak=peak,
        cache_bytes=UNKNOWN_CACHE_BYTES if silicon.l2 is None and silicon.kind == "gpu" else silicon.l2 or 0,
        measured=False,
        sources=silicon.sources,
    )


def floor(case: MatmulCase, roof: DeviceRoof) -> Floor:
    """The time that one product of the case takes at least."""
    crossing = max(0, case.moved_bytes - roof.cache_bytes)
    return roofline(moved_bytes=crossing, flop=case.flops, bandwidth=roof.bandwidth, peak=roof.peak)


def nearest_rank(times: Sequence[float], share: float) -> float:
    """The shortest of the times that at least this share of them does not exceed; `times` is not empty."""
    ordered = sorted(times)
    rank = -(-share * len(ordered) // 1)  # rounded up
    return ordered[max(0, int(rank) - 1)]


def judge_times(case: MatmulCase, times: MatmulTimes, least: Floor) -> HeartbeatResult:
    """The figures of a run, and whether it can be believed."""
    median = statistics.median(times.warm_s)
    shortest = min(*times.warm_s, times.cold_first_s)
    valid = shortest >= least.seconds
    return HeartbeatResult(
        mean_s=statistics.fmean(times.warm_s),
        median_s=median,
        p95_s=nearest_rank(times.warm_s, 0.95),
        min_s=min(times.warm_s),
        cold_first_s=times.cold_first_s,
        achieved_flops_per_s=case.flops / median if median > 0 else 0.0,
        floor=least,
        efficiency=least.seconds / median if valid and least.seconds > 0 else None,
        valid=valid,
    )
