"""What the laws of speed need to know about hardware, and how an engine lays a model out on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lib.catalog import load
from lib.errors import BadArgument, UnknownHardware, shown
from lib.offer import Offer
from lib.provenance import Caveat
from lib.silicon import Accelerator, Cards
from lib.speed.ceilings import link

ON_TPU = Caveat(
    code="engine_replaced", message="On a TPU this is the figure of vllm-tpu; the engine that was asked for does not run there."
)
ON_NEURON = Caveat(
    code="engine_replaced",
    message="On Inferentia and Trainium this is the figure of AWS Neuron; the engine that was asked for does not run there.",
)
SCALED = "The processor is not in the catalog; its figures are those of {size} virtual CPUs, scaled to {vcpu}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Hardware: the silicon, the share of each card, how many, usable memory of one, link of one."""

    silicon: Accelerator
    share: float
    count: int
    memory: float
    link: float
    bus: bool
    caveats: tuple[Caveat, ...]


class Layout(NamedTuple):
    """The engine whose constants hold, and how many devices split a layer, hold layers in turn, and are copies."""

    engine: str
    split: int
    stages: int
    copies: int
    staged: bool
    caveats: tuple[Caveat, ...]


def _host(offer: Offer) -> tuple[Accelerator, float, tuple[Caveat, ...]]:
    """A CPU offer as the nearest known processor and the share of it; larger machines gain less than in proportion."""
    if offer.host_cpu is not None:
        return offer.host_cpu, 1.0, ()
    known = [load().accelerators[name] for name in ("CPU-2vCPU", "CPU-8vCPU")]
    if offer.vcpu is None:
        raise UnknownHardware(f"Nothing is known about the processor of {shown(offer.id)}. Name the silicon instead, such as 'CPU-8vCPU'.")
    near = max((cpu for cpu in known if cpu.vcpu and cpu.vcpu <= offer.vcpu), key=lambda cpu: cpu.vcpu or 0, default=known[0])
    size = near.vcpu or offer.vcpu
    caveat = Caveat(code="processor_scaled", message=SCALED.format(size=size, vcpu=offer.vcpu))
    return near, offer.vcpu / size, (caveat,)


def machine(hardware: Offer | Cards) -> Machine:
    """The hardware as the laws see it.

    Raises:
        UnknownHardware: a CPU of which nothing is known.
    """
    if isinstance(hardware, Offer) and hardware.silicon is None:
        silicon, share, caveats = _host(hardware)
    else:
        silicon, share, caveats = hardware.silicon, hardware.accelerator_fraction, ()  # type: ignore[assignment]
    memory = hardware.vram_bytes_per_accelerator or hardware.ram_bytes or 0
    rate, bus = link(silicon)
    return Machine(
        silicon=silicon,
        share=share,
        count=max(1, hardware.accelerator_count),
        memory=float(memory),
        link=rate,
        bus=bus,
        caveats=caveats,
    )


def _power_of_two(most: int) -> int:
    return 1 << (max(1, most).bit_length() - 1)


def layout(on: Machine, engine: str, heads: int) -> Layout:
    """How the engine uses the devices.

    vLLM splits every layer over a power of two of them, at most one attention head each, and runs copies on the rest. transformers
    (`device_map`) and llama.cpp give each device some of the layers; only llama.cpp lets them work on a long prompt at the same time.

    Raises:
        BadArgument: the engine needs other hardware.
    """
    kind = on.silicon.kind
    if kind == "cpu":
        return Layout("host", 1, 1, 1, False, ())
    split = _power_of_two(min(on.count, max(1, heads)))
    if kind == "tpu":
        return Layout("vllm-tpu", split, 1, on.count // split, False, () if engine == "vllm-tpu" else (ON_TPU,))
    if kind == "neuron":
        return Layout("neuron", split, 1, on.count // split, False, (ON_NEURON,))
    if engine == "vllm-tpu":
        raise BadArgument("engine", engine, f"transformers, vllm or llama.cpp on {on.silicon.name}")
    if engine == "vllm":
        return Layout("vllm", split, 1, on.count // split, False, ())
    return Layout(engine, 1, on.count, 1, engine == "llama.cpp" and on.count > 1, ())
