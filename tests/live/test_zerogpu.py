"""What spaces, torch and Gradio raise, as sentences with a next step; and how those sentences cross the border between processes."""

from __future__ import annotations

import math
import pickle
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import gradio as gr
import httpx
import pytest
import torch

from lib import errors
from lib.catalog import load
from lib.errors import AdvisorError, BadArgument, DoesNotFit, Fault, LiveError, to_fault
from lib.live import zerogpu
from lib.live.chat import Conversations
from lib.live.zerogpu import gpu_task, quota_seconds, size_for, translate_failure, unknown_failure, whole_seconds
from lib.present.sentences import sentence
from lib.provenance import Caveat

ZEROGPU = load().rules.zerogpu
LINK = "Subscribe to Hugging Face PRO to get 40 min of ZeroGPU quota a day - https://huggingface.co/subscribe/pro?from=ZeroGPU"


def kinds(of: type[AdvisorError] = AdvisorError) -> Iterator[type[AdvisorError]]:
    """The whole tree."""
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


def translate_refusal(title: str, message: str) -> AdvisorError:
    """What a refusal of ZeroGPU's client becomes."""
    found = translate_failure(gr.Error(message, title=title, print_exception=False))
    assert found is not None
    return found


REFUSALS = [
    (
        "ZeroGPU quota exceeded",
        "Space app has reached its GPU limit. Try re-running outside of examples if it happened after clicking one",
        errors.QuotaExceeded,
        ["sign in", "token='hf_…'"],
    ),
    (
        "ZeroGPU quota exceeded",
        f"You have exceeded your free ZeroGPU quota (13s requested vs. 10s left). Try again in 1:00:00. {LINK}",
        errors.QuotaExceeded,
        ["13 s asked for, 10 s left", "wait 1:00:00", "PRO (40 minutes a day)"],
    ),
    (
        "ZeroGPU quota exceeded",
        "You have exceeded your Pro ZeroGPU quota (90s requested vs. 4s left). Try again in 1 day, 0:10:00. ",
        errors.QuotaExceeded,
        ["wait 1 day, 0:10:00", "add credits"],
    ),
    (
        "ZeroGPU quota exceeded",
        "You have exceeded your ZeroGPU quota (90s requested vs. 4s left). Try again in 0:10:00. ",
        errors.QuotaExceeded,
        ["sign in (a free account gets more"],
    ),
    ("ZeroGPU quota exceeded", "You have exceeded your ZeroGPU runs limit. ", errors.RunLimit, ["tomorrow", "PRO"]),
    (
        "ZeroGPU illegal duration",
        "The requested GPU duration (900s) is larger than the maximum allowed",
        errors.IllegalDuration,
        ["900 s of quota", "shorter"],
    ),
    (
        "ZeroGPU pending credits exceeded",
        "You have too many ZeroGPU credits allocated to running tasks.",
        errors.QuotaExceeded,
        ["wait until they have ended"],
    ),
    (
        "ZeroGPU queue timeout",
        'No GPU was available after 60s. <a href="https://huggingface.co/join">Create a free account</a> to get a higher priority',
        errors.NoGpuFree,
        ["within 60 s", "nothing was taken"],
    ),
    ("ZeroGPU quota exceeded", "No GPU was available after 60s. Try re-running outside", errors.NoGpuFree, ["within 60 s"]),
    ("ZeroGPU client error", "No GPU was available", errors.NoGpuFree, ["no GPU free,"]),
    ("ZeroGPU client error", "Expired ZeroGPU proxy token", LiveError, ["Reload the page"]),
    ("ZeroGPU worker error", "GPU task aborted", errors.TaskAborted, ["ended from outside"]),
    ("ZeroGPU worker error", "OutOfMemoryError", errors.OutOfMemory, ["more memory"]),
    ("ZeroGPU worker error", "AcceleratorError", LiveError, ["restarts the Space"]),
    ("ZeroGPU worker error", "ValueError", LiveError, ["(ValueError)"]),
    ("ZeroGPU client error", "Internal Gradio error", LiveError, ["Internal Gradio error"]),
]


@pytest.mark.parametrize(("title", "message", "kind", "holds"), REFUSALS)
def test_what_zero_gpu_refuses(title: str, message: str, kind: type[AdvisorError], holds: list[str]) -> None:
    """Titles and words of spaces 0.51.3; each sentence says what to do next and holds no markup and no address."""
    found = translate_refusal(title, message)
    assert type(found) is kind
    for part in holds:
        assert part in str(found)
    assert "Next:" in str(found) or "Reload" in str(found) or "Try again" in str(found)
    assert "<" not in str(found)
    assert "https://" not in str(found)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"), errors.OutOfMemory),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried"), errors.OutOfMemory),
        (MemoryError(), errors.OutOfMemory),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), LiveError),
        (RuntimeError("Connection closed by visitor while queueing"), errors.TaskAborted),
        (RuntimeError("ZeroGPU API /schedule error: 500 (Internal Server Error)"), errors.NoGpuFree),
        (httpx.ConnectError("[Errno 111] Connection refused"), errors.NoGpuFree),
        (httpx.ReadTimeout("timed out"), errors.NoGpuFree),
        (DoesNotFit("as it is"), DoesNotFit),
    ],
)
def test_what_torch_and_the_scheduler_raise(error: Exception, kind: type[AdvisorError]) -> None:
    """Each by what it says, for spaces and torch share RuntimeError between many things."""
    assert type(translate_failure(error)) is kind


@pytest.mark.parametrize("error", [ValueError("secret"), RuntimeError("secret"), KeyError("secret")])
def test_what_nobody_foresaw(error: Exception) -> None:
    """It is not guessed at; the sentence for it names the class and nothing of its words."""
    assert translate_failure(error) is None
    assert "secret" not in str(unknown_failure(error, "doing it"))
    assert type(error).__name__ in str(unknown_failure(error, "doing it"))


def test_every_error_survives_the_way_between_processes() -> None:
    """The kind and the sentence of each one of the tree, those with arguments of their own included."""
    for kind in (kind for kind in kinds() if kind.__module__ == AdvisorError.__module__):  # others are their module's own affair
        crossed = pickle.loads(pickle.dumps(Fault(code=kind.code, sentence="It was so. Next: this."))).error()  # noqa: S301 our own
        assert type(crossed) is kind
        assert (str(crossed), crossed.code) == ("It was so. Next: this.", kind.code)


def test_a_sentence_leaves_a_task_whole() -> None:
    """An error of ours keeps its words; a generator's items come before it."""

    def raise_error() -> None:
        raise BadArgument("x", 1, "2")

    def pieces() -> Iterator[int]:
        yield 1
        raise MemoryError

    with pytest.raises(BadArgument, match=r"x was '1'. Accepted: 2."):
        gpu_task(raise_error, duration=1)()
    seen = []
    with pytest.raises(errors.OutOfMemory):
        seen.extend(gpu_task(pieces, duration=1)())
    assert seen == [1]


def test_closing_reaches_the_task() -> None:
    """A generator that is closed closes what it wraps."""
    left = []

    def pieces() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            left.append(True)

    wrapped: Any = gpu_task(pieces, duration=1)()
    next(wrapped)
    wrapped.close()
    assert left == [True]


def test_what_a_failure_held_is_dropped() -> None:
    """The frames of a translated failure no longer hold their tensors: nothing else would let the memory go."""
    held: list[weakref.ref[torch.Tensor]] = []

    def raise_error() -> None:
        big = torch.zeros(10)
        held.append(weakref.ref(big))
        raise MemoryError

    with pytest.raises(errors.OutOfMemory):
        gpu_task(raise_error, duration=1)()
    assert held[0]() is None


@pytest.mark.parametrize(
    ("asked", "declared"),
    [
        (0, 1),
        (-5, 1),
        (0.2, 1),
        (7.01, 8),
        (1e9, 300),
        (math.inf, 300),
        (-math.inf, 1),
        (math.nan, 300),
        ("7", 300),
        (None, 300),
        (True, 300),
    ],
)
def test_durations_are_held_to_what_may_be_declared(asked: object, declared: int) -> None:
    """Whole seconds, at least one, never more than the longest."""
    assert whole_seconds(asked) == declared


def test_what_a_run_asks_of_the_quota() -> None:
    """60 s: × 1.5 on half a card, × 2 on a whole one (spaces 0.51.3, `get_duration_seconds`, and the double price of xlarge)."""
    assert quota_seconds(ZEROGPU, 60) == 90
    assert quota_seconds(ZEROGPU, 60, "xlarge") == 120
    assert "60 × 1.5 (duration factor) × 1 (size) = 90 s" in sentence(Caveat("quota", zerogpu.quota_values(ZEROGPU, 60)))


def test_the_size_by_need() -> None:
    """Half a card holds 48 GB or so; what does not fit it gets the whole."""
    assert size_for(load(), 10 * 2**30) == "large"
    assert size_for(load(), 60 * 2**30) == "xlarge"


def test_values_are_small() -> None:
    """Only code and sentence travel."""
    assert to_fault(LiveError("a")) == Fault(code="live_error", sentence="a")


def test_a_large_model_gets_a_whole_card() -> None:
    """The size is chosen by what was loaded: 50 GB of weights do not fit half a card with what else they need."""
    sizes = [
        Conversations(cast("Any", SimpleNamespace(loaded_model=SimpleNamespace(weights_bytes=bytes_))), load).size()
        for bytes_ in (6e9, 50e9)
    ]
    assert sizes == ["large", "xlarge"]
