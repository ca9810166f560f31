"""Answers of `/solve` as markup: maxima and what limits them, precisions, the cheapest tier, and ways to save memory.

`lib.present.sentences` reads `REASONS` and `CAVEATS` with those of the `…_words` files; values in braces are shown as it says.
"""

from __future__ import annotations

from lib.answers.solve import CheapestTierEntry, MaximumEntry, MemorySavingEntry, PrecisionTryEntry, SolveAnswer
from lib.present.cards import PLATFORM_NAMES, caveat_list
from lib.present.markup import escape
from lib.present.numbers import gib, seconds, tokens_per_s, usd_per_hour, whole
from lib.present.tables import table_markup

SOONER, LATER = 0.95, 1.05
"""Ratios of seconds that are called a change: a twentieth is within what predictions can tell."""


def describe_speed_change(tpot_ratio: float | None, ttft_ratio: float | None) -> str:
    """What a saving costs in speed, in words."""
    if tpot_ratio is None and ttft_ratio is None:
        return "speed is not predicted"
    ratios = (("between tokens", tpot_ratio), ("to the first token", ttft_ratio))
    changed = [words for name, ratio in ratios if ratio is not None and (words := _change(name, ratio))]
    return "; ".join(changed) if changed else "about as fast"


def _change(name: str, ratio: float) -> str:
    if SOONER <= ratio <= LATER:
        return ""
    amount = f"{ratio:.1f} times as long" if ratio >= 2 else f"{abs(ratio - 1):.0%} {'longer' if ratio > 1 else 'shorter'}"  # noqa: PLR2004
    return f"{amount.replace('%', ' %')} {name}"


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
    memory = f"{gib(answer['per_device_bytes'])} of {gib(answer['capacity_bytes'])} on each device"
    return (
        '<section class="card" aria-label="Limits of this hardware">'
        f'<p class="eyebrow">{escape(model)} on {escape(answer["name"])} <code>{escape(answer["hardware"])}</code></p>'
        f'<p class="quiet">{escape(answer["engine"])}, {escape(answer["precision"])} · {whole(answer["concurrency"])} × '
        f"{whole(answer['context_tokens'])} tokens take {memory}{'' if answer['fits'] else ': it does not fit'}"
        f"{' · at full length' if answer['ttft_s'] else ''}{_speed(answer['ttft_s'], answer['tokens_per_s'])}</p>"
        f'<dl class="figures">{cells}</dl></section>'
    )


def _maximum(most: MaximumEntry, unit: str) -> str:
    if most["value"] is None:
        return "no limit"
    return f"{whole(most['value'])} {unit}".strip()


def _speed(ttft_s: float | None, rate: float | None) -> str:
    parts = [seconds(ttft_s) + " to the first token"] if ttft_s else []
    parts += [tokens_per_s(rate)] if rate else []
    return "".join(f" · {one}" for one in parts)


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
        return caveat_list(answer["caveats"])
    heads = ("Change", "Saved per device", "Memory after", "Effect on speed")
    rows = [_row(way) for way in answer["memory_savings"]]
    return table_markup("Ways to save memory, each on its own", heads, rows, "memory-savings") + caveat_list(answer["caveats"])


def _row(way: MemorySavingEntry) -> tuple[str, ...]:
    fits = "fits" if way["fits"] else "does not fit"
    return escape(way["message"]), gib(way["saved_bytes"]), f"{gib(way['per_device_bytes'])}<small>{fits}</small>", escape(way["effect"])
