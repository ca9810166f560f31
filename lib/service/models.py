"""From what a caller named to a `ModelSpec`: counts and bundled models at once, configurations and the Hub by way of `Once`.

What is asked again is remembered: configurations by their content, repositories by their id for as long as the Hub's own answer is
kept. What was not asked before is built in a child process (`lib.service.build_process`), which `warm_up` starts ahead of use: this
process imports neither torch nor transformers to resolve a model.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from lib.errors import HubError, HubUnreachable, RepoNotFound, UnknownModel
from lib.hub.model_files import read_model
from lib.hub.repository import HubModel
from lib.model import bundled
from lib.model.bare import resolve_count
from lib.model.config import parse
from lib.model.diffusion import is_pipeline, resolve_pipeline
from lib.model.resolve import resolve_config
from lib.model.spec import ModelSpec
from lib.service.build_process import BuildProcess, build_process
from lib.service.from_hub import config_from_hub, spec_from_hub
from lib.service.once import Once
from lib.service.reference import read

KEPT = 256
WAITING = 24  # of Gradio's 40 threads; the others go on answering what needs no waiting
READING = 12
PATIENCE_S = 60.0


class Models:
    """Every model that can be named."""

    def __init__(self, build: BuildProcess | None = None) -> None:
        """Build in `build`, by default in the one child process of this app."""
        self._build = build or build_process()
        self._built: Once[ModelSpec] = Once(keep=KEPT, workers=1, waiting=WAITING, patience=PATIENCE_S, name="build")
        self._read: Once[HubModel] = Once(keep=0, workers=READING, waiting=READING, patience=PATIENCE_S, name="hub")

    def __call__(self, model: object) -> ModelSpec:
        """The model that a caller means.

        Raises:
            InvalidInput: it is none, or its configuration cannot be used.
            UnsupportedModel: it needs code that is not run here.
            HubError: the Hub was asked and did not give it.
            Busy: too much is asked at the same time.
        """
        reference = read(model)
        if reference.kind == "count":
            return resolve_count(reference.text)
        if reference.kind == "config":
            return self._configured(reference.text)
        return bundled.find(reference.text) or self._from_hub(reference.text)

    def config(self, model: object) -> Mapping[str, Any]:
        """The configuration of the architecture that a caller means; of a bundled pipeline, one by component.

        Raises:
            UnknownModel: a parameter count names no architecture.
            InvalidInput: it is no model, or its configuration cannot be read.
            UnsupportedModel: its repository holds no configuration of one architecture.
            HubError: the Hub was asked and did not give it.
            Busy: too much is asked at the same time.
        """
        reference = read(model)
        if reference.kind == "count":
            raise UnknownModel(
                f"A parameter count ({reference.text}) names no architecture, and what has none cannot be run. "
                "Name a model of that size (its Hub id), or paste its config.json."
            )
        if reference.kind == "config":
            return parse(reference.text)
        return bundled.config(reference.text) or config_from_hub(self._found(reference.text))

    @property
    def bundled(self) -> Sequence[str]:
        """Ids that need neither the Hub nor a build."""
        return bundled.ids()

    def warm_up(self) -> None:
        """Let the child process import torch and transformers and build something small; nobody waits for it."""
        self._build.warm_up()

    def _configured(self, text: str) -> ModelSpec:
        key = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        known = self._built.known(key)
        if known is not None:
            return known
        config = parse(text)
        resolve = resolve_pipeline if is_pipeline(config) else resolve_config
        return self._built(key, lambda: self._build(resolve, config))

    def _found(self, name: str) -> HubModel:
        try:
            return self._read(name, lambda: read_model(name))
        except HubError as refusal:
            raise _with_near(refusal, name) from None

    def _from_hub(self, name: str) -> ModelSpec:
        found = self._found(name)
        return self._built((found.id, found.revision), lambda: self._build(spec_from_hub, found))


def _with_near(refusal: HubError, name: str) -> HubError:
    """The same refusal, with bundled models of a similar name, which need no Hub."""
    if not isinstance(refusal, RepoNotFound | HubUnreachable):
        return refusal
    near = difflib.get_close_matches(name.casefold(), (known.casefold() for known in bundled.ids()), n=3, cutoff=0.6)
    spelled = {known.casefold(): known for known in bundled.ids()}
    hint = f" Near matches in the bundled catalog: {', '.join(spelled[match] for match in near)}." if near else ""
    return type(refusal)(f"{refusal}{hint}")
