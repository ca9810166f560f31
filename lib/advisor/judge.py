"""One offer, one verdict: the best configuration that fits, or what stands in the way.

The order of questions: may this account run it · does it cost more than the budget · does an engine drive this silicon · does a
configuration fit memory and disk (the first comfortable fit, else the first that fits at all) · is it quick enough, as predicted ·
does the quota carry the traffic.

A CPU is enough when its predicted speed reaches

    generate          at least 8 tokens per second, and the first token of a 512 token prompt within 5 s
    vision_language   the same, with the prompt as long as the context: pictures fill it
    encode            one pass of 512 tokens within 5 s
    speech            half a minute of sound within half a minute
    image, video      never: Stable Diffusion 1.5 takes 45 s for one 512 px picture on 32 cores (20 steps, fp32)

The limits are judgements. That of the tokens: people read 238 words a minute (Brysbaert 2019, doi:10.1016/j.jml.2019.104047), 5.2 tokens/s
at 1.3 tokens a word; the slowest machines of a class have two thirds of its bandwidth: 5.2 · 3/2. That of the first answer: half of the
ten seconds that keep a visitor's attention (Nielsen 1993, Usability Engineering, chapter 5).
The picture: Ice Lake with 64 virtual CPUs, github.com/huggingface/blog stable-diffusion-inference-intel.md (2023-03).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from lib.advisor import zerogpu
from lib.advisor.candidates import Candidate, Family
from lib.advisor.fit import Headroom, Placement, Placements, Requirements, place_model
from lib.advisor.result import Cost, Entry, Rejection, Speed, explain_configuration, explain_offer
from lib.advisor.speed import Key, attach_bounds, bound_speed, find_roofline, predict_candidates, prediction_key
from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules
from lib.cost import Usage, bill_offer
from lib.errors import BadCatalog
from lib.laws.price import HOUR_S
from lib.memory import usable_memory
from lib.model.spec import ModelSpec
from lib.provenance import Reason, Value
from lib.speed import SpeedEstimate
from lib.workload import OUTPUT_TOKENS, PROMPT_TOKENS, Workload

DAYS_PER_MONTH = 30
"""Days of a month, as in `/estimate_cost`: a month of round-the-clock use is 720 hours."""
ENOUGH_TOKENS_PER_S = 8.0
FIRST_ANSWER_S = 5.0
SOUND_S = 30.0
PICTURE_ON_32_CORES_S = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPlacement:
    """A configuration that fits, with its speed; `reason` says why that is enough or too slow, where there is something to say."""

    candidate: Candidate
    headroom: Headroom
    speed: Speed
    reason: Reason | None
    too_slow: bool


def judge_offers(offers: Sequence[Offer], requirements: Requirements) -> list[Entry | Rejection]:
    """The verdict on each offer; their speeds are predicted together, since that takes hardly longer than one."""
    placed = [_place(offer, requirements) for offer in offers]
    predictions: Mapping[Key, SpeedEstimate] = {}
    if requirements.model is not None:
        configurations = [
            (offer, placement.candidate)
            for offer, placements in zip(offers, placed, strict=True)
            if isinstance(placements, Placements)
            for placement in placements.fitting
        ]
        spec, family = requirements.model.spec, requirements.family
        predictions = predict_candidates(spec, family, configurations, requirements.speed_request, requirements.accelerators)
    return [_judge(offer, requirements, placements, predictions) for offer, placements in zip(offers, placed, strict=True)]


def _place(offer: Offer, requirements: Requirements) -> Placements | Reason | None:
    """The placements on the offer, or the reason that forbids it; `None` where the Space runs no model."""
    if not offer.listed:
        return Reason("retired", {"since": offer.since or ""})
    obstacle = _find_obstacle(offer, requirements)
    if obstacle is not None or requirements.model is None:
        return obstacle
    return place_model(offer, requirements, requirements.model)


def _find_obstacle(offer: Offer, requirements: Requirements) -> Reason | None:
    """The reason that forbids the offer, independent of the model: the account, the SDK of the Space, the budget."""
    workload, rules = requirements.workload, requirements.rules
    obstacle = zerogpu.forbid_hosting(offer, rules.zerogpu, workload, requirements.sdk)
    if obstacle is not None:
        return obstacle
    if "paid_plan_to_create" in offer.rules and not rules.accounts.may_create_cpu_basic(workload.account):
        return Reason("cpu_basic_needs_plan", {"account": workload.account})
    limit, usd_per_month = workload.max_usd_per_month, price_month(offer, workload)
    if limit and usd_per_month > limit:
        return Reason("over_budget", {"usd_per_month": usd_per_month, "limit_usd": limit, "days": DAYS_PER_MONTH})
    return None


def _judge(
    offer: Offer, requirements: Requirements, placements: Placements | Reason | None, predictions: Mapping[Key, SpeedEstimate]
) -> Entry | Rejection:
    if isinstance(placements, Reason):
        return Rejection(offer=offer, reason=placements)
    if placements is None or requirements.model is None:
        return _enter_without_model(offer, requirements)
    best = _choose_placement(offer, requirements, requirements.model.spec, placements, predictions)
    if isinstance(best, Reason):
        return Rejection(offer=offer, reason=best)
    return _enter(offer, requirements, price_offer(offer, requirements.workload, requirements.rules, best.speed.predicted), best)


def _choose_placement(
    offer: Offer, requirements: Requirements, spec: ModelSpec, placements: Placements, predictions: Mapping[Key, SpeedEstimate]
) -> TimedPlacement | Reason:
    """The first comfortable fit that is not too slow, else the first fit that is not too slow, else the reason why there is none."""
    tight: TimedPlacement | None = None
    slow: Reason | None = None
    for placement in placements.fitting:
        timed = _time_placement(offer, requirements, spec, placement, predictions.get(prediction_key(offer, placement.candidate)))
        if timed.too_slow:
            slow = timed.reason
        elif placement.headroom.comfortable:
            return timed
        else:
            tight = tight or timed
    return tight or slow or placements.obstacle


def _time_placement(
    offer: Offer, requirements: Requirements, spec: ModelSpec, placement: Placement, predicted: SpeedEstimate | None
) -> TimedPlacement:
    memory = placement.headroom.memory
    if predicted is None:
        roofline = find_roofline(offer, placement.candidate, memory.precision, requirements.cpus)
        speed = bound_speed(spec, requirements.family, memory, roofline, requirements.workload.concurrency)
    else:
        speed = attach_bounds(predicted)
    reason: Reason | None = None
    too_slow = False
    if offer.silicon is None:
        reason, enough = judge_cpu(requirements.family, speed, context_tokens=requirements.context_tokens, vcpu=offer.vcpu)
        too_slow = not enough
    rate, least = speed.tokens_per_s, requirements.workload.min_tokens_per_s
    if rate is not None and rate < least:
        reason, too_slow = Reason("too_slow", {"tokens_per_s": rate, "wanted_tokens_per_s": least}), True
    return TimedPlacement(candidate=placement.candidate, headroom=placement.headroom, speed=speed, reason=reason, too_slow=too_slow)


def judge_cpu(family: Family, speed: Speed, *, context_tokens: int, vcpu: int | None) -> tuple[Reason, bool]:
    """Whether a CPU is enough for this work, by the table above, and why."""
    values: dict[str, Value] = {"vcpu": vcpu or 0, "family": family}
    if family in {"image", "video"}:
        return Reason("cpu_too_slow", values | {"seconds": PICTURE_ON_32_CORES_S}), False
    predicted = speed.predicted
    if predicted is None:
        return Reason("cpu_speed_unknown", values), False
    if family in {"encode", "speech"}:
        seconds, limit_s = predicted.request_s, FIRST_ANSWER_S if family == "encode" else SOUND_S
        values |= {"seconds": seconds, "limit_s": limit_s}
        enough = seconds <= limit_s
    else:
        longer = max(1.0, context_tokens / predicted.request.prompt_tokens) if family == "vision_language" else 1.0
        rate, ttft_s = speed.tokens_per_s or 0.0, predicted.ttft_s.value * longer
        values |= {"tokens_per_s": rate, "limit_tokens_per_s": ENOUGH_TOKENS_PER_S, "seconds": ttft_s, "limit_s": FIRST_ANSWER_S}
        enough = rate >= ENOUGH_TOKENS_PER_S and ttft_s <= FIRST_ANSWER_S
    return Reason("cpu_enough" if enough else "cpu_too_slow", values), enough


def _enter(offer: Offer, requirements: Requirements, cost: Cost, best: TimedPlacement) -> Entry | Rejection:
    """The entry of an offer that runs the model as asked, unless the visitors' quota does not carry the traffic."""
    reasons = [] if best.reason is None else [best.reason]
    if "daily_quota" in offer.rules:
        rules, seconds = requirements.rules.zerogpu, zerogpu.estimate_gpu_seconds(requirements.family, best.speed)
        quota, enough = zerogpu.judge_quota(offer, rules, requirements.workload, seconds)
        if not enough:
            return Rejection(offer=offer, reason=quota)
        reasons += [quota, *zerogpu.warn_declarations(offer, rules, seconds, best.headroom.memory.weights.bytes)]
    reasons += _judge_traffic(requirements.workload, best.speed)
    return Entry(
        offer=offer,
        precision=best.headroom.memory.precision,
        engine=best.candidate.engine,
        devices=best.candidate.devices,
        step=best.candidate.step,
        memory=best.headroom.memory,
        capacity_bytes=best.headroom.capacity_bytes,
        free_bytes=best.headroom.free_bytes,
        speed=best.speed,
        cost=cost,
        verdict="comfortable" if best.headroom.comfortable else "tight",
        reasons=(
            *explain_configuration(offer, best.candidate, best.headroom, best.speed),
            *reasons,
            *explain_offer(offer, requirements.rules, cost),
        ),
    )


def _judge_traffic(workload: Workload, speed: Speed) -> list[Reason]:
    """Whether the day's requests outrun the hardware: hours × 3600 / seconds of a request × requests at the same time."""
    request_s, open_s = speed.request_s, float(workload.hours_per_day) * HOUR_S
    if not request_s or not open_s:
        return []
    served = int(open_s / request_s * workload.concurrency)
    if served >= workload.requests_per_day:
        return []
    values: dict[str, Value] = {"requests_per_day": workload.requests_per_day, "served": served, "concurrency": workload.concurrency}
    return [Reason("traffic_exceeds", values)]


def _enter_without_model(offer: Offer, requirements: Requirements) -> Entry:
    """The model runs elsewhere: any hardware serves the page."""
    cost = price_offer(offer, requirements.workload, requirements.rules)
    no_quota = (Reason("zerogpu_no_quota_used"),) if "daily_quota" in offer.rules else ()
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
        reasons=(Reason("runs_elsewhere"), *no_quota, *explain_offer(offer, requirements.rules, cost)),
    )


def price_month(offer: Offer, workload: Workload) -> Decimal:
    """USD per month of an offer that runs its hours a day and never sleeps within them: price per hour × hours × days.

    Raises:
        BadCatalog: a listed offer has no price.
    """
    return _hourly_price(offer) * workload.hours_per_day * DAYS_PER_MONTH


def price_offer(offer: Offer, workload: Workload, rules: PlatformRules, predicted: SpeedEstimate | None = None) -> Cost:
    """Price per hour and month by `lib.cost`, per request and token where the speed is predicted.

    Sleep, storage and the port of a Job are not in it; reasons state them. ZeroGPU and free hardware cost nothing; a reason states the
    quota too.

    Raises:
        BadCatalog: a listed offer has no price.
    """
    _hourly_price(offer)
    usage = Usage(
        hours_per_day=workload.hours_per_day,
        days_per_month=Decimal(DAYS_PER_MONTH),
        requests_per_day=Decimal(workload.requests_per_day) if workload.hours_per_day else Decimal(0),
        account=workload.account,
        concurrency=workload.concurrency,
        exposed_port=False,
        prompt_tokens=PROMPT_TOKENS if predicted is None else predicted.request.prompt_tokens,
        output_tokens=OUTPUT_TOKENS if predicted is None else predicted.request.output_tokens,
    )
    bill = bill_offer(offer, usage, rules, speed=predicted)
    return Cost(
        usd_per_hour=bill.usd_per_hour,
        usd_per_month=bill.total_usd_per_month,
        hours_per_day=workload.hours_per_day,
        days_per_month=DAYS_PER_MONTH,
        usd_per_million_output_tokens=bill.usd_per_million_output_tokens,
        usd_per_request=None if predicted is None else bill.usd_per_request,
    )


def _hourly_price(offer: Offer) -> Decimal:
    if offer.usd_per_hour is None:
        raise BadCatalog(f"offers: {offer.platform} {offer.id} is listed without a price.")
    return offer.usd_per_hour
