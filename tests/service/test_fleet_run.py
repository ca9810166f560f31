"""Workers answer parts; a row that ends its worker is an error row; a killed run goes on with nothing lost and nothing twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from deadly_catalog import deadly
from pyarrow import parquet

from lib.catalog import load
from lib.service.fleet import answer_row
from lib.service.fleet_files import Cells, split_parts
from lib.service.fleet_run import WorkerSetup, run_here
from lib.service.models import Models

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_row_that_ends_its_worker_is_an_error_and_the_others_are_answered() -> None:
    """The same rows as without workers, one for each question; progress counts each once."""
    rows: list[Cells] = [{"model": f"{size}B", "hardware": "deadly" if size == 4 else "l4x1"} for size in range(1, 9)]
    advanced: list[int] = []
    with closing(run_here(split_parts(rows, 4), WorkerSetup(catalog=deadly()), 2, advanced.append)) as parts:
        answered = [row for _, part in sorted(parts, key=lambda one: one[0].number) for row in part]
    assert [row.error_code for row in answered] == [None] * 3 + ["worker_ended"] + [None] * 4
    assert [row for row in answered if row.row != 3] == [
        answer_row(Models(), load(), at, cells) for at, cells in enumerate(rows) if at != 3
    ]
    assert sum(advanced) == 8


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """A kill -9 after the first parts: its workers end, and the same command completes the file with each row once."""
    questions, out = tmp_path / "in.csv", tmp_path / "out.parquet"
    questions.write_text("model\n" + "".join(f"{1 + at / 10:.1f}B\n" for at in range(60)), encoding="utf-8")
    run = (
        "import sys; from pathlib import Path; from lib.service import fleet_files; fleet_files.split_parts.__defaults__ = (5,);"
        "from lib.cli.fleet import run_fleet;"
        "print(run_fleet(sys.argv[1], Path(sys.argv[2]), workers=1)) if __name__ == '__main__' else None"
    )
    script = tmp_path / "run.py"
    script.write_text(run, encoding="utf-8")
    command = [sys.executable, str(script), str(questions), str(out)]
    environment = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path), "PATH": ""}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while len(list(tmp_path.glob("out.parquet.parts/*.parquet"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    written = len(list(tmp_path.glob("out.parquet.parts/*.parquet")))
    assert 2 <= written < 12
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert f"'found': {5 * written}" in again.stdout
    table = parquet.read_table(out)
    assert table["row"].to_pylist() == list(range(60))
    assert table["error_code"].null_count == 60
