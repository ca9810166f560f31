"""Hardware that holds a training of pictures or clips, by memory; its time is not predicted (see the caveat of the answer)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lib.memory import usable_memory
from lib.memory.picture_training import count_positions, estimate_picture_training, resolve_picture
from lib.memory.resolve import find_largest
from lib.speed.training import train_on
from lib.speed.training_hardware import TrainingOption, describe_place, list_hardware

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Hardware
    from lib.memory.training import TrainingMemory
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

MOST_AT_ONCE = 4_096
_ORDER = ("fits", "risky", "no")


def rank_picture_hardware(spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str]) -> list[TrainingOption]:
    """Hardware whose one card trains: first those that fit, then by price per hour."""
    options = judge_pictures(spec, request, list_hardware(catalog, platforms))
    return sorted(options, key=lambda o: (_ORDER.index(o.verdict), o.usd_per_hour is None, o.usd_per_hour or 0, o.needed_bytes))


def judge_pictures(spec: ModelSpec, request: TrainingRequest, places: Iterable[Hardware]) -> Iterator[TrainingOption]:
    """The training on one card of each piece of hardware that has GPUs."""
    positions = count_positions(spec, resolve_picture(spec, request))
    sizes: dict[tuple[TrainingRequest, int], tuple[TrainingMemory, int]] = {}
    for hardware in places:
        asked, capacity = train_on(hardware.processor, request), usable_memory(hardware) or 0
        key = asked, capacity
        if key not in sizes:
            largest = find_largest(
                lambda batch, asked=asked: estimate_picture_training(spec, replace(asked, micro_batch=batch)).device.typical,  # type: ignore[misc]
                capacity,
                MOST_AT_ONCE,
            )
            sizes[key] = estimate_picture_training(spec, asked), largest
        memory, largest = sizes[key]
        place = describe_place(hardware, asked, memory, capacity)
        yield TrainingOption(
            **place,
            longest_sequence_tokens=positions if place["verdict"] != "no" else 0,
            largest_micro_batch=largest,
            tokens_per_s_low=None,
            tokens_per_s=None,
            tokens_per_s_high=None,
            mfu=None,
            hours=None,
            usd=None,
        )
