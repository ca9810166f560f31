"""Wording of numbers."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.present.numbers import (
    count,
    describe_speed,
    deviation,
    format_seconds,
    gib,
    gib_figure,
    share,
    tokens_per_s,
    usd,
    usd_per_hour,
    usd_per_month,
    whole,
)

GIB = 2**30


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (16_060_522_496, "15.0 GiB"),  # 16 060 522 496 / 2^30 = 14.957
        (GIB, "1.00 GiB"),
        (int(9.996 * GIB), "10.0 GiB"),  # rounds up into the next band, never "10.00"
        (int(99.96 * GIB), "100 GiB"),
        (2000 * GIB, "2,000 GiB"),
        (50 * 2**20, "50 MiB"),
        (0, "0.0 MiB"),
        (-2 * GIB, "-2.00 GiB"),
    ],
)
def test_bytes_keep_three_figures(amount: int, text: str) -> None:
    """Bytes are shown in GiB with three figures, and in MiB where GiB would show none."""
    assert gib(amount) == text


@given(st.integers(min_value=0, max_value=2**60))
def test_gib_is_within_its_rounding(amount: int) -> None:
    """The figure differs from the truth by half of its last digit at most."""
    shown = Decimal(gib_figure(amount).replace(",", ""))
    digits = -shown.as_tuple().exponent
    assert abs(shown - Decimal(amount) / GIB) <= Decimal(10) ** -digits / 2 + Decimal("1e-9")


def test_money_is_plain() -> None:
    """Cents below a hundred dollars, whole dollars above, words for free and for no price."""
    assert [usd(0.8), usd("99.99"), usd("576.00"), usd(Decimal(1296)), usd("0.0008")] == ["$0.80", "$99.99", "$576", "$1,296", "$0.0008"]
    assert [usd_per_hour(0), usd_per_hour(None), usd_per_hour(0.03)] == ["free", "no list price", "$0.03"]
    assert [usd_per_month(None), usd_per_month(0), usd_per_month(21.6)] == ["–", "free", "$21.60"]


def test_counts_have_words() -> None:
    """Parameters are counted in thousands, millions and billions."""
    assert [count(8_030_261_248), count(124_439_808), count(70_553_706_496), count(405 * 10**9), count(12)] == [
        "8.03 billion",
        "124 million",
        "70.6 billion",
        "405 billion",
        "12",
    ]
    assert [whole(131_072), whole(None), tokens_per_s(8.25), tokens_per_s(1250)] == ["131,072", "–", "8.2 tokens/s", "1,250 tokens/s"]


@given(st.floats(0, 1e18), st.floats(0, 1e18))
def test_a_share_is_a_percentage(part: float, of: float) -> None:
    """A share stays between 0 and 100, whatever it is a share of."""
    assert 0 <= share(part, of) <= 100


def test_a_deviation_names_its_side() -> None:
    """The rule of thumb is said to be above or below, and by how much."""
    # 18 / 16 = 1.125, 12 / 16 = 0.75, 40 / 16 = 2.5, 16.05 / 16 = 1.003
    assert [deviation(18, 16), deviation(12, 16), deviation(40, 16), deviation("16.05", 16)] == [
        "12 % more",
        "25 % less",
        "2.5 times as much",
        "the same to within half a percent",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5.6e-6, "5.6 µs"),
        (1.64e-4, "0.164 ms"),
        (0.0234, "23.4 ms"),
        (0.7051, "705 ms"),
        (0.9999, "1 s"),
        (1.236, "1.24 s"),
        (1236, "1,240 s"),
    ],
)
def test_a_time_keeps_three_digits(seconds: float, text: str) -> None:
    """In the unit that suits it; a hundredth of a millisecond and more are milliseconds, as heartbeats are published."""
    assert format_seconds(seconds) == text


@given(st.floats(min_value=1e-6, max_value=1e5))
def test_a_time_in_words_is_the_time(seconds: float) -> None:
    """Read back it is within half of the third digit: 0.5 %."""
    number, unit = format_seconds(seconds).split(" ")
    assert float(number.replace(",", "")) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit] == pytest.approx(seconds, rel=0.00501)


@pytest.mark.parametrize(
    ("tpot", "ttft", "words"),
    [
        (None, None, ""),
        (1.0, 1.04, ": about as fast"),
        (0.5, 1.0, ": 50 % shorter between tokens"),
        (3.0, 1.2, ": 3.0 times as long between tokens; 20 % longer to the first token"),
        (None, 0.9, ": 10 % shorter to the first token"),
    ],
)
def test_a_price_in_speed_is_worded(tpot: float | None, ttft: float | None, words: str) -> None:
    """A twentieth is no change."""
    assert describe_speed(30.0, 0.5, tpot, ttft) == f"30 tokens/s, 500 ms to the first token{words}"
