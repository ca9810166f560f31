"""Answers about a Space as the services give them, with some fields changed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from lib.answers.spaces import ActionAnswer, ActionPreview, ConsideredModel, CurrentTier, SpaceProgress, SpaceStatus, TierEntry
from lib.catalog import PriceState
from lib.provenance import Caveat, Reason

PRICES = PriceState(basis="bundled", checked="2026-11-21", newest="2026-11-21")
USD, MONTH = Decimal("0.4"), Decimal(288)
_RUNNING: dict[str, Any] = {
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
    "usd_per_hour": USD,
    "usd_per_month": MONTH,
    "requested_hardware": "t4-small",
    "requested_usd_per_hour": USD,
    "requested_usd_per_month": MONTH,
    "changing": False,
    "sleep_time_s": 3600,
    "sleep_message": "It sleeps after 1 hour without a visit.",
    "replicas": 1,
    "requested_replicas": 1,
    "total_usd_per_hour": USD,
    "total_usd_per_month": MONTH,
    "storage": None,
    "volumes": (),
    "models": ("Qwen/Qwen3-8B",),
    "prices": PRICES,
}


def status(**changed: Any) -> SpaceStatus:
    """A running Space on a T4, as `/space_status` answers."""
    return SpaceStatus(**_RUNNING | changed)


def progress(**changed: Any) -> SpaceProgress:
    """The Space while it is watched."""
    return SpaceProgress(**_RUNNING | {"elapsed_s": 4.0, "done": False, "arrived": False, "trouble": None} | changed)


def acted(**changed: Any) -> ActionAnswer:
    """The Space right after an action."""
    answer = {name: value for name, value in _RUNNING.items() if name in ActionAnswer.__dataclass_fields__}
    return ActionAnswer(**answer | changed)


def preview(**changed: Any) -> ActionPreview:
    """A switch from the T4 to an L4: 0.80 − 0.40 = 0.40 USD more an hour, × 720 hours = 288 a month."""
    seen = ActionPreview(
        space="ada/chat",
        action="switch",
        stage="RUNNING",
        stage_message="It is running.",
        before=TierEntry(hardware="t4-small", name="Nvidia T4 - small", usd_per_hour=USD, usd_per_month=MONTH, sleep_time_s=3600),
        after=TierEntry(hardware="l4x1", name="1x Nvidia L4", usd_per_hour=2 * USD, usd_per_month=2 * MONTH, sleep_time_s=-1),
        confirm_usd_per_hour=2 * USD,
        change_usd_per_hour=USD,
        change_usd_per_month=MONTH,
        replicas=1,
        effects=("The app restarts.",),
        prices=PRICES,
        caveats=(Caveat("sleep_changes", {"before_s": 3600, "after_s": -1}, variant="never"),),
    )
    return replace(seen, **changed)


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
