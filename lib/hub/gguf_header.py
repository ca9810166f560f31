"""The header of a GGUF file: its keys and its tensors, from the first bytes of the file.

    "GGUF" · version (u32) · tensors (u64) · keys (u64) · keys × (name, type, value) · tensors × (name, rank, extents, type, offset)

Scalars, short strings and short arrays of whole numbers (heads of each layer) are kept; other arrays (the tokenizer's) are stepped over.
The file is little-endian here; version 2 and 3. gguf's own reader maps the whole file into memory, so only its table of types is used.
Source: ggml, docs/gguf.md; type sizes: `gguf.constants.GGML_QUANT_SIZES` (gguf 0.19).
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import dataclass
from typing import NoReturn

from lib.errors import HubGarbage, quote_value
from lib.hub.repository import Tensor

MAX_HEADER_BYTES = 64 * 2**20
_MAX_KEYS, _MAX_TENSORS, _MAX_RANK, _MAX_NAME, _KEPT_TEXT = 4096, 200_000, 8, 1024, 512
_MAX_ELEMENTS = 2**50
_KEPT_ARRAY, _KEPT_NUMBERS = 1024, 65_536  # one number for each layer; those of all arrays together
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_WHOLE = frozenset({0, 1, 2, 3, 4, 5, 7, 10, 11})
_STRING, _ARRAY = 8, 9

Value = str | int | float | bool | tuple[int, ...]


class NeedMore(Exception):
    """The header goes on behind the bytes at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """Keys with their values, tensors, and bytes and elements by type."""

    keys: dict[str, Value]
    tensors: dict[str, Tensor]
    bytes_by_dtype: dict[str, int]
    elements_by_dtype: dict[str, int]


class _Cursor:
    """Reads forward through the bytes at hand."""

    def __init__(self, data: bytes, file: str) -> None:
        self.data, self.file, self.at, self.kept = data, file, 0, 0

    def skip(self, count: int) -> int:
        start, self.at = self.at, self.at + count
        if self.at > MAX_HEADER_BYTES:
            self.refuse(f"its header is longer than {MAX_HEADER_BYTES:,} bytes")
        if self.at > len(self.data):
            raise NeedMore
        return start

    def number(self, form: str) -> int:
        value = struct.unpack_from(form, self.data, self.skip(struct.calcsize(form)))[0]
        return int(value)

    def text(self, limit: int) -> str:
        length = self.number("<Q")
        if length > limit:
            self.refuse(f"it holds a text of {length:,} bytes")
        start = self.skip(length)
        return self.data[start : self.at].decode("utf-8", "replace")

    def refuse(self, fault: str) -> NoReturn:
        raise HubGarbage(
            f"The file {quote_value(self.file)} cannot be read: {fault}. Choose another model, or give its parameter count instead."
        )


def parse_gguf(data: bytes, file: str) -> GgufHeader:
    """Read the header from the first bytes of a file.

    Raises:
        NeedMore: the header is longer than `data`.
        HubGarbage: not a GGUF header, or counts and lengths that cannot be.
    """
    cursor = _Cursor(data, file)
    cursor.skip(4)
    if data[:4] != b"GGUF":
        cursor.refuse("it does not begin with 'GGUF'")
    version, tensors, keys = cursor.number("<I"), cursor.number("<Q"), cursor.number("<Q")
    if version not in (2, 3):
        cursor.refuse(f"it is of version {version}, and versions 2 and 3 are read")
    if tensors > _MAX_TENSORS or keys > _MAX_KEYS:
        cursor.refuse(f"it claims {tensors:,} tensors and {keys:,} keys")
    fields: dict[str, Value] = {}
    for _ in range(keys):
        name = cursor.text(_MAX_NAME)
        value = _value(cursor, cursor.number("<I"))
        if value is not None:
            fields[name] = value
    return _with_tensors(cursor, tensors, fields)


def _value(cursor: _Cursor, code: int) -> Value | None:
    """A scalar, a short text or some whole numbers; None for another array or a long text, which is stepped over."""
    if code in _SCALARS:
        value: Value = struct.unpack_from(_SCALARS[code], cursor.data, cursor.skip(struct.calcsize(_SCALARS[code])))[0]
        return value
    if code == _STRING:
        text = cursor.text(MAX_HEADER_BYTES)
        return text if len(text) <= _KEPT_TEXT else None
    if code != _ARRAY:
        cursor.refuse(f"it holds a value of the unknown type {code}")
    inner, count = cursor.number("<I"), cursor.number("<Q")
    if inner in _SCALARS:
        start = cursor.skip(struct.calcsize(_SCALARS[inner]) * count)
        if inner in _WHOLE and count <= _KEPT_ARRAY and cursor.kept + count <= _KEPT_NUMBERS:
            cursor.kept += count
            return tuple(int(n) for n in struct.unpack_from(f"<{count}{_SCALARS[inner][1]}", cursor.data, start))
    elif inner == _STRING:
        _skip_texts(cursor, count)
    else:
        cursor.refuse(f"it holds an array of the type {inner}")
    return None


def _skip_texts(cursor: _Cursor, count: int) -> None:
    """Step over a vocabulary: some 10**5 texts of a few bytes each."""
    if count > MAX_HEADER_BYTES // 8:
        cursor.refuse(f"it claims an array of {count:,} texts")
    unpack, data, at, last = struct.Struct("<Q").unpack_from, cursor.data, cursor.at, len(cursor.data) - 8
    for _ in range(count):
        if at > last:
            cursor.skip(at + 8 - cursor.at)  # asks for more, or refuses a length that no header has
        at += 8 + unpack(data, at)[0]
    cursor.skip(at - cursor.at)


def _with_tensors(cursor: _Cursor, count: int, keys: dict[str, Value]) -> GgufHeader:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415 - 0.2 s, and only for GGUF files

    sizes = {int(kind): (kind.name, *GGML_QUANT_SIZES[kind]) for kind in GGMLQuantizationType if kind in GGML_QUANT_SIZES}
    tensors: dict[str, Tensor] = {}
    elements: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    for _ in range(count):
        name, rank = cursor.text(_MAX_NAME), cursor.number("<I")
        if rank > _MAX_RANK:
            cursor.refuse(f"{quote_value(name)} has {rank} dimensions")
        extents = [cursor.number("<Q") for _ in range(rank)]
        code = cursor.number("<I")
        cursor.skip(8)  # offset of its data
        number = math.prod(extents)
        if code not in sizes or number > _MAX_ELEMENTS:
            cursor.refuse(f"{quote_value(name)} has type {code} and {number:,} elements")
        dtype, block, block_bytes = sizes[code]
        if name in tensors:
            cursor.refuse(f"it holds {quote_value(name)} twice")
        if extents and extents[0] % block:
            cursor.refuse(f"{quote_value(name)} has rows of {extents[0]:,} weights, and {dtype} stores blocks of {block}")
        tensors[name] = Tensor(dtype, tuple(reversed(extents)), cursor.file)  # ggml lists the fastest dimension first
        elements[dtype] += number
        stored[dtype] += number // block * block_bytes
    return GgufHeader(keys=keys, tensors=tensors, bytes_by_dtype=dict(stored), elements_by_dtype=dict(elements))
