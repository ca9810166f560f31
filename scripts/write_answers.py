"""Write what the program answers to thousands of calls, so that a change which promises "the same answers" can be held to it.

    python -m scripts.write_answers FOLDER                 write the answers
    python -m scripts.write_answers --compare OLD NEW      print every difference; ends with status 1 if there is one

FOLDER gets one JSON-lines file per endpoint: a line is an object with the stable `id` of its call and its `answer` (or its refusal: code
and sentence), keys in order. They cover the endpoints and the private questions of the page (outlook, roofline). They also have the page's
outputs (markup, tables, figures) and description (labels, defaults, events). The rest are the API and MCP listings, malformed calls over
HTTP, and the help and offline output of `scripts/manage_space.py`. The calls are listed in `scripts.answer_calls` and
`scripts.answer_pages`.

Everything runs in this process and without a network: the Hub is switched off and no login of this machine is seen, so prices are the
bundled ones. What depends on the device (chat, measure, heartbeat) is only asked what it refuses. A date of today is written as "<today>".
Floating-point figures are written in full: compare files from the same machine and the same versions of the libraries.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import sys
import tempfile
import time
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts import answer_calls, answer_pages

_MOST_PATHS = 6
_MOST_WIDTH = 160
Line = tuple[str, str, Any]
"""File, id of the call, answer."""


def canonical(value: Any) -> str:
    """JSON on one line with sorted keys; values that are not JSON are written by `answer_pages.to_plain`."""
    return json.dumps(answer_pages.to_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def outcome(call: Callable[[], Any], to_json: Callable[[object], Any]) -> Any:
    """The answer as JSON; of a refusal its code and sentence; of any other failure its type and text."""
    try:
        answer = call()
        return {"answer": [to_json(piece) for piece in answer] if inspect.isgenerator(answer) else to_json(answer)}
    except Exception as error:  # noqa: BLE001  whatever happens is what the caller sees
        code = getattr(error, "code", None)
        return {"refused": {"code": code, "sentence": str(error)}} if code else {"raised": type(error).__name__, "text": str(error)}


def _questions(advisor: Any) -> dict[str, Callable[..., Any]]:
    """Questions by name: the one place that knows where each question lives."""
    from lib.service.outlook import outlook  # noqa: PLC0415
    from lib.service.speed import roofline  # noqa: PLC0415

    public = {name: endpoint.question for name, endpoint in answer_pages.public(advisor).items()}
    return {**public, "outlook": advisor[outlook], "roofline": advisor[roofline]}


def lines() -> Iterator[Line]:
    """Every answer. The program is imported here, after the environment has been set."""
    from lib.present.sentences import to_json  # noqa: PLC0415

    advisor, demo = answer_pages.program()
    questions = _questions(advisor)
    hardware = [f"{row.platform}:{row.id}" for row in advisor.list_hardware("all").hardware]
    names: set[tuple[str, str]] = set()
    for endpoint, arguments in answer_calls.calls(advisor.bundled_models(), hardware):
        name = canonical(arguments)
        if (endpoint, name) not in names:
            names.add((endpoint, name))
            values = answer_calls.paste_config(arguments)
            yield endpoint, name, outcome(lambda endpoint=endpoint, values=values: questions[endpoint](**values), to_json)  # type: ignore[misc]
    for file, name, call in answer_pages.calls(advisor, demo):
        yield file, name, outcome(call, to_json)


def _mask(text: str, masks: dict[str, str]) -> str:
    for word, mask in masks.items():
        text = text.replace(word, mask)
    return text


def write(folder: Path) -> None:
    """Write the answers and print how many there are, in how many bytes and seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    began, counts, kinds = time.perf_counter(), Counter[str](), Counter[str]()
    files: dict[str, typing.TextIO] = {}
    with contextlib.ExitStack() as open_files, tempfile.TemporaryDirectory() as home:
        for name in [name for name in os.environ if name.startswith(("HF_", "GRADIO_", "SPACE"))]:
            del os.environ[name]
        os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": home, "GRADIO_ANALYTICS_ENABLED": "False", "COLUMNS": "140"}
        masks = {datetime.now(UTC).date().isoformat(): "<today>", home: "<home>", str(Path.cwd()): "<here>"}
        for file, name, answer in lines():
            if file not in files:
                files[file] = open_files.enter_context((folder / f"{file}.jsonl").open("w", encoding="utf-8"))
            files[file].write(_mask(canonical({"id": name, **answer}), masks) + "\n")
            counts[file] += 1
            kinds[next(iter(answer))] += 1
    size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
    for file, count in counts.items():
        print(f"{count:6}  {file}")
    print(f"{counts.total():6}  in all: {dict(kinds)}; {size / 1e6:.1f} MB in {time.perf_counter() - began:.0f} s")


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Difference of two answers: a path with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in old or key not in new:
                yield f"{path}.{key}: only in the {'new' if key in new else 'old'}"
            else:
                yield from differences(old[key], new[key], f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} items → {len(new)}"
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from differences(before, after, f"{path}[{index}]")
    elif type(old) is not type(new) or (old != new and canonical(old) != canonical(new)):
        yield f"{path}: {_excerpt(old, new)}"


def _excerpt(old: Any, new: Any) -> str:
    """Both values, long texts from shortly before the first character that differs."""
    before, after = (value if isinstance(value, str) else canonical(value) for value in (old, new))
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    excerpts = [repr(text[max(0, start - 40) : start + _MOST_WIDTH]) for text in (before, after)]
    return f"{excerpts[0]}\n        → {excerpts[1]}"


def _read_answers(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Answers by file and id of the call."""
    answers: dict[tuple[str, str], dict[str, Any]] = {}
    for path in folder.glob("*.jsonl"):
        with path.open(encoding="utf-8") as file:
            answers |= {(path.stem, line["id"]): line for line in map(json.loads, file)}
    return answers


def compare(old: Path, new: Path) -> int:
    """Print every difference by file and call; the exit status."""
    before, after = _read_answers(old), _read_answers(new)
    if not before or not after:
        print(f"No answers in {new if before else old}: name a folder that this script has written.")
        return 2
    changes = 0
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        changes += 1
        paths = list(differences(was, now)) if was and now else [f"only in the {'new' if now else 'old'}"]
        print(f"{key[0]} {key[1][:_MOST_WIDTH]}")
        print("\n".join(f"    {path}" for path in paths[:_MOST_PATHS]))
        if len(paths) > _MOST_PATHS:
            print(f"    … and {len(paths) - _MOST_PATHS} more")
    print(f"{changes} of {len(before.keys() | after.keys())} answers differ.")
    return 1 if changes else 0


def main() -> int:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where the answers are written")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"), help="two folders to compare")
    arguments = parser.parse_args()
    if arguments.compare:
        return compare(*arguments.compare)
    if arguments.folder is None:
        parser.error("name a folder, or --compare OLD NEW")
    write(arguments.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
