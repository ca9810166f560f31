"""Reads the known messages, the rows of `lib/data/pasted_messages.yaml`.

Plain text finds a row (`find`). Bounded regular expressions (`numbers`) read its numbers from the line with that text. A group of such an
expression has the name of the number; the end of its name is the unit that the program printed:

    _bytes   a size with its unit, such as "648.00 MiB"; GB and G count as GiB, because the programs divide by 1024
    _gib     a number of GiB without its unit (`_mib` and `_kib`: of MiB and KiB, `_gb` and `_mb`: of 10^9 and 10^6 bytes); in the answer
             the name ends in `_bytes`
    _clock   a duration such as "0:32:45" or "1 day, 2:03:04"; in the answer the name ends in `_s`
    _bytes_sum  the sum of several sizes, such as "[22.0 GiB 22.0 GiB]"; in the answer the name ends in `_bytes`
    _text    words instead of a number
    _list    every occurrence, as a list
    _each    one number for every device: the texts of the groups `part_key` and `device_key` become the beginning of its name

A number whose name begins with "_" is not in the answer; `needs` and `derive` may read it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Literal

from pydantic import Field, ValidationError

from lib.catalog.rows import DATA, Day, Row, Text
from lib.errors import BadCatalog

Kind = Literal["failure", "family", "followup", "guess", "warning", "report", "notice", "detail", "context"]
Outcome = Literal["failed", "recovered", "slow", "warning", "started", "information"]
PROGRAMS = (
    "Spaces and ZeroGPU", "the Hub's API and Jobs", "torch", "transformers", "diffusers", "bitsandbytes", "accelerate", "TRL", "Unsloth",
    "PEFT", "DeepSpeed", "vLLM", "SGLang", "TGI", "TEI", "llama.cpp", "Ollama", "TPU (XLA, JAX, vLLM)", "nvidia-smi", "pip", "Docker",
    "Kubernetes", "Linux's log of killed processes",
)  # fmt: skip
"""Programs whose texts are read."""

_PLACEHOLDERS = {
    "{size}": r"-?\d[\d,]{0,15}(?:\.\d{1,6})?(?: )?(?:[KMGT]i?B?|bytes|B)",
    "{x}": r"-?\d[\d,]{0,15}(?:\.\d{1,12})?",
    "{n}": r"-?\d[\d,]{0,18}",
}
_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, ">": operator.gt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
Numbers = Mapping[str, object]


def _number(word: str, numbers: Numbers) -> float | None:
    """A number by its name, or as it is written; None where the message did not have it."""
    try:
        return float(word)
    except ValueError:
        value = numbers.get(word)
        return float(value) if isinstance(value, int | float) else None


def holds(condition: str, numbers: Numbers, found: frozenset[str]) -> bool:
    """Whether a condition of a row holds.

    It is `found CODE`, `unfound CODE`, `missing NAME`, `NAME is TEXT`, `NAME`, or `A < B` (a factor may precede B).
    """
    match condition.split():
        case ["missing", name]:
            return name not in numbers
        case ["found" | "unfound" as whether, code]:
            return (code in found) == (whether == "found")
        case [name, "is", text]:
            return numbers.get(name) == text
        case [name]:
            return name in numbers
        case [left, sign, *factor, right]:
            values = [_number(word, numbers) for word in (left, *factor, right)]
            if any(value is None for value in values):
                return False
            first, *others = (value for value in values if value is not None)
            product = others[0] * (others[1] if len(others) > 1 else 1)
            return _COMPARISONS[sign](first, product)
    raise BadCatalog(f"pasted_messages.yaml: the condition {condition!r} cannot be read.")


class Case(Row):
    """Meaning of a message if its numbers or other messages of the text make it more specific."""

    code: Text
    """The cause."""
    when: tuple[Text, ...]
    """All of these conditions hold."""
    certain: bool = True
    """As of `Message`."""
    steps: tuple[Text, ...] = ()
    """As of `Message`."""
    outcome: Outcome | None = None
    """Outcome, if it differs from the usual one of the message's kind."""
    phase: str = ""
    """Phase, if this case happens in one phase only."""


class Message(Row):
    """A message that a program prints."""

    code: Text
    """The cause that it states; several messages may state one cause."""
    program: str
    """The program that prints it."""
    phase: Text
    """When: load, start, compile, run, train, call or build."""
    kind: Kind = "failure"
    """`failure` stops the work; `family` is a class of failures, read only where no row is more exact; `followup` names the failure without
    its reason; `guess` only quotes the program; `report` says that something failed, for a reason in other lines; `detail` belongs to
    another message; `context` only shows where the text comes from."""
    find: tuple[Text, ...]
    """Plain texts, one of which the message contains."""
    numbers: tuple[Text, ...] = ()
    """Regular expressions, see above."""
    needs: tuple[Text, ...] = ()
    """Numbers that must all be read, or the message does not match."""
    either: tuple[Text, ...] = ()
    """Numbers of which at least one must be read, or the message does not match."""
    among: tuple[Text, ...] = ()
    """Codes of `context` rows, of which the text must hold one, or the message does not match: other programs print the same words."""
    derive: tuple[Text, ...] = ()
    """`NAME = A + B`, or `NAME = LIST atleast B` (the smallest value of a list that is not below B): numbers that follow from others.

    Of several lines for one name, the first with both inputs counts.
    """
    divisors: str = ""
    """The number whose divisors are listed as `divisors`."""
    cases: tuple[Case, ...] = ()
    """The first that holds replaces code, certainty and steps."""
    certain: bool = True
    """Whether cause and first step follow from the text alone."""
    steps: tuple[Text, ...] = ()
    """Codes of next steps, the best first (`lib/data/wording/explain.yaml`)."""
    outcome: Outcome | None = None
    """As of `Case`."""
    wraps: tuple[Text, ...] = ()
    """Codes of messages that this one repeats in its own words."""
    sets: Mapping[Text, Text] = Field(default_factory=dict)
    """Settings that this message implies without a flag: `profile: length`, or fields of a training request."""
    spaced: bool = False
    """Its patterns need the blanks between words."""
    lines: int = Field(default=1, ge=1, le=12)
    """Number of lines over which the message may be spread."""
    places: int = Field(default=4, ge=1, le=64)
    """Occurrences that are read, from the first one."""
    last: bool = False
    """Only its last occurrence is read, for a message that a running program prints repeatedly."""
    gather: tuple[Text, ...] = ()
    """`NAME = list NUMBER` (or `first`, `min`, `max`, `count`): a number that combines several occurrences."""
    lookback: int = Field(default=0, ge=0, le=400)
    """Characters before its line that are searched for numbers that the line lacks."""

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """The plain texts in the form that is searched."""
        plain = (text.replace("`", "") for text in self.find)
        return tuple(text if self.spaced else "".join(text.split()) for text in plain)

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """The regular expressions in the form that is searched."""
        return tuple(_compile(pattern, spaced=self.spaced) for pattern in self.numbers)

    @cached_property
    def per_device(self) -> bool:
        """Whether a log prints it for every device."""
        return any("_each>" in pattern for pattern in self.numbers)

    def derived(self, numbers: dict[str, object]) -> dict[str, object]:
        """The numbers with those that follow from them."""
        known = dict(numbers)
        for line in self.derive * 2:  # a line may need one that comes after it
            name, _, left, sign, right = line.split()
            if sign == "atleast":
                known |= _at_least(name, known.get(left), known.get(right)) if name not in known else {}
                continue
            a, b = _number(left, known), _number(right, known)
            if name in known or a is None or b is None or (sign == "/" and b == 0):
                continue
            value = _OPERATORS[sign](a, b)
            known[name] = value if name.startswith("share_") else int(value)
        if self.divisors and isinstance(of := known.get(self.divisors), int) and 0 < of <= 10_000:  # noqa: PLR2004  heads of a model
            known["divisors"] = [number for number in range(1, of + 1) if of % number == 0]
        return known


def _at_least(name: str, values: object, least: object) -> dict[str, object]:
    """The smallest of the values that is not below `least`, by its name; empty without one."""
    if not isinstance(values, list) or not isinstance(least, int | float):
        return {}
    enough = [value for value in values if isinstance(value, int | float) and value >= least]
    return {name: min(enough)} if enough else {}


def _compile(pattern: str, *, spaced: bool) -> re.Pattern[str]:
    if not spaced:
        pattern = pattern.replace(" ", "")
    for name, meaning in _PLACEHOLDERS.items():
        pattern = pattern.replace(name, meaning)
    return re.compile(pattern)


class MessagesFile(Row):
    """pasted_messages.yaml."""

    checked: Day
    """The day on which the messages were read."""
    unpredicted: frozenset[Text]
    """Programs whose messages this app has no prediction to compare with."""
    messages: tuple[Message, ...]
    """The first message wins where two are found at one place."""


@cache
def load_messages() -> MessagesFile:
    """The known messages."""
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  not needed to start

    file = DATA / "pasted_messages.yaml"
    raw = yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe loaders
    try:
        return MessagesFile.model_validate(raw, strict=False)
    except ValidationError as error:
        raise BadCatalog(f"pasted_messages.yaml: {error.errors(include_url=False)[0]}") from error
