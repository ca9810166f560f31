"""The verdict on one offer: the best configuration that meets the request, or all of its obstacles.

Configurations are tried in order of preference (`lib.advisor.candidates`), for all offers together, until one fits with room to spare, is
fast enough and serves the traffic. If there is none, the best of those that pass is taken (`lib.advisor.rank.order_configurations`).

Its speed puts it into one of three bands (`lib.advisor.speed_verdict`): comfortable, usable, or slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from typing import Any, TypeVar

from lib.advisor import result, traffic
from lib.advisor.candidates import AS_STORED, SERVERS, Candidate, list_candidates
from lib.advisor.entry_memory import show_memory
from lib.advisor.explain import LesserSteps, explain_configuration, explain_offer, price_offer
from lib.advisor.fit import DoesNotFitReason, HostedModel, JudgeContext, Placement, max_concurrency, place_candidate
from lib.advisor.rank import NEARLY_AS_FAST, VERDICTS, drop_uncertain_gains, order_configurations, settles, total_rate, weigh
from lib.advisor.speed import attach_bounds, bound_speed, find_roofline, predict_placements
from lib.advisor.speed_verdict import SLOW, judge_speed
from lib.catalog.offers import OWN_COUNTS, Hardware, Offer, own_hardware
from lib.cost.usage import LOADS
from lib.engines import TRAITS
from lib.memory import usable_memory
from lib.memory.result import download_bytes
from lib.precision import find_loading
from lib.provenance import Reason
from lib.workload import Family

_Configured = TypeVar("_Configured", bound=result.ConfiguredHardware)

HOPELESS = 0.5
"""If one server lacks more than this share of a device's memory, no other server is tried with the same weights: they differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPlacement:
    """A configuration that fits and is rejected for its speed, the quota or the traffic."""

    step: int
    tokens_per_s: float
    obstacles: tuple[Reason, ...]


@dataclass(slots=True)
class OfferSearch:
    """The search on one offer: the configurations not yet tried, those that pass, and the obstacles of the others."""

    offer: Hardware
    context: JudgeContext
    model: HostedModel
    device_bytes: int
    waves: list[tuple[Candidate, ...]]
    refused: Reason | None
    least_step: int
    passing: list[result.Configuration] = field(default_factory=list)
    too_slow: list[RejectedPlacement] = field(default_factory=list)
    shortages: list[DoesNotFitReason] = field(default_factory=list)
    hopeless: set[tuple[int, int]] = field(default_factory=set)

    @property
    def is_open(self) -> bool:
        """Whether to continue: configurations are left, and none that passes is good enough to stop."""
        return bool(self.waves) and not any(settles(of) for of in self.passing)

    def take_wave(self) -> list[Placement]:
        """The placements of the next configurations that fit."""
        context, model = self.context, self.model
        fitting: list[Placement] = []
        for candidate in self.waves.pop(0):
            concurrency = context.concurrency(self.offer)
            # Servers need nearly the same memory, so one that lacks much of it rules out the others with the same weights.
            form = (candidate.step, candidate.devices)
            if candidate.engine in SERVERS and form in self.hopeless and not candidate.may_leave_experts:
                continue
            if TRAITS[candidate.engine].devices_in_turn and self._fits_on_fewer(candidate, fitting):
                continue
            # A server that does not hold all concurrent requests may hold fewer on each of several machines.
            placed = place_candidate(self.offer, candidate, context, model, self.device_bytes, concurrency)
            if isinstance(placed, DoesNotFitReason) and concurrency > 1 and candidate.engine in SERVERS:
                placed = self._place_fewer(candidate, placed, concurrency)
            if isinstance(placed, DoesNotFitReason):
                self.shortages.append(placed)
                if candidate.engine in SERVERS and placed.missing_bytes > HOPELESS * self.device_bytes:
                    self.hopeless.add(form)
            else:
                fitting.append(placed)
        return fitting

    @staticmethod
    def _fits_on_fewer(candidate: Candidate, fitting: Sequence[Placement]) -> bool:
        """Whether this form fits on fewer devices with room to spare; devices that work one after another do not get faster by number."""
        return any(
            (of.candidate.engine, of.candidate.precision) == (candidate.engine, candidate.precision)
            and of.candidate.devices < candidate.devices
            and of.headroom.comfortable
            for of in fitting
        )

    def _place_fewer(self, candidate: Candidate, short: DoesNotFitReason, concurrency: int) -> Placement | DoesNotFitReason:
        """Place a server on several machines, each with the most concurrent requests that it holds."""
        context, model = self.context, self.model
        most = max_concurrency(self.offer, candidate, context, model, self.device_bytes)
        for level in sorted((level for level in LOADS if level <= min(most, concurrency - 1)), reverse=True):
            placed = place_candidate(self.offer, candidate, context, model, self.device_bytes, level)
            if isinstance(placed, Placement) and placed.headroom.comfortable:
                return placed
        return short

    @property
    def obstacles(self) -> tuple[Reason, ...]:
        """Why nothing passes: obstacles of the fastest one that fits; else of the one closest to fitting; else of the engine."""
        if self.too_slow:
            return max(self.too_slow, key=lambda of: (-len(of.obstacles), of.tokens_per_s)).obstacles
        if self.shortages:
            return (min(self.shortages, key=lambda of: of.missing_bytes).explain(),)
        return (self.refused or Reason("no_engine", {"silicon": self.offer.name, "family": ""}),)


def judge_offers(offers: Sequence[Offer], context: JudgeContext) -> list[result.Entry | result.Rejection]:
    """The verdict on each offer."""
    model = context.model
    if model is None:
        return [_judge_without_model(offer, context) for offer in offers]
    trials = _try_all([_start_search(offer, context, model) for offer in offers])
    return [_conclude(offer, trial, context, model) for offer, trial in zip(offers, trials, strict=True)]


def judge_models(hardware: Hardware, contexts: Sequence[JudgeContext]) -> list[result.ConfiguredHardware | tuple[Reason, ...]]:
    """The verdict on one piece of hardware for each model, as `judge_offers` and `judge_own` give it; obstacles if it does not run.

    Speeds are predicted for all models together. Every context has a model.
    """
    hosted = [(context, model) for context in contexts if (model := context.model) is not None]
    trials = _try_all([_start_search(hardware, context, model) for context, model in hosted])
    verdicts: list[result.ConfiguredHardware | tuple[Reason, ...]] = []
    for (context, model), trial in zip(hosted, trials, strict=True):
        if isinstance(hardware, Offer):
            verdict = _conclude(hardware, trial, context, model)
            verdicts.append(verdict if isinstance(verdict, result.Entry) else (verdict.reason, *verdict.also))
        else:
            verdicts.append(_decide(hardware, trial, context, model))
    for place in _misses_of_speed(hardware, verdicts, contexts):
        verdicts[place] = _judge_on_fewer(hardware, contexts[place]) or verdicts[place]
    return verdicts


def _misses_of_speed(
    hardware: Hardware, verdicts: Sequence[result.ConfiguredHardware | tuple[Reason, ...]], contexts: Sequence[JudgeContext]
) -> list[int]:
    """Places of the models that several own cards run too slowly, and that no setting spreads over them."""
    if not hardware.traits.owned or hardware.accelerator_count < 2:  # noqa: PLR2004  of one card there are no fewer
        return []
    return [
        place
        for place, (verdict, context) in enumerate(zip(verdicts, contexts, strict=True))
        if isinstance(verdict, tuple) and all(reason.code in SLOW for reason in verdict) and not context.workload.serving.sets_devices
    ]


def _judge_on_fewer(cards: Hardware, context: JudgeContext) -> result.ConfiguredHardware | None:
    """The verdict on the most of fewer cards that meet the limits: what they exchange can take longer than they save."""
    for count in sorted({1, *OWN_COUNTS}, reverse=True):
        verdict = judge_models(cards.with_count(count), [context])[0] if count < cards.accelerator_count else ()
        if isinstance(verdict, result.ConfiguredHardware):
            fewer = Reason("fewer_cards", {"used": count, "owned": cards.accelerator_count})
            return replace(verdict, reasons=(fewer, *verdict.reasons))
    return None


def judge_cards(cards: Sequence[Hardware], context: JudgeContext) -> list[result.ConfiguredHardware]:
    """The cards that run the model as asked, each in its best configuration."""
    model = context.model
    if model is None:
        return []
    trials = _try_all([_start_search(card, context, model) for card in cards])
    verdicts = (_decide(card, trial, context, model) for card, trial in zip(cards, trials, strict=True))
    return [verdict for verdict in verdicts if isinstance(verdict, result.ConfiguredHardware)]


def judge_own(cards: Hardware, context: JudgeContext) -> result.OwnHardware | None:
    """The verdict on cards of the visitor's own; if they do not run the model, more of them or the smallest larger Mac is tried.

    `None` if the Space runs no model.
    """
    model = context.model
    if model is None:
        return None
    verdict = judge_models(cards, [context])[0]
    if isinstance(verdict, result.ConfiguredHardware):
        return result.OwnHardware(offer=cards, runs_as=verdict)
    larger = find_larger(cards, context)
    return result.OwnHardware(offer=cards, runs_as=None, obstacles=verdict, larger=() if larger is None else (larger,))


def find_larger(cards: Hardware, context: JudgeContext) -> result.ConfiguredHardware | None:
    """The fewest more of the same cards that run the model, or the smallest larger Mac; None if none of them does."""
    if cards.processor.kind == "apple":
        macs = (card for card in context.accelerators.values() if card.kind == "apple")
        memory = cards.vram_bytes_per_accelerator or 0
        larger = [own_hardware(mac) for mac in sorted(macs, key=lambda of: (of.memory_usable, of.id)) if (mac.memory_usable or 0) > memory]
    else:
        larger = [cards.with_count(count) for count in OWN_COUNTS if count > cards.accelerator_count]
    verdicts = (judge_models(one, [context])[0] for one in larger)
    return next((verdict for verdict in verdicts if isinstance(verdict, result.ConfiguredHardware)), None)


def _decide(
    cards: Hardware, trial: OfferSearch | Reason, context: JudgeContext, model: HostedModel
) -> result.ConfiguredHardware | tuple[Reason, ...]:
    """The best configuration on the visitor's own cards, or its obstacles."""
    if isinstance(trial, Reason):
        return (trial,)
    best = _choose(cards, trial, context)
    return trial.obstacles if best is None else _configure(result.ConfiguredHardware, cards, trial, best, model)


def _try_all(trials: list[OfferSearch | Reason]) -> list[OfferSearch | Reason]:
    """Run the searches; speeds are predicted for all of them together, since that takes hardly longer than one."""
    while running := [trial for trial in trials if isinstance(trial, OfferSearch) and trial.is_open]:
        _predict_and_sort([(trial, placement) for trial in running for placement in trial.take_wave()])
    return trials


def _start_search(offer: Hardware, context: JudgeContext, model: HostedModel) -> OfferSearch | Reason:
    """The search on an offer, or the reason why there is nothing to search."""
    if not offer.listed:
        return Reason("retired", {"since": offer.since or ""})
    capacity = usable_memory(offer)
    if capacity is None:
        return Reason("memory_unknown")
    candidates = list_candidates(model.spec, context.family, offer, context.workload, tuple(model.published or ()))
    waves = _waves(offer, candidates.tried, context)
    return OfferSearch(
        offer, context, model, capacity, waves, candidates.refused, min((of.step for of in candidates.tried), default=AS_STORED)
    )


def _waves(offer: Hardware, tried: Sequence[Candidate], context: JudgeContext) -> list[tuple[Candidate, ...]]:
    """The configurations in the order in which they are tried; those of one wave compete.

    Rented hardware takes the first that meets the request: less compressed weights first, and one engine after another unless speed has
    priority. On cards of the visitor's own there is no price, so everything competes.
    """
    if offer.traits.owned:
        return [tuple(tried)] if tried else []
    together = context.workload.priority == "fastest"
    return [tuple(group) for _, group in groupby(tried, lambda of: of.step if together else (of.step, of.engine))]


def _predict_and_sort(placed: Sequence[tuple[OfferSearch, Placement]]) -> None:
    """Predict the speed of placements, plan the machines for the traffic, and sort the placements into passing and too slow ones."""
    # A speed that cannot be predicted is bounded by the roofline.
    timed = []
    estimates = predict_placements([(trial.offer, placement, trial.context) for trial, placement in placed])
    for (trial, placement), estimate in zip(placed, estimates, strict=True):
        context, memory = trial.context, placement.headroom.memory
        if estimate is None:
            roofline = find_roofline(trial.offer, placement.candidate, memory.precision, context.cpus)
            speed = bound_speed(trial.model.spec, context.family, memory, roofline, placement.concurrency)
        else:
            speed = attach_bounds(estimate)
        timed.append((trial.offer, placement, speed, context))
    # Machines for the traffic, then the obstacles of speed, traffic and quota.
    plans = traffic.plan_traffic(timed)
    for (trial, _), plan in zip(placed, plans, strict=True):
        context = trial.context
        engine, precision = plan.placement.candidate.engine, plan.placement.headroom.memory.precision
        speed_verdict = judge_speed(trial.offer, context, trial.model, plan.speed, engine=engine, precision=precision)
        reasons, obstacles = [*plan.reasons, *speed_verdict.reasons], [*plan.obstacles, *speed_verdict.obstacles]
        if "daily_quota" in trial.offer.rules:
            quota, refused = _judge_quota(trial.offer, context, plan.placement, plan.speed)
            (obstacles if refused else reasons).extend(quota)
        if obstacles:
            step, rate = plan.placement.candidate.step, plan.speed.tokens_per_s or 0.0
            trial.too_slow.append(RejectedPlacement(step=step, tokens_per_s=rate, obstacles=tuple(obstacles)))
            continue
        comfortable = plan.placement.headroom.comfortable and not any(reason.code == "zerogpu_near_limit" for reason in reasons)
        trial.passing.append(
            result.Configuration(
                candidate=plan.placement.candidate,
                headroom=plan.placement.headroom,
                speed=plan.speed,
                replicas=plan.replicas,
                verdict=speed_verdict.band if comfortable or speed_verdict.band == "slow" else "tight",
                reasons=tuple(reasons),
            )
        )


def _judge_quota(offer: Hardware, context: JudgeContext, placement: Placement, speed: result.Speed) -> tuple[list[Reason], bool]:
    """Reason about the visitors' quota, and whether it rejects the offer."""
    rules, seconds = context.rules.zerogpu, traffic.estimate_gpu_seconds(context.family, speed)
    quota, enough = traffic.judge_quota(offer, rules, context.workload, seconds)
    if not enough:
        return [quota], True
    near = traffic.warn_near_limit(quota, context.workload)
    weight_bytes = placement.headroom.memory.weights_bytes
    conditions = traffic.explain_hosting(rules, context.workload)
    return [*near, quota, *traffic.warn_declarations(offer, rules, seconds, weight_bytes), *conditions], False


# Verdicts


def _choose(hardware: Hardware, trial: OfferSearch, context: JudgeContext) -> result.Configuration | None:
    """The best configuration of those that pass; on cards of the visitor's own the fastest."""
    priority = context.workload.priority
    passing = trial.passing if priority == "fastest" else drop_uncertain_gains(trial.passing)
    if hardware.traits.owned:
        return _choose_fastest(passing, context.family)
    return min(passing, key=lambda of: order_configurations(of, hardware, priority, context.family), default=None)


def _top_rate(configurations: Sequence[result.Configuration]) -> float:
    return max((total_rate(of.speed, of.replicas) for of in configurations), default=0.0)


def _choose_fastest(passing: Sequence[result.Configuration], family: Family) -> result.Configuration | None:
    """The fastest configuration; of those within 5 % the least compressed, then the first that was tried.

    Engines that list the model come first. A better verdict comes before a speed that is at most a tenth higher; slow comes last.
    Experts in the host's memory never come before a configuration that is faster and fits the cards.
    """
    # Drop untested, slow, and partly offloaded configurations if others are left.
    passing = [tested for tested in passing if not tested.candidate.untested] or passing
    passing = [fast for fast in passing if fast.verdict != "slow"] or passing
    whole = max((total_rate(of.speed, of.replicas) for of in passing if not of.candidate.cpu_moe_layers), default=0.0)
    passing = [of for of in passing if not of.candidate.cpu_moe_layers or total_rate(of.speed, of.replicas) > whole]
    # The best verdict that is nearly as fast, and in it the least compressed of the fastest.
    enough = (1 - NEARLY_AS_FAST) * _top_rate(passing)
    levels = ([equal for equal in passing if equal.verdict == verdict] for verdict in VERDICTS)
    level = next((level for level in levels if level and _top_rate(level) >= enough), [])
    least = (1 - NEARLY_AS_FAST / 2) * _top_rate(level)
    fastest = [fast for fast in level if total_rate(fast.speed, fast.replicas) >= least]
    return min(fastest, key=lambda fast: weigh(fast.candidate.step, fast.headroom.memory.precision, family), default=None)


def _configure(
    kind: type[_Configured],
    hardware: Hardware,
    trial: OfferSearch,
    best: result.Configuration,
    model: HostedModel,
    reasons: Iterable[Reason] = (),
    **cost: Any,
) -> _Configured:
    """The hardware in its best configuration, with the reasons for it before any further ones."""
    # Why no configuration with less compressed weights is taken: it does not fit, was rejected, or does not exist.
    less_compressed = [of for of in trial.passing if of.candidate.step < best.candidate.step]
    step = best.candidate.step
    refused = any(slow.step < step for slow in trial.too_slow)
    lesser: LesserSteps = "untried" if trial.least_step >= step else "refused" if refused else "too_large"
    precision = best.headroom.memory.precision
    loading = find_loading(precision, model.spec, best.candidate.engine)
    return kind(
        offer=hardware,
        precision=precision,
        loading=loading,
        engine=best.candidate.engine,
        sdk=best.candidate.sdk,
        devices=best.candidate.devices,
        gpu_layers=-1 if best.candidate.gpu_layers is None else best.candidate.gpu_layers,
        cpu_moe_layers=best.candidate.cpu_moe_layers,
        replicas=best.replicas,
        step=best.candidate.step,
        memory=show_memory(best.headroom),
        speed=best.speed,
        verdict=best.verdict,
        reasons=(*explain_configuration(hardware, best, less_compressed, model.published, loading, lesser), *best.reasons, *reasons),
        **cost,
    )


def _conclude(offer: Offer, trial: OfferSearch | Reason, context: JudgeContext, model: HostedModel) -> result.Entry | result.Rejection:
    """The entry of the best configuration, or every obstacle."""
    obstacles = list(find_obstacles(offer, context))
    best = None
    if isinstance(trial, Reason):
        obstacles.append(trial)
    elif (best := _choose(offer, trial, context)) is None:
        obstacles += trial.obstacles
    obstacles += _judge_budget(offer, context, 1 if best is None else best.replicas)
    if obstacles or best is None or isinstance(trial, Reason):
        return result.Rejection(offer=offer, reason=obstacles[0], also=tuple(obstacles[1:]))
    files = download_bytes(best.headroom.memory, model.stored_bytes)
    cost = price_offer(offer, context.workload, context.rules, best.speed.predicted, best.replicas, files)
    reserve = traffic.describe_reserve(offer, best.speed, best.replicas, context)
    if reserve is not None:
        more = price_offer(offer, context.workload, context.rules, best.speed.predicted, best.replicas + 1, files)
        reserve = replace(reserve, values={**reserve.values, "usd_per_month": more.total_usd_per_month})
    reasons = (*(() if reserve is None else (reserve,)), *explain_offer(offer, context.workload, context.rules, cost))
    return _configure(result.Entry, offer, trial, best, model, reasons, cost=cost)


def find_obstacles(offer: Offer, context: JudgeContext) -> tuple[Reason, ...]:
    """Obstacles independent of the model: the account, the SDK of the Space."""
    workload, rules = context.workload, context.rules
    obstacles = list(traffic.forbid_hosting(offer, rules.zerogpu, workload))
    if "paid_plan_to_create" in offer.rules and not rules.accounts.may_create_cpu_basic(workload.account):
        obstacles.append(Reason("cpu_basic_needs_plan", {"account": workload.account}))
    if "implausible_price" in offer.rules:
        obstacles.append(Reason("implausible_price", {"usd_per_hour": offer.usd_per_hour or Decimal(0)}))
    return tuple(obstacles)


def _judge_budget(offer: Offer, context: JudgeContext, replicas: int) -> list[Reason]:
    """The obstacle if the whole workload costs more than the budget."""
    workload, limit = context.workload, context.workload.max_usd_per_month
    priced = limit and offer.listed
    usd_per_month = price_offer(offer, workload, context.rules, replicas=replicas).total_usd_per_month if priced else Decimal(0)
    if usd_per_month <= limit:
        return []
    return [
        Reason("over_budget", {"usd_per_month": usd_per_month, "limit_usd": limit, "days": result.DAYS_PER_MONTH, "replicas": replicas})
    ]


def _judge_without_model(offer: Offer, context: JudgeContext) -> result.Entry | result.Rejection:
    """The model runs elsewhere: any hardware serves the page."""
    workload = context.workload
    retired = () if offer.listed else (Reason("retired", {"since": offer.since or ""}),)
    obstacles = (*retired, *find_obstacles(offer, context), *_judge_budget(offer, context, 1))
    if obstacles:
        return result.Rejection(offer=offer, reason=obstacles[0], also=obstacles[1:])
    cost = price_offer(offer, workload, context.rules)
    no_quota = (Reason("zerogpu_no_quota_used"),) if "daily_quota" in offer.rules else ()
    return result.Entry(
        offer=offer,
        precision="",
        engine="provider",
        sdk=("docker" if workload.sdk == "docker" else "gradio") if offer.traits.runs_spaces else "",
        devices=0,
        replicas=1,
        step=AS_STORED,
        memory=None,
        speed=result.Speed(decode_tokens_per_s_upper_bound=None, request_s_lower_bound=None, peak_flops_per_s=None, basis="runs elsewhere"),
        cost=cost,
        verdict="comfortable",
        reasons=(Reason("runs_elsewhere"), *no_quota, *explain_offer(offer, workload, context.rules, cost)),
    )
