"""Seconds and peak bytes of the phases of training steps on this device."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C._autograd import DeviceType
from transformers import TrainerCallback

CUDA = torch.cuda.is_available()


def synchronize() -> None:
    """Wait until the device has done what it was given."""
    if CUDA:
        torch.cuda.synchronize()


class Meter:
    """Seconds and peak bytes of the phases of each step. Phases do not overlap: a nested one interrupts the outer one."""

    def __init__(self) -> None:
        self.steps: list[dict[str, dict[str, float]]] = []
        self.kernels: list[dict[str, Any]] = []
        self.phase = "between"
        self.current: dict[str, dict[str, float]] = {}
        self.since = time.perf_counter()

    def switch(self, phase: str) -> str:
        """End the current phase, begin another, and return the name of the ended one."""
        synchronize()
        now = time.perf_counter()
        row = self.current.setdefault(self.phase, {"seconds": 0.0, "allocated": 0, "reserved": 0})
        row["seconds"] += now - self.since
        if CUDA:
            row["allocated"] = max(row["allocated"], torch.cuda.max_memory_allocated())
            row["reserved"] = max(row["reserved"], torch.cuda.max_memory_reserved())
            torch.cuda.reset_peak_memory_stats()
        ended, self.phase = self.phase, phase
        self.since = time.perf_counter()
        return ended

    @contextlib.contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count what happens inside as this phase."""
        outer = self.switch(phase)
        try:
            yield
        finally:
            self.switch(outer)

    def wrap(self, owner: Any, name: str, phase: str, applies: Callable[[], bool] = lambda: True) -> None:
        """Count the calls of a method as a phase, where the condition holds."""
        plain = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            if not applies():
                return plain(*args, **kwargs)
            with self.during(phase):
                return plain(*args, **kwargs)

        setattr(owner, name, counted)

    def watch(self, model: torch.nn.Module) -> None:
        """Count passes of a model without gradient as scoring, but those of a rollout."""
        outer: list[str] = []

        def begin(*_: Any) -> None:
            if not torch.is_grad_enabled() and self.phase not in {"rollout", "scoring"}:
                outer.append(self.switch("scoring"))

        def end(*_: Any) -> None:
            if outer:
                self.switch(outer.pop())

        model.register_forward_pre_hook(begin)
        model.register_forward_hook(end)

    def end_step(self) -> None:
        """Close the step."""
        self.switch("between")
        self.steps.append(self.current)
        self.current = {}

    def summary(self) -> dict[str, Any]:
        """Medians over all steps but the first, and the largest peaks of those."""
        kept = self.steps[1:] or self.steps
        names = list(dict.fromkeys(name for step in kept for name in step))
        phases = {
            name: {
                "seconds": statistics.median(step.get(name, {}).get("seconds", 0.0) for step in kept),
                "allocated": max(int(step.get(name, {}).get("allocated", 0)) for step in kept),
                "reserved": max(int(step.get(name, {}).get("reserved", 0)) for step in kept),
            }
            for name in names
        }
        totals = [sum(part["seconds"] for part in step.values()) for step in self.steps]
        return {
            "phases": phases,
            "step_s": statistics.median(totals[1:] or totals),
            "steps_s": [round(total, 4) for total in totals],
            "allocated": max(part["allocated"] for part in phases.values()),
            "reserved": max(part["reserved"] for part in phases.values()),
        } | ({"kernels": self.kernels} if self.kernels else {})


class StepEnds(TrainerCallback):
    """Tells the meter where a step ends, and counts the optimizer as a phase."""

    def __init__(self, meter: Meter, profiled_step: int | None) -> None:
        self.meter, self.profiled_step = meter, profiled_step
        self.profiler: Any = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002  the callback's signature
        """Profile the chosen step."""
        if state.global_step == self.profiled_step:
            self.profiler = torch.profiler.profile(activities=[getattr(torch.profiler.ProfilerActivity, "CUDA" if CUDA else "CPU")])
            self.profiler.start()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002  the callback's signature
        """Count calls of the optimizer."""
        self.meter.wrap(kwargs["optimizer"], "step", "optimizer")
        self.meter.switch("between")
        self.meter.current = {}

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002  the callback's signature
        """Close the step; a profiled one is left out of the medians."""
        self.meter.end_step()
        if self.profiler is not None:
            self.profiler.stop()
            self.meter.steps.pop()
            self.meter.kernels = list_kernels(self.profiler)
            self.profiler = None


def list_kernels(profiler: Any) -> list[dict[str, Any]]:
    """The kernels of a profile that take most time of the device."""
    rows = [(event.self_device_time_total, event) for event in profiler.key_averages() if event.device_type == DeviceType.CUDA]
    rows.sort(key=lambda row: -row[0])
    return [{"name": event.key[:160], "calls": event.count, "us": round(us)} for us, event in rows[:60]]
