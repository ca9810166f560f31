"""Meaning of a pasted text, as a card: cause, arithmetic, next steps, and the log's figures next to the app's own."""

from __future__ import annotations

from lib.answers.explain import ExplainAnswer, Printed
from lib.present.explain_words import outcome_sentence
from lib.present.html import render_html
from lib.present.markup import refusal_note
from lib.present.sentences import format_value
from lib.present.tables import render_table

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
    pairs = [(_name(name), _show(name, value)) for name, value in answer.numbers.items()]
    return render_html(
        "explain.html.j2", answer=answer, outcome=outcome_sentence(answer.outcome), comparison=_comparison(answer), numbers=pairs
    )


def _show(name: str, value: Printed) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_show(name, one) for one in value)
    return format_value(name, value)


def _comparison(answer: ExplainAnswer) -> str:
    """The figures of the text next to the app's own."""
    names = [name for name in _FIGURES if name in answer.predicted or (name in answer.logged and answer.predicted)]
    if not names:
        return ""
    sides = (answer.logged, answer.predicted)
    rows = [(_FIGURES[name], *(_show(name, side[name]) if name in side else "–" for side in sides)) for name in names]
    of = " on ".join(filter(None, (answer.read.model, answer.read.hardware)))
    return render_table(f"Predicted for {of}" if of else "Predicted", ("Figure", "In the text", "Predicted"), rows, "explained")


def _name(name: str) -> str:
    """A number's name as words, without its unit."""
    return next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name).replace("_", " ")
