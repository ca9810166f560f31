"""What stands behind a figure: its source with a date, why it is so, and what it leaves open.

Reasons and caveats are data: a stable code for programs and the values that the sentence needs. `lib.present.sentences` words them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

Value = str | int | float | Decimal | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a figure comes from.

    `what` names the figure, `source` is a URL, a repository with its commit, or the name and version of what was run;
    `checked` is the ISO date on which it was read or run.
    """

    what: str
    source: str
    checked: str


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
    """What an answer leaves open."""

    __slots__ = ()
