"""How an answer's shape is filled from values and from the attributes of what was worked out."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

import orjson
import pytest

from lib.answers.common import Answer, fill


class Priced(Answer):
    """A shape for these tests."""

    name: str
    usd: float | None
    by_region: dict[str, float]


@dataclass(frozen=True)
class Row:
    """Something worked out."""

    name: str = "row"
    usd: Decimal = Decimal("0.80")
    by_region: dict[str, Decimal] = field(default_factory=lambda: {"eu": Decimal(1)})


@dataclass(frozen=True)
class Named:
    """Something with a name alone."""

    name: str = "first"


def test_values_win_over_sources_and_earlier_sources_over_later_ones() -> None:
    """Money is a JSON number, wherever it comes from; the schema states itself."""
    answer = fill(Priced, Named(), Row(), caveats=[], sources=[])
    assert answer == {"schema": 1, "caveats": [], "sources": [], "name": "first", "usd": 0.8, "by_region": {"eu": 1.0}}
    assert fill(Priced, Row(), caveats=[], sources=[], usd=Decimal(2))["usd"] == 2.0


class Size(StrEnum):
    """Names that code gives to what it counts."""

    LARGE = "large"


def test_keys_are_plain_texts() -> None:
    """The event stream writes no others; a member of a StrEnum equals its text and is none."""
    answer = fill(Priced, Row(by_region={Size.LARGE: Decimal(1)}), caveats=[], sources=[])
    assert [type(name) for name in answer["by_region"]] == [str]
    assert orjson.loads(orjson.dumps(answer)) == answer


def test_what_is_missing_or_too_much_is_an_error() -> None:
    """A field that nobody has, and a value that no field takes."""
    with pytest.raises(AttributeError, match="by_region"):
        fill(Priced, Named(), caveats=[], sources=[], usd=None)
    with pytest.raises(TypeError, match="Priced has no colour"):
        fill(Priced, Row(), caveats=[], sources=[], colour="red")
