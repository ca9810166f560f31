"""The ledger's rows as CSV and Parquet."""

from __future__ import annotations

import csv
import io
from dataclasses import astuple

import pytest
from measured_row import ROW, row

from lib.live.measurements import NAMES, csv_text, parquet_bytes


def test_csv_comes_back() -> None:
    """A header, one line a row; None is empty, numbers are whole."""
    lines = list(csv.reader(io.StringIO(csv_text([ROW, row(driver=None, ttft_s=None)]))))
    assert tuple(lines[0]) == NAMES
    assert lines[1] == ["" if value is None else str(value) for value in astuple(ROW)]
    assert lines[2][NAMES.index("driver")] == ""


def test_spreadsheet_runs_no_cell() -> None:
    """A device named like a formula is text."""
    assert "'=HYPERLINK" in csv_text([row(device='=HYPERLINK("x")')])


def test_no_rows_are_a_header() -> None:
    """An empty ledger is still a file that opens."""
    assert csv_text([]).strip() == ",".join(NAMES)


def test_parquet_comes_back_with_its_types() -> None:
    """Whole numbers stay whole, what is missing is null, also when no row has it."""
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(parquet_bytes([ROW, row(peak_bytes=None, driver=None)])))
    assert table.column_names == list(NAMES)
    assert table["peak_bytes"].to_pylist() == [1_450_000_000, None]
    assert str(table.schema.field("peak_bytes").type) == "int64"
    assert str(table.schema.field("ttft_s").type) == "double"
    assert table["model"].to_pylist() == [ROW.model] * 2
    assert parquet.read_table(io.BytesIO(parquet_bytes([]))).num_rows == 0
