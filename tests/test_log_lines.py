"""Lines of the log: what they hold, and what they never hold."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from lib.log_lines import MOST_CHARACTERS, LineFormatter


def record(message: str, **extra: object) -> logging.LogRecord:
    """A record as a logger makes it."""
    made = logging.LogRecord("lib.ui", logging.ERROR, __file__, 1, message, (), None)
    made.__dict__.update(extra)
    return made


def test_a_line_is_json_with_its_values() -> None:
    """Programs that read the log need no pattern."""
    line = json.loads(LineFormatter().format(record("", values={"endpoint": "recommend", "ms": 1.5})))
    assert line.pop("at").endswith("+00:00")
    assert line == {"level": "error", "from": "lib.ui", "endpoint": "recommend", "ms": 1.5}


@pytest.mark.parametrize("text", ["x" * 100_000, "\n" * 5_000, "\ud800" * 3_000, "🧭" * 2_000], ids=["long", "lines", "halves", "planes"])
def test_a_line_is_cut_and_keeps_both_ends(text: str) -> None:
    """A stranger may choose how long a message is, and what escapes to six characters for one."""
    line = LineFormatter().format(record(f"begin {text} end"))
    said = json.loads(line)["said"]
    assert len(line) <= MOST_CHARACTERS
    assert said.startswith("begin ")
    assert said.endswith(" end")


@pytest.mark.parametrize("secret", ["hf_abcdefghijklmnop", "hf_abcdefghé\udc80", "Bearer abc.def.ghi"])
def test_a_token_is_in_no_line(secret: str) -> None:
    """Libraries name the header that they could not send."""
    line = LineFormatter().format(record(f"Illegal header value '{secret}'"))
    assert "(token)" in line
    assert not any(part in line for part in ("abcdefgh", "abc.def"))


def test_a_traceback_names_files_without_the_folders_above() -> None:
    """Where the app is installed is nobody's business."""
    try:
        json.loads("no")
    except ValueError:
        seen = LineFormatter().format(record("failed", exc_info=sys.exc_info()))
    assert "tests/test_log_lines.py" in seen
    assert str(Path(__file__).parents[1]) not in seen


def test_libraries_write_their_errors_only_and_the_level_is_the_operators() -> None:
    """Warnings of libraries quote what was sent."""
    code = (
        "import logging, warnings; from lib.log_lines import write_lines; write_lines(); warnings.warn('quoted');"
        "logging.getLogger('gradio').warning('quoted'); logging.getLogger('mcp').error('died'); logging.getLogger('lib.ui').info('asked');"
        "logging.getLogger('lib.ui').warning('odd')"
    )
    root = Path(__file__).parents[1]
    for level, expected in (("", ["died", "asked", "odd"]), ("warning", ["died", "odd"])):
        told = subprocess.run(
            [sys.executable, "-c", code], cwd=root, env={"LOG_LEVEL": level}, capture_output=True, text=True, check=True
        ).stderr
        assert [json.loads(line)["said"] for line in told.splitlines()] == expected
