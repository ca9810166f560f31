"""The shapes that every answer is built from, and the one way money, caveats, sources and prices are written in them.

The public contract names the fields; every field that is added stays. Units are in the key. Numbers are plain JSON numbers: no NaN, no
infinity; a price is the shortest decimal that means it (0.8). `typing_extensions.TypedDict` because Pydantic, which derives the JSON
schemas from these shapes, asks for it below Python 3.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView, Mapping
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from lib.catalog import PriceState
    from lib.provenance import Source

SCHEMA = 1
Shape = TypeVar("Shape")


class CaveatEntry(TypedDict):
    """Something the answer leaves open."""

    code: str
    message: str


class SourceEntry(TypedDict):
    """Where a figure comes from, and when that was read or run."""

    what: str
    source: str
    checked: str


class Answer(TypedDict):
    """What every answer carries."""

    schema: int
    caveats: list[CaveatEntry]
    sources: list[SourceEntry]


class ReasonEntry(TypedDict):
    """Why something is as it is: a stable code and a sentence."""

    code: str
    message: str


class SpeedEnd(TypedDict):
    """One end of the ranges of a prediction."""

    ttft_s: float
    inter_token_s: float | None
    decode_tokens_per_s: float | None
    throughput_tokens_per_s: float | None


class PriceEntry(TypedDict):
    """Which prices an answer uses: the bundled ones or the platform's own of today, and the day (or moment) of the oldest."""

    basis: str
    checked: str


def usd(amount: Decimal | None) -> float | None:
    """A price as a JSON number that prints as in the catalog: JSON writes the shortest decimal that means the float, 0.80 → 0.8."""
    return None if amount is None else float(amount)


def source_entries(sources: Iterable[Source]) -> list[SourceEntry]:
    """Each distinct source once, in the order met."""
    return [{"what": source.what, "source": source.source, "checked": source.checked} for source in dict.fromkeys(sources)]


def price_entry(state: PriceState) -> PriceEntry:
    """Which prices are used, and how old the oldest is."""
    return {"basis": state.basis, "checked": state.checked}


_PLAIN = frozenset({str, int, float, bool, type(None)})

_Read: TypeAlias = "Callable[[object], tuple[object, ...]]"
_PLANS: dict[tuple[object, ...], tuple[dict[str, object], tuple[tuple[tuple[str, ...], _Read], ...]]] = {}
"""How `fill` makes a shape of values of these names and sources of these types: as many plans as it has callers."""


def fill(shape: type[Shape], *sources: object, **values: object) -> Shape:
    """An answer or entry of this shape: each field is the value of that name, else that attribute of the first source that has it.

    Of an attribute, money becomes a JSON number, a tuple a list and a mapping a dict; a value stays, but for money. `schema` is `SCHEMA`.

    Raises:
        AttributeError: no source has a field. Sources of one type have the same attributes.
        TypeError: the shape has no field for a value.
    """
    key = (shape, *values, *map(type, sources))
    if (plan := _PLANS.get(key)) is None:
        plan = _PLANS[key] = _plan(shape, sources, values.keys())
    blank, readers = plan
    answer = blank | values
    for name, value in values.items():
        if type(value) is Decimal:
            answer[name] = float(value)
    # The plan was made of these sources and names: equally many, and `strict` would take a tenth of the call.
    for source, (names, read) in zip(sources, readers):  # noqa: B905
        for name, value in zip(names, read(source)):  # noqa: B905
            answer[name] = value if type(value) in _PLAIN else _to_json(value)
    return cast("Shape", answer)


def _plan(
    shape: type, sources: Iterable[object], values: KeysView[str]
) -> tuple[dict[str, object], tuple[tuple[tuple[str, ...], _Read], ...]]:
    """The shape's fields in their order, and what is taken of each source: the names, and what reads them all at once."""
    fields = shape.__annotations__
    if unknown := values - fields.keys():
        raise TypeError(f"{shape.__name__} has no {', '.join(sorted(unknown))}")
    open_fields = [name for name in fields if name not in values and name != "schema"]
    readers: list[tuple[tuple[str, ...], _Read]] = []
    for source in sources:
        names = tuple(name for name in open_fields if hasattr(source, name))
        open_fields = [name for name in open_fields if name not in names]
        readers.append((names, _read_attributes(names)))
    if open_fields:
        raise AttributeError(f"{shape.__name__}.{open_fields[0]} is an attribute of none of its sources")
    return {name: SCHEMA if name == "schema" else None for name in fields}, tuple(readers)


def _read_attributes(names: tuple[str, ...]) -> _Read:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda source: tuple(getattr(source, name) for name in names)  # attrgetter of one name gives no tuple


def _to_json(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    # The event stream takes texts alone for keys: a member of a StrEnum, which is one by its class, ends it without an answer.
    return {str(name): _to_json(each) for name, each in value.items()} if isinstance(value, Mapping) else value
