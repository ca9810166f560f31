"""Ways to share a training over several GPUs: for each sharding the hardware with the lowest price that holds it, and how many GPUs.

A sharding fits hardware where even the upper estimate fits the usable memory of every GPU. Bytes of the host have to fit the RAM that a
rented machine states; the RAM of own machines is unknown and not checked. Where no hardware of the platforms holds the training, the row
names the largest GPU of them and the fewest that would hold it, in powers of
two. Limits: data parallelism alone, without pipeline or tensor parallelism; several machines are counted as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from lib.memory.objectives import divides_answers
from lib.memory.rollouts import estimate_step
from lib.memory.stacks import STACK_TRAITS
from lib.memory.training import TrainingMemory
from lib.platforms import OWN
from lib.request.sharding import SHARDING_TRAITS, SHARDINGS, Sharding
from lib.result import Result, Usd
from lib.speed.training import train_on
from lib.speed.training_hardware import fits_host, list_hardware, rented_for_vllm
from lib.workload import WHOLE_WEIGHTS

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

MOST_DEVICES = 1_024
_OWN_COUNTS = (1, 2, 4, 8)
"""Cards of one's own in one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingOption(Result):
    """One way to share the states over GPUs, and the hardware that holds the training so."""

    sharding: Sharding
    """none (one GPU), or the way to share the states."""

    hardware: str | None
    """Id of the hardware with the lowest price per hour on which even the upper estimate fits; null where none of the platforms has it."""

    platform: str | None
    """Platform that rents it out; "own" for cards of one's own; null without hardware."""

    name: str | None
    """Name for people; null without hardware."""

    accelerator: str
    """Id of the GPU: that of the hardware, else the largest one of the platforms."""

    devices: int | None
    """GPUs that train: those of the hardware, else the fewest that would do, in powers of two; null where no number does."""

    device_bytes: int
    """Bytes that each GPU needs: with that many, or with the most that were tried."""

    device_high_bytes: int
    """Upper bound of these bytes."""

    host_bytes: int
    """Bytes in the host's memory."""

    capacity_bytes: int
    """Usable memory of one GPU."""

    usd_per_hour: Usd | None
    """Price per hour of the hardware; null without a price."""


class _Place(NamedTuple):
    """GPUs in one machine."""

    silicon: Accelerator
    gpus: int
    capacity: int
    offer: Offer | None


def find_shardings(spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str]) -> list[ShardingOption]:
    """One row for each sharding that the stack has, in the order of `SHARDINGS`; none where no hardware of the platforms has a GPU."""
    places = sorted(_places(catalog, platforms), key=_price)
    names = SHARDINGS if STACK_TRAITS[request.stack].shards and spec.tensors else SHARDINGS[:1]
    several = (name for name in names if not SHARDING_TRAITS[name].within_machine)  # all hardware here is one machine
    asked = [replace(request, sharding=name, machines=1) for name in several]
    return [_find(spec, one, places) for one in asked if one.method not in WHOLE_WEIGHTS or not one.shards_weights] if places else []


def _places(catalog: Catalog, platforms: Sequence[str]) -> Iterator[_Place]:
    for silicon, count, capacity, offer in list_hardware(catalog, platforms):
        for number in (count,) if offer is not None else _OWN_COUNTS:
            yield _Place(silicon, number, capacity, offer)


def _price(place: _Place) -> tuple[bool, float, int]:
    price = place.offer.usd_per_hour if place.offer is not None else None
    return price is None, float(price or 0), place.gpus * place.capacity


def _find(spec: ModelSpec, request: TrainingRequest, places: Sequence[_Place]) -> ShardingOption:
    sizes: dict[TrainingRequest, TrainingMemory] = {}

    def size_on(silicon: Accelerator, devices: int) -> TrainingMemory:
        asked = replace(train_on(silicon, request, silicon.memory_usable or 0), devices=devices)
        if asked not in sizes:
            sizes[asked] = estimate_step(spec, asked)
        return sizes[asked]

    alone = request.sharding == "none"
    for place in places:
        training = place.gpus - rented_for_vllm(request)
        if training < 1 or (not alone and training == 1 and not SHARDING_TRAITS[request.sharding].trains_alone):
            continue
        devices = 1 if alone else training
        if not divides_answers(replace(request, devices=devices)):
            continue
        memory = size_on(place.silicon, devices)
        if memory.device.high <= place.capacity and fits_host(memory, place.offer):
            return _option(request, place, devices, memory, holds=True)
    largest = max(places, key=lambda place: place.capacity)
    devices, most = (1, 1) if alone else (2, MOST_DEVICES)
    memory = size_on(largest.silicon, devices)
    while memory.device.high > largest.capacity and devices < most:
        devices *= 2
        memory = size_on(largest.silicon, devices)
    return _option(request, largest, devices if memory.device.high <= largest.capacity else None, memory, holds=False)


def _option(request: TrainingRequest, place: _Place, devices: int | None, memory: TrainingMemory, *, holds: bool) -> ShardingOption:
    offer, silicon = place.offer, place.silicon
    return ShardingOption(
        sharding=request.sharding,
        hardware=None if not holds else offer.id if offer is not None else silicon.id,
        platform=None if not holds else offer.platform if offer is not None else OWN,
        name=None if not holds else offer.name if offer is not None else silicon.name,
        accelerator=silicon.id,
        devices=devices,
        device_bytes=memory.device.typical,
        device_high_bytes=memory.device.high,
        host_bytes=memory.host_bytes,
        capacity_bytes=place.capacity,
        usd_per_hour=offer.usd_per_hour if offer is not None and holds else None,
    )
