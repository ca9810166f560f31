"""How a job tells its results: one line of JSON each, between two marks, in the middle of whatever else stands in its log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

BEGIN, END = "<<<measured ", " measured>>>"
LONGEST = 20_000
"""Characters of a line that is read; the log of a job may hold anything."""


def marked(told: Mapping[str, Any]) -> str:
    """The line that a job prints."""
    return f"{BEGIN}{json.dumps(told, allow_nan=False)}{END}"


def results(lines: Iterable[str]) -> tuple[dict[str, Any], ...]:
    """What stands between the marks, in order; a line that is cut off, too long or no JSON object is none."""
    found = []
    for line in lines:
        start, stop = line.find(BEGIN), line.rfind(END)
        if start < 0 or stop < start or len(line) > LONGEST:
            continue
        try:
            told = json.loads(line[start + len(BEGIN) : stop])
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict):
            found.append(told)
    return tuple(found)
