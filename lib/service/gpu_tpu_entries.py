"""Entries of `/compare_gpu_tpu`: the options side by side, and each generation of TPU with its slices."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from lib.advisor import tpu_options
from lib.advisor.result import Entry
from lib.answers import gpu_tpu
from lib.catalog import Catalog
from lib.catalog.gpu_or_tpu import TpuSoftware
from lib.present.sentences import note, say, sentence


def list_entries(
    options: tpu_options.TpuOptions, software: TpuSoftware, rental: tpu_options.Rental, max_ttft_s: float, *, claimed: bool
) -> Iterable[gpu_tpu.OptionEntry]:
    """Of each generation the smallest slice and the cheapest per token, then the GPU offers; `claimed` adds Google's own figures."""
    for generation in options.generations:
        slices = {id(entry): entry for entry in (generation.smallest, generation.cheapest) if entry is not None}
        for entry in slices.values():
            roles = [role for role, one in (("smallest", generation.smallest), ("cheapest", generation.cheapest)) if one is entry]
            yield _option(entry, " and ".join(roles), generation, software, rental, max_ttft_s, claimed=claimed)
    for entry in options.gpu:
        yield _option(entry, "gpu", None, software, rental, max_ttft_s, claimed=claimed)


def _option(
    entry: Entry,
    role: str,
    generation: tpu_options.GenerationOption | None,
    software: TpuSoftware,
    rental: tpu_options.Rental,
    max_ttft_s: float,
    *,
    claimed: bool,
) -> gpu_tpu.OptionEntry:
    offer, predicted, memory = entry.offer, entry.speed.predicted, entry.memory
    prices = tpu_options.list_region_prices(offer, software)
    usd_per_hour = entry.cost.usd_per_hour if generation is None else tpu_options.slice_usd_per_hour(offer, software, rental)
    million = None if usd_per_hour is None else tpu_options.rescale_usd_per_million(entry, usd_per_hour)
    ttft = None if predicted is None else predicted.ttft_s.value
    total = None if predicted is None or predicted.output_tokens_per_s is None else predicted.output_tokens_per_s.value
    return gpu_tpu.OptionEntry(
        platform=offer.platform,
        name=offer.name,
        accelerator=offer.accelerator,
        accelerator_count=offer.accelerator_count,
        precision=entry.precision,
        engine=entry.engine,
        devices=entry.devices,
        replicas=entry.replicas,
        capacity_bytes=None if memory is None else memory.capacity_bytes,
        kind="gpu" if generation is None else "tpu",
        role=role,
        hardware=offer.id,
        generation=None if generation is None else generation.generation.id,
        topology=None if offer.tpu is None else offer.tpu.topology,
        hosts=None if offer.tpu is None else offer.tpu.hosts,
        support=None if generation is None else generation.support,
        weights_bytes=0 if memory is None else memory.weights_bytes,
        kv_cache_bytes=0 if memory is None else memory.kv_cache_bytes,
        per_device_bytes=0 if memory is None else memory.per_device_bytes,
        ttft_s=ttft,
        prefill_tokens_per_s=None if predicted is None or not ttft else predicted.request.prompt_tokens / ttft,
        decode_tokens_per_s=entry.speed.tokens_per_s,
        throughput_tokens_per_s=total,
        within_ttft=tpu_options.within_limit(entry, max_ttft_s),
        region=None if generation is None else rental.region,
        commitment="on_demand" if generation is None else rental.commitment,
        usd_per_hour=usd_per_hour,
        usd_per_million_output_tokens=million,
        prices=tuple(prices),
        what_if=_what_if(entry, million, software) if claimed and generation is not None else None,
    )


def _what_if(entry: Entry, usd_per_million: Decimal | None, software: TpuSoftware) -> gpu_tpu.WhatIfEntry | None:
    claimed = tpu_options.apply_claim(entry, usd_per_million, software.torchtpu_claim)
    if claimed is None:
        return None
    return gpu_tpu.WhatIfEntry(
        label=note("gpu_tpu", "claim"),
        throughput_tokens_per_s_low=claimed.tokens_per_s_low,
        throughput_tokens_per_s_high=claimed.tokens_per_s_high,
        usd_per_million_output_tokens_low=claimed.usd_per_million_low,
        usd_per_million_output_tokens_high=claimed.usd_per_million_high,
    )


def show_generation(option: tpu_options.GenerationOption, catalog: Catalog, software: TpuSoftware) -> gpu_tpu.GenerationEntry:
    """A generation of TPU: whether vLLM runs the model on it, chips needed, and every slice with what it lacks."""
    generation, chip = option.generation, catalog.accelerator(option.generation.accelerator)
    terms = software.terms(generation.id)
    return gpu_tpu.GenerationEntry(
        id=generation.id,
        name=generation.name,
        support=option.support,
        chips_needed=option.chips_needed,
        accelerator=chip.id,
        memory_bytes_per_chip=chip.memory_usable,
        bandwidth_bytes_per_s=chip.bandwidth,
        vllm="" if terms is None else terms.vllm,
        support_message=say("gpu_tpu", "support", option.support),
        slices=tuple(_slices(option)),
    )


def _slices(option: tpu_options.GenerationOption) -> Iterable[gpu_tpu.SliceEntry]:
    for each in option.slices:
        tpu = each.offer.tpu
        if tpu is not None:
            yield gpu_tpu.SliceEntry(
                hardware=each.offer.id,
                topology=tpu.topology,
                chips=each.offer.accelerator_count,
                hosts=tpu.hosts,
                usd_per_hour=each.offer.usd_per_hour or Decimal(0),
                fits=each.entry is not None and each.entry.replicas == 1,
                reason=_why_not(each),
            )


def _why_not(option: tpu_options.SliceOption) -> str:
    if option.rejection is not None:
        return sentence(option.rejection.reason)
    return "" if option.entry is None or option.entry.replicas == 1 else note("gpu_tpu", "replicas", replicas=option.entry.replicas)
