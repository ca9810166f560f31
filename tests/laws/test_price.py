"""The laws of money, each against a figure worked out by hand, and the law of sleep against a simulation."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.laws.price import (
    DAY_S,
    answer_price,
    awake_time,
    beyond_quota,
    calls_per_day,
    crossing_of_lines,
    first_where,
    prompt_price,
    quota_seconds,
    rent,
    requested_quota_seconds,
    share,
    storage,
    tokens_usd,
    visitors_needed,
)
from lib.laws.serving import erlang_c, wait_seconds

PRIVATE = ((50, Decimal(16)), (200, Decimal(14)), (500, Decimal(12)))


def test_rent_of_the_endpoints_page() -> None:
    """0.5 USD/h, one replica for 730 h and two more for 182.5 h each: 0.5 × (730 + 365) = 547.50."""
    assert rent(usd_per_hour=Decimal("0.5"), hours=Decimal(730), extra_replica_hours=Decimal("182.5") * 2) == Decimal("547.50")


def test_storage_by_threshold() -> None:
    """300 TB beyond the plan: 50 × 18 + 150 × 16 + 100 × 14 = 900 + 2400 + 1400 = 4700."""
    rates = {"usd_per_tb_month": Decimal(18), "volume_rates": PRIVATE}
    assert storage(gigabytes=Decimal(301_000), included_gigabytes=Decimal(1000), **rates) == 4700
    # 50 × 18 + 150 × 16 + 300 × 14 + 100 × 12 = 900 + 2400 + 4200 + 1200
    assert storage(gigabytes=Decimal(600_000), included_gigabytes=Decimal(0), **rates) == 8700
    assert storage(gigabytes=Decimal(100), included_gigabytes=Decimal(100), **rates) == 0


@settings(deadline=None)
@given(small=st.integers(0, 2_000_000), more=st.integers(0, 2_000_000))
def test_more_storage_never_costs_less(small: int, more: int) -> None:
    """The marginal reading of the volume rates has no step down."""
    rates = {"included_gigabytes": Decimal(100), "usd_per_tb_month": Decimal(18), "volume_rates": PRIVATE}
    assert storage(gigabytes=Decimal(small), **rates) <= storage(gigabytes=Decimal(small + more), **rates)


def test_quota_of_both_sizes() -> None:
    """20 s on `large` take 20 × 1.5 × 1 = 30, on `xlarge` 20 × 1 × 2 = 40; an hour beyond the quota costs 6 USD."""
    assert quota_seconds(seconds=Decimal(20), duration_factor=Decimal("1.5"), multiplier=1) == 30
    assert quota_seconds(seconds=Decimal(20), duration_factor=Decimal(1), multiplier=2) == 40
    assert beyond_quota(quota_s=Decimal(3600), usd_per_gpu_hour=Decimal(6)) == 6
    assert beyond_quota(quota_s=Decimal(-5), usd_per_gpu_hour=Decimal(6)) == 0


def test_calls_and_visitors_of_a_day() -> None:
    """A free visitor's 300 s carry three default calls of 90 s, two of 120 s, and exactly 2,000 of 0.15 s: no float loses one."""
    assert [calls_per_day(daily_quota_s=300, call_quota_s=Decimal(q)) for q in ("90", "120", "0.15", "301")] == [3, 2, 2000, 0]
    assert [calls_per_day(daily_quota_s=300, call_quota_s=Decimal(q), runs=8) for q in ("90", "0.15")] == [3, 8]
    reserved = [(300, "90", 126), (300, "150", 210), (2400, "120", 168), (300, "90", 300), (300, "90", 301)]
    counted = [calls_per_day(daily_quota_s=quota, call_quota_s=Decimal(q), reserved_s=r) for quota, q, r in reserved]
    assert counted == [2, 1, 19, 1, 0]  # after k calls 300 - 90 k are left, which have to be 126
    assert visitors_needed(calls=Decimal("2000.5"), calls_per_visitor=2000) == 2
    assert visitors_needed(calls=100, calls_per_visitor=0) == 0


@given(st.integers(1, 3600), st.sampled_from((Decimal("1.5"), Decimal(1))), st.sampled_from((1, 2)))
def test_a_request_is_rounded_by_less_than_a_second(declared: int, factor: Decimal, multiplier: int) -> None:
    """The package rounds the product to whole seconds before the size's multiplier: by half a second at most, down as well as up."""
    asked = requested_quota_seconds(declared_s=declared, duration_factor=factor, multiplier=multiplier)
    spent = quota_seconds(seconds=Decimal(declared), duration_factor=factor, multiplier=multiplier)
    assert abs(asked - spent) <= Decimal("0.5") * multiplier
    assert (asked == spent) == (declared * factor % 1 == 0)


def test_token_prices() -> None:
    """2.50 USD/h at 1000 tokens/s: 2.5 / 3.6 = 0.694 USD per million; 0.1 s for 500 tokens: 2.5 / 3600 × 0.1 × 2000 = 0.139."""
    assert round(answer_price(usd_per_hour=Decimal("2.50"), tokens_per_s=Decimal(1000)), 6) == Decimal("0.694444")
    assert round(prompt_price(usd_per_hour=Decimal("2.50"), prefill_s=Decimal("0.1"), prompt_tokens=500), 6) == Decimal("0.138889")
    assert tokens_usd(tokens=Decimal(2_000_000), usd_per_million=Decimal("0.3")) == Decimal("0.6")
    assert tokens_usd(tokens=Decimal(1_000_000), usd_per_million=Decimal(1), markup_percent=Decimal(5)) == Decimal("1.05")
    assert share(Decimal(10), Decimal(0)) is None


def test_a_day_of_rare_visits() -> None:
    """One visit a day, awake 300 s + 60 s of start-up.

    Asleep for 1 / (60/86400 + exp(300/86400)) = 1 / (0.00069444 + 1.00347826) = 0.99584465 of the day; awake 0.00415535 × 86400 = 359.02 s.
    """
    found = awake_time(requests_per_day=Decimal(1), window_s=DAY_S, request_s=Decimal(0), sleep_after_s=Decimal(300), startup_s=Decimal(60))
    assert float(found.seconds_per_day) == pytest.approx(359.02, abs=0.01)
    assert float(found.wakes_per_day) == pytest.approx(0.99584465, abs=1e-7)


def test_the_tail_after_the_window_counts() -> None:
    """A visit every 9 s for 8 h keeps it awake the whole window and 300 s + 10 s more: 28800 + 310 - the gaps at both ends (2 × 9 s)."""
    found = awake_time(
        requests_per_day=Decimal(3200), window_s=Decimal(28_800), request_s=Decimal(10), sleep_after_s=Decimal(300), startup_s=Decimal(0)
    )
    assert float(found.seconds_per_day) == pytest.approx(28_800 + 310 - 18, abs=0.1)


@pytest.mark.parametrize(
    ("requests", "window", "request_s", "sleep", "startup"),
    [
        (100, 28_800, 10, 300, 120),
        (20, 86_400, 5, 900, 60),
        (5, 28_800, 10, 3600, 120),
        (1000, 28_800, 3, 60, 120),
        (3, 36_000, 0, 70_000, 0),
    ],
)
def test_sleep_against_a_simulation(requests: int, window: int, request_s: int, sleep: int, startup: int) -> None:
    """Three thousand simulated days of random arrivals agree within 2 %."""
    expected = awake_time(
        requests_per_day=Decimal(requests),
        window_s=Decimal(window),
        request_s=Decimal(request_s),
        sleep_after_s=Decimal(sleep),
        startup_s=Decimal(startup),
    )
    seconds, wakes = _simulate_days(requests / window, window, request_s + sleep, startup, days=3000)
    assert float(expected.seconds_per_day) == pytest.approx(seconds, rel=0.02)
    assert float(expected.wakes_per_day) == pytest.approx(wakes, rel=0.03)


def _simulate_days(rate: float, window: float, kept: float, startup: float, days: int) -> tuple[float, float]:
    """Mean seconds awake and wakes per day, request after request."""
    dice = random.Random(7)  # noqa: S311  a simulation, not a secret
    total, wakes, end, ready, moment = 0.0, 0, -1.0, 0.0, 0.0
    while (moment := moment + dice.expovariate(rate)) < days * window:
        now = moment // window * 86_400 + moment % window
        if now > end:
            wakes, ready = wakes + 1, now + startup
            total, end = total + startup + kept, ready + kept
        elif max(now, ready) + kept > end:
            total, end = total + max(now, ready) + kept - end, max(now, ready) + kept
    return total / days, wakes / days


@settings(deadline=None)
@given(
    requests=st.integers(0, 10**9),
    window=st.integers(1, 86_400),
    sleep=st.integers(1, 400_000),
    longer=st.integers(0, 400_000),
    startup=st.integers(0, 3600),
)
def test_sleep_is_bounded_and_monotone(requests: int, window: int, sleep: int, longer: int, startup: int) -> None:
    """Never more than a day, never less for a longer sleep time, never negative."""
    fixed = {"window_s": Decimal(window), "request_s": Decimal(1), "startup_s": Decimal(startup), "billing_step_s": Decimal(60)}
    short = awake_time(requests_per_day=Decimal(requests), sleep_after_s=Decimal(sleep), **fixed).seconds_per_day
    long = awake_time(requests_per_day=Decimal(requests), sleep_after_s=Decimal(sleep + longer), **fixed).seconds_per_day
    assert 0 <= short <= long <= DAY_S


def test_waiting() -> None:
    """M/M/1 at half load: half of the requests wait; 99 % wait less than 2 / 0.5 × ln(0.5/0.01) = 15.65 s. At full load it never ends."""
    assert erlang_c(slots=1, load=0.5) == 0.5
    assert wait_seconds(slots=1, load=0.5, request_s=2.0, percentile=0.99) == pytest.approx(15.648, abs=1e-3)
    assert wait_seconds(slots=8, load=0.5, request_s=2.0, percentile=0.5) == 0.0
    assert wait_seconds(slots=2, load=2.0, request_s=1.0, percentile=0.5) is None


def test_crossing_lines() -> None:
    """10 + 2·n = 100 at n = 45; parallel lines and meetings in the past are none."""
    assert crossing_of_lines((Decimal(10), Decimal(2)), (Decimal(100), Decimal(0))) == 45
    assert crossing_of_lines((Decimal(1), Decimal(2)), (Decimal(5), Decimal(2))) is None
    assert crossing_of_lines((Decimal(100), Decimal(2)), (Decimal(10), Decimal(0))) is None


@settings(deadline=None)
@given(threshold=st.integers(1, 10**9))
def test_halving_finds_the_first(threshold: int) -> None:
    """The least n of a condition that stays true, to the unit."""
    assert first_where(lambda n: n >= threshold, 10**9) == threshold
