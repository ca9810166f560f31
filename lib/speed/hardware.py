"""What the laws of speed need to know about hardware, and how an engine lays a model out on it.

What a card's datasheet allows, by card class, and which weaker cards vouch for it.

The last column is no class: it holds rates that were reached on the machine itself, of which nothing is to be taken off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator, Cards
from lib.errors import BadArgument, UnknownHardware, shown
from lib.identity import ById
from lib.laws.forward_pass import Array
from lib.laws.parallelism import largest_power_of_two
from lib.memory import tensor_parallel_degree
from lib.memory.resolve import layer_sizes
from lib.model.spec import ModelSpec
from lib.provenance import Caveat
from lib.speed.constants import CLASSES

HALVES = ("fp16", "bf16")
_SLOT = 32e9
_BUS = 100e9  # no bus to a host is as fast, no link between cards as slow


def card_class(card: Accelerator) -> str:
    """The class whose share of the sheet figures a card has: by maker, kind of memory and architecture, never by card."""
    if card.kind in {"cpu", "tpu", "neuron"}:
        return card.kind
    if card.vendor == "AMD":
        return "cdna"
    capability = card.compute_capability or (0, 0)
    if capability < (8, 0):
        return "turing"
    if capability in {(8, 0), (9, 0)}:
        return "a100" if capability == (8, 0) else "hopper"
    return "blackwell" if capability[0] == 10 else "gddr"  # noqa: PLR2004 sm_100: HBM; sm_86, 89 and 120 have GDDR


def peak(card: Accelerator, arithmetic: str) -> float:
    """Dense rate at which weights in this arithmetic are multiplied: the native unit's, else that of half precision, else float32's.

    Emulation is no unit: bf16 on a T4 counts as fp16 there. 0 where no rate was published.
    """
    wanted = (arithmetic, *HALVES, "fp32") if arithmetic != "fp32" else ("fp32", *HALVES)
    for name in wanted:
        rate = card.peak(name)
        if rate:
            return float(rate)
    return 0.0


class Ceilings(NamedTuple):
    """Bandwidths and peaks of one device, one entry per card class and a last one for rates that were reached on the machine itself."""

    bandwidth: tuple[float, ...]
    compute: tuple[float, ...]


def with_reached(class_logit: Array) -> Array:
    """The logits of the classes' shares, and that of a rate that was reached, whose share is one."""
    return np.append(class_logit, np.inf)


def ceilings(card: Accelerator, share: float, arithmetic: str, accelerators: Mapping[str, Accelerator]) -> Ceilings:
    """Highest bandwidth and peak of each class among the `accelerators` of its kind that this card equals or exceeds in both.

    `share` is the part of the card that is rented. See `lib.laws.forward_pass` for why weaker cards count. Rates that were reached on the
    machine itself stand in the last column alone.
    """
    if card.reached:
        none = (0.0,) * len(CLASSES)
        return Ceilings((*none, card.bandwidth * share), (*none, peak(card, arithmetic) * share))
    return _ceilings(ById(accelerators), card.id, share, arithmetic)


@lru_cache(maxsize=4096)
def _ceilings(accelerators: ById[Mapping[str, Accelerator]], silicon: str, share: float, arithmetic: str) -> Ceilings:
    cards = accelerators.value
    card = cards[silicon]
    own_bandwidth, own_peak = card.bandwidth * share, peak(card, arithmetic) * share
    bandwidth, compute = np.zeros(len(CLASSES) + 1), np.zeros(len(CLASSES) + 1)
    for other in (*cards.values(), None):
        if other is None:
            at, fast, flops = CLASSES.index(card_class(card)), own_bandwidth, own_peak
        else:
            at, fast, flops = CLASSES.index(card_class(other)), other.bandwidth, peak(other, arithmetic)
            if other.kind != card.kind or fast > own_bandwidth or flops > own_peak:
                continue
        bandwidth[at], compute[at] = max(bandwidth[at], fast), max(compute[at], flops)
    return Ceilings(tuple(bandwidth), tuple(compute))


def link(card: Accelerator) -> tuple[float, bool]:
    """Bytes per second to the other cards, one direction, and whether that goes over the bus to the host.

    Where the source gives no figure, a PCIe 4.0 slot of 16 lanes is taken.
    """
    found = card.interconnect
    if found is None:
        return _SLOT, True
    rate = float(found.one_direction or (found.both_directions or 0.0) / 2)
    return (rate, rate < _BUS) if rate else (_SLOT, True)


ON_TPU = Caveat("engine_replaced", variant="tpu")
ON_NEURON = Caveat("engine_replaced", variant="neuron")


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


def _host(offer: Offer, accelerators: Mapping[str, Accelerator]) -> tuple[Accelerator, float, tuple[Caveat, ...]]:
    """A CPU offer as the nearest known processor and the share of it; larger machines gain less than in proportion."""
    if offer.host_cpu is not None:
        return offer.host_cpu, 1.0, ()
    known = [accelerators[name] for name in ("CPU-2vCPU", "CPU-8vCPU")]
    if offer.vcpu is None:
        raise UnknownHardware(f"Nothing is known about the processor of {shown(offer.id)}. Name the silicon instead, such as 'CPU-8vCPU'.")
    near = max((cpu for cpu in known if cpu.vcpu and cpu.vcpu <= offer.vcpu), key=lambda cpu: cpu.vcpu or 0, default=known[0])
    size = near.vcpu or offer.vcpu
    caveat = Caveat("processor_scaled", {"size": size, "vcpu": offer.vcpu})
    return near, offer.vcpu / size, (caveat,)


def machine(hardware: Offer | Cards, accelerators: Mapping[str, Accelerator]) -> Machine:
    """The hardware as the laws see it; an unknown CPU takes the figures of the nearest of the catalog's `accelerators`.

    Raises:
        UnknownHardware: a CPU of which nothing is known.
    """
    if isinstance(hardware, Offer) and hardware.silicon is None:
        silicon, share, caveats = _host(hardware, accelerators)
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


def layout(on: Machine, engine: str, spec: ModelSpec) -> Layout:
    """How the engine uses the devices.

    vLLM splits every layer over as many of them as it starts with, and runs copies on the rest; Neuron over a power of two of them, at
    most one attention head each. transformers (`device_map`) and llama.cpp give each device some of the layers; only llama.cpp lets them
    work on a long prompt at the same time.

    Raises:
        BadArgument: the engine needs other hardware.
    """
    name, caveats = engine_on(on, engine)
    if name == "host":
        return Layout(name, 1, 1, 1, False, caveats)
    if name in {"vllm", "vllm-tpu", "neuron"}:
        split = largest_power_of_two(min(on.count, layer_sizes(spec).heads)) if name == "neuron" else tensor_parallel_degree(spec, on.count)
        return Layout(name, split, 1, on.count // split, False, caveats)
    return Layout(name, 1, on.count, 1, name == "llama.cpp" and on.count > 1, caveats)


def engine_on(on: Machine, engine: str) -> tuple[str, tuple[Caveat, ...]]:
    """The engine whose constants hold on this hardware, with a caveat where it is another than the one that was asked for.

    Raises:
        BadArgument: the engine needs other hardware.
    """
    match on.silicon.kind:
        case "cpu":
            return "host", ()
        case "tpu":
            return "vllm-tpu", () if engine == "vllm-tpu" else (ON_TPU,)
        case "neuron":
            return "neuron", (ON_NEURON,)
    if engine == "vllm-tpu":
        raise BadArgument("engine", engine, f"transformers, vllm or llama.cpp on {on.silicon.name}")
    return engine, ()
