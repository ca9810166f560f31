"""A model on the Hub as a value: its configuration and what the headers of its weights say. No weights are downloaded.

1. /api/models/{id}?blobs=true     commit, files and their sizes, card
2. config.json and the like, and the index of the weights                  together
3. all headers of the shards in one request, where the Hub gives them (the newest commit of the main branch)
   else the first bytes of every weight file (its header)                  together, 16 at a time
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lib.errors import quote_value
from lib.hub import refusals, repository
from lib.hub.client import Cache, check_id, gather_results, open_hub, parse_aside, run_bounded, task_group
from lib.hub.gguf_files import list_gguf
from lib.hub.repository import MAX_LISTING_BYTES, Component, HubModel, Kind, Listing, parse_json, parse_object, read_listing
from lib.hub.weights import MAX_DOCUMENT_NODES, RepositoryReader, WeightsReading, read_weights
from lib.provenance import Caveat

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from lib.hub.client import Hub

SECONDS = 25.0
_MAX_COMPONENTS = 40
_cache: Cache[tuple[str, str, str | None, str], HubModel] = Cache(most=400_000, seconds=600, weight=lambda model: model.weight)


def read_model(
    repo_id: str, revision: str | None = None, token: str | None = None, *, file: str = "", endpoint: str | None = None
) -> HubModel:
    """Read a model's configuration and the headers of its weights from the Hub.

    Args:
        repo_id: owner/name.
        revision: a branch, a tag or a commit; None for the newest commit of the main branch.
        token: the visitor's own token; None reads as a stranger, whatever token this server has.
        file: a GGUF file of the repository, by its quantization or its name; "" for the repository as such.
        endpoint: another Hub than the one huggingface_hub is set to.

    Raises:
        UnknownModel: the text cannot be an id, or the repository lacks the file.
        HubError: RepoNotFound, RepoGated, NotPermitted, RateLimited, HubUnreachable or HubGarbage.
    """
    hub, repo_id = open_hub(token, endpoint), check_id(repo_id, revision)
    key = (hub.endpoint, repo_id, revision, file.casefold())
    remembered = _cache.find(key) if token is None else None
    if remembered is not None:
        return remembered
    try:
        model = run_bounded(lambda client: _read(client, hub, repo_id, revision, file), SECONDS)
    except TimeoutError as error:
        raise refusals.too_slow(repo_id, SECONDS) from error
    if token is None and not model.private:
        _cache.keep(key, model)
    return model


def clear_cache() -> None:
    """Empty the cache."""
    _cache.clear()


async def _read(client: AsyncClient, hub: Hub, repo_id: str, revision: str | None, file: str) -> HubModel:
    described = await hub.fetch(client, hub.model_url(repo_id, revision), what=repo_id, limit=MAX_LISTING_BYTES)
    listing = await parse_aside(len(described.body), read_listing, described.body, repo_id)
    source, kind = RepositoryReader(client, hub, listing, newest=revision is None), "gguf" if file else repository.kind_of(listing.files)
    names = [name for name in repository.DOCUMENTS if name in listing.files]
    if kind in ("diffusers", "sentence-transformers"):
        documents = await _documents(source, names)
        parts, reads = await _parts(source, kind, documents)
    else:
        choice = repository.choose_weights(listing.files, "", kind, file)
        async with task_group() as group:
            texts, weights = group.create_task(_documents(source, names)), group.create_task(read_weights(source, choice))
        documents, read = texts.result(), weights.result()
        reads, parts = [_with_caveat(read, choice)], [Component(folder="", weights=read.weights, config_text=documents.get("config.json"))]
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


async def _parts(source: RepositoryReader, kind: Kind, documents: dict[str, str]) -> tuple[list[Component], list[WeightsReading]]:
    """The components that model_index.json or modules.json names, each with its own folder, configuration and weights."""
    files = source.listing.files
    classes = _pipeline(source, documents) if kind == "diffusers" else _modules(source, documents)
    present = set(repository.present_folders(files, classes))
    chosen = [(folder, repository.choose_weights(files, folder, kind)) for folder in classes if folder in present]
    chosen = [(folder, choice) for folder, choice in chosen if choice.format != "none"]
    configs = [f"{folder}/config.json" if folder else "config.json" for folder, _ in chosen]
    texts = await _documents(source, [name for name in configs if name in files])
    reads = await gather_results(*(read_weights(source, choice) for _, choice in chosen))
    components = [_with_caveat(read, choice) for read, (_, choice) in zip(reads, chosen, strict=True)]
    parts = [
        Component(
            folder=folder,
            weights=read.weights,
            config_text=texts.get(config),
            library=classes[folder][0],
            class_name=classes[folder][1],
        )
        for (folder, _), config, read in zip(chosen, configs, reads, strict=True)
    ]
    return parts, components


def _pipeline(source: RepositoryReader, documents: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Folder → (library, class) from model_index.json; a component that is switched off is [null, null]."""
    data = parse_object(documents["model_index.json"].encode(), source.listing.id, "model_index.json", MAX_DOCUMENT_NODES)
    classes: dict[str, tuple[str, str]] = {}
    for name, value in data.items():
        match value:
            case [str(library), str(class_name)] if len(classes) < _MAX_COMPONENTS:
                classes[name] = (library, class_name)
    return classes


def _modules(source: RepositoryReader, documents: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Folder → (library, class) from modules.json."""
    data = parse_json(documents["modules.json"].encode(), source.listing.id, "modules.json", MAX_DOCUMENT_NODES)
    classes: dict[str, tuple[str, str]] = {}
    for value in data if isinstance(data, list) else ():
        match value:
            case {"path": str(path), "type": str(kind)} if len(classes) < _MAX_COMPONENTS:
                classes[path] = ("sentence-transformers", kind.rpartition(".")[2])
    if not classes:
        raise refusals.garbage(source.listing.id, "modules.json names no modules")
    return classes


def _with_caveat(read: WeightsReading, choice: repository.WeightsChoice) -> WeightsReading:
    """Add why this copy was read when it is not the usual one."""
    if not choice.why:
        return read
    return replace(read, caveats=(*read.caveats, Caveat(f"weights_{choice.why}")))


def _model(
    listing: Listing, kind: Kind, documents: dict[str, str], parts: list[Component], reads: list[WeightsReading], file: str
) -> HubModel:
    caveats = list(dict.fromkeys(caveat for read in reads for caveat in read.caveats))
    if not any(part.weights.files for part in parts):
        caveats.append(Caveat("no_weights", {"model": quote_value(listing.id)}))
    used = tuple(name for part in parts for name in part.weights.files)
    gguf = next((read.gguf for read in reads if read.gguf), {})
    return HubModel(
        id=listing.id,
        revision=listing.sha,
        kind=kind,
        components=tuple(parts),
        documents=documents,
        files=listing.files,
        other_weights=repository.group_other_weights(listing.files, used),
        pipeline_tag=listing.pipeline_tag,
        library_name=listing.library_name,
        tags=listing.tags,
        license=listing.license,
        gated=listing.gated,
        private=listing.private,
        base_model=_base_model(listing, documents),
        gguf=gguf,
        published_parameters=listing.published_parameters,
        caveats=tuple(caveats),
        file=next((one.label for one in list_gguf(listing.files) if file and one.files == used), ""),
    )


def _base_model(listing: Listing, documents: dict[str, str]) -> str | None:
    """What an adapter was trained on: its adapter_config.json says it, else a tag of its card."""
    if "adapter_config.json" not in documents:
        return listing.base_model
    adapter = parse_object(documents["adapter_config.json"].encode(), listing.id, "adapter_config.json", MAX_DOCUMENT_NODES)
    base = adapter.get("base_model_name_or_path")
    usable = isinstance(base, str) and 0 < len(base) <= 200 and base.isprintable()  # noqa: PLR2004 - longest owner/name is 193
    return base if usable else listing.base_model
