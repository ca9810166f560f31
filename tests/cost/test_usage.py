"""What hardware serves, in replicas and at its best load, against arithmetic by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from cost_examples import CATALOG, L4, RULES, state_price
from hypothesis import given, settings
from hypothesis import strategies as st
from stated_speed import stated_speed

from lib.cost import Usage, bill_offer, find_break_even
from lib.cost.usage import find_best_load, measure_capacity
from lib.speed import SpeedEstimate

SPEED = stated_speed()  # 0.5 + 255 × 0.05 = 13.25 s a request


def speed_at(concurrency: int, *, ttft_s: float = 0.5, rate: float = 20.0, tpot_s: float | None = 0.05) -> SpeedEstimate:
    """A speed at so many requests at a time."""
    speed = stated_speed(ttft_s=ttft_s, tpot_s=tpot_s, throughput_tokens_per_s=rate)
    return replace(speed, request=replace(speed.request, concurrency=concurrency))


def test_what_hardware_serves_in_its_hours() -> None:
    """0.8 × 86400 / 13.25 = 5216.60 a day, one at a time; eight at a time on two replicas 16 times that; without a time: nothing."""
    alone = measure_capacity(L4, Usage(), SPEED)
    assert alone is not None
    assert round(alone.requests_per_day, 2) == Decimal("5216.60")
    more = measure_capacity(L4, Usage(concurrency=8, replicas=2), SPEED)
    assert more is not None
    assert round(more.requests_per_day - 16 * alone.requests_per_day, 9) == 0
    assert measure_capacity(L4, Usage(), None) is None
    assert measure_capacity(L4, Usage(hours_per_day=Decimal(0)), SPEED) is None
    assert measure_capacity(CATALOG.offer("zero-a10g"), Usage(), SPEED) is None


def test_traffic_beyond_the_hardware_is_priced_in_replicas() -> None:
    """100,000 × 13.25 s = 368.06 h: ⌈15.34 / 0.8⌉ = 20 replicas, 20 × 576 = 11,520 USD, / 3,000,000 = 0.00384 USD a request.

    The stated replica keeps its own bill of 576.
    """
    bill = bill_offer(L4, Usage(requests_per_day=Decimal(100_000)), RULES, speed=SPEED)
    assert bill.capacity is not None
    assert (bill.capacity.replicas_needed, bill.serving_usd_per_month, bill.total_usd_per_month) == (20, 11_520, 576)
    assert bill.usd_per_request == Decimal("0.00384")
    (said,) = [caveat for caveat in bill.caveats if caveat.code == "too_little_capacity"]
    assert (said.values["replicas_needed"], said.values["usd_per_month"]) == (20, 11_520)


@settings(deadline=None)
@given(requests=st.integers(1, 10**7), concurrency=st.integers(1, 64), replicas=st.integers(1, 8), hours=st.integers(1, 24))
def test_the_replicas_that_are_named_serve_the_traffic_and_one_less_does_not(
    requests: int, concurrency: int, replicas: int, hours: int
) -> None:
    """And a request never costs less than the hours in which it is served."""
    usage = Usage(
        requests_per_day=Decimal(requests), concurrency=concurrency, replicas=replicas, hours_per_day=Decimal(hours), exposed_port=False
    )
    bill = bill_offer(L4, usage, RULES, speed=SPEED)
    assert bill.capacity is not None
    needed = bill.capacity.replicas_needed
    served = measure_capacity(L4, replace(usage, replicas=needed), SPEED)
    assert served is not None
    assert served.requests_per_day >= requests
    if needed > replicas:
        fewer = measure_capacity(L4, replace(usage, replicas=needed - 1), SPEED)
        assert fewer is not None
        assert fewer.requests_per_day < requests
    least = Decimal("0.80") * Decimal("13.25") / 3600 / concurrency
    assert (bill.usd_per_request or 0) >= least * Decimal("0.999999")


def test_the_best_load_is_the_cheapest_that_keeps_the_targets() -> None:
    """0.80 / (3600 · 80) · 10⁶ = 2.78 USD at eight; thirty-two are cheaper, but their first token takes 2.1 s, and 64 write too slowly."""
    loads = (speed_at(1), speed_at(8, rate=80.0), speed_at(32, rate=200.0, ttft_s=2.1), speed_at(64, rate=300.0, tpot_s=0.21))
    best = find_best_load(Decimal("0.80"), loads)
    assert best is not None
    assert best.concurrency == 8
    assert round(best.usd_per_million_output_tokens, 4) == Decimal("2.7778")
    assert find_best_load(Decimal("0.80"), (speed_at(1, ttft_s=2.1), speed_at(1, tpot_s=None))) is None
    same = find_best_load(Decimal("0.80"), (speed_at(16, rate=80.0), speed_at(8, rate=80.0)))
    assert same is not None
    assert same.concurrency == 8


@pytest.mark.parametrize(
    ("offer", "usage", "left"),
    [
        ("spaces:l4x1", Usage(hours_per_day=Decimal(3)), "576"),
        ("spaces:l4x1", Usage(hours_per_day=Decimal(3), replicas=2), "1152"),
        ("spaces:l4x1", Usage(), None),
        ("spaces:l4x1", Usage(hours_per_day=Decimal(3), sleep_after_s=Decimal(900)), None),
        ("spaces:cpu-basic", Usage(hours_per_day=Decimal(3)), None),
        ("jobs:l4x1", Usage(hours_per_day=Decimal(3)), None),
        ("tpu:v6e-8", Usage(hours_per_day=Decimal(3)), "15552.00"),
    ],
)
def test_paid_hardware_does_not_sleep_by_itself(offer: str, usage: Usage, left: str | None) -> None:
    """Three hours a day are 0.80 × 3 × 30 = 72 USD only if somebody stops it: left running it is 576 (v6e-8: 21.60 × 720)."""
    platform, _, name = offer.partition(":")
    bill = bill_offer(CATALOG.resolve_offer(name, platform), usage, RULES)  # type: ignore[arg-type]
    assert bill.left_running_usd_per_month == (None if left is None else Decimal(left))
    assert ("paused_outside_hours" in {caveat.code for caveat in bill.caveats}) == (left is not None)


def test_at_no_hours_nothing_is_served() -> None:
    """No price of a request is made of a bill of nothing."""
    bill = bill_offer(L4, Usage(hours_per_day=Decimal(0), requests_per_day=Decimal(5)), RULES, speed=SPEED)
    assert (bill.total_usd_per_month, bill.usd_per_request, bill.usd_per_million_output_tokens_at_traffic) == (0, None, None)
    assert "no_hours" in {caveat.code for caveat in bill.caveats}


def test_break_even_states_the_share_of_the_hardware_at_its_best() -> None:
    """(576 + 0.10) / 30 / 0.0001536 = 125,021.7 requests of 13.25 s: at one at a time 19.2 times the day, at 32 in flight 0.599 of it."""
    best = find_best_load(Decimal("0.80"), (speed_at(32, rate=500.0),))
    (point,) = find_break_even(L4, Usage(), RULES, price=state_price("0.10", "0.40"), speed=SPEED, best=best)
    assert point.within_capacity is False
    assert point.best_concurrency == 32
    assert round(point.best_utilisation or 0, 3) == Decimal("0.599")
