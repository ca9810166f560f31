"""Before and after in words: the verdict, both sides in a table, and the arithmetic."""

from __future__ import annotations

from typing import Literal

from lib.answers.common import CaveatEntry
from lib.answers.cost import ComparisonAnswer, SideEntry
from lib.cost.compare import CENT
from lib.present.cards import caveat_list
from lib.present.markup import escape
from lib.present.numbers import seconds, tokens_per_s, usd, usd_per_hour, usd_per_month
from lib.present.tables import table_markup

VERDICTS = {
    "optimise": "Optimise",
    "scale_out": "Scale out",
    "fill_first": "Not worth it at this traffic",
    "keep": "Keep it as it is",
}


def comparison_card(answer: ComparisonAnswer) -> str:
    """The verdict, why, and what it comes to."""
    figures = [("After against before, per month", _difference(answer["saved_usd_per_month"])), ("Payback", _payback(answer))]
    figures.append(("Tokens per second, after / before", f"{answer['speed_ratio']:.3g} ×"))
    if answer["latency_ratio"] is not None:
        figures.append(("p99 latency, after / before", f"{answer['latency_ratio']:.3g} ×"))
    cells = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in figures)
    return (
        '<section class="card" aria-label="Verdict"><p class="eyebrow">Before and after, at '
        f"{answer['tokens_per_s']:.3g} output tokens per second over {answer['hours_per_month']:,.0f} hours a month</p>"
        f'<p class="headline"><span class="figure">{VERDICTS[answer["verdict"]]}</span></p>'
        f'<p class="quiet">{escape(answer["reasons"][0]["message"])}</p><dl class="figures">{cells}</dl></section>'
    )


def _difference(saved: float) -> str:
    if abs(saved) < CENT:
        return "the same"
    return f"{usd(abs(saved))} {'less' if saved > 0 else 'more'}"


def _payback(answer: ComparisonAnswer) -> str:
    if answer["effort_usd"] == 0:
        return "no effort stated"
    months = answer["payback_months"]
    return "never" if months is None else f"{months:.1f} months" if months >= 0.1 else "within days"  # noqa: PLR2004  three days


def comparison_table(answer: ComparisonAnswer) -> str:
    """Both sides, figure by figure."""
    sides = (answer["before"], answer["after"])
    models = [("Model", *(escape(one["model"] or "as measured") for one in sides))] if sides[0]["model"] != sides[1]["model"] else []
    rows = [*models, *((name, *(cell(one) for one in sides)) for name, cell in _ROWS)]
    return table_markup("Both at the stated traffic", ("Figure", "Before", "After"), rows, "compared")


def _runs(one: SideEntry) -> str:
    return f"{escape(one['name'])}<small>{escape(one['runs_as'])}</small>"


def _rate(one: SideEntry) -> str:
    known = "measured" if one["measured"] else f"estimated, {one['low']:,.3g} to {one['high']:,.3g}"
    return f"{tokens_per_s(one['tokens_per_s'])}<small>{known}</small>"


def _hours(one: SideEntry) -> str:
    if one["devices"] == 0:
        return "none<small>a CPU</small>"
    return f"{one['gpu_hours_per_million_tokens']:.3g} {one['device']}-hours<small>{one['devices']} × {one['device']}, at full load</small>"


def _latency(key: Literal["latency_p50_s", "latency_p99_s"], one: SideEntry) -> str:
    latency = one[key]
    if latency is not None:
        return f"{seconds(latency)}<small>{'measured' if one['measured_latency'] else 'estimated, with the wait'}</small>"
    return "not measured" if one["measured"] or one["measured_latency"] else "no end<small>the queue grows</small>"


def _used(one: SideEntry) -> str:
    price = usd_per_hour(one["usd_per_hour"])
    return f"{100 * one['utilisation']:.1f} % × {one['replicas']:,} × {price}<small>{usd(one['used_usd_per_hour'])} an hour in use</small>"


def _million(one: SideEntry) -> str:
    if one["usd_per_million_tokens"] is None:
        return "–"
    return f"{usd(one['usd_per_million_tokens'])}<small>{usd(one['usd_per_million_tokens_full'])} at full load</small>"


def _month(one: SideEntry) -> str:
    word = "replica" if one["replicas"] == 1 else "replicas"
    return f"<strong>{usd_per_month(one['usd_per_month'])}</strong><small>{one['replicas']:,} {word}</small>"


_ROWS = (
    ("Runs as", _runs),
    ("Output tokens per second of a replica", _rate),
    ("GPU-hours per million tokens", _hours),
    ("p50 latency of a request", lambda one: _latency("latency_p50_s", one)),
    ("p99 latency of a request", lambda one: _latency("latency_p99_s", one)),
    ("Utilisation × rate", _used),
    ("USD per million tokens", _million),
    ("USD per month", _month),
)
_PLANNED = (
    "Replicas are as many as keep each at most 80 % full, and each is rented for all the hours; sleep, storage and the tab's own "
    "replicas are not counted. Estimated latencies are those with as many requests in flight as stated; at lower load they are shorter."
)


def comparison_laws(answer: ComparisonAnswer) -> str:
    """The arithmetic line by line, and what it leaves open."""
    lines = "\n".join(escape(line) for line in answer["arithmetic"])
    assumed: list[CaveatEntry] = [{"code": "planned", "message": _PLANNED}, *answer["caveats"]]
    return f'<div class="explain"><section class="law"><h3>Arithmetic</h3><pre>{lines}</pre></section>{caveat_list(assumed)}</div>'
