"""`/heartbeat`: how fast the device at hand multiplies, beside the time that it cannot beat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import cast

from lib.answers.common import SCHEMA, source_entries
from lib.answers.live import HeartbeatAnswer, HeartbeatProgress
from lib.catalog import Catalog
from lib.catalog.silicon import Accelerator
from lib.live.device import Device, current_device
from lib.live.device_queue import hardware_turn
from lib.live.heartbeat import DTYPES, UNKNOWN_CACHE_BYTES, Dtype, MatmulCase
from lib.live.heartbeat_run import LIMIT_S, HeartbeatRun, Progress, Told, on_device
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat, Source
from lib.service import arguments

MAX_BATCH = 65_536
MAX_SIDE = 131_072  # of the inputs uniform in [0, 1) the sum of so many products, a fourth of it, still has a float16
MAX_ITERATIONS = 10_000
MAX_WARMUP = 1_000

Run = Callable[[MatmulCase, Device, Accelerator | None, int], Iterator[Told]]


class HeartbeatQuestion:
    """Runs the heartbeat on the device at hand."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        run: Run = on_device,
        device: Callable[[], Device] | None = None,
        placed: Callable[[], int] = lambda: 0,
    ) -> None:
        """`run` runs a case where the device is (on ZeroGPU in the process that is given a GPU, after `placed()` bytes of weights).

        `device` tells what is at hand, by default what `catalog()` makes of this machine.
        """
        self._catalog, self._run, self._placed = catalog, run, placed
        self._device = device or (lambda: current_device(catalog()))

    def heartbeat(
        self,
        batch: int = 128,
        hidden: int = 4096,
        intermediate: int = 16384,
        iterations: int = 100,
        warmup: int = 5,
        dtype: Dtype = "float32",
    ) -> HeartbeatAnswer:
        """One matrix product, timed over and over on the device at hand, beside the time that it cannot beat.

        Args:
            batch: rows of x
            hidden: columns of x and rows of w
            intermediate: columns of w
            iterations: warm products to time; fewer where time runs out
            warmup: products that are run but not counted, after the first
            dtype: float32, float16 or bfloat16

        Returns:
            The times, the floor, and whether they can be believed.
        """
        *_, answer = self.beating(batch, hidden, intermediate, iterations, warmup, dtype)
        return cast("HeartbeatAnswer", answer)  # the last item, as `beating` says

    def beating(
        self,
        batch: int = 128,
        hidden: int = 4096,
        intermediate: int = 16384,
        iterations: int = 100,
        warmup: int = 5,
        dtype: Dtype = "float32",
    ) -> Iterator[HeartbeatProgress | HeartbeatAnswer]:
        """`heartbeat` as it goes: how far it is, and as the last item the answer."""
        case = MatmulCase(
            batch=arguments.whole("batch", batch, 1, MAX_BATCH),
            hidden=arguments.whole("hidden", hidden, 1, MAX_SIDE),
            intermediate=arguments.whole("intermediate", intermediate, 1, MAX_SIDE),
            iterations=arguments.whole("iterations", iterations, 3, MAX_ITERATIONS),
            warmup=arguments.whole("warmup", warmup, 0, MAX_WARMUP),
            dtype=arguments.choice("dtype", dtype, DTYPES),
        )
        with hardware_turn():
            device = self._device()
            silicon = None if device.accelerator is None else self._catalog().accelerator(device.accelerator)
            for told in self._run(case, device, silicon, self._placed()):
                yield _progress(told) if not isinstance(told, HeartbeatRun) else _answer(case, device, told)


def _progress(told: Progress | str) -> HeartbeatProgress:
    if isinstance(told, Progress):
        return {"phase": told.phase, "done": told.done, "of": told.of, "last_s": told.last_s}
    return {"phase": str(told), "done": 0, "of": 0, "last_s": None}


def _answer(case: MatmulCase, device: Device, outcome: HeartbeatRun) -> HeartbeatAnswer:
    beat, roof = outcome.beat, outcome.roof
    clock = "the host's clock" if device.kind == "cpu" else "events on the device's stream"
    today = datetime.now(UTC).date().isoformat()
    timed = Source(what="the times", source=f"run on this device with torch {device.torch}, by {clock}, each result awaited", checked=today)
    return {
        "schema": SCHEMA,
        "device": device.name,
        "device_kind": device.kind,
        "accelerator": device.accelerator,
        "dtype": case.dtype,
        "batch": case.batch,
        "hidden": case.hidden,
        "intermediate": case.intermediate,
        "iterations": outcome.done,
        "warmup": case.warmup,
        "mean_s": beat.mean_s,
        "median_s": beat.median_s,
        "p95_s": beat.p95_s,
        "min_s": beat.min_s,
        "cold_first_s": beat.cold_first_s,
        "flops": case.flops,
        "weight_bytes": case.weight_bytes,
        "moved_bytes": case.moved_bytes,
        "achieved_flops_per_s": beat.achieved_flops_per_s,
        "floor_s": beat.floor.seconds,
        "floor_memory_s": beat.floor.memory_s,
        "floor_compute_s": beat.floor.compute_s,
        "bound": beat.floor.bound,
        "efficiency": beat.efficiency,
        "valid": beat.valid,
        "bandwidth_bytes_per_s": roof.bandwidth,
        "peak_flops_per_s": roof.peak,
        "driver": device.driver,
        "torch": device.torch,
        "caveats": caveat_entries(_caveats(case, device, outcome)),
        "sources": source_entries((timed, *roof.sources)),
    }


def _caveats(case: MatmulCase, device: Device, outcome: HeartbeatRun) -> Iterator[Caveat]:
    beat, roof = outcome.beat, outcome.roof
    if not beat.valid:
        yield Caveat(code="beats_the_floor", message=_impossible(case, outcome))
    if roof.measured:
        yield Caveat(
            code="measured_floor",
            message=f"No datasheet is known for {device.name}, so the floor is the memory's alone: its bandwidth was measured here, and a "
            "quarter was added for what the measurement may have missed. Arithmetic is not in this floor, so most of what is missing "
            "is arithmetic.",
        )
    if roof.cache_bytes == UNKNOWN_CACHE_BYTES:
        yield Caveat(
            code="cache_unknown",
            message=f"How large the last cache of {device.name} is, is not known here: the floor leaves out what the largest that is built "
            f"could hold ({roof.cache_bytes / 2**20:,.0f} MiB), so the efficiency shown may be lower than it is.",
        )
    elif roof.cache_bytes >= case.moved_bytes:
        yield Caveat(
            code="fits_cache",
            message=f"The matrices ({case.moved_bytes / 2**20:,.1f} MiB) fit the device's cache ({roof.cache_bytes / 2**20:,.0f} MiB), so "
            "a warm product need not touch the memory: the floor is that of the arithmetic alone.",
        )
    if outcome.emulated:
        yield Caveat(
            code="not_native",
            message=f"{device.name} has no unit for {case.dtype}: it is converted or worked out element by element, which says little "
            "about hardware that has one.",
        )
    if outcome.in_tf32:
        yield Caveat(
            code="tf32", message="float32 was multiplied in TF32 here (torch is told to allow it); the floor uses that unit's peak."
        )
    if outcome.done < case.iterations:
        yield Caveat(
            code="fewer_iterations",
            message=f"{outcome.done} of {case.iterations} products were timed: a run may take {LIMIT_S[device.kind]:.0f} s here.",
        )
    if device.kind == "zerogpu":
        yield Caveat(
            code="part_of_a_card",
            message="ZeroGPU gives a part of the card; the floor is the whole card's, so the efficiency shown is lower than that of the "
            "part.",
        )


def _impossible(case: MatmulCase, outcome: HeartbeatRun) -> str:
    """Why a time below the floor cannot be one."""
    beat, roof = outcome.beat, outcome.roof
    shortest = min(beat.min_s, beat.cold_first_s)
    least = f"{case.moved_bytes / 1e6:,.1f} MB at {roof.bandwidth / 1e9:,.0f} GB/s need {beat.floor.memory_s * 1e3:.4g} ms"
    if beat.floor.compute_s is not None and roof.peak is not None:
        least += f" and {case.flops / 1e9:,.2f} GFLOP at {roof.peak / 1e12:,.1f} TFLOP/s need {beat.floor.compute_s * 1e3:.4g} ms"
    return (
        f"The shortest time was {shortest * 1e3:.4g} ms, but {least} at least. Nothing can be that fast: the clock stopped before the "
        "work was done (a call that only hands the work to the device returns at once), or this is not the device it is taken for. Do not "
        "use these times."
    )
