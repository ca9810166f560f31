"""The memory of the machine that own cards are plugged into, from a text such as "64 GB DDR5-6000" or "256 GB DDR4-3200 8 channels".

Its bandwidth follows from the kind: 8 bytes · transfers per second · channels. A text may state the rate itself: "128 GB 256 GB/s".
Without a kind, the assumed one is taken, and the answer says so.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated

from pydantic import TypeAdapter

from lib.catalog.rows import DATA, Day, Row, Text
from lib.errors import BadArgument, quote_value
from lib.request.fields import Checked
from lib.units import GIB, Bytes, BytesPerSecond

LONGEST = 60
MOST_GIGABYTES = 65_536
MOST_CHANNELS = 24  # two sockets of twelve
MOST_RATE = 10_000.0  # GB/s
BYTES_PER_TRANSFER = 8
"""Of one channel of DDR memory, which is 64 bits wide; DDR5 splits it into two of 32 (rooflinenotes.dev/memory/ddr, read 2026-11-26)."""
_WORD_CHANNELS = {"single": 1, "dual": 2, "quad": 4, "six": 6, "octa": 8, "eight": 8, "twelve": 12}
_RATE = re.compile(r"\b(\d{1,5}(?:\.\d{1,2})?) ?gb/s\b")
_KIND = re.compile(r"\bddr ?([0-9]) ?-? ?(\d{3,5})\b(?: ?mt/s| ?mhz)?")
_CHANNELS = re.compile(rf"\b(\d{{1,2}}|{'|'.join(_WORD_CHANNELS)})[ -]?channels?\b")
_SIZE = re.compile(r"\b(\d{1,6}(?:\.\d{1,2})?) ?(g|t)i?b\b(?!/s)")
_FILLERS = frozenset({"ram", "memory", "of", "with", "at", "in", "and"})


class Generation(Row):
    """A generation of DDR memory, with the rates of its modules in millions of transfers per second."""

    name: Text
    """Such as DDR5."""
    least_megatransfers: int
    """Of the slowest standard modules."""
    most_megatransfers: int
    """Of the fastest modules sold."""


class AssumedHost(Row):
    """The host that is counted with if none is stated."""

    gigabytes: int
    kind: Text
    megatransfers: int
    channels: int


class _File(Row):
    """host_memory.json."""

    generations: tuple[Generation, ...]
    source: Text
    checked: Day
    assumed: AssumedHost
    assumed_why: Text


class HostMemory(Row):
    """The memory of a host: its size, its bandwidth by its kind, and which of them are assumed."""

    size: Bytes
    """Bytes of all modules."""
    bandwidth: BytesPerSecond
    """Bytes per second of all channels."""
    name: Text
    """For people: DDR5-6000, 2 channels."""
    size_assumed: bool = False
    """Whether the size was not stated."""
    bandwidth_assumed: bool = False
    """Whether neither the kind nor the rate was stated."""


@cache
def _file() -> _File:
    return TypeAdapter(_File).validate_json((DATA / "host_memory.json").read_bytes())


def assume_host() -> HostMemory:
    """The host that is counted with if none is stated.

    >>> assume_host().name, assume_host().bandwidth / 1e9
    ('DDR5-5600, 2 channels', 89.6)
    """
    of = _file().assumed
    return HostMemory(
        size=Bytes(of.gigabytes * GIB),
        bandwidth=_bandwidth(of.megatransfers, of.channels),
        name=_name(of.kind, of.megatransfers, of.channels),
        size_assumed=True,
        bandwidth_assumed=True,
    )


def read_host_memory(argument: str, text: object) -> HostMemory | None:
    """The memory that a text describes; None for an empty text. Missing values are assumed.

    Raises:
        BadArgument: the text says something else, or a size or rate that no host has.

    >>> read_host_memory("host_memory", "96 GB DDR5-6000").bandwidth / 1e9
    96.0
    >>> read_host_memory("host_memory", "256GB DDR4-3200, 8 channels").bandwidth / 1e9
    204.8
    """
    accepted = "a text such as '64 GB DDR5-6000', '256 GB DDR4-3200 8 channels' or '128 GB 256 GB/s'; two channels unless stated"
    if not isinstance(text, str) or len(text) > LONGEST:
        raise BadArgument(argument, quote_value(text)[:LONGEST], accepted)
    rest = " ".join(text.casefold().replace(",", " ").split())
    if not rest:
        return None
    found: dict[str, tuple[str, ...]] = {}
    for name, pattern in (("rate", _RATE), ("kind", _KIND), ("channels", _CHANNELS), ("size", _SIZE)):
        if match := pattern.search(rest):
            found[name] = match.groups()
            rest = f"{rest[: match.start()]} {rest[match.end() :]}"
    if not found or set(rest.split()) - _FILLERS:
        raise BadArgument(argument, text, accepted)
    return _host(argument, text, found)


HostMemoryText = Annotated[
    HostMemory | None,
    Checked(
        read_host_memory,
        str,
        "Memory of your machine for experts that cards leave to it, such as 64 GB DDR5-6000 or 256 GB DDR4-3200 8 channels; "
        "empty: assumed, and the answer says so.",
        write=lambda host: "" if host is None else host.name,
    ),
]
"""The argument `host_memory`, for own cards."""


def _host(argument: str, text: str, found: dict[str, tuple[str, ...]]) -> HostMemory:
    assumed = assume_host()
    size = assumed.size
    if "size" in found:
        gigabytes = float(found["size"][0]) * (1024 if found["size"][1] == "t" else 1)
        if not 1 <= gigabytes <= MOST_GIGABYTES:
            raise BadArgument(argument, text, f"a size of 1 to {MOST_GIGABYTES:,} GB")
        size = Bytes(int(gigabytes * GIB))
    stated = found.get("channels", ("2",))[0]
    channels = _WORD_CHANNELS.get(stated) or int(stated)
    if not 1 <= channels <= MOST_CHANNELS:
        raise BadArgument(argument, text, f"1 to {MOST_CHANNELS} channels")
    if "rate" in found:
        rate = float(found["rate"][0])
        if not 1 <= rate <= MOST_RATE:
            raise BadArgument(argument, text, f"a rate of 1 to {MOST_RATE:,.0f} GB/s")
        return HostMemory(size=size, bandwidth=BytesPerSecond(rate * 1e9), name=f"{rate:g} GB/s", size_assumed="size" not in found)
    if "kind" not in found:
        of = _file().assumed
        kind, megatransfers = of.kind, of.megatransfers
    else:
        kind, megatransfers = f"DDR{found['kind'][0]}", int(found["kind"][1])
        rows = {row.name: row for row in _file().generations}
        row = rows.get(kind)
        if row is None or not row.least_megatransfers <= megatransfers <= row.most_megatransfers:
            kinds = ", ".join(f"{one.name}-{one.least_megatransfers} to -{one.most_megatransfers}" for one in rows.values())
            raise BadArgument(argument, text, f"memory of the kinds {kinds}, or a rate such as 90 GB/s")
    return HostMemory(
        size=size,
        bandwidth=_bandwidth(megatransfers, channels),
        name=_name(kind, megatransfers, channels),
        size_assumed="size" not in found,
        bandwidth_assumed="kind" not in found,
    )


def _bandwidth(megatransfers: int, channels: int) -> BytesPerSecond:
    """8 bytes · transfers per second · channels."""
    return BytesPerSecond(BYTES_PER_TRANSFER * megatransfers * 1e6 * channels)


def _name(kind: str, megatransfers: int, channels: int) -> str:
    return f"{kind}-{megatransfers}, {channels} {'channel' if channels == 1 else 'channels'}"
