"""The options of `/compare_gpu_tpu`: slices of every generation of TPU, GPU offers beside them, and recipes for the cheapest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from lib.advisor.result import Entry
from lib.advisor.tpu_options import (
    GenerationOption,
    RegionPrice,
    Rental,
    SliceOption,
    TpuOptions,
    apply_claim,
    list_region_prices,
    rescale_usd_per_million,
    slice_usd_per_hour,
    within_limit,
)
from lib.answers.common import usd
from lib.answers.gpu_tpu import GenerationEntry, OptionEntry, RecipeEntry, RegionPriceEntry, SliceEntry, WhatIfEntry
from lib.catalog import Catalog
from lib.catalog.gpu_or_tpu import TpuSoftware
from lib.present.cards import PLATFORM_NAMES
from lib.present.gpu_tpu_cards import SUPPORT, replicas_sentence
from lib.present.sentences import sentence
from lib.present.setup_files import write_setup
from lib.present.tpu_recipes import RecipeChoice, tpu_recipes
from lib.service.recommend import ranked_entry

_CLAIM = "What if TorchTPU's claim held here (1.5 to 2 times as fast, by Google, of its Fused Eager mode against its Debug Eager mode)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionQuestion:
    """Where slices are rented, the limit on the time to first token (0: none), and whether TorchTPU's claim is worked out."""

    rental: Rental
    max_ttft_s: float
    torchtpu_claim: bool


def option_entries(question: OptionQuestion, options: TpuOptions, software: TpuSoftware) -> Iterable[OptionEntry]:
    """Of each generation the smallest slice and the cheapest per token, then the GPU offers."""
    for generation in options.generations:
        slices = {id(entry): entry for entry in (generation.smallest, generation.cheapest) if entry is not None}
        for entry in slices.values():
            roles = [role for role, one in (("smallest", generation.smallest), ("cheapest", generation.cheapest)) if one is entry]
            yield _option(question, entry, " and ".join(roles), generation, software)
    for entry in options.gpu:
        yield _option(question, entry, "gpu", None, software)


def _option(question: OptionQuestion, entry: Entry, role: str, generation: GenerationOption | None, software: TpuSoftware) -> OptionEntry:
    offer, predicted, memory = entry.offer, entry.speed.predicted, entry.memory
    prices = list_region_prices(offer, software)
    usd_per_hour = entry.cost.usd_per_hour if generation is None else slice_usd_per_hour(offer, software, question.rental)
    million = None if usd_per_hour is None else rescale_usd_per_million(entry, usd_per_hour)
    ttft = None if predicted is None else predicted.ttft_s.value
    total = None if predicted is None or predicted.output_tokens_per_s is None else predicted.output_tokens_per_s.value
    return {
        "kind": "gpu" if generation is None else "tpu",
        "role": role,
        "hardware": offer.id,
        "platform": offer.platform,
        "name": offer.name,
        "accelerator": offer.accelerator,
        "accelerator_count": offer.accelerator_count,
        "generation": None if generation is None else generation.generation.id,
        "topology": None if offer.tpu is None else offer.tpu.topology,
        "hosts": None if offer.tpu is None else offer.tpu.hosts,
        "support": None if generation is None else generation.support,
        "precision": entry.precision,
        "engine": entry.engine,
        "devices": entry.devices,
        "replicas": entry.replicas,
        "weights_bytes": 0 if memory is None else memory.weights.bytes,
        "kv_cache_bytes": 0 if memory is None else memory.kv_cache.bytes,
        "per_device_bytes": 0 if memory is None else memory.per_device_bytes,
        "capacity_bytes": entry.capacity_bytes,
        "ttft_s": ttft,
        "prefill_tokens_per_s": None if predicted is None or not ttft else predicted.request.prompt_tokens / ttft,
        "decode_tokens_per_s": entry.speed.tokens_per_s,
        "throughput_tokens_per_s": total,
        "within_ttft": within_limit(entry, question.max_ttft_s),
        "region": None if generation is None else question.rental.region,
        "commitment": "on_demand" if generation is None else question.rental.commitment,
        "usd_per_hour": usd(usd_per_hour),
        "usd_per_million_output_tokens": usd(million),
        "prices": [_region_price(price) for price in prices],
        "what_if": _what_if(entry, million, software) if question.torchtpu_claim and generation is not None else None,
    }


def _region_price(price: RegionPrice) -> RegionPriceEntry:
    return {
        "region": price.region,
        "usd_per_hour": float(price.on_demand),
        "spot_usd_per_hour": usd(price.spot),
        "one_year_usd_per_hour": usd(price.one_year),
        "three_years_usd_per_hour": usd(price.three_years),
    }


def _what_if(entry: Entry, usd_per_million: Decimal | None, software: TpuSoftware) -> WhatIfEntry | None:
    claimed = apply_claim(entry, usd_per_million, software.torchtpu_claim)
    if claimed is None:
        return None
    return {
        "label": _CLAIM,
        "throughput_tokens_per_s_low": claimed.tokens_per_s_low,
        "throughput_tokens_per_s_high": claimed.tokens_per_s_high,
        "usd_per_million_output_tokens_low": float(claimed.usd_per_million_low),
        "usd_per_million_output_tokens_high": float(claimed.usd_per_million_high),
    }


def generation_entry(option: GenerationOption, catalog: Catalog, software: TpuSoftware) -> GenerationEntry:
    """A generation of TPU: whether vLLM runs the model on it, chips needed, and every slice with what it lacks."""
    generation, chip = option.generation, catalog.accelerator(option.generation.accelerator)
    terms = software.terms(generation.id)
    return {
        "id": generation.id,
        "name": generation.name,
        "accelerator": chip.id,
        "memory_bytes_per_chip": chip.memory_usable,
        "bandwidth_bytes_per_s": chip.bandwidth,
        "vllm": "" if terms is None else terms.vllm,
        "support": option.support,
        "support_message": SUPPORT[option.support],
        "chips_needed": option.chips_needed,
        "slices": list(_slices(option)),
    }


def _slices(option: GenerationOption) -> Iterable[SliceEntry]:
    for each in option.slices:
        tpu = each.offer.tpu
        if tpu is not None:
            yield {
                "hardware": each.offer.id,
                "topology": tpu.topology,
                "chips": each.offer.accelerator_count,
                "hosts": tpu.hosts,
                "usd_per_hour": float(each.offer.usd_per_hour or 0),
                "fits": each.entry is not None and each.entry.replicas == 1,
                "reason": _why_not(each),
            }


def _why_not(option: SliceOption) -> str:
    if option.rejection is not None:
        return sentence(option.rejection.reason)
    return "" if option.entry is None or option.entry.replicas == 1 else replicas_sentence(option.entry.replicas)


EXAMPLE_SLICE = "v6e-1"
"""Stands in the recipes where no model is named, or none that runs on a slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeQuestion:
    """What the recipes are written for; `model` is "" where none is named."""

    model: str
    context_tokens: int
    concurrency: int
    region: str
    spot: bool


def needs_checkpoint(entry: Entry) -> bool:
    """Whether the weights come from another checkpoint than the model's own."""
    return any(reason.code == "checkpoint" for reason in entry.reasons)


def slice_recipes(question: RecipeQuestion, options: TpuOptions | None, catalog: Catalog, software: TpuSoftware) -> Iterable[RecipeEntry]:
    """Everything that is done with a slice, from the project to the server."""
    entry = None if options is None else options.best_slice
    offer = catalog.offer(EXAMPLE_SLICE, "tpu") if entry is None else entry.offer
    terms = None if offer.tpu is None else software.terms(offer.tpu.generation.id)
    if terms is None:
        return
    choice = RecipeChoice(
        offer=offer,
        terms=terms,
        model=question.model,
        devices=1 if entry is None else entry.devices,
        context_tokens=question.context_tokens,
        region=question.region,
        spot=question.spot,
        optimum=software.optimum,
        optimum_lists_model=options is not None and options.runs_on_optimum,
        checkpoint_precision=entry.precision if entry is not None and needs_checkpoint(entry) else "",
    )
    yield from tpu_recipes(choice)


def gpu_recipes(question: RecipeQuestion, options: TpuOptions, catalog: Catalog) -> Iterable[RecipeEntry]:
    """The files and commands of the cheapest GPU offer of each platform, as the recommendation writes them."""
    for entry in options.gpu_by_platform:
        setup = write_setup(
            ranked_entry(entry), catalog, model=question.model, context_tokens=question.context_tokens, sequences=question.concurrency
        )
        where = f"GPU: {entry.engine} on {entry.offer.id}, {PLATFORM_NAMES[entry.offer.platform]}"
        parts = (
            ("README.md", "yaml", setup.front_matter),
            ("Dockerfile", "dockerfile", setup.dockerfile),
            ("requirements.txt", "text", setup.requirements),
            ("command", "bash", setup.command),
        )
        for name, language, code in parts:
            if code is not None:
                yield {
                    "name": f"gpu_{entry.offer.platform}_{name.partition('.')[0].casefold()}",
                    "title": f"{where}: {name}",
                    "language": language,
                    "code": code,
                    "notes": list(setup.notes),
                }
