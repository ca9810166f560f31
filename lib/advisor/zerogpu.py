"""ZeroGPU: who may host, and whether the visitors' daily quota carries the traffic.

Quota belongs to the visitor and is counted in GPU seconds a day (`lib.laws.zerogpu_quota`); the account of the workload stands for the
visitors too. How many visitors share a day's requests is not known, so the fewest that could carry them are judged: a visitor waits for one
call before the next, so that there are at least as many as requests at the same time. Every call has a slice of its own. The seconds of a
request are predicted; for pipelines without a prediction they are the published ones of a common pipeline.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from lib.advisor.candidates import Family
from lib.advisor.result import Speed
from lib.advisor.speed import CLIP_S, PICTURE_S
from lib.catalog.offers import Offer
from lib.catalog.rules import ZeroGpuRules
from lib.cost.usage import reservation_values, to_decimal
from lib.laws.zerogpu_quota import calls_per_day, quota_seconds, visitors_needed
from lib.provenance import Reason, Value
from lib.workload import AUTO, Account, Workload

LIGHT_TRAFFIC_VISITORS = 10
"""ZeroGPU is for demos: traffic that needs the whole daily quota of more visitors than this wants hardware of its own. A judgement."""


def forbid_hosting(offer: Offer, rules: ZeroGpuRules, workload: Workload) -> list[Reason]:
    """Everything that forbids hosting on ZeroGPU."""
    obstacles = []
    if "gradio_only" in offer.rules and workload.sdk not in {AUTO, "gradio"}:
        obstacles.append(Reason("zerogpu_gradio_only", {"sdk": workload.sdk}))
    if "hosting_limit" in offer.rules and rules.max_spaces[workload.account] == 0:
        obstacles.append(Reason("zerogpu_needs_account", {"account": workload.account, "free_spaces": rules.max_spaces["free"]}))
    return obstacles


def explain_hosting(rules: ZeroGpuRules, account: Account) -> list[Reason]:
    """How many such Spaces the account may host and on which conditions, and the runs a day that are reported beside the quota."""
    spaces = rules.max_spaces[account]
    reasons = []
    if spaces and account == "free":
        reasons.append(Reason("zerogpu_hosting", {"spaces": spaces, "conditions": ", ".join(rules.free_hosting_conditions)}))
    if account in rules.runs_per_day_reported:
        reasons.append(Reason("zerogpu_runs", {"account": account, "runs": rules.runs_per_day_reported[account]}))
    return [*reasons, Reason("zerogpu_reservation", reservation_values(rules))]


def estimate_gpu_seconds(family: Family, speed: Speed) -> float | None:
    """GPU seconds of one request: predicted, else the published time of a common pipeline for pictures and clips, else the bound."""
    if speed.predicted is not None:
        return speed.predicted.request_s
    return {"image": PICTURE_S, "video": CLIP_S}.get(family, speed.request_s_lower_bound)


def judge_quota(offer: Offer, rules: ZeroGpuRules, workload: Workload, seconds: float | None) -> tuple[Reason, bool]:
    """How the day's requests compare with the quota, and whether they are carried. Without a figure for a request nothing is refused."""
    size = rules.size(offer.id)
    factors: dict[str, Any] = {"duration_factor": size.duration_factor, "multiplier": size.quota_multiplier}
    daily = rules.daily_quota_s[workload.account]
    values: dict[str, Value] = {
        "account": workload.account,
        "quota_s": daily,
        "size": size.size,
        "default_calls": calls_per_day(
            daily_quota_s=daily, call_quota_s=quota_seconds(seconds=Decimal(rules.default_duration_s), **factors)
        ),
        "default_duration_s": rules.default_duration_s,
        "overquota": workload.account in rules.overquota_accounts,
        "overquota_usd_per_gpu_hour": rules.overquota_usd_per_gpu_hour,
        "requests_per_day": workload.requests_per_day,
    }
    if seconds is None:
        return Reason("zerogpu_quota_unknown", values), True
    each = quota_seconds(seconds=to_decimal(seconds), **factors)
    calls = calls_per_day(daily_quota_s=daily, call_quota_s=each) if each > 0 else workload.requests_per_day
    visitors = visitors_needed(calls=workload.requests_per_day, calls_per_visitor=calls)
    values |= {"request_quota_s": float(each), "requests_per_visitor": calls, "visitors": visitors, "most_visitors": LIGHT_TRAFFIC_VISITORS}
    if calls == 0 or visitors > LIGHT_TRAFFIC_VISITORS:
        return Reason("quota_too_small", values), False
    if workload.concurrency > LIGHT_TRAFFIC_VISITORS:
        return Reason("zerogpu_crowd", {"concurrency": workload.concurrency, "most_visitors": LIGHT_TRAFFIC_VISITORS}), False
    return Reason("zerogpu_quota", values), True


def warn_declarations(offer: Offer, rules: ZeroGpuRules, seconds: float | None, weight_bytes: int) -> tuple[Reason, ...]:
    """What to declare: the size when it is not the default or the package would change it, the duration when a call is long."""
    size = rules.size(offer.id)
    reasons = []
    if not size.default:
        reasons.append(Reason("zerogpu_xlarge", {"size": size.size, "multiplier": size.quota_multiplier}))
    elif weight_bytes > rules.auto_xlarge_bytes:
        reasons.append(
            Reason("zerogpu_declare_size", {"weight_bytes": weight_bytes, "limit_bytes": rules.auto_xlarge_bytes, "size": size.size})
        )
    if seconds is not None and seconds > rules.default_duration_s:
        reasons.append(Reason("zerogpu_long_call", {"seconds": seconds, "default_s": rules.default_duration_s}))
    return tuple(reasons)
