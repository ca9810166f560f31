"""What hardware serves: requests a day, the replicas that a traffic needs, and how many requests at a time make a token cheapest.

    n = h · 3600 · k · r / t        served per day        R = ⌈N · t / (h · 3600 · k)⌉        replicas that N requests a day need

    h  hours a day      k  requests at a time of one replica      r  replicas      t  seconds of a request (`lib.cost.usage`)

t is the time with k requests in flight all the time, so both are those of a machine that is busy throughout; requests that come in bursts
need more (`lib.cost.compare` plans with 80 %).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal

from lib.catalog.offers import Offer
from lib.cost.result import BestLoad, Capacity
from lib.cost.usage import Usage, request_seconds, to_decimal
from lib.laws.price import HOUR_S, answer_price
from lib.speed import SpeedEstimate

TARGET_TTFT_S, TARGET_TPOT_S = 2.0, 0.2
"""Means that a full server has to keep, a judgement: a first token within 2 s, and then about the speed of reading (5 tokens/s)."""
LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Requests at a time that are tried."""


def measure_capacity(offer: Offer, usage: Usage, speed: SpeedEstimate | None) -> Capacity | None:
    """`None` on ZeroGPU, which has no replicas of its owner's, and where the time of a request is not known."""
    seconds = request_seconds(usage, speed)
    each = usage.hours_per_day * HOUR_S * usage.concurrency
    if offer.platform == "zerogpu" or seconds is None or seconds <= 0 or each <= 0:
        return None
    needed = math.ceil(usage.requests_per_day * seconds / each)
    return Capacity(requests_per_day=each * usage.replicas / seconds, replicas_needed=max(usage.replicas, needed))


def measure_utilisation(usage: Usage, speed: SpeedEstimate | None, billed_hours: Decimal) -> Decimal | None:
    """Share of the billed time in which requests are served, above 1 when they cannot all be; `None` when it is not known."""
    seconds = request_seconds(usage, speed)
    if seconds is None or billed_hours <= 0 or usage.requests_per_day <= 0:
        return None
    return usage.requests_per_month * seconds / (billed_hours * HOUR_S * usage.concurrency)


def find_best_load(usd_per_hour: Decimal, speeds: Iterable[SpeedEstimate]) -> BestLoad | None:
    """The cheapest of these loads of one machine that keeps the targets; the smaller one where two cost the same."""
    kept = [load for load in map(_keep_targets, speeds) if load is not None]
    best = max(kept, key=lambda load: (load[0], -load[1].request.concurrency), default=None)
    if best is None:
        return None
    rate, speed, tpot_s = best
    return BestLoad(
        concurrency=speed.request.concurrency,
        ttft_s=speed.ttft_s.value,
        tpot_s=tpot_s,
        tokens_per_s=rate,
        request_s=speed.request_s,
        usd_per_million_output_tokens=answer_price(usd_per_hour=usd_per_hour, tokens_per_s=to_decimal(rate)),
    )


def _keep_targets(speed: SpeedEstimate) -> tuple[float, SpeedEstimate, float] | None:
    rate = speed.output_tokens_per_s
    if rate is None or speed.tpot_s is None or speed.ttft_s.value > TARGET_TTFT_S or speed.tpot_s.value > TARGET_TPOT_S:
        return None
    return rate.value, speed, speed.tpot_s.value
