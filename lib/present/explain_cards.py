"""Meaning of a pasted text, as a card: cause, arithmetic, next steps, and the log's figures next to the app's own."""

from __future__ import annotations

from collections.abc import Mapping

from lib.answers.explain import ExplainAnswer, Printed
from lib.present.explain_words import outcome_sentence
from lib.present.html import render_html
from lib.present.markup import refusal_note
from lib.present.sentences import format_value
from lib.present.tables import render_table
from lib.present.wording import load_wording

_UNITS = ("_bytes", "_s", "_pct", "_min")


def explain_card(answer: ExplainAnswer) -> str:
    """The answer as markup; every value of the text is escaped."""
    if not answer.recognised:
        return refusal_note(answer.next_steps[0].message, load_wording("explain")["unknown"])
    pairs = [(_name(name), _show(name, value)) for name, value in answer.numbers.items()]
    return render_html(
        "explain.html.j2",
        answer=answer,
        outcome=outcome_sentence(answer.outcome).rstrip("."),
        phase=load_wording("explain")["phases"].get(answer.phase, answer.phase),
        comparison=_comparison(answer),
        numbers=pairs,
    )


def _show(name: str, value: Printed) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_show(name, one) for one in value)
    return format_value(name, value)


def _comparison(answer: ExplainAnswer) -> str:
    """The figures of the text next to the app's own."""
    labels: Mapping[str, str] = load_wording("explain")["figures"]
    names = [name for name in labels if name in answer.predicted or (name in answer.logged and answer.predicted)]
    if not names:
        return ""
    sides = (answer.logged, answer.predicted)
    rows = [(labels[name], *(_show(name, side[name]) if name in side else "–" for side in sides)) for name in names]
    of = " on ".join(filter(None, (answer.read.model, answer.read.hardware)))
    return render_table(f"Predicted for {of}" if of else "Predicted", ("Figure", "In the text", "Predicted"), rows, "explained")


def _name(name: str) -> str:
    """A number's name as words, without its unit."""
    return next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name).replace("_", " ")
