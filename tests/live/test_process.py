"""What a killed run leaves behind is removed by the next one, and what is in use is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lib.live.process import remove_leftovers

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
