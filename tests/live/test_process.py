"""What a killed run leaves behind is removed by the next one, and what is in use is not; and what lines of the log hold."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lib.live.process import MOST_CHARACTERS, LineFormatter, remove_leftovers

ROOT = Path(__file__).parents[2]
USE = """
import tempfile, time
from lib.live.process import scratch_folder
home = tempfile.mkdtemp(dir=scratch_folder())
print(home, flush=True)
input()
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes with a folder in use, in a folder for temporary files of their own."""
    settings = os.environ | {"TMPDIR": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", USE], cwd=ROOT, env=settings, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_folders_of_a_killed_run_go_and_others_stay(running: list[subprocess.Popen[str]], tmp_path: Path) -> None:
    """One is killed, one goes on: the next start removes the folder of the first alone. One that ends by itself leaves nothing."""
    homes = [Path(process.stdout.readline().strip()) for process in running if process.stdout]
    assert all(home.is_dir() for home in homes)
    running[0].send_signal(signal.SIGKILL)
    running[0].wait(20)
    (base,) = tmp_path.iterdir()
    assert homes[0].is_dir()
    remove_leftovers(base)
    assert [home.is_dir() for home in homes] == [False, True]
    running[1].communicate("\n", timeout=20)
    assert list(base.iterdir()) == []


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
    assert "live/test_process.py" in seen
    assert str(ROOT) not in seen


def test_libraries_write_their_errors_only_and_the_level_is_the_operators() -> None:
    """Warnings of libraries quote what was sent."""
    code = (
        "import logging, warnings; from lib.live.process import write_lines; write_lines(); warnings.warn('quoted');"
        "logging.getLogger('gradio').warning('quoted'); logging.getLogger('mcp').error('died'); logging.getLogger('lib.ui').info('asked');"
        "logging.getLogger('lib.ui').warning('odd')"
    )
    for level, expected in (("", ["died", "asked", "odd"]), ("warning", ["died", "odd"])):
        told = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={"LOG_LEVEL": level}, capture_output=True, text=True, check=True
        ).stderr
        assert [json.loads(line)["said"] for line in told.splitlines()] == expected
