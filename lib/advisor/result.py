"""What the advisor answers: entries with reasons, as codes with values (`lib.provenance`) that `lib.present.sentences` words.

Every entry has reasons about its memory, precision and devices, its speed, its price, and what the platform requires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from lib.advisor.candidates import AS_STORED, EIGHT_BITS, TENSOR_PARALLEL_ENGINES, Candidate
from lib.advisor.fit import Headroom
from lib.catalog.engine_models import read_engine_models
from lib.catalog.offers import Hardware, Offer, Rule
from lib.catalog.rules import PlatformRules
from lib.cost import Usage, bill_offer
from lib.cost.usage import ADVISED_SLEEP_S, count_hours
from lib.engines import Engine, traits_of
from lib.errors import BadCatalog
from lib.laws.price import DAY_H
from lib.memory import MemoryEstimate
from lib.precision import Loading
from lib.provenance import Caveat, Reason, Source, Value
from lib.speed import SpeedEstimate, SpeedRequest
from lib.workload import OUTPUT_TOKENS, PROMPT_TOKENS, Sdk, Workload

DAYS_PER_MONTH = 30
"""Days of a month, as in `/estimate_cost`: a month of round-the-clock use is 720 hours."""
Verdict = Literal["comfortable", "tight", "slow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The prediction, and what the datasheet allows at best; `None` where the work of a request is not known.

    `decode_tokens_per_s_upper_bound` is per request, at the asked concurrency, and bounded from above: no engine can be faster on this
    hardware. `request_s_lower_bound` is one request of the stated shape. `basis` says what the figures rest on: "prediction", or where
    there is none what the bounds come from.
    """

    decode_tokens_per_s_upper_bound: float | None
    request_s_lower_bound: float | None
    peak_flops_per_s: float | None
    basis: str
    predicted: SpeedEstimate | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of one request: predicted, else the upper bound."""
        step_s = None if self.predicted is None else self.predicted.tpot_s
        return self.decode_tokens_per_s_upper_bound if step_s is None else 1 / step_s.value

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first token (of one pass, of one picture), where that is predicted."""
        return None if self.predicted is None else self.predicted.ttft_s.value

    @property
    def request_s(self) -> float | None:
        """Seconds of one request: predicted, else the lower bound."""
        return self.request_s_lower_bound if self.predicted is None else self.predicted.request_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Price per hour of one machine, and per month of all `replicas`: `days_per_month` days of `hours_per_day` hours.

    `usd_per_request` divides the month by its requests (without stated traffic: the share of an hour that a request takes), the price of
    a million tokens is that of full use. `usd_per_month_unpaused` is the month of one who never pauses it outside its hours, and
    `usd_per_month_asleep` that of one who lets it fall asleep `sleep_after_s` after the last request; both None where that makes no
    difference: the hardware does not sleep, is free, or its requests are not stated.
    """

    usd_per_hour: Decimal
    usd_per_month: Decimal
    hours_per_day: Decimal
    days_per_month: int
    replicas: int = 1
    usd_per_million_output_tokens: Decimal | None = None
    usd_per_request: Decimal | None = None
    usd_per_month_unpaused: Decimal | None = None
    usd_per_month_asleep: Decimal | None = None
    sleep_after_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration that does the work on an offer, with its speed, the machines that the traffic takes, and what is to be said of it."""

    candidate: Candidate
    headroom: Headroom
    speed: Speed
    replicas: int
    verdict: Verdict
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredHardware:
    """Hardware that runs the model as asked, and the configuration in which it does.

    `step` says how far the weights are compressed below what was asked: 0 not at all, 1 to eight bits, 2 to four. `sdk` is what a Space has
    to be built with, "" elsewhere. `gpu_layers` is llama.cpp's `-ngl` where
    layers are left to the processor, else None. `memory` is `None` when nothing runs on the hardware itself.
    `free_share` is the share of the fullest device's memory that stays free.
    """

    offer: Hardware
    precision: str
    engine: Engine | Literal["provider"]
    sdk: Sdk | Literal[""]
    devices: int
    replicas: int
    step: int
    memory: MemoryEstimate | None
    capacity_bytes: int | None
    free_bytes: int | None
    speed: Speed
    verdict: Verdict
    reasons: tuple[Reason, ...]
    gpu_layers: int | None = None
    loading: Loading = "as stored"

    @property
    def free_share(self) -> float:
        """Free memory over capacity, 1 when nothing is held."""
        return 1.0 if self.capacity_bytes is None or self.free_bytes is None else self.free_bytes / self.capacity_bytes

    @property
    def repository(self) -> str | None:
        """The Hub id of the checkpoint to load; "" for the model's own, `None` where another one is needed and none is known."""
        needed = next((reason for reason in self.reasons if reason.code == "checkpoint"), None)
        return "" if needed is None else str(needed.values["repository"]) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(ConfiguredHardware):
    """The same of an offer, with its price.

    `pareto` is true when no other entry is both at least as cheap and at least as fast, and better in one of the two.
    """

    offer: Offer
    cost: Cost
    pareto: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHardware:
    """The visitor's own cards: how they run the model, else every obstacle and what of the same kind would run it. They have no price."""

    cards: Hardware
    runs_as: ConfiguredHardware | None
    obstacles: tuple[Reason, ...] = ()
    larger: tuple[ConfiguredHardware, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """An offer that does not run the model as asked, the first thing that stands in the way, and what else does."""

    offer: Offer
    reason: Reason
    also: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOption:
    """Paying per token instead of renting hardware.

    `available` is `None` when the Hub was not asked: then the sentence says that it has to be looked up.
    """

    suits: bool
    available: bool | None
    providers: tuple[str, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The answer: a pick (or none), every offer that runs the model as asked in order, every other one, and the way without hardware.

    Each listed offer of the asked platforms stands in exactly one of `ranked` and `rejected`; `pick` is the first of `ranked`.
    `notes` are reasons about the whole answer, `task` the Hub task that was judged, `family` how it was judged, `usual` the request
    whose speed is predicted. `own` is what the visitor owns, where that was stated.
    """

    pick: Entry | None
    ranked: tuple[Entry, ...]
    rejected: tuple[Rejection, ...]
    provider: ProviderOption
    workload: Workload
    task: str
    family: str
    usual: SpeedRequest
    notes: tuple[Reason, ...]
    caveats: tuple[Caveat, ...]
    sources: tuple[Source, ...]
    own: OwnHardware | None = None


NEEDS: Mapping[Rule, str] = {
    "prepaid_credits": "needs_credits",
    "subscription": "needs_subscription",
    "cloud_account": "needs_cloud_account",
    "allowlist": "needs_allowlist",
    "gradio_only": "gradio_only",
    "sleeps_after_48h": "sleeps",
}


LesserSteps = Literal["too_large", "refused", "untried"]
"""Why no less compressed weights stand in an entry: they do not fit, miss what was asked for, or are not tried on this hardware."""


def explain_configuration(
    offer: Hardware,
    best: Configuration,
    whole: Sequence[Configuration],
    published: Mapping[str, str] | None,
    loading: Loading,
    lesser: LesserSteps,
) -> tuple[Reason, ...]:
    """The model that is placed, its precision, its number of devices and its speed.

    `whole` are the configurations with less compressed weights that pass here too, `lesser` says what became of
    them where none does, `published` names the quantized checkpoints that the Hub lists, `loading` says whether one of them is needed.
    """
    return (
        *_explain_memory(best.headroom),
        *_explain_form(offer, best, published, loading),
        *_explain_compression(best, whole, lesser),
        *_explain_devices(offer, best.candidate, best.headroom.memory.host_bytes),
        *_explain_speed(best.speed),
    )


def _explain_memory(headroom: Headroom) -> list[Reason]:
    values = {
        "needed_bytes": headroom.needed_bytes,
        "device_bytes": headroom.device_bytes,
        "capacity_bytes": headroom.capacity_bytes,
        "free_bytes": headroom.free_bytes,
        "free_percent": 100 * (headroom.device_bytes - headroom.needed_bytes) // headroom.device_bytes,
    }
    variant = "claim" if headroom.capacity_bytes < headroom.device_bytes else ""
    reasons = [Reason("fits" if headroom.comfortable else "fits_tightly", values, variant=variant)]
    if headroom.working_bytes:
        reasons.append(Reason("working_room", {"bytes": headroom.working_bytes}))
    return reasons


def _explain_form(offer: Hardware, best: Configuration, published: Mapping[str, str] | None, loading: Loading) -> list[Reason]:
    """How the checkpoint comes into this precision, and what the Space has to be built with."""
    candidate, precision = best.candidate, best.headroom.memory.precision
    reasons = []
    of_its_own = offer.processor.kind not in traits_of(candidate.engine).in_process
    if candidate.sdk == "docker" and of_its_own:
        reasons.append(Reason("needs_docker", {"engine": candidate.engine}))
    if candidate.untested:
        version = read_engine_models()[candidate.engine].version
        reasons.append(Reason("engine_untested", {"engine": candidate.engine, "version": version, "architecture": candidate.untested}))
    if candidate.note == "unpacked":
        reasons.append(Reason("unpacked", {"precision": precision, "silicon": offer.name}))
    if candidate.note == "halved":
        reasons.append(Reason("halved", {"precision": precision}))
    if offer.silicon is not None and not offer.silicon.supports("bf16") and precision == "fp16":
        reasons.append(Reason("no_bf16", {"silicon": offer.silicon.name}))
    if loading == "other checkpoint":
        repository = "" if published is None else published.get("gguf" if precision.startswith("gguf:") else precision, "")
        variant = "" if published is None else "found" if repository else "none"
        reasons.append(Reason("checkpoint", {"precision": precision, "repository": repository}, variant=variant))
    return reasons


def _explain_compression(best: Configuration, whole: Sequence[Configuration], lesser: LesserSteps) -> list[Reason]:
    """Why the weights are compressed: what less compressed ones lack on this offer."""
    candidate = best.candidate
    if candidate.step == AS_STORED and candidate.note != "converted":
        return []
    values: dict[str, Value] = {"precision": best.headroom.memory.precision, "bits": 8 if candidate.step == EIGHT_BITS else 4}
    if candidate.note in {"sibling", "converted"}:
        return [Reason("quantized_sibling", values, variant="converted" if candidate.note == "converted" else "")]
    if whole:
        return [Reason("quantized", values, variant="replicas" if all(of.verdict == best.verdict for of in whole) else whole[0].verdict)]
    return [Reason("quantized", values, variant="" if lesser == "too_large" else lesser)]


def _explain_devices(offer: Hardware, candidate: Candidate, host_bytes: int) -> list[Reason]:
    reasons = []
    if candidate.devices > 1:
        code = "tensor_parallel" if candidate.engine in TENSOR_PARALLEL_ENGINES else "layer_split"
        reasons.append(Reason(code, {"devices": candidate.devices, "engine": candidate.engine}))
    if candidate.gpu_layers is not None:
        reasons.append(Reason("layers_on_host", {"gpu_layers": candidate.gpu_layers, "host_bytes": host_bytes}))
    if 0 < candidate.devices < offer.accelerator_count:
        reasons.append(Reason("cards_unused", {"devices": candidate.devices, "count": offer.accelerator_count}))
    if offer.tpu is not None and offer.tpu.hosts > 1:
        reasons.append(Reason("multi_host", {"hosts": int(offer.tpu.hosts)}))
    return reasons


def _explain_speed(speed: Speed) -> list[Reason]:
    """The prediction; where there is none, what the datasheet allows."""
    predicted, bound = speed.predicted, speed.decode_tokens_per_s_upper_bound
    if predicted is None:
        return [] if bound is None else [Reason("speed_bound", {"tokens_per_s": bound, "basis": speed.basis})]
    heard, rate = predicted.real_time_factor, predicted.decode_tokens_per_s
    if heard is not None:
        times = heard.value / predicted.request.concurrency
        values = {"sound_s": predicted.sound_s, "seconds": predicted.request_s, "times": times, "bound": predicted.bound}
        return [Reason("sound_speed", values)]
    if rate is None:
        return [Reason("request_speed", {"seconds": predicted.request_s, "bound": predicted.bound})]
    return [Reason("speed", {"tokens_per_s": rate.value, "seconds": predicted.ttft_s.value, "bound": predicted.bound})]


def explain_offer(offer: Offer, rules: PlatformRules, cost: Cost) -> tuple[Reason, ...]:
    """Price, and what the platform asks for before it can be used."""
    values: dict[str, Value] = {
        "usd_per_hour": cost.usd_per_hour,
        "usd_per_month": cost.usd_per_month,
        "hours": cost.hours_per_day,
        "days": cost.days_per_month,
    }
    if cost.replicas > 1:
        values["replicas"] = cost.replicas
    gradio = "gradio_only" in offer.rules
    reasons = [Reason("free", values | {"gradio_only": gradio}) if cost.usd_per_hour == 0 else Reason("price", values)]
    if cost.usd_per_month_unpaused is not None:
        unpaused: dict[str, Value] = {"hours": cost.hours_per_day, "usd_per_month": cost.usd_per_month_unpaused}
        reasons.append(Reason("paused_outside_hours", unpaused, variant=offer.traits.idle))
    if cost.usd_per_month_asleep is not None and cost.sleep_after_s is not None:
        asleep: dict[str, Value] = {"sleep_after_s": cost.sleep_after_s, "usd_per_month": cost.usd_per_month_asleep}
        reasons.append(Reason("price_asleep", asleep, variant=offer.traits.idle))
    if offer.price_secondhand:
        reasons.append(Reason("price_unverified", {"checked": offer.checked}))
    reasons += [Reason(code) for rule, code in NEEDS.items() if rule in offer.rules and (rule != "gradio_only" or cost.usd_per_hour != 0)]
    if offer.traits.runs_jobs:
        jobs = rules.jobs
        reasons.append(Reason("jobs_time_limit", {"minutes": jobs.default_timeout_s // 60, "ports_usd_per_hour": jobs.ports_usd_per_hour}))
    return tuple(reasons)


def price_offer(offer: Offer, workload: Workload, rules: PlatformRules, predicted: SpeedEstimate | None = None, replicas: int = 1) -> Cost:
    """Price per hour and month of all replicas by `lib.cost`, per request and token where the speed is predicted.

    The port of a Job that answers requests is in it; storage is not. The price with sleep stands beside the one without. ZeroGPU and free
    hardware cost nothing; a reason states the quota too.

    Raises:
        BadCatalog: a listed offer has no price.
    """
    if offer.usd_per_hour is None:
        raise BadCatalog(f"offers: {offer.platform} {offer.id} is listed without a price.")
    usage = Usage(
        hours_per_day=workload.hours_per_day,
        days_per_month=Decimal(DAYS_PER_MONTH),
        replicas=replicas,
        requests_per_day=Decimal(workload.requests_per_day) if workload.hours_per_day else Decimal(0),
        account=workload.account,
        visitor_account=workload.visitor_account,
        visitors_per_day=workload.visitors_per_day,
        concurrency=workload.concurrency if predicted is None else predicted.request.concurrency,
        prompt_tokens=PROMPT_TOKENS if predicted is None else predicted.request.prompt_tokens,
        output_tokens=OUTPUT_TOKENS if predicted is None else predicted.request.output_tokens,
    )
    bill = bill_offer(offer, usage, rules, speed=predicted)
    sleeps = offer.traits.sleeps and bill.total_usd_per_month > 0
    unpaused = bill.total_usd_per_month * DAY_H / workload.hours_per_day if sleeps and workload.hours_per_day < DAY_H else None
    # Asleep between requests: worth saying where it halves the bill.
    asleep = None
    if sleeps and usage.requests_per_day > 0:
        hours = count_hours(offer, replace(usage, sleep_after_s=Decimal(ADVISED_SLEEP_S)), rules, predicted).per_day
        asleep = bill.total_usd_per_month * hours / workload.hours_per_day
        asleep = asleep if 2 * asleep <= bill.total_usd_per_month else None
    return Cost(
        usd_per_hour=bill.usd_per_hour,
        usd_per_month=bill.total_usd_per_month,
        hours_per_day=workload.hours_per_day,
        days_per_month=DAYS_PER_MONTH,
        replicas=replicas,
        usd_per_million_output_tokens=bill.usd_per_million_output_tokens,
        usd_per_request=None if predicted is None else bill.usd_per_request,
        usd_per_month_unpaused=unpaused,
        usd_per_month_asleep=asleep,
        sleep_after_s=None if asleep is None else ADVISED_SLEEP_S,
    )
