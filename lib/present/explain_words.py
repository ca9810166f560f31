"""The words of `/explain`: causes, arithmetic and next steps, read from `lib/data/wording/explain.yaml`.

A sentence is shown if every number that it names was read; of several sentences the first such one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lib.present.sentences import fill
from lib.present.wording import load_wording
from lib.provenance import Value

_DIFFERENCES = frozenset({"short_s", "spare_s"})
"""Each the other's negative: one of the two lines says something."""


class StepWords(NamedTuple):
    """A next step in words, and the kind of hardware that it needs."""

    message: str
    change: str
    tier: str
    """ram, vram, disk, capability, gpu, tpu or cpu; "" if the step needs no other hardware."""
    than: str
    """The number that the hardware has to exceed."""


def _fill(template: str, numbers: Mapping[str, Any]) -> str | None:
    try:
        return fill(template, {name: _listed(value) for name, value in numbers.items()})
    except KeyError:
        return None


def _listed(value: Any) -> Value:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _first(templates: str | list[str], numbers: Mapping[str, Any]) -> str:
    options = [templates] if isinstance(templates, str) else templates
    return next((text for template in options if (text := _fill(template, numbers)) is not None), "")


def cause_sentence(code: str, numbers: Mapping[str, Any]) -> str:
    """The cause in a sentence, which says so where the numbers of every wording are missing."""
    return _first(load_wording("explain")["causes"][code], numbers) or str(load_wording("explain")["unread"])


def outcome_sentence(outcome: str) -> str:
    """The outcome in a few words."""
    return str(load_wording("explain")["outcomes"][outcome])


def arithmetic_lines(numbers: Mapping[str, Any]) -> Iterator[str]:
    """The lines of arithmetic whose numbers are all there; not those whose difference is not above zero."""
    for name, templates in load_wording("explain")["arithmetic"].items():
        if name in _DIFFERENCES and numbers.get(name, 1) <= 0:
            continue
        if (name in numbers or name == "zerogpu_seconds") and (line := _first(templates, numbers)):
            yield line


def step_words(code: str, numbers: Mapping[str, Any]) -> StepWords | None:
    """A next step with its numbers; None if those of every wording are missing, or where the number after `unless` is known."""
    wordings = load_wording("explain")["steps"][code]
    for words in [wordings] if isinstance(wordings, Mapping) else wordings:
        if "unless" in words:
            if words["unless"] in numbers:
                return None
            continue
        message, change = _fill(words["message"], numbers), _fill(words.get("change", ""), numbers)
        if message is not None and change is not None:
            return StepWords(message, change, words.get("tier", ""), words.get("than", ""))
    return None
