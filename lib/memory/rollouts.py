"""A training step of any objective, with the rollouts of GRPO: ModelSpec × TrainingRequest → bytes on the fullest device.

    estimate_step(spec, TrainingRequest(objective="grpo", accumulation=8)).device.typical

GRPO has two phases before the forward pass of `lib.memory.training`, and vLLM may keep memory throughout:

    rollout    states + KV cache of all answers of a device + the pass over their prompts    written by the trainer's own model
               states + vLLM                                                                 written by vLLM on the training GPUs
    scoring    states + 16-bit copies + a forward pass of one micro-batch without gradient, or its log-probabilities if larger
    update     the moments of `lib.laws.training`; the log-probabilities are those of the answers alone

Gradients are freed before a rollout. States of the optimizer are counted from the first step on; TRL has them from the second. The
trainer's own model writes without autocast in the format of its weights. So in full mixed precision weights and KV cache are in float32,
and adapters in float32 cast their input. ZeRO-3 gathers all weights. vLLM takes a share of the card, used or not. If no card is known, it
takes the bytes that weights and all answers need. A vLLM that sleeps keeps its runtime and graphs. Prompts and log-probabilities that
wait for their micro-batch are not counted: some 30 bytes a token.

Source: trl/trainer/grpo_trainer.py and trl/generation/vllm_generation.py of TRL 1.16.0, read 2026-11-26.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lib.catalog.rows import ById
from lib.engines import traits_of
from lib.errors import BadArgument
from lib.laws.activation import FLOAT32, HALF
from lib.laws.rl import LAW as RL_LAW
from lib.laws.rl import adapted_pass_bytes
from lib.laws.runtime import CUDA_CONTEXT
from lib.laws.training import STEADY, StepPart, StepPeaks
from lib.memory.per_device import PerDevice, count_per_device
from lib.memory.resolve import ENDLESS, find_largest, layer_sizes
from lib.memory.spread import tensor_parallel_degree
from lib.memory.stacks import adapter_bytes, quantized_base
from lib.memory.trained import select_adapted
from lib.memory.training import TrainingMemory, estimate_training, step_peaks
from lib.precision import QLORA
from lib.request.objectives import AS_TRL
from lib.request.serving import Serving
from lib.request.sharding import SHARDING_TRAITS
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

LAW = RL_LAW
TRL_BATCHED_TOKENS = 4096
"""`max_num_batched_tokens` of a colocated vLLM (trl/generation/vllm_generation.py)."""
UPDATE_MOMENTS = ("logits", "loss", "layer", "end", "update")
_STATES = STEADY - {StepPart.GRADIENTS, StepPart.OPTIMIZER_TEMPORARY}


def device_answers(request: TrainingRequest) -> int:
    """Answers that a training GPU writes in a step."""
    return request.micro_batch * request.accumulation


def prompt_tokens(request: TrainingRequest) -> int:
    """Tokens of a prompt at most, if the answer has its full length; at least one."""
    return max(1, request.sequence_tokens - request.rollout.completion_tokens)


def rollout_precision(request: TrainingRequest) -> str:
    """The format in which vLLM holds the policy: 4 bits where the policy is stored so, else 16."""
    return QLORA[request.double_quantization] if request.method == "qlora" else "fp16" if request.fp16 else "bf16"


def trainer_precision(request: TrainingRequest) -> str:
    """The format in which the trainer's own model writes: that of its weights."""
    whole = request.precision == "fp32" or (request.precision == "mixed" and request.method == "full")
    return "fp32" if whole else quantized_base(request) or rollout_precision(request)


def serving_settings(request: TrainingRequest, share: float | None = None) -> Serving:
    """Settings of a colocated vLLM, as TRL starts it."""
    return Serving(gpu_memory_utilization=share, max_num_seqs=engine_answers(request), max_num_batched_tokens=TRL_BATCHED_TOKENS)


def engine_answers(request: TrainingRequest) -> int:
    """Answers that one vLLM writes in a step: those of the GPUs that share it, or of all GPUs that train."""
    rollout = request.rollout
    return device_answers(request) * (request.devices if rollout.traits.own_devices else colocated_devices(request))


def colocated_devices(request: TrainingRequest) -> int:
    """Training GPUs that share a vLLM."""
    return request.rollout.rollout_tensor_parallel if request.rollout.traits.holds_share else 1


def _vllm(spec: ModelSpec, request: TrainingRequest) -> PerDevice:
    """The bytes of a colocated vLLM on each GPU that it uses."""
    engine, serving = request.rollout.traits.engine, serving_settings(request)
    asked = MemoryRequest(engine=engine, precision=rollout_precision(request), serving=serving, devices=colocated_devices(request))
    return count_per_device(spec, asked)


def least_engine_bytes(spec: ModelSpec, request: TrainingRequest) -> int:
    """Bytes with which a colocated vLLM starts: weights, activations and the cache of one answer. The trainer's process has the context."""
    return _vllm(spec, request).peak(request.sequence_tokens, 1) - CUDA_CONTEXT.typical


def rollout_share(spec: ModelSpec, request: TrainingRequest) -> float | None:
    """The share of a known card that a colocated vLLM gets: as asked, but at least enough to start. None if it shares no card."""
    rollout = request.rollout
    if not (request.samples and rollout.traits.holds_share and rollout.card_bytes):
        return None
    return max(rollout.rollout_share, least_engine_bytes(spec, request) / rollout.card_bytes)


def check_rollout_split(spec: ModelSpec, request: TrainingRequest) -> None:
    """Refuse GPUs of a colocated vLLM over which the model or the training does not divide.

    Raises:
        BadArgument: with the numbers that divide both.
    """
    rollout, degree = request.rollout, request.rollout.rollout_tensor_parallel
    if not request.samples or degree == 1:
        return
    if not rollout.traits.holds_share:
        raise BadArgument(
            "rollout_tensor_parallel", degree, f"1 with rollouts {rollout.rollouts}: only a colocated vLLM shares training GPUs"
        )
    able = [n for n in range(1, request.devices + 1) if request.devices % n == 0 and tensor_parallel_degree(spec, n) == n]
    if degree not in able:
        which = f"{', '.join(map(str, able))}: it divides devices ({request.devices:,} GPUs train) and the model's heads and widths"
        raise BadArgument("rollout_tensor_parallel", degree, which)


def server_tensor_parallel(spec: ModelSpec, request: TrainingRequest) -> int:
    """GPUs over which a vLLM on GPUs of its own splits each layer; the rest hold copies."""
    return tensor_parallel_degree(spec, request.rollout.rollout_devices)


def server_bytes(spec: ModelSpec, request: TrainingRequest) -> int:
    """Bytes that each GPU of a vLLM on GPUs of its own needs at least, of all its memory; 0 if there is none."""
    rollout = request.rollout
    if not (request.samples and rollout.traits.own_devices):
        return 0
    asked = MemoryRequest(
        engine=rollout.traits.engine, precision=rollout_precision(request), devices=tensor_parallel_degree(spec, rollout.rollout_devices)
    )
    share = traits_of(rollout.traits.engine).memory_share
    return round(count_per_device(spec, asked).peak(request.sequence_tokens, 1) / share)


def _engine_bytes(spec: ModelSpec, request: TrainingRequest) -> tuple[int, int]:
    """Bytes of a colocated vLLM while it writes, and while the policy is scored and updated."""
    if not request.rollout.traits.holds_share:
        return 0, 0
    of, share = _vllm(spec, request), rollout_share(spec, request)
    if share is None:
        awake = of.peak(request.sequence_tokens, engine_answers(request)) - CUDA_CONTEXT.typical
    else:
        awake = round(share * request.rollout.card_bytes)
    return awake, of.device_runtime - CUDA_CONTEXT.typical if request.rollout.rollout_sleep else awake


def _adapted_pass(spec: ModelSpec, request: TrainingRequest) -> int:
    """Temporary bytes while the trainer's own model reads the prompts with its adapters; 0 without adapters."""
    if request.method == "full":
        return 0
    sizes, adapted = layer_sizes(spec), select_adapted(spec, request)
    widths = [group.shape[0] for group in spec.tensors if adapted(group)] or [sizes.mlp_width]
    adapter, cast = adapter_bytes(request)
    tokens = prompt_tokens(request) * device_answers(request)
    element = FLOAT32 if request.precision == "fp32" else HALF
    return adapted_pass_bytes(
        tokens=tokens, hidden=sizes.hidden, outputs=max(widths), element_bytes=element, adapter_bytes=adapter, casts=cast > 0
    )


def add_rollouts(spec: ModelSpec, request: TrainingRequest, peaks: StepPeaks) -> StepPeaks:
    """The peaks with the moments of GRPO: rollout and scoring are added, and the update includes the bytes that vLLM keeps."""
    awake, kept = _engine_bytes(spec, request)
    valued = {StepPart.VALUE_MODEL: value_model_bytes(spec, request)} if request.rollout.value_model else {}
    states = {name: size for name, size in peaks.logits.items() if name in _STATES} | valued
    kept_there = ({StepPart.ROLLOUT_ENGINE: kept} if kept else {}) | valued
    # Rollout: the states, and vLLM or the KV cache of the trainer's own model.
    rollout: dict[str, int] = states | ({StepPart.ROLLOUT_ENGINE: awake} if awake else {})
    trainer = count_per_device(spec, MemoryRequest(precision=trainer_precision(request)))
    if request.rollout.traits.starts_together:
        answers = device_answers(request)
        gathered = peaks.layer.get(StepPart.COPIES, 0) if request.shards_weights else 0
        if request.shards_weights and SHARDING_TRAITS[request.sharding].stage:  # ZeRO 3 gathers all
            gathered = max(gathered, trainer.device_weights)
        rollout |= {
            StepPart.COPIES: gathered,
            StepPart.ROLLOUT_CACHE: trainer.worst_cache(request.sequence_tokens, answers),
            StepPart.FORWARD: max(sum(trainer.activations(prompt_tokens(request), answers).values()), _adapted_pass(spec, request)),
        }
    # Scoring: a forward pass without gradient, then the log-probabilities. One follows the other, so the larger one counts.
    scoring: dict[str, int] = {}
    if request.passes_without_gradient:
        half = count_per_device(spec, MemoryRequest(precision="fp32" if request.precision == "fp32" else rollout_precision(request)))
        forward = sum(half.activations(request.sequence_tokens, request.micro_batch).values())
        loss = peaks.logits.get(StepPart.LOSS, 0)
        fuller = {StepPart.FORWARD: forward} if forward > loss else {StepPart.LOSS: loss}
        scoring = states | kept_there | {StepPart.COPIES: peaks.logits.get(StepPart.COPIES, 0)} | fuller
    update = {name: getattr(peaks, name) | kept_there for name in UPDATE_MOMENTS}
    return peaks._replace(**update, rollout=rollout, scoring=scoring)


def estimate_step(spec: ModelSpec, request: TrainingRequest) -> TrainingMemory:
    """Memory of one step of any objective, for a request that `check_training` accepts."""
    if not request.samples:
        return estimate_training(spec, request)
    return estimate_training(spec, request, add_moments=lambda asked, peaks: add_rollouts(spec, asked, peaks))


_TRAINED_STATES = (StepPart.WEIGHTS, StepPart.MASTERS, StepPart.OPTIMIZER, StepPart.GRADIENTS)


def value_model_bytes(spec: ModelSpec, request: TrainingRequest) -> int:
    """Bytes on each GPU of a value model of the same size, which PPO trains in full next to the policy: its states, without activations."""
    alone = replace(
        request, objective="sft", method="full", rollout=AS_TRL, packing=True, sequence_tokens=1, row_tokens=0, micro_batch=1, stack="trl"
    )
    return _state_bytes(ById(spec), alone)


@lru_cache(maxsize=64)
def _state_bytes(key: ById[ModelSpec], request: TrainingRequest) -> int:
    parts = estimate_training(key.value, request).parts
    return sum(parts.get(name, 0) for name in _TRAINED_STATES)


def list_moments(spec: ModelSpec, request: TrainingRequest) -> StepPeaks:
    """The moments of a step of any objective, on the fullest device."""
    peaks = step_peaks(spec, request)
    return add_rollouts(spec, request, peaks) if request.samples else peaks


def longest_sequence(spec: ModelSpec, request: TrainingRequest, memory_bytes: int) -> int:
    """The longest sequence with which a step fits `memory_bytes` on each device, at most the model's context limit; 0 if none fits.

    Rows reach that length, however long they are on average.
    """
    limit, longest = spec.context_limit or ENDLESS, replace(request, row_tokens=0)
    return find_largest(lambda tokens: estimate_step(spec, replace(longest, sequence_tokens=tokens)).device.typical, memory_bytes, limit)


def largest_micro_batch(spec: ModelSpec, request: TrainingRequest, memory_bytes: int) -> int:
    """The most sequences of the request's length that fit in a micro-batch; 0 if not one does."""
    return find_largest(lambda batch: estimate_step(spec, replace(request, micro_batch=batch)).device.typical, memory_bytes, ENDLESS)
