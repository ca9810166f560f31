"""A measurement where the device is: in a process of its own, or on ZeroGPU in the process that is given a GPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from lib.live.device import Device, Size, on_zero_gpu
from lib.live.isolated import isolated
from lib.live.measure import DOING, Ask, Measured, Stage, measuring
from lib.live.zero import gpu_task, size_for, start_seconds
from lib.model.build import LOCK, SMALLEST, build

START_OF_TRANSFORMERS_S = 5.0
"""Seconds of a GPU's process until the architecture stands. An allowance, not a measurement."""


def gpu_seconds(ask: Ask) -> float:
    """Seconds of a GPU that a run declares."""
    return start_seconds(ask.placed_bytes) + START_OF_TRANSFORMERS_S + ask.limit_s


def gpu_size(ask: Ask) -> Size:
    """The size whose memory holds the run."""
    return size_for(ask.need_bytes)


_on_gpu = gpu_task(measuring, duration=gpu_seconds, size=gpu_size, doing=DOING)

if on_zero_gpu():
    # The GPU's process is a fork of this one and builds the architecture anew: a lock that another thread holds now, it would hold forever.
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


def warm_up() -> None:
    """On ZeroGPU, import here what a run needs: the GPU's process is a fork of this one, and its seconds are the visitor's.

    Elsewhere a run imports in a process of its own, and this does nothing. Nobody waits for it.
    """
    if on_zero_gpu():
        threading.Thread(target=build, args=(SMALLEST,), name="warm-up", daemon=True).start()


def run(ask: Ask, device: Device) -> Iterator[Stage | Measured]:
    """The measurement as it goes; the last item is the figures. Closing the iterator ends it.

    Raises:
        AdvisorError: what was refused, by the worker, the scheduler or the device.
    """
    if device.kind == "zerogpu":
        yield from _on_gpu(ask)
    else:
        yield from isolated(ask)
