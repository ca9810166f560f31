"""From the rows of `sources.json` and `accelerators.json` to sources and silicon; what does not add up is refused by row."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from lib.errors import BadCatalog
from lib.ledger import Row
from lib.provenance import Source
from lib.silicon import KIND_OF_VENDOR, PEAK_DTYPES, Accelerator, Link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lib.silicon import Vendor


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
