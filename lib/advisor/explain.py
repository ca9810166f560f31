"""The reasons of an entry: its memory, precision and devices, its speed, its price, and the platform's requirements; and that price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Literal

from lib.advisor.candidates import AS_STORED, EIGHT_BITS, TENSOR_PARALLEL_ENGINES, Candidate, explain_unlisted, rate_support
from lib.advisor.fit import Headroom
from lib.advisor.rank import VERDICTS
from lib.advisor.result import DAYS_PER_MONTH, Configuration, Cost, Speed
from lib.catalog.gpu_or_tpu import Support, load_tpu_software
from lib.catalog.host_memory import assume_host
from lib.catalog.kernels import is_weight_only
from lib.catalog.offers import Hardware, Offer, Rule
from lib.catalog.rules import PlatformRules
from lib.cost import Usage, bill_offer
from lib.cost.usage import ADVISED_SLEEP_S, count_hours
from lib.engines import traits_of
from lib.errors import BadCatalog
from lib.laws.price import DAY_H
from lib.laws.start_up import cold_start
from lib.memory import MemoryEstimate
from lib.model.spec import ModelSpec
from lib.precision import Loading
from lib.provenance import Reason, Value
from lib.speed import SpeedEstimate
from lib.speed.hardware import find_link_rate
from lib.workload import OUTPUT_TOKENS, PROMPT_TOKENS, Workload, visitors_plan

NEEDS: Mapping[Rule, str] = {
    "prepaid_credits": "needs_credits",
    "subscription": "needs_subscription",
    "cloud_account": "needs_cloud_account",
    "allowlist": "needs_allowlist",
    "gradio_only": "gradio_only",
    "sleeps_after_48h": "sleeps",
}


MINUTE_S = 60
WITHOUT_PEERS = (7, 23)
"""Percent of the tokens per second that vLLM loses on two cards over PCIe if they have no direct access to each other (P2P).

7 to 11 % on two RTX 3090, 23 % on two RTX 5090 with a small mixture (github.com/noonghunna/club-3090, pull request 928 and issue 873, read
2026-11-26). The fit does not know of each row whether the cards had it."""
LesserSteps = Literal["too_large", "refused", "untried"]
"""The reason that an entry has no less compressed weights: they do not fit, miss a limit, or are not tried on this hardware."""


def explain_configuration(
    offer: Hardware,
    best: Configuration,
    whole: Sequence[Configuration],
    published: Mapping[str, str] | None,
    loading: Loading,
    lesser: LesserSteps,
) -> tuple[Reason, ...]:
    """The model that is placed, its precision, its number of devices and its speed.

    `whole` are the configurations with less compressed weights that pass here too; `lesser` is the outcome of those if none passes.
    `published` names the quantized checkpoints that the Hub lists, `loading` says whether one of them is needed.
    """
    return (
        *_explain_memory(best.headroom),
        *_explain_form(offer, best, published, loading),
        *_explain_compression(best, whole, lesser),
        *_explain_devices(offer, best.candidate, best.headroom.memory),
        *_explain_speed(best.speed),
        *_explain_batch(best),
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
    if headroom.nearly_full:
        variant = "nearly_full"
    reasons = [Reason("fits" if headroom.comfortable else "fits_tightly", values, variant=variant)]
    if headroom.working_bytes:
        reasons.append(Reason("working_room", {"bytes": headroom.working_bytes}))
    return reasons


def _explain_form(offer: Hardware, best: Configuration, published: Mapping[str, str] | None, loading: Loading) -> list[Reason]:
    """The conversion of the checkpoint into this precision, and the SDK that the Space needs."""
    candidate, precision = best.candidate, best.headroom.memory.precision
    reasons = []
    of_its_own = offer.processor.kind not in traits_of(candidate.engine).in_process
    if candidate.sdk == "docker" and of_its_own:
        reasons.append(Reason("needs_docker", {"engine": candidate.engine}))
    support = rate_support(best.headroom.memory.of.spec, candidate.engine, offer)
    if support is not None:
        reasons.append(_explain_support(best.headroom.memory.of.spec, support, offer))
    elif (unlisted := explain_unlisted(best.headroom.memory.of.spec, candidate.engine, offer)) is not None:
        reasons.append(unlisted)
    mixture = best.headroom.memory.of.spec.is_mixture
    if offer.silicon is not None and is_weight_only(candidate.engine, precision, offer.silicon, mixture=mixture):
        reasons.append(Reason("weight_only", {"precision": precision, "silicon": offer.silicon.name, "engine": candidate.engine}))
    if candidate.note == "unpacked":
        reasons.append(Reason("unpacked", {"precision": precision, "silicon": offer.name}))
    if candidate.note == "halved":
        reasons.append(Reason("halved", {"precision": precision}))
    if offer.silicon is not None and not offer.silicon.supports("bf16") and precision == "fp16":
        reasons.append(Reason("no_bf16", {"silicon": offer.silicon.name}))
    if loading == "quantized on load" and offer.traits.per_call:
        reasons.append(Reason("quantize_ahead", {"precision": precision}))
    if loading == "other checkpoint":
        repository = "" if published is None else published.get("gguf" if precision.startswith("gguf:") else precision, "")
        variant = "" if published is None else "found" if repository else "none"
        reasons.append(Reason("checkpoint", {"precision": precision, "repository": repository}, variant=variant))
    return reasons


def _explain_support(spec: ModelSpec, support: Support, offer: Hardware) -> Reason:
    """How far vLLM's TPU backend was tested with the model."""
    matrix = load_tpu_software().support
    values: dict[str, Value] = {
        "engine": matrix.package,
        "version": matrix.release,
        "checked": matrix.checked,
        "model": spec.id,
        "architecture": spec.architecture,
        "silicon": offer.processor.name,
    }
    return Reason("tpu_untested", values) if support == "untested" else Reason("tpu_tested", values, variant=support)


def _explain_compression(best: Configuration, whole: Sequence[Configuration], lesser: LesserSteps) -> list[Reason]:
    """Why the weights are compressed: the best verdict that less compressed ones get on this offer, or why they get none."""
    candidate = best.candidate
    if candidate.step == AS_STORED and candidate.note != "converted":
        return []
    values: dict[str, Value] = {"precision": best.headroom.memory.precision, "bits": 8 if candidate.step == EIGHT_BITS else 4}
    if candidate.note in {"sibling", "converted"}:
        return [Reason("quantized_sibling", values, variant="converted" if candidate.note == "converted" else "")]
    if whole and all(of.verdict == best.verdict for of in whole):
        return [Reason("quantized", values, variant="replicas")]
    if whole:
        closest = min(whole, key=lambda of: VERDICTS.index(of.verdict))  # the first of the best ones: the least compressed
        room = closest.headroom
        values |= {
            "whole_precision": room.memory.precision,
            "whole_bytes": room.needed_bytes,
            "whole_high_bytes": room.high_bytes,
            "whole_capacity_bytes": room.capacity_bytes,
        }
        return [Reason("quantized", values, variant=closest.verdict)]
    return [Reason("quantized", values, variant="" if lesser == "too_large" else lesser)]


def _explain_devices(offer: Hardware, candidate: Candidate, memory: MemoryEstimate) -> list[Reason]:
    reasons, host_bytes = list[Reason](), memory.host_bytes
    if candidate.devices > 1:
        code = "tensor_parallel" if candidate.engine in TENSOR_PARALLEL_ENGINES else "layer_split"
        exchanges = code == "tensor_parallel" and offer.traits.owned and offer.silicon is not None and find_link_rate(offer.silicon)[1]
        values: dict[str, Value] = {"devices": candidate.devices, "engine": candidate.engine}
        less: dict[str, Value] = {"least_percent": WITHOUT_PEERS[0], "most_percent": WITHOUT_PEERS[1]} if exchanges else {}
        reasons.append(Reason(code, values | less, variant="pcie" if exchanges else ""))
    if candidate.gpu_layers is not None:
        reasons.append(Reason("layers_on_host", {"gpu_layers": candidate.gpu_layers, "host_bytes": host_bytes}))
    if candidate.cpu_moe_layers:
        host = offer.host or assume_host()
        layers = memory.of.spec.dimensions.layers
        placed: dict[str, Value] = {"cpu_moe_layers": candidate.cpu_moe_layers, "layers": layers, "host_bytes": host_bytes}
        placed |= {"host": host.name, "host_size_bytes": int(host.size)}
        assumed = "assumed" if host.size_assumed or host.bandwidth_assumed else ""
        reasons.append(Reason("experts_on_host", placed, variant=assumed))
    if 0 < candidate.devices < offer.accelerator_count:
        reasons.append(Reason("cards_unused", {"devices": candidate.devices, "count": offer.accelerator_count}))
    if offer.tpu is not None and offer.tpu.hosts > 1:
        reasons.append(Reason("multi_host", {"hosts": int(offer.tpu.hosts)}))
    return reasons


def _explain_speed(speed: Speed) -> list[Reason]:
    """The prediction; without one, the limit of the datasheet."""
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


def _explain_batch(best: Configuration) -> list[Reason]:
    """An engine in the app's own process starts requests together only if the app hands them over together."""
    concurrency = best.speed.concurrency or 1
    in_app = traits_of(best.candidate.engine).static_batch and best.candidate.sdk == "gradio"
    return [Reason("app_batches", {"concurrency": concurrency})] if in_app and concurrency > 1 else []


def explain_offer(offer: Offer, workload: Workload, rules: PlatformRules, cost: Cost) -> tuple[Reason, ...]:
    """Price, start-up, and conditions of the platform."""
    values: dict[str, Value] = {
        "usd_per_hour": cost.usd_per_hour,
        "usd_per_month": cost.total_usd_per_month,
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
        asleep: dict[str, Value] = {
            "sleep_after_s": cost.sleep_after_s,
            "usd_per_month": cost.usd_per_month_asleep,
            "start_s": _round_start(cost),
            "file_bytes": cost.file_bytes,
            "wakes_per_day": cost.wakes_per_day or Decimal(0),
        }
        reasons.append(Reason("price_asleep", asleep, variant=offer.traits.idle))
    reasons += _explain_start(offer, rules, cost)
    if offer.traits.per_call:
        reasons.append(_explain_beyond_quota(workload, rules, cost))
    if offer.price_secondhand:
        reasons.append(Reason("price_unverified", {"checked": offer.checked}))
    reasons += [Reason(code) for rule, code in NEEDS.items() if rule in offer.rules and (rule != "gradio_only" or cost.usd_per_hour != 0)]
    if offer.traits.runs_jobs:
        jobs = rules.jobs
        reasons.append(Reason("jobs_time_limit", {"minutes": jobs.default_timeout_s // 60, "ports_usd_per_hour": jobs.ports_usd_per_hour}))
    return tuple(reasons)


def _round_start(cost: Cost) -> int:
    """A start-up to the minute: the law knows it no better."""
    return max(1, round(cost.cold_start_s / MINUTE_S)) * MINUTE_S


def _explain_start(offer: Offer, rules: PlatformRules, cost: Cost) -> list[Reason]:
    """A Space whose files take longer to fetch and load than it may take to start."""
    limit_s = rules.sleep.startup_timeout_s
    if not offer.traits.runs_spaces or cost.cold_start_s <= limit_s:
        return []
    return [Reason("start_limit", {"file_bytes": cost.file_bytes, "start_s": _round_start(cost), "limit_s": limit_s})]


def _explain_beyond_quota(workload: Workload, rules: PlatformRules, cost: Cost) -> Reason:
    """Price of a request beyond the daily quota, or the plans that may pay for one."""
    values: dict[str, Value] = {
        "account": visitors_plan(workload.account, workload.visitor_account),
        "accounts": ", ".join(rules.zerogpu.overquota_accounts),
        "usd_per_gpu_hour": rules.zerogpu.overquota_usd_per_gpu_hour,
    }
    if cost.usd_per_request_beyond_quota is None:
        return Reason("zerogpu_beyond", values, variant="closed")
    return Reason("zerogpu_beyond", values | {"usd_per_request": cost.usd_per_request_beyond_quota})


def price_offer(
    offer: Offer,
    workload: Workload,
    rules: PlatformRules,
    predicted: SpeedEstimate | None = None,
    replicas: int = 1,
    file_bytes: int = 0,
) -> Cost:
    """Price per hour and month of all replicas by `lib.cost`, per request and token where the speed is predicted.

    The port of a Job that answers requests is in it; storage is not. The price with sleep follows the one without. ZeroGPU and free
    hardware cost nothing; a reason states the quota too. A start fetches and loads `file_bytes`; 0 if no model is placed.

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
        file_bytes=file_bytes,
    )
    bill = bill_offer(offer, usage, rules, speed=predicted)
    sleeps = offer.traits.sleeps and bill.total_usd_per_month > 0
    unpaused = bill.total_usd_per_month * DAY_H / workload.hours_per_day if sleeps and workload.hours_per_day < DAY_H else None
    # Asleep between requests: worth saying where it halves the bill.
    asleep = wakes = None
    if sleeps and usage.requests_per_day > 0:
        hours = count_hours(offer, replace(usage, sleep_after_s=Decimal(ADVISED_SLEEP_S)), rules, predicted)
        asleep = bill.total_usd_per_month * hours.per_day / workload.hours_per_day
        asleep, wakes = (asleep, hours.wakes_per_day) if 2 * asleep <= bill.total_usd_per_month else (None, None)
    return Cost(
        usd_per_hour=bill.usd_per_hour,
        total_usd_per_month=bill.total_usd_per_month,
        hours_per_day=workload.hours_per_day,
        days_per_month=DAYS_PER_MONTH,
        replicas=replicas,
        usd_per_million_output_tokens=bill.usd_per_million_output_tokens,
        usd_per_request=None if predicted is None else bill.usd_per_request,
        usd_per_month_unpaused=unpaused,
        usd_per_month_asleep=asleep,
        sleep_after_s=None if asleep is None else ADVISED_SLEEP_S,
        cold_start_s=cold_start(file_bytes).seconds,
        file_bytes=file_bytes,
        wakes_per_day=wakes,
        usd_per_request_beyond_quota=None if bill.zerogpu is None else bill.zerogpu.usd_per_request_beyond,
    )
