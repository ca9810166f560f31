"""The heartbeat: one matrix product timed over and over on this device, and the time that it cannot beat.

    y[b, i] = x[b, h] @ w[h, i]        FLOPs = 2 · b · h · i        bytes = s · (b·h + h·i + b·i)

    floor = max( (bytes − cache) / bandwidth ,  FLOPs / peak )          efficiency = floor / median

b batch, h hidden, i intermediate, s bytes per element. Each of the three matrices is moved at least once, except the part that
the cache keeps from the iteration before (`cache`, the size of the last level; a measured bandwidth already includes caches).
A time below the floor did not wait for the work: a device that computes asynchronously returns from the call at once, and the clock
measures the dispatch only. Such a result is called invalid, never fast.

The device computes the products; each is timed, and every result is used. Each product's sum is added to the next input (times
zero, which no compiler may drop from floating-point arithmetic), and all sums must equal what the inputs imply: Σ y = (Σ_b x) · (Σ_i w).
Inputs are uniform in [0, 1), so that the sum is far from zero and half precision does not overflow.

On a card of the catalog the floor comes from the datasheet. On a CPU or an unknown card the memory bandwidth is measured afterwards
(`lib.live.limits.read_bandwidth`). A matrix product may read slightly faster than that measurement, hence `MARGIN`.
Source: Williams, Waterman, Patterson 2009, "Roofline", doi:10.1145/1498765.1498785.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from lib import precision
from lib.answers.live import HeartbeatFigures, HeartbeatProgress
from lib.catalog.silicon import Accelerator
from lib.errors import DoesNotFit, LiveError, TooLong
from lib.laws.forward_pass import Floor, roofline
from lib.live.limits import read_bandwidth
from lib.live.zerogpu import gpu_task, release_memory, start_seconds
from lib.provenance import Source
from lib.request.fields import Request, one_of, whole_number
from lib.units import GIB, MIB

if TYPE_CHECKING:
    import torch

    from lib.live.device import Device

Dtype = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[Dtype, ...] = ("float32", "float16", "bfloat16")
SHORT: dict[Dtype, str] = {name: precision.DTYPES[name] for name in DTYPES}
"""The catalog's names of the types."""
ELEMENT_BYTES: dict[Dtype, int] = {"float32": 4, "float16": 2, "bfloat16": 2}


MAX_BATCH = 65_536
MAX_SIDE = 131_072  # the sum of so many products of inputs in [0, 1) is about a fourth of it, which float16 can hold
MAX_ITERATIONS = 10_000
MAX_WARMUP = 1_000
UNKNOWN_CACHE_BYTES = 256 * MIB
"""Last-level cache of a GPU whose datasheet states none: the largest that is built (MI300X), so that the floor stays a lower bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulCase(Request):
    """The shapes that are multiplied, and the number of products."""

    batch: Annotated[int, whole_number(1, MAX_BATCH)] = 128
    """Rows of x."""
    hidden: Annotated[int, whole_number(1, MAX_SIDE)] = 4096
    """Columns of x and rows of w."""
    intermediate: Annotated[int, whole_number(1, MAX_SIDE)] = 16384
    """Columns of w."""
    iterations: Annotated[int, whole_number(3, MAX_ITERATIONS)] = 100
    """Warm products to time; fewer where time runs out."""
    warmup: Annotated[int, whole_number(0, MAX_WARMUP)] = 5
    """Products that are run but not counted, after the first."""
    dtype: Annotated[Dtype, one_of(DTYPES, Dtype)] = "float32"
    """float32, float16 or bfloat16."""

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
    """Ceilings of a device: bytes/s, FLOP/s if a peak is known, bytes of cache that need not be read again, and the sources.

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


def datasheet_roof(silicon: Accelerator, dtype: Dtype, *, tf32: bool = False) -> DeviceRoof:
    """The roof of a card or chip by its datasheet.

    If the type has no unit of its own, the fastest floating-point unit counts, so that the floor stays a lower bound. `tf32`: float32 is
    multiplied in TF32, which is off in torch by default.
    """
    name = "tf32" if tf32 and dtype == "float32" else SHORT[dtype]
    return DeviceRoof(
        bandwidth=silicon.bandwidth,
        peak=silicon.limit(name),
        cache_bytes=UNKNOWN_CACHE_BYTES if silicon.l2 is None and silicon.kind == "gpu" else silicon.l2 or 0,
        measured=False,
        sources=silicon.sources,
    )


def floor(case: MatmulCase, roof: DeviceRoof) -> Floor:
    """The time that one product of the case takes at least."""
    crossing = max(0, case.moved_bytes - roof.cache_bytes)
    return roofline(moved_bytes=crossing, flop=case.flops, bandwidth=roof.bandwidth, peak=roof.peak)


def nearest_rank(times: Sequence[float], share: float) -> float:
    """The percentile `share` of the times by the nearest-rank method; `times` is not empty."""
    ordered = sorted(times)
    rank = -(-share * len(ordered) // 1)  # rounded up
    return ordered[max(0, int(rank) - 1)]


def judge_times(case: MatmulCase, times: MatmulTimes, least: Floor) -> HeartbeatFigures:
    """The figures of a run, and whether it can be believed."""
    median = statistics.median(times.warm_s)
    shortest = min(*times.warm_s, times.cold_first_s)
    valid = shortest >= least.seconds
    return HeartbeatFigures(
        mean_s=statistics.fmean(times.warm_s),
        median_s=median,
        p95_s=nearest_rank(times.warm_s, 0.95),
        min_s=min(times.warm_s),
        cold_first_s=times.cold_first_s,
        achieved_flops_per_s=case.flops / median if median > 0 else 0.0,
        efficiency=least.seconds / median if valid and least.seconds > 0 else None,
        valid=valid,
    )


MIN_ITERATIONS = 3
"""Warm products that a result needs at least."""
_TOLERANCE = 0.01
_REPORT_EVERY_S = 0.1
_PROBE_FLOPS = {"cpu": 2**30, "cuda": 2**34}
_EMULATED_PROBE_FLOPS = 2**26
_PROBED_FROM = 16  # a case this many times the probe is short enough to be run without one


Timer = Callable[[Callable[[], "torch.Tensor"]], tuple["torch.Tensor", float]]
"""Runs the work; its result and the seconds that the device took for it. It returns after the device has finished."""


def host_timer(wait: Callable[[], object], now_ns: Callable[[], int] = time.perf_counter_ns) -> Timer:
    """The host's clock around the work and `wait`, which returns when the device has done all that it was given."""

    def time_work(work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
        began = now_ns()
        result = work()
        wait()
        return result, (now_ns() - began) / 1e9

    return time_work


def time_on_cuda(work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
    """Time by two events on the device's stream, so host time is not counted. Waits for the device after each product."""
    import torch  # noqa: PLC0415 loaded when first needed

    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begun.record()
    result = work()
    ended.record()
    torch.cuda.synchronize()
    return result, begun.elapsed_time(ended) / 1e3


def synchronizer(device: torch.device) -> Callable[[], object]:
    """Waits until the device has done all its work."""
    import torch  # noqa: PLC0415 loaded when first needed

    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


def is_emulated(case: MatmulCase, device: torch.device, capability: tuple[int, int] | None) -> bool:
    """Whether the device emulates this type, which has no unit of its own: by converting, or element by element."""
    import torch  # noqa: PLC0415 loaded when first needed

    if case.dtype == "float32":
        return False
    if device.type == "cuda":
        return capability is not None and capability < ((8, 0) if case.dtype == "bfloat16" else (5, 3))
    half = ("_is_amx_fp16_supported",) if case.dtype == "float16" else ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return not any(getattr(torch.cpu, name, bool)() for name in half)  # bool() is false: a torch without the question


def check_time(case: MatmulCase, first_s: float, limit_s: float, *, how: str) -> None:
    """Refuse a run whose fewest products would take longer than it may."""
    needed = first_s * (MIN_ITERATIONS + 1)
    if needed > limit_s:
        raise TooLong(
            f"One product of {case.flops / 1e9:,.2f} GFLOP in {case.dtype} takes {first_s:,.2f} s on this device ({how}); the "
            f"{MIN_ITERATIONS + 1} that a result needs at least would take {needed:,.1f} s, and a run may take {limit_s:,.0f} s. Make "
            "batch, hidden or intermediate smaller, or choose another dtype."
        )


def _probe(case: MatmulCase, x: torch.Tensor, w: torch.Tensor, clock: Timer, limit_s: float, flops: int) -> None:
    """If the product could take long, time a small part of it first and refuse by that time.

    The corner is cut from the real matrices: how far apart their rows lie decides how fast they are read.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    if case.flops <= _PROBED_FROM * flops:
        return
    wide = max(1, flops // (2 * case.batch * case.hidden))
    batch = max(1, min(case.batch, flops // (2 * case.hidden * wide)))
    seconds = min(clock(lambda: torch.mm(x[:batch], w[:, :wide]))[1] for _ in range(2))
    part = batch * wide / (case.batch * case.intermediate)
    check_time(case, seconds / part, limit_s, how=f"by a corner of it, {part:.2g} of the whole")


def run_matmuls(
    case: MatmulCase,
    device: torch.device,
    *,
    limit_s: float,
    slow_type: bool = False,
    clock: Timer | None = None,
    now: Callable[[], float] = time.perf_counter,
) -> Iterator[HeartbeatProgress | MatmulTimes]:
    """Run the case and yield progress; the last item holds the times, fewer than requested if `limit_s` ends first.

    `slow_type` says that the type is emulated, so that the probe is small. Closing the generator ends the run and frees its memory.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    # Place the matrices, and probe on a small part whether the whole ends in time.
    clock = clock or (time_on_cuda if device.type == "cuda" else host_timer(synchronizer(device)))
    with torch.inference_mode():
        dtype = getattr(torch, case.dtype)
        x, w = (torch.rand(*shape, dtype=dtype, device=device) for shape in ((case.batch, case.hidden), (case.hidden, case.intermediate)))
        _probe(case, x, w, clock, limit_s, _EMULATED_PROBE_FLOPS if slow_type else _PROBE_FLOPS[device.type])
        first, total = x[0, 0].clone(), torch.zeros((), dtype=torch.float32, device=device)
        synchronizer(device)()
    # One cold product, the warm-up, then the measured ones.
    began, reported_s, cold, warm = now(), -math.inf, 0.0, list[float]()
    planned = 1 + case.warmup + case.iterations
    for done in range(planned):
        with torch.inference_mode():
            result, seconds = clock(lambda: torch.mm(x, w))
            total += result.sum(dtype=torch.float32)
            x[0, 0].copy_(first + 0.0 * total)
        if done == 0:
            check_time(case, seconds, limit_s, how="the first one, just now")
            cold = seconds
        elif done > case.warmup:
            warm.append(seconds)
        if now() - reported_s >= _REPORT_EVERY_S:
            reported_s = now()
            yield HeartbeatProgress(
                phase="cold" if done == 0 else "warm-up" if done <= case.warmup else "warm", done=done + 1, of=planned, last_s=seconds
            )
        if now() - began > limit_s and len(warm) >= MIN_ITERATIONS:
            break
    with torch.inference_mode():
        # Check the sum of the products against the sums of the factors.
        seen, expected = float(total) / (done + 1), float(x.sum(0, dtype=torch.float32) @ w.sum(1, dtype=torch.float32))
    if not abs(seen - expected) <= _TOLERANCE * abs(expected):
        raise LiveError(
            f"The device's results are wrong: each product should sum to {expected:.6g}, they summed to {seen:.6g}. Its times mean "
            "nothing. Restart the Space; if it happens again, the device is faulty."
        )
    yield MatmulTimes(cold_first_s=cold, warm_s=tuple(warm))


MARGIN = 1.25
"""The floor assumes memory a quarter faster than the fastest measured pass, because neighbours on a shared host may have slowed it down."""
LIMIT_S = {"cpu": 60.0, "cuda": 30.0, "zerogpu": 15.0}
"""Seconds that a run may take on each kind of device."""
_SHARE = {"cpu": 0.5, "cuda": 0.9, "zerogpu": 0.9}  # share of the free memory; on a CPU the app is in it too
_MEASURED_AT_MOST = 3  # times that a bandwidth is measured
_SLOWER = 10  # half a card that reaches a fifth of its peak takes ten times the floor
_MOST_ON_CPU = 4 * GIB  # making the matrices alone would take a CPU many seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRun:
    """A finished run: the figures, the roof and floor they are compared with, the number of products, and whether the type was emulated."""

    beat: HeartbeatFigures
    roof: DeviceRoof
    floor: Floor
    done: int
    emulated: bool
    in_tf32: bool


HeartbeatEvent = HeartbeatProgress | HeartbeatRun


def check_memory(case: MatmulCase, device: Device) -> None:
    """Refuse a case that does not fit, before any tensor is made."""
    allowed = int(device.free_bytes * _SHARE[device.kind])
    if device.kind == "cpu":
        allowed = min(allowed, _MOST_ON_CPU)
    if case.moved_bytes > allowed:
        raise DoesNotFit(
            f"The three matrices take {case.moved_bytes / GIB:,.2f} GiB in {case.dtype} ({case.batch} × {case.hidden}, {case.hidden} × "
            f"{case.intermediate}, {case.batch} × {case.intermediate}); this device has {device.free_bytes / GIB:,.2f} GiB free, of "
            f"which the heartbeat may use {allowed / GIB:,.2f} GiB. Make batch, hidden or intermediate smaller, or choose a 16-bit dtype."
        )


def run_heartbeat(
    case: MatmulCase,
    device: Device,
    silicon: Accelerator | None,
    placed_bytes: int = 0,  # noqa: ARG001 only `gpu_seconds` reads it
    *,
    limit_s: float | None = None,
    clock: Timer | None = None,
) -> Iterator[HeartbeatEvent]:
    """Run the case; the last item is the outcome. The device's memory is released however it ends.

    `silicon` is the device's card, whose datasheet is the floor; without one the bandwidth is measured. `placed_bytes` are weights of
    other functions that ZeroGPU moves to the device first.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    check_memory(case, device)
    on = torch.device(device.torch_name)
    times: MatmulTimes | None = None
    slow_type = is_emulated(case, on, device.capability)
    try:
        for report in run_matmuls(case, on, limit_s=limit_s or LIMIT_S[device.kind], slow_type=slow_type, clock=clock):
            if isinstance(report, MatmulTimes):
                times = report
            else:
                yield report
        if times is None:
            raise LiveError("The heartbeat ended without a result. Run it again.")
        tf32 = on.type == "cuda" and bool(torch.backends.cuda.matmul.allow_tf32)
        if silicon is None:
            yield HeartbeatProgress(phase="bandwidth")
        roof = _roof(case, silicon, on, times, tf32=tf32)
    finally:
        release_memory()
    least = floor(case, roof)
    yield HeartbeatRun(
        beat=judge_times(case, times, least),
        roof=roof,
        floor=least,
        done=len(times.warm_s),
        emulated=slow_type,
        in_tf32=tf32 and case.dtype == "float32",
    )


def _roof(case: MatmulCase, silicon: Accelerator | None, on: torch.device, times: MatmulTimes, *, tf32: bool) -> DeviceRoof:
    """The datasheet's roof, or one of a measured bandwidth and no known peak.

    A busy neighbour can make a measured bandwidth too low, so it is measured again before a time is called impossible.
    """
    if silicon is not None:
        return datasheet_roof(silicon, case.dtype, tf32=tf32)
    bandwidth, shortest = 0.0, min(*times.warm_s, times.cold_first_s)
    for _ in range(_MEASURED_AT_MOST):
        bandwidth = max(bandwidth, read_bandwidth(case.moved_bytes, on, synchronizer(on)))
        roof = DeviceRoof(
            bandwidth=bandwidth * MARGIN,
            peak=None,
            cache_bytes=0,
            measured=True,
            sources=(
                Source(
                    what=f"read bandwidth, {bandwidth / 1e9:.1f} GB/s over {case.moved_bytes / 1e6:,.3g} MB",
                    source="measured on this device after the products, the fastest of many passes on all threads",
                    checked=datetime.now(UTC).date().isoformat(),
                ),
            ),
        )
        if shortest >= floor(case, roof).seconds:
            break
    return roof


def gpu_seconds(case: MatmulCase, _device: Device, silicon: Accelerator | None, placed_bytes: int = 0) -> float:
    """Seconds of a GPU that a run on ZeroGPU declares: `_SLOWER` times the floor of all products, and the start."""
    least = LIMIT_S["zerogpu"]
    if silicon is not None:
        bound = floor(case, datasheet_roof(silicon, case.dtype)).seconds
        least = _SLOWER * bound * (1 + case.warmup + case.iterations)
    return start_seconds(placed_bytes) + 1.0 + min(least, LIMIT_S["zerogpu"])


on_device = gpu_task(run_heartbeat, duration=gpu_seconds, doing="timing the heartbeat")
"""`run_heartbeat` where the device is: on ZeroGPU in the process that is given a GPU."""
