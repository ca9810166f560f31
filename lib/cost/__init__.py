"""What it costs: an offer and its use → USD per month, request and million tokens, in parts that add up; and where bills cross."""

from __future__ import annotations

from lib.cost.bill import cost
from lib.cost.break_even import BreakEvenPoint, find_break_even
from lib.cost.result import CostEstimate, CostPart, ZeroGpuUse
from lib.cost.tokens import TokenPrice, describe_retired_tier, per_token, retired_tier
from lib.cost.usage import Usage

__all__ = [
    "BreakEvenPoint",
    "CostEstimate",
    "CostPart",
    "TokenPrice",
    "Usage",
    "ZeroGpuUse",
    "cost",
    "describe_retired_tier",
    "find_break_even",
    "per_token",
    "retired_tier",
]
