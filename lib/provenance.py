"""The provenance of a figure: its source with a date, its reasons, and its caveats.

Reasons and caveats are data: a stable code for programs and the values that the sentence needs. `lib.present.sentences` words them:
in JSON each is {code, message}, with the sentence that the `word` of `lib.result.write_json` gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated

from pydantic import PlainSerializer, SerializationInfo

from lib.result import Result

SCHEMA = 1
Value = str | int | float | Decimal | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Result):
    """The origin of a figure."""

    what: str
    """The figure."""
    source: str
    """A URL, a repository with its commit, or the name and version of the program that was run."""
    checked: str
    """The ISO date on which the source was read or the program was run."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Something to tell a reader: `code` is stable, the end of a value's name is its unit (`_bytes`, `_s`, `usd_per_hour`).

    `variant` chooses between sentences where one code has several, by the subject that says it.
    """

    code: str
    values: Mapping[str, Value] = field(default_factory=dict)
    variant: str = field(default="", kw_only=True)

    def __hash__(self) -> int:
        return hash((self.code, self.variant, frozenset(self.values.items())))


class Reason(Statement):
    """Why something is as it is: why hardware does the work or not, why it was picked."""

    __slots__ = ()


class Caveat(Statement):
    """A caveat of an answer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementText(Result):
    """A reason or a caveat as callers see it."""

    code: str
    """A stable code."""
    message: str
    """The sentence."""


def _word(statement: Statement, info: SerializationInfo) -> StatementText:
    word = info.context
    if not callable(word):
        raise TypeError("Reasons and caveats are written with their sentences: pass `word` to `write_json`.")
    return StatementText(code=statement.code, message=word(statement))


def _word_each(statements: Iterable[Statement], info: SerializationInfo) -> list[StatementText]:
    return [_word(statement, info) for statement in statements]


def _word_distinct(statements: Iterable[Statement], info: SerializationInfo) -> list[StatementText]:
    return _word_each(dict.fromkeys(statements), info)


def _list_distinct(sources: Iterable[Source]) -> list[Source]:
    return list(dict.fromkeys(sources))


def _say(statement: Statement, info: SerializationInfo) -> str:
    return _word(statement, info).message


Sentence = Annotated[Reason, PlainSerializer(_say, return_type=str)]
"""A reason of which callers see the sentence alone."""
WordedReason = Annotated[Reason, PlainSerializer(_word, return_type=StatementText)]
Reasons = Annotated[tuple[Reason, ...], PlainSerializer(_word_each, return_type=list[StatementText])]
Caveats = Annotated[tuple[Caveat, ...], PlainSerializer(_word_distinct, return_type=list[StatementText])]
"""Each distinct caveat once, in the order met; so with sources."""
Sources = Annotated[tuple[Source, ...], PlainSerializer(_list_distinct, return_type=list[Source])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Result):
    """Base of every answer."""

    schema: int = SCHEMA
    """Version of the answer's format."""
    caveats: Caveats = ()
    """Caveats of the answer."""
    sources: Sources = ()
    """Sources of its figures."""
