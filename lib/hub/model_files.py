"""Reads a model on the Hub: its configuration and the headers of its weights. No weights are downloaded.

1. /api/models/{id}?blobs=true     commit, files and their sizes, card
2. config.json and the like, and the index of the weights                  together
3. all headers of the shards in one request, where the Hub gives them (the newest commit of the main branch)
   else the first bytes of every weight file (its header)                  together, 16 at a time

huggingface_hub 2.4 (`get_sharded_safetensors_metadata`) also requests all headers at once. If the Hub does not give them, the index names
the tensors of each shard. Their names give an estimate of the header's length, so one request per shard usually reads the whole header.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from lib.errors import HubError, RateLimited, UnsupportedModel, quote_value
from lib.hub import refusals, repository, weight_files
from lib.hub.client import Cache, Content, check_id, gather_results, open_hub, parse_aside, run_bounded, task_group
from lib.hub.repository import HubModel, Kind, Listing, StoredPart, Weights, WeightsChoice, parse_object
from lib.hub.weight_files import PART, Header, NeedMore, Tensor, header_length, list_gguf, parse_gguf, parse_safetensors
from lib.provenance import Caveat
from lib.units import KIB, MIB

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from lib.hub.client import Hub

SECONDS = 25.0
_MAX_COMPONENTS = 40
_MOST_NAMED = 4
_Key = tuple[str, str, str | None, str]
_cache: Cache[_Key, HubModel] = Cache(most=400_000, seconds=600, weight=lambda model: model.weight)
_refused: Cache[_Key, HubModel] = Cache(most=100_000, seconds=30, weight=lambda model: model.weight)
"""Repositories that could not be resolved, such as those with a broken config.json; kept for a short time, because their owners may fix
them."""


def read_model(
    repo_id: str, revision: str | None = None, token: str | None = None, *, file: str = "", endpoint: str | None = None
) -> HubModel:
    """Read a model's configuration and the headers of its weights from the Hub.

    Args:
        repo_id: owner/name.
        revision: a branch, a tag or a commit; None for the newest commit of the main branch.
        token: the visitor's own token; None reads anonymously, even if this server has a token.
        file: a GGUF file of the repository, by its quantization or its name; "" for the repository as such.
        endpoint: another Hub than the one huggingface_hub is set to.

    Raises:
        UnknownModel: the text cannot be an id, or the repository lacks the file.
        HubError: RepoNotFound, RepoGated, NotPermitted, RateLimited, HubUnreachable or HubGarbage.
    """
    hub, repo_id = open_hub(token, endpoint), check_id(repo_id, revision)
    key = (hub.endpoint, repo_id, revision, file.casefold())
    remembered = (_cache.find(key) or _refused.find(key)) if token is None else None
    if remembered is not None:
        return remembered
    try:
        model = run_bounded(lambda client: _read(client, hub, repo_id, revision, file), SECONDS)
    except TimeoutError as error:
        raise refusals.too_slow(repo_id, SECONDS) from error
    if token is None and not model.private:
        _cache.keep(key, model)
    return model


def forget_soon(model: HubModel) -> None:
    """Keep a repository that could not be resolved for 30 s only, then read it again."""
    key = _cache.drop(model)
    if key is not None:
        _refused.keep(key, model)


def clear_cache() -> None:
    """Empty the caches."""
    _cache.clear()
    _refused.clear()


async def _read(client: AsyncClient, hub: Hub, repo_id: str, revision: str | None, file: str) -> HubModel:
    described = await hub.fetch(client, hub.model_url(repo_id, revision), what=repo_id, limit=repository.MAX_LISTING_BYTES)
    listing = await parse_aside(len(described.body), repository.read_listing, described.body, repo_id)
    source, kind = RepositoryReader(client, hub, listing, newest=revision is None), "gguf" if file else repository.kind_of(listing.files)
    nested = repository.nested_pipelines(listing.files)
    if kind in {"none", "weights"} and len(nested) > 1:
        named = ", ".join(quote_value(folder) for folder in nested[:_MOST_NAMED]) + (" and others" if len(nested) > _MOST_NAMED else "")
        raise UnsupportedModel(
            f"{quote_value(listing.id)} holds {len(nested)} pipelines, in the folders {named}. Accepted: a repository with one "
            "pipeline, whose model_index.json is not in a folder. Copy the folder that you mean into a repository of its own."
        )
    names = [name for name in repository.DOCUMENTS if name in listing.files]
    if kind in ("diffusers", "sentence-transformers"):
        documents = await _documents(source, names)
        parts, reads = await _parts(source, kind, documents)
    else:
        choice = repository.choose_weights(listing.files, "", kind, file)
        async with task_group() as group:
            texts, weights = group.create_task(_documents(source, names)), group.create_task(read_weights(source, choice))
        documents, read = texts.result(), weights.result()
        reads, parts = [read], [StoredPart(folder="", weights=read.weights, config_text=documents.get("config.json"))]
    return _model(listing, kind, documents, parts, reads, file)


async def _documents(source: RepositoryReader, names: list[str]) -> dict[str, str]:
    """Small files as text."""
    texts: dict[str, str] = {}
    for name, body in zip(names, await gather_results(*(source.document(name) for name in names)), strict=True):
        try:
            texts[name] = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise refusals.garbage(source.listing.id, f"{name} is not text") from error
    return texts


async def _parts(source: RepositoryReader, kind: Kind, documents: dict[str, str]) -> tuple[list[StoredPart], list[WeightsReading]]:
    """The components that model_index.json or modules.json names, each with its own folder, configuration and weights."""
    files = source.listing.files
    classes = _pipeline(source, documents) if kind == "diffusers" else _modules(source, documents)
    present = set(repository.present_folders(files, classes))
    chosen = [(folder, repository.choose_weights(files, folder, kind)) for folder in classes if folder in present]
    chosen = [(folder, choice) for folder, choice in chosen if choice.format != "none"]
    configs = [f"{folder}/config.json" if folder else "config.json" for folder, _ in chosen]
    texts = await _documents(source, [name for name in configs if name in files])
    reads = await gather_results(*(read_weights(source, choice) for _, choice in chosen))
    parts = [
        StoredPart(
            folder=folder,
            weights=read.weights,
            config_text=texts.get(config),
            class_name=classes[folder],
        )
        for (folder, _), config, read in zip(chosen, configs, reads, strict=True)
    ]
    return parts, reads


def _pipeline(source: RepositoryReader, documents: dict[str, str]) -> dict[str, str]:
    """Folder → class from model_index.json; a component that is switched off is [null, null]."""
    data = parse_object(documents["model_index.json"].encode(), source.listing.id, "model_index.json", MAX_DOCUMENT_NODES)
    classes: dict[str, str] = {}
    for name, value in data.items():
        match value:
            case [str(), str(class_name)] if len(classes) < _MAX_COMPONENTS:
                classes[name] = class_name
    return classes


def _modules(source: RepositoryReader, documents: dict[str, str]) -> dict[str, str]:
    """Folder → class from modules.json."""
    data = repository.parse_json(documents["modules.json"].encode(), source.listing.id, "modules.json", MAX_DOCUMENT_NODES)
    classes: dict[str, str] = {}
    for value in data if isinstance(data, list) else ():
        match value:
            case {"path": str(path), "type": str(kind)} if len(classes) < _MAX_COMPONENTS:
                classes[path] = kind.rpartition(".")[2]
    if not classes:
        raise refusals.garbage(source.listing.id, "modules.json names no modules")
    return classes


def _model(
    listing: Listing, kind: Kind, documents: dict[str, str], parts: list[StoredPart], reads: list[WeightsReading], file: str
) -> HubModel:
    caveats = list(dict.fromkeys(caveat for read in reads for caveat in read.caveats))
    if not any(part.weights.files for part in parts):
        caveats.append(Caveat("no_weights", {"model": quote_value(listing.id)}))
    used = tuple(name for part in parts for name in part.weights.files)
    gguf = next((read.gguf for read in reads if read.gguf), {})
    described: dict[str, Any] = {one.name: getattr(listing, one.name) for one in fields(listing)}
    return HubModel(
        **described | {"base_model": _base_model(listing, documents)},
        kind=kind,
        components=tuple(parts),
        documents=documents,
        other_weights=repository.group_other_weights(listing.files, used),
        gguf=gguf,
        caveats=tuple(caveats),
        file=next((one.label for one in list_gguf(listing.files) if file and one.files == used), ""),
    )


def _base_model(listing: Listing, documents: dict[str, str]) -> str | None:
    """The base model of an adapter, from its adapter_config.json or else a tag of its card."""
    if "adapter_config.json" not in documents:
        return listing.base_model
    adapter = parse_object(documents["adapter_config.json"].encode(), listing.id, "adapter_config.json", MAX_DOCUMENT_NODES)
    base = adapter.get("base_model_name_or_path")
    usable = isinstance(base, str) and 0 < len(base) <= 200 and base.isprintable()  # noqa: PLR2004 - longest owner/name is 193
    return base if usable else listing.base_model


MAX_SHARDS = 1000
MAX_INDEX_BYTES = 24 * MIB  # DeepSeek-V3 names 91,991 tensors in 8.9 MB
_MAX_INDEX_NODES = 400_000  # two for each tensor
MAX_DOCUMENT_BYTES = 4 * MIB
MAX_DOCUMENT_NODES = 100_000
_MAX_HEADERS_BYTES = 128 * MIB  # of all files of one model together
_MAX_TOGETHER_NODES = 4_000_000  # twelve for each tensor; DeepSeek-V3 has 91,991
_AT_ONCE = 16
_FIRST_BYTES = 256 * KIB  # a header of a file without an index; 97 % are shorter than 100 kB
_ENTRY_BYTES = 120  # of one tensor beside its name: {"dtype":"F8_E4M3","shape":[…],"data_offsets":[…,…]}
_SLACK_BYTES = 4096
_GGUF_FIRST_BYTES = MIB


class RepositoryReader:
    """One model at one commit, read by one caller; counts what it has read."""

    def __init__(self, client: AsyncClient, hub: Hub, listing: Listing, *, newest: bool = False) -> None:
        """`newest`: the listing is that of the newest commit of the main branch."""
        self.client, self.hub, self.listing, self.newest = client, hub, listing, newest
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._left = _MAX_HEADERS_BYTES

    async def document(self, file: str, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
        """A small file, whole."""
        async with self._slots:
            return (await self.hub.fetch(self.client, self._url(file), what=self.listing.id, limit=limit)).body

    async def part(self, file: str, start: int, stop: int) -> Content:
        """Bytes `start` to `stop` of a file, fewer where it ends."""
        self._left -= stop - start
        if self._left < 0:
            raise refusals.garbage(self.listing.id, f"its headers are longer than {_MAX_HEADERS_BYTES:,} bytes together")
        async with self._slots:
            return await self.hub.fetch(self.client, self._url(file), what=self.listing.id, limit=stop, span=(start, stop))

    def _url(self, file: str) -> str:
        return self.hub.file_url(self.listing.id, file, self.listing.revision)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsReading:
    """The weights of a component, their caveats, and a GGUF file's keys."""

    weights: Weights
    caveats: tuple[Caveat, ...] = ()
    gguf: Mapping[str, weight_files.Value] | None = None


async def read_weights(source: RepositoryReader, choice: WeightsChoice) -> WeightsReading:
    """Read the headers of the chosen copy, never the weights themselves. A copy that is not the usual one has a caveat."""
    reading = await _read_copy(source, choice)
    return replace(reading, caveats=(*reading.caveats, Caveat(f"weights_{choice.why}"))) if choice.why else reading


async def _read_copy(source: RepositoryReader, choice: WeightsChoice) -> WeightsReading:
    if choice.index and choice.format == "safetensors" and source.newest:
        together = await _together(source, choice.index)
        if together is not None:
            return together
    index = await _index(source, choice.index) if choice.index else None
    files = tuple(index.files) if index else choice.files
    match choice.format:
        case "gguf":
            return await _gguf(source, files)
        case "safetensors":
            return await _safetensors(source, files, index)
        case "pickle":
            return _pickle(source, files, index)
    return WeightsReading(weights=Weights(format="none", files=(), total_bytes=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """An index: the estimated header length of each file, the names of all tensors, and the stated total."""

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
    return _Index(files=files, names=frozenset(table), total_bytes=_stated_total(data))


def _stated_total(index: Any) -> int | None:
    """Bytes of all tensors as an index states them."""
    metadata = index.get("metadata") if isinstance(index, dict) else None
    stated = metadata.get("total_size") if isinstance(metadata, dict) else None
    return int(stated) if isinstance(stated, int | float) and 0 <= stated < 2**60 else None


async def _together(source: RepositoryReader, index: str) -> WeightsReading | None:
    """All headers of a sharded copy in one request; None if the Hub does not give them, or those of other files."""
    url, files = source.hub.headers_url(source.listing.id, index), source.listing.files
    try:
        body = (await source.hub.fetch(source.client, url, what=source.listing.id, limit=_MAX_HEADERS_BYTES)).body
        return await parse_aside(len(body), _parse_together, body, source.listing.id, index.rpartition("/")[0], files)
    except RateLimited:
        raise  # a request per shard would not help
    except HubError:
        return None


def _parse_together(body: bytes, what: str, folder: str, file_sizes: Mapping[str, int | None]) -> WeightsReading:
    """Headers of several files, each checked as if it had come from its file."""
    content = parse_object(body, what, "the answer with all headers", _MAX_TOGETHER_NODES)
    stated, at = content.get("headers"), f"{folder}/" if folder else ""
    if not isinstance(stated, dict) or not 0 < len(stated) <= MAX_SHARDS or not all(f"{at}{name}" in file_sizes for name in stated):
        raise refusals.garbage(what, "the answer with all headers does not name the files of the model")
    if {int(part[2]) if (part := PART.search(name)) else 0 for name in stated} != {len(stated)}:
        raise refusals.garbage(what, f"the answer with all headers names {len(stated):,} files, which are not all parts")
    headers = {f"{at}{name}": parse_safetensors(json.dumps(stated[name]).encode(), f"{at}{name}", None) for name in sorted(stated)}
    for name, header in headers.items():
        if header.data_bytes > (file_sizes[name] or header.data_bytes):
            raise refusals.garbage(what, f"the header of {quote_value(name)} describes more than the file holds")
    return _combine(tuple(headers), tuple(headers.values()), None, _stated_total(content.get("index")))


async def _safetensors(source: RepositoryReader, files: tuple[str, ...], index: _Index | None) -> WeightsReading:
    async with task_group() as group:
        tasks = [group.create_task(_header(source, file, index.files[file] if index else _FIRST_BYTES)) for file in files]
        headers = []
        for file, task in zip(files, tasks, strict=True):
            text, data_bytes = await task
            headers.append(await parse_aside(len(text), parse_safetensors, text, file, data_bytes))
    return _combine(files, headers, index.names if index else None, index.total_bytes if index else None)


def _combine(files: tuple[str, ...], headers: Sequence[Header], names: frozenset[str] | None, total_bytes: int | None) -> WeightsReading:
    """The weights of several safetensors files, and their difference from the index (None: not stated)."""
    weights = _add_up("safetensors", files, headers)
    caveats = []
    if twice := sum(len(header.tensors) for header in headers) - len(weights.tensors):
        caveats.append(Caveat("tensors_stored_twice", {"tensors": twice}))
    if names is not None and (missing := len(names - weights.tensors.keys())):
        caveats.append(Caveat("tensors_missing", {"tensors": missing}))
    if total_bytes is not None and total_bytes != weights.total_bytes:
        caveats.append(Caveat("index_total_differs", {"index_bytes": total_bytes, "file_bytes": weights.total_bytes}))
    return WeightsReading(weights=weights, caveats=tuple(caveats))


def _add_up(kind: repository.Format, files: tuple[str, ...], headers: Sequence[Header]) -> Weights:
    tensors: dict[str, Tensor] = {}
    sizes: Counter[str] = Counter()
    for header in headers:
        tensors |= header.tensors
        sizes.update(header.bytes_by_dtype)
    return Weights(
        format=kind,
        files=files,
        total_bytes=sizes.total(),
        tensors=tensors,
        bytes_by_dtype=dict(sizes),
    )


async def _header(source: RepositoryReader, file: str, foreseen: int) -> tuple[bytes, int | None]:
    """The JSON of one file's header and the length of the data behind it."""
    first = await source.part(file, 0, foreseen)
    size = first.file_bytes if first.file_bytes is not None else source.listing.files[file]
    length = header_length(first.body, file, size)
    text = first.body[weight_files.PREFIX_BYTES : weight_files.PREFIX_BYTES + length]
    if len(text) < length:
        text += (await source.part(file, weight_files.PREFIX_BYTES + len(text), weight_files.PREFIX_BYTES + length)).body
    if len(text) < length:
        raise refusals.garbage(source.listing.id, f"the file {quote_value(file)} ends inside its header")
    return text, None if size is None else size - weight_files.PREFIX_BYTES - length


def _pickle(source: RepositoryReader, files: tuple[str, ...], index: _Index | None) -> WeightsReading:
    """Sizes only: opening a pickle would run its code."""
    sizes = [source.listing.files.get(file) for file in files]
    total = index.total_bytes if index else None
    if total is None and None in sizes:
        raise refusals.garbage(source.listing.id, "it tells no sizes for its files")
    total = sum(size or 0 for size in sizes) if total is None else total
    weights = Weights(format="pickle", files=files, total_bytes=total)
    return WeightsReading(weights=weights, caveats=(Caveat("pickle_not_opened", {"total_bytes": total}),))


async def _gguf(source: RepositoryReader, files: tuple[str, ...]) -> WeightsReading:
    if len(files) > MAX_SHARDS:
        raise refusals.garbage(source.listing.id, f"a GGUF file has {len(files):,} parts; at most {MAX_SHARDS:,} are read")
    headers = await gather_results(*(_gguf_header(source, file, first=at == 0) for at, file in enumerate(files)))
    earlier: set[str] = set()
    for header, file in zip(headers, files, strict=True):
        twice = next((name for name in header.tensors if name in earlier), None)
        if twice is not None:
            raise refusals.garbage(source.listing.id, f"the file {quote_value(file)} repeats {quote_value(twice)} of an earlier part")
        earlier |= header.tensors.keys()
    return WeightsReading(weights=_add_up("gguf", files, headers), gguf=headers[0].keys)


async def _gguf_header(source: RepositoryReader, file: str, *, first: bool) -> Header:
    """Read the start of the file, then growing pieces, until the header is complete (that of the first part contains a vocabulary)."""
    data, ahead = b"", _GGUF_FIRST_BYTES if first else _FIRST_BYTES
    while True:
        answer = await source.part(file, len(data), len(data) + ahead)
        data += answer.body
        try:
            header = await parse_aside(len(data), parse_gguf, data, file)
        except NeedMore:
            if len(answer.body) < ahead or len(data) > weight_files.MAX_GGUF_BYTES:
                raise refusals.garbage(source.listing.id, f"the file {quote_value(file)} ends inside its header") from None
            ahead = 4 * ahead
            continue
        size = answer.file_bytes if answer.file_bytes is not None else source.listing.files[file]
        if size is not None and header.data_bytes > size:
            fault = f"the file {quote_value(file)} has {size:,} bytes and its header describes {header.data_bytes:,} of tensors"
            raise refusals.garbage(source.listing.id, fault)
        return header
