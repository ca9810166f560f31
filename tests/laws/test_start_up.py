"""Cold starts: a gigabyte and 690 are told apart, and the range holds its middle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lib.laws.start_up import MACHINE_S, cold_start


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
