"""Where a measurement runs: in a child process of its own, or on ZeroGPU in the process that is given a GPU.

A crash or a full memory in the child (`lib.live.child_process`) leaves the app alone, and all memory returns. The child gets no token and
no access to the Hub, and ends when its caller goes away or its time is over. One measurement runs at a time: two would disturb each other.

This module is also the child's program (`main`): a JSON object on stdin, JSON lines on stdout.
"""

from __future__ import annotations

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
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import IO, Any

from lib.errors import AdvisorError, LiveError, OutOfMemory, TaskAborted
from lib.live.child_process import END_S, answer_descriptor, confine, end, end_with_parent, environment, scratch_folder, start
from lib.live.device import Device, Size, on_zero_gpu
from lib.live.device_queue import hardware_turn
from lib.live.faults import Fault
from lib.live.limits import OVERRUN, START_S, Work
from lib.live.measure import ACTIVITY, MeasuredRun, MeasureRequest, Stage, measure_run
from lib.live.zerogpu import gpu_task, start_seconds
from lib.log_lines import write_lines

COMMAND = (sys.executable, "-m", "lib.live.measure_process")
LIFE_S = 0.5
"""The longest silence: a run whose reader is gone is ended after this time at most."""


def run_in_child(ask: MeasureRequest, *, command: Sequence[str] = COMMAND, longest_s: float | None = None) -> Iterator[Stage | MeasuredRun]:
    """`lib.live.measure.measure_run` in a process of its own. Closing the iterator ends it.

    Raises:
        AdvisorError: what the worker refused.
        OutOfMemory: the kernel ended it.
        TaskAborted: it was ended from outside, or took far longer than it was estimated to.
        LiveError: another measurement runs, or the process failed without a word.
    """
    with hardware_turn(), tempfile.TemporaryDirectory(prefix="measure-", dir=scratch_folder(), ignore_cleanup_errors=True) as home:
        yield "starting"
        worker = start(command, environment(home) | {"HF_HUB_OFFLINE": "1"})
        try:
            yield from _read_answers(worker, ask, longest_s or OVERRUN * ask.limit_s + START_S)
        finally:
            end(worker)


def _read_answers(worker: subprocess.Popen[bytes], ask: MeasureRequest, longest_s: float) -> Iterator[Stage | MeasuredRun]:
    """What the worker says, until its last word."""
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
    stage: Stage = "starting"
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


def _forward_lines(stdout: IO[bytes], said: queue.SimpleQueue[bytes]) -> None:
    """Hand on line after line; an empty one when there are no more."""
    for line in stdout:
        said.put(line)
    said.put(b"")


def _exit_error(worker: subprocess.Popen[bytes]) -> LiveError:
    """Why a worker ended without an answer, as its exit status tells."""
    status = worker.wait(timeout=END_S)
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
"""Seconds of a GPU's process until the architecture stands. An allowance, not a measurement."""


def gpu_seconds(ask: MeasureRequest) -> float:
    """Seconds of a GPU that a run declares."""
    return start_seconds(ask.placed_bytes) + START_OF_TRANSFORMERS_S + ask.limit_s


def gpu_size(ask: MeasureRequest) -> Size:
    """The size of GPU that a run asks for."""
    return ask.size


_on_gpu = gpu_task(measure_run, duration=gpu_seconds, size=gpu_size, doing=ACTIVITY)

if on_zero_gpu():
    from lib.model.build import LOCK

    # The GPU's process is a fork of this one and builds the architecture anew: a lock that another thread holds now, it would hold forever.
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


def warm_up() -> None:
    """On ZeroGPU, import here what a run needs: the GPU's process is a fork of this one, and its seconds are the visitor's.

    Elsewhere a run imports in a process of its own, and this does nothing. Nobody waits for it.
    """
    if on_zero_gpu():
        from lib.model.build import SMALLEST, build  # noqa: PLC0415 it loads torch

        threading.Thread(target=build, args=(SMALLEST,), name="warm-up", daemon=True).start()


def run_measurement(ask: MeasureRequest, device: Device) -> Iterator[Stage | MeasuredRun]:
    """The measurement as it goes; the last item is the figures. Closing the iterator ends it.

    Raises:
        AdvisorError: what was refused, by the worker, the scheduler or the device.
    """
    if device.kind == "zerogpu":
        yield from _on_gpu(ask)
    else:
        yield from run_in_child(ask)


def read_ask(found: dict[str, Any]) -> MeasureRequest:
    """The question from its JSON form."""
    return MeasureRequest(**{**found, "work": Work(**found["work"])})


def main() -> None:
    """Answer the one question on stdin."""
    write_lines(logging.WARNING)
    answers = os.fdopen(answer_descriptor(), "w", encoding="utf-8")

    def tell(**said: object) -> None:
        print(json.dumps(said), file=answers, flush=True)

    try:
        ask = read_ask(json.loads(sys.stdin.readline()))
        end_with_parent()
        confine(ask.memory_limit_bytes)
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
