"""The ledger's rows as files: CSV for anyone, Parquet for those who work with many."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple

from lib.live.row import COUNTS, NAMES, RATES, Row

_RISKY = ("=", "+", "-", "@", "\t", "\r")


def _cell(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_RISKY) else value


def csv_text(rows: Iterable[Row]) -> str:
    """Comma-separated, a header first, what is None left empty (RFC 4180)."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(NAMES)
    writer.writerows([_cell(value) for value in astuple(row)] for row in rows)
    return out.getvalue()


def parquet_bytes(rows: Iterable[Row]) -> bytes:
    """A Parquet file with typed columns: text, whole numbers, floats; what is None is null."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 only when someone asks for the file
    from pyarrow import parquet  # noqa: PLC0415

    kinds = {name: pa.int64() if name in COUNTS else pa.float64() if name in RATES else pa.string() for name in NAMES}
    held = list(rows)
    table = pa.table({name: [getattr(row, name) for row in held] for name in NAMES}, schema=pa.schema(kinds.items()))
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()
