"""Training: the time of a step.

Time of one step: FLOPs, traffic of activations, the host, the update, unpacking of weights, and the link between devices.

    FLOPs   passes · (2·P + 2·T·q·L)     a token; P parameters that it passes, head included; q width of the queries, causal
    passes  forward 1, backward 2 in full and 1 with adapters (frozen weights need no gradient), 1 more where activations are recomputed
    calls   forward 1, backward 1, recomputed 1
    step    max(c_f · FLOPs / peak + (c_a · kept + c_s · scores + c_l · adapted + c_e · routed + c_g · merged) / bandwidth,
                (c_h · layers + c_m · adapters + c_x · layers with experts) · calls
                + (c_r · layers + c_k · adapters) · passes without gradient)                              each micro-batch
            + c_q · bytes of unpacked weights · passes / bandwidth                                 each micro-batch
            + c_u · bytes of trained parameters / bandwidth                                           each step

    kept and scores   once for forward and backward, and a third more for each pass without gradient
    adapted           12 · (rows + columns) of every matrix with an adapter, for each token and call: casts of the adapter's input to
                      float32 and back, and its product, scaled and added; a reference has its adapters switched off

    routed            inputs and outputs of the matrices of a token's k experts, each call: they are gathered, sorted, masked and summed
    merged            weights of experts with adapters, each call: peft adds the adapters to all of them, and computes their gradient

Experts also read all their weights in each call, at 0.77 of the bandwidth (grouped products with few rows an expert on an H100, 6 shapes,
2026-11-26). With 1,000 rows an expert their products reach 0.8 of a dense one's rate.

An encoder of pictures or sound adds its own: (2·P + 4·n·w·L) for each of its positions, n of which one attends to; forward 1, 1 if
gradients pass it, 1 if it trains in full, and 1 if it is recomputed.

The constants c were fitted on published runs and on those of this project (`scripts/check_training.py`,
`lib/data/training_constants.json`): c_f by the kind of a card's memory, none by model or card; c_r and c_k are those of rollouts
(`lib.speed.rollouts`). The host starts the kernels of each layer and adapter. This project's H100 had an Intel Xeon of 16 cores; other
hosts were up to twice as fast. In a profile there, a third of a 7B LoRA step was casts and sums of adapters
(`tests/data/measured_training.json`). On an H100 torch's sdpa lets cuDNN build a plan for each new length of rows. That took seconds at
first; it is not counted, because lengths repeat.

Without packing a batch is padded to its longest row. The typical seconds are those of the rows; the slow end of the range counts padding
that batches of random rows have.

States in host memory add the bytes that pass each GPU's link to the host, and those that the optimizer on the CPU reads and writes, at the
full rate of link and memory: the least possible. With DeepSpeed the range reaches to copies of pageable memory (`PAGEABLE_COPY`) and an
update at `SLOWEST_UPDATE`. Activations in host memory add nothing, because they move behind the computation. Of several devices each takes
its own micro-batches; what passes their link comes on top, half of it behind the computation. Limits: dense peaks as published; no
pipeline or tensor parallelism; devices of one machine; the constants of experts are those of transformers 5.17 on one H100. Source of the
FLOPs: Kaplan et al. 2020, arXiv:2001.08361 (6·N in full); Korthikanti
et al. 2022, arXiv:2205.05198 (recomputation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lib.catalog.host_memory import assume_host
from lib.laws.training import padding_factor
from lib.memory.objectives import compute_model
from lib.memory.resolve import layer_sizes
from lib.memory.tower import find_encoder, hears, is_cross, read_media
from lib.memory.training import step_traffic
from lib.request.objectives import AS_TRL
from lib.request.sharding import SHARDING_TRAITS
from lib.speed.adapter_work import count_adapters, count_experts, count_unpacked
from lib.speed.hardware import HALVES, card_class, find_host_link_rate, find_link_rate
from lib.speed.model_work import count_multiplied
from lib.speed.rollouts import GrpoSeconds, time_rollouts, with_mean_lengths
from lib.speed.training_constants import SpeedConstants, load_rollout, load_speed

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest

_HIDDEN_SHARE = 0.5
PAGEABLE_COPY = 6.2
"""Seconds of a copy between card and host over those with pinned memory, which DeepSpeed's offload does not use unless `pin_memory` says
so: measured on an H100 with 16 cores, 2026-11-26 (55 GB/s pinned; 14 GB/s to the host and 8.9 GB/s from it pageable)."""
SLOWEST_UPDATE = 14.7e9
"""Bytes per second of DeepSpeed's optimizer on a machine with 64 cores and 410 GB/s of memory: LLaMA 7B in full on 8 A800 with two Xeon
8358 (gist chenyaofo/d4cd6a20ab4b95cb3a49491747e2139a, read 2026-11-26; 64 samples a step). Offload took 20.1 s a step with ZeRO 2 and 8
micro-batches (1.81 against 4.19 samples/s) and 16.8 s with ZeRO 3 and 4 (2.05 against 4.45). So a micro-batch costs about half a second and
the update most of the rest, 34 bytes for each parameter: the processor is the limit, neither link nor memory. torch's fused Adam reaches
5.0e9 parameters/s on the 16 cores of the H100's host, at the memory's full rate; its unfused ones 0.6e9 to 0.75e9. torchtune's FSDP loses
little too: its README has 20.9 s a step for Llama 3.1 70B on 8 A100, and this law gives 24.5 s, of them 4.7 s for offloading."""


class StepWork(NamedTuple):
    """Work of a micro-batch: FLOPs, bytes of activations, scores and adapters, layers and adapters · calls, bytes of unpacked weights.

    Those of experts: bytes that are routed, merged and read, layers with experts · calls.

    `quiet_host_s` are the host's seconds for passes without gradient. `trained_bytes` are those of a step.
    """

    flops: float
    kept_bytes: float
    score_bytes: float
    adapted_bytes: float
    host_layers: float
    host_adapters: float
    quiet_host_s: float
    trained_bytes: float
    unpacked_bytes: float
    routed_bytes: float = 0.0
    merged_bytes: float = 0.0
    expert_bytes: float = 0.0
    host_experts: float = 0.0


class StepSpeed(NamedTuple):
    """Seconds of a step and tokens a second over all devices, as a range; `mfu` is the model's own FLOPs over the peak.

    `phases` are those of GRPO; `host_s` are the seconds of a step for states in host memory.
    """

    step_s: float
    tokens_per_s_low: float
    tokens_per_s: float
    tokens_per_s_high: float
    mfu: float
    phases: GrpoSeconds | None = None
    host_s: float = 0.0


def count_passes(request: TrainingRequest) -> int:
    """Forward, backward and recomputed passes over the layers, and those of a preference without gradient."""
    learned = 1 + (2 if request.method == "full" else 1) + (request.checkpointing != "none")
    return learned + request.passes_without_gradient


def count_calls(request: TrainingRequest) -> int:
    """How often the host starts the kernels of all layers in a micro-batch, passes without gradient apart."""
    return 2 + (request.checkpointing != "none")


_FORWARD_SHARE = 1 / 3
"""Of the bytes that a forward and a backward pass move, those of a forward pass."""
_GROUPED_SHARE = 0.77
"""Of the memory's bandwidth, at which grouped products read the weights of experts: 0.73 to 0.86 with up to 64 rows an expert."""
_ADAPTED_BYTES = 12
"""Of a row or column of an adapted matrix, for each token and call: an input of 2 bytes is read, cast to 4 and back to 2; a product of 2 is
written, read, scaled, read and added to another."""


def step_work(spec: ModelSpec, request: TrainingRequest) -> StepWork:
    """The work of one micro-batch on one device."""
    spec, tokens = compute_model(spec, request.objective), request.micro_batch_tokens
    sizes = layer_sizes(spec)
    passes, calls, adapters = count_passes(request), count_calls(request), count_adapters(spec, request)
    encoder = encoder_work(spec, request)
    each = 2 * (count_multiplied(spec, with_loss=True) - encoder.apart) + 2 * request.sequence_tokens * sizes.query_width * sizes.layers
    traffic, quiet, moves = (
        step_traffic(spec, request),
        request.passes_without_gradient,
        1 + _FORWARD_SHARE * request.passes_without_gradient,
    )
    rollout, again, experts = load_rollout(), request.policy_passes, count_experts(spec, request)
    return StepWork(
        flops=float(passes * (tokens * each + encoder.crossed_flops) + 2 * tokens * experts.gradient_parameters) + encoder.flops,
        kept_bytes=moves * traffic.kept_bytes,
        score_bytes=moves * traffic.score_bytes,
        adapted_bytes=float(_ADAPTED_BYTES * adapters.width * tokens * (calls + again)),
        host_layers=float(sizes.layers * calls) + encoder.host_layers,
        host_adapters=float(adapters.matrices * calls),
        quiet_host_s=rollout.layer_s * sizes.layers * quiet + rollout.adapter_s * adapters.matrices * again,
        trained_bytes=float(traffic.trained_bytes),
        unpacked_bytes=float(count_unpacked(spec, request) * passes),
        routed_bytes=float(experts.routed_bytes * tokens * (calls + quiet)),
        merged_bytes=float(experts.merged_bytes * (calls + again)),
        expert_bytes=float(experts.weight_bytes * (calls + quiet)),
        host_experts=float(experts.layers * calls),
    )


class EncoderWork(NamedTuple):
    """Work of an encoder that reads pictures or sound in a micro-batch, and what it takes off the work of a token."""

    flops: float = 0.0
    """Of all its passes."""
    host_layers: float = 0.0
    """Its layers · calls."""
    crossed_flops: float = 0.0
    """Of keys and values of cross-attention over its output, in one pass of the decoder."""
    apart: int = 0
    """Parameters that a token of text does not pass: an encoder's, and those of these keys and values."""


def encoder_work(spec: ModelSpec, request: TrainingRequest) -> EncoderWork:
    """The work of the encoder; nothing for text alone."""
    encoder = find_encoder(spec, request)
    if encoder is None:
        return EncoderWork()
    gradients, recomputes = encoder.gradients, request.checkpointing != "none"
    calls = 1 + gradients + (gradients and recomputes)
    passes = calls + (encoder.trains and request.method == "full")
    positions = request.micro_batch * encoder.all_positions
    attention = 4 * encoder.attended * encoder.widths.hidden * encoder.widths.layers
    projected = 2 * encoder.projector_parameters * encoder.tokens * request.micro_batch
    cross = [group for group in spec.tensors if is_cross(group)]
    crossing, width = sum(g.parameters for g in cross), sum(g.shape[0] * g.count for g in cross)
    crossed = request.micro_batch * read_media(spec, request).cross_positions
    return EncoderWork(
        flops=float(passes * (positions * (2 * encoder.layer_parameters + attention) + projected)),
        host_layers=float(encoder.widths.layers * calls),
        crossed_flops=float(crossed * (2 * crossing + 2 * request.sequence_tokens * width)),
        apart=crossing + (spec.parameters_by_component["encoder"] if hears(spec) else 0),
    )


class Rates(NamedTuple):
    """Ceilings of a card: FLOP/s in 16 bits, bytes per second of its memory, and whether that is GDDR."""

    peak: float
    bandwidth: float
    gddr: bool


def card_rates(card: Accelerator) -> Rates | None:
    """The ceilings of a GPU; None if it has no arithmetic in 16 bits of which a rate is published."""
    peak = card.fastest(*filter(card.supports, HALVES))
    return Rates(peak, float(card.bandwidth), card_class(card) == "gddr") if peak is not None and card.kind == "gpu" else None


def time_step(work: StepWork, constants: SpeedConstants, rates: Rates, accumulation: int = 1) -> float:
    """Seconds of a step on one device."""
    peak, bandwidth, gddr = rates
    moved = (
        constants.kept * work.kept_bytes + constants.scores * work.score_bytes + constants.adapted * work.adapted_bytes
        + constants.routed * work.routed_bytes + constants.merged * work.merged_bytes + work.expert_bytes / _GROUPED_SHARE
    ) / bandwidth  # fmt: skip
    computes = (constants.flops_gddr if gddr else constants.flops) * work.flops / peak + moved
    host = constants.host_s * work.host_layers + constants.adapter_s * work.host_adapters + constants.expert_s * work.host_experts
    host += work.quiet_host_s
    micro = max(computes, host) + constants.unpack * work.unpacked_bytes / bandwidth
    return accumulation * micro + constants.update * work.trained_bytes / bandwidth


def _link_seconds(spec: ModelSpec, request: TrainingRequest, card: Accelerator) -> float:
    """Traffic on the link in a step: gradients twice, and with sharded weights these twice more for every micro-batch."""
    if request.devices == 1:
        return 0.0
    rate, _ = find_link_rate(card)
    gradients = 2 * step_traffic(spec, request).trained_bytes
    weights = 2 * 2 * spec.parameters_total * request.accumulation if request.shards_weights else 0
    return _HIDDEN_SHARE * (gradients + weights) * (request.devices - 1) / request.devices / rate


def _host_seconds(spec: ModelSpec, request: TrainingRequest, card: Accelerator, host_rate: float) -> float:
    """Least seconds of a step for states in host memory: over each GPU's link, then those of the optimizer on each machine's CPU."""
    traffic = step_traffic(spec, request)
    return traffic.link_bytes / find_host_link_rate(card) + traffic.host_update_bytes / request.machines / host_rate


def _host_delay(spec: ModelSpec, request: TrainingRequest, card: Accelerator, least_s: float) -> float:
    """Seconds by which DeepSpeed's offload was at most slower than the least."""
    if not SHARDING_TRAITS[request.sharding].stage or not least_s:
        return 0.0
    traffic = step_traffic(spec, request)
    link_s = PAGEABLE_COPY * traffic.link_bytes / find_host_link_rate(card)
    return max(0.0, link_s + traffic.host_update_bytes / request.machines / SLOWEST_UPDATE - least_s)


def predict_step(
    spec: ModelSpec,
    request: TrainingRequest,
    card: Accelerator,
    accelerators: Mapping[str, Accelerator] = MappingProxyType({}),
    host_rate: float | None = None,
) -> StepSpeed | None:
    """How long a step takes on cards of this kind; None if the card has no arithmetic in 16 bits of which a rate is published.

    Rollouts of GRPO are timed with the catalog's `accelerators`; None too if no speed of their engine follows. `host_rate` is the
    bandwidth of a machine's memory in bytes/s, else that of an assumed machine.
    """
    rates = card_rates(card)
    if rates is None:
        return None
    constants, (low, high) = load_speed()
    asked, request = request, with_mean_lengths(request)
    work = step_work(spec, request)
    alone = time_step(work, constants, rates, request.accumulation)
    host_s = _host_seconds(spec, request, card, host_rate or assume_host().bandwidth)
    step, phases = alone + _link_seconds(spec, request, card) + host_s, None
    if request.samples:
        rollout = time_rollouts(spec, request, card, accelerators)
        if rollout is None:
            return None
        learned = time_step(step_work(spec, replace(request, rollout=AS_TRL)), constants, rates, request.accumulation)
        phases = GrpoSeconds(rollout, alone - learned, step - (alone - learned))
        step += rollout
    tokens = request.step_tokens
    own = work.flops * request.accumulation * (count_passes(request) - (request.checkpointing != "none")) / count_passes(request)
    slowest = step * high * count_padding(asked) + _host_delay(spec, request, card, host_s)
    return StepSpeed(step, tokens / slowest, tokens / step, tokens / step / low, own / (step * rates.peak), phases, host_s)


def count_padding(request: TrainingRequest) -> float:
    """Tokens of a micro-batch with its padding over those of its rows; 1 where rows are packed, or answers are written."""
    if request.packing or request.samples or not request.row_tokens:
        return 1.0
    return padding_factor(rows=request.micro_batch, limit_to_mean=max(1.0, request.sequence_tokens / request.row_tokens))


def train_on(card: Accelerator, request: TrainingRequest, capacity_bytes: int = 0) -> TrainingRequest:
    """The request as this card runs it: without bf16 in fp16, where pure 16-bit training becomes mixed precision.

    A gradient scaler needs trained weights in float32: torch refuses to unscale fp16 gradients. A colocated vLLM takes its share of
    `capacity_bytes`.
    """
    if request.samples:
        request = replace(request, rollout=replace(request.rollout, card_bytes=capacity_bytes))
    if request.precision == "fp32" or card.supports("bf16"):
        return request
    return replace(request, fp16=True, precision="mixed")
