"""The ledger of measurements: its rows, the SQLite file that keeps them, and the same rows as CSV and Parquet.

    ledger = Ledger(ledger_place())
    ledger.keep(row)      a file that cannot be written never loses the measurement
    ledger.rows()         own rows and those shipped with the app, newest first

The file lies at LEDGER_PATH, else on a volume mounted at /data, else in this user's data folder. Where it cannot be written, or belongs
to another program or a newer version, rows are held in memory and `status()` says so. While another program keeps it locked (a copy being
made, a shell left open), new rows wait in memory and are written when the lock is gone.

A row states what was measured, on what device, beside the prediction. It says nothing about who measured: a model is a public Hub id or
the class of its architecture with a digest of its shapes. There is no field for a prompt, a token, an address or a person, and a text
that looks like a token is refused.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass as checked

from lib.catalog import DATA
from lib.errors import BadArgument, BadCatalog

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec

Kind = Literal["measure", "chat", "job"]
Weights = Literal["random", "checkpoint"]

_WHEN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}Z)?$"
_MODEL = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)?(#[0-9a-f]{8})?$"
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


@checked(frozen=True, slots=True, kw_only=True, config=ConfigDict(strict=True, extra="forbid"))
class Measurement:
    """A measurement; a field that is not what it should be raises BadArgument, for rows also come out of files and logs of jobs."""

    when: Annotated[str, Field(pattern=_WHEN)]
    """UTC, to the minute or the day."""
    kind: Kind
    """Which question measured it."""
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
    """A public Hub id, or `Class#digest`."""
    architecture: Text
    """Class of the model."""
    weights: Weights
    """Whose values the weights had."""
    precision: Text
    """Number format of the weights."""
    prompt_tokens: Count
    """Tokens that were read."""
    output_tokens: Count
    """Tokens that were written."""
    predicted_peak_bytes: Count | None
    """What was predicted; None where nothing was, here and below."""
    peak_bytes: Count | None
    """What was measured; None where nothing was, here and below."""
    predicted_ttft_s: Rate | None
    """Seconds to the first token, predicted."""
    ttft_s: Rate | None
    """Seconds to the first token."""
    predicted_decode_tokens_per_s: Rate | None
    """Tokens per second after the first, predicted."""
    decode_tokens_per_s: Rate | None
    """Tokens per second after the first."""
    provenance: Text
    """Where the row comes from."""

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, values: Any, check: ModelWrapValidatorHandler[Measurement]) -> Measurement:
        try:
            return check(values)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        odd = sorted(str(one["loc"][0]) for one in errors if one["loc"][0] not in NAMES or one["type"].startswith("missing"))
        if odd:
            raise BadArgument("a measurement's fields", ", ".join(name[:40] for name in odd[:5]), "exactly those of a row")
        name = str(errors[0]["loc"][0])
        accepted = _ACCEPTED.get(name, f"printable text of at most {_LONGEST} characters")
        raise BadArgument(f"{name} of a measurement", str(errors[0]["input"])[:_LONGEST], accepted)

    @property
    def digest(self) -> str:
        """The same for the same row, so that one that is merged twice stands once."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


NAMES = tuple(f.name for f in fields(Measurement))
COUNTS = ("devices", "prompt_tokens", "output_tokens", "predicted_peak_bytes", "peak_bytes")
RATES = ("predicted_ttft_s", "ttft_s", "predicted_decode_tokens_per_s", "decode_tokens_per_s")
_ACCEPTED = {
    "when": "a UTC time such as 2026-11-21T09:30Z, or a day",
    "kind": ", ".join(get_args(Kind)),
    "model": "a Hub id, or an architecture's class with a digest",
    "weights": ", ".join(get_args(Weights)),
    **dict.fromkeys(COUNTS, "a whole number, not negative"),
    **dict.fromkeys(RATES, "a number above 0, or null"),
}


def read_row(found: Mapping[str, Any]) -> Measurement:
    """A row from JSON.

    Raises:
        BadArgument: a field is missing, unknown, or not what it should be.
    """
    return Measurement(**found)


def model_label(spec: ModelSpec) -> str:
    """The model's name in the ledger: its Hub id (read without anyone's token, so it is public), else class and digest of its shapes."""
    if spec.id:
        return spec.id
    shapes = sorted((group.name, group.shape, group.count) for group in spec.tensors)
    digest = hashlib.sha256(json.dumps([spec.parameters_total, shapes]).encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.-]", "", spec.architecture, flags=re.ASCII) or "Model"
    return f"{name}#{digest}"


log = logging.getLogger(__name__)

VERSION = 1
MOST_ROWS = 20_000
"""Own rows that are kept; beyond, the oldest go."""
VOLUME = Path("/data")
FILE = "ledger.sqlite3"
_PATIENCE_S = 5.0
_LATE_S = 5.0
"""Between two tries to write rows that found the file locked."""
_COLUMNS = ", ".join(f'"{name}"' for name in NAMES)  # quoted: "when" is a word of SQL
_TABLE = f"CREATE TABLE IF NOT EXISTS measurement (digest TEXT PRIMARY KEY, {_COLUMNS})"
_INSERT = f"INSERT OR IGNORE INTO measurement VALUES ({', '.join('?' * (1 + len(NAMES)))})"  # noqa: S608 only question marks are put in


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """Where the ledger lies; `lasting` when it outlives a restart. `path` is never shown to a visitor."""

    path: Path | None
    lasting: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatus:
    """What became of the ledger: where it is kept, in words; how many own rows; what is wrong, if anything is."""

    kept: str
    lasting: bool
    own_rows: int
    problem: str | None


def ledger_place(environment: Mapping[str, str] = os.environ, is_mount: Callable[[Path], bool] = os.path.ismount) -> LedgerPlace:
    """Where this machine's ledger belongs."""
    told = environment.get("LEDGER_PATH", "").strip()
    on_space = bool(environment.get("SPACE_ID"))
    if told:
        path = Path(told).expanduser()
        mounted = any(is_mount(folder) for folder in path.absolute().parents if folder != Path("/"))
        return LedgerPlace(path=path, lasting=mounted or not on_space, words="the file that LEDGER_PATH names")
    if is_mount(VOLUME) and os.access(VOLUME, os.W_OK):
        return LedgerPlace(path=VOLUME / FILE, lasting=True, words="a file on the mounted volume")
    folder = Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return LedgerPlace(path=folder / "spaces-hardware-advisor" / FILE, lasting=not on_space, words="a file in the app's own folder")


@cache
def bundled_rows() -> tuple[Measurement, ...]:
    """Rows that were measured before and come with the app; none where there is no such file.

    Raises:
        BadCatalog: the file cannot be read.
    """
    path = DATA / "measured.json"
    if not path.exists():
        return ()
    try:
        return tuple(read_row(found) for found in json.loads(path.read_text(encoding="utf-8"))["rows"])
    except (ValueError, KeyError, TypeError, AttributeError, BadArgument) as error:
        raise BadCatalog(f"lib/data/measured.json cannot be read ({type(error).__name__}: {error}).") from error


class Ledger:
    """The rows of this machine. Safe to use from several threads; opened at the first use."""

    def __init__(self, where: LedgerPlace, *, most_rows: int = MOST_ROWS) -> None:
        """Nothing is opened yet."""
        self._where, self._most = where, most_rows
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._read: dict[int, _StoredRow | None] = {}
        self._late: list[Measurement] = []
        self._problem: str | None = None

    def keep(self, row: Measurement) -> bool:
        """Write a row; false when it stood there already. Where the file is locked, the row is written later."""
        with self._lock:
            if row in self._late:
                return False
            if not self._late:
                try:
                    return self._write(row)
                except (sqlite3.Error, OSError) as error:
                    if not _is_locked(error):
                        self._to_memory(error, "could no longer be written")
                        return self._write(row)
                log.warning("the ledger at %s is locked; rows are written later", self._where.path)
                threading.Thread(target=self._write_late, name="ledger-late", daemon=True).start()
            self._late = [*self._late, row][-self._most :]
            return True

    def _write_late(self) -> None:
        """In a thread of its own, until the rows that wait are written."""
        while True:
            time.sleep(_LATE_S)
            with self._lock:
                if self._try_late(0):
                    return

    def _try_late(self, patience_s: float) -> bool:
        """Write the rows that wait, if the lock is gone within the patience; whether none waits any more."""
        try:
            known = self._connection()
            known.execute(f"PRAGMA busy_timeout = {int(1000 * patience_s)}")
            while self._late:
                self._write(self._late[0])
                del self._late[0]
            known.execute(f"PRAGMA busy_timeout = {int(1000 * _PATIENCE_S)}")
        except (sqlite3.Error, OSError) as error:
            if _is_locked(error):
                return False
            self._to_memory(error, "could no longer be written")
            for row in self._late:
                self._write(row)
            self._late.clear()
        return True

    def rows(self) -> tuple[Measurement, ...]:
        """Own rows and shipped ones, newest first, each once."""
        found = {one.digest: one for one in (*self._own(), *_read_bundled())}
        return tuple(one.row for one in sorted(found.values(), key=lambda one: (one.row.when, one.digest), reverse=True))

    def own_rows(self) -> tuple[Measurement, ...]:
        """The rows that this machine measured or merged, oldest first; one that cannot be read is left out and logged."""
        return tuple(one.row for one in self._own())

    def _own(self) -> list[_StoredRow]:
        with self._lock:
            try:
                self._catch_up()
            except (sqlite3.Error, OSError) as error:
                if not _is_locked(error):
                    self._to_memory(error, "could no longer be read")
                    self._catch_up()
            late = [_StoredRow(digest=row.digest, row=row) for row in self._late]
            return [one for one in self._read.values() if one is not None] + late

    def status(self) -> LedgerStatus:
        """Where rows are kept, how many, and what is wrong."""
        count = len(self.own_rows())
        if self._problem is not None:
            return LedgerStatus(kept="memory, until the app restarts", lasting=False, own_rows=count, problem=self._problem)
        if self._late:
            waits = f"Another program keeps the file locked; rows that wait to be written: {len(self._late)}."
            return LedgerStatus(kept=self._where.words, lasting=False, own_rows=count, problem=waits)
        lost = "" if self._where.lasting else ", which is lost when the Space restarts (mount a volume and set LEDGER_PATH to keep it)"
        return LedgerStatus(kept=self._where.words + lost, lasting=self._where.lasting, own_rows=count, problem=None)

    def close(self) -> None:
        """Close the file, with the rows that wait written into it if that can be done now; the next use opens it again."""
        with self._lock:
            if self._late and not self._try_late(_PATIENCE_S):
                log.error("the ledger at %s is still locked; %d rows wait", self._where.path, len(self._late))
            if self._open is not None:
                self._open.close()
            self._open, self._read = None, {}

    def _write(self, row: Measurement) -> bool:
        known = self._connection()
        with known:
            new = known.execute(_INSERT, (row.digest, *astuple(row))).rowcount > 0
            known.execute("DELETE FROM measurement WHERE rowid <= (SELECT max(rowid) FROM measurement) - ?", (self._most,))
        return new

    def _catch_up(self) -> None:
        """Read what came since the last time, here or from another process: reading all of a full ledger takes seconds."""
        known = self._connection()
        with closing(known.execute("SELECT coalesce(min(rowid), 0), count(*) FROM measurement")) as found:
            first, count = found.fetchone()
        held = {at: one for at, one in self._read.items() if at >= first}
        new = self._since(known, max(held, default=0))
        if len(held) + len(new) != count:  # rows in the middle are gone
            held, new = {}, self._since(known, 0)
        self._read = held | new

    def _since(self, known: sqlite3.Connection, last: int) -> dict[int, _StoredRow | None]:
        asked = f"SELECT rowid, digest, {_COLUMNS} FROM measurement WHERE rowid > ? ORDER BY rowid"  # noqa: S608
        with closing(known.execute(asked, (last,))) as found:
            return {at: _parse_stored(digest, tuple(values)) for at, digest, *values in found}

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            try:
                self._open = _open_database(self._where.path)
            except (sqlite3.Error, OSError) as error:
                if _is_locked(error):
                    raise
                self._to_memory(error, "cannot be used")
        assert self._open is not None, "a file or memory"  # noqa: S101 `_to_memory` sets it
        return self._open

    def _to_memory(self, error: Exception, what: str) -> None:
        """Go on in memory, with the rows that can still be read; logged here with its cause, told in the status without the path."""
        log.error("the ledger at %s %s; rows are held in memory", self._where.path, what, exc_info=error)
        memory = _open_database(None)
        if self._open is not None:
            with suppress(sqlite3.Error):  # already being reported
                memory.executemany(_INSERT, self._open.execute("SELECT * FROM measurement ORDER BY rowid").fetchall())
            self._open.close()
        self._open, self._read = memory, {}
        cause = str(error) if isinstance(error, NotOurs) else type(error).__name__
        self._problem = f"{self._where.words[:1].upper()}{self._where.words[1:]} {what} ({cause})."


class NotOurs(sqlite3.DatabaseError):
    """A file that is not a ledger of this app, or that a later version wrote."""


def _is_locked(error: Exception) -> bool:
    """Whether the file is fine and another connection has it for now; the lowest byte of SQLite's code is the kind of error."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _version(known: sqlite3.Connection) -> int:
    return int(known.execute("PRAGMA user_version").fetchone()[0])


def _create_tables(known: sqlite3.Connection) -> None:
    """Put the table into a new file, in one step: another process that opens it meanwhile would take half of it for another program's.

    Raises:
        NotOurs: the file is not a ledger of this app.
    """
    known.execute("BEGIN IMMEDIATE")
    with known:
        version, tables = _version(known), known.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version not in (0, VERSION):
            raise NotOurs(f"it has version {version}, this app reads {VERSION}")
        if version == 0 and tables:
            raise NotOurs("it is another program's")
        known.execute(_TABLE)
        known.execute(f"PRAGMA user_version = {VERSION}")


def _open_database(path: Path | None) -> sqlite3.Connection:
    """A connection with the table in it; None means memory.

    Raises:
        OSError: the folder cannot be made.
        sqlite3.Error: the file cannot be used.
    """
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    known = sqlite3.connect(path or ":memory:", timeout=_PATIENCE_S, check_same_thread=False)
    try:
        if _version(known) != VERSION:
            _create_tables(known)
        with suppress(sqlite3.OperationalError):  # busy: another one is opening the file, and it is the file that keeps the mode
            known.execute("PRAGMA journal_mode=WAL")  # readers do not wait; where the file system cannot, sqlite stays with its journal
    except BaseException:
        known.close()
        raise
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredRow:
    """A row with its digest, which takes longer to find than all the rest."""

    digest: str
    row: Measurement


def _parse_stored(digest: str, values: tuple[object, ...]) -> _StoredRow | None:
    try:
        return _StoredRow(digest=digest, row=read_row(dict(zip(NAMES, values, strict=True))))
    except BadArgument:
        log.exception("a row of the ledger cannot be read and is left out")
        return None


def _read_bundled() -> tuple[_StoredRow, ...]:
    return tuple(_StoredRow(digest=row.digest, row=row) for row in bundled_rows())


_RISKY = ("=", "+", "-", "@", "\t", "\r")


def _cell(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_RISKY) else value


def csv_text(rows: Iterable[Measurement]) -> str:
    """Comma-separated, a header first, what is None left empty (RFC 4180)."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(NAMES)
    writer.writerows([_cell(value) for value in astuple(row)] for row in rows)
    return out.getvalue()


def parquet_bytes(rows: Iterable[Measurement]) -> bytes:
    """A Parquet file with typed columns: text, whole numbers, floats; what is None is null."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 only when someone asks for the file
    from pyarrow import parquet  # noqa: PLC0415

    kinds = {name: pa.int64() if name in COUNTS else pa.float64() if name in RATES else pa.string() for name in NAMES}
    held = list(rows)
    table = pa.table({name: [getattr(row, name) for row in held] for name in NAMES}, schema=pa.schema(kinds.items()))
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()
