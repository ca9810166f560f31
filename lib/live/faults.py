"""From what `spaces`, torch and Gradio raise to our own errors, each with its next step.

ZeroGPU's client tells its refusals apart only by the title and words of a `gr.Error`; an exception inside the GPU's process arrives as the
name of its class and nothing more. So sentences of our own cross the border between the processes as values (`Fault`).
Source: spaces 0.51.3, zero/client.py and zero/wrappers.py; torch 2.13; read 2026-11-21.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from lib.errors import AdvisorError, IllegalDuration, LiveError, NoGpuFree, OutOfMemory, QuotaExceeded, RunLimit, TaskAborted

ELSEWHERE = "hardware of its own (the tab 'My Space' switches it) has no such quota"
SHORTER = "ask for less (a shorter prompt, fewer tokens)"
_LATER = "Try again in a minute, or run this app on hardware of its own: there nobody waits."
_LONGEST = 300


def clean_text(text: object) -> str:
    """Foreign words without markup, addresses and control characters, short enough for a sentence."""
    words = re.sub(r"<[^>]*>|https?://\S+", " ", str(text)[: 4 * _LONGEST])
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())[:_LONGEST]


def _kinds(of: type[AdvisorError]) -> Iterator[type[AdvisorError]]:
    yield of
    for kind in of.__subclasses__():
        yield from _kinds(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One of our errors as a value that can be pickled."""

    code: str
    sentence: str

    def error(self) -> AdvisorError:
        """The same error again; of the root's kind when the code is unknown."""
        kind = next((kind for kind in _kinds(AdvisorError) if kind.code == self.code), AdvisorError)
        found = kind.__new__(kind, self.sentence)  # past each kind's own __init__: the sentence is already written
        Exception.__init__(found, self.sentence)
        return found


def to_fault(error: AdvisorError) -> Fault:
    """The error in a form that survives the way between processes."""
    return Fault(code=error.code, sentence=str(error))


def translate_failure(error: BaseException) -> AdvisorError | None:
    """The error that a failure on the device becomes for a visitor; None when the failure is not a known one."""
    if isinstance(error, AdvisorError):
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
        return NoGpuFree(f"ZeroGPU's scheduler could not be reached ({name}). {_LATER}")
    return None


def unknown_failure(error: BaseException, doing: str) -> LiveError:
    """An unknown failure: only the name of its class, because its message may hold anything."""
    return LiveError(
        f"The device failed while {doing} ({type(error).__name__}). Nothing is left running; try again, and with less if it happens again."
    )


def out_of_memory(what: str = "The device") -> OutOfMemory:
    """Memory ran out during a run."""
    return OutOfMemory(
        f"{what} ran out of memory during the run; what the run held was given back and the app stays up. "
        f"Next: {SHORTER}, a smaller model or a lower precision, or a tier with more memory."
    )


def _from_torch(name: str, words: str) -> LiveError | None:
    if name == "OutOfMemoryError" or "out of memory" in words or "can't allocate memory" in words or "not enough memory" in words:
        return out_of_memory()
    if name == "AcceleratorError" or words.startswith(("CUDA error", "CUDA driver", "HIP error", "cuDNN error", "CUBLAS_STATUS")):
        return LiveError(
            "The GPU reported an error of its own and this process may no longer be able to use it. "
            "Next: try again; if it happens again, the owner restarts the Space."
        )
    return None


def _from_scheduler(words: str) -> LiveError | None:
    """The error for a bare RuntimeError of spaces."""
    if words.startswith("Connection closed by visitor"):
        return TaskAborted(
            "The connection was closed while waiting for a GPU, so nothing was run. Ask again to get a new place in the queue."
        )
    if words.startswith(("ZeroGPU API /schedule", "Unexpected end of stream", "Error while re-trying after queue")):
        return NoGpuFree(f"ZeroGPU's scheduler did not answer as it should, so no GPU was given. {_LATER}")
    return None


def _from_zero(title: str, message: str) -> LiveError:
    """A refusal of ZeroGPU by its title and words."""
    words = clean_text(message)
    if title == "ZeroGPU illegal duration":
        return _illegal(words)
    if title == "ZeroGPU pending credits exceeded":
        return QuotaExceeded(
            "Too many of your ZeroGPU credits are held by tasks that still run, so this one was not started. "
            "Next: wait until they have ended, and try again."
        )
    if words.startswith(("No GPU was available", "Expired ZeroGPU proxy token")) or title == "ZeroGPU queue timeout":
        return _none_free(words)
    if title == "ZeroGPU quota exceeded":
        return _quota(words)
    if title == "ZeroGPU worker error":
        return _worker(words)
    return LiveError(f"ZeroGPU refused the run: {words or 'it gave no reason'}. {_LATER}")


def _none_free(words: str) -> LiveError:
    if words.startswith("Expired"):
        return LiveError("ZeroGPU no longer knows who you are: the page has been open too long. Reload the page, and ask again.")
    waited = " within 60 s" if "60s" in words else ""
    return NoGpuFree(
        f"ZeroGPU had no GPU free{waited}, and nothing was taken from your quota. "
        f"Next: try again later (accounts that are signed in go before strangers, PRO before free), or run elsewhere: {ELSEWHERE}."
    )


def _illegal(words: str) -> IllegalDuration:
    asked = re.search(r"\((\d+)s\)", words)
    seconds = f" ({asked[1]} s of quota)" if asked else ""
    return IllegalDuration(
        f"ZeroGPU does not grant a run this long{seconds} to your account. Next: {SHORTER}, sign in with an account that may run longer "
        f"(PRO), or run elsewhere: {ELSEWHERE}."
    )


def _quota(words: str) -> LiveError:
    if "runs limit" in words:
        return RunLimit(
            "Your ZeroGPU runs of today are used up: the number of runs is limited beside their seconds. "
            f"Next: try again tomorrow, sign in with a PRO account, which may run more, or run elsewhere: {ELSEWHERE}."
        )
    if words.startswith("Space app has reached"):
        return QuotaExceeded(
            "ZeroGPU does not know who is asking, and the quota that strangers share on this Space is used up. "
            "Next: sign in on huggingface.co and open the Space there; over the API send your token (Client(…, token='hf_…'))."
        )
    figures = re.search(r"\((\d+)s requested vs\. (\d+)s left\)", words)
    when = re.search(r"Try again in ([\w :,.-]+?)\. ", words + " ")
    had = f" ({figures[1]} s asked for, {figures[2]} s left)" if figures else ""
    after = f"wait {when[1]} (hours:minutes:seconds)" if when else "wait until it refills"
    return QuotaExceeded(
        f"Your ZeroGPU quota does not suffice{had}. Next: {after}, {SHORTER}, {_more_quota(words)}, or run elsewhere: {ELSEWHERE}."
    )


def _more_quota(words: str) -> str:
    """How this visitor gets more, by the account that ZeroGPU named."""
    if "Pro ZeroGPU" in words:
        return "add credits to your account (huggingface.co/settings/billing)"
    if "free ZeroGPU" in words:
        return "subscribe to PRO (40 minutes a day)"
    return "sign in (a free account gets more than a stranger)"


def _worker(words: str) -> LiveError:
    """The GPU's process failed or ended; of an exception, spaces reports only the name of its class."""
    if words == "GPU task aborted":
        return TaskAborted(
            "The run was ended from outside before it was done: it took longer than it had asked for, or its process was killed. "
            f"Next: {SHORTER}, or try again."
        )
    if words in {"OutOfMemoryError", "MemoryError"}:
        return out_of_memory()
    if words == "AcceleratorError":
        return _from_torch(words, "") or LiveError(words)
    name = words if words.isidentifier() else "an unknown failure"
    return LiveError(f"The run failed on the GPU ({name}), and the GPU was given back. Next: try again, and with less if it happens again.")
