"""Ways to share a training over several GPUs: for each sharding the hardware with the lowest price that holds it, and how many GPUs.

A sharding fits hardware where even the upper estimate fits the usable memory of every GPU. Bytes of the host have to fit the RAM that a
rented machine states; the RAM of own machines is unknown and not checked. Where RAM alone lacks, the row says so, with the hardware that
has most of it. Where GPUs lack, it names the largest GPU of the platforms and the fewest that would hold it, in powers of two. Limits: data
parallelism alone, without pipeline or tensor parallelism; several machines are counted as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lib.catalog.offers import OWN_COUNTS
from lib.memory import host_memory, usable_memory
from lib.memory.objectives import divides_answers
from lib.memory.rollouts import estimate_step
from lib.memory.stacks import STACK_TRAITS
from lib.memory.training import TrainingMemory
from lib.request.sharding import SHARDING_TRAITS, SHARDINGS, Sharding
from lib.result import Result, Usd
from lib.speed.training import train_on
from lib.speed.training_hardware import count_training, find_shortages, is_host_unstated, least_devices, list_hardware
from lib.workload import WHOLE_WEIGHTS

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Hardware
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

MOST_DEVICES = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingOption(Result):
    """One way to share the states over GPUs, and the hardware that holds the training so."""

    sharding: Sharding
    """none (one GPU), or the way to share the states."""
    hardware: str | None
    """Id of the hardware with the lowest price per hour on which even the upper estimate fits; null if none of the platforms has it.
    Hardware without stated RAM is named for offloaded bytes only if no other holds them."""
    platform: str | None
    """Platform that rents it out; "own" for cards of one's own; null without hardware."""
    name: str | None
    """Name for people; null without hardware."""
    accelerator: str
    """Id of the GPU: that of the hardware, else the largest one of the platforms."""
    devices: int | None
    """GPUs that train: those of the hardware, else the fewest that would do, in powers of two; null if no number does."""
    device_bytes: int
    """Bytes that each GPU needs: with that many, or with the most that were tried."""
    device_high_bytes: int
    """Upper bound of these bytes."""
    host_bytes: int
    """Bytes in the host's memory."""
    host_memory_bytes: int | None
    """Usable RAM of the hardware; if no hardware has enough RAM, the most that any has whose GPUs would do. Null if not stated."""
    capacity_bytes: int
    """Usable memory of one GPU."""
    usd_per_hour: Usd | None
    """Price per hour of the hardware; null without a price."""


def find_shardings(spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str]) -> list[ShardingOption]:
    """One row for each sharding that the stack has, in the order of `SHARDINGS`; none if no hardware of the platforms has a GPU."""
    places = sorted(_list_places(catalog, platforms), key=_price)
    names = SHARDINGS if STACK_TRAITS[request.stack].shards else SHARDINGS[:1]
    several = (name for name in names if not SHARDING_TRAITS[name].within_machine)  # all hardware here is one machine
    asked = [replace(request, sharding=name, machines=1) for name in several]
    return [_find(spec, one, places) for one in asked if one.method not in WHOLE_WEIGHTS or not one.shards_weights] if places else []


def _list_places(catalog: Catalog, platforms: Sequence[str]) -> Iterator[Hardware]:
    for hardware in list_hardware(catalog, platforms):
        yield from map(hardware.with_count, (1, *OWN_COUNTS)) if hardware.traits.owned else (hardware,)


def _price(place: Hardware) -> tuple[bool, float, int]:
    return place.usd_per_hour is None, float(place.usd_per_hour or 0), place.vram_bytes or 0


def _find(spec: ModelSpec, request: TrainingRequest, places: Sequence[Hardware]) -> ShardingOption:
    sizes: dict[TrainingRequest, TrainingMemory] = {}

    def size_on(silicon: Accelerator, devices: int) -> TrainingMemory:
        asked = replace(train_on(silicon, request, silicon.memory_usable or 0), devices=devices)
        if asked not in sizes:
            sizes[asked] = estimate_step(spec, asked)
        return sizes[asked]

    alone, least = request.sharding == "none", least_devices(request)
    short_of_ram: list[tuple[int, Hardware, int, TrainingMemory]] = []
    unstated: list[ShardingOption] = []
    for place in places:
        devices = 1 if alone else count_training(place, request)
        if count_training(place, request) < least or not divides_answers(replace(request, devices=devices)):
            continue
        memory = size_on(place.processor, devices)
        if memory.device.high > (usable_memory(place) or 0):
            continue
        if find_shortages(memory, place):
            short_of_ram.append((host_memory(place) or 0, place, devices, memory))
            continue
        holds = _option(request, place, devices, memory, holds=True)
        if not is_host_unstated(memory.host_bytes, host_memory(place)):
            return holds
        unstated.append(holds)
    if unstated:
        return unstated[0]
    if short_of_ram:
        _, place, devices, memory = max(short_of_ram, key=lambda one: one[0])
        return _option(request, place, devices, memory, holds=False)
    return _count_of_largest(request, max(places, key=lambda place: usable_memory(place) or 0), least, size_on)


def _count_of_largest(
    request: TrainingRequest, largest: Hardware, least: int, size_on: Callable[[Accelerator, int], TrainingMemory]
) -> ShardingOption:
    """The fewest of the largest GPUs that hold the training, in powers of two from `least` on."""
    capacity, devices, most = usable_memory(largest) or 0, least, 1 if request.sharding == "none" else MOST_DEVICES
    memory = size_on(largest.processor, devices)
    while memory.device.high > capacity and devices < most:
        devices *= 2
        memory = size_on(largest.processor, devices)
    return _option(request, largest, devices if memory.device.high <= capacity else None, memory, holds=False)


def _option(request: TrainingRequest, place: Hardware, devices: int | None, memory: TrainingMemory, *, holds: bool) -> ShardingOption:
    return ShardingOption(
        sharding=request.sharding,
        hardware=place.id if holds else None,
        platform=place.platform if holds else None,
        name=place.name if holds else None,
        accelerator=place.processor.id,
        devices=devices,
        device_bytes=memory.device.typical,
        device_high_bytes=memory.device.high,
        host_bytes=memory.host_bytes,
        host_memory_bytes=host_memory(place),
        capacity_bytes=usable_memory(place) or 0,
        usd_per_hour=place.usd_per_hour if holds else None,
    )
