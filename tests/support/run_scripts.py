"""Runs a training script as it is written: in its folder, offline, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROWS = "rows.jsonl"
_RELEASED_PEFT = """
import runpy, sys
from transformers.integrations import peft
peft.MIN_PEFT_VERSION = "0.20.0"
sys.argv[0] = "train.py"
runpy.run_path("train.py", run_name="__main__")
"""
"""transformers 5.24 adds adapters with peft 0.22 only, which is not on PyPI (2026-11-26); 5.23, which scripts pin, takes 0.20."""


def run_script(folder: Path, *words: str, dataset: str = ROWS, adds_adapter: bool = False) -> str:
    """The output of `train.py` in this folder, which keeps its result there; a failure shows the end of its errors.

    With `adds_adapter` transformers itself adds the adapter, and takes the release of peft that is installed.
    """
    script = ["-c", _RELEASED_PEFT] if adds_adapter else ["train.py"]
    return run_python(folder, *script, "--dataset", dataset, *words, "--keep")


def run_python(folder: Path, *words: str) -> str:
    """The output of Python with these words in this folder, offline; a failure shows the end of its errors."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=kept | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
