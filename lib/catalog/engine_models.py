"""The model classes that each engine lists at a stated version.

    lists_model("vllm", architecture="Qwen3ForCausalLM", model_type="qwen3")    True
    lists_model("tei", architecture="Qwen2Model", model_type="qwen2", on_gpu=False)    False

`lib/data/engine_models.json` is written from releases of the engines by `scripts/build_engine_models.py`. A class in an engine's list has
an implementation there. A class that is missing may still run: vLLM and SGLang try the modelling code of `transformers`, which is untested
for that class. llama.cpp and TEI run only what they list.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from pydantic import Field, TypeAdapter

from lib.catalog.rows import DATA, Day, Row, Text
from lib.engines import Engine


class EngineModels(Row):
    """The list of one engine."""

    version: str
    """The release; empty for a page without one."""
    source: Text
    """Source of the list."""
    checked: Day
    """The day on which it was read."""
    by: Literal["architecture", "model_type"]
    """The field of a model's configuration that the list holds."""
    listed: frozenset[str]
    """Classes or model types."""
    cuda_only: frozenset[str] = frozenset()
    """Listed ones that start on CUDA devices only."""
    dropped: Mapping[str, str] = Field(default_factory=dict)
    """Classes that were removed, and the last version that had them."""

    def find_key(self, architecture: str, model_type: str) -> str:
        """The normalized name of a model in this list."""
        return normalize(architecture if self.by == "architecture" else model_type)


def normalize(name: str) -> str:
    """A class or model type without case and separators: checkpoints write `PhiMoEForCausalLM`, transformers `PhimoeForCausalLM`."""
    return name.replace("_", "").replace("-", "").lower()


@cache
def read_engine_models() -> dict[Engine, EngineModels]:
    """The lists by engine; an engine without a row publishes none that can be read by a program."""
    return TypeAdapter(dict[Engine, EngineModels]).validate_json((DATA / "engine_models.json").read_bytes())


@cache
def _listed(engine: Engine, *, on_gpu: bool) -> frozenset[str] | None:
    row = read_engine_models().get(engine)
    return None if row is None else frozenset(map(normalize, row.listed if on_gpu else row.listed - row.cuda_only))


def find_unlisted(engine: Engine, architecture: str, model_type: str, *, on_gpu: bool = True) -> Mapping[str, str] | None:
    """Release of an engine that does not list a model, and the last release that did; None for a listed model."""
    if lists_model(engine, architecture=architecture, model_type=model_type, on_gpu=on_gpu):
        return None
    row = read_engine_models()[engine]
    last = next((version for name, version in row.dropped.items() if normalize(name) == row.find_key(architecture, model_type)), "")
    return {"engine": engine, "version": row.version, "architecture": architecture} | ({"last_version": last} if last else {})


def lists_model(engine: Engine, *, architecture: str, model_type: str, on_gpu: bool = True) -> bool:
    """Whether the engine lists the model; true where the engine has no list, or nothing of the model but its size is known."""
    listed = _listed(engine, on_gpu=on_gpu)
    return listed is None or not architecture or read_engine_models()[engine].find_key(architecture, model_type) in listed
