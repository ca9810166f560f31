"""How an engine spreads a model over the devices of a machine: the one place that decides it.

tensor    every layer over as many devices as divide its heads and widths; copies on the rest
layers    some of the layers on each device: one copy over all of them
none      one device holds the whole model; a copy on each
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lib.engines import Engine, traits_of
from lib.memory.resolve import tensor_parallel_degree

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec


class Spread(NamedTuple):
    """Devices that share one copy of the model, and copies."""

    devices: int
    copies: int


def spread(spec: ModelSpec, engine: Engine | str, count: int) -> Spread:
    """How the engine uses `count` devices (a processor counts as one)."""
    devices = max(1, count)
    match traits_of(engine).split:
        case "tensor":
            degree = tensor_parallel_degree(spec, devices)
            return Spread(degree, devices // degree)
        case "none":
            return Spread(1, devices)
    return Spread(devices, 1)
