"""The script for TPU: its arithmetic, and its run on processors. No TPU is at hand, so its two libraries are not run here."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lib.catalog import load
from lib.live.heartbeat import MatmulCase, datasheet_roof
from lib.live.heartbeat import floor as floor_of
from scripts import heartbeat_tpu

SCRIPT = Path(heartbeat_tpu.__file__)
IDS = {"v5e": "TPU-v5e", "v5p": "TPU-v5p", "v6e": "TPU-v6e", "v7x": "TPU7x"}


@pytest.mark.parametrize("chip", heartbeat_tpu.CHIPS)
def test_floor_is_the_catalog_s(chip: str) -> None:
    """The figures that the script carries along are those of the catalog, to its rounding (v6e: 1638 or 1640 GB/s)."""
    case = MatmulCase()
    least = heartbeat_tpu.floor(case.batch, case.hidden, case.intermediate, case.dtype, chip)
    assert (least["flops"], least["moved_bytes"]) == (case.flops, case.moved_bytes)
    assert least["floor_s"] == pytest.approx(floor_of(case, datasheet_roof(load().accelerator(IDS[chip]), "float32")).seconds, rel=0.002)


def test_summary_believes_nothing_below_the_floor() -> None:
    """0.0056 ms on a v6e is not valid; 0.2 ms is, at 85 % of what can be had."""
    least = heartbeat_tpu.floor(128, 4096, 16384, "float32", "v6e")
    assert not heartbeat_tpu.summary(1e-3, [5.6e-6] * 100, least)["valid"]
    good = heartbeat_tpu.summary(1e-3, [0.2e-3] * 100, least)
    assert good["valid"]
    assert good["efficiency"] == pytest.approx(278_921_216 / 1638e9 / 0.2e-3)


def test_p95_is_the_nearest_rank() -> None:
    """95 of 1 … 100."""
    least = heartbeat_tpu.floor(1, 1, 1, "float32", None)
    seen = heartbeat_tpu.summary(1.0, [float(n) for n in range(1, 101)], least)
    assert (seen["p95_s"], seen["median_s"], seen["min_s"]) == (95.0, 50.5, 1.0)


def test_clock_stops_after_the_product() -> None:
    """Each time spans the whole call."""
    ticks = itertools.count(0.0, 0.25)
    assert list(heartbeat_tpu.times(lambda: next(ticks), 3, lambda: next(ticks))) == [0.5] * 3


def test_it_stands_alone(tmp_path: Path) -> None:
    """Copied elsewhere it runs on processors, and prints the fields of /heartbeat."""
    shutil.copy(SCRIPT, tmp_path / "heartbeat_tpu.py")
    small = ["--device", "cpu", "--batch", "4", "--hidden", "64", "--intermediate", "64", "--iterations", "5"]
    done = subprocess.run(
        [sys.executable, "heartbeat_tpu.py", *small], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    answer = json.loads(done.stdout)
    fields = {"device", "mean_s", "median_s", "p95_s", "cold_first_s", "flops", "achieved_flops_per_s", "floor_s", "efficiency", "valid"}
    assert fields <= answer.keys()
    assert answer["valid"]
    assert answer["iterations"] == 5


@pytest.mark.parametrize("library", ["torch_tpu", "torch_xla", "auto"])
def test_missing_library_says_what_to_install(library: str) -> None:
    """No trace, a sentence."""
    with pytest.raises(SystemExit, match="pip install torch_tpu"):
        heartbeat_tpu.main(["--device", library])
