"""Needs of the day's requests on an offer: how many run at the same time, how many machines, and on ZeroGPU how much quota.

    served = 0.8 · open seconds a day / seconds of a request · requests at the same time          (`lib.laws.price`: FULL_UTILISATION)
    machines = max(⌈requests a day / served⌉, ⌈stated requests at the same time / those of one machine⌉)

With a static batch the requests at the same time are those that were stated. A server takes more while its cache holds them and every one
of them stays quick enough, and fewer if it does not: the load that takes the fewest machines. ZeroGPU is judged by its quota instead.

ZeroGPU: who may host, and whether the visitors' daily quota carries the traffic. Quota belongs to the visitor and is counted in GPU
seconds a day (`lib.laws.price`), by the plan of the visitors, or else of the host. Where the visitors of a day are stated, their quota has
to carry the requests. If they are not, the answer names how many it takes. Above a ceiling of GPU time a day (`MOST_GPU_S_PER_DAY`)
calls would queue, and paid hardware is advised. Every call has a slice of its own. The seconds of a request are predicted; for pipelines
without a prediction they are the published ones of a common pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from lib.advisor.bands import usable_limits
from lib.advisor.candidates import SERVERS
from lib.advisor.fit import JudgeContext, Placement, max_concurrency, place_candidate
from lib.advisor.result import Speed
from lib.advisor.speed import CLIP_S, PICTURE_S, attach_bounds, predict_placements
from lib.catalog.offers import Hardware
from lib.catalog.rules import ZeroGpuRules
from lib.cost.usage import (
    LEAST_CALLS_PER_VISITOR,
    LIGHT_TRAFFIC_VISITORS,
    LOADS,
    MOST_GPU_S_PER_DAY,
    find_zerogpu_obstacle,
    most_requests,
    reservation_values,
    to_decimal,
    zerogpu_caveats,
)
from lib.laws.price import FULL_UTILISATION, HOUR_S, calls_per_day, quota_seconds, visitors_needed
from lib.provenance import Reason, Value
from lib.request.types import AUTO
from lib.workload import Family, Workload, visitors_plan

LONGEST_WAIT_S = 10.0  # keeps a visitor's attention (Nielsen 1993, Usability Engineering, chapter 5)

Timed = tuple[Hardware, Placement, Speed, JudgeContext]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A placement with its speed at the requests that run at the same time, and the machines that the day takes."""

    placement: Placement
    speed: Speed
    replicas: int = 1
    reasons: tuple[Reason, ...] = ()
    obstacles: tuple[Reason, ...] = ()


def count_served(context: JudgeContext, speed: Speed, concurrency: int) -> int | None:
    """Requests a day that one machine serves while it is planned to be filled; `None` if the time of a request is not known."""
    request_s, open_s = speed.likely_request_s, float(context.workload.hours_per_day) * HOUR_S
    return int(float(FULL_UTILISATION) * open_s / request_s * concurrency) if request_s and open_s else None


def plan_traffic(timed: Sequence[Timed]) -> list[Plan]:
    """The plan of each placement; the speeds of all servers at other loads are predicted together."""
    others = [_other_loads(*of) for of in timed]
    asked = [(offer, other, context) for (offer, _, _, context), placements in zip(timed, others, strict=True) for other in placements]
    predicted = iter(None if estimate is None else attach_bounds(estimate) for estimate in predict_placements(asked))
    plans = []
    for (offer, placement, speed, context), placements in zip(timed, others, strict=True):
        loads = [(placement, speed)]
        for other in placements:
            reached = next(predicted)
            if reached is not None and _quick_enough(reached, context):
                loads.append((other, reached))
        if len(loads) > 1 and not _quick_enough(speed, context):
            del loads[0]
        chosen = _hold(offer, (placement, speed), loads, context) if placements else loads[0]
        plans.append(_plan(offer, chosen, context))
    return plans


def _hold(
    offer: Hardware, at_hand: tuple[Placement, Speed], loads: list[tuple[Placement, Speed]], context: JudgeContext
) -> tuple[Placement, Speed]:
    """The load that takes the fewest machines, of several the smallest, and leaves as much room as the placement at hand."""
    placement = at_hand[0]
    loads = sorted(loads, key=lambda load: (count_machines(offer, load, context), load[0].concurrency))
    for load, speed in loads:
        if load is placement:
            return load, speed
        device_bytes = placement.headroom.device_bytes
        other = place_candidate(offer, load.candidate, context, context.hosted, device_bytes, load.concurrency)
        if isinstance(other, Placement) and other.headroom.comfortable >= placement.headroom.comfortable:
            return other, speed
    return at_hand


def count_machines(offer: Hardware, load: tuple[Placement, Speed], context: JudgeContext) -> int:
    """Machines that the day's requests and those at the same time take."""
    requests, together = context.workload.requests_per_day, context.concurrency(offer)
    served = count_served(context, load[1], load[0].concurrency)
    of_day = 1 if served is None else math.ceil(requests / served) if served else requests
    return max(1, of_day, math.ceil(together / load[0].concurrency))


def _other_loads(offer: Hardware, placement: Placement, speed: Speed, context: JudgeContext) -> list[Placement]:
    """The same configuration at other loads: more at a time where the day's requests want it, fewer where each would be too slow."""
    if placement.candidate.engine not in SERVERS:
        return []
    served, requests = count_served(context, speed, placement.concurrency), context.workload.requests_per_day
    more = served is not None and served < requests
    fewer = placement.concurrency > 1 and not _quick_enough(speed, context)
    if not more and not fewer:
        return []
    device_bytes = placement.headroom.device_bytes
    most = max_concurrency(offer, placement.candidate, context, context.hosted, device_bytes) if more else placement.concurrency
    levels = [level for level in LOADS if (more and placement.concurrency < level <= most) or (fewer and level < placement.concurrency)]
    return [replace(placement, concurrency=level) for level in levels]


def _quick_enough(speed: Speed, context: JudgeContext) -> bool:
    workload = context.workload
    rate, ttft_s = speed.tokens_per_s, speed.ttft_s
    fast = rate is None or rate >= (workload.min_tokens_per_s or usable_limits("generate")["tokens_per_s"])
    return fast and (ttft_s is None or ttft_s <= (workload.max_ttft_s or LONGEST_WAIT_S))


def _plan(offer: Hardware, load: tuple[Placement, Speed], context: JudgeContext) -> Plan:
    """Effect of the load on the offer: machines, or the traffic that it cannot serve."""
    daily, together = context.workload.requests_per_day, context.concurrency(offer)
    placement, speed = load
    if offer.traits.per_call:
        return Plan(placement=placement, speed=speed)
    replicas = count_machines(offer, load, context)
    served = count_served(context, speed, placement.concurrency)
    values: dict[str, Value] = {
        "requests_per_day": daily,
        "served": served or 0,
        "concurrency": placement.concurrency,
        "together": together,
        "replicas": replicas,
        "used_percent": 100 * FULL_UTILISATION,
    }
    if replicas == 1:
        busier = (Reason("traffic_in_flight", values),) if placement.concurrency > together else ()
        return Plan(placement=placement, speed=speed, reasons=busier)
    alone = not offer.usd_per_hour and (offer.traits.owned or context.rules.sleep.replicas_paid_only)
    if served == 0 or alone:
        return Plan(
            placement=placement, speed=speed, obstacles=(Reason("traffic_exceeds", values, variant="own" if offer.traits.owned else ""),)
        )
    variant = "together" if served is None or served * (replicas - 1) >= daily else ""
    reasons = [Reason("replicas_needed", values, variant=variant)]
    if not offer.traits.shares_address:
        reasons.append(Reason("no_common_address", {"platform": offer.traits.label}))
    return Plan(placement=placement, speed=speed, replicas=replicas, reasons=tuple(reasons))


FELT_PERCENT = 40
"""Utilisation from which the answer says what happens while a replica is away: half of that planned for."""


def describe_reserve(offer: Hardware, speed: Speed, replicas: int, context: JudgeContext) -> Reason | None:
    """Utilisation of the replicas, and the effect on requests while one of them is away; None if that is not known or not felt."""
    served = count_served(context, speed, speed.concurrency or 1)
    if not served or not offer.usd_per_hour or offer.traits.per_call or offer.traits.owned:
        return None
    full = served / float(FULL_UTILISATION)
    busy = context.workload.requests_per_day / full
    values: dict[str, Value] = {
        "busy_percent": round(100 * busy / replicas),
        "planned_percent": int(100 * FULL_UTILISATION),
        "replicas": replicas,
        "spare_replicas": replicas + 1,
    }
    if 100 * busy < FELT_PERCENT * replicas:
        return None
    if replicas == 1:
        return Reason("replica_reserve", values, variant="one")
    left = busy / (replicas - 1)
    values |= {"left_percent": round(100 * left), "served_percent": min(100, int(100 / left))}
    return Reason("replica_reserve", values, variant="holds" if left <= 1 else "")


def forbid_hosting(offer: Hardware, rules: ZeroGpuRules, workload: Workload) -> list[Reason]:
    """Everything that forbids hosting on ZeroGPU."""
    obstacles = []
    if "gradio_only" in offer.rules and workload.sdk not in {AUTO, "gradio"}:
        obstacles.append(Reason("zerogpu_gradio_only", {"sdk": workload.sdk}))
    if "hosting_limit" in offer.rules and rules.max_spaces[workload.account] == 0:
        obstacles.append(Reason("zerogpu_needs_account", {"account": workload.account, "free_spaces": rules.max_spaces["free"]}))
    return obstacles


def explain_hosting(rules: ZeroGpuRules, workload: Workload) -> list[Reason]:
    """How many such Spaces the account may host and on which conditions, and the basis of the quota's figures."""
    spaces = rules.max_spaces[workload.account]
    reasons = []
    if spaces and workload.account == "free":
        reasons.append(Reason("zerogpu_hosting", {"spaces": spaces, "conditions": ", ".join(rules.free_hosting_conditions)}))
    assumed = (
        Reason(f"zerogpu_{caveat.code}", caveat.values) for caveat in zerogpu_caveats(rules, workload.account, workload.visitor_account)
    )
    return [*reasons, *assumed, Reason("zerogpu_reservation", reservation_values(rules))]


def estimate_gpu_seconds(family: Family, speed: Speed) -> float | None:
    """GPU seconds of one request: predicted, else the published time of a common pipeline for pictures and clips, else the bound."""
    if speed.predicted is not None:
        return speed.predicted.request_s
    return {"image": PICTURE_S, "video": CLIP_S}.get(family, speed.request_s_lower_bound)


def judge_quota(offer: Hardware, rules: ZeroGpuRules, workload: Workload, seconds: float | None) -> tuple[Reason, bool]:
    """How the day's requests compare with the quota, and whether they are carried. Without a figure for a request nothing is refused."""
    # The quota of the visitors' plan.
    plan, size = visitors_plan(workload.account, workload.visitor_account), rules.size(offer.id)
    factors: dict[str, Any] = {"duration_factor": size.duration_factor, "multiplier": size.quota_multiplier}
    daily = rules.daily_quota_s[plan]
    values: dict[str, Value] = {
        "account": plan,
        "quota_s": daily,
        "size": size.size,
        "default_calls": calls_per_day(
            daily_quota_s=daily, call_quota_s=quota_seconds(seconds=Decimal(rules.default_duration_s), **factors)
        ),
        "default_duration_s": rules.default_duration_s,
        "overquota": plan in rules.overquota_accounts,
        "overquota_usd_per_gpu_hour": rules.overquota_usd_per_gpu_hour,
        "requests_per_day": workload.requests_per_day,
    }
    if seconds is None:
        return Reason("zerogpu_quota_unknown", values), True
    # Calls a day of one visitor: by seconds of quota, and by the number of runs.
    gpu_s, visitors = to_decimal(seconds), workload.visitors_per_day
    shared_s = gpu_s * size.quota_multiplier
    each, runs = quota_seconds(seconds=gpu_s, **factors), rules.runs_per_day_reported.get(plan)
    by_quota = calls_per_day(daily_quota_s=daily, call_quota_s=each) if each > 0 else workload.requests_per_day
    calls = by_quota if runs is None else min(by_quota, runs)
    values |= {
        "request_quota_s": float(each),
        "requests_per_visitor": calls,
        "requests_by_quota": by_quota,
        "visitors": visitors_needed(calls=workload.requests_per_day, calls_per_visitor=calls),
        "visitors_per_day": visitors,
        "gpu_s": float(shared_s * workload.requests_per_day),
        "most_gpu_s": MOST_GPU_S_PER_DAY,
    }
    variant = "stated" if visitors else "runs" if calls < by_quota else ""
    most = most_requests(calls, shared_s, visitors) if each > 0 else workload.requests_per_day
    obstacle = find_zerogpu_obstacle(
        calls=calls, requests_per_day=workload.requests_per_day, visitors_per_day=visitors, most=most, concurrency=workload.concurrency
    )
    if obstacle is not None:
        few: dict[str, Value] = {**values, "least": LEAST_CALLS_PER_VISITOR}
        crowd: dict[str, Value] = {"concurrency": workload.concurrency, "most_visitors": LIGHT_TRAFFIC_VISITORS}
        reasons = {
            "quota": Reason("quota_too_small", values, variant=variant),
            "few_calls": Reason("quota_too_small", few, variant="few"),
            "busy": Reason("zerogpu_busy", values),
            "crowd": Reason("zerogpu_crowd", crowd),
        }
        return reasons[obstacle], False
    values["used_percent"] = math.ceil(100 * workload.requests_per_day / most) if most else 0
    return Reason("zerogpu_quota", values, variant=variant), True


def warn_near_limit(quota: Reason, workload: Workload) -> tuple[Reason, ...]:
    """A warning where the day's requests leave less free than other machines keep.

    Of the advised GPU time, if several requests arrive together; of the quota of stated visitors, who do not share them evenly.
    """
    used, gpu_s = quota.values.get("used_percent", 0), quota.values.get("gpu_s", 0.0)
    if not isinstance(used, int) or not isinstance(gpu_s, float) or used <= 100 * FULL_UTILISATION:
        return ()
    by_time = gpu_s > float(FULL_UTILISATION) * MOST_GPU_S_PER_DAY
    if by_time and workload.concurrency == 1:
        return ()
    values = {**quota.values, "planned_percent": int(100 * FULL_UTILISATION)}
    return (Reason("zerogpu_near_limit", values, variant="" if by_time else "visitors"),)


def warn_declarations(offer: Hardware, rules: ZeroGpuRules, seconds: float | None, weight_bytes: int) -> tuple[Reason, ...]:
    """Declarations in the code: the size when it is not the default or the package would change it, the duration when a call is long."""
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
