"""Offers of every platform, from the researched facts to the rows of `lib/data/offers.json`. Used by `build_catalog.py`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

SILICON = {
    "T4": "T4",
    "L4": "L4",
    "A10G": "A10G",
    "L40S": "L40S",
    "A100": "A100-SXM4-80GB",
    "H100": "H100-SXM",
    "H200": "H200-SXM",
    "B200": "B200",
    "RTX PRO 6000": "RTX-PRO-6000-Blackwell-Server",
    "Inferentia2": "Inferentia2",
    "TPU v5e": "TPU-v5e",
    "v5e": "TPU-v5e",
    "v5p": "TPU-v5p",
    "v6e": "TPU-v6e",
    "tpu7x": "TPU7x",
}
HOST_CPU = {2: "CPU-2vCPU", 8: "CPU-8vCPU"}
NAMED_CPU = {"Intel Sapphire Rapids": "CPU-SPR-22core", "Intel Ice Lake": "CPU-ICX-32core"}
"""Processors that a platform names, as the machine of which the offer is a part."""
SUCCESSOR = {"v5e-1x1": "v5litepod-1", "v5e-2x2": "v5litepod-4", "v5e-2x4": "v5litepod-8", "h100": "h200", "h100x8": "h200x8"}
SUCCESSOR |= {"gcp-tpu-1x1": "v5litepod-1", "gcp-tpu-2x2": "v5litepod-4", "gcp-tpu-2x4": "v5litepod-8", "inf2x6": "aws-inf2-x12"}
A100_NOTE = "The platform does not state which form of the A100 it uses; taken as the SXM card."
TPU_V5E_CHIPS = (1, 4, 8, 16, 32, 64, 128, 256)
ALIASES = {
    "spaces": {
        "t4": "t4-small",
        "t4x1": "t4-small",
        "l4": "l4x1",
        "l40s": "l40sx1",
        "a10g": "a10g-small",
        "a10gx1": "a10g-small",
        "a10g-largex1": "a10g-large",
        "a100": "a100-large",
        "a100x1": "a100-large",
        "rtx-pro-6000x1": "rtx-pro-6000",
        "cpu": "cpu-basic",
    },
    "zerogpu": {
        **dict.fromkeys(("zerogpu", "zero-gpu", "zero", "zero-a10g-large", "zerogpu-large"), "zero-a10g"),
        **dict.fromkeys(("zerogpu-xlarge", "zero-gpu-xlarge", "zero-xlarge"), "zero-a10g-xlarge"),
    },
    "jobs": {"h200x1": "h200"},
    "tpu": {f"{prefix}-{chips}": f"v5litepod-{chips}" for prefix in ("v5e", "v5lite") for chips in TPU_V5E_CHIPS},
}


def text(number: Decimal | int | None, unit: str) -> str | None:
    """A figure with its unit, without trailing zeros; `None` stays `None`."""
    if number is None:
        return None
    plain = format(Decimal(number).normalize(), "f")
    return f"{plain} {unit}"


def money(amount: Decimal | int | None) -> str | None:
    """Dollars as text, at least two decimals."""
    if amount is None:
        return None
    plain = format(Decimal(amount).normalize(), "f")
    whole, _, cents = plain.partition(".")
    return f"{whole}.{cents.ljust(2, '0')}"


def as_list(value: object) -> list[str]:
    """A source key, or several, as a list."""
    return [value] if isinstance(value, str) else [str(item) for item in value] if isinstance(value, list) else []


def offer(key: str, platform: str, name: str, keys: list[str], **rest: Any) -> dict[str, Any]:
    """One offer with the fields that most rows leave empty filled in."""
    row: dict[str, Any] = {
        "id": key,
        "platform": platform,
        "name": name,
        "accelerator": None,
        "count": 0,
        "fraction": "1",
        "host_cpu": None,
    }
    row |= {"vcpu": None, "ram": None, "disk": None, "usd_per_hour": None, "last_usd_per_hour": None, "price_verified": True}
    row |= {"price_history": [], "status": "listed", "since": None, "successor": SUCCESSOR.get(key), "rules": []}
    row |= {"endpoint": None, "tpu": None, "notes": "", "sources": keys, "checked": None}
    unknown = set(rest) - set(row)
    if unknown:
        raise KeyError(unknown)
    return row | rest


def first_seen(note: str) -> str | None:
    """The day inside a note such as "huggingface_hub 2.3.0 (2026-10-23)", if there is one."""
    day = re.search(r"\d{4}-\d{2}-\d{2}", note)
    return day[0] if day else None


def flavor(fact: dict[str, Any], platform: str) -> dict[str, Any]:
    """A row of Spaces or Jobs."""
    key, keys, notes = fact["id"], as_list(fact["source"]), [fact.get("status_note"), fact.get("note")]
    is_retired = fact["status"] == "removed"
    if platform == "spaces" and key.startswith("rtx"):
        keys = sorted(keys, key=lambda name: name != "hub-docs-jobs-pricing")
        notes.append("Price of the same flavor on Jobs; the Spaces price page that was read does not list it.")
    if fact["accelerator"] == "A100":
        notes.append(A100_NOTE)
    price, blog = fact["usd_per_hour"], fact["kind"] == "tpu"
    if blog:
        keys, price = ["hf-blog-tpu", *keys], fact["seed_value"]["usd_per_hour"]
        notes.append("Last price known: the one of the announcement.")
    demands = ["prepaid_credits"] if platform == "spaces" and not is_retired and price else []
    if platform == "spaces" and key == "cpu-basic":
        demands = ["paid_plan_to_create", "sleeps_after_48h"]
    return offer(
        key,
        platform,
        fact["pretty_name"],
        keys,
        accelerator=SILICON[fact["accelerator"]] if fact["accelerator"] else None,
        count=fact["accelerator_count"],
        host_cpu=HOST_CPU.get(fact.get("vcpu", 0)) if fact["kind"] == "cpu" else None,
        vcpu=fact.get("vcpu"),
        ram=text(fact.get("memory_gb"), "GiB"),
        disk=text(fact.get("disk_gb"), "GB"),
        usd_per_hour=None if is_retired else money(price),
        last_usd_per_hour=money(price) if is_retired else None,
        price_verified=fact["usd_per_hour_verified"],
        status="retired" if is_retired else "listed",
        since=fact.get("status_since") or first_seen(fact.get("first_in_client", "")),
        rules=demands,
        notes=" ".join(f"{note[0].upper()}{note[1:].rstrip('.')}." for note in notes if note),
    )


def zerogpu(fact: dict[str, Any], rule: dict[str, Any]) -> list[dict[str, Any]]:
    """The two sizes of ZeroGPU as two rows."""
    rows = []
    for size in rule["sizes"]:
        large = size["size"] == "large"
        rows.append(
            offer(
                fact["id"] if large else f"{fact['id']}-{size['size']}",
                "zerogpu",
                f"ZeroGPU ({size['size']})",
                as_list(fact["source"]),
                accelerator=SILICON[fact["accelerator"]],
                count=1,
                fraction=format(size["card_fraction"].normalize(), "f"),
                usd_per_hour="0.00",
                since=rule["gpu_since"],
                rules=["gradio_only", "daily_quota", "hosting_limit"],
                notes="The name kept its A10G; the card is another since the day given. Free within the visitor's daily quota."
                + (" Half a card: half of its memory, compute and bandwidth." if large else " Costs twice the quota of the half card."),
            )
        )
    return rows


def endpoint(fact: dict[str, Any]) -> dict[str, Any]:
    """A row of Inference Endpoints."""
    name = fact["architecture"].removeprefix("NVIDIA ").removeprefix("AWS ").removeprefix("Google ")
    status, _, since = fact["status"].partition(" since ")
    is_retired, count = status == "removed", fact["accelerator_count"]
    notes = ["The price page prints 256 GB per card, more than the card has."] if "vram_note" in fact else []
    notes += [A100_NOTE] if name == "A100" else []
    history = (
        [{"usd_per_hour": money(fact["usd_per_hour_first_listed"]), "since": fact["usd_per_hour_first_listed_on"]}] if is_retired else []
    )
    return offer(
        f"{fact['vendor']}-{fact['instance_type']}-{fact['instance_size']}",
        "endpoints",
        f"{fact['vendor'].upper() if fact['vendor'] != 'azure' else 'Azure'} · {fact['architecture']} · {fact['instance_size']}",
        as_list(fact["source"]),
        accelerator=SILICON[name] if count else None,
        count=count,
        host_cpu=None if count else NAMED_CPU.get(fact["architecture"], HOST_CPU.get(fact.get("vcpu", 0))),
        vcpu=fact.get("vcpu"),
        ram=text(fact.get("memory_gb"), "GB"),
        usd_per_hour=None if is_retired else money(fact["usd_per_hour"]),
        last_usd_per_hour=money(fact["usd_per_hour"]) if is_retired else None,
        price_history=history,
        status="retired" if is_retired else status,
        since=fact.get("status_since") or since or None,
        rules=[] if is_retired else ["subscription"],
        endpoint={
            "vendor": fact["vendor"],
            "instance_type": fact["instance_type"],
            "instance_size": fact["instance_size"],
            "architecture": fact["architecture"],
            "regions": fact.get("regions_documented", []),
        },
        notes=" ".join(notes),
    )


def generation(fact: dict[str, Any]) -> dict[str, Any]:
    """Properties that all slices of a TPU generation share."""
    return {
        "id": fact["generation"],
        "accelerator": SILICON[fact["generation"]],
        "name": fact["marketing_name"],
        "counts": "chips" if fact["accelerator_type_counts"] == "chips" else "cores",
        "runtime_version": fact["runtime_version"],
        "zones": fact["zones_documented_us"] + fact.get("zones_documented_other", []),
        "usd_per_chip_hour": {region: money(price) for region, price in fact["usd_per_chip_hour_by_region"].items()},
    }


def tpu_slices(fact: dict[str, Any]) -> list[dict[str, Any]]:
    """The slices of a generation. A machine as large as the slice, else (v5p, v6e, TPU7x) four-chip machines."""
    machines = {machine["chips"]: machine for machine in fact["machine_types"]}
    price = "gcp-price-2026-09-18" if "gcp-price-2026-09-18" in fact["source"] else "skypilot-catalog"
    keys = sorted(fact["source"], key=lambda name: name != price)
    rows = []
    for piece in fact["slices"]:
        whole = machines.get(piece["chips"])
        unit = whole or (machines[4] if fact["generation"] != "v5e" else None)  # v5e: which machines larger slices use is not stated
        hosts = piece["chips"] // unit["chips"] if unit else int(piece["hosts"])
        rows.append(
            offer(
                piece["accelerator_type"],
                "tpu",
                f"{fact['marketing_name']} {piece['topology']}",
                keys,
                accelerator=SILICON[fact["generation"]],
                count=piece["chips"],
                vcpu=unit["vcpu"] * hosts if unit else None,
                ram=text(unit["memory_gb"] * hosts, "GB") if unit else None,
                usd_per_hour=money(fact["usd_per_chip_hour_us_central1"] * piece["chips"]),
                price_verified=False,
                rules=["cloud_account", "allowlist"] if fact["generation"] == "tpu7x" else ["cloud_account"],
                tpu={
                    "generation": fact["generation"],
                    "topology": piece["topology"],
                    "hosts": hosts,
                    "machine_type": unit["name"] if unit else None,
                },
                notes="The price comes from a secondary copy of Google's list.",
            )
        )
    return rows
