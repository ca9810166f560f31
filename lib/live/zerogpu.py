"""ZeroGPU: functions that get a GPU for as long as they run, elsewhere run where they are called; and failures on a device as our errors.

    gpu_task(measure, duration=lambda request: request.seconds)(request)

On ZeroGPU such a function runs in a process forked from this one; arguments and results are pickled. Only functions that were wrapped
before the app is launched count. The seconds are asked of the visitor's quota before the run: rounded up to whole ones here, for the
package drops fractions (`lib.laws.price` says what they cost). The quota has to hold all of them or nothing runs, and short requests wait
less: so seconds are worked out from each request.
A generator is closed with its wrapper; the GPU is then given back when the generator yields next, so it has to yield often.

ZeroGPU's client tells its refusals apart only by the title and words of a `gr.Error`; an exception inside the GPU's process arrives as the
name of its class and nothing more. So sentences of our own cross the border between the processes as values (`Fault`).
Source: spaces 0.51.3, zero/client.py (`get_duration_seconds`), zero/wrappers.py; torch 2.13; factors in lib/data/platform.json; 2026-11-21.
"""

from __future__ import annotations

import gc
import inspect
import logging
import math
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from lib import errors
from lib.catalog import Catalog
from lib.catalog.offers import ZEROGPU_OFFERS
from lib.catalog.rules import ZeroGpuRules
from lib.cost.usage import to_decimal
from lib.laws.price import requested_quota_seconds
from lib.live.device import Size, on_zero_gpu
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
"""Placed weights on their way from disk to the GPU, which happens in every new process. An allowance: half the rate of one NVMe disk."""


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
    """Quota that a run of these declared seconds needs."""
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


def _to_advisor_error(error: Exception, doing: str) -> errors.AdvisorError:
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
            fault = errors.to_fault(_to_advisor_error(error, doing))
        release_memory()
        return fault

    @wraps(task)
    def many(*args: Any, **kwargs: Any) -> Iterator[Any]:
        try:
            with closing(task(*args, **kwargs)) as items:
                yield from items
        except Exception as error:  # noqa: BLE001 as above
            fault = errors.to_fault(_to_advisor_error(error, doing))
        else:
            return
        release_memory()
        yield fault

    return many if inspect.isgeneratorfunction(task) else once


def _call_gpu(call: Callable[..., Any], doing: str, *, streams: bool) -> Callable[..., Any]:
    """The function as it is called: values that mean an error are raised, and a refusal of the scheduler becomes a sentence."""

    def once(*args: Any, **kwargs: Any) -> Any:
        try:
            outcome = call(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 as above
            raise _to_advisor_error(error, doing) from None
        if isinstance(outcome, errors.Fault):
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
                if isinstance(outcome, errors.Fault):
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

    def run_on_size(*args: Any, **kwargs: Any) -> Any:
        return on[size(*args, **kwargs) if callable(size) else size](*args, **kwargs)

    return cast("Callable[P, R]", wraps(task)(_call_gpu(run_on_size, doing, streams=streams)))


ELSEWHERE = "hardware of its own (the tab 'My Space' switches it) has no such quota"
SHORTER = "ask for less (a shorter prompt, fewer tokens)"
_LATER = "Try again in a minute, or run this app on hardware of its own: there nobody waits."
_LONGEST = 300


def clean_text(text: object) -> str:
    """Foreign words without markup, addresses and control characters, short enough for a sentence."""
    words = re.sub(r"<[^>]*>|https?://\S+", " ", str(text)[: 4 * _LONGEST])
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())[:_LONGEST]


def translate_failure(error: BaseException) -> errors.AdvisorError | None:
    """The error that a failure on the device becomes for a visitor; None when the failure is not a known one."""
    if isinstance(error, errors.AdvisorError):
        return error
    gradio = sys.modules.get("gradio.exceptions")
    if gradio is not None and isinstance(error, gradio.Error):
        return _from_zero(str(getattr(error, "title", "")), str(error.message))
    if isinstance(error, MemoryError):
        return out_of_memory()
    name = type(error).__name__
    if isinstance(error, RuntimeError):
        return _from_torch(name, str(error)) or _from_scheduler(str(error))
    if type(error).__module__.partition(".")[0] == "httpx" and name.endswith(("Error", "Timeout")):
        return errors.NoGpuFree(f"ZeroGPU's scheduler could not be reached ({name}). {_LATER}")
    return None


def unknown_failure(error: BaseException, doing: str) -> errors.LiveError:
    """An unknown failure: only the name of its class, because its message may hold anything."""
    return errors.LiveError(
        f"The device failed while {doing} ({type(error).__name__}). Nothing is left running; try again, and with less if it happens again."
    )


def out_of_memory(what: str = "The device") -> errors.OutOfMemory:
    """Memory ran out during a run."""
    return errors.OutOfMemory(
        f"{what} ran out of memory during the run; what the run held was given back and the app stays up. "
        f"Next: {SHORTER}, a smaller model or a lower precision, or a tier with more memory."
    )


def _from_torch(name: str, words: str) -> errors.LiveError | None:
    if name == "OutOfMemoryError" or "out of memory" in words or "can't allocate memory" in words or "not enough memory" in words:
        return out_of_memory()
    if name == "AcceleratorError" or words.startswith(("CUDA error", "CUDA driver", "HIP error", "cuDNN error", "CUBLAS_STATUS")):
        return errors.LiveError(
            "The GPU reported an error of its own and this process may no longer be able to use it. "
            "Next: try again; if it happens again, the owner restarts the Space."
        )
    return None


def _from_scheduler(words: str) -> errors.LiveError | None:
    """The error for a bare RuntimeError of spaces."""
    if words.startswith("Connection closed by visitor"):
        return errors.TaskAborted(
            "The connection was closed while waiting for a GPU, so nothing was run. Ask again to get a new place in the queue."
        )
    if words.startswith(("ZeroGPU API /schedule", "Unexpected end of stream", "Error while re-trying after queue")):
        return errors.NoGpuFree(f"ZeroGPU's scheduler did not answer as it should, so no GPU was given. {_LATER}")
    return None


def _from_zero(title: str, message: str) -> errors.LiveError:
    """A refusal of ZeroGPU by its title and words."""
    words = clean_text(message)
    if title == "ZeroGPU illegal duration":
        return _illegal(words)
    if title == "ZeroGPU pending credits exceeded":
        return errors.QuotaExceeded(
            "Too many of your ZeroGPU credits are held by tasks that still run, so this one was not started. "
            "Next: wait until they have ended, and try again."
        )
    if words.startswith(("No GPU was available", "Expired ZeroGPU proxy token")) or title == "ZeroGPU queue timeout":
        return _none_free(words)
    if title == "ZeroGPU quota exceeded":
        return _quota(words)
    if title == "ZeroGPU worker error":
        return _worker(words)
    return errors.LiveError(f"ZeroGPU refused the run: {words or 'it gave no reason'}. {_LATER}")


def _none_free(words: str) -> errors.LiveError:
    if words.startswith("Expired"):
        return errors.LiveError("ZeroGPU no longer knows who you are: the page has been open too long. Reload the page, and ask again.")
    waited = " within 60 s" if "60s" in words else ""
    return errors.NoGpuFree(
        f"ZeroGPU had no GPU free{waited}, and nothing was taken from your quota. "
        f"Next: try again later (accounts that are signed in go before strangers, PRO before free), or run elsewhere: {ELSEWHERE}."
    )


def _illegal(words: str) -> errors.IllegalDuration:
    match = re.search(r"\((\d+)s\)", words)
    seconds = f" ({match[1]} s of quota)" if match else ""
    return errors.IllegalDuration(
        f"ZeroGPU does not grant a run this long{seconds} to your account. Next: {SHORTER}, sign in with an account that may run longer "
        f"(PRO), or run elsewhere: {ELSEWHERE}."
    )


def _quota(words: str) -> errors.LiveError:
    if "runs limit" in words:
        return errors.RunLimit(
            "Your ZeroGPU runs of today are used up: the number of runs is limited beside their seconds. "
            f"Next: try again tomorrow, sign in with a PRO account, which may run more, or run elsewhere: {ELSEWHERE}."
        )
    if words.startswith("Space app has reached"):
        return errors.QuotaExceeded(
            "ZeroGPU does not know who is asking, and the quota that strangers share on this Space is used up. "
            "Next: sign in on huggingface.co and open the Space there; over the API send your token (Client(…, token='hf_…'))."
        )
    figures = re.search(r"\((\d+)s requested vs\. (\d+)s left\)", words)
    when = re.search(r"Try again in ([\w :,.-]+?)\. ", words + " ")
    had = f" ({figures[1]} s asked for, {figures[2]} s left)" if figures else ""
    after = f"wait {when[1]} (hours:minutes:seconds)" if when else "wait until it refills"
    return errors.QuotaExceeded(
        f"Your ZeroGPU quota does not suffice{had}. Next: {after}, {SHORTER}, {_more_quota(words)}, or run elsewhere: {ELSEWHERE}."
    )


def _more_quota(words: str) -> str:
    """How this visitor gets more, by the account that ZeroGPU named."""
    if "Pro ZeroGPU" in words:
        return "add credits to your account (huggingface.co/settings/billing)"
    if "free ZeroGPU" in words:
        return "subscribe to PRO (40 minutes a day)"
    return "sign in (a free account gets more than a stranger)"


def _worker(words: str) -> errors.LiveError:
    """The GPU's process failed or ended; of an exception, spaces reports only the name of its class."""
    if words == "GPU task aborted":
        return errors.TaskAborted(
            "The run was ended from outside before it was done: it took longer than it had asked for, or its process was killed. "
            f"Next: {SHORTER}, or try again."
        )
    if words in {"OutOfMemoryError", "MemoryError"}:
        return out_of_memory()
    if words == "AcceleratorError":
        return _from_torch(words, "") or errors.LiveError(words)
    name = words if words.isidentifier() else "an unknown failure"
    return errors.LiveError(
        f"The run failed on the GPU ({name}), and the GPU was given back. Next: try again, and with less if it happens again."
    )
