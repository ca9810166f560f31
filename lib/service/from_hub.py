"""From a repository on the Hub to a `ModelSpec`: what kind of repository it is decides which part of the core reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lib.bounded_json import UnreadableJson, read_json
from lib.errors import HubGarbage, UnsupportedModel, shown
from lib.hub.weights import MAX_DOCUMENT_NODES
from lib.model.config import parse
from lib.model.diffusion import resolve_pipeline
from lib.model.reconcile import reconcile
from lib.model.resolve import resolve_config
from lib.provenance import Source

if TYPE_CHECKING:
    from lib.hub.repository import HubModel
    from lib.model.spec import ModelSpec


def spec_from_hub(found: HubModel) -> ModelSpec:
    """Resolve a repository whose configuration and headers were read.

    Raises:
        UnsupportedModel: nothing in it describes an architecture that can be built here.
        BadConfig: its configuration cannot be read or built.
        HubGarbage: its quantization file is no JSON object.
    """
    if found.kind == "diffusers":
        return _with_origin(found, _pipeline(found))
    text = _config_text(found)
    if text is None:
        raise UnsupportedModel(_advice(found))
    return _with_origin(found, _resolved(found, parse(text)))


def config_from_hub(found: HubModel) -> Mapping[str, Any]:
    """The configuration of the one architecture in a repository.

    Raises:
        UnsupportedModel: there is none, or several (a pipeline).
        BadConfig: it cannot be read.
    """
    text = None if found.kind == "diffusers" else _config_text(found)
    if text is None:
        raise UnsupportedModel(_advice(found))
    return parse(text)


def _config_text(found: HubModel) -> str | None:
    if found.kind in {"transformers", "weights", "none"}:
        return found.config_text
    if found.kind == "sentence-transformers":
        own = [part.config_text for part in found.components if part.class_name == "Transformer" and part.config_text]
        return own[0] if own else found.config_text
    return None


def _advice(found: HubModel) -> str:
    """Why this repository alone is not enough, and what to name instead."""
    name = shown(found.id)
    base = f" Name {found.base_model} instead" if found.base_model else " Name the model it was made from instead"
    if found.kind == "adapter":
        return f"{name} holds an adapter, not a model.{base}; with mode lora or qlora an adapter is counted on top."
    if found.kind == "gguf":
        return f"{name} holds GGUF files without a config.json.{base}, with a precision such as gguf:Q4_K_M."
    return f"{name} has no config.json that describes an architecture.{base}, paste a config.json, or give a parameter count such as 7B."


def _pipeline(found: HubModel) -> ModelSpec:
    parts = {part.folder: parse(part.config_text) for part in found.components if part.config_text is not None}
    if not parts:
        raise UnsupportedModel(_advice(found))
    by_dtype = found.bytes_by_dtype
    return resolve_pipeline(
        parts,
        id=found.id,
        source="safetensors" if by_dtype else "architecture",
        bytes_by_dtype=by_dtype,
        task=found.pipeline_tag or "",
        license=found.license,
        gated=bool(found.gated),
        checked=_today(),
    )


def _resolved(found: HubModel, config: Mapping[str, Any]) -> ModelSpec:
    by_dtype = found.bytes_by_dtype
    return resolve_config(
        config,
        id=found.id,
        source="safetensors" if by_dtype else "architecture",
        beside=_beside(found),
        bytes_by_dtype=by_dtype,
        task=found.pipeline_tag or "",
        license=found.license,
        gated=bool(found.gated),
        checked=_today(),
    )


def _beside(found: HubModel) -> Mapping[str, Any] | None:
    """The parsed hf_quant_config.json, where there is one."""
    text = found.documents.get("hf_quant_config.json")
    if text is None:
        return None
    try:
        beside = read_json(text.encode(), MAX_DOCUMENT_NODES)
    except UnreadableJson:
        beside = None
    if not isinstance(beside, dict):
        raise HubGarbage(f"The file hf_quant_config.json of {shown(found.id)} is no JSON object. Paste the model's config.json instead.")
    return beside


def _with_origin(found: HubModel, spec: ModelSpec) -> ModelSpec:
    """The spec with what the files themselves told, and where they were read."""
    read = Source(what="configuration and weight headers", source=f"{found.id} at {found.revision} on the Hub", checked=_today())
    caveats = (*spec.caveats, *found.caveats, *reconcile(spec, found.tensors))
    return replace(spec, caveats=caveats, sources=(read, *spec.sources))


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
