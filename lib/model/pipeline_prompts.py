"""The pipeline of diffusers that a denoiser belongs to, and the shapes of the embedded prompts that a call of it takes.

A pipeline is given embeddings in the shape that its text encoders would make. Most take `prompt_embeds` (prompts, tokens, width) and a
mask, and the denoiser's configuration states the width under one of a few names. Rows of `PIPELINES` state other names and shapes.

Source: diffusers 0.42.1, `__call__` and `encode_prompt` of each pipeline, read on 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import diffusers
from torch import Tensor, empty, long, ones
from torch import dtype as Dtype  # noqa: N812 a type

from lib.errors import UnsupportedModel

CLIP_TOKENS = 77
PROMPTS, TOKENS = "prompts", "tokens"
"""Axes of an embedding that are asked for; any other text names a setting of the denoiser."""
_WIDTHS = (
    "encoder_hid_dim", "joint_attention_dim", "caption_channels", "cross_attention_dim", "text_embed_dim", "text_dim", "cap_feat_dim",
    "context_in_dim",
)  # fmt: skip


class Embedding(NamedTuple):
    """An argument of a call: a tensor with these axes; `negative_` before the name is the same for the negative prompt."""

    argument: str
    axes: tuple[str | int, ...]
    kind: Literal["tensor", "list", "mask", "starts"] = "tensor"
    """"list" has one tensor for each prompt; "mask" marks every token; "starts" are the positions where prompts begin and end."""


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A pipeline that makes pictures or clips from text.

    Args:
        name: class of diffusers.
        tokens: tokens that it pads a prompt to; 0 if its call says so.
        more_tokens: tokens of other encoders that are put before those.
        embeddings: arguments of the call; () for `prompt_embeds` with a mask.
        listed: the plain `prompt_embeds` are a list, one tensor for each prompt.
        counts_prompts: it counts the texts of prompts although embeddings are given.
    """

    name: str
    tokens: int = 0
    more_tokens: int = 0
    embeddings: tuple[Embedding, ...] = ()
    listed: bool = False
    counts_prompts: bool = False


_KANDINSKY = (
    Embedding("prompt_embeds_qwen", (PROMPTS, TOKENS, "in_text_dim")),
    Embedding("prompt_embeds_clip", (PROMPTS, "in_text_dim2")),
    Embedding("prompt_cu_seqlens", (PROMPTS, TOKENS), "starts"),
)
_HUNYUAN_15 = (
    Embedding("prompt_embeds", (PROMPTS, TOKENS, "text_embed_dim")), Embedding("prompt_embeds_mask", (PROMPTS, TOKENS), "mask"),
    Embedding("prompt_embeds_2", (PROMPTS, 256, "text_embed_2_dim")), Embedding("prompt_embeds_mask_2", (PROMPTS, 256), "mask"),
)  # fmt: skip
PIPELINES: Mapping[str, PipelineRow] = MappingProxyType(
    {
        "AuraFlowTransformer2DModel": PipelineRow("AuraFlowPipeline"),
        "BriaTransformer2DModel": PipelineRow("BriaPipeline"),
        "ChromaTransformer2DModel": PipelineRow("ChromaPipeline"),
        "CogVideoXTransformer3DModel": PipelineRow("CogVideoXPipeline"),
        "CogView4Transformer2DModel": PipelineRow("CogView4Pipeline"),
        "ErnieImageTransformer2DModel": PipelineRow(
            "ErnieImagePipeline", embeddings=(Embedding("prompt_embeds", (PROMPTS, TOKENS, "text_in_dim"), "list"),)
        ),
        "Flux2Transformer2DModel": PipelineRow("Flux2Pipeline"),
        "FluxTransformer2DModel": PipelineRow("FluxPipeline"),
        "HunyuanVideo15Transformer3DModel": PipelineRow("HunyuanVideo15Pipeline", tokens=1000, embeddings=_HUNYUAN_15),
        "HunyuanVideoTransformer3DModel": PipelineRow("HunyuanVideoPipeline"),
        "Kandinsky5Transformer3DModel": PipelineRow("Kandinsky5T2VPipeline", embeddings=_KANDINSKY),
        "Krea2Transformer2DModel": PipelineRow(
            "Krea2Pipeline",
            embeddings=(
                Embedding("prompt_embeds", (PROMPTS, TOKENS, "num_text_layers", "text_hidden_dim")),
                Embedding("prompt_embeds_mask", (PROMPTS, TOKENS), "mask"),
            ),
        ),
        "LTXVideoTransformer3DModel": PipelineRow("LTXPipeline"),
        "LatteTransformer3DModel": PipelineRow("LattePipeline"),
        "LongCatImageTransformer2DModel": PipelineRow("LongCatImagePipeline", tokens=512, counts_prompts=True),
        "Lumina2Transformer2DModel": PipelineRow("Lumina2Pipeline"),
        "MochiTransformer3DModel": PipelineRow("MochiPipeline"),
        "OvisImageTransformer2DModel": PipelineRow("OvisImagePipeline"),
        "PRXTransformer2DModel": PipelineRow("PRXPipeline", tokens=256),
        "PixArtTransformer2DModel": PipelineRow("PixArtSigmaPipeline"),
        "QwenImageTransformer2DModel": PipelineRow("QwenImagePipeline"),
        "SD3Transformer2DModel": PipelineRow("StableDiffusion3Pipeline", more_tokens=CLIP_TOKENS),
        "SanaTransformer2DModel": PipelineRow("SanaPipeline"),
        "SanaVideoTransformer3DModel": PipelineRow("SanaVideoPipeline"),
        "SkyReelsV2Transformer3DModel": PipelineRow("SkyReelsV2Pipeline"),
        "WanTransformer3DModel": PipelineRow("WanPipeline"),
        "ZImageTransformer2DModel": PipelineRow("ZImagePipeline", listed=True),
    }
)
"""The pipeline by the denoiser's class. `find_pipeline` distinguishes classes that share a denoiser by its configuration."""


def find_pipeline(denoiser: Any) -> PipelineRow:
    """The pipeline that makes pictures or clips from text with a denoiser.

    Raises:
        UnsupportedModel: a denoiser without a row.
    """
    name, config = type(denoiser).__name__, denoiser.config
    if name == "UNet2DConditionModel":
        large = getattr(config, "addition_embed_type", None) == "text_time"
        return PipelineRow("StableDiffusionXLPipeline" if large else "StableDiffusionPipeline")
    if name == "Flux2Transformer2DModel" and not config.guidance_embeds:
        return PipelineRow("Flux2KleinPipeline")
    if name not in PIPELINES:
        raise UnsupportedModel(f"It is not known here which pipeline of diffusers {name} belongs to.")
    return PIPELINES[name]


def find_class(row: PipelineRow) -> Any:
    """The pipeline's class."""
    return getattr(diffusers, row.name)


class _Starts(int):
    """Positions where prompts of this length begin, as far as pipelines ask: the longest length."""

    def diff(self) -> _Starts:
        """The lengths."""
        return self

    def max(self) -> _Starts:
        """The longest."""
        return self

    def item(self) -> int:
        """Its value."""
        return int(self)


def _plain(row: PipelineRow, config: Any) -> list[Embedding]:
    """`prompt_embeds` with pooled embeddings and masks, as most pipelines take them."""
    width = next(int(value) for name in _WIDTHS if (value := getattr(config, name, None)))
    added = getattr(config, "projection_class_embeddings_input_dim", None) or 0
    pooled = getattr(config, "pooled_projection_dim", None) or added - 6 * (getattr(config, "addition_time_embed_dim", None) or 0)
    embeddings = [Embedding("prompt_embeds", (PROMPTS, TOKENS, width), "list" if row.listed else "tensor")]
    if pooled > 0:
        embeddings.append(Embedding("pooled_prompt_embeds", (PROMPTS, pooled)))
    return embeddings + [Embedding(name, (PROMPTS, TOKENS), "mask") for name in ("prompt_attention_mask", "prompt_embeds_mask")]


def make_embeddings(row: PipelineRow, config: Any, prompts: int, tokens: int, dtype: Dtype) -> dict[str, Any]:
    """Arguments of a call in place of so many prompts, on the meta device; also those that a pipeline does not take."""
    texts = [""] * prompts if row.counts_prompts else None
    inputs: dict[str, Any] = {"prompt": texts, "negative_prompt": texts}
    for embedding in row.embeddings or _plain(row, config):
        asked = {PROMPTS: prompts, TOKENS: tokens + row.more_tokens}
        axes = [asked.get(axis) or int(getattr(config, axis)) if isinstance(axis, str) else axis for axis in embedding.axes]
        value: Tensor | list[Tensor] | _Starts
        if embedding.kind == "starts":
            value = _Starts(axes[-1])
        elif embedding.kind == "mask":
            value = ones(axes, dtype=long, device="meta")
        else:
            tensor = empty(axes, dtype=dtype, device="meta")
            value = list(tensor) if embedding.kind == "list" else tensor
        for name in (embedding.argument, "negative_" + embedding.argument):
            inputs[name] = value
    return inputs
