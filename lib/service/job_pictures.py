"""Pictures measured on Jobs with diffusers: the script of a job (`lib.live.measure_pictures`), and a row from a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lib.catalog.silicon import Accelerator
from lib.engines import Engine
from lib.errors import BadArgument, InvalidInput, UnsupportedModel
from lib.hub.jobs import own_script
from lib.live.measurements import Measurement
from lib.memory import estimate_memory
from lib.model.picture_defaults import find_card_defaults
from lib.model.spec import ModelSpec
from lib.service.job_plans import JobPlan, JobRequest, check_model, job_row, median_of, memory_request
from lib.service.models import Models
from lib.speed import SpeedRequest, predict_speed
from lib.workload import PipelineRequest

DEPENDENCIES = ("diffusers>=0.42,<1", "accelerate>=1.10,<2", "sentencepiece>=0.2", "protobuf>=5")
"""Packages that loading a pipeline and its tokenizers needs, in addition to those of a measurement."""
PREDICTED_AS: Engine = "transformers"
"""The engine's row by which memory and speed of a pipeline are predicted."""
_MOST_STEPS = 1_000


def picture_script(_: JobPlan, request: JobRequest) -> str:
    """The script of a job. Missing values are those of the model's card, or else of its pipeline's class."""
    card = find_card_defaults(request.models[0])
    asked, unguided = request.pictures, card is not None and not card.guided
    run = {
        "models": list(request.models),
        "precision": request.precision,
        "width": asked.width or (card.width if card else 0) or None,
        "height": asked.height or (card.height if card else 0) or None,
        "steps": asked.steps or (card.steps if card else 0) or None,
        "guidance": 0.0 if request.guidance is None and unguided else request.guidance,
    }
    return own_script(run, "lib.live.measure_pictures", DEPENDENCIES)


def describe_pictures(request: JobRequest) -> str:
    """The request of pictures, in words."""
    asked = {"width": request.pictures.width, "height": request.pictures.height, "steps": request.pictures.steps}
    stated = [f"{name} {value}" for name, value in asked.items() if value]
    stated += [] if request.guidance is None else [f"guidance {request.guidance:g}"]
    return f"{', '.join(stated) or 'no setting stated'}; the others are those of the model's card or of its pipeline"


def _whole(result: Mapping[str, Any], name: str, most: int) -> int:
    value = result.get(name)
    if type(value) is not int or not 0 < value <= most:
        raise BadArgument(f"{name} of a result", str(value)[:80], f"a whole number from 1 to {most:,}")
    return value


def picture_row(
    result: Mapping[str, Any], plan: JobPlan, request: JobRequest, models: Models, accelerators: Mapping[str, Accelerator]
) -> Measurement:
    """A row from a result; the prediction is for the size and the steps that were drawn.

    Raises:
        InvalidInput: a figure of the result is not one.
        UnsupportedModel: the model is not known.
    """
    spec = models(check_model(result.get("model"), request))
    width, height, steps = (_whole(result, name, most) for name, most in (("width", 10_000), ("height", 10_000), ("steps", _MOST_STEPS)))
    drawn = PipelineRequest(width=width, height=height, steps=steps, guidance="off" if result.get("guidance") == 0 else "auto")
    seconds, peak_bytes = _predict(spec, plan, request, drawn, accelerators)
    return job_row(
        plan,
        spec,
        device=str(result.get("device"))[:200],
        devices=1,
        driver=result.get("driver"),
        torch=str(result.get("torch")),
        engine=f"diffusers {result.get('diffusers')}",
        precision=request.precision,
        prompt_tokens=0,
        output_tokens=0,
        predicted_peak_bytes=peak_bytes,
        peak_bytes=_whole(result, "peak_bytes", 1 << 50),
        predicted_picture_s=seconds,
        picture_s=median_of("seconds", result.get("seconds")),
        width=width,
        height=height,
        steps=steps,
        guidance=None if result.get("guidance") is None else result["guidance"],
    )


def _predict(
    spec: ModelSpec, plan: JobPlan, request: JobRequest, drawn: PipelineRequest, accelerators: Mapping[str, Accelerator]
) -> tuple[float | None, int | None]:
    """Seconds and peak of one picture without what the driver holds, as the allocator counts it; None if nothing is predicted."""
    peak: int | None = None
    try:
        needed = replace(memory_request(plan, request, PREDICTED_AS), context_tokens=1, pictures=drawn)
        memory = estimate_memory(spec, needed, plan.offer.processor)
        peak = memory.per_device_bytes - memory.runtime.bytes
        shape = SpeedRequest(precision=request.precision, pictures=drawn)
        return predict_speed(spec, plan.offer, shape, accelerators).ttft_s.value, peak
    except (InvalidInput, UnsupportedModel):
        return None, peak
