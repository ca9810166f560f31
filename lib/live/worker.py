"""One measurement in a process of its own: a JSON object on stdin, JSON lines on stdout. Started by `lib.live.isolated`, by nobody else.

It ends with its parent (stdin is closed then), is the first that the kernel ends when memory runs out, and may itself take no more than
it was given: past that an allocation fails, which is a sentence, where the kernel's own way is a dead process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from lib.errors import AdvisorError
from lib.live.measure import Ask, Measured, measuring
from lib.live.pace import Work

_FIRST_TO_END = "1000"  # proc(5), oom_score_adj: any process may raise its own


def _with_parent(stdin: IO[str]) -> None:
    """End when the other side is gone."""
    stdin.read()
    os._exit(1)


def _confine(limit_bytes: int) -> None:
    """Bound this process, where the system has the means."""
    try:
        import resource  # noqa: PLC0415 not on every system
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit_bytes:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END, encoding="ascii")
    except OSError:
        return  # another kernel, or a sandbox that forbids it: then the largest process goes first, as ever


def read_ask(found: dict[str, Any]) -> Ask:
    """The question from its JSON form."""
    return Ask(**{**found, "work": Work(**found["work"])})


def main() -> None:
    """Answer the one question on stdin."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries print what they like, some of them past Python

    def tell(**said: object) -> None:
        print(json.dumps(said), file=answers, flush=True)

    try:
        ask = read_ask(json.loads(sys.stdin.readline()))
        threading.Thread(target=_with_parent, args=(sys.stdin,), daemon=True).start()
        _confine(ask.memory_limit_bytes)
        for item in measuring(ask):
            if isinstance(item, Measured):
                tell(measured=asdict(item))
            else:
                tell(stage=item)
    except AdvisorError as refusal:
        tell(code=refusal.code, sentence=str(refusal))
    answers.flush()
    os._exit(0)  # torch's threads and gigabytes need no orderly end


if __name__ == "__main__":
    main()
