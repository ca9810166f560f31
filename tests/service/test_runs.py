"""The ledger behind the page: rows from runs, where they are kept, files to take along."""

from __future__ import annotations

import csv
import io
import logging
import sys
from dataclasses import asdict, astuple, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from live_fake import make_measurement
from measured_row import ROW, row

from lib.errors import LiveError
from lib.live.device import Device
from lib.live.ledger import Ledger, LedgerPlace
from lib.live.measurements import NAMES, DatasetPush
from lib.model import bundled
from lib.present.tables import csv_text
from lib.service.runs import MeasurementLedger, row_of

DEVICE = Device(
    kind="cpu",
    name="Test CPU",
    accelerator=None,
    memory_bytes=2**34,
    free_bytes=2**33,
    capability=None,
    cores=2,
    driver=None,
    torch="2.13.0",
    transformers="5.23.0",
)
FIGURES = make_measurement(
    peak_bytes=1000,
    ttft_s=0.5,
    decode_tokens_per_s=10.0,
    predicted=replace(make_measurement().predicted, peak_bytes=1100, ttft_s=None, decode_tokens_per_s=12.0),
)
RUN: dict[str, Any] = {"kind": "measure", "precision": "bf16", "prompt_tokens": 8, "output_tokens": 4}
NOW = datetime(2026, 11, 21, 9, 30, 59, tzinfo=UTC)
SPEC = bundled.find_spec("Qwen/Qwen3-0.6B")
assert SPEC is not None


@pytest.fixture
def ledger(tmp_path: Path) -> MeasurementLedger:
    """An empty one, copied nowhere."""
    return MeasurementLedger(Ledger(LedgerPlace(path=tmp_path / "l.sqlite3", lasting=True, words="a file of the test")), DatasetPush(None))


def test_run_becomes_a_row() -> None:
    """Time to the minute, predicted beside measured."""
    row = row_of(SPEC, DEVICE, FIGURES, now=NOW, **RUN)
    assert row.when == "2026-11-21T09:30Z"
    assert (row.peak_bytes, row.predicted_peak_bytes, row.predicted_ttft_s) == (1000, 1100, None)
    assert (row.model, row.architecture, row.engine) == ("Qwen/Qwen3-0.6B", "Qwen3ForCausalLM", "transformers 5.23.0")


def test_recorded_run_is_shown(ledger: MeasurementLedger) -> None:
    """The page's rows, the status and the CSV hold it."""
    ledger.record(SPEC, DEVICE, FIGURES, **RUN)
    own = [entry for entry in ledger.rows() if entry.device == "Test CPU"]
    assert [entry.peak_bytes for entry in own] == [1000]
    status = ledger.status()
    assert (status.own_rows, status.problem, status.lasting) == (1, None, True)
    assert b"Qwen/Qwen3-0.6B" in ledger.export("csv")


def test_row_that_cannot_be_written_fails_nothing(ledger: MeasurementLedger, caplog: pytest.LogCaptureFixture) -> None:
    """A speed that is none: logged, and the answer of the run stands."""
    with caplog.at_level(logging.ERROR):
        ledger.record(SPEC, DEVICE, replace(FIGURES, ttft_s=float("nan")), **RUN)
    assert ledger.status().own_rows == 0
    assert "could not be written" in caplog.text


def test_pasted_config_leaves_no_name(ledger: MeasurementLedger) -> None:
    """A model without an id is its class and a digest."""
    ledger.record(replace(SPEC, id=""), DEVICE, FIGURES, **RUN)
    (entry,) = [entry for entry in ledger.rows() if entry.device == "Test CPU"]
    assert entry.model.startswith("Qwen3ForCausalLM#")


def test_parquet_without_pyarrow_says_what_to_do(ledger: MeasurementLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CSV file needs nothing."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(LiveError, match="Take the CSV"):
        ledger.export("parquet")


def test_csv_comes_back() -> None:
    """A header, one line a row; None is empty, numbers are whole."""
    lines = list(csv.reader(io.StringIO(csv_text(NAMES, map(asdict, [ROW, row(driver=None, ttft_s=None)])))))
    assert tuple(lines[0]) == NAMES
    assert lines[1] == ["" if value is None else str(value) for value in astuple(ROW)]
    assert lines[2][NAMES.index("driver")] == ""


def test_spreadsheet_runs_no_cell() -> None:
    """A device named like a formula is text."""
    assert "'=HYPERLINK" in csv_text(NAMES, [asdict(row(device='=HYPERLINK("x")'))])


def test_no_rows_are_a_header() -> None:
    """An empty ledger is still a file that opens."""
    assert csv_text(NAMES, []).strip() == ",".join(NAMES)
