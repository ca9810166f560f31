"""`/heartbeat`: how fast the device at hand multiplies, beside the time that it cannot beat."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, cast

from lib.answers.common import SCHEMA, source_entries
from lib.answers.live import HeartbeatAnswer, HeartbeatProgress
from lib.live.device import Device
from lib.live.device_queue import hardware_turn
from lib.live.heartbeat import DTYPES, UNKNOWN_CACHE_BYTES, Dtype, MatmulCase
from lib.live.heartbeat_run import LIMIT_S, HeartbeatRun, Progress
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat, Source
from lib.service.arguments import Arguments, argument, one_of, whole_number
from lib.service.endpoint import App

MAX_BATCH = 65_536
MAX_SIDE = 131_072  # of the inputs uniform in [0, 1) the sum of so many products, a fourth of it, still has a float16
MAX_ITERATIONS = 10_000
MAX_WARMUP = 1_000


class HeartbeatArguments(Arguments):
    """Arguments of `/heartbeat`."""

    batch: Annotated[int, whole_number(1, MAX_BATCH)] = argument(128, "rows of x")
    hidden: Annotated[int, whole_number(1, MAX_SIDE)] = argument(4096, "columns of x and rows of w")
    intermediate: Annotated[int, whole_number(1, MAX_SIDE)] = argument(16384, "columns of w")
    iterations: Annotated[int, whole_number(3, MAX_ITERATIONS)] = argument(100, "warm products to time; fewer where time runs out")
    warmup: Annotated[int, whole_number(0, MAX_WARMUP)] = argument(5, "products that are run but not counted, after the first")
    dtype: Annotated[Dtype, one_of(DTYPES, Dtype)] = argument("float32", "float32, float16 or bfloat16")


def heartbeat(app: App, arguments: HeartbeatArguments) -> HeartbeatAnswer:
    """One matrix product, timed over and over on the device at hand, beside the time that it cannot beat.

    Returns:
        The times, the floor, and whether they can be believed.
    """
    *_, answer = stream_heartbeat(app, arguments)
    return cast("HeartbeatAnswer", answer)  # the last item


def stream_heartbeat(app: App, arguments: HeartbeatArguments) -> Iterator[HeartbeatProgress | HeartbeatAnswer]:
    """`heartbeat` as it goes: how far it is, and as the last item the answer."""
    case = MatmulCase(**arguments.model_dump())
    with hardware_turn():
        device = app.device()
        silicon = None if device.accelerator is None else app.catalog().accelerator(device.accelerator)
        for step in app.run_heartbeat(case, device, silicon, app.placed_bytes()):
            yield _answer(case, device, step) if isinstance(step, HeartbeatRun) else _progress(step)


def _progress(step: Progress | str) -> HeartbeatProgress:
    if isinstance(step, Progress):
        return {"phase": step.phase, "done": step.done, "of": step.of, "last_s": step.last_s}
    return {"phase": str(step), "done": 0, "of": 0, "last_s": None}


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
