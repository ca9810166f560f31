"""The encoder of a training example: a tower that reads its pictures, or an encoder that reads its sound.

The encoder has its own layers and positions; the loss is computed by another stack (the decoder). It is frozen or trained. With recomputed
layers, gradients pass a frozen tower too: transformers then requires gradients of every embedding, also of the patches, so the tower keeps
its checkpoints and is recomputed (`enable_input_require_grads` of 5.24.0; read 2026-11-26). The trainer has no such hook for the encoder of
a speech model. An encoder that no gradient passes keeps nothing; its forward pass is one of the step's moments.

The tower's output becomes picture tokens of the sequence. In a model with cross-attention it does not: each layer of the decoder keeps keys
and values of the encoder's positions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from lib.catalog.rows import ById
from lib.errors import BadArgument
from lib.laws.activation import LayerTraining, LayerWidths, SavedBytes, prefill_bytes, save_for_backward
from lib.laws.training import EncoderTensors
from lib.laws.weights import ENDS
from lib.memory.media import NO_MEDIA, PromptMedia, resolve_media
from lib.memory.stacks import SPEECH_STACK, adapter_bytes, autocasts_stream
from lib.memory.trained import encoder_components, is_projector, select_adapted, trained_encoder, without_lengths

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec, TensorGroup
    from lib.request.media import MediaRequest
    from lib.workload import TrainingRequest

_READS_MEDIA = "auto or no"
_CROSS = ("encoder_attn.", "cross_attn.")
_CROSS_INPUTS = ("k_proj.weight", "v_proj.weight")


def hears(spec: ModelSpec) -> bool:
    """Whether it is a speech model like Whisper: an encoder reads windows of sound, and a decoder writes the text."""
    parts = spec.parameters_by_component
    return spec.work == "speech" and spec.sound is not None and spec.sound.rule == "windows" and {"encoder", "decoder"} <= parts.keys()


def add_media(spec: ModelSpec, request: TrainingRequest) -> TrainingRequest:
    """The request with the tokens of its pictures added to the sequence. For a speech model the sequence is cut to its context limit.

    Neither is packed.
    """
    if hears(spec):
        most = min(request.sequence_tokens, spec.context_limit or request.sequence_tokens)
        return replace(request, packing=False, reads_sound=True, sequence_tokens=most, row_tokens=min(request.row_tokens, most))
    tokens = read_media(spec, request).tokens
    if not request.media.images or request.media_tokens:
        return request
    return replace(
        request,
        packing=False,
        media_tokens=tokens,
        sequence_tokens=request.sequence_tokens + tokens,
        row_tokens=request.row_tokens + tokens if request.row_tokens else 0,
    )


def read_examples(spec: ModelSpec, request: TrainingRequest, text_tokens: float = 0.0) -> TrainingRequest:
    """`add_media` for a text of `text_tokens` on average (0: not stated); speech models use the trainer of transformers."""
    if not (hears(spec) or request.media.images) or request.objective != "sft":
        return request
    stack = SPEECH_STACK if hears(spec) else request.stack
    return add_media(spec, replace(request, stack=stack, row_tokens=text_tokens))


def check_media(spec: ModelSpec, request: TrainingRequest) -> None:
    """Refuse pictures and sound that a model does not read, and parts of an encoder that it does not have.

    Raises:
        BadArgument: with the accepted values.
    """
    media, part, name = request.media, request.train_tower, spec.id or "this model"
    if hears(spec):
        window = spec.sound.window_s if spec.sound else 0.0
        if media.audio_seconds > window:
            accepted = f"0 to {window:g}: the trainer cuts sound to a window of {name}; split longer sound with its text"
            raise BadArgument("audio_seconds", f"{media.audio_seconds:g}", accepted)
    resolve_media(spec, media)
    if media.images and request.objective != "sft":
        raise BadArgument("objective", request.objective, "sft with pictures; or images=0, which trains on text alone")
    groups = _encoder_groups(spec)
    if media.images and spec.vision is not None and not spec.vision.tower.hidden_size:
        raise BadArgument("images", media.images, f"0: the tower of {name} is not a transformer, and training through it is not modelled")
    if part in {"auto", "no"}:
        return
    if not groups:
        raise BadArgument("train_tower", part, f"{_READS_MEDIA}: {name} has no encoder for pictures or sound next to its text")
    if part == "projector" and not any(map(is_projector, groups)):
        raise BadArgument("train_tower", part, f"auto, no or yes: {name} has no projector")
    if not hears(spec) and not media.images:
        raise BadArgument("train_tower", part, f"{_READS_MEDIA} for text alone; or images=1 or more, which the tower then reads")


def read_media(spec: ModelSpec, request: TrainingRequest) -> PromptMedia:
    """Pictures or sound of an example, counted."""
    if not (request.media.images or hears(spec)):
        return NO_MEDIA
    return _count_media(ById(spec), request.media)


@lru_cache(maxsize=256)
def _count_media(key: ById[ModelSpec], asked: MediaRequest) -> PromptMedia:
    spec = key.value
    media = resolve_media(spec, asked)
    if not hears(spec) or spec.sound is None:
        return media
    return media._replace(passes=1, positions=spec.sound.positions, cross_positions=spec.sound.positions)


class Encoder(NamedTuple):
    """The encoder of an example, and the bytes that it keeps."""

    passes: int
    """Passes for an example."""
    positions: int
    """Positions of a pass."""
    tokens: int
    """Tokens that it puts into the sequence."""
    widths: LayerWidths
    mlp_width: int
    gated: bool
    kept_layers: int
    """Layers whose output is kept until the last layer has run."""
    attended: float
    """Positions to which one position attends, averaged over layers."""
    trains: bool
    """Whether its layers are trained."""
    gradients: bool
    """Whether gradients pass its layers."""
    saved: SavedBytes
    """Bytes that its layers keep for each position."""
    projector_inputs: int
    """Elements for each token that the projector's matrices read."""
    input_elements: int
    """Elements of the pictures or the sound of an example."""
    layer_parameters: int
    projector_parameters: int

    @property
    def all_positions(self) -> int:
        """Positions of an example."""
        return self.passes * self.positions


def find_encoder(spec: ModelSpec, request: TrainingRequest) -> Encoder | None:
    """The encoder that an example passes; None for text alone."""
    media = read_media(spec, request)
    return _describe(ById(spec), without_lengths(request), media) if media.passes else None


def _encoder_groups(spec: ModelSpec) -> list[TensorGroup]:
    return [group for group in spec.tensors if group.component in encoder_components(spec)]


@lru_cache(maxsize=256)
def _describe(key: ById[ModelSpec], request: TrainingRequest, media: PromptMedia) -> Encoder:
    spec = key.value
    groups = [g for g in _encoder_groups(spec) if g.component != ("audio_tower" if media.images else "vision_tower")]
    layers = [g for g in groups if not is_projector(g) and g.kind not in ENDS]
    projectors = [g for g in groups if is_projector(g)]
    matrices = [g for g in projectors if g.kind == "linear" or len(g.shape) == 2]  # noqa: PLR2004 axes
    tower, number = spec.dimensions, max((g.count for g in layers if g.kind == "linear"), default=1)
    kept_layers, attended = 0, float(media.positions)
    if media.images and spec.vision is not None:
        tower, kept_layers = spec.vision.tower, spec.vision.kept_layers
        number = tower.layers
        windowed = spec.vision.windowed_layers
        attended = (windowed * min(media.positions, spec.vision.window) + (number - windowed) * media.positions) / max(1, number)
    heads = max(1, tower.attention_heads)
    widths = LayerWidths(tower.hidden_size, number, heads, heads, tower.hidden_size // heads)
    part, element = trained_encoder(spec, request), 4 if request.precision == "fp32" else 2
    recomputes = request.checkpointing != "none"
    gradients = part == "yes" or (recomputes and not hears(spec))
    how = LayerTraining(
        weights=request.method == "full" and part == "yes",
        adapted=select_adapted(spec, request),
        rank=request.rank, casts=adapter_bytes(request)[1], dora=request.method == "dora", scores=request.attention == "eager",
        repeats=False, rotates=True, float32_stream=autocasts_stream(request),
    )  # fmt: skip
    first = next((g for g in layers if g.kind == "conv"), None)
    if spec.sound is not None and not media.images:
        inputs = spec.sound.features
    else:
        inputs = media.passes * media.positions * (math.prod(first.shape[1:]) if first else 0)
    return Encoder(
        passes=media.passes,
        positions=media.positions,
        tokens=media.tokens,
        widths=widths,
        mlp_width=tower.intermediate_size,
        gated=any("gate" in group.name for group in layers),
        kept_layers=kept_layers,
        attended=attended,
        trains=part == "yes",
        gradients=gradients,
        saved=save_for_backward(layers, widths, how, element) if gradients else SavedBytes(0.0, 0.0, 0.0, 0.0),
        projector_inputs=sum(g.shape[-1] * g.count for g in matrices) if part != "no" or gradients else 0,
        input_elements=inputs,
        layer_parameters=sum(g.parameters for g in layers if g.kind in {"linear", "conv"}),
        projector_parameters=sum(g.parameters for g in matrices),
    )


def encoder_tensors(spec: ModelSpec, request: TrainingRequest, *, element: int, stream: int, gradient_width: int) -> EncoderTensors:
    """Bytes of the encoder in a micro-batch. In bytes: `element` of the compute dtype, `stream` of the hidden states between layers."""
    encoder = find_encoder(spec, request)
    if encoder is None:
        return EncoderTensors()
    positions, h = request.micro_batch * encoder.all_positions, encoder.widths.hidden
    recomputes = request.checkpointing != "none" and encoder.gradients
    at_length = encoder.saved.layers + encoder.positions * encoder.saved.layers_by_length
    one_layer = encoder.saved.one_layer + encoder.positions * encoder.saved.one_layer_by_length
    kept = 0.0
    if recomputes:
        kept = 0.0 if request.checkpointing == "offloaded" else stream * h * encoder.widths.layers
    elif encoder.gradients:
        kept = at_length
    projected = element * encoder.projector_inputs * encoder.tokens * request.micro_batch
    inputs = 4 * encoder.input_elements * request.micro_batch
    forward = prefill_bytes(
        tokens=encoder.positions, batch=encoder.passes * request.micro_batch, element_bytes=element, hidden=h, query_width=h, key_width=h,
        mlp_width=encoder.mlp_width, heads=encoder.widths.heads, vocabulary=0, kernel="eager" if request.attention == "eager" else "sdpa",
    )  # fmt: skip
    through = h + (2 if encoder.gated else 1) * encoder.mlp_width
    casts = adapter_bytes(request)[1] if encoder.trains and request.method != "full" else 0
    trained = sum(group.parameters for group in _encoder_groups(spec)) if encoder.trains and request.method == "full" else 0
    return EncoderTensors(
        saved=round(positions * kept) + projected + inputs,
        forward=forward + element * encoder.kept_layers * positions * h,
        layer=round(positions * one_layer) if recomputes else 0,
        passing=positions * (element * through + casts * encoder.mlp_width) if encoder.gradients else 0,
        gradients=trained * gradient_width,
    )


def is_cross(group: TensorGroup) -> bool:
    """Whether a matrix reads the encoder's output: the key or value matrix of cross-attention."""
    return any(name in group.name for name in _CROSS) and group.name.endswith(_CROSS_INPUTS)
