"""`/zerogpu_quota`: the seconds that a call on ZeroGPU reserves, whether it passes, and the decorator to write.

The order of the checks and their messages are those of spaces 0.51.3 (spaces/zero/client.py, read 2026-11-26). The Hub
answers the rest of the quota to the caller's own token, which is used for this request alone.
"""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import Annotated, Literal

from lib.answers.zerogpu import QuotaLeft, Verdict, ZeroGpuQuotaAnswer
from lib.catalog.rules import ZeroGpuRules, ZeroGpuSize
from lib.hub.space_answers import ZeroGpuQuota
from lib.laws.price import calls_per_day, declared_seconds, quota_seconds, requested_quota_seconds
from lib.provenance import Reason, Source, Value
from lib.request.fields import Arguments, number, one_of
from lib.request.types import AUTO, Account
from lib.service.endpoint import App, endpoint

SizeName = Literal["auto", "large", "xlarge"]
LONGEST_CALL_S, LARGEST_GB = 86_400, 10_000
_GB = 10**9


class ZeroGpuArguments(Arguments):
    """Arguments of `/zerogpu_quota`."""

    call_s: Annotated[float, number(0, LONGEST_CALL_S)] = 0
    """Seconds that one call takes on the GPU, as measured; 0: not known, the platform's default is declared."""
    size: Annotated[SizeName, one_of(("auto", "large", "xlarge"), SizeName)] = AUTO
    """Size that the function asks for; auto: the one that the platform takes for the weights."""
    weights_gb: Annotated[float, number(0, LARGEST_GB)] = 0
    """Gigabytes (10^9 bytes) of weights that are put on the GPU at start; they decide the size if none is named."""
    account: Account = "free"
    """The visitor's plan, if no token asks the Hub."""


@endpoint()
def zerogpu_quota(app: App, arguments: ZeroGpuArguments, *, token: str | None = None) -> ZeroGpuQuotaAnswer:
    """Seconds that a ZeroGPU call reserves of the visitor's quota, whether it passes, and what to write in @spaces.GPU.

    Returns:
        The decorator, the seconds that are reserved and charged, the rest of your quota with your token, and each check with its refusal.
    """
    rules = app.catalog().rules.zerogpu
    size = _size(rules, arguments)
    left = app.spaces(token).zero_gpu_quota() if token else None
    declared = declared_seconds(call_s=arguments.call_s) if arguments.call_s else rules.default_duration_s
    factors = {"duration_factor": size.duration_factor, "multiplier": size.quota_multiplier}
    reserved = requested_quota_seconds(declared_s=declared, **factors)  # type: ignore[arg-type]  # a Decimal and a whole number
    taken = Decimal(str(arguments.call_s)) if arguments.call_s else Decimal(declared)
    charged = quota_seconds(seconds=taken, **factors)  # type: ignore[arg-type]  # the same
    daily = rules.daily_quota_s[arguments.account] if left is None else int(left.base_s)
    runs = rules.runs_per_day_reported.get(arguments.account)
    free = daily if left is None else int(left.remaining_s)
    verdict = _judge(reserved, daily, left)
    return ZeroGpuQuotaAnswer(
        account=arguments.account,
        size=size.size,
        declared_s=declared,
        declaration=f'@spaces.GPU(duration={declared}, size="{size.size}")',
        reserved_s=reserved,
        charged_s=charged,
        daily_quota_s=daily,
        calls_a_day=calls_per_day(daily_quota_s=daily, call_quota_s=charged, reserved_s=reserved, runs=runs),
        runs_a_day_reported=runs,
        longest_call_s=rules.max_duration_s,
        longest_declared_s=int(free / (size.duration_factor * size.quota_multiplier)),
        left=None if left is None else _show(left),
        verdict=verdict,
        checks=tuple(_checks(rules, size, arguments, declared, reserved, daily, left)),
        sources=_sources(rules),
    )


def _size(rules: ZeroGpuRules, arguments: ZeroGpuArguments) -> ZeroGpuSize:
    """The size that is named, else the one that the package takes for the weights."""
    if arguments.size != AUTO:
        return rules.size(arguments.size)
    large = arguments.weights_gb * _GB > rules.auto_xlarge_bytes
    return next(size for size in rules.sizes if size.default is not large)


def _judge(reserved: int, daily: int, left: ZeroGpuQuota | None) -> Verdict:
    if reserved > daily:
        return "never"
    if left is None:
        return "unknown"
    return "passes" if reserved <= left.remaining_s else "waits"


def _show(left: ZeroGpuQuota) -> QuotaLeft:
    resets = None if left.resets_at is None else left.resets_at.astimezone(UTC).isoformat(timespec="seconds")
    return QuotaLeft(base_s=left.base_s, remaining_s=left.remaining_s, resets_at=resets, overquota_used_s=left.overquota_used_s)


def _checks(
    rules: ZeroGpuRules, size: ZeroGpuSize, arguments: ZeroGpuArguments, declared: int, reserved: int, daily: int, left: ZeroGpuQuota | None
) -> list[Reason]:
    """The platform's checks, in its order."""
    plan = arguments.account
    sized: dict[str, Value] = {
        "size": size.size, "declared_s": declared, "reserved_s": reserved,
        "factor": size.duration_factor * size.quota_multiplier, "limit_bytes": rules.auto_xlarge_bytes,
    }  # fmt: skip
    told: dict[str, Value] = {"reserved_s": reserved, "daily_quota_s": daily}
    if left is not None:
        told["left_s"] = int(left.remaining_s)
        if left.resets_at is not None:
            told["resets_at"] = left.resets_at.astimezone(UTC).isoformat(sep=" ", timespec="minutes")
    fits = "never" if reserved > daily else "" if left is None else "passes" if reserved <= left.remaining_s else "waits"
    runs = rules.runs_per_day_reported.get(plan)
    paid: dict[str, Value] = {"account": plan, "usd_per_gpu_hour": rules.overquota_usd_per_gpu_hour}
    counted = Reason("zerogpu_check_runs", {"account": plan}, variant="unknown")
    return [
        Reason("zerogpu_check_size", sized, variant="" if size.default else "whole"),
        Reason("zerogpu_check_cap", {"account": plan}),
        Reason("zerogpu_check_left", told, variant=f"{fits}_then" if fits == "waits" and "resets_at" in told else fits),
        counted if runs is None else Reason("zerogpu_check_runs", {"account": plan, "runs": runs}),
        Reason("zerogpu_check_credits", paid, variant="" if plan in rules.overquota_accounts else "none"),
        Reason("zerogpu_check_identity", {"anonymous_s": rules.daily_quota_s["anonymous"]}),
    ]


def _sources(rules: ZeroGpuRules) -> tuple[Source, ...]:
    client = Source(what="Order and messages of the checks", source="PyPI spaces 0.51.3, spaces/zero/client.py", checked="2026-11-26")
    return (client, *rules.sources)
