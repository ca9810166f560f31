"""Quantities with their units, as types, and the text forms that data files use.

Inside the core everything is in base units: bytes, bytes per second, FLOP, FLOP per second, seconds, US dollars.
1 GB = 10**9 bytes and 1 GiB = 2**30 bytes; a label always says which of the two is meant.
Text becomes a quantity where a file or a form is read, and a quantity becomes text in `lib.present`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NewType

from lib.errors import BadQuantity

Bytes = NewType("Bytes", int)
BytesPerSecond = NewType("BytesPerSecond", float)
FlopPerSecond = NewType("FlopPerSecond", float)
Seconds = NewType("Seconds", float)
Tokens = NewType("Tokens", int)
TokensPerSecond = NewType("TokensPerSecond", float)
UsdPerHour = NewType("UsdPerHour", Decimal)

KIB = 2**10
MIB = 2**20
GIB = 2**30
MB = 10**6
GB = 10**9

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": KIB, "Mi": MIB, "Gi": GIB, "Ti": 2**40}
_PREFIXES = _DECIMAL | _BINARY
_QUANTITY = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?(?P<prefix>[KMGT]i|[kMGTP]|)(?P<unit>B/s|B|FLOP/s)")


def _parse(text: str, unit: str) -> Decimal:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match["unit"] != unit or match["prefix"] not in _PREFIXES:
        raise BadQuantity(text, f"a number and a unit such as '24 Gi{unit}' or '300 G{unit}'")
    return Decimal(match["number"]) * _PREFIXES[match["prefix"]]


def parse_bytes(text: str) -> Bytes:
    """Read "24 GiB" or "48 GB" as bytes, rounded down to a whole byte."""
    return Bytes(int(_parse(text, "B")))


def parse_bytes_per_second(text: str) -> BytesPerSecond:
    """Read "300 GB/s" as bytes per second."""
    return BytesPerSecond(float(_parse(text, "B/s")))


def parse_flop_per_second(text: str) -> FlopPerSecond:
    """Read "121 TFLOP/s" as floating-point operations per second."""
    return FlopPerSecond(float(_parse(text, "FLOP/s")))
