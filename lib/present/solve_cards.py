"""Answers of `/solve` as markup: maxima and what limits them, precisions, the cheapest tier, and ways to save memory."""

from __future__ import annotations

from lib.answers.solve import CheapestTierEntry, MaximumEntry, MemorySavingEntry, PrecisionTryEntry, SolveAnswer
from lib.present.cards import PLATFORM_NAMES, caveat_list
from lib.present.markup import escape
from lib.present.numbers import gib, seconds, tokens_per_s, usd_per_hour, whole
from lib.present.tables import table_markup

_NONE = "–"


def solve_card(answer: SolveAnswer, model: str) -> str:
    """The maxima, each with what limits it, and the cheapest tier."""
    figures = (
        ("Longest context", _maximum(answer["longest_context"], "tokens"), answer["longest_context"]["message"]),
        ("Concurrent requests, at most", _maximum(answer["most_requests"], ""), answer["most_requests"]["message"]),
        ("Largest batch that fits", _maximum(answer["largest_batch"], ""), answer["largest_batch"]["message"]),
        ("Best precision", escape(answer["best_precision"] or "none"), _precision_line(answer)),
        ("Cheapest tier", *_cheapest(answer["cheapest"])),
    )
    cells = "".join(f"<div><dt>{title}</dt><dd>{figure}<small>{escape(why)}</small></dd></div>" for title, figure, why in figures)
    held = f"{gib(answer['per_device_bytes'])} of {gib(answer['capacity_bytes'])} on each device"
    return (
        '<section class="card" aria-label="Limits of this hardware">'
        f'<p class="eyebrow">{escape(model)} on {escape(answer["name"])} <code>{escape(answer["hardware"])}</code></p>'
        f'<p class="quiet">{escape(answer["engine"])}, {escape(answer["precision"])} · {whole(answer["concurrency"])} × '
        f"{whole(answer['context_tokens'])} tokens take {held}{'' if answer['fits'] else ': it does not fit'}"
        f"{_speed(answer['ttft_s'], answer['tokens_per_s'])}</p>"
        f'<dl class="figures">{cells}</dl></section>'
    )


def _maximum(most: MaximumEntry, unit: str) -> str:
    if most["value"] is None:
        return "no limit"
    return f"{whole(most['value'])} {unit}".strip()


def _speed(ttft_s: float | None, rate: float | None) -> str:
    told = [seconds(ttft_s) + " to the first token"] if ttft_s else []
    told += [tokens_per_s(rate)] if rate else []
    return "".join(f" · {one}" for one in told)


def _precision_line(answer: SolveAnswer) -> str:
    return ", ".join(f"{one['precision']}: {_verdict(one)}" for one in answer["precisions"])


def _verdict(tried: PrecisionTryEntry) -> str:
    return "does not fit" if not tried["fits"] else "too slow" if not tried["meets_limits"] else "fits"


def _cheapest(tier: CheapestTierEntry | None) -> tuple[str, str]:
    if tier is None:
        return _NONE, "No tier meets these limits."
    what = f"{tier['name']}, {PLATFORM_NAMES.get(tier['platform'], tier['platform'])}: {tier['engine']}, {tier['precision']}"
    several = f", {tier['replicas']} machines" if tier["replicas"] > 1 else ""
    return f"{usd_per_hour(tier['usd_per_hour'])} an hour", f"{what}{several}{_speed(tier['ttft_s'], tier['tokens_per_s'])}"


def ways_table(answer: SolveAnswer) -> str:
    """Ways to save memory, the largest saving first, and the assumptions behind the figures."""
    if not answer["memory_savings"]:
        return ""
    heads = ("Change", "Saved per device", "Memory after", "Effect on speed")
    rows = [_row(way) for way in answer["memory_savings"]]
    return table_markup("Ways to save memory, each on its own", heads, rows, "memory-savings") + caveat_list(answer["caveats"])


def _row(way: MemorySavingEntry) -> tuple[str, ...]:
    fits = "fits" if way["fits"] else "does not fit"
    return escape(way["message"]), gib(way["saved_bytes"]), f"{gib(way['per_device_bytes'])}<small>{fits}</small>", escape(way["effect"])
