"""One measurement in a process of its own: a JSON object on stdin, JSON lines on stdout.

Only `lib.live.measure_process` starts it.
How it is confined and how it ends: `lib.live.child_process`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import asdict
from typing import Any

from lib.errors import AdvisorError
from lib.live.child_process import answer_descriptor, confine, end_with_parent
from lib.live.limits import Work
from lib.live.measure import MeasuredRun, MeasureRequest, measure_run
from lib.log_lines import write_lines


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
