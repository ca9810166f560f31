"""What the day's requests need of an offer: how many run at the same time, and how many machines.

    served = open seconds a day / seconds of a request · requests at the same time        machines = ⌈requests a day / served⌉

With a static batch the requests at the same time are those that were stated. A server takes more while its cache holds them and every one
of them stays quick enough: the fewest that serve the day, else those that serve most. ZeroGPU is judged by its quota instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lib.advisor.candidates import SERVERS
from lib.advisor.fit import HostedModel, Placement, Requirements, most_at_once, place_candidate
from lib.advisor.result import Speed
from lib.advisor.speed import attach_bounds, predict_placements
from lib.catalog.offers import Offer
from lib.laws.price import HOUR_S
from lib.provenance import Reason, Value

LEVELS = (2, 4, 8, 16, 32, 64, 128, 256)
"""Requests at the same time that are tried on a server; 256 is the default of max_num_seqs."""
LEAST_TOKENS_PER_S = 5.2  # reading speed, as in `lib.advisor.judge`
LONGEST_WAIT_S = 10.0  # keeps a visitor's attention (Nielsen 1993, Usability Engineering, chapter 5)

Timed = tuple[Offer, Placement, Speed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A placement with its speed at the requests that run at the same time, and the machines that the day takes."""

    placement: Placement
    speed: Speed
    replicas: int = 1
    reasons: tuple[Reason, ...] = ()
    obstacles: tuple[Reason, ...] = ()


def count_served(requirements: Requirements, speed: Speed, at_once: int) -> int | None:
    """Requests a day that one machine serves; `None` where the time of a request is not known."""
    request_s, open_s = speed.request_s, float(requirements.workload.hours_per_day) * HOUR_S
    return int(open_s / request_s * at_once) if request_s and open_s else None


def plan_traffic(timed: Sequence[Timed], requirements: Requirements, model: HostedModel) -> list[Plan]:
    """The plan of each placement; the speeds of all busier servers are predicted together."""
    asked = requirements.workload.requests_per_day
    busy: dict[int, list[Placement]] = {}
    for at, (offer, placement, speed) in enumerate(timed):
        served = count_served(requirements, speed, placement.at_once)
        if offer.platform != "zerogpu" and served is not None and served < asked and placement.candidate.engine in SERVERS:
            busy[at] = _busier(offer, placement, requirements, model)
    pairs = [(timed[at][0], placement) for at, placements in busy.items() for placement in placements]
    estimates = predict_placements(model.spec, requirements.family, pairs, requirements.speed_request, requirements.accelerators)
    predicted = iter(None if one is None else attach_bounds(one) for one in estimates)
    plans = []
    for at, (offer, placement, speed) in enumerate(timed):
        levels = [(placement, speed)]
        for busier in busy.get(at, ()):
            reached = next(predicted)
            if reached is not None and _quick_enough(reached, requirements):
                levels.append((busier, reached))
        plans.append(_plan(offer, levels, requirements))
    return plans


def _busier(offer: Offer, placement: Placement, requirements: Requirements, model: HostedModel) -> list[Placement]:
    """The same configuration with more requests at the same time, as many as fit with the room that there was."""
    device_bytes = placement.headroom.device_bytes
    most = most_at_once(offer, placement.candidate, requirements, model, device_bytes)
    found = []
    for level in LEVELS:
        if placement.at_once < level <= most:
            placed = place_candidate(offer, placement.candidate, requirements, model, device_bytes, level)
            if isinstance(placed, Placement) and placed.headroom.comfortable >= placement.headroom.comfortable:
                found.append(placed)
    return found


def _quick_enough(speed: Speed, requirements: Requirements) -> bool:
    workload = requirements.workload
    rate, ttft_s = speed.tokens_per_s, speed.ttft_s
    fast = rate is None or rate >= (workload.min_tokens_per_s or LEAST_TOKENS_PER_S)
    return fast and (ttft_s is None or ttft_s <= (workload.max_ttft_s or LONGEST_WAIT_S))


def _plan(offer: Offer, levels: Sequence[tuple[Placement, Speed]], requirements: Requirements) -> Plan:
    """The first level that serves the day, else the one that serves most, on as many machines as that takes."""
    asked = requirements.workload.requests_per_day
    placement, speed = levels[0]
    served = count_served(requirements, speed, placement.at_once)
    if served is None or served >= asked or offer.platform == "zerogpu":
        return Plan(placement=placement, speed=speed)
    counted = [(count_served(requirements, one, of.at_once) or 0, of, one) for of, one in levels]
    enough = [level for level in counted if level[0] >= asked]
    served, placement, speed = enough[0] if enough else max(counted, key=lambda level: level[0])
    values: dict[str, Value] = {"requests_per_day": asked, "served": served, "concurrency": placement.at_once}
    if served >= asked:
        return Plan(placement=placement, speed=speed, reasons=(Reason("traffic_in_flight", values),))
    rules = requirements.rules.sleep
    if served == 0 or (offer.usd_per_hour == 0 and rules.replicas_paid_only):
        return Plan(placement=placement, speed=speed, obstacles=(Reason("traffic_exceeds", values),))
    replicas = math.ceil(asked / served)
    return Plan(placement=placement, speed=speed, replicas=replicas, reasons=(Reason("replicas_needed", values | {"replicas": replicas}),))
