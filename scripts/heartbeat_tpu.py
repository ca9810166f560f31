"""The heartbeat on a TPU: one matrix product timed so that the work is waited for, not only handed over.

    python heartbeat_tpu.py                       TorchTPU where torch_tpu is installed, else PyTorch/XLA where torch_xla is
    python heartbeat_tpu.py --device cpu          the same on this machine's processors, to try the script

A TPU computes asynchronously: y = x @ w returns when the work has been written down, microseconds later, and on PyTorch/XLA not even
compiled. A clock that stops there times the dispatch. Here each product's sum is fed into the next one's input and READ BACK to the host
before the clock stops; a number that is on the host cannot have been left undone. The synchronising calls of each library:

    PyTorch/XLA   torch_xla.sync() compiles and starts the recorded work; xm.wait_device_ops() waits for it
    TorchTPU      torch.tpu.synchronize() (experimental, and it waits for copies to the host: so there has to be one)

This file needs torch and nothing else. Figures of the chips: Google's TPU table of 2026-08-26 (HBM bandwidth, bf16 peak), per chip.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

CHIPS = {
    "v5e": {"bandwidth": 819e9, "peak": 197e12},
    "v5p": {"bandwidth": 2765e9, "peak": 459e12},
    "v6e": {"bandwidth": 1638e9, "peak": 918e12},
    "v7x": {"bandwidth": 7380e9, "peak": 2307e12},
}
"""Bytes per second and FLOP per second in bf16: a TPU multiplies float32 in bf16 passes, so that peak bounds both."""
ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
TOLERANCE = 0.02
LIBRARIES = ("auto", "torch_tpu", "torch_xla", "cpu")


def floor(batch: int, hidden: int, intermediate: int, dtype: str, chip: str | None) -> dict[str, Any]:
    """The least time of one product on the chip: max(bytes / bandwidth, FLOPs / peak); None for an unknown chip."""
    flops = 2 * batch * hidden * intermediate
    moved_bytes = ELEMENT_BYTES[dtype] * (batch * hidden + hidden * intermediate + batch * intermediate)
    if chip is None:
        return {"flops": flops, "moved_bytes": moved_bytes, "floor_s": None}
    of = CHIPS[chip]
    return {"flops": flops, "moved_bytes": moved_bytes, "floor_s": max(moved_bytes / of["bandwidth"], flops / of["peak"])}


def summary(cold_s: float, warm_s: list[float], least: dict[str, Any]) -> dict[str, Any]:
    """Mean, median, p95 (the nearest rank), efficiency, and whether the times can be believed."""
    median, ordered_s = statistics.median(warm_s), sorted(warm_s)
    floor_s = least["floor_s"]
    valid = floor_s is None or min(*warm_s, cold_s) >= floor_s
    return least | {
        "mean_s": statistics.fmean(warm_s),
        "median_s": median,
        "p95_s": ordered_s[math.ceil(0.95 * len(ordered_s)) - 1],
        "min_s": ordered_s[0],
        "cold_first_s": cold_s,
        "achieved_flops_per_s": least["flops"] / median,
        "efficiency": floor_s / median if floor_s is not None and valid else None,
        "valid": valid,
        "iterations": len(warm_s),
    }


def times(product: Callable[[], float], count: int, clock: Callable[[], float] = time.perf_counter) -> Iterator[float]:
    """Seconds of each product, from its call to its sum on the host."""
    for _ in range(count):
        began = clock()
        product()
        yield clock() - began


def place(library: str) -> tuple[str, Callable[[], None]]:
    """The device's name in torch, and a function that starts and awaits the work it was given.

    Raises:
        SystemExit: the library is not installed.
    """
    if library == "cpu":
        return "cpu", lambda: None
    if library in ("auto", "torch_tpu"):
        try:
            import torch_tpu  # type: ignore[import-not-found]  # noqa: F401, PLC0415
        except ImportError:
            if library == "torch_tpu":
                sys.exit("torch_tpu is not installed: pip install torch_tpu libtpu (on a TPU VM), or choose --device torch_xla.")
        else:
            return "tpu", _await_tpu
    try:
        import torch_xla  # type: ignore[import-not-found]  # noqa: PLC0415
        import torch_xla.core.xla_model as xm  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError:
        sys.exit(
            "Neither torch_tpu nor torch_xla is installed. On a TPU VM: pip install torch_tpu libtpu. To try the script: --device cpu."
        )

    def wait() -> None:
        torch_xla.sync()
        xm.wait_device_ops()

    return "xla", wait


def _await_tpu() -> None:
    import torch  # noqa: PLC0415

    torch.tpu.synchronize()  # type: ignore[attr-defined]


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the matrices on the device, time the products, check their sums."""
    import torch  # noqa: PLC0415

    device, wait = place(arguments.device)
    dtype = getattr(torch, arguments.dtype)
    with torch.inference_mode():
        x = torch.rand(arguments.batch, arguments.hidden, dtype=dtype, device=device)
        w = torch.rand(arguments.hidden, arguments.intermediate, dtype=dtype, device=device)
        exact = float((x.sum(0, dtype=torch.float32) @ w.sum(1, dtype=torch.float32)).item())
        wait()
        carry = torch.zeros((), dtype=dtype, device=device)

        def product() -> float:
            nonlocal carry
            total = torch.mm(x + carry, w).sum(dtype=torch.float32)
            carry = (0.0 * total).to(dtype)  # the next product needs this one
            wait()
            total_on_host = float(total.item())  # on the host: the work is done
            if not abs(total_on_host - exact) <= TOLERANCE * abs(exact):
                sys.exit(f"The product sums to {total_on_host:.6g} instead of {exact:.6g}: these times mean nothing.")
            return total_on_host

        cold_s = next(times(product, 1))
        list(times(product, arguments.warmup))
        warm_s = list(times(product, arguments.iterations))
    least = floor(arguments.batch, arguments.hidden, arguments.intermediate, arguments.dtype, None if device == "cpu" else arguments.chip)
    shape = {name: getattr(arguments, name) for name in ("batch", "hidden", "intermediate", "dtype", "warmup")}
    return (
        {"device": f"TPU {arguments.chip}" if device != "cpu" else "cpu", "library": device, "torch": torch.__version__}
        | shape
        | summary(cold_s, warm_s, least)
    )


def main(argv: list[str] | None = None) -> None:
    """Run and print one JSON object with the fields of /heartbeat."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=LIBRARIES, default="auto", help="which library; auto takes the first that is installed")
    parser.add_argument("--chip", choices=tuple(CHIPS), default="v6e", help="whose floor the times are held against")
    parser.add_argument("--dtype", choices=tuple(ELEMENT_BYTES), default="float32")
    for name, default in (("batch", 128), ("hidden", 4096), ("intermediate", 16384), ("iterations", 100), ("warmup", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args(argv)
    if min(arguments.batch, arguments.hidden, arguments.intermediate, arguments.iterations) < 1 or arguments.warmup < 0:
        parser.error("batch, hidden, intermediate and iterations are at least 1, warmup at least 0")
    answer = run(arguments)
    print(json.dumps(answer))
    if not answer["valid"]:
        sys.exit(
            f"A time of {min(answer['min_s'], answer['cold_first_s']) * 1e3:.4g} ms is below the {answer['floor_s'] * 1e3:.4g} ms that "
            "this chip needs at least: the clock stopped too early, or the chip is another one (--chip)."
        )


if __name__ == "__main__":
    main()
