"""The ledger of measurements: an SQLite file that outlives the visit, and the restart where the owner gave it a place that does.

    ledger = Ledger(place())
    ledger.keep(row)      never raises for want of a file: a measurement is worth more than its record
    ledger.rows()         own rows and those shipped with the app, newest first

The place: LEDGER_PATH; else a volume mounted at /data; else a folder of this user's. Where it cannot be written, or the file is another
program's or of a newer version, rows are held in memory and `status()` says so.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

from lib.catalog import DATA
from lib.errors import BadArgument, BadCatalog
from lib.live.row import NAMES, Row, read_row

log = logging.getLogger(__name__)

VERSION = 1
MOST_ROWS = 20_000
"""Own rows that are kept; beyond, the oldest go."""
VOLUME = Path("/data")
FILE = "ledger.sqlite3"
_PATIENCE_S = 5.0
_COLUMNS = ", ".join(f'"{name}"' for name in NAMES)  # quoted: "when" is a word of SQL
_TABLE = f"CREATE TABLE IF NOT EXISTS measurement (digest TEXT PRIMARY KEY, {_COLUMNS})"
_INSERT = f"INSERT OR IGNORE INTO measurement VALUES ({', '.join('?' * (1 + len(NAMES)))})"  # noqa: S608 only question marks are put in


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the ledger lies; `lasting` when it outlives a restart. `path` is never shown to a visitor."""

    path: Path | None
    lasting: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What became of the ledger: where it is kept, in words; how many own rows; what is wrong, if anything is."""

    kept: str
    lasting: bool
    own_rows: int
    problem: str | None


def place(environment: Mapping[str, str] = os.environ, is_mount: Callable[[Path], bool] = os.path.ismount) -> Place:
    """Where this machine's ledger belongs."""
    told = environment.get("LEDGER_PATH", "").strip()
    on_space = bool(environment.get("SPACE_ID"))
    if told:
        path = Path(told).expanduser()
        mounted = any(is_mount(folder) for folder in path.absolute().parents if folder != Path("/"))
        return Place(path=path, lasting=mounted or not on_space, words="the file that LEDGER_PATH names")
    if is_mount(VOLUME) and os.access(VOLUME, os.W_OK):
        return Place(path=VOLUME / FILE, lasting=True, words="a file on the mounted volume")
    folder = Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Place(path=folder / "spaces-hardware-advisor" / FILE, lasting=not on_space, words="a file in the app's own folder")


@cache
def shipped() -> tuple[Row, ...]:
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

    def __init__(self, where: Place, *, most_rows: int = MOST_ROWS) -> None:
        """Nothing is opened yet."""
        self._where, self._most = where, most_rows
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._read: dict[int, _Read | None] = {}
        self._problem: str | None = None

    def keep(self, row: Row) -> bool:
        """Write a row; false when it stood there already."""
        with self._lock:
            try:
                return self._write(row)
            except (sqlite3.Error, OSError) as error:
                self._to_memory(error, "could no longer be written")
                return self._write(row)

    def rows(self) -> tuple[Row, ...]:
        """Own rows and shipped ones, newest first, each once."""
        found = {one.digest: one for one in (*self._own(), *_shipped())}
        return tuple(one.row for one in sorted(found.values(), key=lambda one: (one.row.when, one.digest), reverse=True))

    def own_rows(self) -> tuple[Row, ...]:
        """The rows that this machine measured or merged, oldest first; one that cannot be read is left out and logged."""
        return tuple(one.row for one in self._own())

    def _own(self) -> list[_Read]:
        with self._lock:
            try:
                self._catch_up()
            except (sqlite3.Error, OSError) as error:
                self._to_memory(error, "could no longer be read")
                self._catch_up()
            return [one for one in self._read.values() if one is not None]

    def status(self) -> Status:
        """Where rows are kept, how many, and what is wrong."""
        count = len(self.own_rows())
        if self._problem is not None:
            return Status(kept="memory, until the app restarts", lasting=False, own_rows=count, problem=self._problem)
        lost = "" if self._where.lasting else ", which is lost when the Space restarts (mount a volume and set LEDGER_PATH to keep it)"
        return Status(kept=self._where.words + lost, lasting=self._where.lasting, own_rows=count, problem=None)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open, self._read = None, {}

    def _write(self, row: Row) -> bool:
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

    def _since(self, known: sqlite3.Connection, last: int) -> dict[int, _Read | None]:
        asked = f"SELECT rowid, digest, {_COLUMNS} FROM measurement WHERE rowid > ? ORDER BY rowid"  # noqa: S608
        with closing(known.execute(asked, (last,))) as found:
            return {at: _row(digest, tuple(values)) for at, digest, *values in found}

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            try:
                self._open = _opened(self._where.path)
            except (sqlite3.Error, OSError) as error:
                self._to_memory(error, "cannot be used")
        assert self._open is not None, "a file or memory"  # noqa: S101 `_to_memory` sets it
        return self._open

    def _to_memory(self, error: Exception, what: str) -> None:
        """Go on in memory, with the rows that can still be read; logged here with its cause, told in the status without the path."""
        log.error("the ledger at %s %s; rows are held in memory", self._where.path, what, exc_info=error)
        memory = _opened(None)
        if self._open is not None:
            with suppress(sqlite3.Error):  # already being reported
                memory.executemany(_INSERT, self._open.execute("SELECT * FROM measurement ORDER BY rowid").fetchall())
            self._open.close()
        self._open, self._read = memory, {}
        cause = str(error) if isinstance(error, NotOurs) else type(error).__name__
        self._problem = f"{self._where.words[:1].upper()}{self._where.words[1:]} {what} ({cause})."


class NotOurs(sqlite3.DatabaseError):
    """A file that is none of our ledgers, or one of a later version of this app."""


def _version(known: sqlite3.Connection) -> int:
    return int(known.execute("PRAGMA user_version").fetchone()[0])


def _make(known: sqlite3.Connection) -> None:
    """Put the table into a new file, in one step: another process that opens it meanwhile would take half of it for another program's.

    Raises:
        NotOurs: it is none of ours.
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


def _opened(path: Path | None) -> sqlite3.Connection:
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
            _make(known)
        with suppress(sqlite3.OperationalError):  # busy: another one is opening the file, and it is the file that keeps the mode
            known.execute("PRAGMA journal_mode=WAL")  # readers do not wait; where the file system cannot, sqlite stays with its journal
    except BaseException:
        known.close()
        raise
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A row with its digest, which takes longer to find than all the rest."""

    digest: str
    row: Row


def _row(digest: str, values: tuple[object, ...]) -> _Read | None:
    try:
        return _Read(digest=digest, row=read_row(dict(zip(NAMES, values, strict=True))))
    except BadArgument:
        log.exception("a row of the ledger cannot be read and is left out")
        return None


def _shipped() -> tuple[_Read, ...]:
    return tuple(_Read(digest=row.digest, row=row) for row in shipped())
