"""The pictures of a request as the model takes them: tokens in its prompt, passes of the tower, and what cross-attention caches of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lib.errors import BadArgument
from lib.laws.activation import prefill_bytes
from lib.laws.image_tokens import ImageSize, count_image

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec, VisionInput
    from lib.workload import MediaRequest

MOST_IMAGES = 10_000
SHORTEST_SIDE, LONGEST_IMAGE = 28, 16_384
_MOST_OBLONG = 200  # processors of Qwen's models refuse more


class PromptMedia(NamedTuple):
    """What the pictures of one request come to; all 0 for text alone.

    `passes` of the tower read `positions` each; `cross_positions` are those that layers of cross-attention keep.
    """

    images: int = 0
    tokens: int = 0
    passes: int = 0
    positions: int = 0
    cross_positions: int = 0


NO_MEDIA = PromptMedia()


def resolve_media(spec: ModelSpec, asked: MediaRequest) -> PromptMedia:
    """The pictures of a request, counted.

    Raises:
        BadArgument: pictures for a model that takes none or whose rule is not known, or of a shape that no processor takes.
    """
    if not asked.images:
        return NO_MEDIA
    if spec.vision is None:
        towers = "vision_tower" in spec.parameters_by_component
        why = "how many tokens a picture takes is not known here; add them to the prompt" if towers else "no prompt of it takes pictures"
        raise BadArgument("images", asked.images, f"0 for {spec.id or 'this model'}: {why}")
    size = ImageSize(asked.image_width, asked.image_height)
    if max(size) > _MOST_OBLONG * min(size):
        raise BadArgument("image_width × image_height", f"{size.width:,} × {size.height:,}", f"sides of at most {_MOST_OBLONG} to 1")
    one = count_image(size, spec.vision.rules)
    crossed = one.tiles * one.positions if spec.vision.cross else 0
    return PromptMedia(
        images=asked.images,
        tokens=one.tokens * asked.images,
        passes=one.tiles * asked.images,
        positions=one.positions,
        cross_positions=crossed * asked.images,
    )


def tower_bytes(vision: VisionInput | None, media: PromptMedia, requests: int, element_bytes: int) -> int:
    """Temporary tensors of the vision tower over the pictures of so many requests at once, by the law of a plain encoder."""
    if vision is None or not media.passes:
        return 0
    of, passes = vision.tower, media.passes * requests
    kept = vision.kept_layers * passes * media.positions * of.hidden_size * element_bytes
    return kept + prefill_bytes(
        tokens=media.positions, batch=passes, element_bytes=element_bytes, hidden=of.hidden_size,
        query_width=of.hidden_size, key_width=of.hidden_size, mlp_width=of.intermediate_size, heads=of.attention_heads, vocabulary=0,
    )  # fmt: skip
