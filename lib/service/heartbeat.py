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
from lib.provenance import Caveat, Source, Value
from lib.service.arguments import Arguments, argument, one_of, whole_number
from lib.service.endpoint import App
from lib.units import MIB

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
        yield _impossible(case, outcome)
    if roof.measured:
        yield Caveat("measured_floor", {"device": device.name})
    if roof.cache_bytes == UNKNOWN_CACHE_BYTES:
        yield Caveat("cache_unknown", {"device": device.name, "cache_mib": roof.cache_bytes / MIB}, variant="device")
    elif roof.cache_bytes >= case.moved_bytes:
        yield Caveat("fits_cache", {"matrices_mib": case.moved_bytes / MIB, "cache_mib": roof.cache_bytes / MIB})
    if outcome.emulated:
        yield Caveat("not_native", {"device": device.name, "dtype": case.dtype})
    if outcome.in_tf32:
        yield Caveat("tf32")
    if outcome.done < case.iterations:
        yield Caveat("fewer_iterations", {"timed": outcome.done, "asked": case.iterations, "limit_s": LIMIT_S[device.kind]})
    if device.kind == "zerogpu":
        yield Caveat("part_of_a_card")


def _impossible(case: MatmulCase, outcome: HeartbeatRun) -> Caveat:
    """Why a time below the floor cannot be one."""
    beat, roof = outcome.beat, outcome.roof
    values: dict[str, Value] = {
        "shortest_ms": min(beat.min_s, beat.cold_first_s) * 1e3,
        "moved_mb": case.moved_bytes / 1e6,
        "gb_per_s": roof.bandwidth / 1e9,
        "memory_ms": beat.floor.memory_s * 1e3,
    }
    if beat.floor.compute_s is None or roof.peak is None:
        return Caveat("beats_the_floor", values)
    compute = {"gflop": case.flops / 1e9, "tflop_per_s": roof.peak / 1e12, "compute_ms": beat.floor.compute_s * 1e3}
    return Caveat("beats_the_floor", values | compute, variant="compute")
