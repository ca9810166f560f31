"""The answer of `/estimate_training` for a model that makes pictures or clips: memory by part, and the hardware that holds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lib.answers.training import TrainingAnswer, describe_step
from lib.laws import training as law
from lib.memory.picture_training import MEASURED, check_picture_training, count_positions, estimate_picture_training, resolve_picture
from lib.provenance import Caveat, Source
from lib.speed.picture_training import judge_pictures, rank_picture_hardware
from lib.speed.training_hardware import OwnTraining, own_caveats, trains_on

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Hardware
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

CHECKED = "2026-11-26"


def answer_picture_training(
    spec: ModelSpec, request: TrainingRequest, catalog: Catalog, platforms: Sequence[str], *, rows: int, cards: Hardware | None = None
) -> TrainingAnswer:
    """Memory of a step that trains a denoiser, and the hardware that holds it, for so many pictures over all epochs.

    `cards` are those of the visitor's own, of which one trains.

    Raises:
        UnsupportedModel: a pipeline that was not run with gradients here.
        BadArgument: arguments that a denoiser is not trained with.
    """
    check_picture_training(spec, request)
    step, size = estimate_picture_training(spec, request), resolve_picture(spec, request)
    positions = count_positions(spec, size)
    own = OwnTraining(cards=next(judge_pictures(spec, request, [cards]))) if cards is not None and trains_on(cards) else None
    total = max(1, rows * positions)
    caveats = [Caveat("picture_training", {"width": size.width, "height": size.height, "positions": positions})]
    if spec.architecture not in MEASURED:
        caveats.append(Caveat("picture_training_unmeasured", {"architecture": spec.architecture}))
    if request.pictures.cached in {"none", "text"}:
        caveats.append(Caveat("picture_training_encodes"))
    if request.accumulation > 1:
        caveats.append(Caveat("training_accumulates", {"accumulation": request.accumulation}))
    return TrainingAnswer(
        model=spec.id,
        method=request.method,
        objective=request.objective,
        stack="diffusers",
        optimizer=request.optimizer,
        precision=request.precision,
        checkpointing=request.checkpointing,
        sharding=request.sharding,
        devices=1,
        longest_row_tokens=positions,
        total_tokens=total,
        steps=math.ceil(total / step.tokens_per_step),
        **describe_step(step),
        options=tuple(rank_picture_hardware(spec, request, catalog, platforms)),
        own=own,
        phases=(),
        shardings=(),
        changes=(),
        server_command=None,
        command=None,
        script=None,
        caveats=(*spec.caveats, *own_caveats(cards, own), *caveats),
        sources=(
            *spec.sources,
            Source(what="memory of a step", source=law.LAW.source, checked=CHECKED),
            Source(what="bytes kept for the backward pass", source="diffusers 0.42.1 and torch 2.13, executed", checked=CHECKED),
        ),
    )
