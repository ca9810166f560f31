"""What stands behind a figure: its source with a date, and what it leaves open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a figure comes from.

    `what` names the figure, `source` is a URL, a repository with its commit, or the name and version of what was run;
    `checked` is the ISO date on which it was read or run.
    """

    what: str
    source: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """Something an answer leaves open: a stable code for programs and a sentence for people."""

    code: str
    message: str
