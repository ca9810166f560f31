"""The reasons that every entry carries: what it holds, in which form, how fast, what it costs, what the platform asks for."""

from __future__ import annotations

from collections.abc import Mapping

from lib.advisor.candidates import DIVIDED, EIGHT_BITS, FOUR_BITS, Candidate
from lib.advisor.headroom import Room
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


def configuration_reasons(offer: Offer, candidate: Candidate, room: Room, speed: Speed) -> tuple[Reason, ...]:
    """What is held, in which precision and over how many devices."""
    return tuple(_held(room)) + tuple(_form(offer, candidate, room)) + tuple(_pace(speed))


def _held(room: Room) -> list[Reason]:
    values = {
        "needed_bytes": room.needed_bytes,
        "capacity_bytes": room.capacity_bytes,
        "free_bytes": room.free_bytes,
        "free_percent": round(100 * room.free_bytes / room.capacity_bytes),
    }
    found = [Reason("fits" if room.comfortable else "fits_tightly", values)]
    if room.working_bytes:
        found.append(Reason("working_room", {"bytes": room.working_bytes}))
    return found


def _form(offer: Offer, candidate: Candidate, room: Room) -> list[Reason]:
    found = []
    if candidate.note == "unpacked":
        found.append(Reason("unpacked", {"precision": room.memory.precision, "silicon": offer.name}))
    if candidate.step in {EIGHT_BITS, FOUR_BITS}:
        code = "quantized_sibling" if candidate.note == "sibling" else "quantized"
        found.append(Reason(code, {"precision": room.memory.precision, "bits": 8 if candidate.step == EIGHT_BITS else 4}))
    if offer.silicon is not None and not offer.silicon.supports("bf16") and room.memory.precision == "fp16":
        found.append(Reason("no_bf16", {"silicon": offer.silicon.name}))
    if candidate.devices > 1:
        code = "tensor_parallel" if candidate.engine in DIVIDED else "layer_split"
        found.append(Reason(code, {"devices": candidate.devices, "engine": candidate.engine}))
    if 0 < candidate.devices < offer.accelerator_count:
        found.append(Reason("cards_unused", {"devices": candidate.devices, "count": offer.accelerator_count}))
    if offer.tpu is not None and offer.tpu.hosts > 1:
        found.append(Reason("multi_host", {"hosts": int(offer.tpu.hosts)}))
    return found


def _pace(speed: Speed) -> list[Reason]:
    """The prediction; where there is none, what the datasheet allows."""
    found, bound = speed.predicted, speed.decode_tokens_per_s_upper_bound
    if found is None:
        return [] if bound is None else [Reason("speed_bound", {"tokens_per_s": bound, "basis": speed.basis})]
    rate = found.decode_tokens_per_s
    if rate is None:
        return [Reason("request_speed", {"seconds": found.request_s, "bound": found.bound})]
    return [Reason("speed", {"tokens_per_s": rate.value, "seconds": found.ttft_s.value, "bound": found.bound})]


def offer_reasons(offer: Offer, rules: PlatformRules, cost: Cost) -> tuple[Reason, ...]:
    """Price, and what the platform asks for before it can be used."""
    values: dict[str, Value] = {
        "usd_per_hour": cost.usd_per_hour,
        "usd_per_month": cost.usd_per_month,
        "hours": cost.hours_per_day,
        "days": cost.days_per_month,
    }
    gradio = "gradio_only" in offer.rules
    found = [Reason("free", values | {"gradio_only": gradio}) if cost.usd_per_hour == 0 else Reason("price", values)]
    if not offer.price_verified and offer.price_basis == "bundled":
        found.append(Reason("price_unverified", {"checked": offer.checked}))
    found += [Reason(code) for rule, code in NEEDS.items() if rule in offer.rules and (rule != "gradio_only" or cost.usd_per_hour != 0)]
    if offer.platform == "jobs":
        jobs = rules.jobs
        found.append(Reason("jobs_time_limit", {"minutes": jobs.default_timeout_s // 60, "ports_usd_per_hour": jobs.ports_usd_per_hour}))
    return tuple(found)
