"""One offer, one verdict: the best configuration that fits, or what stands in the way.

The order of questions: may this account run it · does it cost more than the budget · does an engine drive this silicon · does a
configuration fit memory and disk (the first with room to spare, else the first that fits at all) · is it quick enough, as predicted ·
does the quota carry the traffic.

When a CPU is enough, judged by its predicted speed.

    generate          at least 8 tokens per second, and the first token of a 512 token prompt within 5 s
    vision_language   the same, with the prompt as long as the context: pictures fill it
    encode            one pass of 512 tokens within 5 s
    speech            half a minute of sound within half a minute
    image, video      never: Stable Diffusion 1.5 takes 45 s for one 512 px picture on 32 cores (20 steps, fp32)

The limits are judgements. That of the tokens: people read 238 words a minute (Brysbaert 2019, doi:10.1016/j.jml.2019.104047), 5.2 tokens/s
at 1.3 tokens a word; the slowest machines of a class have two thirds of its bandwidth: 5.2 · 3/2. That of the first answer: half of the
ten seconds that keep a visitor's attention (Nielsen 1993, Usability Engineering, chapter 5).
The picture: Ice Lake with 64 virtual CPUs, github.com/huggingface/blog stable-diffusion-inference-intel.md (2023-03).

What an offer costs by the hour and the month, for the hours a day it runs; per request and token where its speed is predicted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from lib.advisor import zerogpu
from lib.advisor.candidates import Candidate
from lib.advisor.fit import Case, Fit, Fits, fitting
from lib.advisor.headroom import Room
from lib.advisor.reasons import configuration_reasons, offer_reasons
from lib.advisor.result import Cost, Entry, Rejection, Speed
from lib.advisor.speed import Key, key, machine, predictions, speed_bounds, with_bounds
from lib.advisor.tasks import Family
from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules
from lib.cost import Usage, cost
from lib.errors import BadCatalog
from lib.memory import usable_memory
from lib.model.spec import ModelSpec
from lib.provenance import Reason, Value
from lib.speed import SpeedEstimate
from lib.workload import OUTPUT_TOKENS, PROMPT_TOKENS, Workload

ENOUGH_TOKENS_PER_S = 8.0
FIRST_ANSWER_S = 5.0
SOUND_S = 30.0
PICTURE_ON_32_CORES_S = 45.0


def judged(family: Family, speed: Speed, *, context: int, vcpu: int | None) -> tuple[Reason, bool]:
    """Why a CPU is enough for this work, or too slow."""
    values: dict[str, Value] = {"vcpu": vcpu or 0, "family": family}
    if family in {"image", "video"}:
        return Reason("cpu_too_slow", values | {"seconds": PICTURE_ON_32_CORES_S}), False
    found = speed.predicted
    if found is None:
        return Reason("cpu_speed_unknown", values), False
    took = found.request_s
    if family in {"encode", "speech"}:
        limit = FIRST_ANSWER_S if family == "encode" else SOUND_S
        return _verdict_cpu(values | {"seconds": took, "limit_s": limit}, enough=took <= limit)
    rate = speed.tokens_per_s or 0.0
    longer = max(1.0, context / found.request.prompt_tokens) if family == "vision_language" else 1.0
    first = found.ttft_s.value * longer
    values |= {"tokens_per_s": rate, "limit_tokens_per_s": ENOUGH_TOKENS_PER_S, "seconds": first, "limit_s": FIRST_ANSWER_S}
    return _verdict_cpu(values, enough=rate >= ENOUGH_TOKENS_PER_S and first <= FIRST_ANSWER_S)


def _verdict_cpu(values: dict[str, Value], *, enough: bool) -> tuple[Reason, bool]:
    return Reason("cpu_enough" if enough else "cpu_too_slow", values), enough


DAYS_PER_MONTH = 30
"""Days of a month, as in `/estimate_cost`: a month of round-the-clock use is 720 hours."""


def monthly(offer: Offer, workload: Workload) -> Decimal:
    """USD per month of an offer that runs its hours a day and never sleeps within them: price per hour × hours × days.

    Raises:
        BadCatalog: a listed offer has no price.
    """
    return _price(offer) * workload.hours_per_day * DAYS_PER_MONTH


def cost_of(offer: Offer, workload: Workload, rules: PlatformRules, predicted: SpeedEstimate | None = None) -> Cost:
    """The month by `lib.cost`, without sleep, storage and the port of a Job, which are told as reasons.

    ZeroGPU and free hardware cost nothing; quota beyond the free one is told as a reason too.

    Raises:
        BadCatalog: a listed offer has no price.
    """
    _price(offer)
    bill = cost(offer, _usage(workload, predicted), rules, speed=predicted)
    return Cost(
        usd_per_hour=bill.usd_per_hour,
        usd_per_month=bill.total_usd_per_month,
        hours_per_day=workload.hours_per_day,
        days_per_month=DAYS_PER_MONTH,
        usd_per_million_output_tokens=bill.usd_per_million_output_tokens,
        usd_per_request=None if predicted is None else bill.usd_per_request,
    )


def _price(offer: Offer) -> Decimal:
    if offer.usd_per_hour is None:
        raise BadCatalog(f"offers: {offer.platform} {offer.id} is listed without a price.")
    return offer.usd_per_hour


def _usage(workload: Workload, predicted: SpeedEstimate | None) -> Usage:
    return Usage(
        hours_per_day=workload.hours_per_day,
        days_per_month=Decimal(DAYS_PER_MONTH),
        requests_per_day=Decimal(workload.requests_per_day) if workload.hours_per_day else Decimal(0),
        account=workload.account,
        concurrency=workload.concurrency,
        exposed_port=False,
        prompt_tokens=PROMPT_TOKENS if predicted is None else predicted.request.prompt_tokens,
        output_tokens=OUTPUT_TOKENS if predicted is None else predicted.request.output_tokens,
    )


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
    found: Mapping[Key, SpeedEstimate] = {}
    if case.model is not None:
        asked = [(offer, fit.candidate) for offer, one in zip(offers, tried, strict=True) if isinstance(one, Fits) for fit in one.fits]
        found = predictions(case.model.spec, case.family, asked, case.shape, case.accelerators)
    return [_verdict(offer, case, one, found) for offer, one in zip(offers, tried, strict=True)]


def _tried(offer: Offer, case: Case) -> Fits | Reason | None:
    """What fits on the offer, or what forbids it; `None` where the Space runs no model."""
    if not offer.listed:
        return Reason("retired", {"since": offer.since or ""})
    reason = _forbidden(offer, case)
    if reason is not None or case.model is None:
        return reason
    return fitting(offer, case, case.model)


def _verdict(offer: Offer, case: Case, tried: Fits | Reason | None, found: Mapping[Key, SpeedEstimate]) -> Entry | Rejection:
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
        capacity_bytes=usable_memory(offer),
        free_bytes=usable_memory(offer),
        speed=Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=None, peak_flops_per_s=None, basis="runs elsewhere"),
        cost=cost,
        verdict="comfortable",
        reasons=(Reason("runs_elsewhere"), *spared, *offer_reasons(offer, case.rules, cost)),
    )


def _best(offer: Offer, case: Case, spec: ModelSpec, of: Fits, found: Mapping[Key, SpeedEstimate]) -> Tried | Reason:
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


def _timed(offer: Offer, case: Case, spec: ModelSpec, fit: Fit, predicted: SpeedEstimate | None) -> Tried:
    if predicted is None:
        on = machine(offer, fit.candidate, fit.room.memory.precision, case.cpus)
        quick = speed_bounds(spec, case.family, fit.room.memory, on, case.workload.concurrency)
    else:
        quick = with_bounds(predicted)
    remark: Reason | None = None
    slow = False
    if offer.silicon is None:
        remark, enough = judged(case.family, quick, context=case.context_tokens, vcpu=offer.vcpu)
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
