"""The platforms' rules, from the researched facts to the groups of `lib/data/platform.json`. Used by `build_catalog.py`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

ACCOUNT = {"unauthenticated": "anonymous", "team_member": "team", "enterprise_member": "enterprise"}
RTX = "RTX-PRO-6000-Blackwell-Server"
JOB_TIMEOUT_S = 30 * 60  # Jobs pricing and guide pages, 2026-08-21
CPU_UNITS = 8  # of free accounts at once; enterprise.md at 242f4a1e, read 2026-11-22
RULE_SOURCES = {
    "hub-docs-enterprise": {
        "what": "Team and Enterprise plans: free accounts run at most 8 CPU units at once, theirs have no such limit",
        "source": "github:huggingface/hub-docs docs/hub/enterprise.md @242f4a1e",
        "checked": "2026-11-22",
    },
    "zerogpu-reservation": {
        "what": "ZeroGPU: a reservation above what is left of the quota is refused before credits engage (users' thread, not documented); "
        "the move to xlarge is not shown by the Hub's page",
        "source": "discuss.huggingface.co/t/176021",
        "checked": "2026-11-22",
    },
}
JOB_PORTS_USD = "0.01"  # per Job and hour, Jobs pricing page, 2026-08-21


def by_account(values: dict[str, Any], factor: int = 1) -> dict[str, Any]:
    """The same table with our names of the accounts; numbers times `factor`."""
    return {ACCOUNT.get(key, key): value * factor if isinstance(value, int) else value for key, value in values.items()}


def dollars(amount: Decimal | int) -> str:
    """Money as text."""
    return format(Decimal(amount).normalize(), "f")


def zerogpu(fact: dict[str, Any]) -> dict[str, Any]:
    """Sizes, quota, hosting, versions."""
    factor = next(row["duration_factor"] for row in fact["device_table"] if "RTX PRO 6000" in row["model"])
    sizes = [
        {
            "size": row["size"],
            "offer": fact["flavor"] if row["default"] else f"{fact['flavor']}-{row['size']}",
            "card_fraction": str(row["card_fraction"]),
            "quota_multiplier": row["quota_multiplier"],
            "duration_factor": "1" if row["size"] == "xlarge" else dollars(factor),
            "default": row["default"],
        }
        for row in fact["sizes"]
    ]
    hosting = fact["hosting_max_spaces"]
    team = hosting["team_or_enterprise_org"]
    return {
        "sizes": sizes,
        "silicon": [
            {"accelerator": "H200-MIG-3g.71gb", "since": None, "until": fact["gpu_since"]},
            {"accelerator": RTX, "since": fact["gpu_since"], "until": None},
        ],
        "auto_xlarge": f"{fact['auto_xlarge_threshold_bytes']} B",
        "default_duration_s": fact["default_duration_s"],
        "max_duration_s": fact["max_duration_s"],
        "queue_wait_limit_s": fact["queue_wait_limit_s"],
        "daily_quota_s": by_account(fact["daily_quota_minutes"], 60),
        "max_spaces": {"anonymous": 0, "free": hosting["free"], "pro": hosting["pro"], "team": team, "enterprise": team},
        "free_hosting_conditions": fact["free_hosting_conditions"],
        "overquota_accounts": fact["overquota"]["who"],
        "overquota_usd_per_gpu_hour": dollars(fact["overquota"]["usd_per_gpu_hour"]),
        "runs_per_day_reported": {"free": fact["runs_limit"]["free_runs_per_24h_reported"]},
        "gradio_only": fact["sdk"] == "gradio only",
        "torch_versions": fact["torch_supported"],
        "sources": [*fact["source"], "zerogpu-reservation"],
    }


def sleep(fact: dict[str, Any]) -> dict[str, Any]:
    """When a Space sleeps, and when it is billed."""
    return {
        "cpu_basic_after_s": fact["cpu_basic_sleep_after_hours"] * 3600,
        "paid_default_s": None,
        "never_value": fact["never_value"],
        "billing_step_s": 60,
        "replicas_paid_only": fact["replicas"]["paid_hardware_only"],
        "startup_timeout_s": fact["startup_timeout_default_minutes"] * 60,
        "sources": fact["source"],
    }


def accounts(fact: dict[str, Any]) -> dict[str, Any]:
    """Plans that may create a Space on each hardware."""
    plans = fact["plan_prices_usd_per_month"]
    names = {"pro": "pro", "team_per_user": "team", "enterprise_per_user": "enterprise"}
    return {
        "cpu_basic_accounts": ["pro", "team", "enterprise"],
        "plan_usd_per_month": {"free": "0", **{ours: dollars(plans[theirs]) for theirs, ours in names.items()}},
        "free_cpu_units": CPU_UNITS,
        "sources": [*fact["compute_space_creation"]["source"], plans["source"], "hub-docs-enterprise"],
    }


def storage(fact: dict[str, Any]) -> dict[str, Any]:
    """Prices of buckets and volumes, and the tiers of the past."""
    price, old = fact["storage_prices"], fact["persistent_storage"]
    volume = [[int(step.removesuffix("TB+")), dollars(rate)] for step, rate in price["private_volume_tiers_usd_per_tb_month"].items()]
    included_sizes = {key.removesuffix("_per_seat"): f"{size} GB" for key, size in price["free_private_gb"].items()}
    last_day = old["removed_on_docs"].split(", ")[1].split()[0]
    return {
        "private_usd_per_tb_month": dollars(price["private_payg_usd_per_tb_month"]),
        "private_volume_rates": volume,
        "public_usd_per_tb_month": dollars(price["public_addon_usd_per_tb_month"]),
        "public_volume_rates": [[50, dollars(price["public_addon_50tb_usd_per_tb_month"])]],
        "included_private": included_sizes,
        "retired_tiers": [
            {"id": row["tier"], "size": f"{row['size_gb']} GB", "last_usd_per_month": dollars(row["usd_per_month"]), "until": last_day}
            for row in old["old_tiers"]
        ],
        "sources": [*price["source"], *old["source"]],
    }


def providers(fact: dict[str, Any]) -> dict[str, Any]:
    """Monthly credits of the per-token providers."""
    credit = fact["monthly_credits_usd"]
    seat = dollars(credit["team_or_enterprise_per_seat"])
    return {
        "monthly_usd": {"anonymous": "0", "free": dollars(credit["free"]), "pro": dollars(credit["pro"]), "team": seat, "enterprise": seat},
        "markup_percent": dollars(fact["markup_percent"]),
        "providers": fact["providers_in_client"],
        "sources": fact["source"],
    }


def rules(hardware: dict[str, Any], table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every group, with the newest day among its sources."""
    idle = hardware["inference_endpoints_rules"]
    groups = {
        "zerogpu": zerogpu(hardware["zerogpu"]),
        "sleep": sleep(hardware["sleep"]),
        "accounts": accounts(hardware["accounts"]),
        "storage": storage(hardware["storage"]),
        "providers": providers(hardware["inference_providers"]),
        "endpoints": {
            "billing_step_s": 60,
            "scale_to_zero_after_s": idle["scale_to_zero"]["default_idle_minutes"] * 60,
            "status_while_starting": idle["scale_to_zero"]["proxy_status_while_starting"],
            "hold_header": idle["scale_to_zero"]["hold_header"],
            "sources": idle["source"],
        },
        "jobs": {
            "billing_step_s": 60,
            "default_timeout_s": JOB_TIMEOUT_S,
            "ports_usd_per_hour": JOB_PORTS_USD,
            "sources": ["hub-docs-jobs-pricing"],
        },
    }
    for group in groups.values():
        group["checked"] = max(table[key]["checked"] for key in group["sources"])
    return groups
