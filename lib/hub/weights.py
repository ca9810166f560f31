"""Reads the headers of the weights of one component, with as few requests as the format allows.

The Hub answers with all shard headers of a copy at once, for the newest commit of the main branch (`get_sharded_safetensors_metadata` of
huggingface_hub 2.4 asks the same). Where it does not, an index names the shards and the tensors in each: from the tensors' names the length
of a shard's header can be foreseen, so one request per shard brings the whole header; only a longer one takes a second.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lib.errors import HubError, RateLimited, quote_value
from lib.hub import refusals
from lib.hub.client import Answer, Hub, gather_results, parse_aside, task_group
from lib.hub.gguf_files import PART
from lib.hub.gguf_header import MAX_HEADER_BYTES as MAX_GGUF_BYTES
from lib.hub.gguf_header import GgufHeader, NeedMore, Value, parse_gguf
from lib.hub.repository import Listing, Tensor, Weights, WeightsChoice, parse_object
from lib.hub.safetensors_header import PREFIX_BYTES, Header, header_length, parse_header
from lib.provenance import Caveat

if TYPE_CHECKING:
    from httpx2 import AsyncClient

MAX_SHARDS = 1000
MAX_INDEX_BYTES = 24 * 2**20  # DeepSeek-V3 names 91,991 tensors in 8.9 MB
_MAX_INDEX_NODES = 400_000  # two for each tensor
MAX_DOCUMENT_BYTES = 4 * 2**20
MAX_DOCUMENT_NODES = 100_000
_MAX_HEADERS_BYTES = 128 * 2**20  # of all files of one model together
_MAX_TOGETHER_NODES = 4_000_000  # twelve for each tensor; DeepSeek-V3 has 91,991
_AT_ONCE = 16
_FIRST_BYTES = 256 * 2**10  # a header of a file without an index; 97 % are shorter than 100 kB
_ENTRY_BYTES = 120  # of one tensor beside its name: {"dtype":"F8_E4M3","shape":[…],"data_offsets":[…,…]}
_SLACK_BYTES = 4096
_GGUF_FIRST_BYTES = 2**20


class RepositoryReader:
    """One model at one commit, read by one caller; counts what it has read."""

    def __init__(self, client: AsyncClient, hub: Hub, listing: Listing, *, newest: bool = False) -> None:
        """`newest` where the listing is that of the main branch as it is now."""
        self.client, self.hub, self.listing, self.newest = client, hub, listing, newest
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._left = _MAX_HEADERS_BYTES

    async def document(self, file: str, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
        """A small file, whole."""
        async with self._slots:
            return (await self.hub.fetch(self.client, self._url(file), what=self.listing.id, limit=limit)).body

    async def part(self, file: str, start: int, stop: int) -> Answer:
        """Bytes `start` to `stop` of a file, fewer where it ends."""
        self._left -= stop - start
        if self._left < 0:
            raise refusals.garbage(self.listing.id, f"its headers are longer than {_MAX_HEADERS_BYTES:,} bytes together")
        async with self._slots:
            return await self.hub.fetch(self.client, self._url(file), what=self.listing.id, limit=stop, span=(start, stop))

    def _url(self, file: str) -> str:
        return self.hub.file_url(self.listing.id, file, self.listing.sha)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsReading:
    """The weights of a component, what has to be told about them, and a GGUF file's keys."""

    weights: Weights
    caveats: tuple[Caveat, ...] = ()
    gguf: Mapping[str, Value] | None = None


async def read_weights(source: RepositoryReader, choice: WeightsChoice) -> WeightsReading:
    """Read what the headers of the chosen copy say; never the weights themselves."""
    if choice.index and choice.format == "safetensors" and source.newest:
        together = await _together(source, choice.index)
        if together is not None:
            return together
    index = await _index(source, choice.index) if choice.index else None
    files = tuple(index.files) if index else choice.files
    if choice.format == "gguf":
        return await _gguf(source, files)
    if choice.format == "safetensors":
        return await _safetensors(source, files, index)
    if choice.format == "pickle":
        return _pickle(source, files, index)
    return WeightsReading(weights=Weights(format="none", files=(), total_bytes=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """An index: for each file the foreseen bytes of its header; the names of all tensors; the total it states."""

    files: dict[str, int]
    names: frozenset[str]
    total_bytes: int | None


async def _index(source: RepositoryReader, file: str) -> _Index:
    text = await source.document(file, MAX_INDEX_BYTES)
    data = await parse_aside(len(text), parse_object, text, source.listing.id, f"the index {quote_value(file)}", _MAX_INDEX_NODES)
    table, folder = data.get("weight_map"), file.rpartition("/")[0]
    if not isinstance(table, dict) or not all(isinstance(part, str) for part in table.values()):
        raise refusals.garbage(source.listing.id, f"the index {quote_value(file)} maps no tensors to files")
    at = f"{folder}/" if folder else ""
    sizes: Counter[str] = Counter()
    for name, part in table.items():
        sizes[part] += len(name) + _ENTRY_BYTES
    files = {f"{at}{part}": size + _SLACK_BYTES for part, size in sorted(sizes.items())}
    missing = next((part for part in files if part not in source.listing.files), None)
    if len(files) > MAX_SHARDS:
        raise refusals.garbage(source.listing.id, f"the index names {len(files):,} files; at most {MAX_SHARDS:,} are read")
    if missing is not None or not files:
        raise refusals.garbage(
            source.listing.id, f"the index {quote_value(file)} names {quote_value(missing or 'no file')}, which the model does not hold"
        )
    stated = (data.get("metadata") or {}).get("total_size") if isinstance(data.get("metadata"), dict) else None
    total = int(stated) if isinstance(stated, int | float) and 0 <= stated < 2**60 else None
    return _Index(files=files, names=frozenset(table), total_bytes=total)


async def _together(source: RepositoryReader, index: str) -> WeightsReading | None:
    """All headers of a sharded copy in one request; None where the Hub does not give them, or gives those of other files than are listed.

    Raises:
        RateLimited: the Hub asks to wait, which a request per shard would not help.
    """
    url, files = source.hub.headers_url(source.listing.id, index), source.listing.files
    try:
        body = (await source.hub.fetch(source.client, url, what=source.listing.id, limit=_MAX_HEADERS_BYTES)).body
        return await parse_aside(len(body), _parse_together, body, source.listing.id, index.rpartition("/")[0], files)
    except RateLimited:
        raise
    except HubError:
        return None


def _parse_together(body: bytes, what: str, folder: str, file_sizes: Mapping[str, int | None]) -> WeightsReading:
    """Headers of several files, each checked as if it had come from its file.

    Raises:
        HubGarbage: they are none, or describe files that are not listed or are smaller.
    """
    content = parse_object(body, what, "the answer with all headers", _MAX_TOGETHER_NODES)
    found = content.get("headers")
    at = f"{folder}/" if folder else ""
    if not isinstance(found, dict) or not 0 < len(found) <= MAX_SHARDS or not all(f"{at}{name}" in file_sizes for name in found):
        raise refusals.garbage(what, "the answer with all headers does not name the files of the model")
    stated_parts = {int(part[2]) if (part := PART.search(name)) else 0 for name in found}
    if stated_parts != {len(found)}:
        raise refusals.garbage(what, f"the answer with all headers names {len(found):,} files, which are not all parts")
    headers = {f"{at}{name}": parse_header(json.dumps(found[name]).encode(), f"{at}{name}", None) for name in sorted(found)}
    for name, header in headers.items():
        if header.data_bytes > (file_sizes[name] or header.data_bytes):
            raise refusals.garbage(what, f"the header of {quote_value(name)} describes more than the file holds")
    named = content.get("index")
    stated = (
        (named.get("metadata") or {}).get("total_size") if isinstance(named, dict) and isinstance(named.get("metadata"), dict) else None
    )
    reading = _combine(tuple(headers), tuple(headers.values()))
    total = int(stated) if isinstance(stated, int | float) and 0 <= stated < 2**60 else None
    if total is None or total == reading.weights.total_bytes:
        return reading
    differs = Caveat("index_total_differs", {"index_bytes": total, "file_bytes": reading.weights.total_bytes})
    return WeightsReading(weights=reading.weights, caveats=(*reading.caveats, differs))


async def _safetensors(source: RepositoryReader, files: tuple[str, ...], index: _Index | None) -> WeightsReading:
    async with task_group() as group:
        tasks = [group.create_task(_header(source, file, index.files[file] if index else _FIRST_BYTES)) for file in files]
        headers = []
        for file, task in zip(files, tasks, strict=True):
            text, data_bytes = await task
            headers.append(await parse_aside(len(text), parse_header, text, file, data_bytes))
    reading = _combine(files, headers)
    return WeightsReading(weights=reading.weights, caveats=(*reading.caveats, *_compare_with_index(reading.weights, index)))


def _combine(files: tuple[str, ...], headers: Sequence[Header]) -> WeightsReading:
    """The weights of several files; tensors that lie in more than one are told."""
    tensors: dict[str, Tensor] = {}
    sizes: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    twice = 0
    for header in headers:
        twice += len(tensors.keys() & header.tensors.keys())
        tensors |= header.tensors
        sizes.update(header.bytes_by_dtype)
        elements.update(header.elements_by_dtype)
    weights = Weights(
        format="safetensors",
        files=files,
        total_bytes=sum(sizes.values()),
        tensors=tensors,
        bytes_by_dtype=dict(sizes),
        elements_by_dtype=dict(elements),
    )
    return WeightsReading(weights=weights, caveats=(Caveat("tensors_stored_twice", {"tensors": twice}),) if twice else ())


async def _header(source: RepositoryReader, file: str, foreseen: int) -> tuple[bytes, int | None]:
    """The JSON of one file's header and the length of the data behind it."""
    first = await source.part(file, 0, foreseen)
    size = first.file_bytes if first.file_bytes is not None else source.listing.files[file]
    length = header_length(first.body, file, size)
    text = first.body[PREFIX_BYTES : PREFIX_BYTES + length]
    if len(text) < length:
        text += (await source.part(file, PREFIX_BYTES + len(text), PREFIX_BYTES + length)).body
    if len(text) < length:
        raise refusals.garbage(source.listing.id, f"the file {quote_value(file)} ends inside its header")
    return text, None if size is None else size - PREFIX_BYTES - length


def _compare_with_index(weights: Weights, index: _Index | None) -> tuple[Caveat, ...]:
    """The differences between index and headers."""
    caveats: list[Caveat] = []
    if index is None:
        return tuple(caveats)
    if index.names - weights.tensors.keys():
        count = len(index.names - weights.tensors.keys())
        caveats.append(Caveat("tensors_missing", {"tensors": count}))
    if index.total_bytes is not None and index.total_bytes != weights.total_bytes:
        caveats.append(Caveat("index_total_differs", {"index_bytes": index.total_bytes, "file_bytes": weights.total_bytes}))
    return tuple(caveats)


def _pickle(source: RepositoryReader, files: tuple[str, ...], index: _Index | None) -> WeightsReading:
    """Sizes only: a pickle runs code when it is opened, so it is not."""
    known = [source.listing.files.get(file) for file in files]
    stated = index.total_bytes if index else None
    total = stated if stated is not None else sum(size or 0 for size in known)
    caveat = Caveat("pickle_not_opened", {"total_bytes": total})
    if stated is None and None in known:
        raise refusals.garbage(source.listing.id, "it tells no sizes for its files")
    return WeightsReading(weights=Weights(format="pickle", files=files, total_bytes=total), caveats=(caveat,))


async def _gguf(source: RepositoryReader, files: tuple[str, ...]) -> WeightsReading:
    if len(files) > MAX_SHARDS:
        raise refusals.garbage(source.listing.id, f"a GGUF file has {len(files):,} parts; at most {MAX_SHARDS:,} are read")
    headers = await gather_results(*(_gguf_header(source, file, first=at == 0) for at, file in enumerate(files)))
    tensors: dict[str, Tensor] = {}
    sizes: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    for header, file in zip(headers, files, strict=True):
        twice = next((name for name in header.tensors if name in tensors), None)
        if twice is not None:
            raise refusals.garbage(source.listing.id, f"the file {quote_value(file)} repeats {quote_value(twice)} of an earlier part")
        tensors |= header.tensors
        sizes.update(header.bytes_by_dtype)
        elements.update(header.elements_by_dtype)
    weights = Weights(
        format="gguf",
        files=files,
        total_bytes=sum(sizes.values()),
        tensors=tensors,
        bytes_by_dtype=dict(sizes),
        elements_by_dtype=dict(elements),
    )
    return WeightsReading(weights=weights, gguf=headers[0].keys)


async def _gguf_header(source: RepositoryReader, file: str, *, first: bool) -> GgufHeader:
    """Ask for the start of the file, then for ever larger pieces, until the header is whole (the first holds a vocabulary)."""
    data, ahead = b"", _GGUF_FIRST_BYTES if first else _FIRST_BYTES
    while True:
        answer = await source.part(file, len(data), len(data) + ahead)
        data += answer.body
        try:
            header = await parse_aside(len(data), parse_gguf, data, file)
        except NeedMore:
            if len(answer.body) < ahead or len(data) > MAX_GGUF_BYTES:
                raise refusals.garbage(source.listing.id, f"the file {quote_value(file)} ends inside its header") from None
            ahead = 4 * ahead
            continue
        size = answer.file_bytes if answer.file_bytes is not None else source.listing.files[file]
        described = sum(header.bytes_by_dtype.values())
        if size is not None and described > size:
            fault = f"the file {quote_value(file)} has {size:,} bytes and its header describes {described:,} of tensors"
            raise refusals.garbage(source.listing.id, fault)
        return header
