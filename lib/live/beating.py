"""The heartbeat on the device at hand, in the process that has it: room first, then the products, then the floor they are held against.

On a card that the catalog knows the floor is the datasheet's; elsewhere (a CPU, an unknown card) the bandwidth is measured on the spot,
after the products, when their memory is free again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from lib.catalog import load
from lib.errors import DoesNotFit, LiveError
from lib.live.bandwidth import MARGIN, read_bandwidth
from lib.live.heartbeat import Beat, Case, Roof, Times, beat, datasheet_roof, floor
from lib.live.matmul import Progress, Timer, beats, emulated, waiting
from lib.live.zero import gpu_task, release_memory, start_seconds
from lib.provenance import Source

if TYPE_CHECKING:
    import torch

    from lib.live.device import Device

LIMIT_S = {"cpu": 60.0, "cuda": 30.0, "zerogpu": 15.0}
"""Seconds that a run may take on each kind of device."""
_SHARE = {"cpu": 0.5, "cuda": 0.9, "zerogpu": 0.9}  # of what is free: on a CPU the app itself lives there too
_MEASURED_AT_MOST = 3  # times that a bandwidth is measured
_SLOWER = 10  # a half card that reaches a fifth of its peak
_MOST_ON_CPU = 4 * 2**30  # making the matrices alone would take a CPU many seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A finished run: the figures, the roof they are held against, how many products it took, and whether the type was emulated."""

    beat: Beat
    roof: Roof
    done: int
    emulated: bool
    in_tf32: bool


Told = Progress | Literal["bandwidth"] | Outcome


def check_room(case: Case, device: Device) -> None:
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


def run(
    case: Case,
    device: Device,
    placed_bytes: int = 0,  # noqa: ARG001 what `gpu_seconds` has to know
    *,
    limit_s: float | None = None,
    clock: Timer | None = None,
) -> Iterator[Told]:
    """Run the case; the last item is the outcome. The device's memory is released however it ends.

    `placed_bytes` are weights of other functions that ZeroGPU moves to the device first.

    Raises:
        DoesNotFit: more memory than there is.
        TooLong: even the fewest products take longer than a run may.
        LiveError: its results are wrong.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    check_room(case, device)
    on = torch.device(device.torch_name)
    times: Times | None = None
    slow_type = emulated(case, on, device.capability)
    try:
        for told in beats(case, on, limit_s=limit_s or LIMIT_S[device.kind], slow_type=slow_type, clock=clock):
            if isinstance(told, Times):
                times = told
            else:
                yield told
        if times is None:
            raise LiveError("The heartbeat ended without a result. Run it again.")
        tf32 = on.type == "cuda" and bool(torch.backends.cuda.matmul.allow_tf32)
        if device.accelerator is None:
            yield "bandwidth"
        roof = _roof(case, device, on, times, tf32=tf32)
    finally:
        release_memory()
    least = floor(case, roof)
    done = len(times.warm_s)
    yield Outcome(beat=beat(case, times, least), roof=roof, done=done, emulated=slow_type, in_tf32=tf32 and case.dtype == "float32")


def _roof(case: Case, device: Device, on: torch.device, times: Times, *, tf32: bool) -> Roof:
    """The datasheet's roof, or one of a measured bandwidth and no known peak.

    A measured bandwidth can be too low when a neighbour was busy just then: so before a time is called impossible it is measured again.
    """
    if device.accelerator is not None:
        return datasheet_roof(load().accelerator(device.accelerator), case.dtype, tf32=tf32)
    seen, shortest = 0.0, min(*times.warm_s, times.cold_first_s)
    for _ in range(_MEASURED_AT_MOST):
        seen = max(seen, read_bandwidth(case.moved_bytes, on, waiting(on)))
        roof = Roof(bandwidth=seen * MARGIN, peak=None, cache_bytes=0, measured=True, sources=(_measured(case, seen),))
        if shortest >= floor(case, roof).seconds:
            break
    return roof


def _measured(case: Case, seen: float) -> Source:
    return Source(
        what=f"read bandwidth, {seen / 1e9:.1f} GB/s over {case.moved_bytes / 1e6:,.3g} MB",
        source="measured on this device after the products, the fastest of many passes on all threads",
        checked=datetime.now(UTC).date().isoformat(),
    )


def gpu_seconds(case: Case, device: Device, placed_bytes: int = 0) -> float:
    """Seconds of a GPU that a run on ZeroGPU declares: `_SLOWER` times what all products take at least, and the start."""
    least = LIMIT_S["zerogpu"]
    if device.accelerator is not None:
        bound = floor(case, datasheet_roof(load().accelerator(device.accelerator), case.dtype)).seconds
        least = _SLOWER * bound * (1 + case.warmup + case.iterations)
    return start_seconds(placed_bytes) + 1.0 + min(least, LIMIT_S["zerogpu"])


on_device = gpu_task(run, duration=gpu_seconds, doing="timing the heartbeat")
"""`run` where the device is: on ZeroGPU in the process that is given a GPU."""
