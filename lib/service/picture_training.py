"""The answer of `/estimate_training` for a model that makes pictures or clips: memory by part, and the hardware that holds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lib.answers.training import TrainingAnswer, describe_step
from lib.laws import training as law
from lib.laws.picture_training import LAW as TIME
from lib.memory.picture_training import (
    MEASURED,
    base_format,
    check_picture_training,
    count_positions,
    estimate_picture_training,
    resolve_picture,
)
from lib.present.picture_files import find_obstacle, picture_script
from lib.present.training_cards import describe_changes
from lib.present.training_files import start_command
from lib.provenance import Caveat, Source
from lib.speed.own_training import OwnTraining, own_caveats
from lib.speed.picture_training import find_picture_changes, judge_pictures, rank_picture_hardware
from lib.speed.training import train_on
from lib.speed.training_hardware import find_started, trains_on

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.catalog.offers import Hardware
    from lib.memory.pipeline import OutputSize
    from lib.model.spec import ModelSpec
    from lib.speed.training_hardware import TrainingOption
    from lib.workload import TrainingRequest

CHECKED = "2026-11-26"
REFERENCE = "A100-SXM4-80GB"
"""The card on which a change's effect on speed is predicted, as for text."""


def answer_picture_training(
    spec: ModelSpec,
    request: TrainingRequest,
    catalog: Catalog,
    platforms: Sequence[str],
    *,
    rows: int,
    epochs: float,
    cards: Hardware | None = None,
) -> TrainingAnswer:
    """Memory of a step that trains a denoiser, hardware with hours and dollars, changes, script and command.

    Args:
        spec: a pipeline.
        request: the question about a step.
        catalog: offers and cards.
        platforms: where hardware is looked for.
        rows: pictures or clips of the dataset.
        epochs: passes over them.
        cards: those of the visitor's own, of which one trains.

    Raises:
        UnsupportedModel: a pipeline that was not run with gradients here.
        BadArgument: arguments that a denoiser is not trained with.
    """
    check_picture_training(spec, request)
    step, size = estimate_picture_training(spec, request), resolve_picture(spec, request)
    positions = count_positions(spec, size)
    total = max(1, round(rows * epochs * positions))
    judged = judge_pictures(spec, request, [cards], total_tokens=total) if cards is not None and trains_on(cards) else None
    own = OwnTraining(cards=next(judged)) if judged is not None else None
    caveats = [Caveat("picture_training", {"width": size.width, "height": size.height, "positions": positions})]
    peaks, name = MEASURED.get(spec.architecture, 0), {"architecture": spec.architecture}
    caveats.append(Caveat("picture_training_measured", name | {"rows": peaks}) if peaks else Caveat("picture_training_unmeasured", name))
    if request.pictures.cached in {"none", "text"}:
        caveats.append(Caveat("picture_training_encodes"))
    if request.accumulation > 1:
        caveats.append(Caveat("training_accumulates", {"accumulation": request.accumulation}))
    if base_format(request) == "nf4" or request.pictures.base_offload:
        caveats.append(Caveat("picture_training_time_unmeasured"))
    options = rank_picture_hardware(spec, request, catalog, platforms, total_tokens=total)
    command, script = _recipe(spec, request, find_started(options, own.cards if own else None), size, catalog, epochs)
    changes = find_picture_changes(spec, request, catalog.accelerator(REFERENCE))
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
        options=tuple(options),
        own=own,
        phases=(),
        shardings=(),
        changes=describe_changes(request, changes),
        server_command=None,
        command=command,
        script=script,
        caveats=(*spec.caveats, *own_caveats(cards, own), *caveats),
        sources=(
            *spec.sources,
            Source(what="memory of a step", source=law.LAW.source, checked=CHECKED),
            Source(what="seconds of a step", source=TIME.source, checked=CHECKED),
            Source(what="bytes kept for the backward pass", source="diffusers 0.42.1 and torch 2.13, executed", checked=CHECKED),
        ),
    )


def _recipe(
    spec: ModelSpec, request: TrainingRequest, place: TrainingOption | None, size: OutputSize, catalog: Catalog, epochs: float
) -> tuple[str | None, str | None]:
    """The command and the script for the hardware that trains it; none if no script is written for it."""
    if place is None or "/" not in spec.id or find_obstacle(request) is not None:
        return None, None
    asked = train_on(catalog.accelerator(place.accelerator), request)
    half = "fp16" if asked.fp16 else "bf16"
    script = picture_script(spec.id, asked, size, epochs=epochs, half=half)
    return start_command(place), script
