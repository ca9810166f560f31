"""Memory of training a denoiser: published peaks, the order of choices, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lib.errors import BadArgument, UnsupportedModel
from lib.memory.picture_training import check_picture_training, estimate_picture_training
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.request.pictures import PictureTrainingRequest
from lib.units import GIB
from lib.workload import TrainingRequest

_ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
_QWEN, _Z_IMAGE, _SD, _WAN = (
    "Qwen/Qwen-Image", "Tongyi-MAI/Z-Image-Turbo", "stable-diffusion-v1-5/stable-diffusion-v1-5", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
)  # fmt: skip


def _spec(name: str) -> ModelSpec:
    spec = bundled.find_spec(name)
    assert spec is not None
    return spec


def _asked(side: int = 0, *, pictures: dict[str, Any] | None = None, **fields: Any) -> TrainingRequest:
    of = PictureTrainingRequest(**({"width": side, "height": side} | (pictures or {})))
    return TrainingRequest(**({"target_modules": _ATTENTION, "pictures": of} | fields))


@pytest.mark.parametrize(
    ("name", "request_", "gib"),
    [
        (_QWEN, _asked(1024, rank=8), 41.04),
        (_QWEN, _asked(1024, rank=8, checkpointing="none", pictures={"base_precision": "int8"}), 63.48),
        (_Z_IMAGE, _asked(512, rank=64), 12.87),
        (_Z_IMAGE, _asked(512, rank=64, pictures={"checkpoint_blocks": 2, "checkpoint_every": 4}), 16.88),
        (_Z_IMAGE, _asked(512, rank=64, checkpointing="none", pictures={"base_precision": "fp8-dynamic"}), 37.50),
        (_SD, _asked(512, checkpointing="none"), 2.87),
        (_WAN, _asked(checkpointing="none", pictures={"width": 576, "height": 384, "frames": 81, "base_offload": True}), 71.90),
    ],
)
def test_published_peaks(name: str, request_: TrainingRequest, gib: float) -> None:
    """Peaks of SimpleTuner on an H100 (documentation/experimental/SEGMENTED_CHECKPOINTING.md at bc8e6ab77), within 12 %."""
    assert estimate_picture_training(_spec(name), request_).allocated_bytes / GIB == pytest.approx(gib, rel=0.12)


def test_parts_add_up_and_choices_have_their_order() -> None:
    """Checkpoints, a base in fewer bits, cached inputs and offload each take less; full training takes more."""
    spec, asked = _spec(_Z_IMAGE), _asked(1024)
    memory = estimate_picture_training(spec, asked)
    assert sum(memory.parts.values()) == memory.device.typical
    of = asked.pictures
    less = [
        replace(asked, pictures=replace(of, base_offload=True)),
        replace(asked, method="qlora"),
        asked,
        replace(asked, pictures=replace(of, cached="latents")),
        replace(asked, pictures=replace(of, cached="none")),
        replace(asked, checkpointing="none", pictures=replace(of, cached="none")),
        replace(asked, method="full", checkpointing="none", pictures=replace(of, cached="none")),
    ]
    sizes = [estimate_picture_training(spec, one).device.typical for one in less]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == len(sizes)


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"objective": "dpo"}, "objective"),
        ({"side": 1000}, "width"),
        ({"pictures": {"frames": 81}}, "frames"),
        ({"optimizer": "muon"}, "optimizer"),
        ({"method": "full", "pictures": {"base_precision": "int8"}}, "base_precision"),
        ({"method": "full", "pictures": {"base_offload": True}}, "base_offload"),
        ({"pictures": {"checkpoint_blocks": 3, "checkpoint_every": 2}}, "checkpoint_every"),
        ({"target_modules": ("q_proj",)}, "target_modules"),
    ],
)
def test_refusals_name_the_argument(fields: dict[str, Any], argument: str) -> None:
    """Each with what is accepted."""
    with pytest.raises(BadArgument, match="Accepted") as refused:
        check_picture_training(_spec(_Z_IMAGE), _asked(**fields))
    assert refused.value.name == argument


def test_frames_follow_the_stride_of_the_vae() -> None:
    """Wan takes 4 k + 1 frames."""
    with pytest.raises(BadArgument, match="1 more than a multiple of 4"):
        check_picture_training(_spec(_WAN), _asked(pictures={"frames": 80}))


def test_a_pipeline_without_runs_is_refused() -> None:
    """No number is invented for a denoiser that did not run."""
    spec = _spec(_Z_IMAGE)
    assert spec.pipeline is not None
    with pytest.raises(UnsupportedModel, match="with gradients"):
        check_picture_training(replace(spec, pipeline=replace(spec.pipeline, kept=())), _asked())
