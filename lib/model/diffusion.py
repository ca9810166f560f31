"""A diffusers pipeline: several models that share a repository, each counted by its own class.

The pipeline's folders are its components. A component with `_class_name` is a model class of `diffusers`, one with `architectures` a
text encoder of `transformers`; both are constructed on the meta device. Schedulers, tokenizers and safety checkers hold nothing that is
loaded for generation.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lib.errors import AdvisorError, BadConfig, UnsupportedModel, quote_value
from lib.model.bundled import find_spec, list_ids
from lib.model.config import check_config
from lib.model.spec import ModelSpec, Pipeline, SpecSource, StoredWeights, TensorGroup, make_tokenless_spec
from lib.provenance import Caveat, Source

if TYPE_CHECKING:
    from torch.nn import Module

    from lib.model.build import BuiltModel

log = logging.getLogger(__name__)

_VIDEO_CLASSES = ("Wan", "CogVideo", "LTX", "Hunyuan", "Mochi", "Allegro", "3D", "Video")


def _diffusers_class(name: str) -> Any:
    """A model class of diffusers.

    Raises:
        UnsupportedModel: diffusers is not installed, or has no such model class.
    """
    try:
        import diffusers  # noqa: PLC0415 loaded when first needed
    except ImportError:
        raise UnsupportedModel(
            "Pipelines need diffusers, which is not installed here. Install it, or give the parameter count instead."
        ) from None
    kind = getattr(diffusers, name, None) if name.isidentifier() and not name.startswith("_") else None
    if not (isinstance(kind, type) and issubclass(kind, diffusers.ModelMixin)):
        raise UnsupportedModel(
            f"diffusers {diffusers.__version__} has no model class {quote_value(name)}; it needs remote code, which is never run."
        )
    return kind


def _construct(config: Mapping[str, Any]) -> Module:
    """A component of diffusers on the meta device."""
    import torch  # noqa: PLC0415 loaded when first needed

    from lib.model.build import LOCK  # noqa: PLC0415
    from lib.model.meta_device import MetaBuild, no_network  # noqa: PLC0415

    kind = _diffusers_class(str(config["_class_name"]))
    try:
        with LOCK, no_network(), warnings.catch_warnings(), MetaBuild(torch.bfloat16):
            warnings.simplefilter("ignore")
            return kind.from_config({k: v for k, v in config.items() if k != "_name_or_path"})  # type: ignore[no-any-return]
    except AdvisorError:
        raise
    except Exception as error:  # noqa: BLE001 a hostile file can make any constructor raise anything
        raise BadConfig(f"{kind.__name__} cannot be built from its configuration ({type(error).__name__}). Check its sizes.") from None


def _groups(component: str, model: Module) -> tuple[TensorGroup, ...]:
    """The parameters of a component of diffusers, grouped as `lib.model.parameters.group_parameters` groups those of transformers."""
    from torch import nn  # noqa: PLC0415 loaded when first needed

    from lib.model.parameters import iterate_parameters, kind_of, path_pattern  # noqa: PLC0415

    in_fp32 = tuple(getattr(model, "_keep_in_fp32_modules", None) or ())
    counts: dict[TensorGroup, int] = {}
    for place in iterate_parameters(model):
        group = TensorGroup(
            name=path_pattern(place.path),
            component=component,
            kind=kind_of(place, None),
            shape=tuple(place.tensor.shape),
            count=0,
            fp32=any(part in place.path.split(".") for part in in_fp32),
            convertible=type(place.module) is nn.Linear and place.tensor.ndim > 1,
        )
        counts[group] = counts.get(group, 0) + 1
    return tuple(replace(group, count=count) for group, count in counts.items())


class Component(NamedTuple):
    """A component by its class, its parameters, and as built."""

    kind: str
    groups: tuple[TensorGroup, ...]
    built: Module | BuiltModel


def build_component(name: str, config: Mapping[str, Any]) -> Component:
    """A component on the meta device: of diffusers, or a text encoder of transformers.

    Raises:
        BadConfig: it is out of range or cannot be constructed.
        UnsupportedModel: a class that diffusers and transformers do not have.
    """
    if isinstance(config.get("_class_name"), str):
        model = _construct(config).eval()
        return Component(type(model).__name__, _groups(name, model), model)
    from transformers.models.auto.modeling_auto import MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES  # noqa: PLC0415 loaded when first needed

    from lib.model.build import build  # noqa: PLC0415
    from lib.model.parameters import group_parameters  # noqa: PLC0415

    encoder = MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES.get(str(config.get("model_type")))
    architectures = {"architectures": [encoder]} if encoder and not config.get("architectures") else {}
    built = build({**config, **architectures})
    return Component(built.architecture, tuple(replace(g, component=name) for g in group_parameters(built)), built)


_RUNS_S = 10.0
"""Seconds for the runs of a pipeline that somebody waits for; without them its activations are left open, with a caveat."""


def _run(parts: Mapping[str, Component], tensors: tuple[TensorGroup, ...], limit_s: float | None) -> Pipeline | None:
    """What the laws need of the pipeline; one with the tensors of a bundled pipeline is known, any other is run."""
    from torch.nn import Module  # noqa: PLC0415 loaded when first needed

    from lib.model.pipeline_fits import describe_pipeline  # noqa: PLC0415

    if limit_s is not None:
        bundled = (spec for name in list_ids() if (spec := find_spec(name)) is not None and spec.pipeline is not None)
        same = next((spec.pipeline for spec in bundled if set(spec.tensors) == set(tensors)), None)
        if same is not None:
            return same
    modules = {name: part.built for name, part in parts.items() if isinstance(part.built, Module)}
    encoders = {name: part.built for name, part in parts.items() if not isinstance(part.built, Module)}
    try:
        return describe_pipeline(modules, encoders, limit_s)
    except Exception as error:  # noqa: BLE001 code of diffusers raises anything on what it cannot take; the caveat says what is missing
        log.info("pipeline not run: %s: %s", type(error).__name__, str(error)[:200])
        return None


def build_modules(components: Mapping[str, Mapping[str, Any]]) -> dict[str, Module]:
    """Denoiser and VAE of a pipeline on the meta device, by folder.

    Raises:
        BadConfig: a component is out of range or cannot be constructed.
        UnsupportedModel: a class that diffusers does not have.
    """
    check_config(components)
    return {name: _construct(config).eval() for name, config in components.items() if "_class_name" in config}


def is_pipeline(config: Mapping[str, Any]) -> bool:
    """Whether a parsed object maps component names to configurations of models."""
    parts = [v for v in config.values() if isinstance(v, Mapping)]
    return bool(parts) and len(parts) == len(config) and any("_class_name" in v for v in parts)


def resolve_pipeline(
    components: Mapping[str, Mapping[str, Any]],
    *,
    id: str = "",  # noqa: A002 the field's own name
    source: SpecSource = "architecture",
    bytes_by_dtype: Mapping[str, int] | None = None,
    task: str = "",
    license: str | None = None,  # noqa: A002
    gated: bool | None = None,
    checked: str = "",
    limit_s: float | None = _RUNS_S,
) -> ModelSpec:
    """Resolve a pipeline from the configurations of its components.

    Args:
        components: parsed config.json by folder name, models only.
        id: the Hub id, if it came from there.
        source: what the spec says about its origin.
        bytes_by_dtype: bytes of the stored weights by dtype, where headers were read.
        task: the Hub's pipeline tag; else picture or video by the classes.
        license: as the Hub states it.
        gated: whether the licence has to be accepted first.
        checked: ISO date to put on the source.
        limit_s: seconds after which its runs are given up; None lets them take as long as they need.

    Raises:
        BadConfig: a component is out of range or cannot be constructed.
        UnsupportedModel: a class that diffusers and transformers do not have.
    """
    check_config(components)
    parts = {name: build_component(name, config) for name, config in components.items()}
    tensors = tuple(group for part in parts.values() for group in part.groups)
    pipeline = _run(parts, tensors, limit_s)
    classes = ", ".join(f"{name}: {part.kind}" for name, part in parts.items())
    video = pipeline.frame_step > 0 if pipeline else any(word in part.kind for part in parts.values() for word in _VIDEO_CLASSES)
    return make_tokenless_spec(
        tensors,
        id=id,
        architecture=next((part.kind for name, part in parts.items() if name in {"transformer", "unet"}), ""),
        task=task or ("text-to-video" if video else "text-to-image"),
        library="diffusers",
        source=source,
        stored=StoredWeights(dtype="", bytes_by_dtype=dict(bytes_by_dtype or {})),
        license=license,
        gated=gated,
        caveats=() if pipeline else (Caveat("pipeline_activations"),),
        sources=(Source(what="parameters and activations", source=f"classes on the meta device ({classes})", checked=checked),),
        pipeline=pipeline,
    )
