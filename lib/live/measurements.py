"""Measurements: their rows, those that come with the app, and the same rows as CSV and Parquet.

A row states the measured figures, the device, and the prediction. It says nothing about who measured: a model is a public Hub id or
the class of its architecture with a digest of its shapes. There is no field for a prompt, a token, an address or a person, and a text
that looks like a token is refused.

New rows are copied to a dataset of the owner's, when the owner asks for it: LEDGER_DATASET=owner/name. That acts for the Space's owner with
the Space's own token (HF_TOKEN, or the login of this machine), never for a visitor. Off without the variable.
`huggingface_hub.CommitScheduler` commits a folder every few minutes; each process appends to a file of its own name there, so that restarts
and replicas overwrite nothing. A failure is logged and shown in the status; a measurement never waits for it.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, get_args
from uuid import uuid4

from pydantic import AfterValidator, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass as checked

from lib.catalog.rows import DATA
from lib.errors import BadArgument, BadCatalog
from lib.live.process import scratch_folder
from lib.present.wording import write_text

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec


MeasurementKind = Literal["measure", "chat", "job", "start"]
WeightsOrigin = Literal["random", "checkpoint"]

_WHEN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}Z)?$"
_MODEL = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)?(:[A-Za-z0-9_./-]+|#[0-9a-f]{8})?$"
_TOKEN = re.compile(r"hf_\w{8,}|(?i:bearer )")
_LONGEST = 200
_LARGEST = 1e18


def _public(text: str) -> str:
    if not text.isprintable() or _TOKEN.search(text):
        raise ValueError("not printable, or it looks like a token")
    return text


Text = Annotated[str, Field(max_length=_LONGEST), AfterValidator(_public)]
Count = Annotated[int, Field(ge=0, lt=_LARGEST)]
Rate = Annotated[float, Field(gt=0, lt=_LARGEST)]
Guidance = Annotated[float, Field(ge=0, le=1_000)]


@checked(frozen=True, slots=True, kw_only=True, config=ConfigDict(strict=True, extra="forbid"))
class Measurement:
    """A measurement; an invalid field raises BadArgument, because rows also come from files and logs of jobs."""

    when: Annotated[str, Field(pattern=_WHEN)]
    """UTC, to the minute or the day."""
    kind: MeasurementKind
    """Which question measured it; start: a server's start lines, of which `provenance` names the figure."""
    device: Text
    """The device's own name."""
    accelerator: Text | None
    """The catalog's id of the silicon; None for a CPU."""
    devices: Count
    """How many shared the model."""
    driver: Text | None
    """NVIDIA's driver; None without one."""
    torch: Text
    """Version of torch."""
    engine: Text
    """The program and its version."""
    model: Annotated[Text, Field(pattern=_MODEL)]
    """A public Hub id, with a colon and the file for GGUF, or `Class#digest`."""
    architecture: Text
    """Class of the model."""
    weights: WeightsOrigin
    """Origin of the weights' values."""
    precision: Text
    """Number format of the weights."""
    prompt_tokens: Count
    """Tokens that were read."""
    output_tokens: Count
    """Tokens that were written."""
    predicted_peak_bytes: Count | None
    """Prediction; None if there is none, here and below."""
    peak_bytes: Count | None
    """Measurement; None if there is none, here and below."""
    predicted_ttft_s: Rate | None
    """Seconds to the first token, predicted."""
    ttft_s: Rate | None
    """Seconds to the first token."""
    predicted_decode_tokens_per_s: Rate | None
    """Tokens per second after the first, predicted."""
    decode_tokens_per_s: Rate | None
    """Tokens per second after the first."""
    provenance: Text
    """Origin of the row."""
    predicted_picture_s: Rate | None = None
    """Seconds of one picture, predicted. This field and those below are of rows about pictures; None in all others."""
    picture_s: Rate | None = None
    """Seconds of one picture, from the prompt to the decoded pixels."""
    width: Count | None = None
    """Pixels."""
    height: Count | None = None
    """Pixels."""
    steps: Count | None = None
    """Denoising steps."""
    guidance: Guidance | None = None
    """Guidance scale."""

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, values: Any, check: ModelWrapValidatorHandler[Measurement]) -> Measurement:
        try:
            return check(values)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        odd = sorted(str(one["loc"][0]) for one in errors if one["loc"][0] not in NAMES or one["type"].startswith("missing"))
        if odd:
            raise BadArgument("a measurement's fields", ", ".join(name[:40] for name in odd[:5]), "those of a row")
        name = str(errors[0]["loc"][0])
        accepted = _ACCEPTED.get(name, f"printable text of at most {_LONGEST} characters")
        raise BadArgument(f"{name} of a measurement", str(errors[0]["input"])[:_LONGEST], accepted)

    @property
    def digest(self) -> str:
        """The same for the same row, so that a row merged twice is kept once. A field that was added later counts where it is stated."""
        cells = {name: value for name, value in asdict(self).items() if name not in OPTIONAL or value is not None}
        return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()


NAMES = tuple(f.name for f in fields(Measurement))
OPTIONAL = tuple(f.name for f in fields(Measurement) if f.default is None)
"""Fields that rows of earlier versions lack."""
FIGURES = (
    "predicted_peak_bytes", "peak_bytes", "predicted_ttft_s", "ttft_s", "predicted_decode_tokens_per_s", "decode_tokens_per_s",
)  # fmt: skip
"""Figures of a row about text, each predicted and measured; None if there is none."""
COUNTS = ("devices", "prompt_tokens", "output_tokens", "predicted_peak_bytes", "peak_bytes", "width", "height", "steps")
RATES = (
    "predicted_ttft_s", "ttft_s", "predicted_decode_tokens_per_s", "decode_tokens_per_s", "predicted_picture_s", "picture_s", "guidance",
)  # fmt: skip
_ACCEPTED = {
    "when": "a UTC time such as 2026-11-21T09:30Z, or a day",
    "kind": ", ".join(get_args(MeasurementKind)),
    "model": "a Hub id, or an architecture's class with a digest",
    "weights": ", ".join(get_args(WeightsOrigin)),
    **dict.fromkeys(COUNTS, "a whole number, not negative"),
    **dict.fromkeys(RATES, "a number above 0, or null"),
    "guidance": "a number from 0 to 1000, or null",
}


def read_row(cells: Mapping[str, Any]) -> Measurement:
    """A row from JSON.

    Raises:
        BadArgument: a field is missing, unknown or invalid.
    """
    return Measurement(**cells)


def model_label(spec: ModelSpec) -> str:
    """The model's name in the ledger: its Hub id (read without anyone's token, so it is public), else class and digest of its shapes."""
    if spec.id:
        return spec.id
    shapes = sorted((group.name, group.shape, group.count) for group in spec.tensors)
    digest = hashlib.sha256(json.dumps([spec.parameters_total, shapes]).encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]", "", spec.architecture, flags=re.ASCII) or "Model"
    return f"{name}#{digest}"


@cache
def bundled_rows() -> tuple[Measurement, ...]:
    """Rows that were measured before and come with the app; none if there is no such file.

    Raises:
        BadCatalog: the file cannot be read.
    """
    path = DATA / "measured.json"
    if not path.exists():
        return ()
    try:
        return tuple(read_row(row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"])
    except (ValueError, KeyError, TypeError, AttributeError, BadArgument) as error:
        raise BadCatalog(f"lib/data/measured.json cannot be read ({type(error).__name__}: {error}).") from error


def parquet_bytes(rows: Iterable[Measurement]) -> bytes:
    """A Parquet file with typed columns: text, whole numbers, floats; None becomes null."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 only when someone asks for the file
    from pyarrow import parquet  # noqa: PLC0415

    kinds = {name: pa.int64() if name in COUNTS else pa.float64() if name in RATES else pa.string() for name in NAMES}
    measurements = list(rows)
    table = pa.table({name: [getattr(row, name) for row in measurements] for name in NAMES}, schema=pa.schema(kinds.items()))
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


log = logging.getLogger(__name__)

EVERY_MINUTES = 5
_DATASET = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


class Scheduler(Protocol):
    """The part of CommitScheduler that is used."""

    lock: threading.Lock

    def push_to_hub(self) -> Any:
        """Commit the folder now."""
        ...


Start = Callable[[str, Path], Scheduler]


def commit_scheduler(dataset: str, folder: Path) -> Scheduler:
    """The Hub client's own scheduler; makes the dataset (private) if there is none. Takes as long as the Hub does."""
    from huggingface_hub import CommitScheduler  # noqa: PLC0415 only where the owner wants it

    return CommitScheduler(repo_id=dataset, repo_type="dataset", folder_path=folder, every=EVERY_MINUTES, private=True, path_in_repo="data")


class DatasetPush:
    """Appends rows to the file that is committed. Safe to use from several threads."""

    def __init__(self, dataset: str | None, start: Start = commit_scheduler) -> None:
        """`dataset` None turns it off. Nothing is started before the first row."""
        self._dataset, self._start = dataset, start
        self._lock = threading.Lock()
        self._waiting: list[Measurement] = []
        self._thread: threading.Thread | None = None
        self._scheduler: Scheduler | None = None
        self._file: Path | None = None
        self._problem: str | None = None

    def add(self, row: Measurement) -> None:
        """Have a row committed with the next push; returns at once."""
        if self._dataset is None:
            return
        with self._lock:
            self._waiting.append(row)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._write, name="ledger-push", daemon=True)
                self._thread.start()

    def status(self) -> str:
        """In words: off, on, or the problem."""
        if self._dataset is None:
            return write_text("live", "copies", "off")
        problem = self._problem or _failure_of(self._scheduler)
        if problem:
            return write_text("live", "copies", "failing", dataset=self._dataset, problem=problem)
        return write_text("live", "copies", "on", dataset=self._dataset, minutes=EVERY_MINUTES)

    def wait(self, seconds: float) -> None:
        """Wait until added rows are in the file, at most `seconds`."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _write(self) -> None:
        """In a thread of its own: start the scheduler if there is none, then append the waiting rows."""
        while True:
            with self._lock:
                rows, self._waiting = self._waiting, []
                if not rows:
                    self._thread = None
                    return
            try:
                self._append(rows)
                self._problem = None
            except Exception as error:  # whatever it is, the measurements stand; the next row tries again
                log.exception("the ledger's rows could not be handed to the dataset")
                self._problem = write_text("live", "copies", "failed", error=type(error).__name__)
                with self._lock:
                    self._waiting = (rows + self._waiting)[-_MOST_WAITING:]
                    self._thread = None
                return

    def _append(self, rows: list[Measurement]) -> None:
        assert self._dataset is not None, "checked by `add`"  # noqa: S101
        if self._scheduler is None or self._file is None:
            folder = Path(tempfile.mkdtemp(prefix="ledger-", dir=scratch_folder()))
            self._scheduler = self._start(self._dataset, folder)
            self._file = folder / f"measured-{uuid4().hex[:12]}.jsonl"
        text = "".join(json.dumps(asdict(row), allow_nan=False) + "\n" for row in rows)
        with self._scheduler.lock, self._file.open("a", encoding="utf-8") as file:
            file.write(text)


_MOST_WAITING = 1_000


def _failure_of(scheduler: Scheduler | None) -> str | None:
    """The outcome of the last push in the background."""
    last = getattr(scheduler, "last_future", None)
    if last is None or not last.done() or last.cancelled() or last.exception() is None:
        return None
    return write_text("live", "copies", "push_failed", error=type(last.exception()).__name__)


def start_push(environment: Mapping[str, str] = os.environ) -> DatasetPush:
    """Read the settings of the environment. A name that is not a dataset id is logged and turns the push off."""
    dataset = environment.get("LEDGER_DATASET", "").strip()
    if dataset and not _DATASET.fullmatch(dataset):
        log.error("LEDGER_DATASET is not a dataset (owner/name): rows are not pushed")
        return DatasetPush(None)
    return DatasetPush(dataset or None)
