"""`/estimate_memory`: the estimate, its parts with their laws, and every tier it is held against, as plain JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lib.answers.common import SCHEMA, FitEntry, MemoryAnswer, PartEntry
from lib.errors import BadArgument
from lib.memory import estimate_memory, fit_memory, usable_memory
from lib.service.wire import caveat_entries, source_entries, usd

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Offer
    from lib.memory import MemoryEstimate, Part
    from lib.model.spec import ModelSpec
    from lib.workload import MemoryRequest

PLATFORMS = ("spaces", "zerogpu")
MOST_BYTES = 10**18  # an exabyte: beyond every machine, and within the integers that JSON readers share


def _part(part: Part) -> PartEntry:
    return {
        "name": part.name,
        "bytes": part.bytes,
        "law": part.law,
        "inputs": dict(part.inputs),
        "source": part.source,
        "details": dict(part.details),
    }


def _devices(request: MemoryRequest, offer: Offer) -> int:
    """Cards of the offer that share the model: all of them, or as many as were asked for."""
    count = max(1, offer.accelerator_count)
    return count if request.devices == 1 else min(request.devices, count)


def _fits(spec: ModelSpec, request: MemoryRequest, catalog: Catalog) -> Iterator[FitEntry]:
    for offer in catalog.on(PLATFORMS):
        capacity = usable_memory(offer)
        if capacity is None:
            continue
        devices = _devices(request, offer)
        fit = fit_memory(spec, replace(request, devices=devices), capacity, offer.silicon or offer.host_cpu)
        yield {
            "hardware": offer.id,
            "platform": offer.platform,
            "name": offer.name,
            "accelerator": offer.accelerator,
            "accelerator_count": offer.accelerator_count,
            "devices": devices,
            "usd_per_hour": usd(offer.usd_per_hour),
            "fits": fit.fits,
            "capacity_bytes": fit.capacity_bytes,
            "free_bytes": fit.free_bytes,
            "max_context_tokens": fit.max_context_tokens,
            "max_batch_size": fit.max_batch_size,
        }


def memory_answer(spec: ModelSpec, request: MemoryRequest, catalog: Catalog) -> MemoryAnswer:
    """The estimate on unnamed silicon, and the fit on each tier of Spaces with that tier's own silicon.

    Raises:
        BadArgument: what is asked would take more than an exabyte.
    """
    found: MemoryEstimate = estimate_memory(spec, request)
    if found.total_bytes > MOST_BYTES:
        asked = f"{request.batch_size:,} × {request.context_tokens:,}"
        raise BadArgument("batch_size × context_tokens", asked, "a request that takes less than an exabyte (10^18 bytes)")
    return {
        "schema": SCHEMA,
        "model": spec.id,
        "precision": found.precision,
        "kv_precision": found.kv_precision,
        "engine": found.engine,
        "weights_bytes": found.weights.bytes,
        "kv_cache_bytes": found.kv_cache.bytes,
        "activation_bytes": found.activation.bytes,
        "runtime_bytes": found.runtime.bytes,
        "total_bytes": found.total_bytes,
        "low_bytes": found.low_bytes,
        "high_bytes": found.high_bytes,
        "per_device_bytes": found.per_device_bytes,
        "rule_of_thumb_bytes": found.rule_of_thumb_bytes,
        "parts": [_part(part) for part in (found.weights, found.kv_cache, found.activation, found.runtime)],
        "fits": list(_fits(spec, request, catalog)),
        "caveats": caveat_entries((*spec.caveats, *found.caveats)),
        "sources": source_entries((*spec.sources, *found.sources)),
    }
