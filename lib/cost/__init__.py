"""Cost: an offer and its use → USD per month, request and million tokens, in parts that add up; and where bills cross."""

from __future__ import annotations

from lib.cost.bill import CostEstimate, CostPart, bill_offer, describe_retired_tier, find_retired_tier
from lib.cost.break_even import BreakEvenPoint, TokenPrice, bill_tokens, find_break_even
from lib.cost.usage import Usage, ZeroGpuUse

__all__ = [
    "BreakEvenPoint", "CostEstimate", "CostPart", "TokenPrice", "Usage", "ZeroGpuUse", "bill_offer", "bill_tokens",
    "describe_retired_tier", "find_break_even", "find_retired_tier",
]  # fmt: skip
