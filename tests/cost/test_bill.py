"""Bills of every platform, against the price pages and by hand; what holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from cost_examples import CATALOG, L4, RULES, state_price
from hypothesis import given, settings
from hypothesis import strategies as st
from stated_speed import stated_speed

from lib.catalog.offers import Offer
from lib.cost import Usage, bill_offer, bill_tokens, describe_retired_tier, find_retired_tier
from lib.errors import BadArgument, UnknownHardware
from lib.present.sentences import sentence

RENTED = CATALOG.on(("all",))

# huggingface.co/docs/hub/spaces-gpus (2026-07-21), the prices per hour; RTX PRO 6000: those of Jobs (2026-08-21)
SPACES = {
    "cpu-basic": "0", "cpu-upgrade": "0.03", "t4-small": "0.40", "t4-medium": "0.60", "l4x1": "0.80", "l4x4": "3.80", "l40sx1": "1.80",
    "l40sx4": "8.30", "l40sx8": "23.50", "a10g-small": "1.00", "a10g-large": "1.50", "a10g-largex2": "3.00", "a10g-largex4": "5.00",
    "a100-large": "2.50", "a100x4": "10.00", "a100x8": "20.00", "rtx-pro-6000": "2.75", "rtx-pro-6000x2": "5.50",
    "rtx-pro-6000x4": "11.00", "rtx-pro-6000x8": "22.00",
}  # fmt: skip
JOBS = {"cpu-basic": "0.01", "cpu-xl": "1.00", "cpu-performance": "1.90", "h200": "5.00", "h200x2": "10", "h200x4": "20", "h200x8": "40"}


def offers() -> st.SearchStrategy[Offer]:
    """Any offer that can be rented today."""
    return st.sampled_from(RENTED)


def amounts(most: int) -> st.SearchStrategy[Decimal]:
    """Decimals with two places, as people write them."""
    return st.decimals(0, most, places=2)


def usages() -> st.SearchStrategy[Usage]:
    """Any use of an offer."""
    return st.builds(
        Usage,
        hours_per_day=amounts(24),
        days_per_month=amounts(31),
        replicas=st.integers(1, 8),
        requests_per_day=st.integers(0, 10**6).map(Decimal),
        sleep_after_s=st.integers(0, 10**5).map(Decimal),
        storage_gb=amounts(10**6),
        storage_public=st.booleans(),
        account=st.sampled_from(("free", "pro", "team", "enterprise", "anonymous")),
        request_s=st.none() | amounts(60),
    )


def codes(offer: Offer, usage: Usage) -> set[str]:
    """Codes of the caveats of a bill."""
    return {caveat.code for caveat in bill_offer(offer, usage, RULES).caveats}


@pytest.mark.parametrize(("platform", "prices"), [("spaces", SPACES), ("jobs", JOBS)])
def test_the_price_page_around_the_clock(platform: str, prices: dict[str, str]) -> None:
    """A month is 24 × 30 = 720 hours of the printed price: l4x1 0.80 × 720 = 576 USD."""
    for name, price in prices.items():
        bill = bill_offer(CATALOG.offer(name, platform), Usage(), RULES)
        assert (bill.usd_per_hour, bill.total_usd_per_month) == (Decimal(price), Decimal(price) * 720), name
    assert bill_offer(L4, Usage(), RULES).total_usd_per_month == 576


@settings(deadline=None)
@given(offer=offers(), usage=usages())
def test_parts_add_up_to_the_last_digit(offer: Offer, usage: Usage) -> None:
    """Total = compute + storage = sum of the parts, and rent = price × billed hours."""
    bill = bill_offer(offer, usage, RULES)
    assert sum((part.usd_per_month for part in bill.parts), Decimal(0)) == bill.total_usd_per_month
    assert bill.compute_usd_per_month + bill.storage_usd_per_month == bill.total_usd_per_month
    assert bill.parts[0].usd_per_month == bill.usd_per_hour * bill.billed_hours_per_month
    assert bill.total_usd_per_month >= 0
    assert all(part.source and part.law for part in bill.parts)


@settings(deadline=None)
@given(offer=offers(), hours=amounts(12), days=st.integers(0, 31), replicas=st.integers(1, 16))
def test_linear_in_hours_days_and_replicas(offer: Offer, hours: Decimal, days: int, replicas: int) -> None:
    """Twice the hours is twice the bill, exactly; the same for replicas."""
    once = bill_offer(offer, Usage(hours_per_day=hours, days_per_month=Decimal(days), replicas=replicas), RULES).compute_usd_per_month
    twice = bill_offer(offer, Usage(hours_per_day=2 * hours, days_per_month=Decimal(days), replicas=replicas), RULES).compute_usd_per_month
    copies = bill_offer(offer, Usage(hours_per_day=hours, days_per_month=Decimal(days), replicas=2 * replicas), RULES).compute_usd_per_month
    assert twice == copies == 2 * once
    assert once == (offer.usd_per_hour or 0) * hours * days * replicas


@settings(deadline=None)
@given(offer=offers(), usage=usages())
def test_sleep_never_costs_more(offer: Offer, usage: Usage) -> None:
    """With any sleep time and traffic the bill is at most that of the same hours without sleep."""
    awake = Usage(**{name: getattr(usage, name) for name in usage.__slots__} | {"sleep_after_s": Decimal(0)})
    assert bill_offer(offer, usage, RULES).total_usd_per_month <= bill_offer(offer, awake, RULES).total_usd_per_month


@settings(deadline=None)
@given(requests=st.integers(1, 10**5), more=st.integers(0, 10**5), sleep=st.integers(1, 10**5), longer=st.integers(0, 10**5))
def test_more_traffic_or_longer_sleep_time_never_costs_less(requests: int, more: int, sleep: int, longer: int) -> None:
    """The sleeping bill grows with both."""

    def bill(n: int, s: int) -> Decimal:
        return bill_offer(L4, Usage(requests_per_day=Decimal(n), sleep_after_s=Decimal(s)), RULES).total_usd_per_month

    assert bill(requests, sleep) <= bill(requests + more, sleep)
    assert bill(requests, sleep) <= bill(requests, sleep + longer)


def test_a_sleeping_space() -> None:
    """Ten visits of 20 s in 8 h, sleep after 15 minutes, start-up 60 s.

    λ = 10 / 28800 per s, D = 920 s, u = 60 + 30 s (half a minute of rounding). Asleep within the window, edges included:
    S₀ = (1 - e^-λD)/λ + (28800 - 920)·e^-λD = 787.7 + 20256.1 = 21043.8; S = S₀ / (1 + λ·90·S₀/28800) = 20573.5.
    After it: 920 - (1 - e^-λD)/λ = 132.3. Awake: 28800 - 20573.5 + 132.3 = 8358.8 s = 2.3219 h, 69.66 h a month, 55.7 USD.
    """
    usage = Usage(
        hours_per_day=Decimal(8),
        requests_per_day=Decimal(10),
        sleep_after_s=Decimal(900),
        request_s=Decimal(20),
        startup_s=Decimal(60),
    )
    bill = bill_offer(L4, usage, RULES)
    assert float(bill.billed_hours_per_month) == pytest.approx(69.66, abs=0.02)
    assert float(bill.total_usd_per_month) == pytest.approx(55.73, abs=0.02)
    assert float(bill.usd_per_request or 0) == pytest.approx(55.73 / 300, abs=1e-4)
    assert float(bill.utilisation or 0) == pytest.approx(10 * 20 / 8358.8, rel=1e-3)


def test_free_cpu_sleeps_on_its_own() -> None:
    """cpu-basic costs nothing; another sleep time than its 48 h is answered with a remark."""
    basic = CATALOG.offer("cpu-basic", "spaces")
    bill = bill_offer(basic, Usage(sleep_after_s=Decimal(300), requests_per_day=Decimal(1)), RULES)
    assert bill.total_usd_per_month == 0
    assert {"sleep_fixed", "needs_plan"} <= {caveat.code for caveat in bill.caveats}
    assert "sleep_fixed" not in codes(basic, Usage(sleep_after_s=Decimal(172_800)))
    assert "replicas_paid_only" in codes(basic, Usage(replicas=2))


def test_storage_on_the_bill() -> None:
    """Free account, 250 GB: 150 beyond the plan × 0.018 = 2.70; public: 250 × 0.012 = 3.00; a team of 3 holds 3 TB."""
    assert bill_offer(L4, Usage(storage_gb=Decimal(250)), RULES).storage_usd_per_month == Decimal("2.70")
    assert bill_offer(L4, Usage(storage_gb=Decimal(250), storage_public=True), RULES).storage_usd_per_month == 3
    assert bill_offer(L4, Usage(storage_gb=Decimal(3000), account="team", seats=3), RULES).storage_usd_per_month == 0
    assert bill_offer(L4, Usage(storage_gb=Decimal(3500), account="team", seats=3), RULES).storage_usd_per_month == 9
    assert "volume_rate" in codes(L4, Usage(storage_gb=Decimal(60_000)))


@pytest.mark.parametrize(
    ("name", "gigabytes", "price", "now"), [("small", 20, 5, "0"), ("medium", 150, 25, "0.9"), ("large", 1000, 100, "16.2")]
)
def test_old_storage_tiers_answer_as_retired(name: str, gigabytes: int, price: int, now: str) -> None:
    """20, 150 and 1000 GB cost 5, 25 and 100 USD; on a free account (100 GB) today 0, 50 × 0.018 = 0.9 and 900 × 0.018 = 16.2."""
    by_name, by_size = find_retired_tier(name, RULES.storage), find_retired_tier(Decimal(gigabytes), RULES.storage)
    assert by_name is not None
    assert by_name == by_size
    caveat = describe_retired_tier(by_name, Usage(), RULES.storage)
    assert caveat.code == "storage_tier_retired"
    for words in (f"'{name}' ({gigabytes} GB for {price} USD/month)", "since 2026-04-08", f" {now} USD/month for private data"):
        assert words in sentence(caveat)
    assert "storage_tier_retired" in codes(L4, Usage(storage_gb=Decimal(gigabytes)))
    assert find_retired_tier(Decimal(21), RULES.storage) is None


def test_zerogpu_is_paid_by_visitors() -> None:
    """PRO, 100 calls of 20 s: 30 quota seconds each, 80 in 2400 s; alone (3000 - 2400) / 600 × 30 days = 30 USD; the owner pays nothing."""
    offer = CATALOG.offer("zero-a10g")
    bill = bill_offer(offer, Usage(account="pro", requests_per_day=Decimal(100), seconds_on_gpu=Decimal(20)), RULES)
    used = bill.zerogpu
    assert used is not None
    assert (bill.payer, bill.total_usd_per_month, bill.billed_hours_per_month) == ("visitor", 0, 0)
    assert (used.quota_s_per_request, used.requests_in_quota, used.visitors) == (30, 80, 2)
    assert (used.usd_per_request_beyond, used.usd_per_month_alone) == (Decimal("0.05"), 30)


def test_visitors_with_a_plan_of_their_own_are_counted_by_it() -> None:
    """A PRO host with free visitors: 300 s hold ten calls of 30 quota seconds, eight by the runs that users report; none of them pays."""
    usage = Usage(account="pro", visitor_account="free", requests_per_day=Decimal(100), seconds_on_gpu=Decimal(20))
    used = bill_offer(CATALOG.offer("zero-a10g"), usage, RULES).zerogpu
    assert used is not None
    assert (used.daily_quota_s, used.requests_in_quota, used.visitors, used.usd_per_request_beyond) == (300, 8, 13, None)
    assert "visitors_own_plan" in codes(CATALOG.offer("zero-a10g"), replace(usage, visitor_account="auto"))
    assert "visitors_own_plan" not in codes(CATALOG.offer("zero-a10g"), usage)


def test_zerogpu_default_calls_of_a_free_visitor() -> None:
    """300 s hold three default calls of 90 s; `xlarge` two of 120 s; anonymous visitors one; nobody of these pays for more."""
    for size, account, calls in (("zero-a10g", "free", 3), ("zero-a10g-xlarge", "free", 2), ("zero-a10g", "anonymous", 1)):
        used = bill_offer(CATALOG.offer(size), Usage(account=account), RULES).zerogpu
        assert used is not None
        assert (used.requests_in_quota, used.usd_per_request_beyond) == (calls, None)
    long = Usage(requests_per_day=Decimal(1), seconds_on_gpu=Decimal(201))
    assert "quota_too_small" in codes(CATALOG.offer("zero-a10g"), long)  # 201 × 1.5 = 301.5 > 300


def test_an_endpoint_scaled_to_zero() -> None:
    """Without requests per day it counts as running; with two an 8 h day, it is awake about 2 × (1 h + start-up), not 8 h."""
    offer = CATALOG.offer("aws-nvidia-l4-x1", "endpoints")
    idle = Usage(hours_per_day=Decimal(8), sleep_after_s=Decimal(3600))
    assert bill_offer(offer, idle, RULES).billed_hours_per_month == 240
    assert "traffic_not_stated" in codes(offer, idle)
    used = Usage(hours_per_day=Decimal(8), sleep_after_s=Decimal(3600), requests_per_day=Decimal(2))
    assert 1.5 * 30 < bill_offer(offer, used, RULES).billed_hours_per_month < 2.2 * 30
    assert {"cold_start", "startup_assumed"} <= codes(offer, used)
    extra = Usage(extra_replica_hours_per_month=Decimal(100))
    assert bill_offer(offer, extra, RULES).total_usd_per_month == Decimal("0.80") * 820


def test_jobs_port_and_time_limit() -> None:
    """A Job that answers requests pays 0.01 USD/h for its port: 10 h × 30 × (0.80 + 0.01) = 243; it never sleeps; 30 minutes by default."""
    offer = CATALOG.offer("l4x1", "jobs")
    usage = Usage(hours_per_day=Decimal(10), requests_per_day=Decimal(5), sleep_after_s=Decimal(60))
    bill = bill_offer(offer, usage, RULES)
    assert bill.total_usd_per_month == 243
    assert [part.name for part in bill.parts] == [offer.name, "exposed port"]
    assert {"job_timeout", "never_sleeps"} <= {caveat.code for caveat in bill.caveats}
    assert bill_offer(offer, Usage(hours_per_day=Decimal("0.5")), RULES).total_usd_per_month == 12
    assert "job_timeout" not in codes(offer, Usage(hours_per_day=Decimal("0.5")))


def test_tpu_by_region() -> None:
    """Eight v6e chips: 2.70 × 8 = 21.60 in us-central1, 2.97 × 8 = 23.76 in europe-west4."""
    offer = CATALOG.offer("v6e-8")
    assert bill_offer(offer, Usage(hours_per_day=Decimal(1), days_per_month=Decimal(1)), RULES).total_usd_per_month == Decimal("21.60")
    europe = Usage(hours_per_day=Decimal(1), days_per_month=Decimal(1), region="europe-west4")
    assert bill_offer(offer, europe, RULES).total_usd_per_month == Decimal("23.76")
    with pytest.raises(BadArgument, match="region was 'mars'"):
        bill_offer(offer, Usage(region="mars"), RULES)
    with pytest.raises(BadArgument, match="one price everywhere"):
        bill_offer(L4, Usage(region="europe-west4"), RULES)


def test_withdrawn_hardware_has_no_bill() -> None:
    """H100 left Spaces: no price of today, a sentence instead of a figure."""
    with pytest.raises(UnknownHardware, match="no longer offered"):
        bill_offer(CATALOG.offer("h100", "spaces"), Usage(), RULES)


def test_prices_per_token_at_full_use() -> None:
    """0.80 USD/h at 20 tokens/s: 0.80 / 72000 × 10⁶ = 11.11; prompts 0.80 / 3600 × 0.5 / 512 × 10⁶ = 0.217; a request takes 13.25 s."""
    bill = bill_offer(L4, Usage(), RULES, speed=stated_speed())
    assert round(bill.usd_per_million_output_tokens or 0, 3) == Decimal("11.111")
    assert round(bill.usd_per_million_input_tokens or 0, 3) == Decimal("0.217")
    assert round(bill.usd_per_request or 0, 6) == round(Decimal("0.80") / 3600 * Decimal("13.25"), 6)
    without = bill_offer(L4, Usage(), RULES)
    assert (without.usd_per_request, without.usd_per_million_output_tokens, without.usd_per_million_input_tokens) == (None, None, None)


def test_traffic_beyond_the_hardware_is_said() -> None:
    """7000 requests of 13.25 s take 25.8 hours a day; 6000 take 22.1, more than 80 % of 24; 5200 take 19.1."""

    def codes(requests: int) -> set[str]:
        return {c.code for c in bill_offer(L4, Usage(requests_per_day=Decimal(requests)), RULES, speed=stated_speed()).caveats}

    assert "too_little_capacity" in codes(7000)
    assert "too_little_capacity" in codes(6000)
    assert "too_little_capacity" not in codes(5200)


def test_paying_per_token() -> None:
    """1000 requests a day of 512 + 256 tokens at 0.10 and 0.40: 30000 × (51.2 + 102.4) / 10⁶ = 4.608, less 2 USD of PRO credits."""
    usage = Usage(requests_per_day=Decimal(1000), account="pro")
    bill = bill_tokens(state_price("0.10", "0.40"), usage, RULES.providers)
    assert bill.total_usd_per_month == Decimal("2.608")
    assert [part.usd_per_month for part in bill.parts] == [Decimal("1.536"), Decimal("3.072"), Decimal(-2)]
    assert bill.usd_per_request == Decimal("0.0001536")
    small = bill_tokens(state_price("0.10", "0.40"), Usage(requests_per_day=Decimal(10), account="free"), RULES.providers)
    assert small.total_usd_per_month == 0  # 0.04608 within the free 0.10
