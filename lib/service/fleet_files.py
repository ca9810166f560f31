"""Files of a fleet: rows of questions read one after the other, and answers written in parts that are complete or absent.

    with Output(Path("out.parquet")) as output:
        for part in output.missing(split_parts(read_rows(source))):
            output.write(part, rows)
        output.join()

A part has the answers to `PART_ROWS` consecutive questions. It is written under another name and renamed, so a process that is killed
leaves whole parts only. A part has a digest of its questions: a resumed run rejects parts of other questions. The parts are
joined into one Parquet file at the end. At no time are more than a few parts in memory.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, get_args, get_type_hints

from lib.answers.fleet import FleetRow
from lib.errors import Busy, InvalidInput, UnreadableJson, read_json
from lib.present.sentences import to_json
from lib.provenance import Reasons
from lib.result import Usd
from lib.service.fleet import check_columns

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

Cells = Mapping[str, object]
PART_ROWS = 250
MOST_CELL = 4 << 20
"""Characters of a cell: the text of a config.json."""
_MOST_NODES = 200_000
_BATCH_ROWS = 1_000
BYTE_ORDER_MARK = "\ufeff"
"""The first character of a file that Excel saves as "CSV UTF-8"."""
SEPARATORS = ",;\t"
"""Between cells of CSV. Excel writes semicolons where the comma is the decimal sign."""
_DATASET = re.compile(r"(?:hf://)?datasets/([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)", re.ASCII)
_FORMATS = ".csv, .jsonl, .parquet, or a dataset of the Hub: datasets/owner/name"
_DIGEST = b"questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPart:
    """Consecutive questions: the number of the part, and that of its first row."""

    number: int
    first: int
    cells: tuple[Cells, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the questions."""
        text = json.dumps([dict(one) for one in self.cells], sort_keys=True, default=str)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    def rows(self) -> list[tuple[int, Cells]]:
        """The questions with the numbers of their rows."""
        return list(enumerate(self.cells, self.first))


def split_parts(rows: Iterable[Cells], size: int = PART_ROWS) -> Iterator[FleetPart]:
    """The rows in parts, read lazily."""
    iterator = iter(rows)
    for number in itertools.count():
        cells = tuple(itertools.islice(iterator, size))
        if not cells:
            return
        yield FleetPart(number=number, first=number * size, cells=cells)


def read_rows(source: str) -> Iterator[Cells]:
    """The rows of a file, or of a dataset on the Hub.

    Raises:
        InvalidInput: it cannot be read, has another format, or lacks the column `model`. For broken JSON the message has the line.
    """
    path, dataset = Path(source), find_dataset(source)
    if dataset is not None:
        return _checked(_read_dataset(dataset))
    if path.suffix not in _READERS:
        raise InvalidInput(f"{path.name} is not a file of rows. Accepted: {_FORMATS}.")
    try:
        return _checked(_READERS[path.suffix](path))
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read ({error.strerror}). Name a file of rows: {_FORMATS}.") from error


def find_dataset(text: str) -> str | None:
    """The owner/name of a dataset in `datasets/owner/name` or `hf://datasets/owner/name`; None for a file, as its ending shows.

    >>> find_dataset("datasets/ada/rows"), find_dataset("hf://datasets/ada/rows"), find_dataset("datasets/ada/rows.csv")
    ('ada/rows', 'ada/rows', None)
    """
    named = _DATASET.fullmatch(text.rstrip("/"))
    return None if named is None or (Path(text).suffix in _READERS and "://" not in text) else named[1]


def _checked(rows: Iterator[Cells]) -> Iterator[Cells]:
    """The rows, after a check of the first row's columns."""
    first = next(rows, None)
    if first is None:
        raise InvalidInput("There are no rows. Add a column 'model' and at least one row.")
    check_columns(first)
    return itertools.chain([first], rows)


def _read_csv(path: Path) -> Iterator[Cells]:
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        yield from read_csv(file, path.name)


def read_csv(file: Iterable[str], name: str) -> Iterator[Cells]:
    """The rows of CSV text, which has a line of names first. Cells are separated by one of `SEPARATORS`, as these names are.

    Raises:
        InvalidInput: it is not CSV, or a row has more cells than there are names.
    """
    csv.field_size_limit(MOST_CELL)
    lines = iter(file)
    first = next(lines, "")
    separator = _find_separator(first)
    reader = csv.DictReader(itertools.chain([first], lines), delimiter=separator, strict=True)
    try:
        names = [(one or "").strip() for one in reader.fieldnames or ()]
        reader.fieldnames = names
        if len(set(names)) < len(names):
            raise InvalidInput(f"{name} has two columns of one name. Give each column a name of its own.")
        for row in reader:
            if row.pop(None, None):  # cells beyond the last name
                raise InvalidInput(
                    f"Line {reader.line_num} of {name} has more cells than columns. Put texts with {separator!r} into quotes."
                )
            yield row
    except csv.Error as error:
        raise InvalidInput(
            f"Line {reader.line_num} of {name} is not CSV ({error}). Put texts with {separator!r} or quotes into quotes."
        ) from error


def _find_separator(names: str) -> str:
    """The separator with which the first line has the column `model`; a comma if none does."""
    for separator in SEPARATORS:
        cells = next(csv.reader([names], delimiter=separator), [])
        if "model" in (cell.strip() for cell in cells):
            return separator
    return SEPARATORS[0]


def _read_jsonl(path: Path) -> Iterator[Cells]:
    with path.open("rb") as file:
        for number in itertools.count(1):
            line = file.readline(MOST_CELL)
            if not line:
                return
            if not line.strip():
                continue
            try:
                row = read_json(line, _MOST_NODES)
            except UnreadableJson as error:
                raise InvalidInput(f"Line {number} of {path.name} is not JSON ({error}). Write one object a line.") from error
            if not isinstance(row, dict):
                raise InvalidInput(f"Line {number} of {path.name} is not an object. Write one object a line.")
            model = row.get("model")
            yield row | {"model": json.dumps(model)} if isinstance(model, dict) else row


def _read_parquet(path: Path) -> Iterator[Cells]:
    import pyarrow as pa  # noqa: PLC0415  only where it is asked for
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                yield from batch.to_pylist()
    except pa.ArrowException as error:
        raise InvalidInput(f"{path.name} cannot be read as Parquet ({type(error).__name__}).") from error


def _read_dataset(name: str) -> Iterator[Cells]:
    """The rows of the first split of a dataset, as they arrive."""
    datasets = require("datasets", "to read a dataset of the Hub")
    try:
        yield from datasets.load_dataset(name, split="train", streaming=True)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The dataset {name[:100]} cannot be read ({type(error).__name__}). Check its name, its split 'train' and your login."
        ) from error


_READERS: dict[str, Callable[[Path], Iterator[Cells]]] = {".csv": _read_csv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}


def require(module: str, purpose: str) -> Any:
    """Import an optional package.

    Raises:
        InvalidInput: it is not installed; the message has the command that installs it.
    """
    import importlib  # noqa: PLC0415

    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InvalidInput(f"{package} is needed {purpose} and is not installed. Run `pip install -r requirements-fleet.txt`.") from error


def _schema() -> pa.Schema:
    """The columns of answers, by the types of the fields."""
    import pyarrow as pa  # noqa: PLC0415

    plain = {int: pa.int64(), float: pa.float64(), Usd: pa.float64(), str: pa.string(), bool: pa.bool_()}
    reasons = pa.list_(pa.struct([("code", pa.string()), ("message", pa.string())]))
    hints = get_type_hints(FleetRow, include_extras=True)

    def column(hint: object) -> pa.DataType:
        if hint == Reasons:
            return reasons
        return plain[next(one for one in (hint, *get_args(hint)) if one in plain)]

    return pa.schema([(name, column(hints[name])) for name in FleetRow.__dataclass_fields__])


def write_part(path: Path, part: FleetPart, rows: Sequence[FleetRow]) -> None:
    """Write the answers to a part, under another name until they are complete.

    Raises:
        ValueError: they are not the answers to its questions, one for each and in order.
    """
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    if [row.row for row in rows] != [number for number, _ in part.rows()]:
        raise ValueError(f"Part {part.number} has other rows than its questions.")
    schema = _schema().with_metadata({_DIGEST: part.digest.encode()})
    unfinished = path.with_suffix(".unfinished")
    parquet.write_table(pa.Table.from_pylist([to_json(row) for row in rows], schema=schema), unfinished, compression="zstd")
    unfinished.replace(path)


def is_answer(table: pa.Table, part: FleetPart) -> bool:
    """Whether a table has the answers to a part: its digest, its columns, and its rows in order."""
    metadata = table.schema.metadata or {}
    return (
        metadata.get(_DIGEST) == part.digest.encode()
        and table.schema.equals(_schema())
        and table["row"].to_pylist() == [number for number, _ in part.rows()]
    )


def part_name(number: int) -> str:
    """The file of a part."""
    return f"part-{number:06d}.parquet"


class Output:
    """One file of answers, in parts until it is complete. Only one run writes it at a time."""

    def __init__(self, path: Path) -> None:
        """Creates no files yet.

        Raises:
            InvalidInput: the name is not that of a Parquet file.
        """
        if path.suffix != ".parquet":
            raise InvalidInput(
                f"{path.name} is not the name of a Parquet file. Name the answers such as {path.stem or 'answers'}.parquet or "
                "datasets/owner/name."
            )
        self.path, self.parts = path, path.with_name(f"{path.name}.parts")
        self._lock: IO[bytes] | None = None

    @property
    def complete(self) -> bool:
        """Whether the answers are joined already."""
        return self.path.exists()

    def __enter__(self) -> Self:
        """Take the output for this run.

        Raises:
            Busy: another run writes it.
            InvalidInput: it cannot be written there.
        """
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            self._lock = (self.parts / "lock").open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel releases it however the process ends
        except BlockingIOError:
            raise Busy(f"Another run writes {self.path.name} now. Wait until it ends, or name another file.") from None
        except OSError as error:
            raise InvalidInput(f"{self.path.name} cannot be written there ({error.strerror}). Name a folder that you may write.") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Let other runs write it."""
        if self._lock is not None:
            self._lock.close()

    def find(self, part: FleetPart) -> bool:
        """Whether the answers to a part are written.

        Raises:
            InvalidInput: the part has answers to other questions.
        """
        from pyarrow import parquet  # noqa: PLC0415

        file = self.parts / part_name(part.number)
        if not file.exists():
            return False
        if parquet.read_schema(file).metadata.get(_DIGEST) != part.digest.encode():
            raise InvalidInput(
                f"{self.parts.name} has answers to other questions than rows {part.first:,} to {part.first + len(part.cells) - 1:,}. "
                "Name another file for the answers, or remove that folder."
            )
        return True

    def missing(self, parts: Iterable[FleetPart]) -> Iterator[FleetPart]:
        """The parts without answers."""
        return (part for part in parts if not self.find(part))

    def write(self, part: FleetPart, rows: Sequence[FleetRow]) -> None:
        """Write the answers to a part."""
        write_part(self.parts / part_name(part.number), part, rows)

    def join(self) -> int:
        """Join the parts into one file, remove them, and return the number of rows.

        Raises:
            InvalidInput: a part is missing.
        """
        from pyarrow import parquet  # noqa: PLC0415

        files, rows = sorted(self.parts.glob("part-*.parquet")), 0
        if [file.name for file in files] != [part_name(number) for number in range(len(files))]:
            raise InvalidInput(f"A part of {self.parts.name} is missing. Run the same command again; it answers what is missing.")
        unfinished = self.path.with_suffix(".unfinished")
        with parquet.ParquetWriter(unfinished, _schema(), compression="zstd") as writer:
            for file in files:
                table = parquet.read_table(file)
                rows += table.num_rows
                writer.write_table(table.replace_schema_metadata(None))
        unfinished.replace(self.path)
        shutil.rmtree(self.parts)
        return rows
