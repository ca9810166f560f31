"""Hardware as the laws of speed see it: datasheet ceilings by card class, links, and how an engine spreads a model over devices.

The fit knows which share of its datasheet a class of cards reaches, not a single card. A card is held to at least what every weaker card
of its kind reaches. So its ceilings are a row with an entry for each class: the highest bandwidth and peak among cards of that class that
it equals or exceeds in both. The last entry is for rates that programs reach, of which nothing is taken off: those measured on the machine
itself, those of processors (their rows state the reached rate, not a datasheet), and those of arithmetic that a card emulates.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from lib.catalog.offers import Hardware
from lib.catalog.rows import ById
from lib.catalog.silicon import Accelerator
from lib.engines import TRAITS, traits_of, usual_engine
from lib.engines.traits import Work
from lib.errors import BadArgument, UnknownHardware, quote_value
from lib.laws.forward_pass import Array
from lib.memory import usable_memory
from lib.memory.spread import spread
from lib.model.spec import ModelSpec
from lib.provenance import Caveat
from lib.request.serving import DEFAULTS, Serving
from lib.speed.calibration import CLASSES

HALVES = ("fp16", "bf16")
PCIE_SLOT = 32e9  # PCIe 4.0, 16 lanes, one direction
APPLE_REACHED = 0.6
"""Share of bandwidth and of arithmetic that llama.cpp reaches on Apple's GPUs. Published runs reach, when they write tokens, 57 % (M1 Max,
8B Q4_K_M), 58 % (M1 Max, 27B IQ4_NL) and 86 % (M4); when they read prompts, 77 % (M1 Max), 78 % (M4), 65 % (M1 Ultra, 3B), 63 and 51 %
(M2 Ultra, 7B F16 and Q4_K_M). Sources: github.com/brand-o/normiebench issues 40 and 3, ggml-org/llama.cpp issue 27525 and pull 3084,
geerlingguy/ai-benchmarks issue 48, read 2026-11-22. Too few machines for a fit, so answers carry wider ranges and a caveat."""
SLOWEST_LINK = 100e9  # links between cards are faster, PCIe is slower
EMULATED_SHARE = 0.25
"""bf16 on a card without it, of its float32 peak: a T4 reaches about 2 of 8.1 TFLOP/s; training in bf16 takes 4.3 times as long there
as in fp16 (earino.github.io/applied-deep-learning, "Your T4 Training Is 4x Slower Than It Should Be"; openxla/xla issue 12429)."""
SINGLE = ("fp32", "tf32")


def card_class(card: Accelerator) -> str:
    """The class whose share of the datasheet a card reaches: by maker, kind of memory and architecture, never by card.

    Nothing was fitted on Apple's GPUs, whose class does not matter (`APPLE_REACHED`).
    """
    if card.kind in {"cpu", "tpu", "neuron"}:
        return card.kind
    if card.architecture.startswith("CDNA"):
        return "cdna"
    capability = card.compute_capability
    if capability is None:  # Radeon and Arc, which no fit has seen
        return "gddr"
    if capability < (8, 0):
        return "turing"
    if capability in {(8, 0), (9, 0)}:
        return "a100" if capability == (8, 0) else "hopper"
    return "blackwell" if capability[0] == 10 else "gddr"  # noqa: PLR2004 sm_100: HBM; sm_86, 89 and 120 have GDDR


def is_measured(measured: Collection[tuple[str, str]], engine: str, card: Accelerator) -> bool:
    """Whether the fit has seen this engine on such a card, of the pairs of engine and class that it has seen."""
    group = card_class(card)
    unseen = card.kind == "apple" or (group == "gddr" and card.compute_capability is None)
    return not unseen and (engine, group) in measured


def emulates(card: Accelerator, arithmetic: str) -> bool:
    """Whether the card multiplies this type in software: bf16 on GPUs before Ampere, which have fp16 units only.

    Formats that are only stored (fp8, fp4 without such units) are unpacked and multiplied in another type, which is not this.
    """
    return card.kind == "gpu" and arithmetic == "bf16" and not card.supports("bf16") and bool(card.peak("fp32"))


def find_peak(card: Accelerator, arithmetic: str) -> float:
    """Dense rate at which weights in this arithmetic are multiplied: the native unit's, else that of half precision, else float32's.

    Where the card emulates the arithmetic, the rate that emulation reaches. 0 if no rate was published.
    """
    if emulates(card, arithmetic):
        return EMULATED_SHARE * float(card.peak("fp32") or 0.0)
    wanted = (arithmetic, *HALVES, "fp32") if arithmetic != "fp32" else ("fp32", *HALVES)
    for name in wanted:
        rate = card.peak(name)
        if rate:
            return float(rate)
    return 0.0


class Ceilings(NamedTuple):
    """Bytes/s and FLOP/s of one device: one entry per card class, and a last one for rates that programs reach.

    `attention` are the FLOP/s of the type that attention is computed in; weights may be multiplied in another. `of_datasheet` is the
    share of the datasheet's figures that the highest entries are; 0 if no datasheet bounds the measurement.
    """

    bandwidth: tuple[float, ...]
    compute: tuple[float, ...]
    attention: tuple[float, ...]
    of_datasheet: float = 1.0


def with_measured_share(class_logit: Array) -> Array:
    """The logits of the classes' shares, and last that of a rate that is reached, whose share is one; shape (classes + 1,)."""
    return np.append(class_logit, np.inf)


def class_ceilings(card: Accelerator, share: float, arithmetic: str, accelerators: Mapping[str, Accelerator]) -> Ceilings:
    """The ceilings of a card of which `share` is rented; `accelerators` are the catalog's, among which weaker cards are looked for."""
    attends = arithmetic if arithmetic in {*SINGLE, *HALVES} else "fp16"
    if card.kind == "cpu":
        compute, attention = (_of_processor(card, name, share) for name in (arithmetic, attends))
        return Ceilings(_reached_alone(card.bandwidth * share), compute, attention, of_datasheet=0.0 if card.reached else 1.0)
    if card.reached or card.kind == "apple":
        of_sheet = 1.0 if card.reached else APPLE_REACHED
        compute, attention = (_reached_alone(find_peak(card, name) * share * of_sheet) for name in (arithmetic, attends))
        return Ceilings(
            _reached_alone(card.bandwidth * share * of_sheet), compute, attention, of_datasheet=0.0 if card.reached else of_sheet
        )
    many = ById(accelerators)
    bandwidth, compute = _ceilings(many, card.id, share, arithmetic)
    return Ceilings(bandwidth, compute, _ceilings(many, card.id, share, attends)[1])


def _reached_alone(rate: float) -> tuple[float, ...]:
    return (*(0.0,) * len(CLASSES), rate)


def _of_processor(card: Accelerator, arithmetic: str, share: float) -> tuple[float, ...]:
    """FLOP/s of a processor: its float32 rate is the reached one; tile units (AMX) state a peak, of which the fit knows the share."""
    rate = find_peak(card, arithmetic) * share
    if card.reached or rate == (card.peak("fp32") or 0.0) * share:
        return _reached_alone(rate)
    return tuple(rate if name == "cpu" else 0.0 for name in (*CLASSES, ""))


@lru_cache(maxsize=4096)
def _ceilings(
    accelerators: ById[Mapping[str, Accelerator]], silicon: str, share: float, arithmetic: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    cards = accelerators.value
    card = cards[silicon]
    own_bandwidth, own_peak = card.bandwidth * share, find_peak(card, arithmetic) * share
    bandwidth, compute = np.zeros(len(CLASSES) + 1), np.zeros(len(CLASSES) + 1)
    for other in (*cards.values(), None):
        if other is None:
            at, fast, flops = CLASSES.index(card_class(card)), own_bandwidth, own_peak
        else:
            at, fast, flops = CLASSES.index(card_class(other)), other.bandwidth, find_peak(other, arithmetic)
            if other.kind != card.kind or not other.in_calibration or fast > own_bandwidth or flops > own_peak:
                continue
        bandwidth[at], compute[at] = max(bandwidth[at], fast), max(compute[at], flops)
    return tuple(bandwidth), _reached_alone(own_peak) if emulates(card, arithmetic) else tuple(compute)


def find_link_rate(card: Accelerator) -> tuple[float, bool]:
    """Bytes per second to the other cards, one direction, and whether that goes over PCIe.

    Where the source gives no figure, a PCIe 4.0 slot of 16 lanes is taken.
    """
    link = card.interconnect
    if link is None:
        return PCIE_SLOT, True
    rate = float(link.one_direction or (link.both_directions or 0.0) / 2)
    return (rate, rate < SLOWEST_LINK) if rate else (PCIE_SLOT, True)


def find_host_link_rate(card: Accelerator) -> float:
    """Bytes per second from the host's memory to the card, one direction; a PCIe 4.0 slot of 16 lanes where the source gives no figure."""
    link = card.interconnect
    to_host = None if link is None else link.to_host
    if to_host is not None and to_host.one_direction:
        return float(to_host.one_direction)
    rate, over_pcie = find_link_rate(card)
    return rate if over_pcie else PCIE_SLOT


ON_TPU = Caveat("engine_replaced", variant="tpu")
ON_NEURON = Caveat("engine_replaced", variant="neuron")


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices of an offer: the silicon, the share of each that is rented, how many, usable bytes of one, link of one in bytes/s."""

    silicon: Accelerator
    share: float
    count: int
    memory: float
    link: float
    over_pcie: bool
    caveats: tuple[Caveat, ...]


class Layout(NamedTuple):
    """How an engine spreads a model over devices.

    `engine` is the one whose constants hold. `tensor_parallel` devices split every layer, `pipeline_stages` hold whole layers in turn,
    `replicas` are independent copies. `pipelined` where the stages work on micro-batches of a prompt at the same time.
    """

    engine: str
    tensor_parallel: int
    pipeline_stages: int
    replicas: int
    pipelined: bool
    caveats: tuple[Caveat, ...]


TYPICAL_CPUS = ("CPU-2vCPU", "CPU-8vCPU", "CPU-SPR-22core")
"""Cloud machines of which the catalog knows what they reach, by rising number of virtual CPUs."""


def _host(offer: Hardware, accelerators: Mapping[str, Accelerator]) -> tuple[Accelerator, tuple[Caveat, ...]]:
    """The processor of a CPU offer at the size that is rented: the one that the platform names, else the typical one."""
    cpu = offer.host_cpu
    if offer.vcpu is None:
        if cpu is not None:
            return cpu, ()
        raise UnknownHardware(
            f"Nothing is known about the processor of {quote_value(offer.id)}. Name the silicon instead, such as 'CPU-8vCPU'."
        )
    if cpu is not None and (cpu.reached or cpu.vcpu == offer.vcpu):
        return cpu, ()
    base = accelerators[TYPICAL_CPUS[1]] if cpu is None else cpu
    size = base.vcpu or offer.vcpu
    caveat = Caveat("processor_scaled", {"size": size, "vcpu": offer.vcpu, "silicon": base.name}, variant="" if cpu is None else "part")
    return _at_size(ById(accelerators), base.id, offer.vcpu), (caveat,)


@lru_cache(maxsize=256)
def _at_size(accelerators: ById[Mapping[str, Accelerator]], silicon: str, vcpu: int) -> Accelerator:
    """A processor of which `vcpu` virtual CPUs are rented: arithmetic in proportion, bandwidth as cores share the memory channels.

    A few cores cannot fill the channels and many have to share them: 2, 8 and 44 virtual CPUs of one socket reach 18, 45 and 150 GB/s, a
    straight line in logarithms. Never more than the whole processor.
    """
    cards = accelerators.value
    whole = cards[silicon]
    share = vcpu / (whole.vcpu or vcpu)
    typical = [cards[name] for name in TYPICAL_CPUS]
    sizes = np.log([cpu.vcpu or 1 for cpu in typical])
    rates = np.log([cpu.bandwidth for cpu in typical])
    inside = float(np.exp(np.interp(np.log(vcpu), sizes, rates)))
    ends = min(1.0, vcpu / (typical[0].vcpu or 1)) * max(1.0, vcpu / (typical[-1].vcpu or 1))  # beyond the known sizes in proportion
    reached = inside * ends if share > 1 else min(inside * ends, whole.bandwidth)
    peaks = {name: None if rate is None else rate * share for name, rate in whole.peaks.items()}
    return whole.model_copy(update={"bandwidth": reached, "peaks": peaks, "vcpu": vcpu})


def resolve_devices(hardware: Hardware, accelerators: Mapping[str, Accelerator]) -> Devices:
    """The hardware as the laws see it; an unknown CPU takes the figures of the typical one among the catalog's `accelerators`.

    Raises:
        UnknownHardware: a CPU of which nothing is known.
    """
    if hardware.silicon is None:
        (silicon, caveats), share = _host(hardware, accelerators), 1.0
    else:
        silicon, share, caveats = hardware.silicon, hardware.accelerator_fraction, ()
    rate, over_pcie = find_link_rate(silicon)
    return Devices(
        silicon=silicon,
        share=share,
        count=max(1, hardware.accelerator_count),
        memory=float(usable_memory(hardware) or 0),
        link=rate,
        over_pcie=over_pcie,
        caveats=caveats,
    )


def lay_out(hardware: Hardware, devices: Devices, engine: str, spec: ModelSpec, serving: Serving = DEFAULTS) -> Layout:
    """How the engine uses the devices (`lib.memory.spread`); only pipelined engines let stages work on a long prompt at the same time.

    Raises:
        BadArgument: the engine needs other hardware.
    """
    name, caveats = resolve_engine(devices, engine, work=spec.work, sparse=spec.sparse_attention)
    shared = spread(spec, name if name in TRAITS else engine, hardware, serving)
    if shared.split != "layers":
        return Layout(name, shared.devices // shared.stages, shared.stages, shared.copies, False, caveats)
    return Layout(name, 1, shared.devices, shared.copies, traits_of(engine).pipelined and shared.devices > 1, caveats)


def _able(silicon: Accelerator, *, work: Work | None, sparse: bool) -> str:
    """The engines that run a model of this kind on this silicon; of any kind if none is stated."""
    rows = {name: row for name, row in TRAITS.items() if work is None or work in row.works}
    return f"{', '.join(name for name, row in rows.items() if row.runs_on(silicon, sparse=sparse))} on {silicon.name}"


def resolve_engine(devices: Devices, engine: str, *, work: Work | None = None, sparse: bool = False) -> tuple[str, tuple[Caveat, ...]]:
    """The engine whose constants hold on this hardware, with a caveat where it is another than the one that was asked for.

    Raises:
        BadArgument: the engine needs other hardware.
    """
    match devices.silicon.kind:
        case "cpu" if traits_of(engine).runs_on(devices.silicon):
            return "host", ()
        case "tpu":
            return usual_engine("tpu"), () if "tpu" in traits_of(engine).advised_on else (ON_TPU,)
        case "neuron":
            return "neuron", (ON_NEURON,)
    if not traits_of(engine).runs_on(devices.silicon, sparse=sparse):
        raise BadArgument("engine", engine, _able(devices.silicon, work=work, sparse=sparse))
    row = traits_of(engine)
    if not row.timed_as:
        return engine, ()
    return row.timed_as, (Caveat("engine_replaced", {"engine": engine, "like": row.timed_as_title or row.timed_as}),)
