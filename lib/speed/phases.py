"""A training step by phase: what tensors hold in each, and its share of the step's time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lib.memory.rollouts import UPDATE_MOMENTS, list_moments
from lib.result import Result
from lib.speed.rollouts import with_mean_lengths
from lib.speed.training import card_rates, predict_step, step_work, time_step, train_on
from lib.speed.training_constants import load_speed

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


PhaseName = Literal["policy forward", "reference forward", "backward", "update", "rollout", "scoring"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPhase(Result):
    """A phase of a step."""

    name: PhaseName
    """policy forward; reference forward (all passes without gradient, with the policy's activations kept); backward, with recomputed
    layers; update, the optimizer's step. GRPO: rollout, while answers are written; scoring, the passes without gradient; update, all
    the rest."""
    allocated_bytes: int
    """Bytes that tensors hold at its fullest moment, on the fullest device."""
    time_share: float | None
    """Share of a step's time on one A100 without what passes a link; null if that card has no published rates."""
    seconds: float | None
    """Seconds of a step on that A100."""


def split_step(
    spec: ModelSpec, request: TrainingRequest, card: Accelerator, accelerators: Mapping[str, Accelerator]
) -> tuple[TrainingPhase, ...]:
    """The phases of a step in their order; times by forward passes, which a backward one takes once or twice."""
    moments = list_moments(spec, request)
    peaks = {name: sum(parts.values()) for name, parts in moments._asdict().items()}
    if request.samples:
        return _split_grpo(spec, request, card, accelerators, peaks)
    apart = request.passes_without_gradient
    backward = (2 if request.method == "full" else 1) + (request.checkpointing != "none")
    forward = max(peaks["logits"], peaks["encoder_forward"])
    sizes: dict[PhaseName, int] = {"policy forward": forward, "reference forward": peaks["logits"]}
    sizes |= {"backward": max(peaks["loss"], peaks["layer"], peaks["end"], peaks["encoder_backward"]), "update": peaks["update"]}
    seconds: dict[PhaseName, float | None] = dict.fromkeys(sizes)
    rates = card_rates(card)
    if rates is not None:
        constants, _ = load_speed()
        work = step_work(spec, with_mean_lengths(request))
        step = time_step(work, constants, rates, request.accumulation)
        passes = time_step(work._replace(trained_bytes=0.0), constants, rates, request.accumulation)
        each = passes / (1 + apart + backward)
        seconds = {"policy forward": each, "reference forward": apart * each, "backward": backward * each, "update": step - passes}
    return _write({name: size for name, size in sizes.items() if apart or name != "reference forward"}, seconds)


def _split_grpo(
    spec: ModelSpec, request: TrainingRequest, card: Accelerator, accelerators: Mapping[str, Accelerator], peaks: Mapping[str, int]
) -> tuple[TrainingPhase, ...]:
    """Rollout, scoring and update on one card; without scoring if nothing is scored again."""
    alone = replace(request, devices=1, sharding="none")
    speed = predict_step(spec, train_on(card, alone, card.memory_usable or 0), card, accelerators)
    update = max(peaks[name] for name in UPDATE_MOMENTS)
    sizes: dict[PhaseName, int] = {"rollout": peaks["rollout"], "scoring": peaks["scoring"], "update": update}
    seconds: dict[PhaseName, float | None] = dict.fromkeys(sizes)
    if speed is not None and speed.phases is not None:
        seconds = {"rollout": speed.phases.rollout, "scoring": speed.phases.scoring, "update": speed.phases.update}
    return _write({name: size for name, size in sizes.items() if size}, seconds)


def _write(sizes: Mapping[PhaseName, int], seconds: Mapping[PhaseName, float | None]) -> tuple[TrainingPhase, ...]:
    known = [taken for name in sizes if (taken := seconds[name]) is not None]
    return tuple(
        TrainingPhase(
            name=name,
            allocated_bytes=size,
            time_share=None if (taken := seconds[name]) is None else taken / sum(known),
            seconds=taken,
        )
        for name, size in sizes.items()
    )
