"""Pipelines that make pictures and clips: published peaks, ways to save memory, and what cannot be made."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from lib.errors import BadArgument
from lib.memory import MemoryEstimate, estimate_memory
from lib.memory.pipeline import picture_work, resolve_size
from lib.model.bundled import find_spec
from lib.model.spec import ModelSpec
from lib.workload import MemoryRequest, Offload, PipelineRequest

POINTS = json.loads((Path(__file__).parent.parent / "data" / "measured_pictures.json").read_text(encoding="utf-8"))["points"]
SDXL, FLUX, WAN = "stabilityai/stable-diffusion-xl-base-1.0", "black-forest-labs/FLUX.1-dev", "Wan-AI/Wan2.1-T2V-14B-Diffusers"


def _spec(name: str) -> ModelSpec:
    spec = find_spec(name)
    assert spec is not None
    return spec


def _estimate(name: str, batch: int = 1, precision: str = "fp16", **asked: object) -> MemoryEstimate:
    return estimate_memory(_spec(name), MemoryRequest(precision=precision, batch_size=batch, pictures=PipelineRequest(**asked)))  # type: ignore[arg-type]


def test_published_peaks() -> None:
    """Peaks of tensors of real runs on GPUs: half of all within 15 %, none of a plain run (in 16 bits, on the device) 10 % too low."""
    errors, plain = [], []
    for point in POINTS:
        if find_spec(point["model"]) is None:
            continue
        asked = {name: point[name] for name in ("width", "height", "frames", "offload", "vae_slicing", "quantized")}
        estimate = _estimate(point["model"], point["batch"], point["precision"], **asked)
        errors.append((estimate.per_device_bytes - estimate.runtime.bytes) / point["bytes"] - 1)
        plain += errors[-1:] if point["precision"] in {"fp16", "bf16"} and point["offload"] == "none" else []
    assert len(errors) >= 25
    assert statistics.median(map(abs, errors)) <= 0.15
    assert min(plain) > -0.10


def test_stages_add_up_and_the_fullest_decides() -> None:
    """The total is that of the fullest stage with the runtime."""
    estimate = _estimate(SDXL)
    assert [stage.name for stage in estimate.stages] == ["encode", "denoise", "decode"]
    assert estimate.total_bytes == max(stage.total for stage in estimate.stages) + estimate.runtime.bytes


def test_offload_saves_in_the_order_of_its_names() -> None:
    """What moves in smaller parts takes less."""
    offloads: tuple[Offload, ...] = ("none", "model", "group", "sequential")
    totals = [_estimate(FLUX, precision="bf16", offload=offload).total_bytes for offload in offloads]
    assert totals == sorted(totals, reverse=True)
    assert totals[-1] < totals[0] / 5


def test_tiles_and_slices_save_while_decoding() -> None:
    """Slices hold one picture, tiles a part of one."""
    whole = _estimate(SDXL, 4, width=2048, height=2048)
    sliced = _estimate(SDXL, 4, width=2048, height=2048, vae_slicing=True)
    both = _estimate(SDXL, 4, width=2048, height=2048, vae_slicing=True, vae_tiling=True)
    decode = [estimate.stages[2].activation for estimate in (whole, sliced, both)]
    assert decode[1] < decode[0] / 3
    assert decode[2] < decode[1] / 2


def test_a_clip_says_what_tiles_would_take_while_decoding() -> None:
    """The figure is that of the same clip with tiles, which then has no such caveat; a picture has none."""
    whole, tiled = (_estimate(WAN, vae_tiling=tiles) for tiles in (False, True))
    caveat = next(caveat for caveat in whole.caveats if caveat.code == "clip_decoding")
    assert caveat.values == {"decode_bytes": whole.stages[2].activation, "tiled_bytes": tiled.stages[2].activation}
    assert "clip_decoding" not in {caveat.code for estimate in (tiled, _estimate(SDXL)) for caveat in estimate.caveats}


def test_a_batched_guide_doubles_the_denoiser_and_an_embedded_one_does_not() -> None:
    """SDXL asks for both at once, FLUX.1 takes guidance as a number."""
    free, guided = (_estimate(SDXL, precision="bf16", guidance=g).stages[1].activation for g in ("off", "auto"))
    assert 1.9 < guided / free <= 2.0
    assert _estimate(FLUX, guidance="off").stages == _estimate(FLUX).stages


def test_quantized_denoiser_alone_keeps_text_encoders() -> None:
    """The VAE is never quantized."""
    both, alone = (_estimate(FLUX, precision="int8", quantized=q).weights.details for q in ("all", "denoiser"))
    assert both["transformer"] == alone["transformer"]
    assert both["text_encoder_2"] < alone["text_encoder_2"]
    assert both["vae"] == alone["vae"]


@pytest.mark.parametrize(("name", "resolution", "flop", "decoder"), [
    (SDXL, 1024, 5.98e12, 10e12),
    (FLUX, 1024, 74.4e12, 10e12),
    ("stable-diffusion-v1-5/stable-diffusion-v1-5", 512, 0.8e12, 2.5e12),
    ("stabilityai/stable-diffusion-3-medium-diffusers", 1024, 8.9e12, 10e12),
])  # fmt: skip
def test_flop_of_an_evaluation(name: str, resolution: int, flop: float, decoder: float) -> None:
    """Published work per evaluation and of the decoder (models of facts/measured_throughput.json)."""
    spec = _spec(name)
    assert spec.pipeline is not None
    asked = PipelineRequest(width=resolution, height=resolution)
    work = picture_work(spec, resolve_size(spec, asked), asked)
    assert work.flop == pytest.approx(flop, rel=0.15)
    assert work.decoder_flop - spec.pipeline.encoder_flop == pytest.approx(decoder, rel=0.10)


@pytest.mark.parametrize(("name", "asked", "said"), [
    (SDXL, {"width": 100_000}, "up to 8,192 pixels"),
    (SDXL, {"height": 1001}, "such as 1,000 or 1,008"),
    (SDXL, {"frames": 16}, "makes pictures and not clips"),
    (WAN, {"frames": 80}, "such as 81"),
    ("Qwen/Qwen3-0.6B", {"width": 512}, "makes no pictures"),
])  # fmt: skip
def test_what_cannot_be_made_is_a_sentence(name: str, asked: dict[str, int], said: str) -> None:
    """A refusal names what is accepted."""
    with pytest.raises(BadArgument, match=said):
        resolve_size(_spec(name), PipelineRequest(**asked))
