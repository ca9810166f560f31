"""Where bills cross, checked by computing both bills on either side; and bills side by side along traffic and hours."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from cost_examples import CATALOG, L4, RULES, state_price
from hypothesis import given, settings
from hypothesis import strategies as st
from stated_speed import stated_speed

from lib.cost import BreakEvenPoint, TokenPrice, Usage, bill_offer, bill_tokens, find_break_even
from lib.cost.break_even import Option, Outlook, price_option
from lib.provenance import Source


def crossing(found: tuple[BreakEvenPoint, ...], below: str, above: str) -> BreakEvenPoint:
    """The one of these two ways."""
    return next(one for one in found if (one.below, one.above) == (below, above))


def test_per_token_against_always_on() -> None:
    """A request of 512 + 256 tokens at 0.10 and 0.40 costs 0.0001536; (576 + 2) / (30 × 0.0001536) = 125434.03 requests a day."""
    found = crossing(find_break_even(L4, Usage(account="pro"), RULES, price=state_price("0.10", "0.40")), "per_token", "always_on")
    assert round(found.requests_per_day or 0, 2) == Decimal("125434.03")
    assert found.usd_per_month == 576
    assert found.within_capacity is None
    # at 13.25 s each, one at a time, 86400 / 13.25 = 6520 a day are all that it serves
    timed = find_break_even(L4, Usage(account="pro"), RULES, price=state_price("0.10", "0.40"), speed=stated_speed())
    assert crossing(timed, "per_token", "always_on").within_capacity is False


@settings(max_examples=25, deadline=None)
@given(answer=st.integers(10, 5000), sleep=st.integers(60, 7200), hours=st.integers(1, 24))
def test_per_token_against_sleeping(answer: int, sleep: int, hours: int) -> None:
    """One request a day less and paying per token is not dearer; at the crossing it is."""
    price, usage = state_price("1", str(answer)), Usage(sleep_after_s=Decimal(sleep), hours_per_day=Decimal(hours), request_s=Decimal(5))
    found = crossing(find_break_even(L4, usage, RULES, price=price), "per_token", "sleeping")
    assert found.requests_per_day is not None
    at = replace(usage, requests_per_day=found.requests_per_day)
    before = replace(usage, requests_per_day=found.requests_per_day - 1)
    assert bill_tokens(price, at, RULES.providers).total_usd_per_month > bill_offer(L4, at, RULES).compute_usd_per_month
    if before.requests_per_day > 0:  # 0 would mean "not stated"
        assert bill_tokens(price, before, RULES.providers).total_usd_per_month <= bill_offer(L4, before, RULES).compute_usd_per_month


def test_sleep_saves_until_traffic_fills_the_day() -> None:
    """At the crossing the sleeping bill reaches 99 % of 576 USD, one request earlier it does not."""
    usage = Usage(sleep_after_s=Decimal(300), request_s=Decimal(10))
    found = crossing(find_break_even(L4, usage, RULES), "sleeping", "always_on")
    requests = found.requests_per_day
    assert requests is not None
    assert bill_offer(L4, replace(usage, requests_per_day=requests), RULES).total_usd_per_month >= Decimal("570.24")
    assert bill_offer(L4, replace(usage, requests_per_day=requests - 1), RULES).total_usd_per_month < Decimal("570.24")


def test_zerogpu_quota_of_one_visitor() -> None:
    """Free: 300 s / 30 s = 10 calls, 8 runs as users report. PRO: 80 free, then 0.05 each; 576 / (30 × 0.05) = 384 more: 464 a day."""
    zero = CATALOG.offer("zero-a10g")
    free = find_break_even(L4, Usage(seconds_on_gpu=Decimal(20)), RULES, zerogpu=zero)
    assert (free[0].requests_per_day, free[0].usd_per_month) == (8, None)
    paid = find_break_even(L4, Usage(seconds_on_gpu=Decimal(20), account="pro", sleep_after_s=Decimal(300)), RULES, zerogpu=zero)
    assert crossing(paid, "zerogpu", "always_on").requests_per_day == 464
    asleep = crossing(paid, "zerogpu", "sleeping").requests_per_day
    assert asleep is not None
    assert 80 < asleep < 464


@pytest.mark.parametrize(("answer", "requests"), [("40", Decimal("99.57")), ("500", None)])
def test_zerogpu_against_per_token(answer: str, requests: Decimal | None) -> None:
    """A call beyond the quota costs 0.05 and 80 are free; 2 USD a month of tokens are.

    At 512 × 0.50 / 10⁶ + 256 × 40 / 10⁶ = 0.010496 a request: (80 × 0.05 - 2/30) / (0.05 - 0.010496) = 3.933333 / 0.039504 = 99.57.
    At 512 × 0.50 / 10⁶ + 256 × 500 / 10⁶ = 0.128 a request ZeroGPU is never dearer.
    """
    usage = Usage(seconds_on_gpu=Decimal(20), account="pro")
    price = state_price("0.50", answer)
    found = find_break_even(L4, usage, RULES, price=price, zerogpu=CATALOG.offer("zero-a10g"))[-1]
    assert (found.below, found.above) == ("zerogpu", "per_token")
    assert (None if found.requests_per_day is None else round(found.requests_per_day, 2)) == requests


def test_free_hardware_has_nothing_to_cross() -> None:
    """cpu-basic and ZeroGPU have no bill, a month without days neither."""
    assert find_break_even(CATALOG.offer("cpu-basic", "spaces"), Usage(), RULES, price=state_price("1", "1")) == ()
    assert find_break_even(CATALOG.offer("zero-a10g"), Usage(), RULES, price=state_price("1", "1")) == ()
    assert find_break_even(L4, Usage(days_per_month=Decimal(0)), RULES, price=state_price("1", "1")) == ()


ZERO = CATALOG.offer("zero-a10g", "zerogpu")
SPEED = stated_speed(ttft_s=1.0, tpot_s=0.1, throughput_tokens_per_s=10.0)
PRICE = TokenPrice(
    provider="own",
    usd_per_million_input=Decimal(0),
    usd_per_million_output=Decimal(100),
    source=Source(what="price", source="stated", checked=""),
)
USAGE = Usage(requests_per_day=Decimal(100), sleep_after_s=Decimal(900), prompt_tokens=512, output_tokens=91, account="anonymous")


def outlook(*options: Option, axis: str = "requests", usage: Usage = USAGE) -> Outlook:
    """The ways along an axis."""
    return Outlook(options=options, axis=axis, usage=usage, rules=CATALOG.rules)  # type: ignore[arg-type]


def test_a_running_space_costs_the_same_at_any_traffic() -> None:
    """0.80 × 24 × 30 = 576 USD, whatever arrives; sleeping is cheaper everywhere and rises towards it."""
    found = outlook(Option(kind="running", offer=L4, speed=SPEED), Option(kind="sleeping", offer=L4, speed=SPEED)).lines()
    assert set(found[0]) == {Decimal(576)}
    assert list(found[1]) == sorted(point for point in found[1] if point is not None)
    assert found[1][0] is not None
    assert found[1][0] < Decimal(10)


def test_hours_scale_the_bill() -> None:
    """Ten hours a day: 0.80 × 10 × 30 = 240 USD."""
    view = outlook(Option(kind="running", offer=L4), axis="hours")
    assert view.bill(0, Decimal(10)) == Decimal(240)


def test_per_token_meets_the_space_where_both_bills_are_equal() -> None:
    """91 answer tokens at 100 USD per million are 0.0091 USD: 576 / 30 / 0.0091 = 2109.9, from 2110 a day the Space is cheaper."""
    view = outlook(Option(kind="running", offer=L4, speed=SPEED), Option(kind="per_token", price=PRICE))
    (change,) = view.changes(view.lines())
    assert (change.before, change.after, change.at, change.ends) == (1, 0, Decimal(2110), False)
    assert change.usd_per_month == Decimal(576)
    there, before = (price_option(view.options[1], _make_usage(n), CATALOG.rules) for n in (2110, 2109))
    assert there is not None
    assert before is not None
    assert there > Decimal(576) >= before


def _make_usage(requests: int) -> Usage:
    return Usage(requests_per_day=Decimal(requests), prompt_tokens=512, output_tokens=91, account="anonymous")


def test_zerogpu_ends_with_the_quota_of_an_account_that_cannot_pay() -> None:
    """A request takes 1 + 90 × 0.1 = 10 s, times 1.5 of the quota; what 15 s go into whole is the last point."""
    view = outlook(Option(kind="running", offer=L4, speed=SPEED), Option(kind="zerogpu", offer=ZERO, speed=SPEED))
    (change,) = view.changes(view.lines())
    assert change.ends
    assert change.at == CATALOG.rules.zerogpu.daily_quota_s["anonymous"] // 15
    assert view.bill(1, change.at) == 0
    assert view.bill(1, change.at + 1) is None


@pytest.mark.parametrize(("stated", "end"), [(0, 10_000), (100, 10_000), (5_000, 100_000), (10_000, 100_000)])
def test_the_axis_reaches_a_decade_beyond_the_stated(stated: int, end: int) -> None:
    """Whole requests from one on, the stated traffic among them."""
    xs = outlook(Option(kind="running", offer=L4), usage=Usage(requests_per_day=Decimal(stated))).xs
    assert xs[0] == 1
    assert xs[-1] == end
    assert Decimal(max(1, stated)) in xs
    assert all(x == x.to_integral_value() for x in xs)
