"""From what a caller named to a `ModelSpec`: counts and bundled models at once, configurations and the Hub by way of `Once`.

What is asked again is remembered: configurations by their content, repositories by their id for as long as the Hub's own answer is
kept. torch and transformers are imported by the worker when the first unseen architecture arrives, or earlier by `warm_up`; the time
that a configuration may take begins after that.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from lib.errors import AdvisorError, HubError, HubUnreachable, RepoNotFound, UnknownModel
from lib.hub.model_files import read_model
from lib.hub.repository import HubModel
from lib.model import bundled
from lib.model.bare import resolve_count
from lib.model.config import parse
from lib.model.diffusion import is_pipeline, resolve_pipeline
from lib.model.resolve import resolve_config
from lib.model.spec import ModelSpec
from lib.service.deadline import within
from lib.service.from_hub import config_from_hub, spec_from_hub
from lib.service.once import Once
from lib.service.reference import read

log = logging.getLogger(__name__)

KEPT = 256
WAITING = 24  # of Gradio's 40 threads; the others go on answering what needs no waiting
READING = 12
PATIENCE_S = 60.0
BUILD_S = 20.0  # some fifty families of transformers took up to 3 s on two busy cores; a hostile one must not hold up the rest
_SMALLEST = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 100,
}


class Models:
    """Every model that can be named."""

    def __init__(self) -> None:
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
        """Let the worker import torch and transformers and build something small; nobody waits for it."""
        self._built.start(_imported)

    def _configured(self, text: str) -> ModelSpec:
        key = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        known = self._built.known(key)
        if known is not None:
            return known
        config = parse(text)
        resolve = resolve_pipeline if is_pipeline(config) else resolve_config
        return self._built(key, lambda: _in_time(lambda: resolve(config)))

    def _found(self, name: str) -> HubModel:
        try:
            return self._read(name, lambda: read_model(name))
        except HubError as refusal:
            raise _with_near(refusal, name) from None

    def _from_hub(self, name: str) -> ModelSpec:
        found = self._found(name)
        return self._built((found.id, found.revision), lambda: _in_time(lambda: spec_from_hub(found)))


def _in_time(build: Callable[[], ModelSpec]) -> ModelSpec:
    """What the build makes. On a busy machine the imports alone take longer than a build may, and are nobody's configuration's fault."""
    _imported()
    return within(BUILD_S, build)


@cache
def _imported() -> None:
    """Build something small, once in a process, which imports all that every build needs."""
    try:
        resolve_config(_SMALLEST)
    except AdvisorError:
        log.exception("the warm-up failed; the first visitor with an unseen model waits for the imports")


def _with_near(refusal: HubError, name: str) -> HubError:
    """The same refusal, with bundled models of a similar name, which need no Hub."""
    if not isinstance(refusal, RepoNotFound | HubUnreachable):
        return refusal
    near = difflib.get_close_matches(name.casefold(), (known.casefold() for known in bundled.ids()), n=3, cutoff=0.6)
    spelled = {known.casefold(): known for known in bundled.ids()}
    hint = f" Near matches in the bundled catalog: {', '.join(spelled[match] for match in near)}." if near else ""
    return type(refusal)(f"{refusal}{hint}")
