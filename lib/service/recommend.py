"""`/recommend`: the advisor's answer as plain JSON; its reasons become sentences here, by way of `lib.present`."""

from __future__ import annotations

from lib.advisor import recommend
from lib.advisor.result import Cost, Entry, ProviderOption, Recommendation, Rejection, Speed
from lib.answers.common import (
    SCHEMA,
    EntryCost,
    EntryMemory,
    EntrySpeed,
    ProviderEntry,
    RankedEntry,
    RecommendationAnswer,
    RejectedEntry,
    price_entry,
    source_entries,
    usd,
)
from lib.catalog import Catalog
from lib.model.spec import ModelSpec
from lib.present.sentences import caveat_entries, reason_entries, sentence
from lib.service.speed import speed_end
from lib.workload import Workload


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
    of = speed.predicted
    found = None if of is None else speed_end(of, "value")
    return {
        "ttft_s": None if found is None else found["ttft_s"],
        "inter_token_s": None if found is None else found["inter_token_s"],
        "decode_tokens_per_s": None if found is None else found["decode_tokens_per_s"],
        "throughput_tokens_per_s": None if found is None else found["throughput_tokens_per_s"],
        "request_s": None if of is None else of.request_s,
        "bound": None if of is None else of.bound,
        "low": None if of is None else speed_end(of, "low"),
        "high": None if of is None else speed_end(of, "high"),
        "prompt_tokens": None if of is None else of.request.prompt_tokens,
        "output_tokens": None if of is None else of.request.output_tokens,
        "concurrency": None if of is None else of.request.concurrency,
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
        "usd_per_million_output_tokens": usd(cost.usd_per_million_output_tokens),
        "usd_per_request": usd(cost.usd_per_request),
    }


def ranked_entry(entry: Entry) -> RankedEntry:
    """Hardware that does it, as JSON."""
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
        "reasons": reason_entries(entry.reasons),
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
        "reasons": reason_entries(option.reasons),
    }


def recommendation_answer(spec: ModelSpec | None, workload: Workload, catalog: Catalog) -> RecommendationAnswer:
    """Judge every listed offer of the asked platforms; `spec` is None where the Space only calls a provider."""
    return recommended(recommend(spec, workload, catalog), spec, catalog)


def recommended(found: Recommendation, spec: ModelSpec | None, catalog: Catalog) -> RecommendationAnswer:
    """A recommendation as JSON."""
    return {
        "schema": SCHEMA,
        "model": "" if spec is None else spec.id,
        "task": found.task,
        "pick": None if found.pick is None else ranked_entry(found.pick),
        "ranked": [ranked_entry(entry) for entry in found.ranked],
        "rejected": [_rejected(rejection) for rejection in found.rejected],
        "provider": _provider(found.provider),
        "notes": reason_entries(found.notes),
        "prices": price_entry(catalog.prices["spaces"]),
        "caveats": caveat_entries(found.caveats),
        "sources": source_entries(found.sources),
    }
