"""One number, one wording: bytes, money, tokens and counts as people read them. All rounding happens here.

Numbers arrive as the API's results hold them (JSON numbers, decimals as text), so each function takes any value that `Decimal(str(x))`
takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from typing import Literal

from lib.units import GIB, MIB

Number = int | float | str | Decimal

SizeUnit = Literal["GiB", "GB"]
_UNIT: ContextVar[SizeUnit] = ContextVar("unit of sizes", default="GiB")
_SCALES: dict[SizeUnit, int] = {"GiB": GIB, "GB": 10**9}
_SMALL: dict[SizeUnit, tuple[str, int]] = {"GiB": ("MiB", MIB), "GB": ("MB", 10**6)}


@contextmanager
def sizes_in(unit: SizeUnit) -> Iterator[None]:
    """Within the block sizes are written in this unit: 2^30 or 10^9 bytes."""
    before = _UNIT.set(unit)
    try:
        yield
    finally:
        _UNIT.reset(before)


def size_unit() -> tuple[SizeUnit, int]:
    """The unit in which sizes are written now, and its bytes."""
    return _UNIT.get(), _SCALES[_UNIT.get()]


def gib(amount: Number) -> str:
    """Bytes as "14.96 GiB": three or four significant figures, whole GiB from 100 on, MiB below 0.1 GiB; in GB within `sizes_in`."""
    value, (unit, scale) = Decimal(str(amount)), size_unit()
    size = abs(value)
    if size < scale / Decimal(10):
        word, small = _SMALL[unit]
        return f"{value / small:.1f} {word}" if size < 10 * small else f"{value / small:.0f} {word}"
    return f"{gib_figure(amount)} {unit}"


def gib_figure(amount: Number) -> str:
    """The figure of `gib` without its unit, for a column that names the unit itself; never in the smaller unit."""
    value = Decimal(str(amount)) / size_unit()[1]
    size = abs(value)
    if size < Decimal("9.995"):
        return f"{value:.2f}"
    return f"{value:.1f}" if size < Decimal("99.95") else f"{value:,.0f}"


def share(part: Number, whole: Number) -> float:
    """A part of a whole in percent, within 0 and 100; 0 when there is no whole."""
    total = float(whole)
    return 0.0 if total <= 0 else min(100.0, max(0.0, 100.0 * float(part) / total))


def usd(amount: Number) -> str:
    """Dollars: cents below 100, whole dollars from there on, more digits below a cent."""
    value = Decimal(str(amount))
    if value == 0:
        return "$0"
    if abs(value) < Decimal("0.01"):
        return f"${value:.4f}"
    return f"${value:,.2f}" if abs(value) < Decimal("99.995") else f"${value:,.0f}"


def usd_per_hour(amount: Number | None) -> str:
    """A price per hour: "$0.80", "free", or "no list price"."""
    if amount is None:
        return "no list price"
    return "free" if Decimal(str(amount)) == 0 else usd(amount)


def usd_an_hour(amount: Number | None) -> str:
    """The same in a sentence: "$0.80 an hour", "free", or "no list price"."""
    price = usd_per_hour(amount)
    return f"{price} an hour" if price.startswith("$") else price


def usd_per_month(amount: Number | None) -> str:
    """A bill per month: "$576", "free", or "–" if none can be given."""
    if amount is None:
        return "–"
    return "free" if Decimal(str(amount)) == 0 else usd(amount)


def count(amount: int) -> str:
    """A count of parameters: "8.03 billion", "124 million", "950 thousand"."""
    for size, word in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if amount >= size:
            value = Decimal(amount) / size
            return f"{value:,.2f} {word}" if value < 10 else f"{value:,.1f} {word}" if value < 100 else f"{value:,.0f} {word}"  # noqa: PLR2004  figures shown
    return str(amount)


def whole(amount: int | None, none: str = "–") -> str:
    """A whole number with thousands separated, or the word for none."""
    return none if amount is None else f"{amount:,}"


def count_words(amount: int, word: str) -> str:
    """How many: "1 reason", "3 reasons"."""
    return f"{amount:,} {word}{'' if amount == 1 else 's'}"


def rate(amount: Number) -> str:
    """A rate: one decimal below 10, whole above."""
    value = Decimal(str(amount))
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004  one decimal below ten


def tokens_per_s(amount: Number) -> str:
    """A rate of tokens with its unit."""
    return f"{rate(amount)} tokens/s"


def seconds(amount: Number) -> str:
    """A time: "12 ms" below a second, one decimal below ten seconds."""
    value = float(amount)
    if value < 1:
        return f"{value * 1000:.0f} ms" if value >= 0.001 else "less than 1 ms"  # noqa: PLR2004  a thousandth
    return f"{value:.1f} s" if value < 10 and value != int(value) else f"{value:,.0f} s"  # noqa: PLR2004  one decimal below ten


_SPANS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def span(amount: int, *, days: bool = False) -> str:
    """A time in the largest unit that it is a whole number of; days only where they are wanted.

    >>> span(172_800), span(172_800, days=True), span(100)
    ('48 hours', '2 days', '100 seconds')
    """
    for size, word in _SPANS if days else _SPANS[1:]:
        if amount >= size and amount % size == 0:
            return f"{amount // size} {word}{'' if amount == size else 's'}"
    return f"{amount:,} seconds"


def duration(hours: float) -> str:
    """A long time in the unit that suits it: "14 min", "1.1 h", "3.2 days".

    >>> duration(0.231), duration(1.14), duration(30), duration(80)
    ('14 min', '1.1 h', '30 h', '3.3 days')
    """
    if hours < 1:
        return f"{hours * 60:.0f} min" if hours * 60 >= 1 else "less than 1 min"
    value, unit = (hours, "h") if hours < 48 else (hours / 24, "days")  # noqa: PLR2004  two days read better than 48 hours
    return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"  # noqa: PLR2004  two figures


def format_seconds(seconds: float) -> str:
    """A time with three significant digits, in the unit that suits it: "0.164 ms", "23.4 ms", "1.24 s"."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size * 0.995 or (unit == "ms" and seconds >= 1e-5):  # noqa: PLR2004  a hundredth of a millisecond still reads well
            return f"{_three(seconds / size)} {unit}"
    return f"{_three(seconds * 1e6)} µs"


def _three(value: float) -> str:
    rounded = Decimal(f"{value:.3g}")
    return f"{rounded:,f}" if rounded >= 100 else f"{rounded:f}"  # noqa: PLR2004  thousands are separated


def format_flops(rate: float) -> str:
    """Operations per second as TFLOP/s, GFLOP/s below a tenth of one."""
    return f"{rate / 1e12:,.2f} TFLOP/s" if rate >= 1e11 else f"{rate / 1e9:,.3g} GFLOP/s"  # noqa: PLR2004  a tenth of a TFLOP/s


def deviation(value: Number, true: Number) -> str:
    """Distance of a figure from another one: "12 % less", "3.4 times as much", "the same"."""
    ratio = Decimal(str(value)) / Decimal(str(true))
    side = "more" if ratio > 1 else "less"
    off = abs(ratio - 1) * 100
    if off < Decimal("0.5"):
        return "the same to within half a percent"
    if ratio >= 2:  # noqa: PLR2004  from twice on a factor reads better than a percentage
        return f"{ratio:.1f} times as much"
    return f"{off:.0f} % {side}"


SOONER, LATER = 0.95, 1.05
"""Ratios of seconds that count as a change: a twentieth is within the error of predictions."""


def describe_speed(decode_rate: float | None, ttft_s: float | None, tpot_ratio: float | None, ttft_ratio: float | None) -> str:
    """The speed after a change in words, and how much it changes where that is known."""
    parts = [] if decode_rate is None else [tokens_per_s(decode_rate)]
    parts += [] if ttft_s is None else [f"{seconds(ttft_s)} to the first token"]
    if not parts:
        return "speed is not predicted"
    if tpot_ratio is None and ttft_ratio is None:
        return ", ".join(parts)
    ratios = (("between tokens", tpot_ratio), ("to the first token", ttft_ratio))
    changed = [words for name, ratio in ratios if ratio is not None and (words := _change(name, ratio))]
    return f"{', '.join(parts)}: {'; '.join(changed) if changed else 'about as fast'}"


def _change(name: str, ratio: float) -> str:
    if SOONER <= ratio <= LATER:
        return ""
    amount = f"{ratio:.1f} times as long" if ratio >= 2 else f"{abs(ratio - 1):.0%} {'longer' if ratio > 1 else 'shorter'}"  # noqa: PLR2004
    return f"{amount.replace('%', ' %')} {name}"
