"""The parts of the rows of the data files: the model of a row, the types of its values, and the reader of a file.

A row is a pydantic model: strict (a number written as text is not a number), frozen, and without room for keys that it does not name.
Quantities are text with a unit ("24 GiB"), exact numbers are text ("0.80"), days are YYYY-MM-DD. A source or a card is named by its
id and becomes the thing itself while the row is read; `References` holds the things read before. `ById` makes such a value the key of a
cache.
"""

from __future__ import annotations

import copyreg
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, ValidationInfo

from lib.errors import BadCatalog, BadQuantity, quote_value
from lib.provenance import Source
from lib.units import Bytes, BytesPerSecond, FlopPerSecond, UsdPerHour, parse_bytes, parse_bytes_per_second, parse_flop_per_second

DATA = Path(__file__).parent.parent / "data"
"""The bundled files."""
T = TypeVar("T")
_DAY = re.compile(r"20\d\d-\d\d(?P<day>-\d\d)?", re.ASCII)


def freeze_table(table: Mapping[str, T]) -> MappingProxyType[str, T]:
    """A table that cannot be changed."""
    return MappingProxyType(table)


copyreg.pickle(MappingProxyType, lambda table: (freeze_table, (dict(table),)))
"""On ZeroGPU a row travels to the process that has the GPU."""


@dataclass(slots=True, kw_only=True)
class References:
    """The ids that the rows of a folder may refer to; filled file by file."""

    as_of: str = "2999-12-31"
    """No row may be dated after this day."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    accelerators: Mapping[str, Any] = field(default_factory=dict)
    generations: Mapping[str, Any] = field(default_factory=dict)
    offers: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    """By platform and id."""


class Row(BaseModel):
    """A row of a data file."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", validate_by_alias=True, validate_by_name=True)


@dataclass(frozen=True, slots=True, eq=False)
class ById(Generic[T]):
    """One object as the key of a cache, equal to nothing but itself: rows and specs hold dictionaries, so that they cannot be hashed.

    The key keeps the object alive, so that its id is not given to another one.

    >>> one = {"a": 1}
    >>> ById(one) == ById(one), ById(one) == ById(dict(one))
    (True, False)
    """

    value: T

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and other.value is self.value


R = TypeVar("R", bound=Row)


def is_day(text: str, *, months_too: bool) -> bool:
    """Whether the text is a day of this century (YYYY-MM-DD) or, if allowed, a month (YYYY-MM)."""
    match = _DAY.fullmatch(text)
    if match is None or not (match["day"] or months_too):
        return False
    try:
        date.fromisoformat(text if match["day"] else f"{text}-01")
    except ValueError:
        return False
    return True


def _check_date(form: str, *, months_too: bool) -> AfterValidator:
    def check(text: str, info: ValidationInfo) -> str:
        latest = info.context.as_of if info.context else References().as_of
        if not is_day(text, months_too=months_too) or text > latest:
            raise ValueError(f"Accepted: {form}, not after {latest}.")
        return text

    return AfterValidator(check)


def _quantity(parse: Callable[[str], Any]) -> BeforeValidator:
    """Text with a unit; code that makes a row has the number already."""

    def read(value: object, info: ValidationInfo) -> object:
        if info.mode != "json":
            return value
        if not isinstance(value, str):
            raise ValueError("Accepted: a number with its unit, as text.")  # noqa: TRY004 pydantic's own protocol
        try:
            return parse(value)
        except BadQuantity as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(read)


def _exact(value: object, info: ValidationInfo) -> object:
    """A number as text, which keeps it exact; code that makes a row has the number already."""
    if info.mode != "json":
        return value
    try:
        return Decimal(value if isinstance(value, str) else "")
    except InvalidOperation as error:
        raise ValueError("Accepted: a number as text, such as '0.80'.") from error


def reference(table: str, file: str) -> PlainValidator:
    """The id of something that was read before; `table` is its place in `References`, `file` its file."""

    def look_up(value: Any, info: ValidationInfo) -> Any:
        if info.mode != "json":
            return value
        known = getattr(info.context, table)
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"Accepted: an id of {file}.")
        return known[value]

    return PlainValidator(look_up)


Text = Annotated[str, Field(pattern=r"\S")]
"""Text that is not empty."""
Count = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(gt=0)]
Day = Annotated[str, _check_date("a day YYYY-MM-DD", months_too=False)]
DayOrMonth = Annotated[str, _check_date("YYYY-MM-DD or YYYY-MM", months_too=True)]
Exact = Annotated[Decimal, BeforeValidator(_exact), Field(ge=0, allow_inf_nan=False)]
"""A factor or an amount of money, written as text."""
Price = Annotated[UsdPerHour, BeforeValidator(_exact), Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(float), BeforeValidator(_exact), Field(gt=0, le=1)]
ByteCount = Annotated[Bytes, _quantity(parse_bytes), Field(gt=0)]
Bandwidth = Annotated[BytesPerSecond, _quantity(parse_bytes_per_second), Field(gt=0)]
Rate = Annotated[FlopPerSecond, _quantity(parse_flop_per_second), Field(gt=0)]
Table = Annotated[Mapping[str, T], AfterValidator(freeze_table)]
"""By name; cannot be changed."""
Sources = Annotated[tuple[Annotated[Source, reference("sources", "sources.json")], ...], Field(min_length=1)]
"""Sources of the row, at least one."""


class ReadFact(Row):
    """A fact that was read: where, and on which day."""

    source: Text
    checked: Day

    def as_source(self, what: str) -> Source:
        """The source of it; `what` names the fact."""
        return Source(what=what, source=self.source, checked=self.checked)


def require_distinct(*names: str) -> AfterValidator:
    """Rows of which no two agree in these fields."""

    def check(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        seen = set()
        for row in rows:
            key = tuple(getattr(row, name) for name in names)
            if key in seen:
                raise ValueError(f"{' '.join(map(repr, key))} is there twice.")
            seen.add(key)
        return rows

    return AfterValidator(check)


def read_rows(model: type[R], file: Path, references: References | None = None) -> R:
    """Read and check a file."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise BadCatalog(f"{file.name}: it cannot be read ({type(error).__name__}).") from error
    try:
        return model.model_validate_json(text, context=references)
    except ValidationError as error:
        raise BadCatalog(_sentence(file.name, text, error)) from error


def _sentence(file: str, text: bytes, error: ValidationError) -> str:
    """The first complaint, with rows named by their ids."""
    first = error.errors(include_url=False)[0]
    raw: Any = None if first["type"] == "json_invalid" else json.loads(text)
    place = [file]
    for step in first["loc"]:
        try:
            raw = raw[step]
        except (TypeError, LookupError):  # a missing field, or a step of pydantic's own
            raw = None
        place.append(quote_value(raw["id"]) if isinstance(step, int) and isinstance(raw, dict) and "id" in raw else str(step))
    accepted = first["ctx"]["error"] if first["type"] == "value_error" else f"{first['msg']}."
    seen = "" if raw is None or isinstance(raw, dict | list) else f" {quote_value(raw)}."
    return f"{', '.join(place)}:{seen} {accepted}"
