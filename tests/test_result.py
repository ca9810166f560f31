"""Results: their JSON, and the schema that describes it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import orjson
import pytest
from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

import lib
from lib.provenance import Answer, Caveat, Reason, Reasons, Source, Statement
from lib.result import ABSENT, HIDDEN, Result, Usd, field_descriptions, json_schema, write_json


class Size(StrEnum):
    """Names that code gives to what it counts."""

    LARGE = "large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Result):
    """A row."""

    usd: Usd
    """Dollars."""

    sizes: Mapping[str, tuple[int, ...]]
    """Numbers by size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Answer):
    """A table."""

    rows: tuple[Row, ...]
    """Its rows."""

    reasons: Reasons = ()
    """Why it is so."""

    own: Annotated[Row | None, ABSENT] = None
    """A row of one's own."""

    origin: Annotated[object, HIDDEN] = None
    """The object that the table was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTable(Table):
    """A longer table."""

    pages: int
    """Pages."""


ROW = Row(usd=Decimal("0.80"), sizes={Size.LARGE: (1, 2)})


def word(statement: Statement) -> str:
    """A sentence."""
    return f"{statement.code} is told"


def test_json_of_a_result() -> None:
    """Money is a number, a tuple a list, an enum's member its text; caveats and sources come once, in order; codes get sentences."""
    source = Source(what="a", source="b", checked="c")
    table = Table(
        rows=(ROW,), reasons=(Reason("r"), Reason("r")), caveats=(Caveat("y"), Caveat("x"), Caveat("y")), sources=(source, source)
    )
    written = write_json(table, word)
    assert written == {
        "schema": 1,
        "caveats": [{"code": "y", "message": "y is told"}, {"code": "x", "message": "x is told"}],
        "sources": [{"what": "a", "source": "b", "checked": "c"}],
        "rows": [{"usd": 0.8, "sizes": {"large": [1, 2]}}],
        "reasons": [{"code": "r", "message": "r is told"}] * 2,
    }
    assert [type(name) for name in written["rows"][0]["sizes"]] == [str]  # the event stream takes no keys but plain texts
    assert orjson.loads(orjson.dumps(written)) == written
    assert "own" in write_json(Table(rows=(), own=ROW), word)


def test_a_reason_is_not_written_without_its_sentence() -> None:
    """A code alone is for programs."""
    with pytest.raises(PydanticSerializationError, match="sentences"):
        write_json(Table(rows=(), caveats=(Caveat("x"),)))


def test_a_model_keeps_the_values_of_its_caveats() -> None:
    """Only the fields of results are worded: a caveat elsewhere travels between processes as it is."""
    assert TypeAdapter(Caveat).dump_python(Caveat("x", {"tokens": 2}), mode="json") == {"code": "x", "values": {"tokens": 2}, "variant": ""}


def test_the_schema_describes_every_field() -> None:
    """By its docstring, inherited fields too; all that is always there is required, and nothing that is hidden is named."""
    schema = json_schema(LongTable)
    assert {name: field["description"] for name, field in schema["properties"].items()} == {
        "schema": "Version of the answer's format.",
        "caveats": "Caveats of the answer.",
        "sources": "Sources of its figures.",
        "rows": "Its rows.",
        "reasons": "Why it is so.",
        "own": "A row of one's own.",
        "pages": "Pages.",
    }
    assert schema["description"] == "A longer table."
    assert schema["required"] == ["schema", "caveats", "sources", "rows", "reasons", "pages"]
    assert schema["$defs"]["Row"]["properties"]["usd"] == {"type": "number", "description": "Dollars."}


def test_every_field_of_every_result_is_described() -> None:
    """By a docstring under it: that one text is the description in the schemas."""
    for module in pkgutil.walk_packages(lib.__path__, "lib."):
        if not module.name.startswith(("lib.ui", "lib.cli", "lib.live")):
            importlib.import_module(module.name)
    kinds = {kind for kind in all_subclasses(Result) if kind.__module__.startswith("lib.") and is_dataclass(kind)}
    assert len(kinds) > 30
    missing = {kind.__name__: {field.name for field in fields(kind)} - field_descriptions(kind).keys() for kind in kinds}
    assert {name: names for name, names in missing.items() if names} == {}


def all_subclasses(kind: type) -> set[type]:
    """Direct and indirect ones."""
    return {below for child in kind.__subclasses__() for below in (child, *all_subclasses(child))}
