"""The memory and the work of a pipeline as functions of what is asked of it, from a few runs on the meta device.

The bytes alive at one moment of a run are a sum of tensors whose sizes are proportional to pictures, pixels and frames. Runs at a few
sizes make the same operations in the same order, so that each moment's coefficients follow from as many runs as there are terms, and the
few moments that can be the fullest are kept (`StageFit`). Where the number of operations follows the size (a VAE that decodes frames in
portions, tiles), the peaks themselves are fitted.

Source: diffusers and transformers as installed, as executed. Limits: those of `lib.model.pipeline_run`; in float32 every tensor is
counted twice as large as in 16 bits, which none exceeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch.nn import ModuleList

from lib.errors import UnsupportedModel
from lib.laws.pipeline import byte_terms, latent_frames, work_terms
from lib.model.activation_peaks import find_peaks
from lib.model.pipeline_run import MetaPipeline, PipelineRun, Shape, Stage, run_encoder
from lib.model.spec import Pipeline, StageFit

if TYPE_CHECKING:
    from torch.nn import Module

    from lib.model.build import BuiltModel

Point = tuple[float, float, float]
"""Pictures or clips, megapixels, latent frames."""

_SIDES = (0.5, 0.75, 1.0)
_FRAMES = (5, 7)
_LARGEST = 16  # pictures at once, and times the usual pixels, for which the fullest moments are looked for


_PICTURE_BYTES, _PICTURE_WORK, _ALL = (0, 1, 2, 3), (0, 2, 3), tuple(range(6))
"""Terms that can be told apart where there is one frame, and all of them."""


def _solve(rows: Sequence[Sequence[float]], values: Any, terms: Sequence[int]) -> Any:
    """Coefficients (terms, columns) for which rows · coefficients are the values, with only these terms; the others are 0."""
    table, wanted = np.array(rows), np.array(values, dtype=float)
    found = np.zeros((table.shape[1], *wanted.shape[1:]))
    found[list(terms)] = np.linalg.lstsq(table[:, list(terms)], wanted, rcond=None)[0]
    return found


class _Runs:
    """Runs at the points that the terms need, and what they say."""

    def __init__(self, pipeline: MetaPipeline, default: Shape) -> None:
        self.pipeline, self.default, self.clips = pipeline, default, pipeline.makes_clips
        sides = [self._size(share) for share in _SIDES]
        frames = [self._frame_count(f) for f in _FRAMES] if self.clips else [0]
        shapes = [Shape(height=h, width=w, frames=n) for (h, w), n in product(sides, frames)]
        self.shapes = [*shapes, replace(shapes[0], batch=2), replace(shapes[-1], batch=2)]

    def _size(self, share: float) -> tuple[int, int]:
        step = self.pipeline.granularity
        return tuple(max(1, round(side * share / step)) * step for side in (self.default.height, self.default.width))  # type: ignore[return-value]

    def _frame_count(self, latents: int) -> int:
        return (latents - 1) * max(1, self.pipeline.temporal) + 1

    def point(self, shape: Shape) -> Point:
        """A shape in the numbers of the terms."""
        frames = latent_frames(shape.frames, max(1, self.pipeline.temporal) if self.clips else 0)
        return float(shape.batch), shape.height * shape.width / 1e6, frames

    def fits(
        self, stages: Sequence[Stage], shapes: Sequence[Shape], name: Literal["denoise", "decode"], component: str, **kind: Any
    ) -> list[StageFit]:
        """The fullest moments of a stage."""
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
        kept = find_peaks(coefficients, np.array(grid).T)
        return [StageFit(stage=name, component=component, coefficients=_short(coefficients[k]), **kind) for k in kept]


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

    Raises:
        UnsupportedModel: a pipeline that is not known here, or that takes more operations than any published one.
    """
    end = None if limit_s is None else monotonic() + limit_s
    pipeline = MetaPipeline(parts)

    def call(shape: Shape, dtype: torch.dtype = torch.bfloat16) -> PipelineRun:
        if end is not None and monotonic() > end:
            raise UnsupportedModel("The runs of this pipeline take too long.")
        return pipeline.call(shape, dtype)

    start = pipeline.default_shape()
    runs = _Runs(pipeline, start)
    denoiser, vae = pipeline.denoiser_folder, "vae"
    done = [call(shape) for shape in runs.shapes]
    fits = runs.fits([run.denoise for run in done], runs.shapes, "denoise", denoiser)
    fits += runs.fits([run.decode for run in done], runs.shapes, "decode", vae)
    if getattr(pipeline.vae.config, "force_upcast", False):
        half = [call(shape, torch.float16) for shape in runs.shapes]
        fits += runs.fits([run.denoise for run in half], runs.shapes, "denoise", denoiser, dtype="fp16")
        fits += runs.fits([run.decode for run in half], runs.shapes, "decode", vae, dtype="fp16")
    encoded = {name: _encode(name, built, pipeline.prompt_tokens) for name, built in encoders.items()}
    plain = call(replace(runs.shapes[0], guided=False))
    guidance = _guidance(done[0].denoise, plain.denoise)
    single = [k for k, shape in enumerate(runs.shapes) if shape.batch == 1]
    rows = [work_terms(*runs.point(runs.shapes[k])[1:]) for k in single]
    terms = _ALL if runs.clips else _PICTURE_WORK
    evaluations = 1 if guidance == "embedded" else 2
    return Pipeline(
        granularity=pipeline.granularity,
        frame_step=max(1, pipeline.temporal) if runs.clips else 0,
        height=start.height,
        width=start.width,
        frames=start.frames,
        steps=pipeline.steps,
        prompt_tokens=pipeline.prompt_tokens,
        guidance=guidance,
        flop=_short(_solve(rows, [done[k].denoise.flop / evaluations for k in single], terms)),
        decoder_flop=_short(_solve(rows, [done[k].decode.flop for k in single], terms)),
        encoder_flop=float(sum(flop for _, flop in encoded.values())),
        tile=pipeline.tile_megapixels,
        units={name: _units(module) for name, module in (*parts.items(), *((n, b.model) for n, b in encoders.items()))},
        fits=(*(fit for fit, _ in encoded.values()), *fits),
    )


def _guidance(guided: Stage, plain: Stage) -> Literal["batched", "sequential", "embedded"]:
    """How guidance is taken, told from a run with and one without it: twice the work in as many operations is twice the batch."""
    if guided.flop < 1.5 * plain.flop:
        return "embedded"
    return "batched" if len(guided.moments) < 1.5 * len(plain.moments) else "sequential"


def _encode(name: str, built: BuiltModel, prompt_tokens: int) -> tuple[StageFit, int]:
    """One text encoder: bytes for B prompts, and FLOP for one."""
    one, two = (run_encoder(built, count, prompt_tokens) for count in (1, 2))
    each = two.peak - one.peak
    return StageFit(stage="encode", component=name, coefficients=_short([one.peak - each, each])), one.flop


def _units(module: Module) -> tuple[int, int, int]:
    """Parameters of the largest module without children, of the largest block of a list of modules, and of what stands outside lists."""

    def count(of: Module) -> int:
        return sum(p.numel() for p in of.parameters())

    leaves = max((count(m) for m in module.modules() if not list(m.children())), default=0)
    inner = {id(m) for m in module.modules() if isinstance(m, ModuleList) for item in m for m in item.modules()}
    lists = [m for m in module.modules() if isinstance(m, ModuleList) and id(m) not in inner]
    blocks = [count(item) for found in lists for item in found]
    return leaves, max(blocks, default=0), count(module) - sum(blocks)
