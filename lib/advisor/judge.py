"""One offer, one verdict: the best configuration that fits, or what stands in the way.

The order of questions: may this account run it · does it cost more than the budget · does an engine drive this silicon · does a
configuration fit memory and disk (the first with room to spare, else the first that fits at all) · is it quick enough, as predicted ·
does the quota carry the traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lib.advisor import cpu, zerogpu
from lib.advisor.candidates import Candidate
from lib.advisor.case import Case
from lib.advisor.cost import DAYS_PER_MONTH, cost_of, monthly
from lib.advisor.fits import Fit, Fits, fitting
from lib.advisor.forecast import Key, key, pace, predictions
from lib.advisor.reasons import configuration_reasons, offer_reasons
from lib.advisor.result import Cost, Entry, Prediction, Reason, Rejection, Speed
from lib.advisor.room import Room
from lib.advisor.speed import machine, speed
from lib.estimate import capacity
from lib.model.spec import ModelSpec
from lib.offer import Offer
from lib.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A configuration with the room it leaves, its speed, and what makes it too slow, if anything."""

    candidate: Candidate
    room: Room
    speed: Speed
    remark: Reason | None
    slow: bool


def judge_all(offers: Sequence[Offer], case: Case) -> list[Entry | Rejection]:
    """The verdict on each offer; their speeds are predicted together, since that takes hardly longer than one."""
    tried = [_tried(offer, case) for offer in offers]
    found: Mapping[Key, Prediction] = {}
    if case.model is not None:
        asked = [(offer, fit.candidate) for offer, one in zip(offers, tried, strict=True) if isinstance(one, Fits) for fit in one.fits]
        found = predictions(case.model.spec, case.family, asked, case.shape)
    return [_verdict(offer, case, one, found) for offer, one in zip(offers, tried, strict=True)]


def _tried(offer: Offer, case: Case) -> Fits | Reason | None:
    """What fits on the offer, or what forbids it; `None` where the Space runs no model."""
    if not offer.listed:
        return Reason("retired", {"since": offer.since or ""})
    reason = _forbidden(offer, case)
    if reason is not None or case.model is None:
        return reason
    return fitting(offer, case, case.model)


def _verdict(offer: Offer, case: Case, tried: Fits | Reason | None, found: Mapping[Key, Prediction]) -> Entry | Rejection:
    if tried is None or case.model is None:
        return Rejection(offer=offer, reason=tried) if isinstance(tried, Reason) else _idle(offer, case)
    best = tried if isinstance(tried, Reason) else _best(offer, case, case.model.spec, tried, found)
    if isinstance(best, Reason):
        return Rejection(offer=offer, reason=best)
    return _with_quota(offer, case, cost_of(offer, case.workload, case.rules, best.speed.predicted), best)


def _forbidden(offer: Offer, case: Case) -> Reason | None:
    account = case.workload.account
    hosting = zerogpu.hosting(offer, case.rules.zerogpu, case.workload, case.sdk)
    if hosting is not None:
        return hosting
    if "paid_plan_to_create" in offer.rules and not case.rules.accounts.may_create_cpu_basic(account):
        return Reason("cpu_basic_needs_plan", {"account": account})
    limit, price = case.workload.max_usd_per_month, monthly(offer, case.workload)
    if limit and price > limit:
        return Reason("over_budget", {"usd_per_month": price, "limit_usd": limit, "days": DAYS_PER_MONTH})
    return None


def _idle(offer: Offer, case: Case) -> Entry:
    """The model runs elsewhere: any hardware serves the page."""
    cost = cost_of(offer, case.workload, case.rules)
    spared = (Reason("zerogpu_no_quota_used"),) if "daily_quota" in offer.rules else ()
    return Entry(
        offer=offer,
        precision="",
        engine="provider",
        devices=0,
        step=0,
        memory=None,
        capacity_bytes=capacity(offer),
        free_bytes=capacity(offer),
        speed=Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=None, peak_flops_per_s=None, basis="runs elsewhere"),
        cost=cost,
        verdict="comfortable",
        reasons=(Reason("runs_elsewhere"), *spared, *offer_reasons(offer, case.rules, cost)),
    )


def _best(offer: Offer, case: Case, spec: ModelSpec, of: Fits, found: Mapping[Key, Prediction]) -> Tried | Reason:
    """The first configuration with room to spare that is not too slow, else the first that fits and is not too slow, else why none."""
    second: Tried | None = None
    slow: Reason | None = None
    for fit in of.fits:
        tried = _timed(offer, case, spec, fit, found.get(key(offer, fit.candidate)))
        if tried.slow:
            slow = tried.remark
        elif fit.room.comfortable:
            return tried
        else:
            second = second or tried
    return second or slow or of.otherwise


def _timed(offer: Offer, case: Case, spec: ModelSpec, fit: Fit, predicted: Prediction | None) -> Tried:
    if predicted is None:
        on = machine(offer, fit.candidate, fit.room.memory.precision, case.cpus)
        quick = speed(spec, case.family, fit.room.memory, on, case.workload.concurrency)
    else:
        quick = pace(predicted)
    remark: Reason | None = None
    slow = False
    if offer.silicon is None:
        remark, enough = cpu.judged(case.family, quick, context=case.context_tokens, vcpu=offer.vcpu)
        slow = not enough
    rate, wanted = quick.tokens_per_s, case.workload.min_tokens_per_s
    if rate is not None and rate < wanted:
        remark, slow = Reason("too_slow", {"tokens_per_s": rate, "wanted_tokens_per_s": wanted}), True
    return Tried(candidate=fit.candidate, room=fit.room, speed=quick, remark=remark, slow=slow)


def _with_quota(offer: Offer, case: Case, cost: Cost, best: Tried) -> Entry | Rejection:
    remarks = [] if best.remark is None else [best.remark]
    if "daily_quota" in offer.rules:
        seconds = zerogpu.request_seconds(case.family, best.speed)
        carried, enough = zerogpu.quota(offer, case.rules.zerogpu, case.workload, seconds)
        if not enough:
            return Rejection(offer=offer, reason=carried)
        remarks += [carried, *zerogpu.cautions(offer, case.rules.zerogpu, seconds, best.room.memory.weights.bytes)]
    remarks += _traffic(case.workload, best.speed)
    return Entry(
        offer=offer,
        precision=best.room.memory.precision,
        engine=best.candidate.engine,
        devices=best.candidate.devices,
        step=best.candidate.step,
        memory=best.room.memory,
        capacity_bytes=best.room.capacity_bytes,
        free_bytes=best.room.free_bytes,
        speed=best.speed,
        cost=cost,
        verdict="comfortable" if best.room.comfortable else "tight",
        reasons=(
            *configuration_reasons(offer, best.candidate, best.room, best.speed),
            *remarks,
            *offer_reasons(offer, case.rules, cost),
        ),
    )


def _traffic(workload: Workload, quick: Speed) -> list[Reason]:
    """Whether the day's requests outrun the hardware: hours × 3600 / seconds of a request × requests at the same time."""
    took, open_s = quick.request_s, float(workload.hours_per_day) * 3600
    if not took or not open_s:
        return []
    served = int(open_s / took * workload.concurrency)
    if served >= workload.requests_per_day:
        return []
    return [
        Reason("traffic_exceeds", {"requests_per_day": workload.requests_per_day, "served": served, "concurrency": workload.concurrency})
    ]
