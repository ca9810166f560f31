"""The header of a safetensors file, read as what it is: text from a stranger.

    file = length n (8 bytes, little-endian) · header (n bytes of JSON) · data
    header = {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {…}}

The spans have to cover the data without a gap or an overlap, and each has to be exactly as long as its dtype and shape say;
so a header that is accepted accounts for every byte of the file.
Source: format description in github.com/huggingface/safetensors, README (limits: 100 MB of header; huggingface_hub reads 25 MB).
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import dataclass
from typing import Any, NoReturn

from lib.bounded_json import UnreadableJson, read_json
from lib.errors import HubGarbage, quote_value
from lib.hub.repository import Tensor

PREFIX_BYTES = 8
MAX_HEADER_BYTES = 25_000_000
MAX_FILE_BYTES = 2**50
_MAX_RANK = 16
_MAX_NAME = 1024
_MAX_DTYPE = 16
_MAX_NODES = 2_000_000  # twelve for each tensor, so 166,000 tensors in one file; 25 MB of "[[],[],…" would take 1 GB to parse

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What one file holds: its tensors, and bytes and elements by dtype."""

    tensors: dict[str, Tensor]
    bytes_by_dtype: dict[str, int]
    elements_by_dtype: dict[str, int]

    @property
    def data_bytes(self) -> int:
        """Bytes of data that the header describes."""
        return sum(self.bytes_by_dtype.values())


def header_length(prefix: bytes, file: str, file_bytes: int | None) -> int:
    """The length of the header from the first eight bytes of a file of `file_bytes` (None = unknown).

    Raises:
        HubGarbage: the length is missing, absurd, or longer than the file.
    """
    if len(prefix) < PREFIX_BYTES:
        _refuse(file, f"it ends after {len(prefix)} bytes, and a safetensors file begins with 8 bytes of length")
    (length,) = struct.unpack_from("<Q", prefix)
    if length > MAX_HEADER_BYTES:
        _refuse(file, f"it claims a header of {length:,} bytes; at most {MAX_HEADER_BYTES:,} are read")
    if file_bytes is not None and length + PREFIX_BYTES > file_bytes:
        _refuse(file, f"it claims a header of {length:,} bytes in a file of {file_bytes:,}")
    return int(length)


def parse_header(text: bytes, file: str, data_bytes: int | None) -> Header:
    """Read a header; `data_bytes` is the length of the data behind it (None = unknown, then it is not checked).

    Raises:
        HubGarbage: not JSON, or spans, shapes and dtypes that do not add up.
    """
    entries = _load(text, file)
    entries.pop("__metadata__", None)
    tensors, at, in_order = _tensors(entries, file)
    if not in_order:
        at = _check_coverage(entries, file)
    if at > MAX_FILE_BYTES or (data_bytes is not None and at != data_bytes):
        _refuse(file, f"its header describes {at:,} bytes of data" + ("" if data_bytes is None else f" and {data_bytes:,} follow"))
    return _sum_by_dtype(tensors, entries)


def _load(text: bytes, file: str) -> dict[str, Any]:
    def no_float(number: str) -> NoReturn:
        _refuse(file, f"its header holds {quote_value(number)} where only whole numbers belong")

    try:
        entries = read_json(text, _MAX_NODES, parse_float=no_float, parse_constant=no_float)
    except UnreadableJson as error:
        raise _garbage(file, f"its header cannot be read: {error}") from error
    if not isinstance(entries, dict):
        _refuse(file, "its header is not a JSON object")
    return entries


def _tensors(entries: dict[str, Any], file: str) -> tuple[dict[str, Tensor], int, bool]:
    """The tensors, where the data ends, and whether the spans follow each other as listed (as every writer leaves them)."""
    tensors: dict[str, Tensor] = {}
    checked: dict[tuple[Any, ...], tuple[Tensor, int]] = {}  # a big model repeats a few shapes thousands of times
    at, in_order, name = 0, True, ""
    try:
        for name, entry in entries.items():
            dtype, shape = entry["dtype"], entry["shape"]
            begin, end = entry["data_offsets"]
            of_shape = checked.get((dtype, *shape))
            if of_shape is None:
                of_shape = checked[dtype, *shape] = _check_tensor(name, dtype, shape, end - begin, file)
            tensors[name], size = of_shape
            if end - begin != size:
                _refuse(file, f"{quote_value(name)} of {dtype} {quote_value(shape)} takes {size:,} bytes and its span has {end - begin:,}")
            in_order = in_order and begin == at
            at = end
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _garbage(file, f"the entry {quote_value(name)} is not a dtype, a shape and two offsets") from error
    if any(len(name) > _MAX_NAME for name in tensors):
        _refuse(file, f"it holds a tensor whose name is longer than {_MAX_NAME} characters")
    return tensors, at, in_order


def _check_tensor(name: str, dtype: Any, shape: Any, span: int, file: str) -> tuple[Tensor, int]:
    """A tensor of a dtype and shape seen for the first time, and its bytes."""
    if not (isinstance(dtype, str) and dtype.isascii() and 0 < len(dtype) <= _MAX_DTYPE):
        _refuse(file, f"{quote_value(name)} has the dtype {quote_value(dtype)}")
    if not isinstance(shape, list) or len(shape) > _MAX_RANK or any(type(n) is not int or n < 0 or n > MAX_FILE_BYTES for n in shape):
        _refuse(file, f"{quote_value(name)} has the shape {quote_value(shape)}")
    bits = math.prod(shape) * BITS[dtype] if dtype in BITS else span * 8
    if bits % 8 or not 0 <= bits <= MAX_FILE_BYTES * 8 or math.prod(shape) > bits:
        _refuse(file, f"{quote_value(name)} of {dtype} {quote_value(shape)} would take {bits:,} bits")
    return Tensor(dtype, tuple(shape), file), bits // 8


def _check_coverage(entries: dict[str, Any], file: str) -> int:
    """Where the data ends when the spans are sorted; they have to follow each other without gap or overlap."""
    at = 0
    for begin, end in sorted(entry["data_offsets"] for entry in entries.values()):
        if begin != at:
            _refuse(file, f"the data has a gap or an overlap at byte {quote_value(at)}: the next tensor begins at {quote_value(begin)}")
        at = end
    return at


def _sum_by_dtype(tensors: dict[str, Tensor], entries: dict[str, Any]) -> Header:
    counts = Counter(tensors.values())
    elements: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for tensor, count in counts.items():
        number = math.prod(tensor.shape) * count
        elements[tensor.dtype] += number
        if tensor.dtype in BITS:
            size[tensor.dtype] += number * BITS[tensor.dtype] // 8
    for name, tensor in tensors.items() if elements.keys() - BITS.keys() else ():
        if tensor.dtype not in BITS:  # a dtype newer than this list: the file itself says how long each tensor is
            begin, end = entries[name]["data_offsets"]
            size[tensor.dtype] += end - begin
    return Header(tensors=tensors, bytes_by_dtype=dict(size), elements_by_dtype=dict(elements))


def _garbage(file: str, fault: str) -> HubGarbage:
    return HubGarbage(f"The file {quote_value(file)} cannot be read: {fault}. Choose another model, or paste its config.json instead.")


def _refuse(file: str, fault: str) -> NoReturn:
    raise _garbage(file, fault)
