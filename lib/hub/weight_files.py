"""Weight files: the headers of safetensors and GGUF files, read as untrusted text; and the names of GGUF files.

    safetensors   n (u64) · header (n bytes of JSON) · data           header = {name: {"dtype", "shape", "data_offsets": [begin, end]}}
    GGUF          "GGUF" · version (u32) · tensors (u64) · keys (u64) · keys × (name, type, value)
                  · tensors × (name, rank, extents, type, offset)

The spans of a safetensors header must cover the data without a gap or an overlap. Each must have the length of its dtype and shape; so a
header that is accepted accounts for every byte of the file. Of a GGUF header (little-endian, version 2 and 3) scalars, short strings and
short arrays of whole numbers (heads of each layer) are kept; other arrays (the tokenizer's) are stepped over. gguf's own reader maps the
whole file into memory, so only its table of types is used. Source: github.com/huggingface/safetensors, README (limits: 100 MB of header;
huggingface_hub reads 25 MB); ggml, docs/gguf.md; type sizes: `gguf.constants.GGML_QUANT_SIZES` (gguf 0.19).

A GGUF model is one file, or several parts (`-00001-of-00003`). Its label is the quantization in its name ("Q4_K_M", "UD-Q4_K_XL") if no
other model of the repository has it, else the name of the file. A projector (mmproj) and an importance matrix are not models.
Without a name llama.cpp's `-hf` takes Q4_K_M, else the first file. Source: llama.cpp's README on `-hf`, checked 2026-11-22.
"""

from __future__ import annotations

import difflib
import math
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from lib.errors import HubGarbage, UnknownModel, UnreadableJson, quote_value, read_json
from lib.units import MIB

Value = str | int | float | bool | tuple[int, ...]
_MAX_NAME = 1024


class Tensor(NamedTuple):
    """One stored tensor: dtype in the file's own word ("BF16", "Q4_K"), shape in torch's order, the file that holds it."""

    dtype: str
    shape: tuple[int, ...]
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Content of one file: its tensors and bytes by dtype; of a GGUF file its keys with their values too."""

    tensors: dict[str, Tensor]
    bytes_by_dtype: dict[str, int]
    keys: dict[str, Value] = field(default_factory=dict)

    @property
    def data_bytes(self) -> int:
        """Bytes of data that the header describes."""
        return sum(self.bytes_by_dtype.values())


PREFIX_BYTES = 8
MAX_HEADER_BYTES = 25_000_000
MAX_FILE_BYTES = 2**50
_MAX_RANK = 16
_MAX_DTYPE = 16
_MAX_NODES = 2_000_000  # twelve for each tensor, so 166,000 tensors in one file; 25 MB of "[[],[],…" would take 1 GB to parse

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64, "C64": 64,
}  # fmt: skip


def header_length(prefix: bytes, file: str, file_bytes: int | None) -> int:
    """The length of the header from the first eight bytes of a file of `file_bytes` (None = unknown)."""
    if len(prefix) < PREFIX_BYTES:
        _refuse(file, f"it ends after {len(prefix)} bytes, and a safetensors file begins with 8 bytes of length")
    (length,) = struct.unpack_from("<Q", prefix)
    if length > MAX_HEADER_BYTES:
        _refuse(file, f"it claims a header of {length:,} bytes; at most {MAX_HEADER_BYTES:,} are read")
    if file_bytes is not None and length + PREFIX_BYTES > file_bytes:
        _refuse(file, f"it claims a header of {length:,} bytes in a file of {file_bytes:,}")
    return int(length)


def parse_safetensors(text: bytes, file: str, data_bytes: int | None) -> Header:
    """Read a header; `data_bytes` is the length of the data behind it (None = unknown, then it is not checked)."""
    entries = _load(text, file)
    entries.pop("__metadata__", None)
    header, at, in_order = _read_entries(entries, file)
    if not in_order:
        at = _check_coverage(entries, file)
    if at > MAX_FILE_BYTES or (data_bytes is not None and at != data_bytes):
        _refuse(file, f"its header describes {at:,} bytes of data" + ("" if data_bytes is None else f" and {data_bytes:,} follow"))
    return header


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


def _read_entries(entries: dict[str, Any], file: str) -> tuple[Header, int, bool]:
    """The tensors with their bytes, where the data ends, and whether the spans follow each other as every writer leaves them."""
    tensors: dict[str, Tensor] = {}
    sizes: Counter[str] = Counter()
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
            sizes[dtype] += size
            in_order = in_order and begin == at
            at = end
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise _garbage(file, f"the entry {quote_value(name)} is not a dtype, a shape and two offsets") from error
    if any(len(name) > _MAX_NAME for name in tensors):
        _refuse(file, f"it holds a tensor whose name is longer than {_MAX_NAME} characters")
    return Header(tensors=tensors, bytes_by_dtype=dict(sizes)), at, in_order


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
    """End of the data when the spans are sorted; they have to follow each other without gap or overlap."""
    at = 0
    for begin, end in sorted(entry["data_offsets"] for entry in entries.values()):
        if begin != at:
            _refuse(file, f"the data has a gap or an overlap at byte {quote_value(at)}: the next tensor begins at {quote_value(begin)}")
        at = end
    return at


def _garbage(file: str, fault: str) -> HubGarbage:
    return HubGarbage(f"The file {quote_value(file)} cannot be read: {fault}. Choose another model, or paste its config.json instead.")


def _refuse(file: str, fault: str) -> NoReturn:
    raise _garbage(file, fault)


MAX_GGUF_BYTES = 64 * MIB
_MAX_KEYS, _MAX_TENSORS, _MAX_GGUF_RANK, _MAX_TEXT = 4096, 200_000, 8, 512
_MAX_ELEMENTS = 2**50
_MAX_ARRAY, _MAX_NUMBERS = 1024, 65_536  # one number for each layer; those of all arrays together
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_WHOLE = frozenset({0, 1, 2, 3, 4, 5, 7, 10, 11})
_STRING, _ARRAY = 8, 9


class NeedMore(Exception):
    """The header is longer than the bytes read so far."""


class _Cursor:
    """Reads forward through the bytes at hand."""

    def __init__(self, data: bytes, file: str) -> None:
        self.data, self.file, self.at, self.numbers = data, file, 0, 0

    def skip(self, count: int) -> int:
        start, self.at = self.at, self.at + count
        if self.at > MAX_GGUF_BYTES:
            self.refuse(f"its header is longer than {MAX_GGUF_BYTES:,} bytes")
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


def parse_gguf(data: bytes, file: str) -> Header:
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
        text = cursor.text(MAX_GGUF_BYTES)
        return text if len(text) <= _MAX_TEXT else None
    if code != _ARRAY:
        cursor.refuse(f"it holds a value of the unknown type {code}")
    inner, count = cursor.number("<I"), cursor.number("<Q")
    if inner in _SCALARS:
        start = cursor.skip(struct.calcsize(_SCALARS[inner]) * count)
        if inner in _WHOLE and count <= _MAX_ARRAY and cursor.numbers + count <= _MAX_NUMBERS:
            cursor.numbers += count
            return tuple(int(n) for n in struct.unpack_from(f"<{count}{_SCALARS[inner][1]}", cursor.data, start))
    elif inner == _STRING:
        _skip_texts(cursor, count)
    else:
        cursor.refuse(f"it holds an array of the type {inner}")
    return None


def _skip_texts(cursor: _Cursor, count: int) -> None:
    """Step over a vocabulary: some 10**5 texts of a few bytes each."""
    if count > MAX_GGUF_BYTES // 8:
        cursor.refuse(f"it claims an array of {count:,} texts")
    unpack, data, at, last = struct.Struct("<Q").unpack_from, cursor.data, cursor.at, len(cursor.data) - 8
    for _ in range(count):
        if at > last:
            cursor.skip(at + 8 - cursor.at)  # asks for more, or refuses a length that no header has
        at += 8 + unpack(data, at)[0]
    cursor.skip(at - cursor.at)


def _with_tensors(cursor: _Cursor, count: int, keys: dict[str, Value]) -> Header:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415 - 0.2 s, and only for GGUF files

    sizes = {int(kind): (kind.name, *GGML_QUANT_SIZES[kind]) for kind in GGMLQuantizationType if kind in GGML_QUANT_SIZES}
    tensors: dict[str, Tensor] = {}
    stored: Counter[str] = Counter()
    for _ in range(count):
        name, rank = cursor.text(_MAX_NAME), cursor.number("<I")
        if rank > _MAX_GGUF_RANK:
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
        stored[dtype] += number // block * block_bytes
    return Header(keys=keys, tensors=tensors, bytes_by_dtype=dict(stored))


PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.)")
_TYPE = re.compile(r"(?:UD-)?(?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|FP16|FP32|MXFP4\w*|NVFP4)(?=$|[-./])", re.IGNORECASE)
_NOT_MODELS = ("mmproj", "imatrix")
_DEFAULT = "Q4_K_M"
_MOST_LISTED = 12
_COMPARED = 200
"""Names that a misspelt one is compared with: 50,000 of them, which a repository may hold, would take a processor 15 s."""


class GgufFile(NamedTuple):
    """One model: its label, its file with all parts, and their bytes (None if the Hub does not tell)."""

    label: str
    files: tuple[str, ...]
    total_bytes: int | None


def list_gguf(files: Mapping[str, int | None]) -> tuple[GgufFile, ...]:
    """The models among the files of a repository, the smallest first; incomplete sets of parts are left out."""
    models: dict[str, list[str]] = {}
    for name in sorted(files):
        if name.lower().endswith(".gguf") and not any(word in name.lower() for word in _NOT_MODELS):
            part = PART.search(name)
            models.setdefault(PART.sub(f"-of-{part[2]}", name) if part else name, []).append(name)
    whole = {name: parts for name, parts in models.items() if len(parts) == _part_count(parts[0])}
    labels = {name: _type_of(name) for name in whole}
    often = Counter(labels.values())
    listed = [
        GgufFile(
            labels[name] if labels[name] and often[labels[name]] == 1 else parts[0],
            tuple(parts),
            None if any(files[part] is None for part in parts) else sum(files[part] or 0 for part in parts),
        )
        for name, parts in whole.items()
    ]
    return tuple(sorted(listed, key=lambda one: (one.total_bytes or 0, one.label)))


def _part_count(name: str) -> int:
    part = PART.search(name)
    return int(part[2]) if part else 1


def _type_of(name: str) -> str:
    """The quantization in a file's name, or in that of its folder; the last one, for a model may be called so too."""
    for text in (PART.sub("", name.rpartition("/")[2]).removesuffix(".gguf").removesuffix(".GGUF"), name.rpartition("/")[0]):
        if types := _TYPE.findall(text):
            return str(types[-1]).upper()
    return ""


def choose_gguf(files: Mapping[str, int | None], label: str = "") -> tuple[str, ...]:
    """The files of the model that a label or a file's name means, all parts; "" is llama.cpp's own choice, empty if there is none.

    Raises:
        UnknownModel: the repository has no such file, or several are meant.
    """
    models = list_gguf(files)
    if not label:
        default = next((one for one in models if _type_of(one.files[0]) == _DEFAULT), None)
        first = default or min(models, key=lambda one: one.files, default=None)
        return first.files if first else ()
    folded = label.casefold()
    for names in (_exact_names, _loose_names):
        meant = [one for one in models if folded in names(one)]
        if len(meant) == 1:
            return meant[0].files
        if meant:
            raise UnknownModel(
                f"{quote_value(label)} means {len(meant)} GGUF files of this repository. Name one of them in full: {_words(meant)}."
            )
    if not models:
        raise UnknownModel(f"The repository holds no GGUF files, so none is called {quote_value(label)}. Name the repository alone.")
    near = difflib.get_close_matches(folded, [one.label.casefold() for one in models[:_COMPARED]], n=3, cutoff=0.6)
    nearest = [one for one in models if one.label.casefold() in near]
    hint = f"The nearest: {_words(nearest)}. " if nearest and len(models) > len(nearest) else ""
    raise UnknownModel(f"The repository holds no GGUF file {quote_value(label)}. {hint}It holds: {_words(models)}.")


def _exact_names(one: GgufFile) -> set[str]:
    names = {one.label, *one.files, *(name.rpartition("/")[2] for name in one.files), PART.sub("", one.files[0])}
    names |= {name.removesuffix(".gguf") for name in names}
    return {name.casefold() for name in names}


def _loose_names(one: GgufFile) -> set[str]:
    return {_type_of(one.files[0]).casefold(), _type_of(one.files[0]).casefold().removeprefix("ud-")} - {""}


def _words(models: Sequence[GgufFile]) -> str:
    """Labels with sizes, some of them if there are many."""
    listed = [one.label if one.total_bytes is None else f"{one.label} ({one.total_bytes / 1e9:.1f} GB)" for one in models[:_MOST_LISTED]]
    more = len(models) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")
