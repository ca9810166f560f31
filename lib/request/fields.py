"""A field of a request: its check, its default, its help and its place on the form, said once and read by every interface.

    class Workload(Request):
        concurrency: Annotated[int, whole_number(1, 100_000), Form("Concurrent requests", group="workload")] = 1
        \"\"\"Requests that are served at the same time.\"\"\"

A `Request` is a frozen dataclass, so that rooms copy it fast and without checks. `Arguments` is the model of an endpoint. Its fields are
arguments and requests; a field of a request that has a check is an argument too, under the same name. API, MCP, command line, page and
tests read `Arguments.list_fields`. A value is checked once, when `Arguments` reads a caller's values.

An object of settings (`serving={...}`) is one argument: a field of an `Arguments` class whose check reads the object into a `Request`, as
the sides of `/compare` do.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, model_validator
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from lib.request.checks import check_choice, check_choices, check_count, check_decimal, check_flag, check_number, check_whole
from lib.result import field_descriptions


def write_value(value: Any) -> Any:
    """A value as a caller writes it: 24 for Decimal(24), "spaces,jobs" for two names."""
    if isinstance(value, Decimal | float):
        return int(value) if value == int(value) else float(value)
    return ",".join(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Checked:
    """In the `Annotated` type of a field: how a value from outside is read, and how callers are shown the field."""

    check: Callable[[str, Any], Any]
    """Gets the argument's name and the value; returns the value of the field's own type, or raises one of `lib.errors`."""
    shown: Any
    """The type that callers are shown."""
    help: str = ""
    """One line about the field, if it has no docstring."""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    write: Callable[[Any], Any] = write_value
    """Turns a default into the value that a caller would send."""
    properties: Callable[[], dict[str, Any]] | None = None
    """The schemas of the keys of an object, by name."""

    def __get_pydantic_core_schema__(self, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """A validator of our own instead of pydantic's, whose sentences state neither the value nor the next step.

        pydantic passes errors of `lib.errors` on as they are, so the first argument that is wrong is the one that is named.
        """
        return core_schema.with_info_plain_validator_function(lambda value, info: self.check(info.field_name or "", value))

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of the shown type, within the limits."""
        return self.schema()

    def schema(self) -> dict[str, Any]:
        """The JSON schema of a value."""
        if self.properties is not None:
            return {"type": "object", "properties": self.properties(), "additionalProperties": False}
        limits = (("minimum", self.low), ("maximum", self.high))
        return _schema_of(self.shown) | {name: limit for name, limit in limits if limit is not None}


@dataclass(frozen=True, slots=True)
class Form:
    """In the `Annotated` type of a field: its place on the page."""

    label: str
    link: str = ""
    """Its name in a link; "" is the argument's own name."""
    group: str = ""
    """The group of fields that asks it (`lib.ui.fields`)."""
    low: float | None = None
    high: float | None = None
    """Bounds of the page, where they are narrower than those of the check."""
    info: str = ""
    """A few words under the input."""


@dataclass(frozen=True, slots=True)
class Asked:
    """In the `Annotated` type of a field that is a request: which of its arguments are asked, and in which order."""

    names: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument as callers see it."""

    name: str
    check: Checked
    help: str
    default: Any = inspect.Parameter.empty
    form: Form | None = None

    @property
    def required(self) -> bool:
        """Whether a caller has to send it."""
        return self.default is inspect.Parameter.empty

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        default = {} if self.required else {"default": self.default}
        return self.check.schema() | default | {"description": self.help}


@functools.cache
def _schema_of(shown: Any) -> dict[str, Any]:
    return TypeAdapter(shown).json_schema()


class Request:
    """The base of requests, which are frozen dataclasses: the docstring under each field is its help."""

    __slots__ = ()


class _Field(NamedTuple):
    """A field of a request or of an `Arguments` class, before it is known whether it is an argument."""

    name: str
    type: Any
    metadata: Sequence[object]
    default: Any
    help: str


def _find(metadata: Sequence[object], kind: type) -> Any:
    """The last entry of this kind: the field's own one wins over that of its type."""
    return next((entry for entry in reversed(metadata) if isinstance(entry, kind)), None)


def _list_fields(request: Any, defaults: object) -> Iterator[_Field]:
    described = field_descriptions(request)
    if issubclass(request, BaseModel):
        for name, info in request.model_fields.items():
            default = inspect.Parameter.empty if info.is_required() else info.default
            yield _Field(name, info.annotation, info.metadata, default, described.get(name, ""))
        return
    hints = get_type_hints(request, include_extras=True)
    for field in fields(request):
        info = FieldInfo.from_annotation(hints[field.name])
        yield _Field(field.name, info.annotation, info.metadata, getattr(defaults, field.name), described.get(field.name, ""))


def _is_request(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Request) and is_dataclass(kind)


def _list_arguments(request: type, defaults: object = None, asked: Asked | None = None) -> dict[str, Argument]:
    """The arguments of a request, those of requests inside it at their place."""
    found: dict[str, Argument] = {}
    for field in _list_fields(request, defaults):
        check = _find(field.metadata, Checked)
        if check is not None:
            missing = field.default is inspect.Parameter.empty
            found[field.name] = Argument(
                name=field.name,
                check=check,
                help=" ".join(field.help.split()) or check.help,
                default=field.default if missing else check.write(field.default),
                form=_find(field.metadata, Form),
            )
        elif _is_request(field.type):
            found |= _list_arguments(field.type, field.default, _find(field.metadata, Asked))
    return found if asked is None else {name: found[name] for name in asked.names.split()}


def list_arguments(request: type[Request]) -> dict[str, Argument]:
    """The arguments of a request whose fields all have defaults."""
    return _list_arguments(request, request())


@functools.cache
def _parts(request: type) -> dict[str, tuple[type, frozenset[str]]]:
    """The requests inside a request whose arguments are its own: their types, and the names of these arguments."""
    return {
        field.name: (field.type, frozenset(_list_arguments(field.type, field.default, _find(field.metadata, Asked))))
        for field in _list_fields(request, request() if is_dataclass(request) else None)
        if _is_request(field.type) and _find(field.metadata, Checked) is None
    }


def _gather(request: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with those of each request inside gathered under the name of its field."""
    rest = dict(values)
    for name, (kind, arguments) in _parts(request).items():
        if name not in rest:
            rest[name] = _gather(kind, {argument: rest.pop(argument) for argument in arguments & rest.keys()})
    return rest


class Arguments(BaseModel):
    """The arguments of one endpoint, checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    behind: ClassVar[tuple[str, ...]] = ()
    """Names that follow one another, where the published order is not the one in which the fields are written."""

    @classmethod
    @functools.cache
    def list_fields(cls) -> dict[str, Argument]:
        """The arguments in the order of the signature: those without a default first, then as written, but for `behind`."""
        arguments = _list_arguments(cls)
        names = [*arguments]
        for chain in cls.behind:
            first, *others = chain.split()
            for before, name in zip((first, *others), others, strict=False):
                names.remove(name)
                names.insert(names.index(before) + 1, name)
        names.sort(key=lambda name: not arguments[name].required)
        return {name: arguments[name] for name in names}

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of a caller's values."""
        arguments = cls.list_fields().values()
        return {
            "type": "object",
            "properties": {argument.name: argument.schema() for argument in arguments},
            "required": [argument.name for argument in arguments if argument.required],
            "additionalProperties": False,
        }

    @model_validator(mode="before")
    @classmethod
    def _gather_requests(cls, sent: dict[str, Any]) -> dict[str, Any]:
        """Fill in the defaults, which are checked as well, and gather the arguments of each request inside."""
        ready = {name for part, (_, names) in _parts(cls).items() if part in sent for name in names}
        defaults = {name: field.default for name, field in cls.list_fields().items() if not field.required and name not in ready}
        return _gather(cls, defaults | sent)


def whole_number(low: int, high: int, about: str = "") -> Checked:
    """A whole number in [low, high]."""
    return Checked(lambda name, value: check_whole(name, value, low, high), int, about, low, high)


def count_of(low: int, high: int, about: str = "") -> Checked:
    """A whole number of devices in [low, high], which may have its unit."""
    return Checked(lambda name, value: check_count(name, value, low, high), int, about, low, high)


def number(low: float, high: float, about: str = "") -> Checked:
    """A number in [low, high]."""
    return Checked(lambda name, value: check_number(name, value, low, high), float, about, low, high)


def decimal_number(low: int, high: int, about: str = "") -> Checked:
    """A number in [low, high] as it was written, for money and hours."""
    return Checked(lambda name, value: check_decimal(name, value, low, high), float, about, low, high)


def one_of(choices: Sequence[str], shown: Any = str, about: str = "") -> Checked:
    """One of the choices; callers are shown the type `shown`."""
    return Checked(lambda name, value: check_choice(name, value, choices), shown, about, choices=tuple(choices))


def some_of(choices: Sequence[str], about: str = "") -> Checked:
    """A comma-separated list of choices."""
    return Checked(lambda name, value: check_choices(name, value, choices), str, about, choices=tuple(choices))


def flag(about: str = "") -> Checked:
    """True or false."""
    return Checked(check_flag, bool, about)
