"""Rows of the data files, read field by field: what is missing, unknown or malformed fails at load with the row named."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from lib.errors import BadCatalog, BadQuantity, shown
from lib.units import Usd, parse_bytes, parse_bytes_per_second, parse_flop_per_second

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lib.provenance import Source
    from lib.units import Bytes, BytesPerSecond, FlopPerSecond

T = TypeVar("T")
_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY = re.compile(r"(20[0-9]{2})-([0-9]{2})(?:-([0-9]{2}))?")


class Row:
    """One row under reading. Every field is taken once, by its type; `finish` refuses what nobody asked for."""

    __slots__ = ("_left", "where")

    def __init__(self, where: str, fields: object) -> None:
        """`where` names the row in messages, such as `offers.json, row 'l4x1'`."""
        if not isinstance(fields, dict):
            raise BadCatalog(f"{where}: {shown(fields)} is not a row.")
        self.where = where
        self._left: dict[str, Any] = dict(fields)

    def bad(self, field: str, seen: object, accepted: str) -> BadCatalog:
        """The error that names this row and field."""
        return BadCatalog(f"{self.where}: {field} is {shown(seen)}. Accepted: {accepted}.")

    @property
    def name(self) -> str:
        """The row's own id, for messages, before it is taken."""
        return shown(self._left.get("id", "?"))[1:-1]

    def has(self, field: str) -> bool:
        """Whether the row states this optional field."""
        return field in self._left

    def _take(self, field: str) -> Any:
        try:
            return self._left.pop(field)
        except KeyError:
            raise BadCatalog(f"{self.where}: {field} is missing.") from None

    def finish(self) -> None:
        """Refuse fields that are not known."""
        if self._left:
            raise BadCatalog(f"{self.where}: unknown field {shown(min(self._left))}.")

    def of(self, field: str, kind: type[T]) -> T:
        """A value of exactly this type (a boolean is not a number)."""
        value = self._take(field)
        if type(value) is not kind:
            raise self.bad(field, value, kind.__name__)
        return value

    def optional(self, field: str, kind: type[T]) -> T | None:
        """As `of`, or null."""
        value = self._take(field)
        if value is not None and type(value) is not kind:
            raise self.bad(field, value, f"{kind.__name__} or null")
        return value

    def label(self, field: str) -> str:
        """Text that is not empty."""
        value = self.of(field, str)
        if not value.strip():
            raise self.bad(field, value, "text")
        return value

    def choice(self, field: str, choices: tuple[str, ...]) -> str:
        """One of a few words."""
        value = self._take(field)
        if value not in choices:
            raise self.bad(field, value, ", ".join(choices))
        return str(value)

    def labels(self, field: str) -> tuple[str, ...]:
        """A list of texts, possibly empty."""
        value = self._take(field)
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.bad(field, value, "a list of texts")
        return tuple(value)

    def count(self, field: str) -> int:
        """A whole number, not negative."""
        value = self.of(field, int)
        if value < 0:
            raise self.bad(field, value, "a whole number from 0 on")
        return value

    def size(self, field: str) -> int | None:
        """A positive whole number, or null."""
        value = self.optional(field, int)
        if value is not None and value < 1:
            raise self.bad(field, value, "a positive whole number or null")
        return value

    def number(self, field: str) -> Decimal:
        """A number that is written as text, to keep it exact."""
        value = self.of(field, str)
        try:
            number = Decimal(value)
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or number < 0:
            raise self.bad(field, value, "a number as text, such as '0.80'")
        return number

    def usd(self, field: str) -> Usd | None:
        """An amount in dollars as text, or null."""
        if self._left.get(field, "") is None:
            self._take(field)
            return None
        return Usd(self.number(field))

    def _quantity(self, field: str, parse: Callable[[str], T]) -> T | None:
        value = self.optional(field, str)
        if value is None:
            return None
        try:
            quantity = parse(value)
        except BadQuantity as error:
            raise BadCatalog(f"{self.where}: {field}: {error}") from error
        if not quantity:
            raise self.bad(field, value, "a quantity above zero")
        return quantity

    def bytes(self, field: str) -> Bytes | None:
        """Text such as "24 GiB", or null."""
        return self._quantity(field, parse_bytes)

    def bandwidth(self, field: str) -> BytesPerSecond | None:
        """Text such as "300 GB/s", or null."""
        return self._quantity(field, parse_bytes_per_second)

    def rate(self, field: str) -> FlopPerSecond | None:
        """Text such as "121 TFLOP/s", or null."""
        return self._quantity(field, parse_flop_per_second)

    def day(self, field: str, *, latest: str) -> str:
        """A full date, YYYY-MM-DD, not after `latest`."""
        value = self.of(field, str)
        if not is_day(value, months_too=False) or value > latest:
            raise self.bad(field, value, f"a date YYYY-MM-DD not after {latest}")
        return value

    def day_or_month(self, field: str, *, latest: str) -> str | None:
        """A date or a month, not after `latest`, or null."""
        value = self.optional(field, str)
        if value is not None and (not is_day(value, months_too=True) or value > latest):
            raise self.bad(field, value, f"YYYY-MM-DD, YYYY-MM or null, not after {latest}")
        return value

    def rows(self, field: str) -> list[Row]:
        """A list of rows."""
        value = self.of(field, list)
        return [Row(f"{self.where}, {field} {number}", item) for number, item in enumerate(value, 1)]

    def row(self, field: str) -> Row | None:
        """A row within this one, or null."""
        value = self._take(field)
        return None if value is None else Row(f"{self.where}, {field}", value)

    def group(self, field: str) -> Row:
        """A row within this one that has to be there."""
        return Row(f"{self.where}, {field}", self._take(field))

    def table(self, field: str, read: Callable[[Row, str], T]) -> Mapping[str, T]:
        """A table whose every value is read with `read(row, key)`."""
        inner = Row(f"{self.where}, {field}", self._take(field))
        table = {key: read(inner, key) for key in list(inner._left)}
        return MappingProxyType(table)

    def sources(self, known: Mapping[str, Source]) -> tuple[Source, ...]:
        """One or more keys of the table of sources."""
        keys = self.labels("sources")
        if not keys:
            raise BadCatalog(f"{self.where}: it has no source.")
        for key in keys:
            if key not in known:
                raise self.bad("sources", key, "a key of sources.json")
        return tuple(known[key] for key in keys)


def is_day(text: str, *, months_too: bool) -> bool:
    """Whether the text is a day of the calendar (29 February passes in any year) or, if allowed, a month."""
    match = _DAY.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= len(_MONTHS):
        return False
    if match[3] is None:
        return months_too
    return 1 <= int(match[3]) <= _MONTHS[int(match[2]) - 1]
