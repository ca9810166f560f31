"""Silicon: the properties of one card or chip, independent of the platform that rents it out.

Rates are dense (never sparse) and per card or chip. A rate of `None` means that the unit does not exist or that its rate was not
published; it never means zero and is never replaced by the rate of another type.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, field_validator, model_validator

from lib.catalog.rows import Bandwidth, ByteCount, Day, Rate, Row, Size, Sources, Table, Text, is_day, require_distinct
from lib.provenance import Source
from lib.units import FlopPerSecond

OWNED_KINDS = frozenset({"gpu", "apple"})
"""Kinds of silicon that people own as cards or Macs."""
Vendor = Literal["NVIDIA", "AMD", "Intel", "Apple", "Google", "AWS", "CPU"]
SiliconKind = Literal["gpu", "apple", "tpu", "neuron", "cpu"]
PeakDtype = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"]
PEAK_DTYPES: tuple[str, ...] = get_args(PeakDtype)
KIND_OF_VENDOR: dict[Vendor, SiliconKind] = {
    "NVIDIA": "gpu", "AMD": "gpu", "Intel": "gpu", "Apple": "apple", "Google": "tpu", "AWS": "neuron", "CPU": "cpu",
}  # fmt: skip
"""Apple's GPUs are a kind of their own: other engines run on them, and their rates say nothing about cards."""


class Link(Row):
    """A way out of the card."""

    kind: Text
    """Such as `NVLink 4` or `PCIe 4.0 x16`."""
    one_direction: Bandwidth | None
    """Bytes per second one way, the sum over all links; `None` if the source gives no figure."""
    both_directions: Bandwidth | None = None
    """Sum over all links and both ways, as the vendor of a chip on a torus (TPU) prints it."""
    to_host: Link | None = None
    """The way to the host, when the card also has a faster one to its peers."""


def parse_capability(value: object) -> object:
    """CUDA's "8.9" as a pair that can be compared."""
    if not isinstance(value, str):
        return value
    major, dot, minor = value.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        raise ValueError("Accepted: text such as '8.9', or null.")
    return int(major), int(minor)


class Accelerator(Row):
    """One card, chip or CPU host: capacity, bandwidth, dense peaks."""

    id: Text
    """Such as `H100-SXM`."""
    name: Text
    """For people."""
    vendor: Vendor
    """The maker."""
    architecture: Text
    """The vendor's name of the generation."""
    memory_advertised: ByteCount | None
    """The figure on the box."""
    memory_usable: ByteCount | None
    """The bytes that a program sees before its own context and kernels; `None` for a CPU, whose memory belongs to the offer."""
    bandwidth: Bandwidth
    """Of the memory, bytes per second."""
    bandwidth_is_peak: bool
    """False where the figure is an effective estimate (CPU)."""
    peaks: Table[Rate | None]
    """FLOP/s by type (operations per second for int8)."""
    native_dtypes: tuple[Text, ...]
    """Types that it computes in; emulation and storage-only formats do not count."""
    compute_capability: Annotated[tuple[int, int], BeforeValidator(parse_capability)] | None
    """CUDA's version of the architecture."""
    interconnect: Link | None
    """The fastest way out; `None` if there is none or no source states it."""
    sm_count: Size | None
    """Streaming multiprocessors, or the vendor's compute units."""
    l2: ByteCount | None
    """Bytes of the last cache before the memory."""
    tdp_w: Size | None
    """Power limit in watts."""
    vcpu: Size | None
    """Of a CPU host."""
    notes: str
    """For people."""
    sources: Sources
    """Source of the figures."""
    checked: Day
    """The day on which the sources were read."""
    in_calibration: bool = True
    """Among the cards whose ceilings the fit of speeds has seen: other cards are held to at least what these reach, never the reverse."""
    reached: bool = False
    """Bandwidth and peaks are rates that a program reached on this very machine, not ceilings."""

    @field_validator("peaks")
    @classmethod
    def _every_peak(cls, peaks: Table[Rate | None]) -> Table[Rate | None]:
        if tuple(peaks) != PEAK_DTYPES:
            raise ValueError(f"It has {', '.join(peaks)}. Accepted: {', '.join(PEAK_DTYPES)}.")
        return peaks

    @model_validator(mode="after")
    def _has_memory(self) -> Self:
        if self.memory_usable is None and self.kind != "cpu":
            raise ValueError("memory_usable is null. Accepted: text such as '22.03 GiB' for everything but a CPU.")
        return self

    @property
    def kind(self) -> SiliconKind:
        """The kind of silicon."""
        return KIND_OF_VENDOR[self.vendor]

    def supports(self, dtype: str) -> bool:
        """Whether the silicon computes in this type natively; emulation and storage-only formats do not count.

        CUDA cards compute in fp64 since compute capability 2.0 (NVIDIA, "Floating Point and IEEE 754", chapter "Compute Capability 2.0 and
        Above"; only a search excerpt was seen, on 2026-11-23). At which rate is not in the catalog.
        """
        return dtype in self.native_dtypes or (dtype == "fp64" and self.compute_capability is not None)

    def peak(self, dtype: str) -> FlopPerSecond | None:
        """Dense rate in this type; `None` if there is no unit, or no published rate."""
        return self.peaks.get(dtype)

    def fastest(self, *dtypes: str) -> FlopPerSecond | None:
        """The highest of the rates in these types; `None` without any."""
        return max((rate for dtype in dtypes if (rate := self.peak(dtype)) is not None), default=None)

    def limit(self, *dtypes: str) -> FlopPerSecond | None:
        """A rate that no kernel exceeds: `fastest`, else that of any floating-point unit, because other types are converted to its own.

        `lib.speed.hardware.find_peak` says at which rate kernels do multiply, without TF32 and with the cost of emulation.
        """
        return self.fastest(*dtypes) or self.fastest("fp32", "tf32", "fp16", "bf16")


UNKNOWN_CPU = Accelerator.model_construct(
    id="CPU", name="a processor", vendor="CPU", memory_usable=None, native_dtypes=("fp32", "int8"), compute_capability=None
)
"""A processor that no source names: what memory and engines ask of one is the same for all of its kind, and no speed is stated."""


class AcceleratorsFile(Row):
    """accelerators.json."""

    accelerators: Annotated[tuple[Accelerator, ...], require_distinct("id")]
    """In the order of the file, each id once."""


class SourcesFile(Row):
    """sources.json."""

    as_of: Day
    """The day on which the catalog was gathered; nothing in it is dated later."""
    sources: Table[Source]
    """By the key that rows write."""

    @model_validator(mode="after")
    def _every_source_says_what_where_and_when(self) -> Self:
        for key, source in self.sources.items():
            if not (source.what.strip() and source.source.strip()):
                raise ValueError(f"{key}: what and source have to be text.")
            if not is_day(source.checked, months_too=False) or source.checked > self.as_of:
                raise ValueError(f"{key}: checked is {source.checked!r}. Accepted: a day YYYY-MM-DD, not after {self.as_of}.")
        return self
