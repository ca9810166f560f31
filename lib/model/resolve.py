"""From a parsed config.json to a `ModelSpec`: build once, count, run the cache, trace the activations, keep the numbers.

A part that cannot be run does not stop the others: a cache or an activation that could not be found is left out with a caveat, never
replaced by a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lib.errors import AdvisorError, BadConfig, UnknownGrowth
from lib.model.config import check_config
from lib.model.quantization import read_quantization
from lib.model.spec import CacheTerm, ModelSpec, SpecSource, StoredWeights, count_layer_kinds, parameters_active
from lib.provenance import Caveat, Source

if TYPE_CHECKING:
    from lib.model.build import BuiltModel


def _resolve_cache(built: BuiltModel) -> tuple[tuple[CacheTerm, ...] | None, bool, tuple[Caveat, ...]]:
    """Terms of the cache as executed, else by the closed form; whether it exists but is unknown; and caveats."""
    from lib.model.cache_executed import run_cache  # noqa: PLC0415 loaded when first needed

    try:
        return run_cache(built) or None, False, ()
    except UnknownGrowth as error:  # the observed shapes contradict every law, the closed form's too
        return None, True, (Caveat("unknown_cache", {"failure": str(error)}, variant="executed"),)
    except AdvisorError as error:
        failure = str(error)
    from lib.model.cache_closed_form import derive_terms  # noqa: PLC0415

    try:
        terms = derive_terms(built.config)
    except AdvisorError:
        terms = None
    if terms:
        return terms, False, (Caveat("cache_not_executed", {"failure": failure}),)
    return None, True, (Caveat("unknown_cache", {"failure": failure}, variant="executed"),)


def resolve_config(
    config: Mapping[str, Any],
    *,
    id: str = "",  # noqa: A002 the field's own name
    source: SpecSource = "architecture",
    beside: Mapping[str, Any] | None = None,
    bytes_by_dtype: Mapping[str, int] | None = None,
    task: str = "",
    license: str | None = None,  # noqa: A002
    gated: bool | None = None,
    checked: str = "",
) -> ModelSpec:
    """Resolve the configuration of a `transformers` model.

    Args:
        config: the parsed file; its ranges are checked here.
        id: the Hub id, if the file came from there.
        source: what the spec says about its origin.
        beside: the parsed hf_quant_config.json, where there is one.
        bytes_by_dtype: bytes of the stored weights by safetensors dtype, where headers were read.
        task: the Hub's pipeline tag, where known; else that of the class.
        license: as the Hub states it.
        gated: whether the licence has to be accepted first.
        checked: ISO date to put on the source.

    Raises:
        BadConfig: out of range, or not a model that can be constructed.
        UnsupportedModel: it needs remote code or a library that is not installed.
    """
    check_config(config)
    spec = _describe(config, beside)
    stored = replace(spec.stored, bytes_by_dtype=dict(bytes_by_dtype or {}))
    origin = tuple(replace(s, checked=checked) for s in spec.sources)
    return replace(spec, id=id, source=source, task=task or spec.task, stored=stored, license=license, gated=gated, sources=origin)


def _describe(config: Mapping[str, Any], beside: Mapping[str, Any] | None) -> ModelSpec:
    """The spec from the configuration alone."""
    from transformers import __version__  # noqa: PLC0415 loaded when first needed

    from lib.model import parameters  # noqa: PLC0415
    from lib.model.activation_peaks import trace_activations  # noqa: PLC0415
    from lib.model.build import build  # noqa: PLC0415
    from lib.model.media import describe_sound, describe_vision  # noqa: PLC0415
    from lib.model.picture_pass import run_picture_pass  # noqa: PLC0415
    from lib.model.quantization import skip_test  # noqa: PLC0415

    quantization, quantization_caveats = read_quantization(config, beside)
    built = build(config)
    try:
        tensors = parameters.group_parameters(built, skip_test(quantization, built.model))
        sizes = parameters.read_dimensions(built)
        terms, unknown, cache_caveats = _resolve_cache(built)
        executed = f"{built.architecture} of transformers {__version__}, executed on the meta device"
        return ModelSpec(
            id="",
            architecture=built.architecture,
            model_type=built.model_type,
            task=parameters.task_of(built.architecture),
            library="transformers",
            source="architecture",
            parameters_total=sum(g.parameters for g in tensors),
            parameters_active=parameters_active(tensors),
            tensors=tensors,
            dimensions=sizes,
            layer_kinds=count_layer_kinds(terms, sizes.layers) if not unknown else {},
            cache_terms=terms,
            unknown_cache=unknown,
            activations=trace_activations(built),
            context_limit=parameters.context_limit(built),
            stored=StoredWeights(dtype=parameters.stored_dtype(config), quantization=quantization),
            caveats=(
                *built.caveats,
                *parameters.default_size_caveats(built),
                *quantization_caveats,
                *parameters.routing_caveats(built, tensors),
                *cache_caveats,
            ),
            sources=(Source(what="parameters, cache and activations", source=executed, checked=""),),
            buffer_bytes=parameters.count_buffer_bytes(built),
            vision=describe_vision(built.config),
            sound=describe_sound(built.config),
            caps_logits=bool(getattr(built.config.get_text_config(), "final_logit_softcapping", None)),
            picture_pass=None if terms or unknown else run_picture_pass(built),
        )
    except AdvisorError:
        raise
    except Exception as error:
        refusal = f"{built.architecture} can be built from this configuration but not be described ({type(error).__name__})"
        raise BadConfig(f"{refusal}. Check its sizes, or give the parameter count instead (such as '7B').") from error
