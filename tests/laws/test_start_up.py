"""Cold starts: a gigabyte and 690 are told apart, and the range holds its middle."""

from __future__ import annotations

import re
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.laws import start_up
from lib.laws.start_up import FETCH_BYTES_PER_S, MACHINE_S, QUICK_FETCH_BYTES_PER_S, SLOW_FETCH_BYTES_PER_S, cold_start


def test_bytes_decide_how_long_a_start_takes() -> None:
    """1 GB is 6 s on top of the machine; 690 GB are 65 minutes, more than the half hour of a Space."""
    assert cold_start(0).seconds == MACHINE_S
    assert cold_start(10**9).seconds == MACHINE_S + 6
    assert cold_start(690 * 10**9).seconds - MACHINE_S == 3910


@given(file_bytes=st.integers(0, 10**13))
def test_the_range_holds_the_expectation(file_bytes: int) -> None:
    """A quicker network is never slower."""
    start = cold_start(file_bytes)
    assert MACHINE_S <= start.low_s <= start.seconds <= start.high_s


def test_the_range_is_that_of_the_logs() -> None:
    """Each rate of the table is its bytes over its seconds; the range holds nine of twelve; the expectation is between both medians."""
    rows = re.findall(r"^    \S+ +([\d.]+) +([\d.]+) +(\d+) +(?:\d+|–) ", start_up.__doc__ or "", re.MULTILINE)
    assert len(rows) == 12
    rates = sorted(float(gigabytes) / float(seconds) * 1e9 for gigabytes, seconds, _ in rows)
    assert [round(rate / 1e6) for rate in rates] == [(pytest.approx(int(stated), abs=1, rel=0.01)) for _, _, stated in rows]
    assert sum(SLOW_FETCH_BYTES_PER_S <= rate <= 1.01 * QUICK_FETCH_BYTES_PER_S for rate in rates) == 9
    assert median(rates) < FETCH_BYTES_PER_S < median(rates[3:])
