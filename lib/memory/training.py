"""Memory of one training step: ModelSpec × TrainingRequest → allocated and reserved bytes on the fullest device, by part.

    estimate_training(spec, TrainingRequest(method="qlora")).reserved.typical

Allocated bytes are those of the tensors at the fullest moment of a step (`lib.laws.training`). Reserved bytes are those that torch's
allocator has taken from the device for them. A step fits if reserved bytes and the CUDA context fit. The difference between both depends on
the order in which blocks of different sizes are allocated and freed. It was fitted on published runs (`lib/data/training_constants.json`,
`scripts/check_training.py`). The upper estimate is the typical value of the longest rows that the limit allows, times one factor that was
fitted over all stacks. `check_training` rejects invalid requests. Trained parameters are in `lib.memory.trained`, an encoder of pictures or
sound in `lib.memory.tower`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lib.catalog.rows import ById
from lib.errors import BadArgument, UnsupportedModel
from lib.laws import training as law
from lib.laws.activation import FLOAT32, HALF, LayerTraining, LayerWidths, SavedBytes, save_for_backward
from lib.laws.runtime import CUDA_CONTEXT, ByteRange
from lib.laws.training import StepPart
from lib.laws.weights import ENDS, is_tied
from lib.memory.allocator import AllocatorConstants, count_longest_row, load_constants, reserve_bytes
from lib.memory.components import count_weight_bytes, traced_kernel
from lib.memory.objectives import LogitSizes, check_objective, objective_loss, train_model
from lib.memory.resolve import layer_sizes
from lib.memory.sharding import SharedStates, WholeStates, share_states
from lib.memory.stacks import STACK_TRAITS, adapter_bytes, autocasts_stream, fuses_loss, quantized_base
from lib.memory.tower import check_media, encoder_tensors, find_encoder, hears, is_cross, read_media
from lib.memory.trained import (
    MATRIX,
    adapted_experts,
    count_frozen,
    count_trained,
    encoder_components,
    is_adapted,
    module_of,
    select_adapted,
    takes_adapter,
    typical_groups,
    without_lengths,
)
from lib.precision import weight_format
from lib.request.objectives import AS_TRL, OBJECTIVE_TRAITS, ONE_PAIR
from lib.request.sharding import SHARDING_TRAITS, SHARDINGS
from lib.units import Bytes
from lib.workload import WHOLE_WEIGHTS, check_rank, check_targets

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec
    from lib.workload import TrainingRequest


def check_training(spec: ModelSpec, request: TrainingRequest) -> None:
    """Reject a model that cannot be trained, and options that contradict each other.

    Raises:
        UnsupportedModel: the model has no known loss over tokens.
        BadArgument: options contradict each other; the message lists the accepted ones.
    """
    if spec.library == "gguf":
        raise UnsupportedModel(f"{spec.id} is a GGUF file, which is run and not trained. Name the model that it was made from instead.")
    trains = spec.work in {"decoder", "embedding decoder", "encoder-decoder", "text encoder"} or hears(spec)
    if spec.library == "diffusers" or not trains:
        executed = " Of a model that hears, /dry_run executes a training step (mode lora or full) and counts its bytes."
        raise UnsupportedModel(
            f"{spec.id or spec.architecture} has no loss over tokens that is known here (task {spec.task or 'unknown'}). "
            "Accepted: models that write, read or embed text, and speech recognition by an encoder over windows of sound and a decoder, as "
            f"Whisper is.{executed if spec.work == 'speech' else ''}"
        )
    traits = STACK_TRAITS[request.stack]
    check_objective(spec, request)
    check_media(spec, request)
    if request.optimizer not in traits.optimizers:
        raise BadArgument("optimizer", request.optimizer, f"{', '.join(sorted(traits.optimizers))} with {traits.name}")
    _check_sharding(request)
    if request.quantizes and spec.tensors and not any(group.convertible for group in spec.tensors):
        raise BadArgument("method", request.method, "full, lora or dora: this model has no matrix that bitsandbytes would convert")
    if request.method == "lora-8bit" and not traits.int8:
        raise BadArgument("method", request.method, f"full, lora, dora or qlora with {traits.name}")
    if request.method != "full" and spec.tensors:
        linear = [group for group in spec.tensors if takes_adapter(group, spec, request)]
        check_targets(request.target_modules, [module_of(group) for group in linear])
        if request.method == "dora" and adapted_experts(spec, request):
            raise BadArgument(
                "method",
                request.method,
                "lora; or matrices of attention as target_modules: peft puts adapters on the experts of this model, where it has no DoRA",
            )
        adapted = [group for group in linear if is_adapted(group, spec, request)]
        for group in sorted(adapted, key=lambda group: min(group.shape)):
            check_rank(request.rank, module_of(group), *group.shape)


def _check_sharding(request: TrainingRequest) -> None:
    """Refuse numbers of devices and machines, and methods, that the sharding does not support."""
    traits, name, devices, machines = SHARDING_TRAITS[request.sharding], request.sharding, request.devices, request.machines
    alone = name == "none"
    if not alone and devices == 1 and not traits.trains_alone:
        raise BadArgument("sharding", name, "none, zero2_offload or zero3_offload on one device; or two devices or more")
    if alone and devices > 1:
        raise BadArgument("devices", devices, f"1 without sharding; or {', '.join(SHARDINGS[1:])} as sharding")
    if not alone and not STACK_TRAITS[request.stack].shards:
        raise BadArgument("sharding", name, f"none with {STACK_TRAITS[request.stack].name}, which trains on one device")
    if machines > devices or devices % machines:
        raise BadArgument("machines", machines, f"a number that divides the {devices} devices: each machine has as many")
    if traits.within_machine and machines == 1:
        raise BadArgument("sharding", name, "fsdp on one machine; or two machines or more")
    if traits.within_machine and devices == machines:
        raise BadArgument("sharding", name, "ddp with one device in each machine; or two devices or more in each")
    if request.method in WHOLE_WEIGHTS and traits.weights:
        whole = ", ".join(other for other in SHARDINGS if not SHARDING_TRAITS[other].weights)
        raise BadArgument(
            "sharding", name, f"{whole} with method=lora-8bit: 8-bit weights are integers, which are not sharded; or method=qlora"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Memory of a step on the fullest device.

    `parts` add up to `device.typical`: tensors of the fullest moment by name, fragmentation, CUDA context. `allocated_bytes` are those of
    the tensors. `device` are reserved bytes and the context, which decide whether it fits. `host_bytes` are in the host's memory: paged
    states, offloaded weights, states and checkpoints.
    """

    precision: str
    parts: dict[str, int]
    allocated_bytes: int
    reserved: ByteRange
    device: ByteRange
    host_bytes: int
    trained_parameters: int
    tokens_per_step: int


AddMoments = Callable[["TrainingRequest", law.StepPeaks], law.StepPeaks]
"""A function that adds moments to those of a step."""


class _TrainedModel(NamedTuple):
    """A model under one method: the values that do not depend on length and batch size.

    Bytes: `weights`, `upcast` (added because tables and norms are in float32), `largest_dequantized` (one matrix unpacked),
    `dora_step` (temporary tensors of DoRA), `width` (one element of the compute dtype). Parameters: `ends` (embedding table and head),
    `largest_end` (the larger one of them), `table` (an embedding table that is not tied), `adapters`.
    """

    weights: int
    upcast: int
    ends: int
    largest_end: int
    table: int
    tied: bool
    precision: str
    width: int
    trained: law.TrainedParameters
    adapters: int
    saved: SavedBytes
    crossed: SavedBytes
    """Kept by keys and values of cross-attention, for each position of the encoder."""
    frozen: int
    """Parameters of an encoder, or of a part of it, that is not trained."""
    largest_dequantized: int
    hidden: int
    layers: int
    vocabulary: int
    dora_step: int
    merged: int
    """Weights of experts to which adapters were added, all layers."""
    merged_layer: int
    """Those of one layer, and the gradient of the larger of the two."""


@lru_cache(maxsize=512)
def _describe(key: ById[ModelSpec], request: TrainingRequest) -> _TrainedModel:
    """Describe the model under the method of a request; callers pass `_describe_key(request)`, so that other lengths share the result."""
    spec = key.value
    traits = STACK_TRAITS[request.stack]
    # Formats, and bytes of the weights.
    trained, adapters = count_trained(spec, request)
    element = FLOAT32 if request.precision == "fp32" else HALF
    unquantized = "fp32" if request.precision == "fp32" else "bf16"
    precision = quantized_base(request) or unquantized
    of = count_weight_bytes(spec, precision, unquantized, keeps_fp32=True)
    weight_bytes, largest, upcast = of.total, 0, 0
    if request.quantizes:
        largest = element * of.largest_matrix
        if _upcasts(request) and element == HALF:
            upcast = HALF * sum(g.parameters for g in spec.tensors if g.kind in {*ENDS, "norm"})
    if request.method == "full" and request.precision == "mixed" and not SHARDING_TRAITS[request.sharding].stage:
        upcast = HALF * count_frozen(spec, request)  # loaded in float32 with the rest
    if request.method == "qlora":
        stored = spec.stored.quantization
        stores_4_bits = stored is not None and weight_format(stored.format).effective_bits < 8  # noqa: PLR2004 bits
        if traits.experts_in_4_bits == "always" or (traits.experts_in_4_bits == "stored" and stores_4_bits):
            weight_bytes -= round(
                (element - weight_format(precision).effective_bits / 8)
                * sum(g.parameters for g in spec.tensors if g.kind == "expert" and len(g.shape) > MATRIX)
            )
    # Activations that the layers save for the backward pass.
    apart = encoder_components(spec) | {"embeddings", "head"}
    layers = [g for g in spec.tensors if g.component not in apart and g.kind not in ENDS] or list(typical_groups(spec))
    tensors, crossing = [g for g in layers if not is_cross(g)], [g for g in layers if is_cross(g)]
    sizes = layer_sizes(spec)
    decides = traced_kernel(spec, element) == "eager" or request.attention == "eager"
    _, cast_bytes = adapter_bytes(request)
    how = LayerTraining(
        weights=request.method == "full",
        adapted=select_adapted(spec, request),
        rank=request.rank, casts=cast_bytes, dora=request.method == "dora", scores=decides,
        repeats=request.attention == "eager" or (request.attention == "sdpa" and request.packing),  # sdpa does where there is a mask
        float32_stream=autocasts_stream(request), float32_outputs=_upcasts(request),
        drops_hidden=spec.drops_hidden, drops_scores=spec.drops_scores,
    )  # fmt: skip
    stack = LayerWidths(sizes.hidden, sizes.layers, sizes.heads, sizes.kv_heads, sizes.query_width // max(1, sizes.heads))
    dora = FLOAT32 * max((2 * g.shape[0] * g.shape[1] for g in tensors if how.adapted(g)), default=0) if request.method == "dora" else 0
    # Embedding table and head.
    tied = bool(spec.tensors) and is_tied(spec.tensors) and OBJECTIVE_TRAITS[request.objective].has_head
    ends = sum(group.parameters for group in spec.tensors if group.kind in ENDS)
    largest_end = max((group.parameters for group in spec.tensors if group.kind in ENDS), default=0)
    table = sum(group.parameters for group in spec.tensors if group.kind == "embedding") if not tied else 0
    saved = save_for_backward(tensors, stack, how, element)
    # Keys and values of cross-attention share the encoder's output, unless autocast casts it for each.
    crossed = save_for_backward(crossing, stack, how._replace(weights=how.weights and how.float32_stream, scores=False), element)
    return _TrainedModel(
        weight_bytes, upcast, ends, largest_end, table, tied, precision, element, trained, adapters, saved, crossed,
        count_frozen(spec, request), largest, sizes.hidden, max(1, sizes.layers), sizes.vocabulary, dora,
        *_merged_bytes(spec, request, element),
    )  # fmt: skip


def _merged_bytes(spec: ModelSpec, request: TrainingRequest, element: int) -> tuple[int, int]:
    """Bytes of experts' weights with their adapters added: of all layers; of one layer with the gradient of its largest."""
    each = [element * of.group.parameters // of.group.count for of in adapted_experts(spec, request)]
    return sum(element * of.group.parameters for of in adapted_experts(spec, request)), sum(each) + max(each, default=0)


class _Step(NamedTuple):
    """The moments of a step, and what they were computed from."""

    peaks: law.StepPeaks
    states: law.OptimizerStates
    model: _TrainedModel
    shared: SharedStates


def _build_step(spec: ModelSpec, request: TrainingRequest) -> _Step:
    """The step of a request. It collects the bytes of each kind of tensor; `lib.laws.training` combines them to moments."""
    spec, objective = train_model(spec, request.objective), OBJECTIVE_TRAITS[request.objective]
    of = _describe(ById(spec), _describe_key(request))
    traits = SHARDING_TRAITS[request.sharding]
    tokens = request.pass_tokens if objective.in_parts else request.micro_batch_tokens
    full = request.method == "full"
    mixed = full and request.precision == "mixed"
    stream = FLOAT32 if autocasts_stream(request) or _upcasts(request) else of.width
    states = _optimizer_states(request, of)
    saved = of.saved
    # Activations: of all layers, of the one that is recomputed, and the checkpoints between layers.
    crossed = request.micro_batch * read_media(spec, request).cross_positions
    states_read = crossed * of.width * of.hidden  # the encoder's output, which all layers of cross-attention read
    whole = (
        tokens * (saved.layers + request.sequence_tokens * saved.layers_by_length) + crossed * of.crossed.layers + states_read + of.merged
    )
    one = (
        request.pass_tokens * (saved.one_layer + request.sequence_tokens * saved.one_layer_by_length)
        + crossed * of.crossed.one_layer
        + of.largest_dequantized
        + of.merged_layer
        + of.dora_step
    )
    recomputes = request.checkpointing != "none"
    checkpoints = states_read + (0 if request.checkpointing == "offloaded" else tokens * stream * of.hidden * of.layers)
    last_norm = tokens * (FLOAT32 + 2 * of.width) * of.hidden  # its float32 input, its output, and the stream before it
    # States, as the sharding splits them.
    head = of.ends * of.trained.width if full and objective.has_head else 0
    shared = _share(request, of, states, head, with_reference=request.has_reference)
    # Weights that are gathered or copied while a layer runs.
    copies = copies_in_backward = shared.gathered
    if mixed and not (traits.weights or traits.stage):
        copies = of.weights - of.width * (of.table + of.frozen)  # autocast keeps no copy of frozen weights
        copies_in_backward = _layer_weights(of) if recomputes else copies
    # Logits and loss.
    fused = fuses_loss(request)
    sizes = LogitSizes(tokens, of.vocabulary, of.hidden, of.width)
    if objective.loss == "tokens":
        copied = spec.work not in {"text encoder", "speech"} or request.precision == "mixed"
        loss = law.loss_bytes(**sizes._asdict(), fused=fused, capped=spec.caps_logits, copied=copied)
        loss = law.LossBytes(*(Bytes(size + (head if fused else 0)) for size in loss))
    else:
        loss = objective_loss(request, sizes)
    tensors = law.StepTensors(
        states={
            StepPart.WEIGHTS: shared.weights,
            StepPart.UPCAST: shared.upcast,
            StepPart.MASTERS: shared.masters,
            StepPart.ADAPTERS: shared.adapters,
            StepPart.REFERENCE: shared.reference,
            StepPart.OPTIMIZER: shared.optimizer,
        },
        copies=copies + shared.buckets,
        copies_in_backward=copies_in_backward + shared.buckets,
        gradients=shared.gradients,
        first_gradients=shared.head_gradients,
        saved_activations=round(checkpoints + last_norm if recomputes else whole),
        layer=round(one),
        activation_gradients=round(request.pass_tokens * of.width * (of.hidden + 2 * layer_sizes(spec).mlp_width)) + states_read,
        kept_inputs=2 * tokens * stream * of.hidden * of.layers if traits.keeps_input_gradients and recomputes and not full else 0,
        loss=loss,
        # The head's gradient is kept until the table's is added to it in place. With accumulation both are on top of the sum so far.
        tied_gradients=(2 if request.accumulation > 1 else 1) * of.largest_end * of.trained.width if of.tied and full else 0,
        optimizer_temporary=shared.optimizer_temporary,
        # If several passes make gradients in turn, those of the first exist while the second is recomputed.
        accumulates=request.accumulation > 1 or objective.in_parts or (recomputes and request.pass_tokens < tokens),
        recomputes=recomputes,
        encoder=encoder_tensors(spec, request, element=of.width, stream=stream, gradient_width=of.trained.width),
    )
    return _Step(law.find_peaks(tensors), states, of, shared)


def _layer_weights(of: _TrainedModel) -> int:
    """Two layers in 16 bits, or the table or head if that is larger."""
    return max(2 * (of.weights - of.width * of.ends) // of.layers, of.width * of.largest_end)


def _share(
    request: TrainingRequest, of: _TrainedModel, states: law.OptimizerStates, head_gradients: int, *, with_reference: bool
) -> SharedStates:
    """Weights, gradients and optimizer states on one device, as the sharding splits them."""
    full = request.method == "full"
    mixed = full and request.precision == "mixed"
    whole = WholeStates(
        weights=of.weights,
        upcast=of.upcast,
        adapters=of.adapters * of.trained.width,
        reference=of.weights + (HALF * of.trained.parameters if mixed else 0) if with_reference and full else 0,
        optimizer=states.resident,
        optimizer_temporary=states.temporary,
        head_gradients=head_gradients,
        parameters=of.trained.parameters,
        trained_width=of.trained.width,
        masters=mixed,
        layer_weights=_layer_weights(of),
        micro_batches=request.accumulation,
    )
    return share_states(whole, SHARDING_TRAITS[request.sharding], request.sharing_devices)


def _optimizer_states(request: TrainingRequest, of: _TrainedModel) -> law.OptimizerStates:
    foreach = request.optimizer == "adamw_foreach"
    return law.optimizer_states("adamw" if foreach else request.optimizer, of.trained, foreach=foreach)


def _upcasts(request: TrainingRequest) -> bool:
    """Whether tables, norms and the stream are in float32: peft's function does so, which weights in shards do not allow."""
    return request.quantizes and STACK_TRAITS[request.stack].upcasts and not request.shards_weights


class StepTraffic(NamedTuple):
    """Bytes that a step's speed depends on.

    `kept_bytes` are the activations of a micro-batch without recomputation and without attention scores, which are `score_bytes`.
    `trained_bytes` are the trained parameters. With states in host memory, each GPU moves `link_bytes` to and from the host in a step, and
    the optimizer on the CPU reads and writes `host_update_bytes`.
    """

    kept_bytes: float
    score_bytes: float
    trained_bytes: int
    link_bytes: int
    host_update_bytes: int


def step_traffic(spec: ModelSpec, request: TrainingRequest) -> StepTraffic:
    """Inputs of a step's speed besides FLOPs."""
    of = _describe(ById(spec), _describe_key(request))
    tokens, encoder = request.micro_batch_tokens, find_encoder(spec, request)
    read = request.micro_batch * encoder.all_positions if encoder else 0
    crossed = request.micro_batch * read_media(spec, request).cross_positions
    scores = tokens * request.sequence_tokens * of.saved.layers_by_length
    kept = tokens * of.saved.layers + crossed * of.crossed.layers + (read * encoder.saved.layers if encoder else 0)
    shared = _share(request, of, _optimizer_states(request, of), 0, with_reference=request.has_reference)
    trained = of.trained.parameters * of.trained.width
    return StepTraffic(kept, scores, trained, shared.link, shared.host_update)


def _describe_key(request: TrainingRequest) -> TrainingRequest:
    """The request without lengths, rollouts and pairs: the key under which `_describe` is cached."""
    traits = SHARDING_TRAITS[request.sharding]
    sharding = request.sharding if traits.weights or traits.states else "none"
    return replace(without_lengths(request), rollout=AS_TRL, pairs=ONE_PAIR, sharding=sharding)


def step_peaks(spec: ModelSpec, request: TrainingRequest) -> law.StepPeaks:
    """The moments of a step, on the fullest device."""
    return _build_step(spec, request).peaks


def estimate_training(
    spec: ModelSpec, request: TrainingRequest, constants: AllocatorConstants | None = None, add_moments: AddMoments | None = None
) -> TrainingMemory:
    """Memory of one step on the fullest device, for a request that `check_training` accepts.

    `add_moments` adds the moments before the forward pass, and the bytes that they keep on the device (`lib.memory.rollouts`).
    """
    # The longest batch decides the typical peak, the limit on the length of rows decides the upper estimate.
    usual = replace(request, sequence_tokens=count_longest_row(request))
    peaks, states, of, shared = _build_step(spec, usual)
    at_most = peaks if usual == request else step_peaks(spec, request)
    if add_moments is not None:
        peaks, at_most = add_moments(usual, peaks), add_moments(request, at_most)
    # Reserved bytes: low end, typical value and upper estimate.
    fitted = constants or load_constants()
    share = fitted.share(request)
    typical = max(reserve_bytes(peak, request, share) for peak in peaks) + fitted.fixed
    # vLLM takes a fixed share, which the factor of the upper estimate does not widen.
    high = max(fitted.upper * (reserve_bytes(p, request, share) + fitted.fixed - (e := law.engine_bytes(p))) + e for p in at_most)
    tensors = max(sum(peak.values()) for peak in peaks)
    reserved = ByteRange(*(Bytes(round(size)) for size in (tensors, typical, high)))
    device = ByteRange(*(Bytes(size + context) for size, context in zip(reserved, CUDA_CONTEXT, strict=True)))
    # The parts of the fullest moment, which add up to the typical value of the device.
    fullest = max(peaks, key=lambda peak: reserve_bytes(peak, request, share))
    parts = {name: size for name, size in fullest.items() if size}
    allocated = sum(parts.values())
    parts[StepPart.FRAGMENTATION] = reserved.typical - allocated
    parts[StepPart.CONTEXT] = CUDA_CONTEXT.typical
    offloaded_activations = usual.micro_batch_tokens * of.width * of.hidden * of.layers if request.checkpointing == "offloaded" else 0
    return TrainingMemory(
        precision=of.precision,
        parts=parts,
        allocated_bytes=allocated,
        reserved=reserved,
        device=device,
        host_bytes=states.paged + shared.host + offloaded_activations,
        trained_parameters=of.trained.parameters,
        tokens_per_step=request.step_tokens,
    )
