"""ZeroGPU: functions that get a GPU for as long as they run. Elsewhere the same functions run where they are called.

gpu_task(measure, duration=lambda request: request.seconds)(request)

On ZeroGPU such a function runs in a process forked from this one, to which arguments and results travel pickled, and only functions that
were wrapped before the app is launched count. The seconds are asked of the visitor's quota before the run:

The declared seconds are rounded up to whole ones here, for the package drops fractions; `lib.laws.price` says what they cost.
The quota has to hold all of them or nothing runs, and short requests wait less: so seconds are worked out from each request.
A generator is closed with its wrapper; the GPU is then given back when the generator yields next, so it has to yield often.
Source: spaces 0.51.3, zero/client.py (`get_duration_seconds`), zero/wrappers.py; factors in lib/data/platform.json; 2026-11-21.
"""

from __future__ import annotations

import gc
import inspect
import logging
import math
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from lib.catalog import Catalog
from lib.catalog.offers import ZEROGPU_OFFERS
from lib.catalog.rules import ZeroGpuRules
from lib.cost.usage import to_decimal
from lib.errors import AdvisorError
from lib.laws.price import requested_quota_seconds
from lib.live.device import Size, on_zero_gpu
from lib.live.faults import Fault, to_fault, translate_failure, unknown_failure
from lib.provenance import Value

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
Seconds = float | Callable[..., float]
Need = Size | Callable[..., Size]

LONGEST_S = 300
"""The most that is ever declared. ZeroGPU's own limit is not documented; an anonymous visitor's whole day has 120 s."""

START_S = 3.0
"""A new process on the GPU: fork, the first CUDA call, Python's own. An allowance, not a measurement."""

MOVED_BYTES_PER_S = 1.5e9
"""Placed weights on their way from disk to the GPU, which happens in every new process. An allowance: half of what one NVMe disk reads."""


def whole_seconds(seconds: object) -> int:
    """A duration that may be declared: whole, 1 … LONGEST_S; a value that is not a number counts as the longest."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        return LONGEST_S
    return math.ceil(min(max(seconds, 1.0), float(LONGEST_S)))


def factors(rules: ZeroGpuRules, size: Size = "large") -> tuple[Decimal, int]:
    """Duration factor and multiplier of a size: on ZeroGPU what the package will apply to the card that it finds, else the rules'."""
    of = rules.size(ZEROGPU_OFFERS[size])
    if not on_zero_gpu():
        return of.duration_factor, of.quota_multiplier
    from spaces.zero.client import get_duration_seconds  # type: ignore[import-untyped]  # noqa: PLC0415 it asks the scheduler with this

    return to_decimal(get_duration_seconds(timedelta(seconds=1), size)), of.quota_multiplier


def quota_seconds(rules: ZeroGpuRules, seconds: float, size: Size = "large") -> int:
    """What a run of these declared seconds asks of the visitor's quota."""
    factor, multiplier = factors(rules, size)
    return requested_quota_seconds(declared_s=whole_seconds(seconds), duration_factor=factor, multiplier=multiplier)


def quota_values(rules: ZeroGpuRules, seconds: float, size: Size = "large") -> dict[str, Value]:
    """The same with its factors, as values of a caveat."""
    factor, multiplier = factors(rules, size)
    return {
        "declared": whole_seconds(seconds), "size": size, "duration_factor": float(factor), "multiplier": multiplier,
        "quota": quota_seconds(rules, seconds, size),
    }  # fmt: skip


def size_for(catalog: Catalog, need_bytes: float) -> Size:
    """The smallest size whose memory holds this much; the largest when none does."""
    holds = catalog.offer(ZEROGPU_OFFERS["large"]).vram_bytes_per_accelerator
    assert holds is not None, "ZeroGPU has memory"  # noqa: S101 a row of our own catalog
    return "large" if need_bytes <= holds else "xlarge"


def start_seconds(placed_bytes: float) -> float:
    """Seconds before a function's first line in a new process, which count as its run."""
    return START_S + placed_bytes / MOVED_BYTES_PER_S


def release_memory() -> None:
    """Give unused device memory back, after a failure whose frames no longer hold tensors."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _to_advisor_error(error: Exception, doing: str) -> AdvisorError:
    """Our error for this exception, whose frames are released. An unknown failure is logged here: only the log may hold its message."""
    translated = translate_failure(error)
    if translated is None:
        log.error("unforeseen failure while %s", doing, exc_info=error)
        translated = unknown_failure(error, doing)
    if translated is not error:
        traceback.clear_frames(error.__traceback__)
    return translated


def _run_on_gpu(task: Callable[..., Any], doing: str) -> Callable[..., Any]:
    """The function as it runs on the GPU: an error leaves it as a value, for of an exception only the class's name would arrive."""

    @wraps(task)
    def once(*args: Any, **kwargs: Any) -> Any:
        try:
            return task(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 every failure becomes a sentence
            fault = to_fault(_to_advisor_error(error, doing))
        release_memory()
        return fault

    @wraps(task)
    def many(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            with closing(task(*args, **kwargs)) as items:
                yield from items
        except Exception as error:  # noqa: BLE001 as above
            fault = to_fault(_to_advisor_error(error, doing))
        else:
            return
        release_memory()
        yield fault

    return many if inspect.isgeneratorfunction(task) else once


def _call_gpu(call: Callable[..., Any], doing: str, *, streams: bool) -> Callable[..., Any]:
    """The function as it is called: values that mean an error are raised, and what the scheduler refuses becomes a sentence."""

    def once(*args: Any, **kwargs: Any) -> Any:
        try:
            outcome = call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 as above
            raise _to_advisor_error(error, doing) from None
        if isinstance(outcome, Fault):
            raise outcome.error()
        return outcome

    def many(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with closing(call(*args, **kwargs)) as items:
            while True:
                try:
                    outcome = next(items)
                except StopIteration:
                    return
                except Exception as error:  # noqa: BLE001 as above
                    raise _to_advisor_error(error, doing) from None
                if isinstance(outcome, Fault):
                    raise outcome.error()
                yield outcome

    return many if streams else once


def gpu_task(task: Callable[P, R], *, duration: Seconds, size: Need = "large", doing: str = "running this") -> Callable[P, R]:
    """`task`, run on a GPU of ZeroGPU where the app is there, and in this process elsewhere; generator functions too.

    `duration` (seconds, or what works them out from the same arguments) and `size` (or what chooses it likewise) matter on ZeroGPU only.
    Call it before the app is launched. `doing` completes "The device failed while …".

    Raises (when called):
        AdvisorError: the task's own; what the scheduler, torch or the device refused; LiveError for an unknown failure.
    """
    streams = inspect.isgeneratorfunction(task)
    if not on_zero_gpu():
        return cast("Callable[P, R]", _call_gpu(_run_on_gpu(task, doing), doing, streams=streams))
    import spaces  # type: ignore[import-untyped]  # noqa: PLC0415 app.py imported it first

    def declared_seconds(*args: Any, **kwargs: Any) -> int:
        return whole_seconds(duration(*args, **kwargs) if callable(duration) else duration)

    sizes: tuple[Size, ...] = ("large", "xlarge") if callable(size) else (size,)
    on = {of: spaces.GPU(_run_on_gpu(task, doing), duration=declared_seconds, size=of) for of in sizes}

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return on[size(*args, **kwargs) if callable(size) else size](*args, **kwargs)

    return cast("Callable[P, R]", wraps(task)(_call_gpu(chosen, doing, streams=streams)))
