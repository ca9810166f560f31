"""Seconds of a step of GRPO: rollout by the law of serving, scoring and update by the law of training.

    rollout    answers · mean length / rate, then the longest answer alone (`lib.laws.rl`), and handing the weights to vLLM; written by the
               trainer's own model at least longest · (c_r · layers + c_a · adapters), and bytes of unpacked and merged weights a token
    scoring    the forward passes without gradient
    update     forward, backward and optimizer of all micro-batches

Lengths are means: of prompts as stated, of answers as stated or else their limit. One phase follows the other, as TRL runs them. Reward
functions are not timed. Limits: a colocated vLLM writes for the GPUs that share it; one on other GPUs serves all of them, split as the
engine splits by itself. The host's seconds c are fitted on rollouts that this project measured on one H100 (`scripts/check_training.py`),
whose processor is an Intel Xeon of 16 cores; a slower one takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lib.catalog.offers import own_hardware
from lib.errors import InvalidInput, UnsupportedModel
from lib.laws.rl import rollout_seconds
from lib.memory.resolve import layer_sizes
from lib.memory.rollouts import (
    colocated_devices,
    engine_answers,
    prompt_tokens,
    rollout_precision,
    rollout_share,
    serving_settings,
    trainer_precision,
)
from lib.precision import weight_format
from lib.request.serving import DEFAULTS
from lib.speed.adapter_work import MERGE_PASSES, count_adapters, count_experts, count_unpacked
from lib.speed.batch import SpeedRequest
from lib.speed.estimate import predict_speed
from lib.speed.hardware import find_link_rate
from lib.speed.training_constants import RolloutConstants, load_rollout, load_speed

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


class GrpoSeconds(NamedTuple):
    """Seconds of the phases of a step."""

    rollout: float
    scoring: float
    update: float


def mean_lengths(request: TrainingRequest) -> tuple[int, int]:
    """Mean tokens of a prompt and of an answer."""
    longest = prompt_tokens(request)
    prompt = min(longest, max(1, round(request.row_tokens))) if request.row_tokens else longest
    answer = request.rollout.mean_completion_tokens or request.rollout.completion_tokens
    return prompt, min(answer, request.rollout.completion_tokens)


def with_mean_lengths(request: TrainingRequest) -> TrainingRequest:
    """The request with sequences of the mean length: its tokens are those that a step works on. Tokens that pad a batch are not counted.

    Packed sequences keep their length.
    """
    if request.samples:
        return replace(request, sequence_tokens=sum(mean_lengths(request)))
    if request.packing or not request.row_tokens:
        return request
    return replace(request, sequence_tokens=max(1, min(request.sequence_tokens, round(request.row_tokens))))


def time_rollouts(spec: ModelSpec, request: TrainingRequest, card: Accelerator, accelerators: Mapping[str, Accelerator]) -> float | None:
    """Seconds to write the answers of a step on cards of this kind; None if the engine's speed cannot be predicted."""
    rollout = request.rollout
    traits = rollout.traits
    prompt, mean = mean_lengths(request)
    longest = rollout.completion_tokens
    answers = engine_answers(request)
    cards = rollout.rollout_devices if traits.own_devices else colocated_devices(request)
    asked = SpeedRequest(
        precision=trainer_precision(request) if traits.starts_together else rollout_precision(request),
        engine=traits.engine,
        prompt_tokens=prompt,
        output_tokens=longest if traits.starts_together else mean,
        concurrency=answers,
        serving=serving_settings(request, rollout_share(spec, request)) if traits.holds_share else DEFAULTS,
    )
    # Speed with all answers at once, and of the longest answer alone at the end.
    hardware = own_hardware(card, cards)
    try:
        together = predict_speed(spec, hardware, asked, accelerators)
        alone = predict_speed(spec, hardware, replace(asked, concurrency=1), accelerators)
    except (InvalidInput, UnsupportedModel):
        return None
    if together.throughput_tokens_per_s is None or alone.tpot_s is None:
        return None
    writing = rollout_seconds(
        answers=answers,
        mean_tokens=asked.output_tokens,
        longest_tokens=longest,
        tokens_per_s=together.throughput_tokens_per_s.value,
        lone_tpot_s=alone.tpot_s.value,
    )
    # The trainer's own model is at least as slow as the host that launches its kernels.
    if traits.starts_together:
        writing = max(writing, longest * host_token_s(spec, request, load_rollout())) + longest * _weights_token_s(spec, request, card)
    return writing + _sync_seconds(spec, request, card)


def host_token_s(spec: ModelSpec, request: TrainingRequest, constants: RolloutConstants) -> float:
    """Seconds in which the host starts the kernels of one token, if the trainer's own model writes it with its adapters on."""
    return constants.layer_s * layer_sizes(spec).layers + constants.adapter_s * count_adapters(spec, request).matrices


def _weights_token_s(spec: ModelSpec, request: TrainingRequest, card: Accelerator) -> float:
    """Seconds for one token in which bitsandbytes unpacks all weights, and peft adds adapters to the weights of experts."""
    constants, _ = load_speed()
    moved = constants.unpack * count_unpacked(spec, request) + MERGE_PASSES * count_experts(spec, request).merged_bytes
    return moved / card.bandwidth


def _sync_seconds(spec: ModelSpec, request: TrainingRequest, card: Accelerator) -> float:
    """Handing the weights to vLLM: over the link to other GPUs, else a copy on the card; sharded weights are gathered over the link."""
    traits = request.rollout.traits
    if traits.starts_together:
        return 0.0
    size = spec.parameters_total * weight_format(rollout_precision(request)).effective_bits / 8
    link, _ = find_link_rate(card)
    over_link = traits.own_devices or request.shards_weights
    return size / link if over_link else 2 * size / card.bandwidth
