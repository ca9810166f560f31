"""The child that builds unseen architectures: questions on stdin, answers on stdout. Started by `lib.service.build_process` alone.

How it is confined and how it ends: `lib.live.child_process`. Nothing here opens a connection: the network is closed to every question.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import pickle
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from lib.errors import AdvisorError, BadConfig
from lib.live.child_process import answer_descriptor, confine, end_with_parent
from lib.live.faults import Fault, to_fault
from lib.live.memory_gauge import resident_bytes
from lib.log_lines import write_lines
from lib.model.build import SMALLEST
from lib.model.meta_device import no_network
from lib.model.resolve import resolve_config
from lib.service.build_process import BEGUN, BUILD_S, MAX_ANSWER_BYTES, READY, too_large

log = logging.getLogger(__name__)

_LONGEST_S = 3 * BUILD_S
"""The parent ends this process long before. Where the parent is gone and C code does not let Python notice it, this does."""


def _result(function: Callable[..., object], arguments: tuple[object, ...], memory_bytes: int) -> object:
    """What the function returns, or its refusal as a value."""
    try:
        with no_network():
            return function(*arguments)
    except AdvisorError as refusal:
        return to_fault(refusal)
    except MemoryError:
        return to_fault(too_large(memory_bytes))
    except Exception as error:
        log.exception("unforeseen failure while resolving a model")
        return to_fault(
            BadConfig(
                f"This configuration cannot be worked out ({type(error).__name__}). Check its sizes, or give the parameter count instead "
                "(such as '7B')."
            )
        )


def _pickle_result(result: object) -> bytes:
    answer = pickle.dumps((result, resident_bytes()))
    if len(answer) <= MAX_ANSWER_BYTES:
        return answer
    seen = f"The description of this configuration takes {len(answer) / 2**10:,.0f} KiB; a model's takes some 40 KiB"
    refusal = BadConfig(
        f"{seen}, and {MAX_ANSWER_BYTES / 2**10:,.0f} KiB are accepted. Check its counts, or give the parameter count instead "
        "(such as '7B')."
    )
    return pickle.dumps((to_fault(refusal), resident_bytes()))


def _warm_up() -> None:
    """Build something small, which imports all that every build needs."""
    refusal = _result(resolve_config, (SMALLEST,), 0)
    if isinstance(refusal, Fault):
        log.error("the warm-up failed; the first visitor with an unseen model waits for the imports: %s", refusal.sentence)


def main() -> None:
    """Answer one question after another until the parent goes away."""
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
        answer = _pickle_result(_result(function, arguments, memory_bytes))
        faulthandler.cancel_dump_traceback_later()
        answers.send_bytes(answer)


if __name__ == "__main__":
    main()
