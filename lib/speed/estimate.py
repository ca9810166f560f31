"""One question about speed, answered with its parts, its range and what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lib.errors import InvalidInput, UnsupportedModel
from lib.precision import weight_format
from lib.provenance import Caveat, Source
from lib.speed.batch import native_format, resolve_deployment
from lib.speed.calibration import Calibration, load_calibration
from lib.speed.diffusion import predict_pictures
from lib.speed.hardware import emulates, is_measured
from lib.speed.offload import combine_split, split_model
from lib.speed.parts import decode_parts, prompt_parts
from lib.speed.predict import STATIC_BATCH_ENGINES, predict_deployments, predict_speeds
from lib.speed.result import ExplainedSpeed, SpeedEstimate, SpeedRequest
from lib.units import GIB

if TYPE_CHECKING:
    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator, Cards
    from lib.model.spec import ModelSpec
    from lib.speed.batch import Deployment, Question
    from lib.speed.predict import SpeedTable

PACKED_BITS = 8
SPEECH_RECOGNITION = "automatic-speech-recognition"
_LARGEST_SHARE = 0.98


def predict_speed(
    spec: ModelSpec, hardware: Offer | Cards, request: SpeedRequest, accelerators: Mapping[str, Accelerator]
) -> ExplainedSpeed:
    """How fast `request.concurrency` requests of this shape run, in flight all the time; `accelerators` are the catalog's.

    Raises:
        BadArgument: the precision is unknown, or the engine needs other hardware.
        UnknownHardware: a CPU of which nothing is known.
        UnsupportedModel: a pipeline of which no work per picture is known.
    """
    if spec.library == "diffusers":
        return predict_pictures(spec, hardware, request, accelerators)
    split = split_model(spec, hardware, request, accelerators)
    whole = replace(request, gpu_layers=None)
    if split is not None:
        gpu, host = (predict_speed(spec, where, whole, accelerators) for where in (split.gpus, split.host))
        return combine_split(split, gpu, host)
    table = predict_speeds([(spec, hardware, whole)], accelerators)
    return _explained(table, table.estimates()[0])


def predict_each(questions: Sequence[Question], accelerators: Mapping[str, Accelerator]) -> list[SpeedEstimate | None]:
    """The estimate of each question, pipelines included; `None` where `predict_speed` would raise. One pass for all but the pipelines."""
    estimates: list[SpeedEstimate | None] = [None] * len(questions)
    deployments: dict[int, Deployment] = {}
    for i, question in enumerate(questions):
        try:
            if question[0].library == "diffusers":
                estimates[i] = predict_pictures(*question, accelerators)
            elif question[2].gpu_layers is not None:
                estimates[i] = predict_speed(*question, accelerators)
            else:
                deployments[i] = resolve_deployment(question, accelerators)
        except (InvalidInput, UnsupportedModel):
            continue
    if deployments:
        for i, estimate in zip(deployments, predict_deployments(list(deployments.values())).estimates(), strict=True):
            estimates[i] = estimate
    return estimates


def _explained(table: SpeedTable, estimate: SpeedEstimate) -> ExplainedSpeed:
    """The only row of a table with what stands behind it."""
    calibration = load_calibration()
    of, request = table.deployments[0], estimate.request
    decodes = estimate.tpot_s is not None
    hears = estimate.sound_s > 0
    items = None
    if estimate.throughput_tokens_per_s is not None and (hears or not decodes):
        items = estimate.throughput_tokens_per_s.times(1.0 / (request.output_tokens if decodes else float(table.inputs.prompt_tokens[0])))
    return ExplainedSpeed(
        request=request,
        ttft_s=estimate.ttft_s,
        tpot_s=estimate.tpot_s,
        throughput_tokens_per_s=estimate.throughput_tokens_per_s,
        bound=estimate.bound,
        floor=estimate.floor,
        prefill_s=estimate.prefill_s,
        precision=of.precision,
        engine=of.layout.engine,
        running_requests=of.running_requests,
        items_per_s=items,
        unit="sequences" if not decodes else "windows" if hears else "tokens",
        windows=estimate.windows,
        sound_s=estimate.sound_s,
        decode_parts=decode_parts(table) if decodes else (),
        prompt_parts=prompt_parts(table),
        caveats=_caveats(of, calibration),
        sources=_sources(of, calibration),
    )


def _caveats(of: Deployment, calibration: Calibration) -> tuple[Caveat, ...]:
    """What the answer leaves open."""
    spec, card, engine = of.spec, of.devices.silicon, of.layout.engine
    hears = spec.task == SPEECH_RECOGNITION
    possible = (
        (not is_measured(calibration.measured, engine, card), Caveat("extrapolated", {"engine": engine, "silicon": card.name})),
        (engine == "vllm-tpu" and of.work.decoder is None, Caveat("extrapolated", {"engine": engine}, variant="encoder")),
        (of.layout.pipeline_stages > 1, Caveat("one_after_another", {"engine": engine, "devices": of.devices.count})),
        (card.kind == "cpu" and not card.reached, Caveat("cpu_estimate")),
        (hears and card.kind == "cpu" and of.work.decoder is not None, Caveat("cpu_estimate", variant="speech")),
        (hears and of.work.decoder is None, Caveat("waveform_convolutions")),
        (spec.library == "gguf", Caveat("gguf_engine")),
        (engine == "llama.cpp" and card.vendor == "NVIDIA", Caveat("prompts_of_2024")),
        (engine == "host" and weight_format(of.precision).bits <= PACKED_BITS, Caveat("cpu_estimate", variant="packed")),
        (spec.unknown_cache, Caveat("cache_unknown")),
        (spec.source == "rule_of_thumb", Caveat("typical_model", variant="speed")),
        (engine in STATIC_BATCH_ENGINES and of.request.concurrency > 1, Caveat("static_batch")),
        *_conversions(of),
    )
    return (*of.devices.caveats, *of.layout.caveats, *_shortage(of), *(caveat for holds, caveat in possible if holds))


def _conversions(of: Deployment) -> tuple[tuple[bool, Caveat], ...]:
    """Formats that this silicon computes in another type than they are named after."""
    card, timed_as = of.devices.silicon, native_format(of.precision, of.compute, of.devices.silicon)
    values = {"precision": of.precision, "silicon": card.name, "timed_as": timed_as}
    return (
        (emulates(card, of.arithmetic), Caveat("emulated_dtype", values)),
        (timed_as != of.precision, Caveat("emulated_dtype", values, variant="converted")),
    )


def _shortage(of: Deployment) -> tuple[Caveat, ...]:
    """Whether the weights and all requests fit."""
    memory = of.devices.memory * of.layout.tensor_parallel * of.layout.pipeline_stages
    if memory and of.work.total_bytes > memory * _LARGEST_SHARE:
        values = {"needed_gib": of.work.total_bytes / GIB, "capacity_gib": memory / GIB}
        return (Caveat("does_not_fit", values, variant="speed"),)
    if of.running_requests < of.request.concurrency:
        return (Caveat("requests_wait", {"concurrency": of.request.concurrency, "running_requests": of.running_requests}),)
    return ()


def _sources(of: Deployment, calibration: Calibration) -> tuple[Source, ...]:
    """Where the numbers come from."""
    fit = Source(
        what="constants of the laws of speed, fitted by scripts/calibrate.py", source=calibration.source, checked=calibration.checked
    )
    return (fit, *of.devices.silicon.sources, *of.spec.sources)
