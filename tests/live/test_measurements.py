"""The ledger's rows as Parquet."""

from __future__ import annotations

import io

import pytest
from measured_row import ROW, row

from lib.live.measurements import NAMES, parquet_bytes


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
