"""Before and after, against arithmetic by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stated_speed import stated_speed

from lib.cost.compare import PricedConfiguration, apply_load, compare, predict_latencies


def configuration(name: str = "x", usd: str = "0.80", rate: int = 100, devices: int = 1) -> PricedConfiguration:
    """A configuration of which only price and rate matter."""
    return PricedConfiguration(name=name, usd_per_hour=Decimal(usd), devices=devices, tokens_per_s=Decimal(rate))


def test_an_optimisation_that_pays() -> None:
    """400 tokens/s: at 100 per replica ⌈400/80⌉ = 5 × 0.80 × 720 = 2880; at 250 ⌈400/200⌉ = 2 × 576 = 1152.

    Saved 1728 a month: an effort of 3000 USD is paid back in 1.74 months, and 12 months are worth 20736.
    """
    found = compare(configuration("bf16"), configuration("fp8", rate=250), tokens_per_s=Decimal(400), effort_usd=Decimal(3000))
    assert (found.before.replicas, found.after.replicas) == (5, 2)
    assert (found.before.usd_per_month, found.after.usd_per_month) == (2880, 1152)
    assert found.saved_usd_per_month == 1728
    assert round(found.payback_months or 0, 2) == Decimal("1.74")
    assert found.worth_usd == 20_736
    assert found.verdict == "optimise"
    assert found.speed_ratio == Decimal("2.5")
    assert "2880.00 - 1152.00 = 1728.00" in found.arithmetic[-1]


def test_work_that_costs_more_than_it_saves() -> None:
    """Ten per cent faster: 5 replicas become 5 (⌈400/88⌉): nothing saved, so scale out."""
    found = compare(configuration(), configuration(rate=110), tokens_per_s=Decimal(400))
    assert (found.saved_usd_per_month, found.verdict, found.payback_months) == (0, "scale_out", None)
    # saves 3 × 576 × 12 = 20736, which an effort of 30000 exceeds
    dear = compare(configuration(), configuration(rate=250), tokens_per_s=Decimal(400), effort_usd=Decimal(30_000))
    assert dear.verdict == "scale_out"


def test_an_idle_replica_wants_to_be_filled() -> None:
    """Ten of a hundred tokens/s: utilisation 0.1, so a million tokens cost ten times the full-load price of 2.222 USD."""
    found = compare(configuration(), configuration(rate=200), tokens_per_s=Decimal(10))
    assert found.verdict == "fill_first"
    assert found.before.utilisation == Decimal("0.1")
    assert round(found.before.usd_per_million_tokens_full, 4) == Decimal("2.2222")
    assert round(found.before.usd_per_million_tokens or 0, 3) == Decimal("22.222")
    assert compare(configuration(), configuration(rate=200), tokens_per_s=Decimal(60)).verdict == "keep"


def test_gpu_hours() -> None:
    """A million tokens at 100/s on 4 cards: 10000 s = 2.7778 h × 4 = 11.111 GPU-hours."""
    found = apply_load(configuration(devices=4), Decimal(0), Decimal(720))
    assert round(found.gpu_hours_per_million_tokens, 3) == Decimal("11.111")
    assert (found.replicas, found.utilisation, found.usd_per_million_tokens) == (1, 0, None)


def test_predicted_latency_grows_with_load() -> None:
    """A request takes 0.5 + 255 × 0.05 = 13.25 s; one slot at half load: 99 % within 13.25 + 13.25 / 0.5 × ln(50) = 116.9 s."""
    idle, busy, full = (predict_latencies(stated_speed(), 256, 1, load) for load in (0.0, 0.5 / 13.25, 1.0))
    assert idle == (Decimal("13.25"), Decimal("13.25"))
    assert float(busy[1] or 0) == pytest.approx(116.92, abs=0.01)
    assert full == (None, None)
    assert predict_latencies(stated_speed(tpot_s=None), 256, 1, 0.0) == (None, None)
    before, after = (replace(configuration(), latency_p99_s=times[1]) for times in (idle, busy))
    assert float(compare(before, after, tokens_per_s=Decimal(1)).latency_ratio or 0) == pytest.approx(116.92 / 13.25, rel=1e-3)


@settings(deadline=None)
@given(rate=st.integers(1, 10_000), faster=st.integers(0, 10_000), load=st.integers(0, 10**6))
def test_a_faster_replica_at_the_same_price_never_costs_more(rate: int, faster: int, load: int) -> None:
    """Saved ≥ 0, and utilisation stays within what was planned."""
    found = compare(configuration(rate=rate), configuration(rate=rate + faster), tokens_per_s=Decimal(load))
    assert found.saved_usd_per_month >= 0
    assert found.before.utilisation <= Decimal("0.8")
