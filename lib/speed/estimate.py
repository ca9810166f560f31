"""One question about speed, answered with its parts, its range and what it leaves open.

A time to first token and a time per output token are made of parts of 0 or more that add up to the time. Reading weights overlaps with
arithmetic, and launching with both. What overlaps is counted once: the longer of the two has its whole time, the other what it adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from lib.catalog.kernels import is_weight_only
from lib.catalog.offers import Hardware
from lib.errors import InvalidInput, UnsupportedModel
from lib.laws import forward_pass, serving
from lib.laws.forward_pass import overlapped_time
from lib.memory.media import resolve_media
from lib.memory.resolve import choose_engine, settle_formats
from lib.precision import weight_format
from lib.provenance import Caveat, Source
from lib.request.serving import check_settings, drop_settings
from lib.speed.batch import SpeedRequest, count_read, native_format, resolve_engine_config
from lib.speed.calibration import GRAPH_REPLAYING, OWN_FILES, Calibration, load_calibration
from lib.speed.diffusion import predict_pictures
from lib.speed.expert_split import combine_experts, split_experts
from lib.speed.hardware import emulates, is_measured
from lib.speed.offload import combine_split, split_model
from lib.speed.predict import STATIC_BATCH_ENGINES, ExplainedSpeed, SpeedEstimate, SpeedPart, predict_engine_configs, predict_speeds
from lib.speed.timing import read_tokens
from lib.units import GIB

if TYPE_CHECKING:
    from lib.catalog.silicon import Accelerator
    from lib.laws import Law
    from lib.model.spec import ModelSpec
    from lib.speed.batch import EngineConfig, SpeedQuestion
    from lib.speed.predict import SpeedTable
    from lib.speed.timing import ForwardPass


PACKED_BITS = 8
SPEECH_RECOGNITION = "automatic-speech-recognition"
_LARGEST_SHARE = 0.98


def predict_speed(spec: ModelSpec, hardware: Hardware, request: SpeedRequest, accelerators: Mapping[str, Accelerator]) -> ExplainedSpeed:
    """How fast `request.concurrency` requests of this shape run, in flight all the time; `accelerators` are the catalog's.

    Raises:
        BadArgument: the precision is unknown, or the engine needs other hardware.
        UnknownHardware: a CPU of which nothing is known.
        UnsupportedModel: a pipeline of which no work per picture is known.
    """
    if spec.library == "diffusers":
        return predict_pictures(spec, hardware, request, accelerators)
    check_settings(choose_engine(spec, request.engine), request.serving)
    request = settle_formats(request)
    experts = split_experts(spec, hardware, request, accelerators)
    if experts is not None:
        decode, prompt = (predict_engine_configs([config]) for config in (experts.decode, experts.prompt))
        return combine_experts(experts, *(_explain(table, table.estimates()[0]) for table in (decode, prompt)))
    request = replace(request, serving=drop_settings(request.serving, "cpu_moe_layers"))
    split = split_model(spec, hardware, request, accelerators)
    whole = replace(request, gpu_layers=None)
    if split is not None:
        gpu, host = (predict_speed(spec, where, whole, accelerators) for where in (split.gpus, split.host))
        return combine_split(split, gpu, host)
    table = predict_speeds([(spec, hardware, whole)], accelerators)
    return _explain(table, table.estimates()[0])


def predict_each(questions: Sequence[SpeedQuestion], accelerators: Mapping[str, Accelerator]) -> list[SpeedEstimate | None]:
    """The estimate of each question, pipelines included; `None` if `predict_speed` would raise. One pass for all but the pipelines."""
    estimates: list[SpeedEstimate | None] = [None] * len(questions)
    engine_configs: dict[int, EngineConfig] = {}
    for i, question in enumerate(questions):
        try:
            if question[0].library == "diffusers":
                estimates[i] = predict_pictures(*question, accelerators)
            elif (settled := settle_formats(question[2])).gpu_layers is not None or settled.serving.cpu_moe_layers:
                estimates[i] = predict_speed(*question, accelerators)
            else:
                engine_configs[i] = resolve_engine_config(question, accelerators)
        except (InvalidInput, UnsupportedModel):
            continue
    if engine_configs:
        for i, estimate in zip(engine_configs, predict_engine_configs(list(engine_configs.values())).estimates(), strict=True):
            estimates[i] = estimate
    return estimates


def _explain(table: SpeedTable, estimate: SpeedEstimate) -> ExplainedSpeed:
    """The only row of a table, with its evidence."""
    calibration = load_calibration()
    of, request = table.engine_configs[0], estimate.request
    decodes = estimate.tpot_s is not None
    hears = estimate.sound_s > 0
    items = None
    if estimate.throughput_tokens_per_s is not None and (hears or not decodes):
        items = estimate.throughput_tokens_per_s.times(1.0 / (request.output_tokens if decodes else float(table.inputs.prompt_tokens[0])))
    fit = Source(
        what="constants of the laws of speed, fitted by scripts/calibrate.py", source=calibration.source, checked=calibration.checked
    )
    return ExplainedSpeed(
        **{field.name: getattr(estimate, field.name) for field in fields(estimate)},
        precision=of.precision,
        engine=of.layout.engine,
        running_requests=of.running_requests,
        items_per_s=items,
        unit="sequences" if not decodes else "windows" if hears else "tokens",
        decode_parts=decode_parts(table) if decodes else (),
        prompt_parts=prompt_parts(table),
        caveats=_caveats(of, calibration),
        sources=(fit, *of.devices.silicon.sources, *of.spec.sources),
    )


def _caveats(config: EngineConfig, calibration: Calibration) -> tuple[Caveat, ...]:
    """Caveats of the answer."""
    spec, card, engine = config.spec, config.devices.silicon, config.layout.engine
    hears = spec.task == SPEECH_RECOGNITION
    timed_as = native_format(config.precision, config.compute, card)
    packed = is_weight_only(engine, config.precision, card, mixture=spec.is_mixture)
    converts = {"precision": config.precision, "silicon": card.name, "timed_as": timed_as}
    possible = (
        (not is_measured(calibration.measured, engine, card), Caveat("extrapolated", {"engine": engine, "silicon": card.name})),
        (card.kind == "tpu" and config.work.decoder is None, Caveat("extrapolated", {"engine": engine}, variant="encoder")),
        (config.layout.pipeline_stages > 1, Caveat("one_after_another", {"engine": engine, "devices": config.devices.count})),
        (card.kind == "cpu" and not card.reached, Caveat("cpu_estimate")),
        (hears and card.kind == "cpu" and config.work.decoder is not None, Caveat("cpu_estimate", variant="speech")),
        (hears and config.work.decoder is None, Caveat("waveform_convolutions")),
        (spec.library == "gguf", Caveat("gguf_engine")),
        (engine in OWN_FILES and card.vendor == "NVIDIA", Caveat("prompts_of_2024")),
        (card.kind == "cpu" and weight_format(config.precision).bits <= PACKED_BITS, Caveat("cpu_estimate", variant="packed")),
        (spec.unknown_cache, Caveat("cache_unknown")),
        (spec.source == "rule_of_thumb", Caveat("typical_model", variant="speed")),
        (engine in STATIC_BATCH_ENGINES and config.request.concurrency > 1, Caveat("static_batch")),
        (emulates(card, config.arithmetic), Caveat("emulated_dtype", converts)),
        (config.request.serving.cuda_graphs is False and engine in GRAPH_REPLAYING, Caveat("graphs_off", {"engine": engine})),
        (timed_as != config.precision and packed, Caveat("weight_only", converts)),
        (timed_as != config.precision and not packed, Caveat("emulated_dtype", converts, variant="converted")),
    )
    return (*config.devices.caveats, *config.layout.caveats, *_shortage(config), *(caveat for holds, caveat in possible if holds))


def _shortage(config: EngineConfig) -> tuple[Caveat, ...]:
    """Whether the weights and all requests fit."""
    memory = config.devices.memory * config.layout.tensor_parallel * config.layout.pipeline_stages
    if memory and config.work.total_bytes > memory * _LARGEST_SHARE:
        values = {"needed_gib": config.work.total_bytes / GIB, "capacity_gib": memory / GIB}
        return (Caveat("does_not_fit", values, variant="speed"),)
    if config.running_requests < config.request.concurrency:
        return (Caveat("requests_wait", {"concurrency": config.request.concurrency, "running_requests": config.running_requests}),)
    return ()


def decode_parts(table: SpeedTable) -> tuple[SpeedPart, ...]:
    """Parts of the time per output token: a step of the sequences that decode together, and what others' prompts add to it."""
    of, times = table.engine_configs[0], table.times
    request, busy = of.request, float(times.decoding_sequences[0])
    if _starts_together(table):
        step, busy = times.step, of.running_requests
    else:
        step = times.busy_step
    cached = request.prompt_tokens + request.output_tokens * serving.MEAN_FILL
    parts = list(_pass_parts(table, step, tokens=busy, sequences=busy, cached=cached))
    rest = float(table.tpot_s.value[0]) - sum(part.seconds for part in parts)
    inputs = {"in flight": f"{request.concurrency}", "output tokens": f"{request.output_tokens}"}
    return (*parts, *_waits((("prompts of others", rest, serving.INTERRUPTIONS, inputs),)))


def prompt_parts(table: SpeedTable) -> tuple[SpeedPart, ...]:
    """Parts of the time to first token: the own prompt (a static batch: all prompts), the encoder before it, what a request waits for."""
    of, times, first = table.engine_configs[0], table.times, table.times.first_token
    together = _starts_together(table)
    prefill = times.prefill if together else times.lone_prefill
    sequences = of.running_requests if together else 1.0
    tokens = float(read_tokens(table.inputs)[0]) * sequences
    own = [
        *_pass_parts(table, prefill.matrices, tokens=tokens, sequences=sequences, cached=0.0),
        _part("attention", float(prefill.attention[0]), forward_pass.ATTENTION, {"T": f"{float(table.inputs.prompt_tokens[0]):g}"}),
    ]
    stages = float(prefill.total[0]) / sum(part.seconds for part in own)  # stages that work on chunks at the same time
    parts = [replace(part, seconds=part.seconds * stages) for part in own]
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
    inputs = {"in flight": f"{of.request.concurrency}", "running": f"{of.running_requests:g}"}
    fixed_s = times.request_s if together else first.fixed_s
    waits = [
        ("prompts ahead", 0.0 if together else float(np.asarray(first.prompts_ahead_s)[0]), serving.PROMPTS_AHEAD, inputs),
        ("decode steps waited for", 0.0 if together else float(np.asarray(first.steps_s)[0]), serving.STEPS_WAITED, inputs),
        ("fixed time of a request", float(np.asarray(fixed_s)[0]), serving.FIXED_TIME, {"engine": of.layout.engine}),
    ]
    rest = float(table.ttft_s.value[0]) - sum(part.seconds for part in parts) - sum(wait[1] for wait in waits)
    return (*parts, *_waits((*waits, ("wait for a place", rest, serving.PLACES, inputs))))


def _starts_together(table: SpeedTable) -> bool:
    of = table.engine_configs[0]
    return of.layout.engine in STATIC_BATCH_ENGINES or of.work.decoder is None


_LEAST_S = 1e-9  # below it a part is rounding


def _waits(waits: tuple[tuple[str, float, Law, dict[str, str]], ...]) -> Iterator[SpeedPart]:
    """Those that take any time."""
    return (_part(name, seconds, law, inputs) for name, seconds, law, inputs in waits if seconds > _LEAST_S)


def _part(name: str, seconds: float, law: Law, inputs: dict[str, str]) -> SpeedPart:
    return SpeedPart(name=name, seconds=seconds, law=law.equation, inputs=inputs, source=law.source)


def _pass_parts(table: SpeedTable, of_pass: ForwardPass, *, tokens: float, sequences: float, cached: float) -> Iterator[SpeedPart]:
    """The parts of one forward pass, which add up to it; `cached` are the tokens of cache of each sequence, 0 for a prompt."""
    of, inputs = table.engine_configs[0], table.inputs
    weights, compute, cache, copy, unpack, exchange, total = (
        float(np.asarray(part)[0])
        for part in (of_pass.weights, of_pass.compute, of_pass.cache, of_pass.copy, of_pass.unpack, of_pass.all_reduce, of_pass.total)
    )
    both = float(overlapped_time(weights_s=weights, compute_s=compute, emulated=bool(inputs.emulated[0])))
    longer = max(weights, compute)
    reads_longer = weights == longer
    overlaps = not bool(inputs.emulated[0])
    stack = of.work.decoder or of.work.encoder
    stored = stack.dense_bytes + stack.expert_bytes if stack else 0.0
    used = stack.active_parameters if stack else 0.0
    yield _part(
        "reading weights",
        weights if reads_longer else both - longer,
        forward_pass.WEIGHTS,
        {"bytes": f"{stored:,.0f}", "precision": of.precision, "sequences": f"{sequences:.3g}", **_card(of)}
        | (_overlap(weights, "arithmetic") if overlaps and not reads_longer else {}),
    )
    yield _part(
        "arithmetic",
        both - longer if reads_longer else compute,
        forward_pass.ARITHMETIC,
        {"parameters a token uses": f"{used:,.0f}", "tokens": f"{tokens:,.0f}", "units": of.arithmetic}
        | (_overlap(compute, "reading weights") if overlaps and reads_longer else {}),
    )
    per_token = {"bytes per token": f"{of.work.cache_per_token:,.0f}"}
    if cached:
        load = {"tokens": f"{cached:g}", "sequences": f"{sequences:.3g}"}
        yield _part("reading the cache", cache, forward_pass.CACHE, per_token | load)
    if copy:
        yield _part("copying the cache", copy, forward_pass.CACHE_COPY, per_token)
    if unpack:
        yield _part("unpacking weights", unpack, forward_pass.UNPACKING, {"packed parameters": f"{inputs.packed_parameters[0]:,.0f}"})
    yield _part(
        "host and launches",
        max(0.0, total - exchange - (both + cache + copy + unpack)),
        forward_pass.LAUNCHES,
        {"layers": f"{stack.layers:g}" if stack else "0", "engine": of.layout.engine},
    )
    yield _part(
        "exchange between devices",
        exchange,
        forward_pass.ALL_REDUCE,
        {"N": str(of.layout.tensor_parallel), "link": _rate(of.devices.link, "B")},
    )


def _overlap(alone_s: float, longer: str) -> dict[str, str]:
    """The law's time of the shorter of two parts that overlap; it counts with its addition to the longer."""
    return {"alone": f"{alone_s * 1e3:.3g} ms", "counted": f"what it adds to '{longer}'; together {forward_pass.OVERLAP.equation}"}


def _rate(per_s: float, unit: str) -> str:
    return f"{per_s / 1e12:.2f} T{unit}/s" if per_s >= 1e12 else f"{per_s / 1e9:.1f} G{unit}/s"  # noqa: PLR2004


def _card(config: EngineConfig) -> dict[str, str]:
    card, share = config.devices.silicon, config.devices.share
    rented = "" if share == 1 else f", {share:.2g} of it"
    return {"hardware": f"{config.layout.tensor_parallel} × {card.name}{rented}", "bandwidth": _rate(card.bandwidth * share, "B")}


def _encoder_inputs(config: EngineConfig) -> dict[str, str]:
    """How much an encoder or a vision tower reads before the decoder."""
    media = resolve_media(config.spec, config.request.media)
    if media.images:
        return {"pictures": f"{media.images:,}", "passes": f"{media.passes:,}", "positions": f"{media.positions:,}"}
    return {"positions": f"{count_read(config):,}"}
