"""Plain words for the names of choices and hardware: `awq`, `4bit`, `adamw-8bit`, `DGX Spark`.

    find_meaning("precision", "4-bit")    "int4"

`lib/data/words.json` holds the words by subject, without capitals and separators. A subject is the name of an argument, or `hardware`.
Code that reads a word as a name calls `note_reading`; the answer then says so in a caveat (`collect_readings`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import TypeVar

from lib.provenance import Caveat

Choice = TypeVar("Choice", bound=str)
_SEPARATORS = str.maketrans("", "", " -_./")
_READINGS: ContextVar[list[Caveat] | None] = ContextVar("READINGS", default=None)


def fold_word(text: str) -> str:
    """A word without capitals and separators.

    >>> fold_word("AdamW-8bit"), fold_word("Zero_3")
    ('adamw8bit', 'zero3')
    """
    return text.casefold().translate(_SEPARATORS)


@cache
def _read_words() -> Mapping[str, Mapping[str, str]]:
    words: dict[str, dict[str, str]] = json.loads(files("lib.data").joinpath("words.json").read_text(encoding="utf-8"))
    return words


def find_meaning(subject: str, text: str) -> str | None:
    """The name that the table gives for a word, or None."""
    return _read_words().get(subject, {}).get(fold_word(text))


def find_choice(subject: str, text: str, choices: Sequence[Choice]) -> Choice | None:
    """The choice that a word means: one that differs in separators only, else the one of the table; None if that is not a choice here."""
    folded = fold_word(text)
    alike = [choice for choice in choices if fold_word(choice) == folded]
    meant = find_meaning(subject, text)
    return alike[0] if len(alike) == 1 else next((choice for choice in choices if choice == meant), None)


def note_reading(argument: str, written: str, meant: str) -> None:
    """Remember that a word was taken for a name, for the answer that is being made."""
    note_caveat(Caveat("taken_for", {"argument": argument, "written": written[:80], "meant": meant}))


def note_caveat(caveat: Caveat) -> None:
    """Remember a caveat on how an argument was read, for the answer that is being made."""
    readings = _READINGS.get()
    if readings is not None:
        readings.append(caveat)


def find_noted(code: str) -> Caveat | None:
    """The first caveat with this code that was noted for the answer that is being made."""
    return next((caveat for caveat in _READINGS.get() or () if caveat.code == code), None)


@contextmanager
def collect_readings() -> Iterator[list[Caveat]]:
    """The readings that are noted while the block runs."""
    readings: list[Caveat] = []
    before = _READINGS.set(readings)
    try:
        yield readings
    finally:
        _READINGS.reset(before)
