"""The closed form of pipelines against dry runs at sizes that it was not made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from lib.memory import estimate_memory
from lib.memory.pipeline import is_guided
from lib.model import bundled
from lib.model.diffusion import build_component
from lib.model.pipeline_run import MetaPipeline
from lib.workload import MemoryRequest, PipelineRequest
from tests.benchmarks.bench_dry_run import PICTURES


def _modules(config: dict[str, Any]) -> dict[str, Any]:
    """Denoiser and VAE of a pipeline on the meta device, by folder."""
    return {name: build_component(name, part).built for name, part in config.items() if "_class_name" in part}


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_closed_form_agrees_with_a_dry_run(name: str) -> None:
    """Temporary tensors of each stage, and with the weights the peak, within 5 %."""
    shape, spec = PICTURES[name], bundled.find_spec(name)
    config: Any = bundled.find_config(name)
    assert spec is not None
    asked = PipelineRequest(width=shape.width, height=shape.height, frames=shape.frames)
    guided = is_guided(spec, asked) or (spec.pipeline is not None and spec.pipeline.guidance != "batched")
    run = MetaPipeline(_modules(config)).call(replace(shape, guided=guided), torch.bfloat16)
    estimate = estimate_memory(spec, MemoryRequest(precision="bf16", batch_size=shape.batch, pictures=asked))
    _, denoise, decode = estimate.stages
    assert denoise.activation == pytest.approx(run.denoise.peak, rel=0.05)
    assert decode.activation == pytest.approx(run.decode.peak, rel=0.05)


@pytest.mark.slow
def test_tiles_by_the_law_agree_with_a_decoder_that_cuts_them() -> None:
    """One tile, every tile and the whole: what the VAE of SD 1.5 holds at 1,024 px."""
    name = "stable-diffusion-v1-5/stable-diffusion-v1-5"
    spec, config = bundled.find_spec(name), bundled.find_config(name)
    assert spec is not None
    assert config is not None
    pipeline = MetaPipeline(_modules(config))
    pipeline.vae.to(torch.bfloat16)
    run = pipeline.decode_by_tiles(torch.empty(1, 4, 128, 128, dtype=torch.bfloat16, device="meta"))
    asked = PipelineRequest(width=1024, height=1024, vae_tiling=True)
    estimate = estimate_memory(spec, MemoryRequest(precision="bf16", pictures=asked))
    assert estimate.stages[2].activation == pytest.approx(run.peak, rel=0.10)
