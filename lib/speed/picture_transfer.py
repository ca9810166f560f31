"""Seconds that the weights of an offloaded pipeline take over the bus, beside its computing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lib.laws.pipeline import BUS_REACHED, HOST_COPY, TRANSFER, transfer_time
from lib.memory.pipeline import PipelineMemory
from lib.memory.resolve import resolve_request
from lib.speed.hardware import find_host_link_rate
from lib.speed.predict import SpeedPart
from lib.units import Seconds
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.speed.batch import SpeedRequest


class Transfer(NamedTuple):
    """Seconds of the copies, the least that the bus allows, and the part of the time with its law."""

    seconds: float
    least_s: float
    parts: tuple[SpeedPart, ...]


NO_TRANSFER = Transfer(0.0, 0.0, ())


def time_transfer(spec: ModelSpec, request: SpeedRequest, card: Accelerator, runs: int) -> Transfer:
    """Copies of a call whose denoiser runs so many times; none without offload, or where no pipeline is known."""
    offload = request.pictures.offload
    if offload == "none" or spec.pipeline is None or card.kind != "gpu":
        return NO_TRANSFER
    asked = MemoryRequest(precision=request.precision, pictures=request.pictures)
    components = PipelineMemory(spec, spec.pipeline, resolve_request(spec, asked, card)).components
    moved = float(2 * sum(components.values()))
    if offload != "model":
        denoiser = sum(size for name, size in components.items() if name in {"transformer", "unet"})
        others = sum(size for name, size in components.items() if name not in {"transformer", "unet", "transformer_2"})
        moved = float(denoiser * runs + others)
    bus = find_host_link_rate(card)
    seconds = transfer_time(moved_bytes=moved, bus=bus, offload=offload)
    inputs = {
        "offload": offload,
        "GB moved": f"{moved / 1e9:,.1f}",
        "bus": f"{BUS_REACHED:.0%} of {bus / 1e9:g} GB/s",
        "host": f"{HOST_COPY[offload] / 1e9:g} GB/s",
    }
    part = SpeedPart(name="weights over the bus", seconds=Seconds(seconds), law=TRANSFER.equation, inputs=inputs, source=TRANSFER.source)
    return Transfer(seconds, moved / bus, (part,))
