"""What `python app.py` loads before its first page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_app_starts_without_torch_and_transformers() -> None:
    """Both cost more processor time than all the rest; they are imported once the first page can be served."""
    code = "import app, sys; print(sorted({'torch', 'transformers', 'accelerate', 'diffusers', 'scipy'} & sys.modules.keys()))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "GRADIO_", "SPACE"))}
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment | {"HF_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines()[-1:] == ["[]"]
