"""How results become JSON, and the schema of that JSON. A result is a frozen dataclass whose fields are the names on the wire.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Stage(Result):
        weights_bytes: int
        "One docstring under each field: it is the description in the schema."

`write_json` makes the JSON and `json_schema` describes it; no code copies a result into another shape. Numbers are plain JSON numbers, a
tuple is a list, a `StrEnum` is its text. A field marked `ABSENT` has no key while it is None.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, PlainSerializer, TypeAdapter
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
    """Base of results: every key is always there unless it is `ABSENT`."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(json_schema_serialization_defaults_required=True)


def fields_of(result: Result, kind: type[Result] | None = None) -> dict[str, Any]:
    """The fields by name, or those of a base `kind`, to build a result whose class extends that class."""
    return {name: getattr(result, name) for name in (kind or result).__dataclass_fields__}


adapter: Callable[[Any], TypeAdapter[Any]] = functools.cache(TypeAdapter)
"""The one adapter of a type of results; it takes milliseconds to build."""


def write_json(result: object, word: object = None) -> Any:
    """The result as JSON values. `word` gives the sentence of a reason or caveat (`lib.provenance`), which results hold as codes."""
    return adapter(type(result)).dump_python(result, mode="json", context=word)


class SchemaWithoutTitles(GenerateJsonSchema):
    """A field's title would repeat its name."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002, D102  Pydantic describes it
        return False


@functools.cache
def _class_nodes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def field_descriptions(kind: type) -> dict[str, str]:
    """The docstrings under the fields of a class and of its bases, which are dataclasses or models at the top of their module.

    Pydantic's `use_attribute_docstrings` leaves out those of bases of dataclasses, and takes 50 ms a class when it is imported.
    """
    found: dict[str, str] = {}
    for base in (base for base in reversed(kind.__mro__) if is_dataclass(base) or (issubclass(base, BaseModel) and base is not BaseModel)):
        node = _class_nodes(base.__module__).get(base.__name__)
        for field, below in itertools.pairwise(node.body if node else ()):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = inspect.cleandoc(text)
    return found


class _ResultSchema(SchemaWithoutTitles):
    """The schema of a result has the docstrings of its class and fields, and no defaults."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def field_is_required(self, field: Any, total: bool) -> bool:
        return "serialization_exclude_if" not in field and super().field_is_required(field, total)

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        written = super().dataclass_schema(schema)
        written["description"] = inspect.cleandoc(schema["cls"].__doc__)
        for name, description in field_descriptions(schema["cls"]).items():
            if name in written["properties"]:
                written["properties"][name]["description"] = description
        return written


def json_schema(kind: Any) -> dict[str, Any]:
    """JSON schema of such a result as `write_json` writes it."""
    return adapter(kind).json_schema(mode="serialization", schema_generator=_ResultSchema)
