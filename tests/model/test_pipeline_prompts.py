"""Pipelines whose prompts have a shape of their own run on the meta device, with and without gradients."""

from __future__ import annotations

from typing import Any

import diffusers
import pytest

from lib.model.diffusion import build_component
from lib.model.pipeline_prompts import PIPELINES, find_class
from lib.model.pipeline_run import MetaPipeline, Shape
from lib.model.training_run import run_training

_FLUX = {"_class_name": "AutoencoderKL", "block_out_channels": [8, 8], "latent_channels": 16, "norm_num_groups": 4, "shift_factor": 0.1}
_HUNYUAN = {"_class_name": "AutoencoderKLHunyuanVideo", "block_out_channels": [8, 8, 8, 8], "norm_num_groups": 4, "layers_per_block": 1}
_FLUX_2 = {
    "_class_name": "AutoencoderKLFlux2", "block_out_channels": [8] * 4, "norm_num_groups": 4,
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4,
}  # fmt: skip
_HEADS = {"attention_head_dim": 16, "num_attention_heads": 2, "axes_dims_rope": [4, 6, 6]}


@pytest.mark.parametrize(
    ("denoiser", "vae", "shape", "blocks"),
    [
        (
            {"_class_name": "LongCatImageTransformer2DModel", "num_layers": 1, "num_single_layers": 2, "joint_attention_dim": 32, **_HEADS},
            _FLUX, Shape(height=64, width=64), 3,
        ),
        (
            {"_class_name": "Krea2Transformer2DModel", "num_layers": 2, "num_key_value_heads": 1, "intermediate_size": 64,
             "text_hidden_dim": 32, "num_text_layers": 3, "text_num_attention_heads": 2, "text_num_key_value_heads": 2,
             "text_intermediate_size": 32, **_HEADS},
            {"_class_name": "AutoencoderKLQwenImage", "base_dim": 8}, Shape(height=64, width=64), 2,
        ),
        (
            {"_class_name": "ErnieImageTransformer2DModel", "hidden_size": 32, "num_attention_heads": 2, "num_layers": 2,
             "ffn_hidden_size": 64, "text_in_dim": 16, "rope_axes_dim": [4, 6, 6]},
            _FLUX_2, Shape(height=64, width=64), 2,
        ),
        (
            {"_class_name": "Kandinsky5Transformer3DModel", "in_visual_dim": 16, "out_visual_dim": 16, "in_text_dim": 16, "in_text_dim2": 8,
             "time_dim": 16, "model_dim": 32, "ff_dim": 64, "num_text_blocks": 1, "num_visual_blocks": 2, "axes_dims": [4, 6, 6],
             "visual_cond": True},
            _HUNYUAN, Shape(height=64, width=64, frames=5), 3,
        ),
    ],
    ids=lambda value: value.get("_class_name") if isinstance(value, dict) else None,
)  # fmt: skip
def test_blocks_are_found_and_adapters_keep_bytes(denoiser: dict[str, Any], vae: dict[str, Any], shape: Shape, blocks: int) -> None:
    """A batch of two prompts runs too, and adapters on attention keep bytes in every block."""
    built: dict[str, Any] = {name: build_component(name, config).built for name, config in (("transformer", denoiser), ("vae", vae))}
    kept, sizes = run_training(MetaPipeline(built), shape, "attention", autocast=True)
    assert sizes.number == blocks
    assert kept.per_rank > 0
    two, _ = run_training(MetaPipeline(built), Shape(batch=2, height=64, width=64, frames=shape.frames), "attention", autocast=True)
    assert two.blocks > 1.9 * kept.blocks


def test_rows_name_classes_of_diffusers() -> None:
    """A denoiser and its pipeline are both there."""
    for denoiser, row in PIPELINES.items():
        assert issubclass(getattr(diffusers, denoiser), diffusers.ModelMixin)
        assert issubclass(find_class(row), diffusers.DiffusionPipeline)
