"""From what a caller named to a `ModelSpec`: counts and bundled models at once, configurations and the Hub by way of `SingleFlight`.

The kind of repository decides which part of the core reads it. Answers are remembered: configurations by their content,
repositories by their id for as long as the Hub's own answer is kept. A new configuration is built in a child process
(`lib.service.build_process`), which `warm_up` starts ahead of use: this process imports neither torch nor transformers to resolve a model.

A repository is read without a token first. If the Hub refuses that and the visitor gave a token (`lib.service.endpoint.reading_as`), it is
read again with that token. Its data are then cached for that token alone, under a keyed digest.
"""

from __future__ import annotations

import functools
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from lib.errors import (
    HubError,
    HubGarbage,
    HubUnreachable,
    InvalidInput,
    NotPermitted,
    RateLimited,
    RepoGated,
    RepoNotFound,
    UnknownModel,
    UnreadableJson,
    UnsupportedModel,
    quote_value,
    read_json,
)
from lib.hub.client import Cache
from lib.hub.model_files import MAX_DOCUMENT_NODES, forget_soon, read_model
from lib.hub.repository import HubModel
from lib.hub.weight_files import list_gguf
from lib.model import bundled
from lib.model.catalog_sizes import describe_size
from lib.model.checkpoint import reconcile
from lib.model.config import parse_config
from lib.model.diffusion import is_pipeline, resolve_pipeline
from lib.model.dry_run_figures import DryRun
from lib.model.file_header import is_timm, resolve_gguf, resolve_timm
from lib.model.plain_names import find_quantized, list_near, resolve_copy
from lib.model.resolve import execute, resolve_config, resolve_count
from lib.model.spec import ModelSpec, Origin, TensorGroup
from lib.provenance import Caveat, Source
from lib.request.words import note_reading
from lib.service.build_process import BuildProcess, TooSlow, build_process, run_process, slow_process
from lib.service.fair_turns import SecondsUsed, anonymous_caller
from lib.service.reference import VISITOR_TOKEN, read_reference
from lib.service.single_flight import SingleFlight
from lib.workload import TrainingRequest


def spec_from_hub(repository: HubModel) -> ModelSpec:
    """Resolve a repository whose configuration and headers were read."""
    files = tuple((one.label, one.total_bytes or 0) for one in list_gguf(repository.files)[:_MOST_FILES])
    return replace(_spec(repository), gguf_files=files)


def _spec(repository: HubModel) -> ModelSpec:
    if repository.kind == "diffusers":
        return _with_origin(repository, _pipeline(repository))
    if repository.kind == "gguf":
        return _file(repository)
    text = _config_text(repository)
    if text is None:
        raise UnsupportedModel(_advice(repository))
    config = parse_config(text)
    if is_timm(config):
        return _with_origin(repository, resolve_timm(config, repository.tensors, _origin(repository)))
    spec = resolve_config(config, _origin(repository), _beside(repository))
    return _with_origin(repository, _with_modules(repository, spec))


def _with_modules(repository: HubModel, spec: ModelSpec) -> ModelSpec:
    """The spec with what sentence-transformers adds: layers behind the pooling, and the longest text that it is set to read."""
    if repository.kind != "sentence-transformers":
        return spec
    behind = tuple(
        TensorGroup(name=f"{part.folder}.{name}", component="dense", kind="linear" if len(t.shape) > 1 else "other", shape=t.shape, count=1)
        for part in repository.components
        if part.class_name != "Transformer" and part.folder
        for name, t in part.weights.tensors.items()
    )
    added = sum(group.parameters for group in behind)
    set_to = _longest_text(repository)
    return replace(
        spec,
        tensors=(*spec.tensors, *behind),
        parameters_total=spec.parameters_total + added,
        parameters_active=spec.parameters_active + added,
        context_limit=min(filter(None, (spec.context_limit, set_to)), default=None),
    )


def _longest_text(repository: HubModel) -> int | None:
    """`max_seq_length` of sentence_bert_config.json, where it is a length."""
    text = repository.documents.get("sentence_bert_config.json")
    if text is None:
        return None
    try:
        stated = read_json(text.encode(), MAX_DOCUMENT_NODES)
    except UnreadableJson:
        return None
    longest = stated.get("max_seq_length") if isinstance(stated, dict) else None
    return longest if type(longest) is int and longest > 0 else None


def config_from_hub(repository: HubModel) -> Mapping[str, Any]:
    """The configuration of the one architecture in a repository."""
    text = None if repository.kind == "diffusers" else _config_text(repository)
    if text is None:
        raise UnsupportedModel(_advice(repository))
    return parse_config(text)


def _config_text(repository: HubModel) -> str | None:
    if repository.kind in {"transformers", "weights", "none"}:
        return repository.config_text
    if repository.kind == "sentence-transformers":
        own = [part.config_text for part in repository.components if part.class_name == "Transformer" and part.config_text]
        return own[0] if own else repository.config_text
    return None


def _advice(repository: HubModel) -> str:
    """Why this repository alone is not enough, and what to name instead."""
    name = quote_value(repository.id)
    base = f" Name {repository.base_model} instead" if repository.base_model else " Name the model it was made from instead"
    if repository.kind == "adapter":
        return f"{name} holds an adapter, not a model.{base}; with mode lora or qlora an adapter is counted on top."
    if repository.kind == "gguf":
        return f"{name} is read as a GGUF file, whose modules cannot be built here.{base}, to run it or to look into it."
    return f"{name} has no config.json that describes an architecture.{base}, paste a config.json, or give a parameter count such as 7B."


def _file(repository: HubModel) -> ModelSpec:
    """The GGUF file that was asked for, or the one that llama.cpp takes by itself, with the others that there are."""
    files = list_gguf(repository.files)
    read = next(one for one in files if one.files == repository.components[0].weights.files)
    file_origin = _origin(repository)._replace(id=f"{repository.id}:{read.label}")
    spec = resolve_gguf(repository.gguf, repository.tensors, file_origin)
    others = [one.label for one in files if one is not read]
    chosen = (
        (Caveat("gguf_default", {"file": read.label, "others": ", ".join(others[:_LISTED])}),) if others and not repository.file else ()
    )
    source = f"{', '.join(read.files[:3])} of {repository.id} at {repository.revision} on the Hub"
    origin = Source(what="header of the GGUF file", source=source, checked=_today())
    return replace(spec, caveats=(*spec.caveats, *repository.caveats, *chosen), sources=(origin, *spec.sources))


def _pipeline(repository: HubModel) -> ModelSpec:
    parts = {part.folder: parse_config(part.config_text) for part in repository.components if part.config_text is not None}
    if not parts:
        raise UnsupportedModel(_advice(repository))
    return resolve_pipeline(parts, _origin(repository))


def _origin(repository: HubModel) -> Origin:
    by_dtype = repository.bytes_by_dtype
    return Origin(
        id=repository.id,
        source="safetensors" if by_dtype else "architecture",
        task=repository.pipeline_tag or "",
        license=repository.license,
        gated=bool(repository.gated),
        checked=_today(),
        bytes_by_dtype=by_dtype,
    )


def _beside(repository: HubModel) -> Mapping[str, Any] | None:
    """The parsed hf_quant_config.json, if there is one."""
    text = repository.documents.get("hf_quant_config.json")
    if text is None:
        return None
    try:
        beside = read_json(text.encode(), MAX_DOCUMENT_NODES)
    except UnreadableJson:
        beside = None
    if not isinstance(beside, dict):
        raise HubGarbage(
            f"The file hf_quant_config.json of {quote_value(repository.id)} is not a JSON object. Paste the model's config.json instead."
        )
    return beside


def _with_origin(repository: HubModel, spec: ModelSpec) -> ModelSpec:
    """The spec with what the files themselves say, and where they were read."""
    read = Source(what="configuration and weight headers", source=f"{repository.id} at {repository.revision} on the Hub", checked=_today())
    caveats = (*spec.caveats, *repository.caveats, *reconcile(spec, repository.tensors), *_copies(repository))
    folders = {part.folder: part.weights.total_bytes for part in repository.components if part.folder and part.weights.total_bytes}
    stored = replace(spec.stored, bytes_by_component=folders if repository.kind == "diffusers" else {})
    return replace(spec, stored=stored, caveats=caveats, sources=(read, *spec.sources))


def _copies(repository: HubModel) -> tuple[Caveat, ...]:
    """The further copies of the weights that the repository holds, which its library does not load by default."""
    others = repository.other_weights
    if not others:
        return ()
    listed = ", ".join(f"{copy.pattern} ({copy.total_bytes / 1e9:.1f} GB)" for copy in others[:_LISTED_COPIES])
    more = f" and {len(others) - _LISTED_COPIES} more" if len(others) > _LISTED_COPIES else ""
    counted = [part.weights.files[0] for part in repository.components if part.weights.files]
    values = {"counted": ", ".join(counted[:_LISTED_COPIES]) or "none", "others": listed + more}
    return (Caveat("other_copies", values),)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


MAX_REMEMBERED = 256
_LISTED, _LISTED_COPIES = 12, 5
_MOST_FILES = 500  # GGUF files that an answer lists, the smallest: a repository may hold 50,000, and each remembered model its list
MAX_WAITING = 64  # with all that wait elsewhere fewer than the threads of `lib.ui.http` (`MOST_THREADS`): the rest answers meanwhile
MAX_READING, MAX_WAITING_TO_READ = 12, 24
MAX_WAITING_TO_RUN, MAX_WAITING_SLOWLY = 12, 12
PATIENCE_S = 60.0
LOOK_S = 0.5
_MOST_SLOW = 4_096
"""Questions that are known to take longer than `QUICK_S`."""
_OWN_TENSORS, _OWN_S = 100_000, 600.0
"""Of repositories that were read with a visitor's token; the time is that of public ones (`lib.hub.model_files`)."""
_CLOSED_TO_STRANGERS = (RepoGated, RepoNotFound, NotPermitted, RateLimited)
"""Refusals of the Hub that a token may change."""


_Ask = Callable[..., ModelSpec]
"""Calls a function with arguments in a child process."""


class Models:
    """Every model that can be named."""

    def __init__(
        self,
        build: BuildProcess | None = None,
        caller: Callable[[], Hashable] = anonymous_caller,
        run: BuildProcess | None = None,
        slow: BuildProcess | None = None,
    ) -> None:
        """Build in `build`, again in `slow` what takes too long there, and execute dry runs in `run`.

        By default these are three child processes of this app; `build` alone does all. Callers, as `caller()` tells them apart, take turns
        by the seconds that their questions took.
        """
        self._build, self._run = build or build_process(), run or build or run_process()
        self._build_slowly, used = slow or build or slow_process(), SecondsUsed()
        self._built: SingleFlight[ModelSpec] = SingleFlight(
            keep=MAX_REMEMBERED, workers=1, waiting=MAX_WAITING, patience=PATIENCE_S, name="build", caller=caller, used=used
        )
        self._built_slowly: SingleFlight[ModelSpec] = SingleFlight(
            keep=MAX_REMEMBERED, workers=1, waiting=MAX_WAITING_SLOWLY, patience=PATIENCE_S, name="slow build", caller=caller, used=used
        )
        self._slow: Cache[Hashable, bool] = Cache(most=_MOST_SLOW, seconds=_OWN_S, weight=lambda _: 1)
        self._executed: SingleFlight[DryRun] = SingleFlight(
            keep=MAX_REMEMBERED, workers=1, waiting=MAX_WAITING_TO_RUN, patience=PATIENCE_S, name="dry run", caller=caller
        )
        self._read: SingleFlight[HubModel] = SingleFlight(
            keep=0, workers=MAX_READING, waiting=MAX_WAITING_TO_READ, patience=PATIENCE_S, name="hub", caller=caller
        )
        self._public: Cache[tuple[str, str], ModelSpec] = Cache(most=MAX_REMEMBERED, seconds=_OWN_S, weight=lambda _: 1)
        self._own: Cache[Hashable, HubModel] = Cache(most=_OWN_TENSORS, seconds=_OWN_S, weight=lambda model: model.weight)
        self._secret = secrets.token_bytes(32)

    def __call__(self, model: object) -> ModelSpec:
        """The model that a caller means.

        Raises:
            InvalidInput: it is none, or its configuration cannot be used.
            UnsupportedModel: it needs code that is not run here.
            HubError: the Hub was asked and did not give it.
            Busy: too much is asked at the same time.
        """
        reference = read_reference(model)
        if reference.kind == "count":
            return _with_alike(resolve_count(reference.text))
        if reference.kind == "config":
            return self._from_config(reference.text)
        remembered = None if reference.file else bundled.find_spec(reference.text)
        return remembered or self._from_hub(reference.text, reference.file)

    def find_public(self, name: str, file: str) -> ModelSpec | None:
        """A model of the Hub that was resolved in the last ten minutes and that is public."""
        return self._public.find((name, file))

    def config(self, model: object) -> Mapping[str, Any]:
        """The configuration of the architecture that a caller means; of a bundled pipeline, one by component."""
        reference = read_reference(model)
        if reference.kind == "count":
            raise UnknownModel(
                f"A parameter count ({reference.text}) names no architecture, and what has none cannot be run. "
                "Name a model of that size (its Hub id), or paste its config.json."
            )
        if reference.kind == "config":
            return parse_config(reference.text)
        remembered = None if reference.file else bundled.find_config(reference.text)
        if remembered is not None:
            return remembered
        repository, _ = self._read_hub(reference.text, reference.file)
        with self._forget_if_refused(repository):
            return config_from_hub(repository)

    def execute(self, model: object, batch: int, prompt_tokens: int, output_tokens: int, training: TrainingRequest | None) -> DryRun:
        """A dry run of the architecture that a caller means, in a process of its own; the same one is run once."""
        key, question = self._execution(model, batch, prompt_tokens, output_tokens, training)
        return self._executed(key, lambda: self._run(*question))

    def watch_execution(
        self, model: object, batch: int, prompt_tokens: int, output_tokens: int, training: TrainingRequest | None
    ) -> Generator[DryRun | None]:
        """The same dry run, and None about twice a second until it is there; closed early, it ends a run for which no other waits."""
        key, question = self._execution(model, batch, prompt_tokens, output_tokens, training)
        given_up = threading.Event()
        with self._executed.ask(key, lambda: self._run(*question, given_up=given_up), given_up.set) as answer:
            for _ in range(round(PATIENCE_S / LOOK_S)):
                yield None
                try:
                    yield answer.result(timeout=LOOK_S)
                except TimeoutError:
                    continue
                return
            raise self._executed.late_refusal(key)

    def _execution(self, model: object, *asked: object) -> tuple[Hashable, tuple[Any, ...]]:
        """The key of a dry run, and the question to the child."""
        config = self.config(model)
        if is_pipeline(config):
            raise UnsupportedModel("A pipeline has several architectures; a dry run executes one. Paste the config.json of one of them.")
        content = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).digest()
        return (content, *asked, self._reader()), (execute, dict(config), *asked)

    @property
    def bundled(self) -> Sequence[str]:
        """Ids that need neither the Hub nor a build."""
        return bundled.list_ids()

    def warm_up(self) -> None:
        """Let the child process import torch and transformers and build a small model in advance; this call does not wait for it."""
        self._build.warm_up()

    def _from_config(self, text: str) -> ModelSpec:
        key = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        remembered = self._built.find_result(key) or self._built_slowly.find_result(key)
        if remembered is not None:
            return remembered
        config = parse_config(text)
        resolve = resolve_pipeline if is_pipeline(config) else resolve_config
        return self._work_out(key, lambda process: process(resolve, config))

    def _work_out(self, key: Hashable, work: Callable[[_Ask], ModelSpec]) -> ModelSpec:
        """The result of `work(process)`, in the process for quick questions and, if it takes too long there, in that for slow ones.

        A caller who is gone leaves the line. A slow question without a waiting caller is stopped; a quick one ends soon, and to stop it
        would cost the next question the imports of another process.
        """
        if not self._slow.find(key):
            try:
                return self._built(key, lambda: work(self._build))
            except TooSlow:
                self._slow.keep(key, True)
        given_up = threading.Event()
        slowly = functools.partial(self._build_slowly, given_up=given_up)
        return self._built_slowly(key, lambda: work(slowly), given_up.set)

    def _reader(self) -> bytes | None:
        """Key of a visitor's token while this process runs; None without one."""
        token = VISITOR_TOKEN.get()
        return None if token is None else hashlib.blake2b(token.encode(errors="surrogatepass"), key=self._secret).digest()

    def _read_hub(self, name: str, file: str = "") -> tuple[HubModel, bytes | None]:
        """The repository, and whose token it was read with; None if it is public."""
        token, reader = VISITOR_TOKEN.get(), self._reader()
        own = None if reader is None else self._own.find((reader, name, file))
        if own is not None:
            return own, reader
        try:
            try:
                return self._read((name, file), lambda: read_model(name, file=file)), None
            except _CLOSED_TO_STRANGERS:
                if token is None:
                    raise
            own = self._read((reader, name, file), lambda: read_model(name, token=token, file=file))
        except HubError as refusal:
            raise _with_near(refusal, name) from None
        self._own.keep((reader, name, file), own)
        return own, reader

    def _from_hub(self, name: str, file: str) -> ModelSpec:
        try:
            repository, reader = self._read_hub(name, file)
        except HubUnreachable:
            copied = None if file else read_copy(name)
            if copied is None:
                raise
            return copied
        key = (repository.id, repository.revision, repository.file, reader)

        def work(process: _Ask) -> ModelSpec:
            spec = spec_from_hub(repository) if repository.kind == "gguf" else process(spec_from_hub, repository)  # a GGUF is not built
            return replace(spec, read_with_token=reader is not None)

        with self._forget_if_refused(repository):
            spec = self._work_out(key, work)
        if reader is None:
            self._public.keep((name, file), spec)
        return spec

    @contextmanager
    def _forget_if_refused(self, repository: HubModel) -> Iterator[None]:
        """A repository that cannot be worked out is read again soon: its owner may mend it."""
        try:
            yield
        except (InvalidInput, UnsupportedModel, HubGarbage):
            forget_soon(repository)
            self._own.drop(repository)
            raise


def read_copy(name: str) -> ModelSpec | None:
    """A quantized copy of a bundled model, read by its name alone; the answer says so."""
    copied, meant = resolve_copy(name), find_quantized(name)
    if copied is not None and meant is not None:
        note_reading("model", name, " in ".join(meant))
    return copied


def _with_alike(spec: ModelSpec) -> ModelSpec:
    """A bare count with the bundled models of its size as a caveat."""
    return replace(spec, caveats=(*spec.caveats, *describe_size(spec.parameters_total, spec.cache_terms or ())))


def _with_near(refusal: HubError, name: str) -> HubError:
    """The same refusal, with bundled models of a similar name, which need no Hub."""
    if not isinstance(refusal, RepoNotFound | HubUnreachable):
        return refusal
    return type(refusal)(str(refusal), list_near(name))
