"""The values of a tab's fields as its handlers get them: the question, then the fields of the tab."""

from __future__ import annotations

from typing import Any

from lib.ui import fields as ask


def fields_of(tab: str) -> tuple[ask.Field, ...]:
    """The fields behind a tab, in order."""
    return (*ask.QUESTION, *ask.TAB_FIELDS.get(tab, ()))


def fill_form(tab: str, **named: Any) -> list[Any]:
    """The defaults with some questions answered, by the name in a link."""
    assert set(named) <= {field.name for field in fields_of(tab)}
    return [named.get(field.name, field.default) for field in fields_of(tab)]
