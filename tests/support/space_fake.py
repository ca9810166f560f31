"""Answers about a Space, shaped as the services give them, with some fields changed."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from lib.answers.spaces import ConsideredModel, CurrentTier
from lib.provenance import Reason


def status(**changed: Any) -> dict[str, Any]:
    """A running Space on a T4, as `/space_status` answers."""
    return {
        "space": "ada/chat",
        "sdk": "gradio",
        "private": False,
        "stage": "RUNNING",
        "stage_message": "It is running.",
        "settled": True,
        "failed": False,
        "error": None,
        "billed_now": True,
        "hardware": "t4-small",
        "hardware_name": "Nvidia T4 - small",
        "usd_per_hour": 0.4,
        "usd_per_month": 288.0,
        "requested_hardware": "t4-small",
        "requested_usd_per_hour": 0.4,
        "requested_usd_per_month": 288.0,
        "changing": False,
        "sleep_time_s": 3600,
        "sleep_message": "It sleeps after 1 hour without a visit.",
        "replicas": 1,
        "requested_replicas": 1,
        "total_usd_per_hour": 0.4,
        "total_usd_per_month": 288.0,
        "storage": None,
        "volumes": [],
        "models": ["Qwen/Qwen3-8B"],
        "prices": {"basis": "bundled", "checked": "2026-11-21"},
        "caveats": [],
        "sources": [],
    } | changed


def progress(**changed: Any) -> dict[str, Any]:
    """The Space while it is watched."""
    return status(elapsed_s=4.0, done=False, arrived=False, trouble=None) | changed


def preview(**changed: Any) -> dict[str, Any]:
    """A switch from the T4 to an L4: 0.80 − 0.40 = 0.40 USD more an hour, × 720 hours = 288 a month."""
    return {
        "space": "ada/chat",
        "action": "switch",
        "stage": "RUNNING",
        "stage_message": "It is running.",
        "before": {
            "hardware": "t4-small",
            "name": "Nvidia T4 - small",
            "usd_per_hour": 0.4,
            "usd_per_month": 288.0,
            "sleep_time_s": 3600,
        },
        "after": {"hardware": "l4x1", "name": "1x Nvidia L4", "usd_per_hour": 0.8, "usd_per_month": 576.0, "sleep_time_s": -1},
        "confirm_usd_per_hour": 0.8,
        "change_usd_per_hour": 0.4,
        "change_usd_per_month": 288.0,
        "replicas": 1,
        "effects": ["The app restarts."],
        "caveats": [{"code": "sleep_changes", "message": "It will never sleep."}],
    } | changed


def size(**changed: Any) -> Any:
    """A right size as `/right_size` answers: an L4 in place of an A100, 1800 − 576 = 1224 USD less."""
    cost = SimpleNamespace(usd_per_hour=Decimal("0.8"), total_usd_per_month=Decimal(576))
    current = CurrentTier(
        hardware="a100-large",
        name="Nvidia A100 - large",
        usd_per_hour=Decimal("2.5"),
        total_usd_per_month=Decimal(1800),
        fits=True,
        reason="It has room.",
        entry=None,
    )
    answer: dict[str, Any] = {
        "model": "Qwen/Qwen3-8B",
        "models": (ConsideredModel(id="Qwen/Qwen3-8B", total_bytes=18 * 2**30),),
        "decision": "move",
        "current": current,
        "pick": SimpleNamespace(hardware="l4x1", name="1x Nvidia L4", platform="spaces", cost=cost),
        "saving_usd_per_month": Decimal(1224),
        "reasons": (Reason("saves", {"current": "a100-large", "pick": "l4x1", "usd_per_month": 1224}),),
        "caveats": (),
    }
    return SimpleNamespace(**answer | changed)
