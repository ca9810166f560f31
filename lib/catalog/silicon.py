"""Silicon: what one card or chip is, whoever rents it out.

Rates are dense (never sparse) and per card or chip. `None` in a table of peaks means that the unit does not exist or that its
rate was not published; it never means zero and is never replaced by the rate of another type.

From the rows of `sources.json` and `accelerators.json` to sources and silicon; what does not add up is refused by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

from lib.catalog.rows import Row
from lib.errors import BadCatalog
from lib.provenance import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lib.units import Bytes, BytesPerSecond, FlopPerSecond

Vendor = Literal["NVIDIA", "AMD", "Google", "AWS", "CPU"]
SiliconKind = Literal["gpu", "tpu", "neuron", "cpu"]
PEAK_DTYPES: tuple[str, ...] = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
KIND_OF_VENDOR: dict[str, SiliconKind] = {"NVIDIA": "gpu", "AMD": "gpu", "Google": "tpu", "AWS": "neuron", "CPU": "cpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A way out of the card. `one_direction` is the sum over all of its links, one way; `None` where the source gives no figure.

    `to_host` is the way to the host when the card also has a faster one to its peers. Chips on a torus (TPU) state their links
    one by one: `one_direction_per_link` × `links`, and `both_directions` over all of them as the vendor prints it.
    """

    kind: str
    one_direction: BytesPerSecond | None
    one_direction_per_link: BytesPerSecond | None = None
    links: int | None = None
    both_directions: BytesPerSecond | None = None
    to_host: Link | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One card, chip or CPU host: capacity, bandwidth, dense peaks.

    `memory_advertised` is the figure on the box; `memory_usable` what a program sees before its own context and kernels, `None`
    for a CPU, whose memory belongs to the offer. `bandwidth_is_peak` is false where the figure is an effective estimate (CPU).
    `peaks` holds FLOP/s (operations per second for int8). `compute_capability` is CUDA's, as a pair that can be compared.
    `reached` says that bandwidth and peaks are rates which a program reached on this very machine, not ceilings.
    """

    id: str
    name: str
    vendor: Vendor
    architecture: str
    memory_advertised: Bytes | None
    memory_usable: Bytes | None
    bandwidth: BytesPerSecond
    bandwidth_is_peak: bool
    peaks: Mapping[str, FlopPerSecond | None]
    native_dtypes: tuple[str, ...]
    compute_capability: tuple[int, int] | None
    interconnect: Link | None
    sm_count: int | None
    l2: Bytes | None
    tdp_w: int | None
    vcpu: int | None
    notes: str
    sources: tuple[Source, ...]
    checked: str
    reached: bool = False

    @property
    def kind(self) -> SiliconKind:
        """What sort of silicon it is."""
        return KIND_OF_VENDOR[self.vendor]

    def supports(self, dtype: str) -> bool:
        """Whether the silicon computes in this type natively; emulation and storage-only formats do not count."""
        return dtype in self.native_dtypes

    def peak(self, dtype: str) -> FlopPerSecond | None:
        """Dense rate in this type; `None` where there is no unit, or no published rate."""
        return self.peaks.get(dtype)

    def ridge_point(self, dtype: str) -> float | None:
        """FLOP per byte above which a kernel is bound by compute: peak(dtype) / bandwidth; `None` without a peak.

        Source: Williams, Waterman, Patterson 2009, "Roofline", doi:10.1145/1498765.1498785.
        """
        peak = self.peak(dtype)
        return None if peak is None else peak / self.bandwidth


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """Plain silicon times a count, for people who own it: no platform, no price. Reads like an `Offer` where memory and speed do.

    For a CPU the memory is the machine's (`ram_bytes`, where known) and there is no accelerator.
    """

    silicon: Accelerator
    count: int = 1

    @property
    def id(self) -> str:
        """The accelerator's id, with the count when there is more than one: `H100-SXMx8`."""
        return self.silicon.id if self.count == 1 else f"{self.silicon.id}x{self.count}"

    @property
    def name(self) -> str:
        """For people."""
        return self.silicon.name if self.count == 1 else f"{self.count} × {self.silicon.name}"

    @property
    def accelerator(self) -> str | None:
        """Id of the silicon, `None` for a CPU."""
        return None if self.silicon.kind == "cpu" else self.silicon.id

    @property
    def accelerator_count(self) -> int:
        """How many cards or chips; 0 for a CPU."""
        return 0 if self.silicon.kind == "cpu" else self.count

    @property
    def accelerator_fraction(self) -> float:
        """Always the whole card."""
        return 1.0

    @property
    def vram_bytes_per_accelerator(self) -> Bytes | None:
        """Usable memory of one card, `None` for a CPU."""
        return self.silicon.memory_usable

    @property
    def vcpu(self) -> int | None:
        """Of a CPU; the host of an owned card is not known."""
        return self.silicon.vcpu

    @property
    def ram_bytes(self) -> Bytes | None:
        """Of a CPU whose memory is part of its description; else not known."""
        return self.silicon.memory_advertised if self.silicon.kind == "cpu" else None


def read_sources(data: object) -> tuple[str, Mapping[str, Source]]:
    """The day the catalog was gathered, and the sources by key."""
    top = Row("sources.json", data)
    as_of = top.day("as_of", latest="2999-12-31")

    def source(table: Row, key: str) -> Source:
        row = table.group(key)
        read = Source(what=row.label("what"), source=row.label("source"), checked=row.day("checked", latest=as_of))
        row.finish()
        return read

    known = top.table("sources", source)
    top.finish()
    return as_of, known


def _link(row: Row | None) -> Link | None:
    if row is None:
        return None
    torus = row.has("links")
    link = Link(
        kind=row.label("kind"),
        one_direction=row.bandwidth("one_direction"),
        one_direction_per_link=row.bandwidth("one_direction_per_link") if torus else None,
        links=row.count("links") if torus else None,
        both_directions=row.bandwidth("both_directions") if torus else None,
        to_host=_link(row.row("to_host")) if row.has("to_host") else None,
    )
    row.finish()
    return link


def _capability(row: Row) -> tuple[int, int] | None:
    text = row.optional("compute_capability", str)
    if text is None:
        return None
    major, dot, minor = text.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        raise row.bad("compute_capability", text, "text such as '8.9', or null")
    return int(major), int(minor)


def _accelerator(row: Row, known: Mapping[str, Source], as_of: str) -> Accelerator:
    bandwidth = row.bandwidth("bandwidth")
    if bandwidth is None:
        raise row.bad("bandwidth", None, "text such as '300 GB/s'")
    read = Accelerator(
        id=row.label("id"),
        name=row.label("name"),
        vendor=cast("Vendor", row.choice("vendor", tuple(KIND_OF_VENDOR))),
        architecture=row.label("architecture"),
        memory_advertised=row.bytes("memory_advertised"),
        memory_usable=row.bytes("memory_usable"),
        bandwidth=bandwidth,
        bandwidth_is_peak=row.of("bandwidth_is_peak", bool),
        peaks=row.table("peaks", lambda table, dtype: table.rate(dtype)),
        native_dtypes=row.labels("native_dtypes"),
        compute_capability=_capability(row),
        interconnect=_link(row.row("interconnect")),
        sm_count=row.size("sm_count"),
        l2=row.bytes("l2"),
        tdp_w=row.size("tdp_w"),
        vcpu=row.size("vcpu"),
        notes=row.of("notes", str),
        sources=row.sources(known),
        checked=row.day("checked", latest=as_of),
    )
    row.finish()
    if tuple(read.peaks) != PEAK_DTYPES:
        raise row.bad("peaks", ", ".join(read.peaks), ", ".join(PEAK_DTYPES))
    if read.memory_usable is None and read.kind != "cpu":
        raise row.bad("memory_usable", None, "text such as '22.03 GiB' for everything but a CPU")
    return read


def read_accelerators(data: object, known: Mapping[str, Source], as_of: str) -> Mapping[str, Accelerator]:
    """The cards and chips by id."""
    top = Row("accelerators.json", data)
    read: dict[str, Accelerator] = {}
    for row in top.rows("accelerators"):
        row.where = f"accelerators.json, row '{row.name}'"
        card = _accelerator(row, known, as_of)
        if card.id in read:
            raise BadCatalog(f"{row.where}: the id is there twice.")
        read[card.id] = card
    top.finish()
    return MappingProxyType(read)
