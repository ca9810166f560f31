"""How results become JSON, and the schema of that JSON. A result is a frozen dataclass whose fields are the names on the wire.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Stage(Result):
        weights_bytes: int
        "One docstring under each field: it is the description in the schema."

`write_json` makes the JSON and `json_schema` describes it; nobody copies a result into another shape. Numbers are plain JSON numbers, a
tuple is a list, a `StrEnum` is its text. A field marked `ABSENT` has no key while it is None.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field, GetPydanticSchema, PlainSerializer, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

Exact = Annotated[Decimal, PlainSerializer(float, return_type=float)]
"""A number that is exact inside; in JSON it is the shortest decimal that means it (0.80 → 0.8)."""
Usd = Exact
"""Dollars."""
Kept = TypeVar("Kept")
Hidden = Annotated[Kept, Field(exclude=True), GetPydanticSchema(lambda _kind, _handler: core_schema.any_schema())]
"""A field, of any type, that the program needs and no caller sees."""
ABSENT: Any = Field(exclude_if=lambda value: value is None)
HIDDEN: Any = Field(exclude=True)
"""Of a field that the program needs and no caller sees."""


class Result:
    """Base of results: docstrings under fields are their descriptions, and every key is always there unless it is `ABSENT`."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)


adapter: Callable[[Any], TypeAdapter[Any]] = functools.cache(TypeAdapter)
"""The one adapter of a type of results; it takes milliseconds to build."""


def write_json(result: object, word: object = None) -> Any:
    """The result as JSON values. `word` gives the sentence of a reason or caveat (`lib.provenance`), which results hold as codes."""
    return adapter(type(result)).dump_python(result, mode="json", context=word)


class SchemaWithoutTitles(GenerateJsonSchema):
    """A field's title would repeat its name."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002, D102  Pydantic describes it
        return False


class _ResultSchema(SchemaWithoutTitles):
    """A result's schema has the docstrings of the class and of its bases' fields, which Pydantic leaves out, and no defaults."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def field_is_required(self, field: Any, total: bool) -> bool:
        return "serialization_exclude_if" not in field and super().field_is_required(field, total)

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        written = super().dataclass_schema(schema)
        written["description"] = inspect.cleandoc(schema["cls"].__doc__)
        for base in schema["cls"].__mro__[1:]:
            if is_dataclass(base):
                for name, described in adapter(base).json_schema(mode="serialization")["properties"].items():
                    if "description" in described:
                        written["properties"][name].setdefault("description", described["description"])
        return written


def json_schema(kind: Any) -> dict[str, Any]:
    """What `write_json` makes of such a result, as a JSON schema."""
    return adapter(kind).json_schema(mode="serialization", schema_generator=_ResultSchema)
