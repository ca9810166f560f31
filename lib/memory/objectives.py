"""Needs of a training objective: passes, models and data, and the model that it trains.

A reward model has a score in place of the output projection. Preferences and rewards are those of TRL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lib.catalog.rows import ById
from lib.errors import BadArgument
from lib.laws.rl import pair_logit_bytes
from lib.laws.training import LossBytes, logprob_bytes, similarity_bytes
from lib.memory.stacks import is_modelled
from lib.provenance import Caveat
from lib.request.objectives import MOST_GENERATIONS, OBJECTIVE_TRAITS, Library, Objective
from lib.request.words import note_caveat
from lib.units import Bytes
from lib.workload import WHOLE_WEIGHTS, Stack

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


OBJECTIVE_STACKS: Mapping[Library, Stack] = MappingProxyType(
    {"trl": "trl", "sentence-transformers": "transformers", "transformers": "transformers"}
)
"""The stack whose step a library takes: the trainer of sentence-transformers is that of transformers with another loss."""


WITH_VALUE_MODEL = frozenset({"PPO", "RLHF with PPO"})
"""Objectives shown as GRPO that also train a value model."""


def note_shown_as_grpo(asked: str) -> None:
    """Remember, for the answer that is being made, that an objective that is not modelled is shown as GRPO."""
    variant = "value_model" if asked in WITH_VALUE_MODEL else ""
    note_caveat(Caveat("training_shown_as_grpo", {"asked": asked}, variant=variant))


def as_trained(request: TrainingRequest) -> TrainingRequest:
    """The request with the stack that trains its objective, and at least its smallest micro-batch, which a caveat names.

    Only supervised training packs sequences.
    """
    traits = OBJECTIVE_TRAITS[request.objective]
    own = OBJECTIVE_STACKS[traits.trainer]
    stack = request.stack if is_modelled(request) and own == "trl" else own
    if request.micro_batch < traits.least_micro_batch:
        note_caveat(Caveat("training_least_micro_batch", {"micro_batch": traits.least_micro_batch}))
    micro_batch = max(request.micro_batch, traits.least_micro_batch)
    return replace(request, stack=stack, micro_batch=micro_batch, packing=request.packing and request.objective == "sft")


_USUAL: Mapping[str, Objective] = MappingProxyType(
    {
        "fill-mask": "sft", "text-classification": "classify", "zero-shot-classification": "classify", "token-classification": "classify",
        "text-ranking": "rerank",
    }
)  # fmt: skip
"""The usual objective of an encoder, by its task on the Hub; of others it is the first that trains embeddings."""


def list_objectives(spec: ModelSpec) -> tuple[Objective, ...]:
    """The objectives that suit a model, the usual one first."""
    able = tuple(name for name, row in OBJECTIVE_TRAITS.items() if spec.work in row.works)
    if not able or "sft" in able:
        return able or ("sft",)
    usual = _USUAL.get(spec.task, able[0])
    return (usual, *(name for name in able if name != usual))


def check_objective(spec: ModelSpec, request: TrainingRequest) -> None:
    """Refuse models and options that TRL does not train.

    Raises:
        BadArgument: with the accepted values.
    """
    if request.objective == "sft":
        return
    traits = OBJECTIVE_TRAITS[request.objective]
    if request.stack != OBJECTIVE_STACKS[traits.trainer]:
        accepted = f"{OBJECTIVE_STACKS[traits.trainer]} with objective {request.objective}: other stacks are not modelled"
        raise BadArgument("stack", request.stack, accepted)
    if spec.work not in traits.works:
        able = [name for name, row in OBJECTIVE_TRAITS.items() if spec.work in row.works and name != "sft"]
        why = "TRL trains preferences and rewards of models that write text" if traits.trainer == "trl" else f"this model is a {spec.work}"
        raise BadArgument("objective", request.objective, f"{', '.join(['sft', *able])}: {why}")
    if request.checkpointing == "offloaded" and not traits.offloads:
        raise BadArgument("checkpointing", "offloaded", f"none or layers with objective {request.objective}: its trainer does not offload")
    least = traits.least_micro_batch
    if request.micro_batch < least:
        raise BadArgument("micro_batch", request.micro_batch, f"{least} or more with objective {request.objective}")
    if traits.samples:
        _check_rollouts(request)


_LEAST_GENERATIONS = 2
_SHOWN_DIVISORS = 12


def _check_rollouts(request: TrainingRequest) -> None:
    """Refuse lengths and groups that TRL's GRPOTrainer refuses."""
    rollout, answers = request.rollout, _count_answers(request)
    if request.method in WHOLE_WEIGHTS and not rollout.traits.starts_together:
        raise BadArgument("rollouts", rollout.rollouts, f"transformers with method={request.method}: vLLM takes no 8-bit weights from TRL")
    if rollout.generations < _LEAST_GENERATIONS:
        raise BadArgument("generations", rollout.generations, "2 or more with objective grpo: it compares the answers to one prompt")
    if rollout.completion_tokens >= request.sequence_tokens:
        accepted = f"at most {request.sequence_tokens - 1:,}: sequence_tokens ({request.sequence_tokens:,}) holds the prompt too"
        raise BadArgument("completion_tokens", rollout.completion_tokens, accepted)
    if rollout.mean_completion_tokens > rollout.completion_tokens:
        accepted = f"0, or at most completion_tokens ({rollout.completion_tokens:,})"
        raise BadArgument("mean_completion_tokens", rollout.mean_completion_tokens, accepted)
    if answers % rollout.generations:
        fitting = [str(n) for n in range(_LEAST_GENERATIONS, min(answers, MOST_GENERATIONS) + 1) if answers % n == 0][:_SHOWN_DIVISORS]
        divisor = f"a divisor of the {answers:,} answers of a step ({', '.join(fitting)})" if fitting else "2 or more answers in a step"
        product = f"micro_batch × accumulation × GPUs = {request.micro_batch:,} × {request.accumulation:,} × {request.devices:,}"
        raise BadArgument("generations", rollout.generations, f"{divisor}; {product}")


def _count_answers(request: TrainingRequest) -> int:
    return request.micro_batch * request.accumulation * request.devices


def make_whole_groups(request: TrainingRequest) -> TrainingRequest:
    """The request with the least accumulation, at least its own, with which the answers of a step make whole groups."""
    generations = request.rollout.generations
    if not request.samples or generations < _LEAST_GENERATIONS:
        return request
    unit = generations // math.gcd(request.micro_batch * request.devices, generations)
    return replace(request, accumulation=-(-request.accumulation // unit) * unit)


def divides_answers(request: TrainingRequest) -> bool:
    """Whether the answers of a step make whole groups and the GPUs whole vLLMs, as TRL's GRPOTrainer wants."""
    rollout = request.rollout
    whole = not rollout.traits.holds_share or request.devices % rollout.rollout_tensor_parallel == 0
    return not request.samples or (whole and _count_answers(request) % rollout.generations == 0)


def train_model(spec: ModelSpec, objective: Objective) -> ModelSpec:
    """The model as this objective holds it: with a score in place of the head, or without either."""
    return spec if spec.work in OBJECTIVE_TRAITS[objective].keeps_head_of else compute_model(spec, objective)


def compute_model(spec: ModelSpec, objective: Objective) -> ModelSpec:
    """The model as each token passes through it: without a head that makes the logits of one token."""
    return spec if OBJECTIVE_TRAITS[objective].has_head else _without_head(ById(spec))


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


class LogitSizes(NamedTuple):
    """Sizes that decide the memory of logits: tokens of a micro-batch, entries of the vocabulary, hidden size, bytes of an element."""

    tokens: int
    vocabulary: int
    hidden: int
    element_bytes: int


def objective_loss(request: TrainingRequest, sizes: LogitSizes) -> LossBytes:
    """Bytes of logits and loss of an objective of TRL other than supervised training."""
    match OBJECTIVE_TRAITS[request.objective].loss:
        case "log-probabilities":
            if request.samples:  # TRL scores the tokens of answers alone
                answers = request.micro_batch * min(request.rollout.completion_tokens, request.sequence_tokens)
                sizes = sizes._replace(tokens=answers)
            return logprob_bytes(**sizes._asdict(), trains_head=request.method == "full")
        case "logits":
            return pair_logit_bytes(tokens=sizes.tokens, vocabulary=sizes.vocabulary, pairs=request.micro_batch)
        case "similarities":
            parts = min(request.micro_batch, request.pairs.cached_batch)
            in_parts = OBJECTIVE_TRAITS[request.objective].in_parts
            return similarity_bytes(
                rows=parts if in_parts else request.micro_batch,
                candidates=request.micro_batch * (request.example_sequences - 1),
                sequences=request.micro_batch * request.example_sequences,
                hidden=sizes.hidden,
            )
        case _:
            return LossBytes(Bytes(0), Bytes(0))
