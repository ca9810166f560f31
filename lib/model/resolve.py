"""From a bare parameter count ("7B", "350M") or a parsed config.json to a `ModelSpec`, and from a config.json to the figures of a dry run.

A count gives a decoder with the usual proportions:

    N = 12 · L · h²     with   L = h / 128

    N  parameters     L  layers     h  hidden size

12·h² are the weights of a layer (4·h² attention, 8·h² feed-forward), and published decoders are some 128 times wider than they are
many layers (Llama-2-7B: 4096 and 32). Heads are 128 wide; keys and values have 8 heads at most, as most models since 2024.
Source: Kaplan et al. 2020, arXiv:2001.08361 (12·L·h²); proportions from the bundled models.
Limit: a typical model, not the one that is meant. The weights follow from N alone; cache and activations are typical for its size.

A configuration is built once, counted, run for its cache and traced for its activations. A part that cannot be run does not stop the
others: it is left out with a caveat, never replaced by a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeVar

from lib.errors import AdvisorError, BadConfig, UnknownGrowth, UnknownModel, quote_value
from lib.model.checkpoint import format_test, read_layer_formats, read_quantization, skip_test
from lib.model.config import check_config
from lib.model.dry_run_figures import DryRun
from lib.model.spec import UNKNOWN_ORIGIN, CacheTerm, Dimensions, ModelSpec, Origin, StoredWeights, count_layer_kinds, parameters_active
from lib.provenance import Caveat, Source
from lib.workload import TrainingRequest

if TYPE_CHECKING:
    from lib.model.build import BuiltModel

Described = TypeVar("Described")
HEAD_DIM = 128
KV_HEADS = 8
LARGEST = 100 * 10**12
MOSTLY_MIXTURES = 10**11
"""Parameters from which on a bare count is more likely a mixture of experts: 57 of the 65 bundled models from there on, 2 of 21 below it
down to 60 billion."""
_ACCEPTED = "a parameter count from 1 thousand to 100 trillion, such as 350M, 7B or 1.5b"
_COUNT = re.compile(
    r"(?P<number>[0-9][0-9_,]*(?:\.[0-9]+)?(?:e[0-9]{1,2})?)\s*"
    r"(?:(?P<unit>k|m|b|t|thousand|million|billion|trillion)\s*)?(?:param(?:eter)?s)?",
    re.IGNORECASE,
)
_UNITS = {"": 1, "k": 10**3, "t": 10**12, "m": 10**6, "b": 10**9, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_LEAST = 1_000


def parse_count(text: str) -> int:
    """Read "7B", "1.5b", "350M" or "7000000000" as a number of parameters."""
    match = _COUNT.fullmatch(text.strip()) if len(text) <= 60 else None  # noqa: PLR2004
    try:
        number = Decimal(match["number"].replace(",", "").replace("_", "")) if match else Decimal(0)
    except InvalidOperation:
        number = Decimal(0)
    count = number * _UNITS[(match["unit"] or "").lower()] if match else Decimal(0)
    if not _LEAST <= count <= LARGEST:
        raise UnknownModel(f"{quote_value(text)} is not a parameter count. Accepted: {_ACCEPTED}.")
    return int(count)


def typical_decoder(parameters: int) -> Dimensions:
    """Sizes of a decoder of usual proportions with this many parameters."""
    layers = max(1, round((parameters * HEAD_DIM / 12) ** (1 / 3) / HEAD_DIM))
    return Dimensions(
        hidden_size=layers * HEAD_DIM,
        layers=layers,
        attention_heads=layers,
        kv_heads=min(layers, KV_HEADS),
        head_dim=HEAD_DIM,
        intermediate_size=4 * layers * HEAD_DIM,
    )


def resolve_count(text: str) -> ModelSpec:
    """A spec for a bare parameter count."""
    parameters = parse_count(text)
    sizes = typical_decoder(parameters)
    cache = CacheTerm(
        kind="full attention", holds="keys and values", layers=sizes.layers, elements=2 * sizes.kv_heads * HEAD_DIM, growth="tokens"
    )
    values: dict[str, int | float] = {"layers": sizes.layers, "hidden_size": sizes.hidden_size, "kv_heads": sizes.kv_heads}
    values["ungrouped_times"] = round(sizes.attention_heads / sizes.kv_heads, 1)
    variant = "large" if parameters >= MOSTLY_MIXTURES else "grouped" if sizes.attention_heads > sizes.kv_heads else ""
    return ModelSpec(
        id="",
        architecture="",
        model_type="",
        task="text-generation",
        library="none",
        source="rule_of_thumb",
        parameters_total=parameters,
        parameters_active=parameters,
        tensors=(),
        dimensions=sizes,
        layer_kinds={"full attention": sizes.layers},
        cache_terms=(cache,),
        unknown_cache=False,
        activations=(),
        context_limit=None,
        stored=StoredWeights(dtype=""),
        caveats=(Caveat("typical_model", values, variant=variant),),
        sources=(Source(what="proportions of a decoder", source="Kaplan et al. 2020, arXiv:2001.08361", checked="2026-11-21"),),
    )


def _resolve_cache(built: BuiltModel) -> tuple[tuple[CacheTerm, ...] | None, bool, tuple[Caveat, ...]]:
    """Terms of the cache as executed, else by the closed form; whether it exists but is unknown; and caveats."""
    from lib.model.cache_executed import run_cache  # noqa: PLC0415 loaded when first needed

    try:
        return run_cache(built) or None, False, ()
    except UnknownGrowth as error:  # the observed shapes contradict every law, the closed form's too
        return None, True, (Caveat("unknown_cache", {"failure": str(error)}, variant="executed"),)
    except AdvisorError as error:
        failure = str(error)
    from lib.model.cache_terms import derive_terms  # noqa: PLC0415

    try:
        terms = derive_terms(built.config)
    except AdvisorError:
        terms = None
    if terms:
        return terms, False, (Caveat("cache_not_executed", {"failure": failure}),)
    return None, True, (Caveat("unknown_cache", {"failure": failure}, variant="executed"),)


def resolve_config(config: Mapping[str, Any], origin: Origin = UNKNOWN_ORIGIN, beside: Mapping[str, Any] | None = None) -> ModelSpec:
    """Resolve the configuration of a `transformers` model.

    Args:
        config: the parsed file; its ranges are checked here.
        origin: where it came from.
        beside: the parsed hf_quant_config.json of the same repository, where it has one.
    """
    check_config(config)
    spec = _describe(config, beside)
    return replace(
        spec,
        id=origin.id,
        source=origin.source,
        task=origin.task or spec.task,
        stored=replace(spec.stored, bytes_by_dtype=dict(origin.bytes_by_dtype or {})),
        license=origin.license,
        gated=origin.gated,
        sources=tuple(replace(source, checked=origin.checked) for source in spec.sources),
    )


def _describe(config: Mapping[str, Any], beside: Mapping[str, Any] | None) -> ModelSpec:
    """The spec from the configuration alone."""
    from transformers import __version__  # noqa: PLC0415 loaded when first needed

    from lib.model import parameters  # noqa: PLC0415
    from lib.model.activations import trace_activations  # noqa: PLC0415
    from lib.model.build import build  # noqa: PLC0415
    from lib.model.media import describe_vision, run_picture_pass  # noqa: PLC0415
    from lib.model.meta_device import describe_sound  # noqa: PLC0415

    # Build the architecture on the meta device.
    quantization, quantization_caveats = read_quantization(config, beside)
    layers = read_layer_formats(config, beside)
    built = build(config)
    try:
        # Vision and sound are optional: what fails there becomes a caveat.
        optional = _OptionalParts()
        vision, sound = optional.describe("vision", describe_vision, built.config), optional.describe("sound", describe_sound, built.config)
        # Parameters, sizes and cache.
        tests = skip_test(quantization, built.model, layers), format_test(layers, built.model)
        tensors = parameters.group_parameters(built, *tests)
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
                *optional.caveats,
            ),
            sources=(Source(what="parameters, cache and activations", source=executed, checked=""),),
            buffer_bytes=parameters.count_buffer_bytes(built),
            vision=vision,
            sound=sound,
            caps_logits=bool(getattr(built.config.get_text_config(), "final_logit_softcapping", None)),
            drops_hidden=parameters.drops_out(built.config, parameters.HIDDEN_DROPOUT),
            drops_scores=parameters.drops_out(built.config, parameters.SCORE_DROPOUT),
            picture_pass=None if terms or unknown or optional.caveats else run_picture_pass(built),
        )
    except AdvisorError:
        raise
    except Exception as error:
        refusal = f"{built.architecture} can be built from this configuration but not be described ({type(error).__name__})"
        raise BadConfig(f"{refusal}. Check its sizes, or give the parameter count instead (such as '7B').") from error


class _OptionalParts:
    """Parts of a model that an answer can do without. One that cannot be described becomes a caveat, not a refusal of the model."""

    def __init__(self) -> None:
        self.caveats: list[Caveat] = []

    def describe(self, part: str, describe: Callable[[Any], Described | None], config: Any) -> Described | None:
        """The part, or None where the configuration leaves out what its description needs."""
        try:
            return describe(config)
        except Exception as error:  # noqa: BLE001  a configuration from outside can lack or mistype any field
            self.caveats.append(Caveat("part_not_described", {"error": type(error).__name__}, variant=part))
            return None


def execute(config: Mapping[str, Any], batch: int, prompt_tokens: int, output_tokens: int, training: TrainingRequest | None) -> DryRun:
    """`lib.model.dry_run.dry_run`, whose imports take seconds: only the process that executes makes them."""
    from lib.model.dry_run import dry_run  # noqa: PLC0415 loaded when first needed

    return dry_run(config, batch=batch, prompt_tokens=prompt_tokens, output_tokens=output_tokens, training=training)
