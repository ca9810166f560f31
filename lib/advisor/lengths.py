"""The pick's memory at the lengths that were asked for: the cache that is counted, and the cache of all requests at full length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from lib.advisor.entry_memory import EntryMemory, FullLength
from lib.advisor.fit import HostedModel, JudgeContext
from lib.advisor.result import ConfiguredHardware, Entry, Verdict
from lib.memory import count_sequences, estimate_memory, usable_memory
from lib.provenance import Reason, Value
from lib.request.serving import keep_experts_in_host
from lib.workload import MemoryRequest

_Configured = TypeVar("_Configured", bound=ConfiguredHardware)
FAST_ENOUGH: frozenset[Verdict] = frozenset({"comfortable", "usable"})
_OF_MEMORY = frozenset({"fits", "fits_tightly", "working_room"})


def describe_lengths(entry: _Configured, context: JudgeContext) -> _Configured:
    """The entry with its memory at full length and the reason that states both; unchanged where the model caches nothing."""
    model, memory = context.model, entry.memory
    if model is None or memory is None or not memory.kv_cache_bytes:
        return entry
    full = _measure_full_length(entry, memory, context, model)
    place = next((at for at, reason in enumerate(entry.reasons) if reason.code not in _OF_MEMORY | {"context_clamped"}), len(entry.reasons))
    reasons = (*entry.reasons[:place], _explain(memory, full, memory.estimate.of.request.media.tokens), *entry.reasons[place:])
    return replace(entry, full_length=full, reasons=reasons)


def describe_pick_lengths(order: Sequence[Entry], context: JudgeContext) -> tuple[Entry, ...]:
    """The order with the lengths of its first entry, and the next one that holds all requests at full length where that one does not."""
    if not order:
        return ()
    pick = describe_lengths(order[0], context)
    if pick.full_length is not None and not pick.full_length.fits:
        roomier = next((entry for entry in order[1:] if entry.verdict in FAST_ENOUGH and _holds_full_length(entry, context)), None)
        if roomier is not None:
            cost = roomier.cost.total_usd_per_month
            values: dict[str, Value] = {"name": roomier.name, "usd_per_month": cost, "precision": roomier.precision}
            place = next(at for at, reason in enumerate(pick.reasons) if reason.code == "cache_counted") + 1
            reasons = (*pick.reasons[:place], Reason("full_length_on", values), *pick.reasons[place:])
            pick = replace(pick, reasons=reasons)
    return (pick, *order[1:])


def _holds_full_length(entry: Entry, context: JudgeContext) -> bool:
    model, memory = context.model, entry.memory
    return model is not None and memory is not None and _measure_full_length(entry, memory, context, model).fits


def _measure_full_length(entry: ConfiguredHardware, memory: EntryMemory, context: JudgeContext, model: HostedModel) -> FullLength:
    """The same estimate for every request of one machine at the longest length."""
    concurrency = max(memory.batch_size, entry.speed.concurrency or 1)
    request = MemoryRequest(
        precision=entry.precision,
        engine=entry.hosted_with or MemoryRequest().engine,
        context_tokens=context.context_tokens,
        batch_size=concurrency,
        devices=max(1, entry.devices),
        gpu_layers=None if entry.gpu_layers < 0 else entry.gpu_layers,
        pictures=context.workload.pictures,
        media=context.workload.media,
        serving=keep_experts_in_host(context.workload.serving, entry.cpu_moe_layers),
    )
    silicon, device_bytes = entry.offer.processor, usable_memory(entry.offer) or 0
    estimate = estimate_memory(model.spec, request, silicon)
    fits = estimate.per_device_bytes <= memory.capacity_bytes
    held = concurrency if fits else count_sequences(model.spec, request, device_bytes, silicon)
    return FullLength(
        context_tokens=estimate.tokens,
        batch_size=concurrency,
        kv_cache_bytes=estimate.kv_cache_bytes,
        per_device_bytes=estimate.per_device_bytes,
        fits=fits,
        requests_held=concurrency if held is None else min(held, concurrency),
    )


def _explain(memory: EntryMemory, full: FullLength, media_tokens: int) -> Reason:
    """Both caches in words; tokens of pictures come on top of those of the text, and the cache holds them."""
    values: dict[str, Value] = {
        "requests": memory.batch_size,
        "tokens": memory.context_tokens + media_tokens,
        "cache_bytes": memory.kv_cache_bytes,
        "concurrency": full.batch_size,
        "full_tokens": full.context_tokens + media_tokens,
        "full_cache_bytes": full.kv_cache_bytes,
        "full_bytes": full.per_device_bytes,
        "capacity_bytes": memory.capacity_bytes,
        "requests_held": full.requests_held,
    }
    same = (memory.batch_size, memory.context_tokens) == (full.batch_size, full.context_tokens)
    return Reason("cache_counted", values, variant="" if same else "fits" if full.fits else "waits")
