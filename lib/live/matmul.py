"""Runs the heartbeat's product: made on the device, timed one by one, every result used and awaited.

Nothing can be skipped: each product's sum goes into the next one's input (times zero, which no compiler may drop from floating-point
arithmetic), and all sums together must come to what the inputs' own sums say: Σ y = (Σ_b x) · (Σ_i w). Inputs are uniform in [0, 1),
so that sum is far from zero and half precision does not overflow.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from lib.errors import LiveError, TooLong
from lib.live.heartbeat import Case, Times

if TYPE_CHECKING:
    import torch

FEWEST = 3
"""Warm products that a result needs at least."""
_TOLERANCE = 0.01
_TOLD_EVERY_S = 0.1
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


def waiting(device: torch.device) -> Callable[[], object]:
    """What returns when the device has done all that it was given."""
    import torch  # noqa: PLC0415 loaded when first needed

    return torch.cuda.synchronize if device.type == "cuda" else lambda: None


def timer(device: torch.device) -> Timer:
    """The clock that fits the device."""
    return CudaTimer() if device.type == "cuda" else HostTimer(waiting(device))


def emulated(case: Case, device: torch.device, capability: tuple[int, int] | None) -> bool:
    """Whether the device multiplies this type without a unit of its own: by converting, or element by element."""
    import torch  # noqa: PLC0415 loaded when first needed

    if case.dtype == "float32":
        return False
    if device.type == "cuda":
        return capability is not None and capability < ((8, 0) if case.dtype == "bfloat16" else (5, 3))
    half = ("_is_amx_fp16_supported",) if case.dtype == "float16" else ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    asked = [getattr(torch.cpu, name, None) for name in half]
    return not any(ask() for ask in asked if ask is not None)


def check_time(case: Case, first_s: float, limit_s: float, *, how: str) -> None:
    """Refuse a run whose fewest products would take longer than it may.

    Raises:
        TooLong: with the arithmetic.
    """
    needed = first_s * (FEWEST + 1)
    if needed > limit_s:
        raise TooLong(
            f"One product of {case.flops / 1e9:,.2f} GFLOP in {case.dtype} takes {first_s:,.2f} s on this device ({how}); the "
            f"{FEWEST + 1} that a result needs at least would take {needed:,.1f} s, and a run may take {limit_s:,.0f} s. Make batch, "
            "hidden or intermediate smaller, or choose another dtype."
        )


def _made(rows: int, columns: int, case: Case, device: torch.device) -> torch.Tensor:
    import torch  # noqa: PLC0415 loaded when first needed

    return torch.rand(rows, columns, dtype=getattr(torch, case.dtype), device=device)


def _probe(case: Case, x: torch.Tensor, w: torch.Tensor, clock: Timer, limit_s: float, flops: int) -> None:
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


def beats(
    case: Case,
    device: torch.device,
    *,
    limit_s: float,
    slow_type: bool = False,
    clock: Timer | None = None,
    now: Callable[[], float] = time.perf_counter,
) -> Iterator[Progress | Times]:
    """Run the case and tell how it goes; the last item is the times. Fewer than asked for when `limit_s` ends first.

    `slow_type` says that the type is emulated, so that the probe is small. Closing the generator ends the run and frees its memory.

    Raises:
        TooLong: even the fewest products take longer than the limit, found by a probe or by the first one.
        LiveError: the device's results are not those of the product.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    clock = clock or timer(device)
    with torch.inference_mode():
        x, w = _made(case.batch, case.hidden, case, device), _made(case.hidden, case.intermediate, case, device)
        _probe(case, x, w, clock, limit_s, _EMULATED_PROBE_FLOPS if slow_type else _PROBE_FLOPS[device.type])
        first, total = x[0, 0].clone(), torch.zeros((), dtype=torch.float32, device=device)
        waiting(device)()
    began, told, cold, warm = now(), -math.inf, 0.0, list[float]()
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
        if now() - told >= _TOLD_EVERY_S:
            told = now()
            yield Progress(
                phase="cold" if done == 0 else "warm-up" if done <= case.warmup else "warm", done=done + 1, of=planned, last_s=seconds
            )
        if now() - began > limit_s and len(warm) >= FEWEST:
            break
    with torch.inference_mode():
        _check_sums(float(total) / (done + 1), float(x.sum(0, dtype=torch.float32) @ w.sum(1, dtype=torch.float32)))
    yield Times(cold_first_s=cold, warm_s=tuple(warm))


def _check_sums(seen: float, expected: float) -> None:
    if not abs(seen - expected) <= _TOLERANCE * abs(expected):
        raise LiveError(
            f"The device's results are wrong: each product should sum to {expected:.6g}, they summed to {seen:.6g}. Its times mean "
            "nothing. Restart the Space; if it happens again, the device is faulty."
        )
