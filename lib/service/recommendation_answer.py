"""`/recommend`: the advisor's answer as plain JSON; its reasons become sentences here, by way of `lib.present`."""

from __future__ import annotations

from collections.abc import Iterable

from lib.advisor import recommend
from lib.advisor.result import Cost, Entry, ProviderOption, Reason, Recommendation, Rejection, Speed
from lib.catalog import Catalog
from lib.model.spec import ModelSpec
from lib.present.reasons import sentence
from lib.service.results import (
    SCHEMA,
    EntryCost,
    EntryMemory,
    EntrySpeed,
    ProviderEntry,
    RankedEntry,
    ReasonEntry,
    RecommendationAnswer,
    RejectedEntry,
)
from lib.service.wire import caveat_entries, price_entry, source_entries
from lib.workload import Workload


def _reasons(reasons: Iterable[Reason]) -> list[ReasonEntry]:
    return [{"code": reason.code, "message": sentence(reason)} for reason in reasons]


def _memory(entry: Entry) -> EntryMemory | None:
    held = entry.memory
    if held is None:
        return None
    return {
        "weights_bytes": held.weights.bytes,
        "kv_cache_bytes": held.kv_cache.bytes,
        "activation_bytes": held.activation.bytes,
        "runtime_bytes": held.runtime.bytes,
        "total_bytes": held.total_bytes,
        "per_device_bytes": held.per_device_bytes,
        "capacity_bytes": entry.capacity_bytes,
        "free_bytes": entry.free_bytes,
    }


def _speed(speed: Speed) -> EntrySpeed:
    return {
        "decode_tokens_per_s_upper_bound": speed.decode_tokens_per_s_upper_bound,
        "request_s_lower_bound": speed.request_s_lower_bound,
        "basis": speed.basis,
    }


def _cost(cost: Cost) -> EntryCost:
    return {
        "usd_per_hour": float(cost.usd_per_hour),
        "total_usd_per_month": float(cost.usd_per_month),
        "hours_per_day": float(cost.hours_per_day),
        "days_per_month": cost.days_per_month,
    }


def _ranked(entry: Entry) -> RankedEntry:
    return {
        "hardware": entry.offer.id,
        "platform": entry.offer.platform,
        "name": entry.offer.name,
        "accelerator": entry.offer.accelerator,
        "accelerator_count": entry.offer.accelerator_count,
        "precision": entry.precision,
        "engine": entry.engine,
        "devices": entry.devices,
        "memory": _memory(entry),
        "speed": _speed(entry.speed),
        "cost": _cost(entry.cost),
        "verdict": entry.verdict,
        "pareto": entry.pareto,
        "reasons": _reasons(entry.reasons),
    }


def _rejected(rejection: Rejection) -> RejectedEntry:
    return {
        "hardware": rejection.offer.id,
        "platform": rejection.offer.platform,
        "name": rejection.offer.name,
        "reason_code": rejection.reason.code,
        "reason": sentence(rejection.reason),
    }


def _provider(option: ProviderOption) -> ProviderEntry:
    return {
        "suits": option.suits,
        "available": option.available,
        "providers": list(option.providers),
        "reasons": _reasons(option.reasons),
    }


def recommendation_answer(spec: ModelSpec | None, workload: Workload, catalog: Catalog) -> RecommendationAnswer:
    """Judge every listed offer of the asked platforms; `spec` is None where the Space only calls a provider."""
    found: Recommendation = recommend(spec, workload, catalog)
    return {
        "schema": SCHEMA,
        "model": "" if spec is None else spec.id,
        "task": found.task,
        "pick": None if found.pick is None else _ranked(found.pick),
        "ranked": [_ranked(entry) for entry in found.ranked],
        "rejected": [_rejected(rejection) for rejection in found.rejected],
        "provider": _provider(found.provider),
        "notes": _reasons(found.notes),
        "prices": price_entry(catalog.prices["spaces"]),
        "caveats": caveat_entries(found.caveats),
        "sources": source_entries(found.sources),
    }
