"""A training on cards of the visitor's own: whether they hold it, and how many more of them would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lib.catalog.offers import OWN_COUNTS, Hardware
from lib.catalog.silicon import Accelerator
from lib.errors import BadArgument
from lib.memory import usable_memory
from lib.memory.rollouts import estimate_step
from lib.memory.stacks import STACK_TRAITS
from lib.model.spec import ModelSpec
from lib.provenance import Caveat
from lib.request.sharding import SHARDING_TRAITS, Sharding
from lib.result import Result
from lib.speed.training import train_on
from lib.speed.training_hardware import (
    TrainingOption,
    count_training,
    is_host_unstated,
    judge_hardware,
    least_devices,
    rented_for_vllm,
)
from lib.workload import WHOLE_WEIGHTS, TrainingRequest

MOST_MACHINES = 128
"""Machines of the visitor's own cards that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTraining(Result):
    """The training on cards of the visitor's own, which have no price."""

    cards: TrainingOption
    """The cards."""
    larger: TrainingOption | None = None
    """The fewest more of the same cards that hold it, where these do not, or the fewest machines of eight; null if neither does."""


def judge_own(
    spec: ModelSpec, request: TrainingRequest, cards: Hardware, accelerators: Mapping[str, Accelerator], *, total_tokens: int
) -> OwnTraining:
    """The training on cards of the visitor's own; where they do not hold it, the fewest more of them that do.

    Raises:
        BadArgument: too few cards for the sharding or for vLLM, or a number that does not fit the answers of a step.
    """
    found = next(judge_hardware(spec, request, [cards], accelerators, total_tokens=total_tokens), None)
    if found is None:
        rented, least = rented_for_vllm(request), least_devices(request)
        accepted = f"{rented + least} or more of these cards: {least} train with sharding={request.sharding}"
        accepted += f", and vLLM takes {rented}" if rented else ""
        if count_training(cards, request) >= least:
            accepted = f"a number of cards with which micro_batch × accumulation × GPUs is a multiple of {request.rollout.generations}"
        raise BadArgument("own_hardware", cards.id, accepted)
    larger: TrainingOption | None = None
    if found.verdict == "no":
        more = (cards.with_count(count) for count in OWN_COUNTS if count > cards.accelerator_count)
        judged = judge_hardware(spec, request, more, accelerators, total_tokens=total_tokens)
        larger = next((option for option in judged if option.verdict != "no"), None)
        larger = larger or _judge_machines(spec, request, cards, accelerators, total_tokens=total_tokens)
    return OwnTraining(cards=found, larger=larger)


def _judge_machines(
    spec: ModelSpec, request: TrainingRequest, cards: Hardware, accelerators: Mapping[str, Accelerator], *, total_tokens: int
) -> TrainingOption | None:
    """The fewest machines full of such cards that hold the training together; FSDP or ZeRO 3 if no sharding is asked for."""
    shardings: tuple[Sharding, ...] = ("fsdp", "zero3") if request.sharding == "none" else (request.sharding,)
    shares = STACK_TRAITS[request.stack].shards and request.method not in WHOLE_WEIGHTS
    shares = shares and not SHARDING_TRAITS[shardings[0]].within_machine
    machine, capacity = cards.with_count(max(OWN_COUNTS)), usable_memory(cards) or 0
    counts = (2**power for power in range(1, MOST_MACHINES.bit_length()))
    for machines in counts if shares and not rented_for_vllm(request) else ():
        devices = machines * machine.accelerator_count
        if devices <= cards.accelerator_count * request.machines:
            continue
        for sharding in shardings:
            asked = replace(request, sharding=sharding, machines=machines, devices=devices)
            if estimate_step(spec, train_on(cards.processor, asked, capacity)).device.typical > capacity:
                continue
            option = next(judge_hardware(spec, asked, [machine], accelerators, total_tokens=total_tokens), None)
            return option if option is not None and option.verdict != "no" else None
    return None


def own_caveats(cards: Hardware | None, own: OwnTraining | None) -> tuple[Caveat, ...]:
    """That own hardware is not judged because it is a Mac, or that it is risky because the RAM for offloaded bytes is not stated."""
    if cards is None:
        return ()
    if own is None:
        return (Caveat("training_not_on", {"name": cards.name}),)
    unstated = Caveat("training_host_unstated", {"name": cards.name, "host_bytes": own.cards.host_bytes})
    return (unstated,) if own.cards.verdict != "no" and is_host_unstated(own.cards.host_bytes, own.cards.host_memory_bytes) else ()
