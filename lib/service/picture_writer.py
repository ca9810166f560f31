"""The files of `/write_files` that train a pipeline of pictures."""

from __future__ import annotations

import math

from lib.catalog.offers import Hardware
from lib.errors import BadArgument
from lib.memory.picture_training import base_format, check_picture_training, resolve_picture
from lib.present.picture_files import CHECKED, TESTED_WITH, find_obstacle, learning_rate, picture_packages, picture_script
from lib.present.releases import load_versions
from lib.present.sentences import note, say
from lib.present.training_files import SCRIPT, job_command, launch_command
from lib.provenance import Source
from lib.service.files_question import Question, Written
from lib.speed.picture_training import rank_picture_hardware
from lib.speed.training import train_on
from lib.units import GIB


def job_notes(hardware: Hardware, hours: float) -> tuple[str, ...]:
    """When a Job ends that gets so many hours and half as many again, and its price; nothing for other hardware."""
    if not hardware.traits.runs_jobs:
        return ()
    limit, ends = math.ceil(1.5 * hours), note("files", "job_ends", hours=math.ceil(1.5 * hours))
    if hardware.usd_per_hour is None:
        return (ends,)
    return ends, note("files", "job_price", usd_per_hour=hardware.usd_per_hour, usd=limit * hardware.usd_per_hour)


def write_picture_training(question: Question, hours: float) -> Written:
    """A script of diffusers and peft for one card, on Jobs with a limit of so many hours and half as many again.

    Raises:
        BadArgument: nothing is written for this training, or the hardware does not hold it.
        UnsupportedModel: a pipeline that was not run with gradients here.
    """
    spec, hardware, step = question.spec, question.hardware, question.arguments.step
    check_picture_training(spec, step)
    size = resolve_picture(spec, step)
    obstacle = find_obstacle(step)
    if obstacle is not None:
        raise obstacle
    options = rank_picture_hardware(spec, step, question.catalog, (hardware.platform,))
    option = next((option for option in options if option.hardware in {hardware.id, hardware.processor.id}), None)
    if option is None or option.verdict == "no":
        why = f"it takes {option.needed_bytes / GIB:,.1f} GiB on one GPU" if option is not None else "no training is computed for this one"
        raise BadArgument("hardware", hardware.id, f"hardware that trains this model so, which /estimate_training lists: {why}")
    request = train_on(hardware.processor, step)
    half = "fp16" if request.fp16 else "bf16"
    rate = learning_rate(request)
    on_jobs, versions = hardware.traits.runs_jobs, load_versions()
    return Written(
        precision=base_format(request) if base_format(request) != "bf16" else option.compute_dtype,
        engine="transformers",
        devices=1,
        repository=spec.id,
        caveats=spec.caveats,
        files={SCRIPT: picture_script(spec.id, request, size, half=half)},
        command=job_command(hardware.id, hours) if on_jobs else launch_command(),
        tested_with=TESTED_WITH,
        notes=(
            note("files", "dataset" if not size.frames else "dataset_of_clips"),
            note("files", "learning_rate", rate=rate.value, origin=rate.source),
            note("files", "uploaded_denoiser" if request.method == "full" else "uploaded_adapter"),
            note("files", "goes_on"),
            *job_notes(hardware, hours),
        ),
        sources=(
            Source(what=say("files", "facts", "learning_rates", recipe="pictures"), source=rate.source, checked=CHECKED),
            *(versions[name].source for name in picture_packages(request, clips=bool(size.frames))),
        ),
    )
