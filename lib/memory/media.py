"""Pictures and sound of a request, counted as the model takes them: tokens in its prompt, passes of towers, cached positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lib.errors import BadArgument
from lib.laws.activation import prefill_bytes
from lib.laws.media_tokens import DEFAULT_S, ImageSize, count_image, count_sound

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec, VisionInput
    from lib.request.media import MediaRequest

_MOST_OBLONG = 200  # processors of Qwen's models refuse more


class PromptMedia(NamedTuple):
    """Tokens and passes of one request's pictures or sound; all 0 for text alone.

    `passes` of the tower read `positions` each; `cross_positions` are those that layers of cross-attention keep.
    `read_positions` are those of an encoder that takes no text (a picture's patches, the frames of a sound), 0 if tokens are read.
    Sound of `sound_s` seconds is read in `windows`, one after another; `waiting_features` are elements of those that wait.
    """

    images: int = 0
    tokens: int = 0
    passes: int = 0
    positions: int = 0
    cross_positions: int = 0
    read_positions: int = 0
    sound_s: float = 0.0
    windows: int = 1
    waiting_features: int = 0


NO_MEDIA = PromptMedia()


def resolve_media(spec: ModelSpec, request: MediaRequest) -> PromptMedia:
    """The pictures and the sound of a request, counted.

    Raises:
        BadArgument: pictures or sound for a model that takes none or whose rule is not known, or of a shape that no processor takes.
    """
    heard = _resolve_sound(spec, request.audio_seconds)
    return _resolve_images(spec, request) if request.images else heard


def _resolve_sound(spec: ModelSpec, seconds: float) -> PromptMedia:
    """Input of an encoder for a sound; for a picture where it takes nothing else."""
    if spec.sound is None:
        if seconds:
            hears = spec.work == "speech" or "audio_tower" in spec.parameters_by_component
            why = "how many positions a sound takes is not known here" if hears else "it takes no sound"
            raise BadArgument("audio_seconds", f"{seconds:g}", f"0 for {spec.id or 'this model'}: {why}")
        return NO_MEDIA if spec.picture_pass is None else PromptMedia(read_positions=spec.picture_pass.positions)
    seconds = seconds or DEFAULT_S
    count = count_sound(seconds, spec.sound)
    read = 0 if spec.cache_terms else count.positions
    return PromptMedia(
        read_positions=read, sound_s=seconds, windows=count.windows, waiting_features=(count.windows - 1) * spec.sound.features
    )


def _resolve_images(spec: ModelSpec, request: MediaRequest) -> PromptMedia:
    if spec.vision is None:
        towers = "vision_tower" in spec.parameters_by_component
        why = "how many tokens a picture takes is not known here; add them to the prompt" if towers else "no prompt of it takes pictures"
        raise BadArgument("images", request.images, f"0 for {spec.id or 'this model'}: {why}")
    size = ImageSize(request.image_width, request.image_height)
    if max(size) > _MOST_OBLONG * min(size):
        raise BadArgument("image_width × image_height", f"{size.width:,} × {size.height:,}", f"sides of at most {_MOST_OBLONG} to 1")
    one = count_image(size, spec.vision.rules)
    crossed = one.tiles * one.positions if spec.vision.cross else 0
    return PromptMedia(
        images=request.images,
        tokens=one.tokens * request.images,
        passes=one.tiles * request.images,
        positions=one.positions,
        cross_positions=crossed * request.images,
    )


def tower_bytes(vision: VisionInput | None, media: PromptMedia, requests: int, element_bytes: int) -> int:
    """Temporary tensors of the vision tower over the pictures of several requests at once, by the law of a plain encoder."""
    if vision is None or not media.passes:
        return 0
    tower, passes = vision.tower, media.passes * requests
    layer_bytes = vision.kept_layers * passes * media.positions * tower.hidden_size * element_bytes
    return layer_bytes + prefill_bytes(
        tokens=media.positions, batch=passes, element_bytes=element_bytes, hidden=tower.hidden_size,
        query_width=tower.hidden_size, key_width=tower.hidden_size, mlp_width=tower.intermediate_size,
        heads=tower.attention_heads, vocabulary=0,
    )  # fmt: skip
