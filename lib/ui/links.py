"""Links to an answer: the questions as query parameters of the page, and back.

A link comes from anyone, so a parameter is used only when it names a field and reads as that field's type and range; whatever
does not is left at its default, and the page says which ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

MODEL_LENGTH = 600
_TEXT_LENGTH = 200

Value = str | float | int | list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One question of a tab: the argument of the API it becomes, its name in a link, its default, and what it accepts.

    `low` and `high` bound a number, `choices` the words; a list is joined with commas in a link.
    """

    argument: str
    name: str
    default: Value
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()

    def read(self, text: str) -> Value | None:
        """The value that a link's text stands for; `None` when it stands for none."""
        if isinstance(self.default, list):
            words = [word for word in text[:_TEXT_LENGTH].split(",") if word in self.choices]
            return words or None
        if isinstance(self.default, str):
            return text if text in self.choices else None
        return self._number(text)

    def _number(self, text: str) -> Value | None:
        try:
            value = float(text[:40])
        except ValueError:
            return None
        if not math.isfinite(value) or not self.low <= value <= self.high:
            return None
        return int(value) if value.is_integer() else None if isinstance(self.default, int) else value


def written(value: Value) -> str:
    """A value as a link carries it."""
    return ",".join(value) if isinstance(value, list) else str(value)


def query(tab: str, model: str, fields: Sequence[Field], values: Sequence[Value]) -> str | None:
    """The query of a link to this answer, defaults left out; `None` when the model is too long for one (a pasted config)."""
    if len(model) > MODEL_LENGTH:
        return None
    asked = {
        field.name: written(value) for field, value in zip(fields, values, strict=True) if value != field.default and value is not None
    }
    return "?" + urlencode({"tab": tab, "model": model, **asked})


def read(fields: Sequence[Field], params: Mapping[str, str]) -> tuple[list[Value], list[str]]:
    """Values for the fields from a link's parameters, and the names of those that could not be used."""
    values: list[Value] = []
    unread: list[str] = []
    for field in fields:
        value = field.read(params[field.name]) if field.name in params else field.default
        if value is None:
            unread.append(field.name)
        values.append(field.default if value is None else value)
    return values, unread
