"""What a pasted text says, as a card: cause, arithmetic, next steps, and the log's figures next to the app's own."""

from __future__ import annotations

from collections.abc import Mapping

from lib.answers.explain import ExplainAnswer, ExplainStep, Printed
from lib.present.cards import note_list
from lib.present.explain_words import outcome_sentence
from lib.present.markup import bullet_list, definition_list, escape, fold, refusal_note
from lib.present.numbers import usd_per_hour
from lib.present.sentences import format_value
from lib.present.tables import table_markup

_FIGURES = {
    "weights_bytes": "Weights per device",
    "needed_bytes": "KV cache of one request",
    "available_bytes": "Memory left for the KV cache",
    "kv_cache_tokens": "Tokens in the KV cache",
    "capacity_bytes": "Memory of the device",
    "engine_bytes": "Memory that the engine uses",
    "per_device_bytes": "Everything for one request, per device",
    "context_tokens": "Length of the request",
    "longest_context_tokens": "Longest request that fits",
    "tokens_per_s": "Tokens per second, all requests",
    "daily_quota_s": "ZeroGPU quota a day, seconds",
    "fits": "One request fits",
}
"""Figures by their names in the answer, in the order in which they are shown."""
_UNITS = ("_bytes", "_s", "_pct", "_min")


def explain_card(answer: ExplainAnswer) -> str:
    """The answer as markup; every value of the text is escaped."""
    if not answer.recognised:
        return refusal_note(answer.next_steps[0].message, "No known message is in this text.")
    eyebrow = " · ".join(filter(None, (answer.program, answer.phase, outcome_sentence(answer.outcome))))
    certain = "The text proves this." if answer.certain else "This is likely; the text alone does not prove it."
    also = bullet_list([escape(other.cause) for other in answer.also], "reasons")
    return (
        '<section class="card explained" aria-labelledby="explained-cause">'
        f'<p class="eyebrow">{escape(eyebrow)}</p><h2 id="explained-cause">{escape(answer.cause)}</h2><p class="quiet">{certain}</p>'
        f"{bullet_list([escape(line) for line in answer.arithmetic], 'reasons')}"
        f"{_steps(answer.next_steps)}{_comparison(answer)}"
        f"{f'<h3>Also in this text</h3>{also}' if also else ''}{_numbers(answer.numbers)}{note_list(answer.caveats)}</section>"
    )


def _steps(steps: tuple[ExplainStep, ...]) -> str:
    items = []
    for step in steps:
        change = f" <code>{escape(step.change)}</code>" if step.change else ""
        tier = f" <strong>{escape(step.hardware)}</strong>, {usd_per_hour(step.usd_per_hour)} per hour" if step.hardware else ""
        items.append(f"<li>{escape(step.message)}{change}{tier}</li>")
    return f'<h3>What to do, the best first</h3><ol class="steps">{"".join(items)}</ol>' if items else ""


def _show(name: str, value: Printed) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(escape(_show(name, one)) for one in value)
    return escape(format_value(name, value))


def _comparison(answer: ExplainAnswer) -> str:
    """The figures of the text next to the app's own."""
    names = [name for name in _FIGURES if name in answer.predicted or (name in answer.logged and answer.predicted)]
    if not names:
        return ""
    sides = (answer.logged, answer.predicted)
    rows = [(_FIGURES[name], *(_show(name, side[name]) if name in side else "–" for side in sides)) for name in names]
    of = " on ".join(filter(None, (answer.read.model, answer.read.hardware)))
    return table_markup(f"Predicted for {of}" if of else "Predicted", ("Figure", "In the text", "Predicted"), rows, "explained")


def _numbers(numbers: Mapping[str, Printed]) -> str:
    pairs = []
    for name, value in numbers.items():
        words = next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name).replace("_", " ")
        pairs.append((escape(words), _show(name, value)))
    return fold("Every number that was read", definition_list(pairs, "facts")) if pairs else ""
