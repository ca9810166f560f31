"""Memory of one training step of a denoiser: ModelSpec × TrainingRequest → bytes on the device by part.

    estimate_picture_training(spec, TrainingRequest(pictures=PictureTrainingRequest(width=1024, height=1024)))

Weights, adapters, gradients and optimizer states count as for text (`lib.laws.training`). Activations that the denoiser keeps for its
backward pass were counted in runs with gradients on the meta device (`lib.model.training_run`), as coefficients of the terms of
`lib.laws.pipeline`. By checkpointing it keeps:

    nothing recomputed      outside + checkpoints + blocks
    every block             outside + checkpoints + largest
    k of every s blocks     outside + checkpoints · ((1 - c) + c / k) + (1 - c) · blocks + k · largest          c = k / s

(`outside`: outside of blocks; `checkpoints`: inputs of all blocks; `blocks`: within all blocks; `largest`: within the largest block.)

A frozen base in 4 or 8 bits keeps more for the backward pass, because its matrix products are separate autograd functions (`FORMATS`):

    nf4            bitsandbytes unpacks the weight again in the backward pass: nothing
    int8           the product multiplies in 8 bits and keeps its input so: 1 byte an element, for each layer that reads it
    fp8            weights alone (torchao): the product keeps the weight in 16 bits
    fp8-dynamic    the input is quantized by plain operations, each of which keeps something: the input and its absolute value in 16 bits
                   for the scale, the input in float32 for the division, the quotient in float32 for the clamp. The weight stays in 8 bits.

Frozen products outside of blocks count likewise if gradients reach them. A base in host memory (base_offload) keeps each product's input in
16 bits, because RamTorch's product saves it.

If latents or embeddings are not computed before training, VAE or text encoders are on the device, and each step begins with them.

Source: torch 2.13 and diffusers 0.42.1 as executed. fp8-dynamic: torchao 0.17.0 (quant_primitives, `_quantize_affine_float8`), whose saved
tensors were counted on 2026-11-26, and SimpleTuner's product (quantisation/torchao_workarounds.py at bc8e6ab77), which saves the weight in
8 bits. int8 and fp8: chosen so that published runs of SimpleTuner agree (documentation/experimental/SEGMENTED_CHECKPOINTING.md at
bc8e6ab77, 2026-08-22). On an H100, LoRA of SDXL at 1024 pixels allocated 6.33 GB (this law: 6.20) and full training 41.8 GB (41.4). Limits:
one device; encoding is assumed to take as much as decoding; attention masks are not counted.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lib.catalog.rows import ById
from lib.errors import BadArgument, UnsupportedModel
from lib.laws import training as law
from lib.laws.activation import FLOAT32, HALF
from lib.laws.pipeline import byte_terms, latent_frames, sum_terms
from lib.laws.runtime import CUDA_CONTEXT, ByteRange
from lib.laws.training import StepPart
from lib.memory.allocator import AllocatorConstants, load_constants
from lib.memory.components import group_bytes
from lib.memory.pipeline import OutputSize, resolve_size
from lib.memory.training import TrainingMemory
from lib.model.dry_run_figures import KeptBytes
from lib.model.spec import DENOISERS, Trained, is_attention
from lib.request.pictures import BasePrecision, PictureTrainingRequest
from lib.units import Bytes
from lib.workload import ALL_LINEAR, Method, PipelineRequest, check_rank, check_targets, is_targeted

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec, Pipeline, TensorGroup
    from lib.workload import TrainingRequest

_MATRIX = 2  # axes


class FrozenFormat(NamedTuple):
    """A number format of frozen weights in training.

    `kept_input_bytes`: bytes of an element of its input that a product keeps. `kept_weight_bytes`: bytes of a parameter of the unpacked
    weight that it keeps. `unpacks`: the weight is unpacked for each product, one matrix at a time.
    """

    stored: str
    kept_input_bytes: int
    kept_weight_bytes: int
    unpacks: bool


FORMATS: Mapping[BasePrecision, FrozenFormat] = MappingProxyType(
    {
        "bf16": FrozenFormat("bf16", kept_input_bytes=0, kept_weight_bytes=0, unpacks=False),
        "fp8": FrozenFormat("fp8-channel", kept_input_bytes=0, kept_weight_bytes=HALF, unpacks=True),
        "fp8-dynamic": FrozenFormat("fp8-channel", kept_input_bytes=2 * (HALF + FLOAT32), kept_weight_bytes=0, unpacks=True),
        "int8": FrozenFormat("int8-channel", kept_input_bytes=1, kept_weight_bytes=0, unpacks=True),
        "nf4": FrozenFormat("bnb-nf4-double", kept_input_bytes=0, kept_weight_bytes=0, unpacks=True),
    }
)
PICTURE_METHODS: tuple[Method, ...] = ("full", "lora", "qlora")
_ACCEPTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "method": PICTURE_METHODS,
        "objective": ("sft",),
        "optimizer": ("adamw", "adamw_foreach", "adamw_8bit", "paged_adamw", "paged_adamw_8bit", "adafactor", "sgd"),
        "sharding": ("none",),
        "stack": ("trl", "transformers"),
    }
)
"""Accepted values for a denoiser, by argument. The optimizers are those of torch, bitsandbytes and transformers. The stack makes no
difference,
because a denoiser is always trained by diffusers; the two accepted ones are defaults of other models."""


_INSTEAD = {
    "objective": (
        ": preferences and rewards of pictures (Diffusion-DPO, DDPO, Flow-GRPO) are not modelled. Ask with objective sft and method "
        "lora instead: that step has the same weights, adapters and activations of one picture, and the reference is the base without "
        "its adapters. Added to it are the reward model, and for Flow-GRPO the pictures that are drawn first: /estimate_speed has the "
        "seconds of one"
    )
}
"""The question to ask in place of a refused argument."""


def trains_pictures(spec: ModelSpec) -> bool:
    """Whether a denoiser is trained, and not a loss over tokens."""
    return spec.library == "diffusers"


def base_format(request: TrainingRequest) -> BasePrecision:
    """The number format of the frozen weights."""
    return "nf4" if request.method == "qlora" else request.pictures.base_precision


def check_picture_training(spec: ModelSpec, request: TrainingRequest) -> None:
    """Refuse arguments that a denoiser cannot be trained with.

    Raises:
        UnsupportedModel: a pipeline that was not run with gradients here.
        BadArgument: arguments that do not belong together, with accepted values.
    """
    if spec.pipeline is None or not spec.pipeline.kept:
        raise UnsupportedModel(
            f"{spec.id or spec.architecture} could not be run with gradients here, so its training is not estimated. "
            "Accepted: pipelines of diffusers whose denoiser runs here, such as FLUX.1, SDXL, Qwen-Image or Wan."
        )
    for name in ("devices", "machines"):
        if getattr(request, name) > 1:
            raise BadArgument(name, getattr(request, name), "1 for a picture model: its training over several GPUs is not modelled")
    if request.media.images or request.media.audio_seconds:
        name, stated = ("images", request.media.images) if request.media.images else ("audio_seconds", request.media.audio_seconds)
        raise BadArgument(name, stated, "0 for a picture model: width and height say the size of its training pictures")
    for name, accepted in _ACCEPTED.items():
        if getattr(request, name) not in accepted:
            instead = _INSTEAD.get(name, "")
            raise BadArgument(name, getattr(request, name), f"{', '.join(accepted)} for a picture model{instead}")
    _check_base(request)
    resolve_picture(spec, request)
    if request.method != "full":
        linear = [group for group in _denoiser_groups(spec) if _takes_adapter(group)]
        check_targets(_targets(request), [_module(group) for group in linear])
        for group in sorted((g for g in linear if is_adapted(g, request)), key=lambda group: min(group.shape)):
            check_rank(request.rank, _module(group), *group.shape)


def refuse_picture_arguments(request: TrainingRequest) -> None:
    """Refuse arguments of picture training for a text model.

    Raises:
        BadArgument: names the first that is stated.
    """
    for field in dataclasses.fields(PictureTrainingRequest):
        stated = getattr(request.pictures, field.name)
        if stated != field.default:
            raise BadArgument(field.name, stated, f"{field.default} for this model: it makes no pictures")


def _check_base(request: TrainingRequest) -> None:
    """Refuse base formats that the method does not take, and numbers of checkpointed blocks that contradict each other."""
    pictures = request.pictures
    if request.method == "full" and pictures.base_precision != "bf16":
        raise BadArgument("base_precision", pictures.base_precision, "bf16 with method=full, because its weights are trained")
    if request.method == "qlora" and pictures.base_precision not in {"bf16", "nf4"}:
        raise BadArgument("base_precision", pictures.base_precision, "nf4 with method=qlora; or method=lora with this format")
    if pictures.base_offload and request.method == "full":
        raise BadArgument("base_offload", True, "no with method=full, because only frozen blocks wait in the host's memory")
    if pictures.checkpoint_every and pictures.checkpoint_every < pictures.checkpoint_blocks:
        accepted = f"0, or at least checkpoint_blocks ({pictures.checkpoint_blocks})"
        raise BadArgument("checkpoint_every", pictures.checkpoint_every, accepted)


def resolve_picture(spec: ModelSpec, request: TrainingRequest) -> OutputSize:
    """Size of a training picture or clip; 0 in the request is the pipeline's own.

    Raises:
        BadArgument: a size that the VAE's stride or the patches do not divide.
    """
    asked = request.pictures
    return resolve_size(spec, PipelineRequest(width=asked.width, height=asked.height, frames=asked.frames))


def count_positions(spec: ModelSpec, size: OutputSize) -> int:
    """Positions of the latents of one picture or clip, without those of the prompt: the tokens of its training."""
    of = spec.pipeline
    assert of is not None  # noqa: S101 checked before
    return (size.width // of.granularity) * (size.height // of.granularity) * int(latent_frames(size.frames, of.frame_step))


def _denoiser_groups(spec: ModelSpec) -> list[TensorGroup]:
    names = {group.component for group in spec.tensors}
    trained = next(name for name in DENOISERS if name in names)
    return [group for group in spec.tensors if group.component == trained]


def _module(group: TensorGroup) -> str:
    return group.name.removesuffix(".weight")


def _targets(request: TrainingRequest) -> list[str]:
    """The targets in the spelling of tensor groups, which have stars in place of numbers: to_out.0 is to_out.*."""
    return [re.sub(r"\.\d+(?=\.|$)", ".*", target) for target in request.target_modules]


def _takes_adapter(group: TensorGroup) -> bool:
    return group.convertible and group.name.endswith(".weight") and len(group.shape) == _MATRIX


def is_adapted(group: TensorGroup, request: TrainingRequest) -> bool:
    """Whether a group of the denoiser gets an adapter."""
    return request.method != "full" and _takes_adapter(group) and is_targeted(_module(group), _targets(request))


def _trained(spec: ModelSpec, request: TrainingRequest) -> Trained:
    """The meta-device run whose activations apply. Adapters outside of attention count as adapters on all matrices."""
    if request.method == "full":
        return "full"
    if ALL_LINEAR in request.target_modules:
        return "all-linear"
    adapted = [_module(group) for group in _denoiser_groups(spec) if is_adapted(group, request)]
    return "attention" if all(map(is_attention, adapted)) else "all-linear"


def count_trained(spec: ModelSpec, request: TrainingRequest) -> law.TrainedParameters:
    """The parameters that are trained, in adapters or in the whole denoiser."""
    width = HALF if request.precision == "bf16" else FLOAT32
    groups = _denoiser_groups(spec)
    if request.method == "full":
        shapes = [(g.shape, g.count) for g in groups]
        return law.TrainedParameters(
            parameters=sum(g.parameters for g in groups),
            in_matrices=sum(g.parameters for g in groups if len(g.shape) >= _MATRIX),
            rows_and_columns=sum(n * math.prod(s[:-2]) * (s[-1] + s[-2]) for s, n in shapes if len(s) >= _MATRIX),
            largest=max(math.prod(s) for s, _ in shapes),
            width=width,
        )
    sides = [(g.shape[0], g.shape[1], g.count) for g in groups if is_adapted(g, request)]
    count = sum(n * law.adapter_parameters(rank=request.rank, rows=rows, columns=columns, dora=False) for rows, columns, n in sides)
    sums = sum(n * (rows + columns + 2 * request.rank) for rows, columns, n in sides)
    return law.TrainedParameters(count, count, sums, max((request.rank * max(r, c) for r, c, _ in sides), default=0), width)


MEASURED: Mapping[str, int] = MappingProxyType(
    {
        "AuraFlowTransformer2DModel": 12, "ChromaTransformer2DModel": 23, "CogVideoXTransformer3DModel": 12, "Flux2Transformer2DModel": 6,
        "HunyuanVideo15Transformer3DModel": 8, "Kandinsky5Transformer3DModel": 11, "Krea2Transformer2DModel": 5,
        "LTXVideoTransformer3DModel": 32, "LongCatImageTransformer2DModel": 24, "Lumina2Transformer2DModel": 32,
        "QwenImageTransformer2DModel": 19, "SD3Transformer2DModel": 29, "SanaVideoTransformer3DModel": 2, "UNet2DConditionModel": 36,
        "WanTransformer3DModel": 25, "ZImageTransformer2DModel": 24,
    }
)  # fmt: skip
"""Published peaks of training that were compared with the law, by denoiser (`scripts/check_picture_training.py`, 2026-11-26)."""


def kept_activations(of: Pipeline, size: OutputSize, batch: int, trained: Trained, *, autocast: bool, widths: int = 1) -> KeptBytes:
    """Bytes that the denoiser keeps for a batch of pictures or clips."""
    terms = byte_terms(batch, size.megapixels, latent_frames(size.frames, of.frame_step))
    fits = {fit.group: fit.coefficients for fit in of.kept if fit.trained == trained and fit.autocast == autocast}
    return KeptBytes(**{group: max(0.0, widths * sum_terms(fit, terms)) for group, fit in fits.items()})


class _Denoiser(NamedTuple):
    """A denoiser under one method, without size and batch."""

    weights: int
    largest_matrix: int
    block_share: float
    largest_share: float
    trained: law.TrainedParameters
    components: Mapping[str, int]


@lru_cache(maxsize=512)
def _describe(key: ById[ModelSpec], request: TrainingRequest) -> _Denoiser:
    spec = key.value
    assert spec.pipeline is not None  # noqa: S101 the callers look
    dtype = "fp32" if request.precision == "fp32" else "bf16"
    form = FORMATS[base_format(request)]
    stored, plain = (
        group_bytes(spec, name, dtype, keeps_fp32=True) for name in (form.stored if request.method != "full" else dtype, dtype)
    )
    trained = _denoiser_groups(spec)[0].component
    components: dict[str, int] = {}
    for group, own, other in zip(spec.tensors, stored, plain, strict=True):
        size = own if group.component == trained else other
        components[group.component] = components.get(group.component, 0) + size
    groups = _denoiser_groups(spec)
    parameters = sum(group.parameters for group in groups)
    _, in_blocks, largest = spec.pipeline.blocks
    return _Denoiser(
        weights=components.pop(trained),
        largest_matrix=max(math.prod(g.shape) for g in groups),
        block_share=in_blocks / parameters,
        largest_share=largest / parameters,
        trained=count_trained(spec, request),
        components=components,
    )


def _with_base(of: Pipeline, size: OutputSize, request: TrainingRequest, trained: Trained) -> KeptBytes:
    """Kept bytes, plus those of the frozen format and of adapters, which grow with the rank."""
    autocast, widths = request.precision == "mixed", FLOAT32 // HALF if request.precision == "fp32" else 1
    kept = kept_activations(of, size, request.micro_batch, trained, autocast=autocast, widths=widths)
    if trained == "full":
        return kept
    form = FORMATS[base_format(request)]
    inputs = max(form.kept_input_bytes, HALF if request.pictures.base_offload else 0)
    more = request.rank * kept.per_rank + inputs * kept.product_inputs / widths
    return kept._replace(
        outside=kept.outside + form.kept_input_bytes * kept.outside_inputs / widths,
        blocks=kept.blocks + more,
        largest=kept.largest + more * kept.largest / max(1.0, kept.blocks),
    )


class _Recomputed(NamedTuple):
    """Effect of gradient checkpointing.

    `saved`: bytes kept from the forward pass. `keeping`: share of blocks that are not recomputed. `together`: blocks recomputed at a time.
    `freed`: share of blocks after the last recomputed ones; the backward pass has freed them before it recomputes.
    """

    saved: float
    keeping: float
    together: int
    freed: float


def _recompute(kept: KeptBytes, blocks: int, request: TrainingRequest) -> _Recomputed:
    if request.checkpointing == "none" or not blocks:
        return _Recomputed(kept.outside + kept.checkpoints + kept.blocks, keeping=1.0, together=0, freed=0.0)
    together, every = min(request.pictures.checkpoint_blocks, blocks), request.pictures.checkpoint_every
    share = together / every if every else 1.0
    inputs = kept.checkpoints * ((1 - share) + share / together)
    if request.checkpointing == "offloaded":
        inputs = kept.checkpoints * (1 - share)
    after = max(0, (blocks - 1) % every + 1 - together) if every else 0
    return _Recomputed(kept.outside + inputs + (1 - share) * kept.blocks, keeping=1 - share, together=together, freed=after / blocks)


def picture_peaks(spec: ModelSpec, request: TrainingRequest) -> tuple[dict[str, dict[str, int]], law.OptimizerStates, _Denoiser]:
    """The fullest moments of a step by name, with the optimizer's states."""
    of = spec.pipeline
    assert of is not None  # noqa: S101 checked before
    plain = replace(request, micro_batch=1, accumulation=1, devices=1, sharding="none")
    model, size = _describe(ById(spec), plain), resolve_picture(spec, request)
    trained = _trained(spec, request)
    kept = _with_base(of, size, request, trained)
    blocks, in_blocks, largest_block = of.blocks
    part = _recompute(kept, blocks, request)
    recomputed = max(0.0, part.together * kept.largest - part.freed * kept.blocks)
    form = FORMATS[base_format(request)] if request.method != "full" else FORMATS["bf16"]
    states = law.optimizer_states(
        "adamw" if request.optimizer == "adamw_foreach" else request.optimizer, model.trained, foreach=request.optimizer == "adamw_foreach"
    )
    gradients = law.gradient_bytes(model.trained)
    full, mixed = request.method == "full", request.method == "full" and request.precision == "mixed"
    copies = HALF * model.trained.parameters if mixed else 0
    copies_in_backward = HALF * largest_block if mixed and request.checkpointing != "none" else copies
    weights = model.weights
    if request.pictures.base_offload:  # two blocks are on the card: the running one and the next
        weights = round(weights * (1 - model.block_share + 2 * model.largest_share))
    unpacked = form.kept_weight_bytes * (part.keeping * in_blocks + kept.outside_weights)
    unpacked += form.kept_weight_bytes * max(0.0, part.together * largest_block - part.freed * in_blocks)
    unpacked += HALF * model.largest_matrix if form.unpacks else 0
    holds = {
        StepPart.TEXT_ENCODERS: request.pictures.cached in {"latents", "none"},
        StepPart.VAE: request.pictures.cached in {"text", "none"},
    }
    encoders = sum(bytes_ for name, bytes_ in model.components.items() if name.startswith("text_encoder"))
    tensors = law.StepTensors(
        states={
            StepPart.WEIGHTS: weights,
            StepPart.MASTERS: HALF * model.trained.parameters if mixed else 0,
            StepPart.ADAPTERS: 0 if full else model.trained.parameters * model.trained.width,
            StepPart.OPTIMIZER: states.resident,
            StepPart.TEXT_ENCODERS: encoders if holds[StepPart.TEXT_ENCODERS] else 0,
            StepPart.VAE: model.components.get("vae", 0) if holds[StepPart.VAE] else 0,
        },
        copies=copies,
        copies_in_backward=copies_in_backward,
        gradients=gradients,
        first_gradients=0,
        saved_activations=round(part.saved),
        layer=round(recomputed),
        activation_gradients=round(4 * kept.checkpoints / max(1, blocks)),
        kept_inputs=0,
        loss=law.LossBytes(Bytes(0), Bytes(0)),
        tied_gradients=0,
        optimizer_temporary=states.temporary,
        accumulates=request.accumulation > 1,
        recomputes=request.checkpointing != "none" and bool(blocks),
    )
    moments = {name: dict(peak) for name, peak in law.find_peaks(tensors)._asdict().items()}
    for name in ("logits", "loss", "layer", "end"):
        moments[name][StepPart.UNPACKED] = round(unpacked)
    encoding = max(
        (
            sum_terms(fit.coefficients, byte_terms(request.micro_batch, size.megapixels, latent_frames(size.frames, of.frame_step)))
            for fit in of.fits
            if (fit.stage == "encode" and holds[StepPart.TEXT_ENCODERS]) or (fit.stage == "decode" and holds[StepPart.VAE])
        ),
        default=0.0,
    )
    if encoding:
        before = gradients if request.accumulation > 1 else 0
        moments["encode"] = tensors.states | {StepPart.GRADIENTS: before, StepPart.SAVED_ACTIVATIONS: round(max(0.0, encoding))}
    return moments, states, model


def estimate_picture_training(spec: ModelSpec, request: TrainingRequest, constants: AllocatorConstants | None = None) -> TrainingMemory:
    """Memory of one step on one device; arguments that do not belong together are refused by `check_picture_training`."""
    moments, states, model = picture_peaks(spec, request)
    fitted = constants or load_constants()

    def reserve(peak: Mapping[str, int]) -> float:
        return sum(peak.values()) + fitted.equal * law.recurring_bytes(dict(peak), recomputes=request.checkpointing != "none")

    fullest = max(moments.values(), key=reserve)
    parts = {str(name): size for name, size in fullest.items() if size}
    allocated = sum(parts.values())
    typical = reserve(fullest) + fitted.fixed
    reserved = ByteRange(*(Bytes(round(size)) for size in (allocated, typical, fitted.upper * typical)))
    device = ByteRange(*(Bytes(size + context) for size, context in zip(reserved, CUDA_CONTEXT, strict=True)))
    parts[StepPart.FRAGMENTATION] = reserved.typical - allocated
    parts[StepPart.CONTEXT] = CUDA_CONTEXT.typical
    waiting = round(model.weights * model.block_share) if request.pictures.base_offload else 0
    size = resolve_picture(spec, request)
    return TrainingMemory(
        precision=FORMATS[base_format(request)].stored if request.method != "full" else request.precision,
        parts=parts,
        allocated_bytes=allocated,
        reserved=reserved,
        device=device,
        host_bytes=states.paged + waiting,
        trained_parameters=model.trained.parameters,
        tokens_per_step=request.micro_batch * request.accumulation * count_positions(spec, size),
    )
