"""A measurement from a configuration to its figures, and the process that it runs in.

On a machine of its own it runs in a fresh child process (`lib.live.process`): a crash or a full memory there leaves the app alone, and all
memory returns. The child gets no token and no access to the Hub, and ends when its caller goes away or its time is over. This module is its
program too (`main`): a JSON object on stdin, JSON lines on stdout. On ZeroGPU it runs in the process that is given a GPU. One measurement
runs at a time: two would disturb each other. `judge_prediction` compares the figures with the prediction: one code and one sentence.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, Literal

from lib.answers.live import MeasuredFigures
from lib.errors import AdvisorError, Fault, LiveError, OutOfMemory, TaskAborted
from lib.live import process
from lib.live.device import Device, Size, on_zero_gpu
from lib.live.device_queue import hardware_turn
from lib.live.limits import OVERRUN, START_S, RunWork, check_time, estimate_duration, measure_rates
from lib.live.zerogpu import gpu_task, start_seconds, translate_failure, unknown_failure
from lib.precision import TORCH_DTYPES
from lib.present.wording import write_text
from lib.units import MIB

log = logging.getLogger(__name__)

RunStage = Literal["starting", "building", "weights", "warm-up", "running"]
ACTIVITY = "measuring this model"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """The measurement to run: a parsed configuration, a precision, lengths; and what it is estimated to cost.

    `device` is torch's name, `size` the size asked of ZeroGPU, `placed_bytes` what it moves to the device before.
    `memory_limit_bytes` bounds a process of its own on a CPU (0: no bound).
    """

    config: Mapping[str, Any]
    precision: str
    prompt_tokens: int
    output_tokens: int
    device: Literal["cpu", "cuda"]
    work: RunWork
    limit_s: float
    size: Size = "large"
    placed_bytes: int = 0
    memory_limit_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun(MeasuredFigures):
    """The figures of one run, with its model and settings."""

    steps: int
    """Decoding steps that were timed."""
    kernel: str
    """Attention kernel that ran."""
    device_name: str | None
    """Name of the card that ZeroGPU lent."""


def measure_run(ask: MeasureRequest) -> Iterator[RunStage | MeasuredRun]:
    """The measurement as it runs: each step, and as the last item the figures."""
    try:
        yield from _stages(ask)
    except AdvisorError:
        raise
    except Exception as error:
        known = translate_failure(error)
        if known is None:
            log.exception("unforeseen failure while %s", ACTIVITY)
        raise known or unknown_failure(error, ACTIVITY) from None


def _stages(ask: MeasureRequest) -> Iterator[RunStage | MeasuredRun]:
    import torch  # noqa: PLC0415 loaded when first needed

    from lib.live.run_model import build_on_meta, give_memory, time_run, warm_up  # noqa: PLC0415

    cuda = ask.device == "cuda"
    yield "building"
    built = build_on_meta(ask.config, ask.precision)
    # Before the first product: torch's allocator then gives out the workspace of cuBLAS, which is part of the run and of its prediction.
    on_card = process.CudaGauge() if cuda else None
    pace = measure_rates(TORCH_DTYPES[ask.precision], ask.device)
    check_time(ask.work, pace, estimate_duration(ask.work, pace, ask.device), ask.limit_s)
    gc.collect()
    gauge = on_card or process.HostGauge()  # a process's set of pages counts libraries too, which the products have brought in
    try:
        yield "weights"
        gauge.restart()
        began = time.perf_counter()
        model = give_memory(built, ask.precision, ask.device)
        if cuda:
            torch.cuda.synchronize()
        weights_s, weights_bytes = time.perf_counter() - began, gauge.count_bytes()
        yield "warm-up"
        warm_up(model, ask.prompt_tokens, ask.device)
        yield "running"
        gauge.restart()
        timed = time_run(model, ask.prompt_tokens, ask.output_tokens, ask.device)
        yield MeasuredRun(
            peak_bytes=gauge.peak(),
            weights_bytes=weights_bytes,
            before_bytes=gauge.before,
            reserved_bytes=int(torch.cuda.max_memory_reserved()) if cuda else None,
            ttft_s=timed.ttft_s,
            decode_tokens_per_s=timed.decode_tokens_per_s,
            mean_tokens_per_s=timed.mean_tokens_per_s,
            steps=len(timed.steps_s),
            weights_s=weights_s,
            kernel=str(getattr(model.config, "_attn_implementation", "")),
            device_name=torch.cuda.get_device_name() if cuda else None,
        )
    finally:
        gauge.close()


Code = Literal["confirmed", "memory_off", "speed_off", "invalid"]

MEMORY_WITHIN = 0.10
"""Promised error of the memory prediction, as a share of the measured peak."""
RESOLUTION = 16 * MIB
"""Bytes below which a resident set tells nothing: pages of libraries, Python's heap, kernels' scratch. Seen: 11 to 19 MiB on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRate:
    """A prediction with its range, and the measured figure; None if either is missing."""

    predicted: float | None
    low: float | None
    high: float | None
    measured: float | None

    @property
    def inside(self) -> bool | None:
        """Whether the measurement is in the range; None if one is missing."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


def _speed(rate: ComparedRate) -> str:
    if rate.measured is None:
        return write_text("live", "verdict", "not_decoded")
    if rate.inside is None or rate.predicted is None:
        return write_text("live", "verdict", "not_predicted", measured=rate.measured)
    where, predicted = "inside" if rate.inside else "outside", rate.predicted
    return write_text("live", "verdict", "decoded", measured=rate.measured, where=where, low=rate.low, high=rate.high, predicted=predicted)


def judge_prediction(
    predicted: int,
    measured: int,
    rate: ComparedRate,
    *,
    floor_tokens_per_s: float | None,
    resolution: int,
    first_token_error: float | None = None,
) -> tuple[Code, str]:
    """A code and its sentence. Nothing is confirmed whose rate, or time to the first token, was predicted wrong by a factor of two.

    Args:
        predicted: peak of memory, in bytes.
        measured: the same.
        rate: tokens a second while decoding.
        floor_tokens_per_s: the most that the memory's bandwidth allows, where the datasheet states it.
        resolution: bytes that the measurement of memory cannot tell apart.
        first_token_error: predicted / measured - 1 of the time to the first token.
    """
    if floor_tokens_per_s is not None and rate.measured is not None and rate.measured > floor_tokens_per_s:
        return "invalid", write_text("live", "verdict", "impossible", measured=rate.measured, floor=floor_tokens_per_s)
    error, apart = predicted / max(1, measured) - 1, abs(predicted - measured)
    close = abs(error) <= MEMORY_WITHIN
    unclear = not close and apart <= resolution
    memory = write_text(
        "live", "verdict", "memory", error=abs(error), direction="more" if error > 0 else "less",
        close=write_text("live", "verdict", "close", promised=MEMORY_WITHIN) if close else "",
        unclear=write_text("live", "verdict", "unclear", apart=apart / MIB, resolution=resolution / MIB) if unclear else "",
    )  # fmt: skip
    rate_error = rate.predicted / rate.measured - 1 if rate.predicted and rate.measured else None
    errors = (("decoding", rate_error), ("the first token", first_token_error))
    off = [name for name, ratio in errors if ratio is not None and not 1 / FACTOR < ratio + 1 < FACTOR]
    code: Code = "memory_off" if not close and not unclear else "speed_off" if rate.inside is False or off else "confirmed"
    wrong = [write_text("live", "verdict", "wrong", figures=" and ".join(off))] if off else []
    return code, " ".join([memory, _speed(rate), *wrong])


FACTOR = 1.95
"""From this ratio on, an error is written as "2.0 times too slow"."""


COMMAND = (sys.executable, "-m", "lib.live.measure")
LIFE_S = 0.5
"""The longest silence: a run whose reader is gone is ended after this time at most."""


def run_in_child(
    ask: MeasureRequest, *, command: Sequence[str] = COMMAND, longest_s: float | None = None
) -> Iterator[RunStage | MeasuredRun]:
    """`measure_run` in a process of its own. Closing the iterator ends it.

    Raises:
        AdvisorError: the worker's refusal.
        OutOfMemory: the kernel ended it.
        TaskAborted: it was ended from outside, or took far longer than it was estimated to.
        LiveError: another measurement runs, or the process failed without a word.
    """
    with hardware_turn(), tempfile.TemporaryDirectory(prefix="measure-", dir=process.scratch_folder(), ignore_cleanup_errors=True) as home:
        yield "starting"
        worker = process.start_child(command, process.child_environment(home) | {"HF_HUB_OFFLINE": "1"})
        try:
            yield from _read_answers(worker, ask, longest_s or OVERRUN * ask.limit_s + START_S)
        finally:
            process.end_child(worker)


def _read_answers(worker: subprocess.Popen[bytes], ask: MeasureRequest, longest_s: float) -> Iterator[RunStage | MeasuredRun]:
    """Messages of the worker, until its last one."""
    assert worker.stdin is not None, "asked for above"  # noqa: S101 a fact for the type checker
    assert worker.stdout is not None, "asked for above"  # noqa: S101 as above
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_forward_lines, args=(worker.stdout, lines), name="worker", daemon=True).start()
    try:
        worker.stdin.write(json.dumps(asdict(ask)).encode() + b"\n")
        worker.stdin.flush()  # and left open: its end is the worker's sign that we are gone
    except BrokenPipeError:
        raise _exit_error(worker) from None
    until = time.monotonic() + longest_s
    stage: RunStage = "starting"
    while True:
        try:
            line = lines.get(timeout=min(LIFE_S, max(0.0, until - time.monotonic())))
        except queue.Empty:
            if time.monotonic() < until:
                yield stage  # said again: a generator can be closed only where it yields
                continue
            raise TaskAborted(
                f"The run was ended: it took more than {longest_s:,.0f} s, far longer than estimated. "
                "Next: a shorter prompt, fewer tokens or a smaller model."
            ) from None
        if not line:
            raise _exit_error(worker)
        word = json.loads(line)
        if "stage" in word:
            stage = word["stage"]
            yield stage
        elif "measured" in word:
            yield MeasuredRun(**word["measured"])
            return
        else:
            raise Fault(code=word["code"], sentence=word["sentence"]).error()


def _forward_lines(stdout: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    """Hand on line after line; an empty one when there are no more."""
    for line in stdout:
        lines.put(line)
    lines.put(b"")


def _exit_error(worker: subprocess.Popen[bytes]) -> LiveError:
    """Why a worker ended without an answer, as its exit status tells."""
    status = worker.wait(timeout=process.END_S)
    if status == -signal.SIGKILL:
        return OutOfMemory(
            "The process that ran this model was ended by the system, most likely because memory ran out; the app was not touched. "
            "Next: a smaller model, a lower precision, a shorter prompt, or hardware with more memory."
        )
    if status < 0:
        name = signal.Signals(-status).name
        return TaskAborted(f"The process that ran this model was ended by {name}; the app was not touched. Try again, or another model.")
    return LiveError(
        f"The process that ran this model ended without an answer (status {status}); the app was not touched. Try again, or another model."
    )


START_OF_TRANSFORMERS_S = 5.0
"""Seconds of a GPU's process until the architecture is built. An allowance, not a measurement."""


def gpu_seconds(ask: MeasureRequest) -> float:
    """Seconds of a GPU that a run declares."""
    return start_seconds(ask.placed_bytes) + START_OF_TRANSFORMERS_S + ask.limit_s


_on_gpu = gpu_task(measure_run, duration=gpu_seconds, size=lambda ask: ask.size, doing=ACTIVITY)

if on_zero_gpu():
    from lib.model.build import LOCK

    # The GPU's process is a fork of this one and builds the architecture anew: a lock that another thread holds now, it would hold forever.
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


def import_ahead() -> None:
    """On ZeroGPU, import here the modules of a run: the GPU's process is a fork of this one, and its seconds are the visitor's.

    Elsewhere a run imports in a process of its own, and this does nothing. No caller waits for it.
    """
    if on_zero_gpu():
        from lib.model.build import SMALLEST, build  # noqa: PLC0415 it loads torch

        threading.Thread(target=build, args=(SMALLEST,), name="warm-up", daemon=True).start()


def run_measurement(ask: MeasureRequest, device: Device) -> Iterator[RunStage | MeasuredRun]:
    """The measurement as it goes; the last item is the figures. Closing the iterator ends it."""
    if device.per_call:
        yield from _on_gpu(ask)
    else:
        yield from run_in_child(ask)


def main() -> None:
    """Answer the one question on stdin."""
    process.write_lines(logging.WARNING)
    answers = os.fdopen(process.answer_descriptor(), "w", encoding="utf-8")

    def tell(**word: object) -> None:
        print(json.dumps(word), file=answers, flush=True)

    try:
        question = json.loads(sys.stdin.readline())
        ask = MeasureRequest(**question | {"work": RunWork(**question["work"])})
        process.end_with_parent()
        process.confine(ask.memory_limit_bytes)
        for item in measure_run(ask):
            if isinstance(item, MeasuredRun):
                tell(measured=asdict(item))
            else:
                tell(stage=item)
    except AdvisorError as refusal:
        tell(code=refusal.code, sentence=str(refusal))
    answers.flush()
    os._exit(0)  # torch's threads and gigabytes need no orderly end


if __name__ == "__main__":
    main()
