"""One offer, one verdict: the best configuration that fits, or what stands in the way.

The order of questions: may this account run it · does it cost more than the budget · does an engine drive this silicon · does a
configuration fit memory and disk (the first with room to spare, else the first that fits at all) · is it quick enough, as far as
bounds can tell · does the quota carry the traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lib.advisor import cpu, zerogpu
from lib.advisor.candidates import Candidate, Options, options
from lib.advisor.cost import cost_of
from lib.advisor.reasons import configuration_reasons, offer_reasons
from lib.advisor.result import Cost, Entry, Reason, Rejection, Speed, Value
from lib.advisor.room import Room, room
from lib.advisor.speed import machine, read_parameters, speed
from lib.advisor.tasks import Family
from lib.estimate import MemoryEstimate, capacity
from lib.model.spec import ModelSpec
from lib.offer import Offer
from lib.platform_rules import PlatformRules
from lib.silicon import Accelerator
from lib.workload import MemoryRequest, Workload

Memory = Callable[[MemoryRequest, Accelerator | None], MemoryEstimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The model that the hardware runs. `memory` remembers its answers between offers; `stored_bytes` is the size of the download."""

    spec: ModelSpec
    stored_bytes: int
    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that is the same for all offers; `model` is `None` when the Space runs none itself."""

    model: Model | None
    family: Family
    workload: Workload
    context_tokens: int
    sdk: str
    rules: PlatformRules
    cpus: tuple[Accelerator, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A configuration with the room it leaves, what the datasheet allows, and what makes it too slow, if anything."""

    candidate: Candidate
    room: Room
    speed: Speed
    remark: Reason | None
    slow: bool


def judge(offer: Offer, case: Case) -> Entry | Rejection:
    """The verdict on one offer."""
    if not offer.listed:
        return Rejection(offer=offer, reason=Reason("retired", {"since": offer.since or ""}))
    cost = cost_of(offer, case.workload)
    reason = _forbidden(offer, case, cost)
    if reason is not None:
        return Rejection(offer=offer, reason=reason)
    if case.model is None:
        return _idle(offer, case, cost)
    found = options(case.model.spec, case.family, offer, case.workload.precision)
    best = _best(offer, case, case.model, found)
    if isinstance(best, Reason):
        return Rejection(offer=offer, reason=best)
    return _with_quota(offer, case, cost, best)


def _forbidden(offer: Offer, case: Case, cost: Cost) -> Reason | None:
    account = case.workload.account
    hosting = zerogpu.hosting(offer, case.rules.zerogpu, case.workload, case.sdk)
    if hosting is not None:
        return hosting
    if "paid_plan_to_create" in offer.rules and not case.rules.accounts.may_create_cpu_basic(account):
        return Reason("cpu_basic_needs_plan", {"account": account})
    limit = case.workload.max_usd_per_month
    if limit and cost.usd_per_month > limit:
        return Reason("over_budget", {"usd_per_month": cost.usd_per_month, "limit_usd": limit, "days": cost.days_per_month})
    return None


def _idle(offer: Offer, case: Case, cost: Cost) -> Entry:
    """The model runs elsewhere: any hardware serves the page."""
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


def _best(offer: Offer, case: Case, model: Model, found: Options) -> Tried | Reason:
    """The first configuration with room to spare that is not too slow, else the first that fits and is not too slow, else why none."""
    held = capacity(offer)
    if held is None:
        return Reason("memory_unknown")
    second: Tried | None = None
    slow: Reason | None = None
    small: tuple[int, Reason] | None = None
    for candidate in found.tried:
        left = room(model.memory(_request(candidate, case), offer.silicon or offer.host_cpu), held, case.family)
        short = _shortage(offer, model, candidate, left)
        if short is not None:
            small = short if small is None or short[0] < small[0] else small
            continue
        tried = _timed(offer, case, model.spec, candidate, left)
        if tried.slow:
            slow = tried.remark
        elif left.comfortable:
            return tried
        else:
            second = second or tried
    if second is not None:
        return second
    if slow is not None:
        return slow
    if small is not None:
        return small[1]
    return found.refused or Reason("no_engine", {"silicon": offer.name, "family": case.family})


def _request(candidate: Candidate, case: Case) -> MemoryRequest:
    return MemoryRequest(
        precision=candidate.precision,
        engine=candidate.engine,
        context_tokens=case.context_tokens,
        batch_size=case.workload.concurrency,
        devices=candidate.devices,
    )


def _shortage(offer: Offer, model: Model, candidate: Candidate, left: Room) -> tuple[int, Reason] | None:
    """How many bytes are missing, and of what; a disk that is too small only counts where memory would do."""
    if not left.fits:
        values: dict[str, Value] = {
            "needed_bytes": left.needed_bytes,
            "capacity_bytes": left.capacity_bytes,
            "precision": left.memory.precision,
            "devices": candidate.devices,
        }
        return -left.free_bytes, Reason("too_small", values)
    download = left.memory.weights.bytes if candidate.engine == "llama.cpp" else model.stored_bytes
    if offer.disk_bytes is not None and download > offer.disk_bytes:
        return 0, Reason("disk_too_small", {"download_bytes": download, "disk_bytes": offer.disk_bytes})
    return None


def _timed(offer: Offer, case: Case, spec: ModelSpec, candidate: Candidate, left: Room) -> Tried:
    on = machine(offer, candidate, left.memory.precision, case.cpus)
    quick = speed(spec, case.family, left.memory, on, case.workload.concurrency)
    remark: Reason | None = None
    slow = False
    if offer.silicon is None:
        remark, enough = cpu.judged(
            case.family,
            quick,
            parameters=read_parameters(spec),
            context=case.context_tokens,
            concurrency=case.workload.concurrency,
            vcpu=offer.vcpu,
        )
        slow = not enough
    rate, wanted = quick.decode_tokens_per_s_upper_bound, case.workload.min_tokens_per_s
    if rate is not None and rate < wanted:
        remark, slow = Reason("too_slow", {"tokens_per_s": rate, "wanted_tokens_per_s": wanted}), True
    return Tried(candidate=candidate, room=left, speed=quick, remark=remark, slow=slow)


def _with_quota(offer: Offer, case: Case, cost: Cost, best: Tried) -> Entry | Rejection:
    remarks = [] if best.remark is None else [best.remark]
    if "daily_quota" in offer.rules:
        seconds = zerogpu.request_seconds(case.family, best.speed.request_s_lower_bound)
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
    """Whether the day's requests outrun even the datasheet: hours × 3600 / seconds of a request × requests at the same time."""
    took, open_s = quick.request_s_lower_bound, float(workload.hours_per_day) * 3600
    if not took or not open_s:
        return []
    served = int(open_s / took * workload.concurrency)
    if served >= workload.requests_per_day:
        return []
    return [
        Reason("traffic_exceeds", {"requests_per_day": workload.requests_per_day, "served": served, "concurrency": workload.concurrency})
    ]
