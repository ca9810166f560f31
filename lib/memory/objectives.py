"""Needs of a training objective: passes, models and data, and the model that it trains.

A reward model has a score in place of the output projection. Preferences and rewards are those of TRL.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lib.catalog.rows import ById
from lib.errors import BadArgument
from lib.workload import OBJECTIVE_TRAITS, Objective

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


def check_objective(spec: ModelSpec, request: TrainingRequest) -> None:
    """Refuse what TRL does not train.

    Raises:
        BadArgument: with what is accepted.
    """
    if request.objective == "sft":
        return
    if request.stack != "trl":
        raise BadArgument("stack", request.stack, f"trl with objective {request.objective}: other stacks are not modelled")
    if spec.work != "decoder":
        raise BadArgument("objective", request.objective, "sft: TRL trains preferences and rewards of models that write text")
    least = OBJECTIVE_TRAITS[request.objective].least_micro_batch
    if request.micro_batch < least:
        raise BadArgument("micro_batch", request.micro_batch, f"{least} or more with objective {request.objective}")


def train_model(spec: ModelSpec, objective: Objective) -> ModelSpec:
    """The model as this objective trains it: a reward model has a score in place of the head."""
    return _without_head(ById(spec)) if OBJECTIVE_TRAITS[objective].loss == "score" else spec


@lru_cache(maxsize=64)
def _without_head(key: ById[ModelSpec]) -> ModelSpec:
    spec = key.value
    head = sum(group.parameters for group in spec.tensors if group.kind == "head")
    return replace(
        spec,
        tensors=tuple(group for group in spec.tensors if group.kind != "head"),
        parameters_total=spec.parameters_total - head,
        parameters_active=spec.parameters_active - head,
    )
