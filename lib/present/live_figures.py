"""A measured figure beside its prediction, as chat and Measure show it: what it is, both in one unit, and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lib.present.numbers import gib, tokens_per_s

Found = Mapping[str, Any]

KINDS: tuple[tuple[str, str], ...] = (
    ("ttft_s", "Time to first token"),
    ("decode_tokens_per_s", "Tokens per second"),
    ("peak_bytes", "Peak memory"),
)
_MORE_LESS = {"ttft_s": ("slow", "fast"), "decode_tokens_per_s": ("fast", "slow"), "peak_bytes": ("high", "low")}
_SAME = 0.005
_TWICE = 2.0
_NEAR = 0.995  # below this a rate of 10 tokens/s and more is not rounded up to a digit more


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One figure; texts are "" where nothing was predicted. `ratio` is predicted / measured."""

    name: str
    measured: str
    predicted: str
    between: str
    off: str
    ratio: float | None


def fine(seconds: float) -> str:
    """A time with three significant digits, in the unit that suits it: "0.164 ms", "23.4 ms", "1.24 s"."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size * _NEAR or (unit == "ms" and seconds >= 1e-5):  # noqa: PLR2004  a hundredth of a millisecond still reads well
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds * 1e6)} µs"


def _three(value: float) -> str:
    rounded = Decimal(f"{value:.3g}")
    return f"{rounded:,f}" if rounded >= 100 else f"{rounded:f}"  # noqa: PLR2004  thousands are separated


def worded(kind: str, value: float) -> str:
    """A figure of this kind with its unit."""
    if kind == "peak_bytes":
        return gib(int(value))
    return tokens_per_s(value) if kind == "decode_tokens_per_s" else fine(value)


def apart(kind: str, ratio: float | None) -> str:
    """How far a prediction was off, from (predicted / measured − 1): memory "4 % too high", a time or a rate "3.1 times too fast".

    A time that was predicted too short and a rate that was predicted too high are the same mistake, and are called the same.
    """
    if ratio is None:
        return ""
    if abs(ratio) < _SAME:
        return "right to half a percent"
    more, less = _MORE_LESS[kind]
    word = f"too {more if ratio > 0 else less}"
    factor = ratio + 1
    if factor >= _TWICE:
        return f"{factor:.1f} times {word}"
    if factor <= 1 / _TWICE:
        return f"{1 / factor:.1f} times {word}" if factor > 0 else word
    return f"{abs(ratio) * 100:.0f} % {word}"


def beside(run: Found) -> Iterator[Beside]:
    """The figures of a run that were measured; `run` holds them, and under `predicted` and `error_ratio` the same names."""
    expected, errors = run["predicted"], run["error_ratio"]
    for kind, name in KINDS:
        measured, guess = run.get(kind), expected.get(kind)
        if measured is None:
            continue
        off = errors.get(kind)
        yield Beside(
            name=name,
            measured=worded(kind, measured),
            predicted="" if guess is None else worded(kind, guess),
            between=_between(kind, expected),
            off=apart(kind, off),
            ratio=None if off is None else off + 1,
        )


def _between(kind: str, expected: Found) -> str:
    """The range that the prediction gave, where it gave one."""
    low, high = ((expected.get(end) or {}).get(kind) for end in ("low", "high"))
    if low is None or high is None:
        return ""
    first, last = worded(kind, min(low, high)), worded(kind, max(low, high))
    if first == last:
        return ""
    number, _, unit = first.rpartition(" ")
    return f"{number} to {last}" if last.endswith(f" {unit}") else f"{first} to {last}"
