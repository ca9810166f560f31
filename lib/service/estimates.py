"""`/estimate_memory`: the estimate, its parts with their laws, and every tier it is held against, as plain JSON.

`/resolve_model`: what a model is, as plain JSON.

`/list_hardware`: the rows of the catalog, as they are shown to programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lib.answers.common import (
    SCHEMA,
    CacheEntry,
    FitEntry,
    HardwareAnswer,
    HardwareEntry,
    MemoryAnswer,
    ModelAnswer,
    PartEntry,
    QuantizationEntry,
    source_entries,
    usd,
)
from lib.errors import BadArgument
from lib.laws.weights import weight_bytes
from lib.memory import estimate_memory, fit_memory, usable_memory
from lib.precision import weight_format
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lib.catalog import Catalog
    from lib.catalog.offers import Offer
    from lib.memory import MemoryEstimate, Part
    from lib.model.spec import CacheTerm, ModelSpec, Quantization

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


def _cache_entry(term: CacheTerm) -> CacheEntry:
    return {
        "kind": term.kind,
        "holds": term.holds,
        "layers": term.layers,
        "elements": term.elements,
        "growth": term.growth,
        "span": term.span,
        "dtype": term.dtype,
    }


def _quantization_entry(quantization: Quantization | None) -> QuantizationEntry | None:
    if quantization is None:
        return None
    return {"method": quantization.method, "format": quantization.format, "group_size": quantization.group_size}


def _by_dtype(spec: ModelSpec, loaded: int, precision: str) -> dict[str, int]:
    """The weights by the dtype they lie in: as the headers list them, else as the law of their format gives them.

    Keys are safetensors' words ("BF16"), or the format's name where a format packs payload and scales together.
    """
    if spec.stored.bytes_by_dtype:
        return dict(spec.stored.bytes_by_dtype)
    form = weight_format(precision)
    if form.law != "plain":
        return {precision: loaded}
    whole = weight_bytes([g for g in spec.tensors if g.fp32 or (g.fp32_in_fp16 and precision == "fp16")], weight_format("fp32"))
    name = {"fp32": "F32", "fp16": "F16", "bf16": "BF16"}[precision]
    if name == "F32" or not whole:
        return {name: loaded}
    return {name: loaded - whole, "F32": whole}


def _differs(stored: int, loaded: int) -> tuple[Caveat, ...]:
    if stored == loaded:
        return ()
    said = f"The files hold {stored:,} bytes of weights; loaded as they are, the model holds {loaded:,}. The other caveats say why."
    return (Caveat(code="stored_bytes_differ", message=said),)


def model_answer(spec: ModelSpec) -> ModelAnswer:
    """A resolved model; `weights_bytes` is what it holds when loaded as it is stored."""
    held = estimate_memory(spec, MemoryRequest(context_tokens=1))
    by_dtype = _by_dtype(spec, held.weights.bytes, held.precision)
    unstated = [caveat for caveat in held.caveats if caveat.code == "dtype_unstated"]
    return {
        "schema": SCHEMA,
        "id": spec.id,
        "architecture": spec.architecture,
        "model_type": spec.model_type,
        "library": spec.library,
        "task": spec.task,
        "parameters_total": spec.parameters_total,
        "parameters_active": spec.parameters_active,
        "parameters_by_component": spec.parameters_by_component,
        "weights_bytes": held.weights.bytes,
        "weights_bytes_by_dtype": by_dtype,
        "quantization": _quantization_entry(spec.stored.quantization),
        "context_limit_tokens": spec.context_limit,
        "layer_kinds": dict(spec.layer_kinds),
        "cache": [_cache_entry(term) for term in spec.cache_terms or ()],
        "license": spec.license,
        "gated": spec.gated,
        "source": spec.source,
        "caveats": caveat_entries((*spec.caveats, *unstated, *_differs(sum(by_dtype.values()), held.weights.bytes))),
        "sources": source_entries(spec.sources),
    }


def hardware_entry(offer: Offer) -> HardwareEntry:
    """One offer as a row; None where a figure does not exist or was never published."""
    return {
        "id": offer.id,
        "platform": offer.platform,
        "name": offer.name,
        "accelerator": offer.accelerator,
        "accelerator_count": offer.accelerator_count,
        "accelerator_fraction": offer.accelerator_fraction,
        "vram_bytes_per_accelerator": offer.vram_bytes_per_accelerator,
        "vcpu": offer.vcpu,
        "ram_bytes": offer.ram_bytes,
        "disk_bytes": offer.disk_bytes,
        "usd_per_hour": usd(offer.usd_per_hour),
        "last_usd_per_hour": usd(offer.last_usd_per_hour),
        "price_verified": offer.price_verified,
        "price_basis": offer.price_basis,
        "status": offer.status,
        "since": offer.since,
        "successor": offer.successor,
        "rules": sorted(offer.rules),
        "notes": offer.notes,
        "source": offer.source,
        "checked": offer.checked,
    }


def hardware_answer(offers: Iterable[Offer]) -> HardwareAnswer:
    """The rows, with each distinct source once."""
    rows = tuple(offers)
    return {
        "schema": SCHEMA,
        "hardware": [hardware_entry(offer) for offer in rows],
        "caveats": [],
        "sources": source_entries(source for offer in rows for source in offer.sources),
    }
