"""A training step by phase: what tensors hold in each, and its share of the step's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lib.memory.training import step_peaks
from lib.result import Result
from lib.speed.training import card_rates, load_speed, step_work, time_step
from lib.workload import OBJECTIVE_TRAITS

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPhase(Result):
    """A phase of a step."""

    name: Literal["policy forward", "reference forward", "backward", "update"]
    """policy forward; reference forward (all passes without gradient, with the policy's activations kept); backward, with what is
    recomputed; update, the optimizer's step."""

    allocated_bytes: int
    """Bytes that tensors hold at its fullest moment, on the fullest device."""

    time_share: float | None
    """Share of a step's time on one A100 without what passes a link; null where that card has no published rates."""


def split_step(spec: ModelSpec, request: TrainingRequest, card: Accelerator) -> tuple[TrainingPhase, ...]:
    """The phases of a step in their order; times by forward passes, which a backward one takes once or twice."""
    peaks = {name: sum(parts.values()) for name, parts in step_peaks(spec, request)._asdict().items()}
    apart = OBJECTIVE_TRAITS[request.objective].passes_without_gradient
    backward = (2 if request.method == "full" else 1) + (request.checkpointing != "none")
    sizes = {"policy forward": peaks["logits"], "reference forward": peaks["logits"]}
    sizes |= {"backward": max(peaks["loss"], peaks["layer"], peaks["end"]), "update": peaks["update"]}
    shares: dict[str, float | None] = dict.fromkeys(sizes)
    rates = card_rates(card)
    if rates is not None:
        constants, _ = load_speed()
        work = step_work(spec, request)
        step = time_step(work, constants, rates, request.accumulation)
        passes = time_step(work._replace(trained_bytes=0.0), constants, rates, request.accumulation) / step
        each = passes / (1 + apart + backward)
        shares = {"policy forward": each, "reference forward": apart * each, "backward": backward * each, "update": 1 - passes}
    return tuple(
        TrainingPhase(name=name, allocated_bytes=size, time_share=shares[name])  # type: ignore[arg-type]
        for name, size in sizes.items()
        if apart or name != "reference forward"
    )
