"""Seconds of a training step of pictures: published steps, and the order of choices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lib.catalog import load
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.speed.picture_training import predict_picture_step
from lib.workload import PictureTrainingRequest, TrainingRequest

_ATTENTION = ("to_q", "to_k", "to_v", "to_out.0")
_QWEN, _Z_IMAGE, _KOLORS, _FLUX_2 = (
    "Qwen/Qwen-Image", "Tongyi-MAI/Z-Image-Turbo", "Kwai-Kolors/Kolors-diffusers", "black-forest-labs/FLUX.2-klein-4B",
)  # fmt: skip
CARDS = load().accelerators


def _spec(name: str) -> ModelSpec:
    spec = bundled.find_spec(name)
    assert spec is not None
    return spec


def _asked(side: int, pictures: dict[str, Any] | None = None, **fields: Any) -> TrainingRequest:
    size = PictureTrainingRequest(**({"width": side, "height": side} | (pictures or {})))
    return TrainingRequest(**({"target_modules": _ATTENTION, "pictures": size} | fields))


@pytest.mark.parametrize(
    ("name", "request_", "card", "seconds"),
    [
        (_QWEN, _asked(1024, rank=8), "H100-SXM", 1.202),
        (_QWEN, _asked(1024, rank=8), "L40S", 3.377),
        (_Z_IMAGE, _asked(512, rank=64, checkpointing="none"), "H100-SXM", 0.243),
        (_Z_IMAGE, _asked(512, rank=64), "L40S", 0.493),
        (_Z_IMAGE, _asked(512, {"base_precision": "int8"}, rank=64), "L40S", 1.058),
        (_KOLORS, _asked(512, checkpointing="none"), "L40S", 0.628),
        (_FLUX_2, _asked(512, rank=32, micro_batch=2, optimizer="adamw_foreach"), "L40S", 0.7359),
        (_FLUX_2, _asked(512, method="full", precision="bf16", micro_batch=2, optimizer="adamw_foreach"), "L40S", 0.8235),
    ],
)
def test_published_steps(name: str, request_: TrainingRequest, card: str, seconds: float) -> None:
    """Steps of SimpleTuner's sweep (bc8e6ab77) and, for FLUX.2, of peft's comparison, which the fit has not seen."""
    step = predict_picture_step(_spec(name), request_, CARDS[card])
    assert step is not None
    assert step.low_s <= seconds <= step.high_s or step.step_s == pytest.approx(seconds, rel=0.35)


def test_choices_have_their_order() -> None:
    """Recomputing, encoding, full training and a slower card each take longer; accumulation takes as long for each micro-batch."""
    spec, asked = _spec(_Z_IMAGE), _asked(1024, checkpointing="none")
    more = [
        asked,
        replace(asked, checkpointing="layers"),
        replace(asked, checkpointing="layers", pictures=replace(asked.pictures, cached="none")),
        replace(asked, method="full", checkpointing="layers", pictures=replace(asked.pictures, cached="none")),
    ]
    steps = [predict_picture_step(spec, one, CARDS["A100-SXM4-80GB"]) for one in more]
    seconds = [step.step_s for step in steps if step is not None]
    assert len(seconds) == len(more)
    assert seconds == sorted(seconds)
    slow, four = (predict_picture_step(spec, one, CARDS["L4"]) for one in (asked, replace(asked, accumulation=4)))
    assert slow is not None
    assert four is not None
    assert slow.step_s > seconds[0]
    assert four.step_s == pytest.approx(4 * slow.step_s, rel=0.02)
    assert 0 < slow.mfu < 1
