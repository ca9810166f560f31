"""The reasons that every entry carries: its memory, precision and devices, its speed, its price, what the platform asks for."""

from __future__ import annotations

from collections.abc import Mapping

from lib.advisor.candidates import DIVIDED, EIGHT_BITS, FOUR_BITS, Candidate
from lib.advisor.headroom import Headroom
from lib.advisor.result import Cost, Speed
from lib.catalog.offers import Offer, Rule
from lib.catalog.rules import PlatformRules
from lib.provenance import Reason, Value

NEEDS: Mapping[Rule, str] = {
    "prepaid_credits": "needs_credits",
    "subscription": "needs_subscription",
    "cloud_account": "needs_cloud_account",
    "allowlist": "needs_allowlist",
    "gradio_only": "gradio_only",
    "sleeps_after_48h": "sleeps",
}


def explain_configuration(offer: Offer, candidate: Candidate, headroom: Headroom, speed: Speed) -> tuple[Reason, ...]:
    """What is held, in which precision and over how many devices."""
    return tuple(_explain_memory(headroom)) + tuple(_explain_form(offer, candidate, headroom)) + tuple(_explain_speed(speed))


def _explain_memory(headroom: Headroom) -> list[Reason]:
    values = {
        "needed_bytes": headroom.needed_bytes,
        "capacity_bytes": headroom.capacity_bytes,
        "free_bytes": headroom.free_bytes,
        "free_percent": round(100 * headroom.free_bytes / headroom.capacity_bytes),
    }
    reasons = [Reason("fits" if headroom.comfortable else "fits_tightly", values)]
    if headroom.working_bytes:
        reasons.append(Reason("working_room", {"bytes": headroom.working_bytes}))
    return reasons


def _explain_form(offer: Offer, candidate: Candidate, headroom: Headroom) -> list[Reason]:
    reasons = []
    if candidate.note == "unpacked":
        reasons.append(Reason("unpacked", {"precision": headroom.memory.precision, "silicon": offer.name}))
    if candidate.step in {EIGHT_BITS, FOUR_BITS}:
        code = "quantized_sibling" if candidate.note == "sibling" else "quantized"
        reasons.append(Reason(code, {"precision": headroom.memory.precision, "bits": 8 if candidate.step == EIGHT_BITS else 4}))
    if offer.silicon is not None and not offer.silicon.supports("bf16") and headroom.memory.precision == "fp16":
        reasons.append(Reason("no_bf16", {"silicon": offer.silicon.name}))
    if candidate.devices > 1:
        code = "tensor_parallel" if candidate.engine in DIVIDED else "layer_split"
        reasons.append(Reason(code, {"devices": candidate.devices, "engine": candidate.engine}))
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
    rate = predicted.decode_tokens_per_s
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
    gradio = "gradio_only" in offer.rules
    reasons = [Reason("free", values | {"gradio_only": gradio}) if cost.usd_per_hour == 0 else Reason("price", values)]
    if not offer.price_verified and offer.price_basis == "bundled":
        reasons.append(Reason("price_unverified", {"checked": offer.checked}))
    reasons += [Reason(code) for rule, code in NEEDS.items() if rule in offer.rules and (rule != "gradio_only" or cost.usd_per_hour != 0)]
    if offer.platform == "jobs":
        jobs = rules.jobs
        reasons.append(Reason("jobs_time_limit", {"minutes": jobs.default_timeout_s // 60, "ports_usd_per_hour": jobs.ports_usd_per_hour}))
    return tuple(reasons)
