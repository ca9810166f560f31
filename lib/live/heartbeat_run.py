"""Runs the heartbeat on this device: checks memory, times the matrix products, then finds the floor that they are compared with.

The products are made on the device, timed one by one, and every result is used. Each product's sum is added to the next input (times
zero, which no compiler may drop from floating-point arithmetic), and all sums must equal what the inputs imply: Σ y = (Σ_b x) · (Σ_i w).
Inputs are uniform in [0, 1), so that the sum is far from zero and half precision does not overflow.

On a card of the catalog the floor comes from the datasheet. On a CPU or an unknown card the memory bandwidth is measured afterwards: a
float32 matrix of the working set's size is multiplied by a vector, which reads each element once, and the fastest of several passes
counts, because other load only makes a pass slower.
Limits: a call takes a microsecond or more, so sets below some MiB look slower than they are; the rate of `SMALL_BYTES` replaces theirs
where it is higher. A matrix product may read slightly faster than this measurement, hence `MARGIN`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol

from lib.catalog.silicon import Accelerator
from lib.errors import DoesNotFit, LiveError, TooLong
from lib.live.heartbeat import DeviceRoof, HeartbeatResult, MatmulCase, MatmulTimes, datasheet_roof, floor, judge_times
from lib.live.zerogpu import gpu_task, release_memory, start_seconds
from lib.provenance import Source

if TYPE_CHECKING:
    import torch

    from lib.live.device import Device

MIN_ITERATIONS = 3
"""Warm products that a result needs at least."""
_TOLERANCE = 0.01
_REPORT_EVERY_S = 0.1
_PROBE_FLOPS = {"cpu": 2**30, "cuda": 2**34}
_EMULATED_PROBE_FLOPS = 2**26
_PROBED_FROM = 16  # a case this many times the probe is short enough to be run without one


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is: the phase, how many of how many, and the last product's seconds."""

    phase: Literal["cold", "warm-up", "warm"]
    done: int
    of: int
    last_s: float


class Timer(Protocol):
    """Runs the work and tells how long the device took for it."""

    def __call__(self, work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
        """The work's result and its seconds; the device is done with it when this returns."""
        ...


class HostTimer:
    """The host's clock around the work and the waiting for it."""

    def __init__(self, wait: Callable[[], object], now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        """`wait` returns when the device has done all that it was given; on a CPU there is nothing to wait for."""
        self._wait, self._now = wait, now_ns

    def __call__(self, work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
        """The work's result and its seconds."""
        began = self._now()
        result = work()
        self._wait()
        return result, (self._now() - began) / 1e9


class CudaTimer:
    """Two events on the device's own stream, so the host's part is not counted; the device is awaited after each."""

    def __call__(self, work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
        """The work's result and its seconds."""
        import torch  # noqa: PLC0415 loaded when first needed

        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begun.record()
        result = work()
        ended.record()
        torch.cuda.synchronize()
        return result, begun.elapsed_time(ended) / 1e3


def synchronizer(device: torch.device) -> Callable[[], object]:
    """What returns when the device has done all that it was given."""
    import torch  # noqa: PLC0415 loaded when first needed

    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


def timer(device: torch.device) -> Timer:
    """The clock that fits the device."""
    return CudaTimer() if device.type == "cuda" else HostTimer(synchronizer(device))


def is_emulated(case: MatmulCase, device: torch.device, capability: tuple[int, int] | None) -> bool:
    """Whether the device multiplies this type without a unit of its own: by converting, or element by element."""
    import torch  # noqa: PLC0415 loaded when first needed

    if case.dtype == "float32":
        return False
    if device.type == "cuda":
        return capability is not None and capability < ((8, 0) if case.dtype == "bfloat16" else (5, 3))
    half = ("_is_amx_fp16_supported",) if case.dtype == "float16" else ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    asked = [getattr(torch.cpu, name, None) for name in half]
    return not any(ask() for ask in asked if ask is not None)


def check_time(case: MatmulCase, first_s: float, limit_s: float, *, how: str) -> None:
    """Refuse a run whose fewest products would take longer than it may.

    Raises:
        TooLong: with the arithmetic.
    """
    needed = first_s * (MIN_ITERATIONS + 1)
    if needed > limit_s:
        raise TooLong(
            f"One product of {case.flops / 1e9:,.2f} GFLOP in {case.dtype} takes {first_s:,.2f} s on this device ({how}); the "
            f"{MIN_ITERATIONS + 1} that a result needs at least would take {needed:,.1f} s, and a run may take {limit_s:,.0f} s. Make "
            "batch, hidden or intermediate smaller, or choose another dtype."
        )


def _random_matrix(rows: int, columns: int, case: MatmulCase, device: torch.device) -> torch.Tensor:
    import torch  # noqa: PLC0415 loaded when first needed

    return torch.rand(rows, columns, dtype=getattr(torch, case.dtype), device=device)


def _probe(case: MatmulCase, x: torch.Tensor, w: torch.Tensor, clock: Timer, limit_s: float, flops: int) -> None:
    """Time a corner of the product first when the whole could take long, and refuse by that.

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
) -> Iterator[Progress | MatmulTimes]:
    """Run the case and tell how it goes; the last item is the times. Fewer than asked for when `limit_s` ends first.

    `slow_type` says that the type is emulated, so that the probe is small. Closing the generator ends the run and frees its memory.

    Raises:
        TooLong: even the fewest products take longer than the limit, found by a probe or by the first one.
        LiveError: the device's results are not those of the product.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    clock = clock or timer(device)
    with torch.inference_mode():
        x, w = _random_matrix(case.batch, case.hidden, case, device), _random_matrix(case.hidden, case.intermediate, case, device)
        _probe(case, x, w, clock, limit_s, _EMULATED_PROBE_FLOPS if slow_type else _PROBE_FLOPS[device.type])
        first, total = x[0, 0].clone(), torch.zeros((), dtype=torch.float32, device=device)
        synchronizer(device)()
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
            yield Progress(
                phase="cold" if done == 0 else "warm-up" if done <= case.warmup else "warm", done=done + 1, of=planned, last_s=seconds
            )
        if now() - began > limit_s and len(warm) >= MIN_ITERATIONS:
            break
    with torch.inference_mode():
        _check_sums(float(total) / (done + 1), float(x.sum(0, dtype=torch.float32) @ w.sum(1, dtype=torch.float32)))
    yield MatmulTimes(cold_first_s=cold, warm_s=tuple(warm))


def _check_sums(total: float, expected: float) -> None:
    if not abs(total - expected) <= _TOLERANCE * abs(expected):
        raise LiveError(
            f"The device's results are wrong: each product should sum to {expected:.6g}, they summed to {total:.6g}. Its times mean "
            "nothing. Restart the Space; if it happens again, the device is faulty."
        )


SMALL_BYTES = 8 * 2**20
MARGIN = 1.25
"""The floor is set for a memory a quarter faster than the fastest pass seen: on a shared host neighbours come and go."""
_PASSES, _ENOUGH_S, _LIMIT_S = 12, 0.15, 3.0  # at least so many passes, for so long; less only where the limit ends first
_FLOAT = 4


def _fastest(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of the fastest of some passes, the first (which warms up) not counted."""
    work()
    wait()
    best, passes, began = math.inf, 0, time.perf_counter()
    while passes < _PASSES or time.perf_counter() - began < _ENOUGH_S:
        start = time.perf_counter_ns()
        work()
        wait()
        best = min(best, (time.perf_counter_ns() - start) / 1e9)
        passes += 1
        if time.perf_counter() - began > _LIMIT_S:
            break
    return best


def _rate(size_bytes: int, device: torch.device, wait: Callable[[], object]) -> float:
    import torch  # noqa: PLC0415 loaded when first needed

    width = max(1, math.isqrt(size_bytes // _FLOAT))
    height = max(1, size_bytes // _FLOAT // width)
    matrix, vector = torch.ones(height, width, device=device), torch.ones(width, device=device)
    again = max(1, min(64, 2**21 // size_bytes)) if size_bytes else 1  # several reads per pass, so that the clock's own cost fades

    def by_product() -> None:
        for _ in range(again):
            torch.mv(matrix, vector)

    def by_sum() -> None:
        for _ in range(again):
            matrix.sum()

    return again * height * width * _FLOAT / min(_fastest(by_product, wait), _fastest(by_sum, wait))


def read_bandwidth(size_bytes: int, device: torch.device, wait: Callable[[], object]) -> float:
    """Bytes per second at which a working set of this size is read; `wait` returns when the device has done all that it was given."""
    sizes = {size_bytes, max(size_bytes, SMALL_BYTES)}
    return max(_rate(size, device, wait) for size in sizes)


LIMIT_S = {"cpu": 60.0, "cuda": 30.0, "zerogpu": 15.0}
"""Seconds that a run may take on each kind of device."""
_SHARE = {"cpu": 0.5, "cuda": 0.9, "zerogpu": 0.9}  # of what is free: on a CPU the app itself lives there too
_MEASURED_AT_MOST = 3  # times that a bandwidth is measured
_SLOWER = 10  # a half card that reaches a fifth of its peak
_MOST_ON_CPU = 4 * 2**30  # making the matrices alone would take a CPU many seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRun:
    """A finished run: the figures, the roof they are compared with, how many products it took, and whether the type was emulated."""

    beat: HeartbeatResult
    roof: DeviceRoof
    done: int
    emulated: bool
    in_tf32: bool


HeartbeatEvent = Progress | Literal["bandwidth"] | HeartbeatRun


def check_memory(case: MatmulCase, device: Device) -> None:
    """Refuse what does not fit, before anything is made.

    Raises:
        DoesNotFit: with the arithmetic.
    """
    allowed = int(device.free_bytes * _SHARE[device.kind])
    if device.kind == "cpu":
        allowed = min(allowed, _MOST_ON_CPU)
    if case.moved_bytes > allowed:
        raise DoesNotFit(
            f"The three matrices take {case.moved_bytes / 2**30:,.2f} GiB in {case.dtype} ({case.batch} × {case.hidden}, {case.hidden} × "
            f"{case.intermediate}, {case.batch} × {case.intermediate}); this device has {device.free_bytes / 2**30:,.2f} GiB free, of "
            f"which the heartbeat may use {allowed / 2**30:,.2f} GiB. Make batch, hidden or intermediate smaller, or choose a 16-bit dtype."
        )


def run_heartbeat(
    case: MatmulCase,
    device: Device,
    silicon: Accelerator | None,
    placed_bytes: int = 0,  # noqa: ARG001 what `gpu_seconds` has to know
    *,
    limit_s: float | None = None,
    clock: Timer | None = None,
) -> Iterator[HeartbeatEvent]:
    """Run the case; the last item is the outcome. The device's memory is released however it ends.

    `silicon` is the device's card, whose datasheet is the floor; without one the bandwidth is measured. `placed_bytes` are weights of
    other functions that ZeroGPU moves to the device first.

    Raises:
        DoesNotFit: more memory than there is.
        TooLong: even the fewest products take longer than a run may.
        LiveError: its results are wrong.
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
            yield "bandwidth"
        roof = _roof(case, silicon, on, times, tf32=tf32)
    finally:
        release_memory()
    least = floor(case, roof)
    done = len(times.warm_s)
    yield HeartbeatRun(
        beat=judge_times(case, times, least), roof=roof, done=done, emulated=slow_type, in_tf32=tf32 and case.dtype == "float32"
    )


def _roof(case: MatmulCase, silicon: Accelerator | None, on: torch.device, times: MatmulTimes, *, tf32: bool) -> DeviceRoof:
    """The datasheet's roof, or one of a measured bandwidth and no known peak.

    A measured bandwidth can be too low when a neighbour was busy just then: so before a time is called impossible it is measured again.
    """
    if silicon is not None:
        return datasheet_roof(silicon, case.dtype, tf32=tf32)
    seen, shortest = 0.0, min(*times.warm_s, times.cold_first_s)
    for _ in range(_MEASURED_AT_MOST):
        seen = max(seen, read_bandwidth(case.moved_bytes, on, synchronizer(on)))
        roof = DeviceRoof(bandwidth=seen * MARGIN, peak=None, cache_bytes=0, measured=True, sources=(_measured_times(case, seen),))
        if shortest >= floor(case, roof).seconds:
            break
    return roof


def _measured_times(case: MatmulCase, seen: float) -> Source:
    return Source(
        what=f"read bandwidth, {seen / 1e9:.1f} GB/s over {case.moved_bytes / 1e6:,.3g} MB",
        source="measured on this device after the products, the fastest of many passes on all threads",
        checked=datetime.now(UTC).date().isoformat(),
    )


def gpu_seconds(case: MatmulCase, _device: Device, silicon: Accelerator | None, placed_bytes: int = 0) -> float:
    """Seconds of a GPU that a run on ZeroGPU declares: `_SLOWER` times what all products take at least, and the start."""
    least = LIMIT_S["zerogpu"]
    if silicon is not None:
        bound = floor(case, datasheet_roof(silicon, case.dtype)).seconds
        least = _SLOWER * bound * (1 + case.warmup + case.iterations)
    return start_seconds(placed_bytes) + 1.0 + min(least, LIMIT_S["zerogpu"])


on_device = gpu_task(run_heartbeat, duration=gpu_seconds, doing="timing the heartbeat")
"""`run_heartbeat` where the device is: on ZeroGPU in the process that is given a GPU."""
