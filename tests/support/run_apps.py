"""Runs apps as they are written, offline and in one process: imports each `app.py` in its folder and calls its function.

`python run_apps.py CALLS` reads a JSON list of {folder, function, arguments} and writes a JSON list of what the functions return; of a
generator its last item, of a picture its size. An argument {"seconds": s, "rate": r} is a tone.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np


def _read(argument: Any) -> Any:
    if isinstance(argument, dict) and argument.keys() == {"seconds", "rate"}:
        times = np.arange(int(argument["seconds"] * argument["rate"])) / argument["rate"]
        tone = (np.sin(2 * np.pi * 440 * times) * 20_000).astype(np.int16)
        return argument["rate"], np.stack([tone, tone], axis=1)
    return argument


def _write(value: Any) -> Any:
    if inspect.isgenerator(value):
        value = [*value][-1]
    return list(value.size) if hasattr(value, "getpixel") else value


def main() -> None:
    """Run the calls; a failure ends the process with its traceback."""
    results = []
    for at, call in enumerate(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))):
        os.chdir(call["folder"])
        spec = importlib.util.spec_from_file_location(f"app{at}", "app.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        results.append(_write(getattr(module, call["function"])(*map(_read, call["arguments"]))))
    Path(sys.argv[2]).write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
