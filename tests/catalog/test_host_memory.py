"""The memory of a host from a text: what is read, what is assumed, what is refused."""

from __future__ import annotations

import pytest

from lib.catalog.host_memory import assume_host, read_host_memory
from lib.errors import BadArgument
from lib.units import GIB


@pytest.mark.parametrize(
    ("text", "gigabytes", "rate"),
    [
        ("64 GB DDR5-6000", 64, 96.0),
        ("ddr4-3200", 64, 51.2),
        ("256GB DDR4-3200, 8 channels", 256, 204.8),
        ("1.5 TB of DDR5 4800 MT/s twelve-channel RAM", 1536, 460.8),
        ("128 GB at 256 GB/s", 128, 256.0),
        ("96 gb", 96, 89.6),
    ],
)
def test_bandwidth_is_eight_bytes_a_transfer_and_channel(text: str, gigabytes: float, rate: float) -> None:
    """Two channels unless stated; a stated rate wins."""
    host = read_host_memory("host_memory", text)
    assert host is not None
    assert host.size == gigabytes * GIB
    assert host.bandwidth == pytest.approx(rate * 1e9)
    assert (host.size_assumed, host.bandwidth_assumed) == ("b" not in text.casefold().replace("gb/s", ""), text == "96 gb")


def test_nothing_stated_is_no_host() -> None:
    """An empty text is None; what is then counted with says that it is assumed."""
    assert read_host_memory("host_memory", "  ") is None
    assert assume_host().bandwidth_assumed


@pytest.mark.parametrize(
    "text",
    ["fast", "DDR5-60000", "DDR2-800", "64 GB DDR5-6000 99 channels", "0 GB", "99999999 GB", "0 GB/s", "64 GB <b>", "x" * 61, 64, None],
)  # fmt: skip
def test_other_texts_are_refused_with_examples(text: object) -> None:
    """What was wrong, and what is accepted."""
    with pytest.raises(BadArgument, match="host_memory"):
        read_host_memory("host_memory", text)
