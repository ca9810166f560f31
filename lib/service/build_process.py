"""Builds unseen architectures in a child process, so that a visitor's configuration cannot take memory in the app itself.

A configuration of 91 bytes can request gigabytes of Python objects, which no limit on torch calls sees. So builds, traces and cache runs
happen in a child (this module, run as a program) with a memory limit and a deadline for each question. The child is kept for the next
question. It is replaced after some hundreds of questions, when it has grown, or when it was ended. Its successor starts early, because
imports take about 4 s.

A question is one of our functions with its arguments, sent as a pickle. The answer is its return value or the refusal that it raises, sent
as JSON, because the child has read a visitor's file and is not trusted. Each field is checked against the function's return type, other
fields are rejected, and the child's bytes cannot choose a class of this process.
"""

from __future__ import annotations

import atexit
import faulthandler
import logging
import math
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from typing import Any, Final, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from lib.errors import AdvisorError, BadConfig, Fault, LiveError, to_fault
from lib.live.process import (
    answer_descriptor,
    child_environment,
    confine,
    end_child,
    end_with_parent,
    resident_bytes,
    scratch_folder,
    start_child,
    write_lines,
)
from lib.model.resolve import resolve_config
from lib.units import GIB, KIB

log = logging.getLogger(__name__)

Result = TypeVar("Result")

COMMAND: Final = (sys.executable, "-m", "lib.service.build_process")
READY: Final = b"ready"
BEGUN: Final = b"begun"
"""Sent by a child when its imports are over, and when it has a question."""
QUICK_S = 5.0  # then the question starts again in `slow_process`. 86 families take 0.6 s (median), at most 3.8 s, on two cores (2026-11-23)
BUILD_S = 20.0  # a slow question: 2,000 layers of Llama, which is more than any published model has, take 12 s
RUN_S = 50.0  # a dry run: some 2 s on a quiet machine, 15 s where eighteen processes share two cores
START_S = 120.0  # the imports take 4 s on a quiet machine
MEMORY_BYTES = 2 << 30  # all bundled configurations one after another: 0.5 GiB of writable memory
MAX_QUESTIONS = 500  # 300 configurations of ten families add nothing measurable to a child, each new family about 0.5 MiB
GROWN_BYTES = GIB  # twice the resident set after all bundled configurations
LOOK_S = 0.25  # interval of checking whether a question was given up
SLOW_S = 2.0  # from here on the question may end with the child, so the successor is started
_NICE = 10
MAX_ANSWER_BYTES = 512 << 10  # the largest of a bundled model: 40 kB
_NEXT = "Check its sizes and counts, or give the parameter count instead (such as '7B')."
_NOT_STARTED = (
    "The process that works out unseen models did not start. Models of the bundled catalog and parameter counts (such as '7B') still "
    "answer; try again in a minute."
)


def too_large(memory_bytes: int) -> BadConfig:
    """The refusal of a configuration that took more memory than a build may take."""
    return BadConfig(f"Working this configuration out takes more than {memory_bytes / GIB:g} GiB of memory and was stopped. {_NEXT}")


class _Sent(BaseModel):
    """Message of a child, and the bytes that it holds by then."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    resident_bytes: int


class _Answer(_Sent, Generic[Result]):
    """The result of a question."""

    result: Result


class _Refused(_Sent):
    """The refusal that it raised."""

    refusal: Fault


@cache
def _answer_type(function: Callable[..., object]) -> Any:
    """The class of a function's answers by its return annotation; plain JSON values without one."""
    return _Answer[get_type_hints(function).get("return", JsonValue)]  # type: ignore[misc]  # known at run time only


@cache
def _answers_of(function: Callable[..., object]) -> TypeAdapter[_Answer[Any] | _Refused]:
    """Reads a child's answer to a question about this function."""
    return TypeAdapter(_answer_type(function) | _Refused)


_SIGNALS: Final = {each.value: each.name for each in signal.Signals}
"""Real-time signals between the first and the last have no name."""


class TooSlow(BadConfig):
    """A question took longer than its deadline."""


class _ChildGoneError(Exception):
    """The child was dead, or had sent bytes that it should not, before it got the question."""


class _Child:
    """One worker with its pipes. Its holder ends it."""

    def __init__(self, memory_bytes: int, nice: int) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="build-", dir=scratch_folder(), ignore_cleanup_errors=True)
        variables = child_environment(self._home.name) | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        self._process = start_child((*COMMAND, str(memory_bytes)), variables)
        os.setpriority(os.PRIO_PROCESS, self._process.pid, nice)
        assert self._process.stdin is not None, "asked for by start"  # noqa: S101 a fact for the type checker
        assert self._process.stdout is not None, "asked for by start"  # noqa: S101 as above
        self._questions = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._process.stdin.close()
        self._answers = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._memory_bytes = memory_bytes
        self._ready = False
        self.pid = self._process.pid
        self.questions = 0
        self.resident_bytes = 0

    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def ready(self, patience_s: float = 0.0) -> bool:
        """Whether its imports are over, after waiting `patience_s` at most; false for a dead child."""
        try:
            self._ready = self._ready or (self._answers.poll(patience_s) and self._answers.recv_bytes(len(READY)) == READY)
        except (EOFError, OSError):
            return False
        return self._ready

    def answer(
        self,
        question: bytes,
        answers: TypeAdapter[_Answer[Any] | _Refused],
        limit_s: float,
        while_slow: Callable[[], None],
        given_up: threading.Event,
    ) -> _Answer[Any] | _Refused:
        """The answer; `while_slow()` is called once when it takes long."""
        late, begun = threading.Event(), False

        def stop() -> None:
            late.set()
            self.end()

        # A timer ends the process when the question takes too long.
        timer = threading.Timer(limit_s, stop)
        timer.daemon = True
        timer.start()
        try:
            if self._answers.poll():
                raise _ChildGoneError
            self._questions.send_bytes(question)
            begun = self._answers.recv_bytes(len(BEGUN)) == BEGUN
            slow_at = time.monotonic() + min(SLOW_S, limit_s)
            while not self._answers.poll(LOOK_S):
                if given_up.is_set():
                    self.end()
                if time.monotonic() > slow_at:
                    slow_at = math.inf
                    while_slow()
            answer = answers.validate_json(self._answers.recv_bytes(MAX_ANSWER_BYTES), strict=True)
        except (EOFError, OSError, ValidationError):
            answer = None
        finally:
            timer.cancel()
            timer.join()  # now `stop` has run completely or will not run
        # Tell a process that was gone from one that was ended, and from a question that it could not answer.
        if answer is None and not begun and not late.is_set():
            raise _ChildGoneError
        if answer is None and given_up.is_set():
            self.end()
            raise BadConfig("The caller gave this question up.")
        if answer is None:
            raise self._failure_to_answer(limit_s, late=late.is_set())
        self.questions += 1
        self.resident_bytes = answer.resident_bytes
        return answer

    def _failure_to_answer(self, limit_s: float, *, late: bool) -> BadConfig:
        """Why there is no answer, from the clock and the exit status."""
        if late:
            return TooSlow(f"Working this configuration out takes more than {limit_s:g} s and was stopped. {_NEXT}")
        status = self._status()
        self.end()
        if status == -signal.SIGKILL:
            return too_large(self._memory_bytes)
        if status is None:
            return BadConfig(f"Working this configuration out gave no answer that could be read. {_NEXT}")
        how = f"was ended by {_SIGNALS.get(-status, f'signal {-status}')}" if status < 0 else f"ended with status {status}"
        return BadConfig(f"The process that worked this configuration out {how}; the app was not touched. {_NEXT}")

    def _status(self) -> int | None:
        """The exit status of a process that closed its pipe; None if it still runs."""
        until = time.monotonic() + 1.0
        while self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        return self._process.returncode

    def end(self) -> None:
        """End the process; its memory is back when this returns."""
        end_child(self._process)
        self._home.cleanup()

    def close(self) -> None:
        """End the process and give its pipes back."""
        self.end()
        self._questions.close()
        self._answers.close()


class BuildProcess:
    """Answers one question at a time in a child process, which is started when it is needed."""

    def __init__(
        self, *, limit_s: float = BUILD_S, memory_bytes: int = MEMORY_BYTES, max_questions: int = MAX_QUESTIONS, spare: bool = True
    ) -> None:
        """Give each question `limit_s` seconds, the child `memory_bytes`, and replace it after `max_questions`.

        Without `spare` no successor is started early, and the child runs at low priority.
        """
        self._limit_s, self._memory_bytes, self._max_questions, self._spare = limit_s, memory_bytes, max_questions, spare
        self._turn = threading.Lock()
        self._child: _Child | None = None
        self._successor: _Child | None = None

    def __call__(self, function: Callable[..., Result], *arguments: object, given_up: threading.Event | None = None) -> Result:
        """The result of `function(*arguments)` in the child. Imports do not count against the deadline.

        The child is ended within a second of `given_up`.

        Raises:
            AdvisorError: the function's refusal, of the same class and in the same words.
            TooSlow: it took too long.
            BadConfig: it took too much memory, the child died of it, or it was given up.
            LiveError: no child could be started.
        """
        question = pickle.dumps((function, arguments))
        with self._turn:
            child, answer = self._ask(question, _answers_of(function), given_up or threading.Event())
            if child.resident_bytes > GROWN_BYTES:
                self._retire(child)
            elif child.questions >= self._max_questions:
                self._prepare()
        if isinstance(answer, _Refused):
            raise answer.refusal.error()
        return answer.result  # type: ignore[no-any-return]  # of the type that the function returns, which was checked

    def _ask(
        self, question: bytes, answers: TypeAdapter[_Answer[Any] | _Refused], given_up: threading.Event
    ) -> tuple[_Child, _Answer[Any] | _Refused]:
        """A child and its answer. A child that was killed before it got the question is replaced once."""
        for _ in range(2):
            child = self._current()
            try:
                return child, child.answer(question, answers, self._limit_s, self._prepare, given_up)
            except _ChildGoneError:
                self._retire(child)
            except BadConfig:
                self._retire(child)
                raise
        raise LiveError(_NOT_STARTED)

    def warm_up(self) -> None:
        """Start the child if there is none; no caller waits for its imports."""
        with self._turn:
            if self._child is None:
                self._child = self._start_child()

    def close(self) -> None:
        """End the children. The next question starts another."""
        with self._turn:
            for child in filter(None, (self._child, self._successor)):
                child.close()
            self._child = self._successor = None

    def _current(self) -> _Child:
        """A child that is ready to answer."""
        child, successor = self._child, self._successor
        due = child is not None and child.questions >= self._max_questions
        if child is not None and (not child.alive() or (due and successor is not None and successor.ready())):
            child.close()
            self._child = None
        if self._child is None:
            self._child = self._start_child()
        if not self._child.ready(START_S):
            self._child.close()
            self._child = None
            raise LiveError(_NOT_STARTED)
        return self._child

    def _prepare(self) -> None:
        """Start the successor, if one is wanted and none is started. Where that fails, the next question tries again."""
        if not self._spare or (self._successor is not None and self._successor.alive()):
            return
        try:
            self._successor = self._start_child()
        except LiveError:
            log.exception("no successor of the process that builds models")

    def _start_child(self) -> _Child:
        """The successor, or a new child if none lives."""
        successor, self._successor = self._successor, None
        if successor is not None:
            if successor.alive():
                return successor
            successor.close()
        try:
            return _Child(self._memory_bytes, nice=0 if self._spare else _NICE)
        except OSError:
            raise LiveError(_NOT_STARTED) from None

    def _retire(self, child: _Child) -> None:
        """End the child, and start a successor if one is kept ready."""
        child.close()
        self._child = None
        self._prepare()


@cache
def build_process() -> BuildProcess:
    """The app's process. Every `Models` shares it, because each child takes 0.4 GiB for libraries."""
    process = BuildProcess(limit_s=QUICK_S)
    atexit.register(process.close)
    return process


@cache
def slow_process() -> BuildProcess:
    """The process for questions that take longer than `QUICK_S`, so that no other question waits for them; the first one starts it."""
    process = BuildProcess(spare=False)
    atexit.register(process.close)
    return process


@cache
def run_process() -> BuildProcess:
    """The process for dry runs, each of which may take `RUN_S`, so that no unseen model waits for them; the first one starts it."""
    process = BuildProcess(limit_s=RUN_S, spare=False)
    atexit.register(process.close)
    return process


_LONGEST_S = 3 * BUILD_S
"""Last resort: the parent ends its child long before this. It works if the parent is gone and C code keeps Python from noticing it."""


def _answer(function: Callable[..., object], arguments: tuple[object, ...], memory_bytes: int) -> bytes:
    """The function's return value or its refusal, as JSON. The function has no network."""
    from lib.model.meta_device import no_network  # noqa: PLC0415  torch is imported by the child alone, before it is confined

    answer_type = _answer_type(function)
    try:
        with no_network():
            result = function(*arguments)
        answer: bytes = answer_type(result=result, resident_bytes=resident_bytes()).model_dump_json().encode()
        _answers_of(function).validate_json(answer, strict=True)  # values that the parent would reject, such as NaN, become a refusal
    except AdvisorError as refusal:
        return _refuse(refusal)
    except MemoryError:
        return _refuse(too_large(memory_bytes))
    except Exception as error:
        log.exception("unforeseen failure while resolving a model")
        return _refuse(
            BadConfig(
                f"This configuration cannot be worked out ({type(error).__name__}). Check its sizes, or give the parameter count instead "
                "(such as '7B')."
            )
        )
    if len(answer) <= MAX_ANSWER_BYTES:
        return answer
    seen = f"The description of this configuration takes {len(answer) / KIB:,.0f} KiB; a model's takes some 40 KiB"
    return _refuse(
        BadConfig(
            f"{seen}, and {MAX_ANSWER_BYTES / KIB:,.0f} KiB are accepted. Check its counts, or give the parameter count instead "
            "(such as '7B')."
        )
    )


def _refuse(error: AdvisorError) -> bytes:
    return _Refused(refusal=to_fault(error), resident_bytes=resident_bytes()).model_dump_json().encode()


def _warm_up() -> None:
    """Build something small, which imports all that every build needs."""
    from lib.model.build import SMALLEST  # noqa: PLC0415  as above

    answer = _answers_of(resolve_config).validate_json(_answer(resolve_config, (SMALLEST,), 0))
    if isinstance(answer, _Refused):
        log.error("the warm-up failed; the first visitor with an unseen model waits for the imports: %s", answer.refusal.sentence)


def main() -> None:
    """The child: answer one question after another, on stdin and stdout, until the parent goes away."""
    import lib.model.build  # noqa: F401, PLC0415  as above

    write_lines(logging.WARNING)
    memory_bytes = int(sys.argv[1])
    questions = Connection(os.dup(sys.stdin.fileno()), writable=False)
    answers = Connection(answer_descriptor(), readable=False)
    end_with_parent()
    confine(memory_bytes)
    _warm_up()
    answers.send_bytes(READY)
    while True:
        try:
            question = questions.recv_bytes()
        except EOFError:
            os._exit(0)
        answers.send_bytes(BEGUN)
        faulthandler.dump_traceback_later(_LONGEST_S, exit=True)
        function, arguments = pickle.loads(question)  # noqa: S301 from our own parent
        answer = _answer(function, arguments, memory_bytes)
        faulthandler.cancel_dump_traceback_later()
        answers.send_bytes(answer)


if __name__ == "__main__":
    main()
