"""What a denoiser keeps for its backward pass, on the meta device, against torch's autograd on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from lib.model.diffusion import build_component
from lib.model.pipeline_run import MetaPipeline, Shape
from lib.model.spec import TRAINED
from lib.model.training_run import _TrainingKernels, run_training

_DENOISER = {
    "_class_name": "SD3Transformer2DModel", "sample_size": 32, "num_layers": 4, "attention_head_dim": 8, "num_attention_heads": 4,
    "joint_attention_dim": 32, "caption_projection_dim": 32, "pooled_projection_dim": 64, "in_channels": 4, "out_channels": 4,
}  # fmt: skip
_VAE = {"_class_name": "AutoencoderKL", "block_out_channels": [8, 8], "latent_channels": 4, "norm_num_groups": 4}
_SHAPE = Shape(batch=2, height=64, width=64)


def _pipeline() -> MetaPipeline:
    built: dict[str, Any] = {name: build_component(name, config).built for name, config in (("transformer", _DENOISER), ("vae", _VAE))}
    return MetaPipeline(built)


def _bytes_on_a_cpu(pipeline: MetaPipeline) -> int:
    """Bytes of the storages that autograd saves where the same denoiser is trained in full with real tensors."""
    args, kwargs = pipeline.capture(_SHAPE, torch.bfloat16)

    def real(value: Any) -> Any:
        return torch.zeros(value.shape, dtype=value.dtype) if isinstance(value, torch.Tensor) else value

    model = pipeline.denoiser.to_empty(device="cpu")
    weights = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    saved: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with _TrainingKernels(autocast=False), saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(*map(real, args), **{name: real(value) for name, value in kwargs.items()})
    assert output is not None
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


def test_bytes_are_those_that_autograd_saves() -> None:
    """Equal blocks run once and are counted each; block inputs are kept or are the output of a product that is not."""
    kept, blocks = run_training(_pipeline(), _SHAPE, "full", autocast=False)
    real = _bytes_on_a_cpu(_pipeline())
    assert blocks.number == _DENOISER["num_layers"]
    assert kept.outside + kept.blocks <= real <= kept.outside + kept.blocks + kept.checkpoints


@pytest.mark.parametrize("trained", TRAINED)
def test_a_batch_twice_as_large_keeps_twice_as_much(trained: Any) -> None:
    """Autocast keeps norms in float32, and only adapters have a rank."""
    one, two = (run_training(_pipeline(), Shape(batch=batch, height=64, width=64), trained, autocast=True)[0] for batch in (1, 2))
    plain = run_training(_pipeline(), Shape(batch=2, height=64, width=64), trained, autocast=False)[0]
    assert two.blocks == pytest.approx(2 * one.blocks, rel=0.02)
    assert plain.blocks < two.blocks
    assert (two.per_rank > 0) == (trained != "full")
