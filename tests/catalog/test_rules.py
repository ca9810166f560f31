"""The platforms' rules, against the figures that their pages state."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lib.catalog import load

RULES = load().rules


def test_zerogpu_sizes() -> None:
    """Half a card at 1.5 times the seconds, a whole one at twice; a size is found by its name or its offer's."""
    rules = RULES.zerogpu
    assert [(size.size, size.card_fraction, size.default) for size in rules.sizes] == [("large", 0.5, True), ("xlarge", 1.0, False)]
    assert [(size.duration_factor, size.quota_multiplier) for size in rules.sizes] == [(Decimal("1.5"), 1), (1, 2)]
    assert rules.size("zero-a10g-xlarge") is rules.size("xlarge")
    with pytest.raises(KeyError):
        rules.size("medium")


def test_zerogpu_quota_by_account() -> None:
    """2, 5, 40, 40, 60 minutes a day."""
    minutes = {account: seconds // 60 for account, seconds in RULES.zerogpu.daily_quota_s.items()}
    assert minutes == {"anonymous": 2, "free": 5, "pro": 40, "team": 40, "enterprise": 60}
    assert RULES.zerogpu.runs_per_day_reported == {"free": 8}


def test_zerogpu_hosting_versions_and_silicon() -> None:
    """Two Spaces for free accounts, ten for PRO, fifty per organization; 42 GiB of weights make the size xlarge."""
    rules = RULES.zerogpu
    assert dict(rules.max_spaces) == {"anonymous": 0, "free": 2, "pro": 10, "team": 50, "enterprise": 50}
    assert rules.auto_xlarge_bytes == 42 * 2**30
    assert (rules.default_duration_s, rules.max_duration_s, rules.queue_wait_limit_s) == (60, None, 60)
    assert rules.torch_versions == ("2.8.0", "2.9.1", "2.10.0", "2.11.0")
    assert rules.overquota_usd_per_gpu_hour == 6
    assert rules.overquota_accounts == ("pro", "team", "enterprise")
    assert rules.gradio_only
    assert [(card.accelerator, card.until) for card in rules.silicon] == [
        ("H200-MIG-3g.71gb", "2026-05-13"),
        ("RTX-PRO-6000-Blackwell-Server", None),
    ]


def test_sleep_and_billing() -> None:
    """cpu-basic sleeps after 48 h; paid hardware never sleeps by itself; -1 means never."""
    sleep = RULES.sleep
    assert sleep.cpu_basic_after_s == 48 * 3600
    assert (sleep.paid_default_s, sleep.never_value, sleep.billing_step_s) == (None, -1, 60)


def test_accounts() -> None:
    """A free account may not create a Gradio Space on cpu-basic; plans cost 9, 20 and 50 dollars."""
    assert not RULES.accounts.may_create_cpu_basic("free")
    assert RULES.accounts.may_create_cpu_basic("pro")
    assert dict(RULES.accounts.plan_usd_per_month) == {"free": 0, "pro": 9, "team": 20, "enterprise": 50}


def test_storage() -> None:
    """18 and 12 dollars per terabyte and month; the tiers of 5, 25 and 100 dollars are gone since 2026-04-08."""
    storage = RULES.storage
    assert (storage.private_usd_per_tb_month, storage.public_usd_per_tb_month) == (18, 12)
    assert storage.private_volume_rates == ((50, Decimal(16)), (200, Decimal(14)), (500, Decimal(12)))
    assert [(tier.id, tier.size, tier.last_usd_per_month, tier.until) for tier in storage.retired_tiers] == [
        ("small", 20 * 10**9, 5, "2026-04-08"),
        ("medium", 150 * 10**9, 25, "2026-04-08"),
        ("large", 1000 * 10**9, 100, "2026-04-08"),
    ]
    assert dict(storage.included_private)["free"] == 100 * 10**9


def test_providers_endpoints_and_jobs() -> None:
    """Ten cents of credit for free accounts, two dollars for PRO and per seat; scale to zero after an hour; 30 minutes per Job."""
    credits_usd = {account: str(amount) for account, amount in RULES.providers.monthly_usd.items()}
    assert credits_usd == {"anonymous": "0", "free": "0.1", "pro": "2", "team": "2", "enterprise": "2"}
    assert RULES.providers.markup_percent == 0
    assert "groq" in RULES.providers.providers
    assert (RULES.endpoints.scale_to_zero_after_s, RULES.endpoints.status_while_starting) == (3600, 503)
    assert (RULES.jobs.default_timeout_s, RULES.jobs.ports_usd_per_hour) == (1800, Decimal("0.01"))


def test_rules_of_offers() -> None:
    """Who may take an offer is written on it."""
    catalog = load()
    assert catalog.offer("zero-a10g").rules == {"gradio_only", "daily_quota", "hosting_limit"}
    assert catalog.offer("cpu-basic", "spaces").rules == {"paid_plan_to_create", "sleeps_after_48h"}
    assert catalog.offer("l4x1", "spaces").rules == {"prepaid_credits"}
    assert catalog.offer("aws-nvidia-l4-x1").rules == {"subscription"}
    assert catalog.offer("tpu7x-8").rules == {"cloud_account", "allowlist"}


def test_every_group_has_sources_and_a_date() -> None:
    """No rule without a page that states it."""
    groups = (RULES.zerogpu, RULES.sleep, RULES.accounts, RULES.storage, RULES.providers, RULES.endpoints, RULES.jobs)
    for group in groups:
        assert group.sources
        assert group.checked <= load().as_of
