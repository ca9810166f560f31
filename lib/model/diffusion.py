"""A diffusers pipeline: several models that share a repository, each counted by its own class, and all run together.

The pipeline's folders are its components. A component with `_class_name` is a model class of `diffusers`, one with `architectures` a
text encoder of `transformers`; both are constructed on the meta device. Schedulers, tokenizers and safety checkers hold nothing that is
loaded for generation.

Memory and work are functions of the request to the pipeline. The bytes alive at one moment of a run are a sum of tensors whose sizes are
proportional to pictures, pixels and frames. Runs at different sizes make the same operations in the same order. So each moment's
coefficients follow from as many runs as there are terms. The moments that can be the fullest are kept (`StageFit`). Where the number of
operations follows the size (a VAE that decodes frames in portions, tiles), the peaks themselves are fitted.

Source: diffusers and transformers as installed, as executed. Limits: those of `lib.model.pipeline_run`; in float32 every tensor is
counted twice as large as in 16 bits, which none exceeds.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lib.errors import AdvisorError, BadConfig, UnsupportedModel, quote_value
from lib.laws.pipeline import byte_terms, latent_frames, work_terms
from lib.model.bundled import find_spec, list_ids
from lib.model.config import check_config
from lib.model.spec import (
    KEPT_GROUPS,
    TRAINED,
    UNKNOWN_ORIGIN,
    KeptFit,
    ModelSpec,
    Origin,
    Pipeline,
    StageFit,
    StoredWeights,
    TensorGroup,
    make_tokenless_spec,
)
from lib.provenance import Caveat, Source

if TYPE_CHECKING:
    from torch.nn import Module

    from lib.model.build import BuiltModel
    from lib.model.pipeline_run import MetaPipeline, PipelineRun, Shape, StageRun

log = logging.getLogger(__name__)

_VIDEO_CLASSES = ("Wan", "CogVideo", "LTX", "Hunyuan", "Mochi", "Allegro", "3D", "Video")


def _diffusers_class(name: str) -> Any:
    """A model class of diffusers."""
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
    """A component on the meta device: of diffusers, or a text encoder of transformers."""
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
    """The pipeline's figures that the laws need; one with the tensors of a bundled pipeline is known, any other is run."""
    from torch.nn import Module  # noqa: PLC0415 loaded when first needed

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


def is_pipeline(config: Mapping[str, Any]) -> bool:
    """Whether a parsed object maps component names to configurations of models."""
    parts = [v for v in config.values() if isinstance(v, Mapping)]
    return bool(parts) and len(parts) == len(config) and any("_class_name" in v for v in parts)


def resolve_pipeline(
    components: Mapping[str, Mapping[str, Any]], origin: Origin = UNKNOWN_ORIGIN, *, limit_s: float | None = _RUNS_S
) -> ModelSpec:
    """Resolve a pipeline from the configurations of its components.

    Args:
        components: parsed config.json by folder name, models only.
        origin: where they came from; without a task, picture or video by the classes.
        limit_s: seconds after which its runs are given up; None lets them take as long as they need.
    """
    check_config(components)
    parts = {name: build_component(name, config) for name, config in components.items()}
    tensors = tuple(group for part in parts.values() for group in part.groups)
    pipeline = _run(parts, tensors, limit_s)
    classes = ", ".join(f"{name}: {part.kind}" for name, part in parts.items())
    video = pipeline.frame_step > 0 if pipeline else any(word in part.kind for part in parts.values() for word in _VIDEO_CLASSES)
    return make_tokenless_spec(
        tensors,
        id=origin.id,
        architecture=next((part.kind for name, part in parts.items() if name in {"transformer", "unet"}), ""),
        task=origin.task or ("text-to-video" if video else "text-to-image"),
        library="diffusers",
        source=origin.source,
        stored=StoredWeights(dtype="", bytes_by_dtype=dict(origin.bytes_by_dtype or {})),
        license=origin.license,
        gated=origin.gated,
        caveats=() if pipeline else (Caveat("pipeline_activations"),),
        sources=(Source(what="parameters and activations", source=f"classes on the meta device ({classes})", checked=origin.checked),),
        pipeline=pipeline,
    )


Point = tuple[float, float, float]
"""Pictures or clips, megapixels, latent frames."""

_SIDES = (0.5, 0.75, 1.0)
_FRAMES = (5, 7)
_LARGEST = 16  # pictures at once, and times the usual pixels, for which the fullest moments are looked for


_PICTURE_BYTES, _PICTURE_WORK, _ALL = (0, 1, 2, 3), (0, 2, 3), tuple(range(6))
"""Terms that differ if there is one frame, and all of them."""


def _solve(rows: Sequence[Sequence[float]], values: Any, terms: Sequence[int]) -> Any:
    """Coefficients (terms, columns) for which rows · coefficients are the values, with only these terms; the others are 0."""
    table, wanted = np.array(rows), np.array(values, dtype=float)
    solution = np.zeros((table.shape[1], *wanted.shape[1:]))
    solution[list(terms)] = np.linalg.lstsq(table[:, list(terms)], wanted, rcond=None)[0]
    return solution


class _Runs:
    """Runs at the points that the terms need, and what they say."""

    def __init__(self, pipeline: MetaPipeline, default: Shape) -> None:
        self.pipeline, self.default, self.clips = pipeline, default, pipeline.makes_clips
        step, per_latent = pipeline.granularity, max(1, pipeline.temporal)
        sides = [[max(1, round(side * share / step)) * step for side in (default.height, default.width)] for share in _SIDES]
        frames = [(latents - 1) * per_latent + 1 for latents in _FRAMES] if self.clips else [0]
        shapes = [replace(default, height=h, width=w, frames=n) for (h, w), n in product(sides, frames)]
        self.shapes = [*shapes, replace(shapes[0], batch=2), replace(shapes[-1], batch=2)]

    def point(self, shape: Shape) -> Point:
        """A shape in the numbers of the terms."""
        frames = latent_frames(shape.frames, max(1, self.pipeline.temporal) if self.clips else 0)
        return float(shape.batch), shape.height * shape.width / 1e6, frames

    def fits(
        self, stages: Sequence[StageRun], shapes: Sequence[Shape], name: Literal["denoise", "decode"], component: str, **kind: Any
    ) -> list[StageFit]:
        """The fullest moments of a stage."""
        from lib.model.activations import find_peaks  # noqa: PLC0415 loaded when first needed

        rows = [byte_terms(*self.point(shape)) for shape in shapes]
        same = len({len(stage.moments) for stage in stages}) == 1
        table = [stage.moments for stage in stages] if same else [[stage.peak] for stage in stages]
        coefficients = _solve(rows, table, _ALL if self.clips else _PICTURE_BYTES).T  # (moments, terms)
        usual = self.point(self.default)
        frames = sorted({*(float(f) for f in _FRAMES), usual[2], 4 * usual[2]}) if self.clips else [1.0]
        grid = [
            byte_terms(batch, usual[1] * share, f)
            for batch, share, f in product((1, 4, _LARGEST), (1 / _LARGEST, 0.25, 1, 4, _LARGEST), frames)
        ]
        peaks = find_peaks(coefficients, np.array(grid).T)
        return [StageFit(stage=name, component=component, coefficients=_short(coefficients[k]), **kind) for k in peaks]


def _short(values: Any) -> tuple[float, ...]:
    """Six coefficients with as many digits as matter."""
    numbers = [float(f"{value:.7g}") for value in values]
    return (*numbers, *[0.0] * (6 - len(numbers)))


def describe_pipeline(parts: Mapping[str, Module], encoders: Mapping[str, BuiltModel], limit_s: float | None = None) -> Pipeline:
    """Run the pipeline and keep what the laws need.

    Args:
        parts: denoiser and VAE by folder, on the meta device.
        encoders: text encoders by folder.
        limit_s: seconds after which no further run is begun.
    """
    import torch  # noqa: PLC0415 loaded when first needed

    from lib.model.pipeline_run import MetaPipeline, run_encoder  # noqa: PLC0415

    end = None if limit_s is None else monotonic() + limit_s
    pipeline = MetaPipeline(parts)

    def call(shape: Shape, dtype: torch.dtype = torch.bfloat16) -> PipelineRun:
        if end is not None and monotonic() > end:
            raise UnsupportedModel("The runs of this pipeline take too long.")
        return pipeline.call(shape, dtype)

    # Run denoiser and VAE at several sizes, and fit their peaks.
    start = pipeline.default_shape()
    runs = _Runs(pipeline, start)
    denoiser, vae = pipeline.denoiser_folder, "vae"
    full = [call(shape) for shape in runs.shapes]
    fits = runs.fits([run.denoise for run in full], runs.shapes, "denoise", denoiser)
    fits += runs.fits([run.decode for run in full], runs.shapes, "decode", vae)
    if getattr(pipeline.vae.config, "force_upcast", False):
        half = [call(shape, torch.float16) for shape in runs.shapes]
        fits += runs.fits([run.denoise for run in half], runs.shapes, "denoise", denoiser, dtype="fp16")
        fits += runs.fits([run.decode for run in half], runs.shapes, "decode", vae, dtype="fp16")
    # Text encoders on one and two prompts.
    encoded = {name: [run_encoder(built, prompts, pipeline.prompt_tokens) for prompts in (1, 2)] for name, built in encoders.items()}
    # Guidance: compare the work with a run without it.
    plain = call(replace(runs.shapes[0], guided=False))
    guided = full[0].denoise  # twice the work in as many operations is twice the batch
    guidance: Literal["batched", "sequential", "embedded"] = "embedded"
    if guided.flop >= 1.5 * plain.denoise.flop:
        guidance = "batched" if len(guided.moments) < 1.5 * len(plain.denoise.moments) else "sequential"
    # Work by pixels, of one evaluation.
    single = [k for k, shape in enumerate(runs.shapes) if shape.batch == 1]
    rows = [work_terms(*runs.point(runs.shapes[k])[1:]) for k in single]
    terms = _ALL if runs.clips else _PICTURE_WORK
    evaluations = 1 if guidance == "embedded" else 2
    of_encoders = [  # bytes for B prompts, from runs on one and on two
        StageFit(stage="encode", component=name, coefficients=_short([2 * one.peak - two.peak, two.peak - one.peak]))
        for name, (one, two) in encoded.items()
    ]
    try:
        kept, blocks = _describe_training(runs, end)
    except Exception as error:  # noqa: BLE001 as in `_run`; without gradients the pipeline is still known
        log.info("denoiser not run with gradients: %s: %s", type(error).__name__, str(error)[:200])
        kept, blocks = (), (0, 0, 0)
    return Pipeline(
        granularity=pipeline.granularity,
        frame_step=max(1, pipeline.temporal) if runs.clips else 0,
        height=start.height,
        width=start.width,
        frames=start.frames,
        steps=pipeline.steps,
        prompt_tokens=pipeline.prompt_tokens,
        guidance=guidance,
        flop=_short(_solve(rows, [full[k].denoise.flop / evaluations for k in single], terms)),
        decoder_flop=_short(_solve(rows, [full[k].decode.flop for k in single], terms)),
        encoder_flop=float(sum(one.flop for one, _ in encoded.values())),
        product_bytes_per_flop=_product_bytes_per_flop(full[single[-1]].denoise),
        tile=pipeline.tile_megapixels,
        units={name: _units(module) for name, module in (*parts.items(), *((n, b.model) for n, b in encoders.items()))},
        fits=(*of_encoders, *fits),
        kept=kept,
        blocks=blocks,
    )


def _describe_training(runs: _Runs, end: float | None) -> tuple[tuple[KeptFit, ...], tuple[int, int, int]]:
    """The bytes that training keeps, by the trained weights; () where the denoiser cannot be run with gradients, or not in time."""
    from lib.model.training_run import run_training  # noqa: PLC0415 loaded when first needed

    few = [shape for shape in runs.shapes if shape.height in {runs.shapes[0].height, runs.default.height}]
    shapes = [replace(shape, batch=batch) for shape in dict.fromkeys(replace(s, batch=1) for s in few) for batch in (1, 2)]
    rows = [byte_terms(*runs.point(shape)) for shape in shapes]
    fits: list[KeptFit] = []
    blocks = (0, 0, 0)
    for trained, autocast in product(TRAINED, (True, False)):
        kept = []
        for shape in shapes:
            if end is not None and monotonic() > end:
                return (), (0, 0, 0)
            of, sizes = run_training(runs.pipeline, shape, trained, autocast=autocast)
            kept.append(of)
            blocks = max(blocks, (sizes.number, sizes.parameters, sizes.largest))
        table = _solve(rows, kept, _ALL if runs.clips else _PICTURE_BYTES).T
        fits += [
            KeptFit(trained=trained, autocast=autocast, group=group, coefficients=_short(coefficients))
            for group, coefficients in zip(KEPT_GROUPS, table, strict=True)
        ]
    return tuple(fits), blocks


def _product_bytes_per_flop(run: StageRun) -> float:
    return float(f"{run.product_bytes / (run.flop - run.attention_flop):.4g}")


def _units(module: Module) -> tuple[int, int, int]:
    """Parameters of the largest module without children, of the largest block of a list of modules, and of the modules outside lists."""
    from torch.nn import ModuleList  # noqa: PLC0415 loaded when first needed

    def count(module: Module) -> int:
        return sum(p.numel() for p in module.parameters())

    leaves = max((count(m) for m in module.modules() if not list(m.children())), default=0)
    inner = {id(m) for m in module.modules() if isinstance(m, ModuleList) for item in m for m in item.modules()}
    lists = [m for m in module.modules() if isinstance(m, ModuleList) and id(m) not in inner]
    blocks = [count(item) for modules in lists for item in modules]
    return leaves, max(blocks, default=0), count(module) - sum(blocks)
