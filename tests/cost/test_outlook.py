"""Bills side by side: what each way costs along traffic and hours, and where they change places."""

from __future__ import annotations

from decimal import Decimal

import pytest
from stated_speed import stated_speed

from lib.catalog import load
from lib.cost import TokenPrice, Usage
from lib.cost.outlook import Option, Outlook, price_option
from lib.provenance import Source

CATALOG = load()
L4 = CATALOG.resolve_offer("l4x1")  # 0.80 USD an hour
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
    there, before = (price_option(view.options[1], _at(n), CATALOG.rules) for n in (2110, 2109))
    assert there is not None
    assert before is not None
    assert there > Decimal(576) >= before


def _at(requests: int) -> Usage:
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
