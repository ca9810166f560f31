"""List the files of lib/ that one warm `/recommend` of a bundled model runs through, in the order of their first call.

python -m scripts.trace_files            files whose functions run, with the calls in each
python -m scripts.trace_files --model    only functions that are handed the model: its name, what it was resolved to, or a value
                                         that holds one of them; the walk of the argument `model` from the endpoint to the answer
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from lib.model.spec import ModelSpec
from scripts.answer_calls import LLAMA
from scripts.answer_pages import program, public

LIB = f"{Path(__file__).resolve().parents[1] / 'lib'}/"


def trace(*, model_only: bool) -> Counter[str]:
    """Calls by file, first call first."""
    advisor, _ = program()
    recommend = public(advisor)["recommend"].question
    recommend(LLAMA, context_tokens=2048)  # imports and caches of the first call are not steps of an answer
    calls = Counter[str]()

    def count(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(LIB) and (not model_only or _handed_model(frame)):
            calls[file.removeprefix(LIB)] += 1

    sys.setprofile(count)
    try:
        recommend(LLAMA)
    finally:
        sys.setprofile(None)
    return calls


def _handed_model(frame: FrameType) -> bool:
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
    return any(_holds(frame.f_locals.get(name), depth=2) for name in names)


def _holds(value: Any, depth: int) -> bool:
    if isinstance(value, ModelSpec) or (isinstance(value, str) and value == LLAMA):
        return True
    parts = fields(value) if depth and is_dataclass(value) and not isinstance(value, type) else ()
    return any(_holds(getattr(value, part.name, None), depth - 1) for part in parts)


def main() -> None:
    """Print the list and its length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="store_true", help="only functions that are handed the model")
    calls = trace(model_only=parser.parse_args().model)
    for file, count in calls.items():
        print(f"{count:7}  {file}")
    print(f"{len(calls)} files of {sum(1 for _ in Path(LIB).rglob('*.py'))} in lib/, {calls.total()} calls")


if __name__ == "__main__":
    main()
