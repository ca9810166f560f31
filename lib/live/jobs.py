"""The script that a Hugging Face Job runs. It is one file, because a Job sees nothing of this machine.

On one GPU or a CPU it unpacks this app's own sources from a zip and runs `lib.service.jobs`; on several GPUs it is the source of
`lib.live.vllm_bench`. Its dependencies stand in its head (PEP 723), where `uv run` reads them. It prints each result as one line of JSON
between two marks, so that results can be found in the rest of its log.
"""

from __future__ import annotations

import base64
import inspect
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lib
from lib.live import vllm_bench

DEPENDENCIES = (
    "torch>=2.8",
    "transformers>=5.23,<6",
    "huggingface_hub>=2.4,<3",
    "diffusers>=0.35",
    "gguf>=0.17",
    "typing_extensions",
    "spaces>=0.51",
)
VLLM_DEPENDENCIES = ("vllm",)
_LEFT_OUT = frozenset({"ui", "cli", "__pycache__"})
_DAY_ONE = (1980, 1, 1, 0, 0, 0)  # the same sources make the same script

_HEAD = '''# /// script
# requires-python = ">=3.11"
# dependencies = {dependencies}
# ///
"""Measures models on this machine and prints a line for each; made by scripts/measure_on_jobs.py."""

'''
_UNPACK = """import base64, io, json, sys, tempfile, zipfile

folder = tempfile.mkdtemp()
zipfile.ZipFile(io.BytesIO(base64.b64decode(SOURCES))).extractall(folder)
sys.path.insert(0, folder)

from lib.service.jobs import main

if __name__ == "__main__":
    main(json.loads(ASKED))
"""


def zip_sources() -> bytes:
    """This app's `lib` as a zip, without the page and the command line."""
    root = Path(next(iter(lib.__path__)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for file in sorted(root.rglob("*")):
            inner = file.relative_to(root)
            if file.is_file() and file.suffix not in {".pyc", ".pyi"} and not _LEFT_OUT.intersection(inner.parts):
                packed.writestr(zipfile.ZipInfo(f"lib/{inner.as_posix()}", _DAY_ONE), file.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def _head(dependencies: Sequence[str], request: Mapping[str, Any]) -> str:
    return _HEAD.format(dependencies=json.dumps(list(dependencies))) + f"ASKED = {json.dumps(request)!r}\n"


def own_script(request: Mapping[str, Any]) -> str:
    """The script for one GPU or a CPU; `asked` is what `lib.service.jobs.main` takes."""
    packed = base64.b64encode(zip_sources()).decode()
    return f'{_head(DEPENDENCIES, request)}SOURCES = "{packed}"\n\n{_UNPACK}'


def vllm_script(request: Mapping[str, Any]) -> str:
    """The script for several GPUs; `asked` is what `lib.live.vllm_bench.main` takes."""
    source = inspect.getsource(vllm_bench).replace("from __future__ import annotations\n", "")
    head = _head(VLLM_DEPENDENCIES, request).replace("ASKED = ", "from __future__ import annotations\n\nASKED = ")
    return f'{head}\n\n{source}\n\nif __name__ == "__main__":\n    main(json.loads(ASKED))\n'


BEGIN, END = "<<<measured ", " measured>>>"
LONGEST = 20_000
"""Characters of a line that is read; the log of a job may hold anything."""


def mark_result(result: Mapping[str, Any]) -> str:
    """The line that a job prints."""
    return f"{BEGIN}{json.dumps(result, allow_nan=False)}{END}"


def parse_results(lines: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """The objects between the marks, in order; a line that is cut off, too long or not a JSON object is skipped."""
    results = []
    for line in lines:
        start, stop = line.find(BEGIN), line.rfind(END)
        if start < 0 or stop < start or len(line) > LONGEST:
            continue
        try:
            result = json.loads(line[start + len(BEGIN) : stop])
        except (ValueError, RecursionError):
            continue
        if isinstance(result, dict):
            results.append(result)
    return tuple(results)
