"""Hardware that holds a training of pictures or clips, by memory; its time is not predicted (see the caveat of the answer)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lib.memory.picture_training import count_positions, estimate_picture_training, resolve_picture
from lib.memory.resolve import find_largest
from lib.platforms import OWN
from lib.speed.training import train_on
from lib.speed.training_hardware import TrainingOption, fits_host, judge_fit, list_hardware

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.memory.training import TrainingMemory
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

MOST_AT_ONCE = 4_096
_ORDER = ("fits", "risky", "no")


def rank_picture_hardware(spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str]) -> list[TrainingOption]:
    """Hardware whose one card trains: first those that fit, then by price per hour."""
    positions = count_positions(spec, resolve_picture(spec, request))
    sizes: dict[tuple[TrainingRequest, int], tuple[TrainingMemory, int]] = {}
    options = []
    for silicon, _, capacity, offer in list_hardware(catalog, platforms):
        asked = train_on(silicon, request)
        key = asked, capacity
        if key not in sizes:
            largest = find_largest(
                lambda batch, asked=asked: estimate_picture_training(spec, replace(asked, micro_batch=batch)).device.typical,  # type: ignore[misc]
                capacity,
                MOST_AT_ONCE,
            )
            sizes[key] = estimate_picture_training(spec, asked), largest
        memory, largest = sizes[key]
        verdict = judge_fit(memory, capacity) if fits_host(memory, offer) else "no"
        options.append(
            TrainingOption(
                hardware=offer.id if offer is not None else silicon.id,
                platform=offer.platform if offer is not None else OWN,
                name=offer.name if offer is not None else silicon.name,
                accelerator=silicon.id,
                devices=1,
                sharding="none",
                compute_dtype="fp32" if asked.precision == "fp32" else "fp16" if asked.fp16 else "bf16",
                verdict=verdict,
                capacity_bytes=capacity,
                needed_bytes=memory.device.typical,
                host_bytes=memory.host_bytes,
                host_memory_bytes=offer.ram_bytes if offer is not None else None,
                longest_sequence_tokens=positions if verdict != "no" else 0,
                largest_micro_batch=largest,
                tokens_per_s_low=None,
                tokens_per_s=None,
                tokens_per_s_high=None,
                mfu=None,
                hours=None,
                usd_per_hour=offer.usd_per_hour if offer is not None else None,
                usd=None,
            )
        )
    return sorted(options, key=lambda o: (_ORDER.index(o.verdict), o.usd_per_hour is None, o.usd_per_hour or 0, o.needed_bytes))
