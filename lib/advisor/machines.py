"""How many machines of one kind hold a model together, and how it is split over them.

Within a machine as many cards as the model allows split every layer (tensor parallelism); the groups of cards that result hold layers in
turn over all machines (pipeline parallelism). So only the results of layers cross the network. Stated settings count as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lib.advisor.context import make_context
from lib.advisor.judge import judge_models
from lib.advisor.result import ConfiguredHardware
from lib.catalog import Catalog
from lib.catalog.offers import Hardware, own_hardware
from lib.memory.spread import tensor_parallel_degree
from lib.model.spec import ModelSpec
from lib.provenance import Reason
from lib.request.serving import Serving
from lib.workload import Workload

MOST_MACHINES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGroup:
    """The fewest machines that hold the model: 1 if one of them is enough."""

    machines: int
    serving: Serving
    """The settings, with the cards that split a layer and the groups that hold layers in turn."""
    cards: Hardware
    """All their cards."""
    runs_as: ConfiguredHardware


def find_machines(
    spec: ModelSpec, workload: Workload, catalog: Catalog, machine: Hardware, published: Mapping[str, str] | None = None
) -> MachineGroup | tuple[Reason, ...]:
    """The fewest machines with these cards that run the model; the obstacles on the most machines if none do.

    The price and the rules of the machine's platform do not count. `machine` has a graphics card.

    Raises:
        BadArgument: the model cannot be split as the settings say.
        ValueError: the machine has no card.
    """
    card = machine.silicon
    if card is None or machine.accelerator_count == 0:
        raise ValueError(f"{machine.id} has no card")
    obstacles: tuple[Reason, ...] = ()
    for machines, serving in _list_splits(spec, workload.serving, machine.accelerator_count):
        cards = own_hardware(card, machines * machine.accelerator_count)
        context = make_context(spec, replace(workload, serving=serving), catalog, published)
        verdict = judge_models(cards, [context])[0]
        if isinstance(verdict, ConfiguredHardware):
            return MachineGroup(machines=machines, serving=serving, cards=cards, runs_as=verdict)
        obstacles = verdict
    return obstacles


def _list_splits(spec: ModelSpec, stated: Serving, count: int) -> Iterator[tuple[int, Serving]]:
    """Numbers of machines, each with its settings; one machine first, as its engine spreads the model."""
    if stated.devices <= count:
        yield 1, stated
    tensor = stated.tensor_parallel or tensor_parallel_degree(spec, count)
    for machines in range(2, MOST_MACHINES + 1):
        groups = machines * (count // tensor) if tensor <= count else machines * count // tensor
        stages = stated.pipeline_parallel or groups // (stated.data_parallel or 1)
        split = replace(stated, tensor_parallel=tensor, pipeline_parallel=stages)
        if 1 <= stages <= spec.dimensions.layers and split.devices <= machines * count:
            yield machines, split
