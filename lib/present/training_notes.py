"""Sentences next to the table of hardware to train on: why different cards take the same time, and the change that makes a run cheaper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lib.present.markup import escape
from lib.present.numbers import duration, usd
from lib.present.sentences import note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lib.answers.training import TrainingAnswer
    from lib.speed.training_hardware import TrainingOption

_WRITES_ITSELF = "training_rollouts"
"""The caveat of answers that the trainer's own model writes."""


def training_notes(answer: TrainingAnswer) -> str:
    """The sentences that hold for this answer, as markup; "" if none does."""
    sentences = [*_equal_times(answer), *_cheaper_run(answer)]
    return "".join(f'<p class="quiet">{escape(one)}</p>' for one in sentences)


def _equal_times(answer: TrainingAnswer) -> Iterator[str]:
    """That the host sets the pace, where several kinds of cards take the same time and the trainer's own model writes the answers."""
    if not any(one.code == _WRITES_ITSELF and not one.variant for one in answer.caveats):
        return
    cards: dict[str, set[str]] = {}
    for one in filter(_is_timed, answer.options):
        cards.setdefault(duration(one.hours or 0), set()).add(one.accelerator or one.name)
    most, alike = max(cards.items(), key=lambda pair: len(pair[1]), default=("", set()))
    if len(alike) > 1:
        yield note("training", "host_bound", kinds=len(alike), time=most)


def _is_timed(option: TrainingOption) -> bool:
    return option.verdict != "no" and option.devices == 1 and option.hours is not None


def _cheaper_run(answer: TrainingAnswer) -> Iterator[str]:
    """The change that makes the cheapest run possible."""
    priced = [one for one in answer.changes if one.usd is not None and one.name is not None]
    if priced:
        best = min(priced, key=lambda one: one.usd or 0)
        yield note("training", "cheaper_run", usd=usd(best.usd or 0), name=best.name or "", change=best.message)
