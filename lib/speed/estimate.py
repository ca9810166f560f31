"""One question about speed, answered with its parts, its range and what it leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lib.errors import InvalidInput, UnsupportedModel
from lib.laws import forward_pass, serving
from lib.memory.media import resolve_media
from lib.precision import weight_format
from lib.provenance import Caveat, Source
from lib.speed.batch import native_format, resolve_deployment
from lib.speed.calibration import Calibration, load_calibration
from lib.speed.diffusion import predict_pictures
from lib.speed.hardware import emulates, is_measured
from lib.speed.offload import combine_split, split_model
from lib.speed.predict import STATIC_BATCH_ENGINES, predict_deployments, predict_speeds
from lib.speed.result import ExplainedSpeed, SpeedEstimate, SpeedPart, SpeedRequest
from lib.units import GIB

if TYPE_CHECKING:
    from lib.catalog.offers import Offer
    from lib.catalog.silicon import Accelerator, Cards
    from lib.model.spec import ModelSpec
    from lib.speed.batch import Deployment, Question
    from lib.speed.predict import SpeedTable
    from lib.speed.timing import ForwardPass

WINDOW_S = 30.0
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
    hears = of.spec.task == SPEECH_RECOGNITION and decodes
    items = None
    if estimate.throughput_tokens_per_s is not None and (hears or not decodes):
        items = estimate.throughput_tokens_per_s.times(1.0 / (request.output_tokens if hears else float(table.inputs.prompt_tokens[0])))
    return ExplainedSpeed(
        request=request,
        ttft_s=estimate.ttft_s,
        tpot_s=estimate.tpot_s,
        throughput_tokens_per_s=estimate.throughput_tokens_per_s,
        bound=estimate.bound,
        floor=estimate.floor,
        precision=of.precision,
        engine=of.layout.engine,
        running_requests=of.running_requests,
        items_per_s=items,
        unit="windows" if hears else "tokens" if decodes else "sequences",
        real_time_factor=items.times(WINDOW_S) if hears and items else None,
        decode_parts=decode_parts(table) if decodes else (),
        prompt_parts=prompt_parts(table),
        caveats=_caveats(of, calibration),
        sources=_sources(of, calibration),
    )


def _caveats(of: Deployment, calibration: Calibration) -> tuple[Caveat, ...]:
    """What the answer leaves open."""
    spec, card, engine = of.spec, of.devices.silicon, of.layout.engine
    possible = (
        (not is_measured(calibration.measured, engine, card), Caveat("extrapolated", {"engine": engine, "silicon": card.name})),
        (of.layout.pipeline_stages > 1, Caveat("one_after_another", {"engine": engine, "devices": of.devices.count})),
        (card.kind == "cpu" and not card.reached, Caveat("cpu_estimate")),
        (spec.library == "gguf", Caveat("gguf_engine")),
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


def _rate(per_s: float, unit: str) -> str:
    return f"{per_s / 1e12:.2f} T{unit}/s" if per_s >= 1e12 else f"{per_s / 1e9:.1f} G{unit}/s"  # noqa: PLR2004


def _card(of: Deployment) -> dict[str, str]:
    card, share = of.devices.silicon, of.devices.share
    rented = "" if share == 1 else f", {share:.2g} of it"
    return {"hardware": f"{of.layout.tensor_parallel} × {card.name}{rented}", "bandwidth": _rate(card.bandwidth * share, "B")}


def _overhead(of: Deployment, step: ForwardPass) -> list[SpeedPart]:
    stack = of.work.decoder or of.work.encoder
    layers = f"{stack.layers:g}" if stack else "0"
    return [
        SpeedPart(
            name="host and launches",
            seconds=float(step.launch[0]),
            law=forward_pass.LAUNCHES.equation,
            inputs={"layers": layers, "engine": of.layout.engine},
            source=forward_pass.LAUNCHES.source,
        ),
        SpeedPart(
            name="exchange between devices",
            seconds=float(step.all_reduce[0]),
            law=forward_pass.ALL_REDUCE.equation,
            inputs={"N": str(of.layout.tensor_parallel), "link": _rate(of.devices.link, "B")},
            source=forward_pass.ALL_REDUCE.source,
        ),
    ]


def _arithmetic(seconds: float, of: Deployment, tokens: float) -> SpeedPart:
    stack = of.work.decoder or of.work.encoder
    used = stack.active_parameters if stack else 0.0
    return SpeedPart(
        name="arithmetic",
        seconds=seconds,
        law=forward_pass.ARITHMETIC.equation,
        inputs={"parameters a token uses": f"{used:,.0f}", "tokens": f"{tokens:,.0f}", "units": of.arithmetic},
        source=forward_pass.ARITHMETIC.source,
    )


def decode_parts(table: SpeedTable) -> tuple[SpeedPart, ...]:
    """Parts of one decode step. Reading weights overlaps with arithmetic, and in eager engines launching with both: they do not add up."""
    of, step = table.deployments[0], table.times.step
    stack = of.work.decoder
    stored = stack.dense_bytes + stack.expert_bytes if stack else 0.0
    return (
        SpeedPart(
            name="reading weights",
            seconds=float(step.weights[0]),
            law=forward_pass.WEIGHTS.equation,
            inputs={"bytes": f"{stored:,.0f}", "precision": of.precision, "sequences": f"{of.running_requests:g}", **_card(of)},
            source=forward_pass.WEIGHTS.source,
        ),
        SpeedPart(
            name="reading the cache",
            seconds=float(step.cache[0]),
            law=forward_pass.CACHE.equation,
            inputs={
                "bytes per token": f"{of.work.cache_per_token:,.0f}",
                "tokens": f"{of.request.prompt_tokens + of.request.output_tokens / 2:g}",
                "sequences": f"{of.running_requests:g}",
            },
            source=forward_pass.CACHE.source,
        ),
        *_copies(table, step),
        _arithmetic(float(step.compute[0]), of, of.running_requests),
        *_overhead(of, step),
    )


def _copies(table: SpeedTable, of: ForwardPass) -> list[SpeedPart]:
    """What a pass moves beside its weights and cache, where the engine does."""
    inputs = table.inputs
    parts = (
        ("copying the cache", of.copy, forward_pass.CACHE_COPY, {"bytes per token": f"{inputs.cache_per_token[0]:,.0f}"}),
        ("unpacking weights", of.unpack, forward_pass.UNPACKING, {"packed parameters": f"{inputs.packed_parameters[0]:,.0f}"}),
    )
    return [
        SpeedPart(name=name, seconds=float(seconds[0]), law=law.equation, inputs=values, source=law.source)
        for name, seconds, law, values in parts
        if seconds[0]
    ]


def prompt_parts(table: SpeedTable) -> tuple[SpeedPart, ...]:
    """Parts of reading the prompts of the running requests at once, with the encoder before it and what waiting adds."""
    of, prefill = table.deployments[0], table.times.prefill
    tokens = float(table.inputs.prompt_tokens[0]) * of.running_requests
    read_s = float(prefill.total[0]) + float(table.encoder_s[0])
    parts = [
        _arithmetic(float(prefill.matrices.compute[0]), of, tokens),
        SpeedPart(
            name="attention",
            seconds=float(prefill.attention[0]),
            law=forward_pass.ATTENTION.equation,
            inputs={"T": f"{float(table.inputs.prompt_tokens[0]):g}"},
            source=forward_pass.ATTENTION.source,
        ),
        SpeedPart(
            name="reading weights",
            seconds=float(prefill.matrices.weights[0]),
            law=forward_pass.PROMPT_WEIGHTS.equation,
            inputs=_card(of),
            source=forward_pass.PROMPT_WEIGHTS.source,
        ),
        *_copies(table, prefill.matrices),
        *_overhead(of, prefill.matrices),
    ]
    if table.encoder_s[0]:
        parts.append(
            SpeedPart(
                name="encoder",
                seconds=float(table.encoder_s[0]),
                law="as for the prompt, with the encoder's layers",
                inputs=_encoder_inputs(of),
                source=forward_pass.FITTED_CONSTANTS,
            )
        )
    parts.append(
        SpeedPart(
            name="requests ahead and fixed time",
            seconds=float(table.ttft_s.value[0]) - read_s,
            law=serving.QUEUE.equation,
            inputs={"in flight": f"{of.request.concurrency}", "running": f"{of.running_requests:g}"},
            source=serving.QUEUE.source,
        )
    )
    return tuple(parts)


def _encoder_inputs(of: Deployment) -> dict[str, str]:
    """How much an encoder or a vision tower reads before the decoder."""
    media = resolve_media(of.spec, of.request.media)
    if media.images:
        return {"pictures": f"{media.images:,}", "passes": f"{media.passes:,}", "positions": f"{media.positions:,}"}
    return {"positions": f"{of.work.encoder_tokens or of.request.prompt_tokens}"}
