"""The ledger: the SQLite file that keeps measurements.

    ledger = Ledger(ledger_place())
    ledger.keep(row)      a file that cannot be written never loses the measurement
    ledger.rows()         own rows and those shipped with the app, newest first

The file is at LEDGER_PATH, else on a volume mounted at /data, else in this user's data folder. Where it cannot be written, or belongs
to another program or a newer version, rows are held in memory and `status()` says so. While another program keeps it locked (a copy being
made, a shell left open), new rows wait in memory and are written when the lock is gone.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from lib.errors import BadArgument
from lib.live.measurements import NAMES, OPTIONAL, Measurement, bundled_rows, read_row
from lib.present.wording import write_text

log = logging.getLogger(__name__)

VERSION = 2
"""Version 1 lacked the columns of `OPTIONAL`; such a file is given them when it is opened."""
MOST_ROWS = 20_000
"""Own rows that are kept; beyond, the oldest go."""
VOLUME = Path("/data")
FILE = "ledger.sqlite3"
_PATIENCE_S = 5.0
_LATE_S = 5.0
"""Between two tries to write rows that found the file locked."""
_COLUMNS = ", ".join(f'"{name}"' for name in NAMES)  # quoted: "when" is a word of SQL
_TABLE = f"CREATE TABLE IF NOT EXISTS measurement (digest TEXT PRIMARY KEY, {_COLUMNS})"
_INSERT = f"INSERT OR IGNORE INTO measurement (digest, {_COLUMNS}) VALUES ({', '.join('?' * (1 + len(NAMES)))})"  # noqa: S608 own names
_ALL = f"SELECT digest, {_COLUMNS} FROM measurement ORDER BY rowid"  # noqa: S608 own names

_StoredRow = tuple[str, Measurement]
"""A row behind its digest, which takes longer to find than all the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """Path of the ledger; `lasting` when it outlives a restart. `path` is never shown to a visitor."""

    path: Path | None
    lasting: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatus:
    """Storage of the rows, in words; whether that outlives a restart; how many; its problem, if any; the copy in a dataset."""

    place: str
    lasting: bool
    rows: int
    own_rows: int
    problem: str | None
    copied: str = ""


def ledger_place(environment: Mapping[str, str] = os.environ, is_mount: Callable[[Path], bool] = os.path.ismount) -> LedgerPlace:
    """Path of this machine's ledger."""
    stated = environment.get("LEDGER_PATH", "").strip()
    on_space = bool(environment.get("SPACE_ID"))
    if stated:
        path = Path(stated).expanduser()
        mounted = any(is_mount(folder) for folder in path.absolute().parents if folder != Path("/"))
        return LedgerPlace(path=path, lasting=mounted or not on_space, words=write_text("live", "ledger", "stated"))
    if is_mount(VOLUME) and os.access(VOLUME, os.W_OK):
        return LedgerPlace(path=VOLUME / FILE, lasting=True, words=write_text("live", "ledger", "volume"))
    folder = Path(environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    own = folder / "spaces-hardware-advisor" / FILE
    return LedgerPlace(path=own, lasting=not on_space, words=write_text("live", "ledger", "own"))


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
        """Write a row; false when the file has it already. Where the file is locked, the row is written later."""
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
            connection = self._connection()
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * patience_s)}")
            while self._late:
                self._write(self._late[0])
                del self._late[0]
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * _PATIENCE_S)}")
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
        by_digest = dict((*self._own(), *((row.digest, row) for row in bundled_rows())))
        return tuple(row for _, row in sorted(by_digest.items(), key=lambda one: (one[1].when, one[0]), reverse=True))

    def own_rows(self) -> tuple[Measurement, ...]:
        """The rows that this machine measured or merged, oldest first; one that cannot be read is left out and logged."""
        return tuple(row for _, row in self._own())

    def _own(self) -> list[_StoredRow]:
        with self._lock:
            try:
                self._catch_up()
            except (sqlite3.Error, OSError) as error:
                if not _is_locked(error):
                    self._to_memory(error, "could no longer be read")
                    self._catch_up()
            late = [(row.digest, row) for row in self._late]
            return [one for one in self._read.values() if one is not None] + late

    def status(self) -> LedgerStatus:
        """Storage of the rows, their number, and any problem."""
        rows, own_rows = len(self.rows()), len(self.own_rows())  # first: reading them may find out what is wrong
        where, lasting, problem = self._where.words, self._where.lasting, self._problem
        if problem is not None:
            where, lasting = write_text("live", "ledger", "memory"), False
        elif self._late:
            lasting, problem = False, write_text("live", "ledger", "locked", rows=len(self._late))
        elif not lasting:
            where = write_text("live", "ledger", "lost", place=where)
        return LedgerStatus(place=where, lasting=lasting, rows=rows, own_rows=own_rows, problem=problem)

    def close(self) -> None:
        """Close the file, with the rows that wait written into it if that can be done now; the next use opens it again."""
        with self._lock:
            if self._late and not self._try_late(_PATIENCE_S):
                log.error("the ledger at %s is still locked; %d rows wait", self._where.path, len(self._late))
            if self._open is not None:
                self._open.close()
            self._open, self._read = None, {}

    def _write(self, row: Measurement) -> bool:
        connection = self._connection()
        with connection:
            new = connection.execute(_INSERT, (row.digest, *astuple(row))).rowcount > 0
            connection.execute("DELETE FROM measurement WHERE rowid <= (SELECT max(rowid) FROM measurement) - ?", (self._most,))
        return new

    def _catch_up(self) -> None:
        """Read the rows added since the last time, here or by another process: reading a full ledger takes seconds."""
        connection = self._connection()
        with closing(connection.execute("SELECT coalesce(min(rowid), 0), count(*) FROM measurement")) as rows:
            first, count = rows.fetchone()
        remembered = {at: one for at, one in self._read.items() if at >= first}
        new = self._since(connection, max(remembered, default=0))
        if len(remembered) + len(new) != count:  # rows in the middle are gone
            remembered, new = {}, self._since(connection, 0)
        self._read = remembered | new

    def _since(self, connection: sqlite3.Connection, last: int) -> dict[int, _StoredRow | None]:
        query = f"SELECT rowid, digest, {_COLUMNS} FROM measurement WHERE rowid > ? ORDER BY rowid"  # noqa: S608
        with closing(connection.execute(query, (last,))) as rows:
            return {at: _parse_stored(digest, tuple(values)) for at, digest, *values in rows}

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
                memory.executemany(_INSERT, self._open.execute(_ALL).fetchall())
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


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _create_tables(connection: sqlite3.Connection) -> None:
    """Put the table into a new file, or the missing columns into an older one.

    In one step: another process that opens the file meanwhile would take half of it for another program's.
    """
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        version, tables = _version(connection), connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version > VERSION:
            raise NotOurs(f"it has version {version}, this app reads {VERSION}")
        if version == 0 and tables:
            raise NotOurs("it is another program's")
        connection.execute(_TABLE)
        present = {name for _, name, *_ in connection.execute("PRAGMA table_info(measurement)")}
        for name in OPTIONAL:
            if name not in present:
                connection.execute(f'ALTER TABLE measurement ADD COLUMN "{name}"')
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _open_database(path: Path | None) -> sqlite3.Connection:
    """A connection with the table in it; None means memory."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path or ":memory:", timeout=_PATIENCE_S, check_same_thread=False)
    try:
        if _version(connection) != VERSION:
            _create_tables(connection)
        with suppress(sqlite3.OperationalError):  # busy: another one is opening the file, and it is the file that keeps the mode
            connection.execute(
                "PRAGMA journal_mode=WAL"
            )  # readers do not wait; where the file system cannot, sqlite stays with its journal
    except BaseException:
        connection.close()
        raise
    return connection


def _parse_stored(digest: str, values: tuple[object, ...]) -> _StoredRow | None:
    try:
        return digest, read_row(dict(zip(NAMES, values, strict=True)))
    except BadArgument:
        log.exception("a row of the ledger cannot be read and is left out")
        return None
