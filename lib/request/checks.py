"""Checks of values from outside: each returns the promised type, or refuses and states the value and the accepted ones.

Gradio checks nothing for HTTP callers, so every check takes `object`. Rules that hold everywhere: a number is a JSON number, never text,
never true or false; NaN and infinity are not numbers; 4096.0 is the whole number 4096 (JSON does not tell them apart).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TypeVar

from lib.errors import BadArgument
from lib.request.words import find_choice, note_reading

Choice = TypeVar("Choice", bound=str)
MAX_NAME = 200
_LISTED = 12  # names; a longer list is not read
_COUNT = re.compile(r"\s{0,9}[x×]? ?([0-9]{1,4}) ?[x×]? ?(?:gpus?|cards?|devices?|accelerators?|chips?|tpus?)\s{0,9}", re.IGNORECASE)


def describe_value(value: object) -> str:
    """The value that was sent, in a few words; never the whole of a big or deep value (writing that out could itself fail)."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float | Decimal):
        if isinstance(value, int) and value.bit_length() > 200:  # noqa: PLR2004  60 digits; Python refuses to write out thousands
            return f"a whole number of about {int(value.bit_length() * 0.30103)} digits"
        return str(value)
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return f"an object with {len(value)} keys" if isinstance(value, dict) else type(value).__name__


def _not_a_number(value: object) -> str:
    return f'the text "{value[:40]}"' if isinstance(value, str) else describe_value(value)


def check_flag(name: str, value: object) -> bool:
    """True or false, as JSON's own values.

    Raises:
        BadArgument: anything else, 0 and 1 included.
    """
    if isinstance(value, bool):
        return value
    raise BadArgument(name, describe_value(value), "true or false")


def check_text(name: str, value: object, example: str) -> str:
    """A short line of text without surrounding blanks.

    Raises:
        BadArgument: not text, empty, too long, or with control characters.
    """
    accepted = f"text such as '{example}', at most {MAX_NAME} characters"
    if not isinstance(value, str) or len(value) > MAX_NAME:
        raise BadArgument(name, describe_value(value), accepted)
    line = value.strip()
    if not line or not line.isprintable():
        raise BadArgument(name, describe_value(value), accepted)
    return line


def check_choice(name: str, value: object, choices: Sequence[Choice]) -> Choice:
    """One of the choices; case and surrounding blanks are forgiven, and plain words are understood (`lib.request.words`).

    Raises:
        BadArgument: none of them, with the nearest ones first.
    """
    if isinstance(value, str) and len(value) <= MAX_NAME:
        wanted = value.strip().casefold()
        for choice in choices:
            if choice.casefold() == wanted:
                return choice
        meant = find_choice(name, wanted, choices) if wanted else None
        if meant is not None:
            note_reading(name, value.strip(), meant)
            return meant
    raise BadArgument(name, describe_value(value).strip(), _near(value, choices))


def check_choices(name: str, value: object, allowed: Sequence[Choice]) -> tuple[Choice, ...]:
    """A comma-separated list of choices, each once, in the order given.

    Raises:
        BadArgument: not text, empty, or one of them is unknown.
    """
    texts = value.split(",") if isinstance(value, str) and len(value) <= MAX_NAME else []
    parts = [check_choice(name, part, allowed) for part in texts if part.strip()]
    if not parts:
        raise BadArgument(name, describe_value(value), f"a comma-separated list of {_join_names(allowed)}")
    return tuple(dict.fromkeys(parts))


def check_whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number in [low, high].

    Raises:
        BadArgument: not a number, not whole, or out of range.
    """
    accepted = f"a whole number from {low:,} to {high:,}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadArgument(name, _not_a_number(value), accepted)
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        raise BadArgument(name, describe_value(value), accepted)
    if not low <= value <= high:
        raise BadArgument(name, describe_value(value), accepted)
    return int(value)


def check_count(name: str, value: object, low: int, high: int) -> int:
    """A whole number in [low, high], or one with its unit, such as "4 GPUs".

    Raises:
        BadArgument: not a number, not whole, or out of range.
    """
    if isinstance(value, str) and (written := _COUNT.fullmatch(value)):
        value = int(written[1])
    return check_whole(name, value, low, high)


def check_number(name: str, value: object, low: float, high: float) -> float:
    """A finite number in [low, high].

    Raises:
        BadArgument: not a number, NaN, infinite, or out of range.
    """
    accepted = f"a number from {low:,} to {high:,}"
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise BadArgument(name, _not_a_number(value), accepted)
    if not _is_finite(value) or not low <= value <= high:
        raise BadArgument(name, describe_value(value), accepted)
    return float(value)


_LEAST_DECIMAL = Decimal("1e-12")


def check_decimal(name: str, value: object, low: int, high: int) -> Decimal:
    """A number in [low, high], read as it was written: 0.1 is exactly a tenth.

    Raises:
        BadArgument: not a number, NaN, infinite, out of range, or so small that a quotient by it has too many digits.
    """
    check_number(name, value, low, high)
    read = Decimal(str(value))
    if 0 < abs(read) < _LEAST_DECIMAL:
        raise BadArgument(name, value, f"0, or a number from {_LEAST_DECIMAL} to {high:,}")
    return read


def _is_finite(value: float | Decimal) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite()
    return isinstance(value, int) or math.isfinite(value)  # an integer of a thousand digits has no float


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _near(value: object, names: Sequence[str]) -> str:
    spelled = {name.casefold(): name for name in names}
    wanted = value[:MAX_NAME].strip().casefold() if isinstance(value, str) else ""
    near = [spelled[match] for match in difflib.get_close_matches(wanted, spelled, n=5, cutoff=0.5)]
    if len(names) <= _LISTED:
        return _join_names(names) + (f"; the nearest: {near[0]}" if near else "")
    return f"one of {len(names)} names, {'the nearest' if near else 'such as'}: {_join_names(near or names[:_LISTED])}"
