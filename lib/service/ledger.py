"""The ledger of measurements as the page shows it: rows, where they are kept, files to take along; and where new ones are written."""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Literal, cast

from lib.answers.live import ChatMetrics, LedgerEntry, LedgerStatus, MeasureAnswer
from lib.errors import AdvisorError, LiveError
from lib.live.device import Device
from lib.live.ledger import Ledger, ledger_place
from lib.live.measurements import NAMES, DatasetPush, Kind, Measurement, Weights, model_label, parquet_bytes, start_push
from lib.model.spec import ModelSpec
from lib.present.tables import csv_text

log = logging.getLogger(__name__)

Format = Literal["csv", "parquet"]
HERE = "measured on this machine"


def row_of(
    spec: ModelSpec,
    device: Device,
    run: MeasureAnswer | ChatMetrics,
    *,
    kind: Kind,
    precision: str,
    prompt_tokens: int,
    output_tokens: int,
    weights: Weights = "random",
    provenance: str = HERE,
    now: datetime | None = None,
) -> Measurement:
    """A row from the answer of a run.

    Raises:
        BadArgument: a figure is none.
    """
    predicted = run["predicted"]
    return Measurement(
        when=(now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%MZ"),
        kind=kind,
        device=device.name[:200],
        accelerator=device.accelerator,
        devices=1,
        driver=device.driver,
        torch=device.torch,
        engine=f"transformers {device.transformers}",
        model=model_label(spec),
        architecture=spec.architecture[:200],
        weights=weights,
        precision=precision,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        predicted_peak_bytes=predicted["peak_bytes"],
        peak_bytes=run["peak_bytes"],
        predicted_ttft_s=predicted["ttft_s"],
        ttft_s=run["ttft_s"],
        predicted_decode_tokens_per_s=predicted["decode_tokens_per_s"],
        decode_tokens_per_s=run["decode_tokens_per_s"],
        provenance=provenance,
    )


class MeasurementLedger:
    """The ledger behind the page and the measurements."""

    def __init__(self, ledger: Ledger | None = None, copies: DatasetPush | None = None) -> None:
        """By default where the environment says."""
        self._ledger = ledger or Ledger(ledger_place())
        self._copies = copies or start_push()

    def keep(self, row: Measurement) -> None:
        """Write a row and have it copied where the owner wants that. Never fails a measurement."""
        if self._ledger.keep(row):
            self._copies.add(row)

    def record(self, spec: ModelSpec, device: Device, run: MeasureAnswer | ChatMetrics, **row: Any) -> None:
        """`keep(row_of(…))` of a run that just ended; a figure that fits no row is logged, and the run's answer stands.

        Of a model that only its readers may see nothing is written.
        """
        if spec.read_with_token:
            return
        try:
            self.keep(row_of(spec, device, run, **row))
        except AdvisorError:
            log.exception("a measurement could not be written to the ledger")

    def rows(self) -> list[LedgerEntry]:
        """Every row, newest first: own ones and those that come with the app."""
        return [cast("LedgerEntry", asdict(row)) for row in self._ledger.rows()]

    def status(self) -> LedgerStatus:
        """Where the rows are, and what is wrong."""
        state = self._ledger.status()
        return {
            "kept": state.kept,
            "lasting": state.lasting,
            "rows": len(self._ledger.rows()),
            "own_rows": state.own_rows,
            "problem": state.problem,
            "copied": self._copies.status(),
        }

    def export(self, form: Format) -> bytes:
        """All rows as a file.

        Raises:
            LiveError: Parquet, where pyarrow is not installed.
        """
        if form == "csv":
            return csv_text(NAMES, [asdict(row) for row in self._ledger.rows()]).encode()
        try:
            return parquet_bytes(self._ledger.rows())
        except ImportError as error:
            raise LiveError("Parquet files need the package pyarrow, which is not installed here. Take the CSV file.") from error
