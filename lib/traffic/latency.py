"""The parts of a request's time: measured and expected by the laws, the largest of them, and the next step.

    total = preprocess + transfer + queue + prefill + decode + postprocess
    prefill = TTFT - queue        decode = TPOT · (output tokens - 1)

The time to first token of a server begins when it has the request, so its queue is inside. The laws expect of a lone request its prefill;
of `concurrency` requests the wait that these add to the first token (counted as queue) and the longer steps. Nothing is expected of what
happens outside the engine: preprocessing, transfer, postprocessing.

Fewer bits help where the bytes of the weights are what a step waits for, below the ridge point (`lib.speed.steps.ridge_sequences`); above
it only units that compute faster in that format help. Both are read off the predictions: a format cuts latency here when it takes a
twentieth off a step.

A server that is as fast as its engine allows may still be slower than this hardware allows: the other engines that hold the model there are
timed by the same laws (`EngineEffect`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from lib.catalog.engine_models import lists_model
from lib.catalog.offers import Hardware
from lib.catalog.silicon import Accelerator
from lib.engines import TRAITS, Engine, traits_of
from lib.errors import UnsupportedModel
from lib.memory import cache_headroom, count_sequences, estimate_memory, usable_memory
from lib.memory.spread import hold_model
from lib.model.spec import ModelSpec
from lib.precision import resolve
from lib.provenance import Caveat, Reason, Value
from lib.result import HIDDEN, Result
from lib.speed import ExplainedSpeed, Interval, SpeedEstimate, SpeedRequest, predict_each, predict_speed
from lib.speed.batch import EngineConfig, resolve_engine_config
from lib.speed.steps import ridge_sequences
from lib.traffic.arrivals import RequestShape
from lib.traffic.metrics import MeasuredTimes
from lib.traffic.server import check_room
from lib.workload import MemoryRequest

RequestPart = Literal["preprocess", "transfer", "queue", "prefill", "decode", "postprocess"]
PartVerdict = Literal["as_expected", "slower", "faster", "no_law", "not_measured"]
WORTH = 0.05  # share of a step that a format has to take off to be called faster
CLOSE = 0.2  # share of the time by which predictions for two engines have to differ
_MS = 1e3
_OUTSIDE = frozenset({"preprocess", "transfer", "postprocess"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPart:
    """One part, in ms: measured (0: not), expected with its range (None: no law), and how they compare."""

    name: RequestPart
    measured_ms: float
    expected: Interval[float] | None
    verdict: PartVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatEffect(Result):
    """The effect of a smaller format on this hardware."""

    precision: str
    """Number format of the weights."""
    tpot_ms: float
    """Time per output token."""
    ttft_ms: float
    """Time to first token."""
    weights_bytes: int
    """Bytes of the weights."""
    effect: Literal["latency", "prompt", "memory", "slower"]
    """Saving: latency of every token, time of the prompt, memory alone; or it is slower."""
    saved: Annotated[float, HIDDEN]
    """Share of the time that it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEffect(Result):
    """The same request with another engine on this hardware, at its defaults."""

    engine: Engine
    """Inference engine."""
    precision: str
    """Number format of the weights."""
    tpot_ms: float
    """Time per output token."""
    ttft_ms: float
    """Time to first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The parts, the dominant one (None: nothing was measured), why, what to do next, and what formats and other engines would do."""

    parts: tuple[LatencyPart, ...]
    total_ms: float
    dominant: LatencyPart | None
    speed: ExplainedSpeed
    ridge: int | None
    reasons: tuple[Reason, ...]
    next_steps: tuple[Reason, ...]
    formats: tuple[FormatEffect, ...]
    engines: tuple[EngineEffect, ...]
    caveats: tuple[Caveat, ...]


def diagnose_latency(
    spec: ModelSpec, hardware: Hardware, request: SpeedRequest, measured: MeasuredTimes, accelerators: Mapping[str, Accelerator]
) -> Diagnosis:
    """The diagnosis of one kind of request; `request.concurrency` requests are on their way at a time."""
    speed = predict_speed(spec, hardware, request, accelerators)
    request = replace(request, concurrency=speed.request.concurrency)  # one on ZeroGPU
    if speed.tpot_s is None:
        raise UnsupportedModel(
            f"{spec.id or 'This model'} generates no tokens, so its time has no prefill and decode to tell apart. "
            "/estimate_speed says how long it takes."
        )
    alone = predict_speed(spec, hardware, replace(request, concurrency=1), accelerators)
    of = resolve_engine_config((spec, hardware, request), accelerators)
    holds = _check_memory(of, hardware)
    ridge = ridge_sequences(of) if of.work.decoder is not None else None
    parts = _parts(measured, request, speed, alone)
    total = sum(part.measured_ms for part in parts)
    dominant = max(parts, key=lambda part: part.measured_ms) if total > 0 else None
    formats = _formats(spec, hardware, request, speed, of, accelerators)
    engines = _compare_engines(spec, hardware, request, accelerators)
    possible = (
        (measured.since_start, Caveat("means_since_start")),
        (measured.sums_first_token and measured.ttft_ms > 0, Caveat("tgi_first_token")),
        (measured.ttft_ms > 0 and measured.queue_ms > measured.ttft_ms, Caveat("queue_beyond_first_token")),
    )
    return Diagnosis(
        parts=parts,
        total_ms=total,
        dominant=dominant,
        speed=speed,
        ridge=ridge,
        reasons=tuple(_reasons(parts, total, dominant, speed, ridge, holds, formats)),
        next_steps=tuple(_next_steps(parts, dominant, speed, ridge, formats, engines)),
        formats=formats,
        engines=engines,
        caveats=(*(caveat for applies, caveat in possible if applies), *speed.caveats),
    )


def _check_memory(config: EngineConfig, hardware: Hardware) -> int | None:
    """Requests that the cache of all copies holds after the weights; None if nothing bounds them or the memory is not known."""
    memory, layout, request = usable_memory(hardware), config.layout, config.request
    if memory is None:
        return None
    memory_request = MemoryRequest(
        precision=request.precision,
        engine=request.engine,
        context_tokens=request.prompt_tokens + request.output_tokens,
        devices=layout.tensor_parallel * layout.pipeline_stages,
    )
    check_room(
        cache_headroom(config.spec, memory_request, memory, config.devices.silicon),
        hardware,
        RequestShape(prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens),
    )
    most = count_sequences(config.spec, memory_request, memory, config.devices.silicon)
    return None if most is None else most * layout.replicas


def _parts(measured: MeasuredTimes, request: SpeedRequest, speed: ExplainedSpeed, alone: ExplainedSpeed) -> tuple[LatencyPart, ...]:
    steps = request.output_tokens - 1
    prefill = alone.ttft_s.times(_MS)
    wait = speed.ttft_s.value - alone.ttft_s.value
    queue = Interval(value=max(0.0, wait), low=0.0, high=max(0.0, speed.ttft_s.high - alone.ttft_s.low)).times(_MS)
    decode = None if speed.tpot_s is None else speed.tpot_s.times(_MS).times(steps)
    prompt_ms = max(0.0, measured.ttft_ms - measured.queue_ms)
    if not measured.queue_ms:  # the wait for others is then inside the time to the first token
        prefill, queue = speed.ttft_s.times(_MS), Interval(value=0.0, low=0.0, high=0.0)
    times: dict[RequestPart, tuple[float, Interval[float] | None]] = {
        "preprocess": (measured.preprocess_ms, None),
        "transfer": (measured.transfer_ms, None),
        "queue": (measured.queue_ms, queue),
        "prefill": (prompt_ms, prefill),
        "decode": (measured.tpot_ms * steps, decode),
        "postprocess": (measured.postprocess_ms, None),
    }
    return tuple(
        LatencyPart(name=name, measured_ms=ms, expected=expected, verdict=_verdict(ms, expected)) for name, (ms, expected) in times.items()
    )


def _verdict(measured_ms: float, expected: Interval[float] | None) -> PartVerdict:
    if measured_ms <= 0:
        return "not_measured"
    if expected is None:
        return "no_law"
    if measured_ms > expected.high:
        return "slower"
    return "faster" if measured_ms < expected.low else "as_expected"


def _formats(
    spec: ModelSpec,
    hardware: Hardware,
    request: SpeedRequest,
    now: SpeedEstimate,
    config: EngineConfig,
    accelerators: Mapping[str, Accelerator],
) -> tuple[FormatEffect, ...]:
    """The effect of 8 and 4 bits on a step, the first token and the weights, by the same laws."""
    row = traits_of(request.engine)
    names = [name for name in dict.fromkeys((row.fp8, row.int8, row.int4)) if name and name != config.precision]
    questions = [(spec, hardware, replace(request, precision=name)) for name in names]
    effects = []
    for name, estimate in zip(names, predict_each(questions, accelerators), strict=True):
        if estimate is None or estimate.tpot_s is None or now.tpot_s is None:
            continue
        step = 1 - estimate.tpot_s.value / now.tpot_s.value
        first = 1 - estimate.ttft_s.value / now.ttft_s.value
        effect: Literal["latency", "prompt", "memory", "slower"] = (
            "latency" if step >= WORTH else "slower" if step <= -WORTH else "prompt" if first >= WORTH else "memory"
        )
        memory = estimate_memory(spec, MemoryRequest(precision=name, engine=request.engine), hardware.silicon)
        effects.append(
            FormatEffect(
                precision=name,
                tpot_ms=estimate.tpot_s.value * _MS,
                ttft_ms=estimate.ttft_s.value * _MS,
                weights_bytes=memory.weights.bytes,
                effect=effect,
                saved=first if effect == "prompt" else step,
            )
        )
    return tuple(effects)


def _compare_engines(
    spec: ModelSpec, hardware: Hardware, request: SpeedRequest, accelerators: Mapping[str, Accelerator]
) -> tuple[EngineEffect, ...]:
    """The other engines that list the model and hold a request on this hardware, in the order in which they are advised."""
    silicon = hardware.processor
    on_gpu = silicon.kind == "gpu"
    names = [
        name
        for name, row in TRAITS.items()
        if name != request.engine
        and silicon.kind in row.advised_on
        and lists_model(name, architecture=spec.architecture, model_type=spec.model_type, on_gpu=on_gpu)
    ]
    questions = [(spec, hardware, replace(request, engine=name, gpu_layers=None)) for name in names]
    effects = []
    for name, estimate in zip(names, predict_each(questions, accelerators), strict=True):
        if estimate is None or estimate.tpot_s is None:
            continue
        tokens = request.prompt_tokens + request.output_tokens
        if hold_model(spec, MemoryRequest(precision=request.precision, engine=name, context_tokens=tokens), hardware).fits is False:
            continue
        precision = resolve(request.precision, spec, name, silicon)
        ttft_ms, tpot_ms = estimate.ttft_s.value * _MS, estimate.tpot_s.value * _MS
        effects.append(EngineEffect(engine=name, precision=precision, tpot_ms=tpot_ms, ttft_ms=ttft_ms))
    return tuple(effects)


def _faster_engine(dominant: LatencyPart, speed: ExplainedSpeed, engines: Sequence[EngineEffect]) -> Reason | None:
    """The first engine that is nearly as fast as the fastest, where it takes a fifth off the dominant part."""
    if dominant.name not in {"prefill", "decode"} or speed.tpot_s is None or not engines:
        return None
    decodes = dominant.name == "decode"
    times_ms = {one.engine: one.tpot_ms if decodes else one.ttft_ms for one in engines}
    now_ms = _MS * (speed.tpot_s.value if decodes else speed.ttft_s.value)
    least_ms = min(times_ms.values())
    name = next(name for name, ms in times_ms.items() if ms <= (1 + CLOSE) * least_ms)
    if times_ms[name] > (1 - CLOSE) * now_ms:
        return None
    values: dict[str, Value] = {
        "engine": speed.engine,
        "other": name,
        "engine_s": now_ms / _MS,
        "other_s": times_ms[name] / _MS,
        "percent": 100 * (1 - times_ms[name] / now_ms),
    }
    return Reason("faster_engine", values, variant=dominant.name)


def _reasons(
    parts: tuple[LatencyPart, ...],
    total_ms: float,
    dominant: LatencyPart | None,
    speed: ExplainedSpeed,
    ridge: int | None,
    holds: int | None,
    formats: tuple[FormatEffect, ...],
) -> list[Reason]:
    reasons = []
    if dominant is not None:
        part_s = dominant.measured_ms / _MS
        reasons.append(Reason("dominant_part", {"part": dominant.name, "part_s": part_s, "percent": 100 * dominant.measured_ms / total_ms}))
    for part in parts:
        if part.expected is not None and part.verdict in {"slower", "faster"}:
            range_s = {"low_s": part.expected.low / _MS, "high_s": part.expected.high / _MS}
            compared: dict[str, Value] = {"part": part.name, "measured_s": part.measured_ms / _MS, **range_s}
            reasons.append(Reason("part_slower", compared) if part.verdict == "slower" else Reason("part_faster", compared))
    if speed.tpot_s is not None:
        running = speed.running_requests
        values: dict[str, Value] = {"running": running, "ridge": ridge or 0, "bound": speed.bound, "engine": speed.engine}
        shorter = any(one.effect == "latency" for one in formats)
        unpacks = "" if shorter or not formats else "unpacks"
        if ridge is not None and running >= ridge:
            reasons.append(Reason("above_ridge", values))
        elif speed.bound == "overhead":
            values |= {"tpot_s": speed.tpot_s.value, "least_s": 0.0 if speed.floor is None else speed.floor.tpot_s or 0.0}
            reasons.append(Reason("overhead_bound", values))
        else:
            reasons.append(Reason("never_ridge" if ridge is None else "below_ridge", values, variant=unpacks))
        if ridge is not None and holds is not None and holds < ridge:
            reasons.append(Reason("ridge_out_of_reach", {"holds": holds, "ridge": ridge}))
    if speed.running_requests < speed.request.concurrency:
        reasons.append(Reason("too_many_at_once", {"concurrency": speed.request.concurrency, "running": speed.running_requests}))
    return reasons


def _next_steps(
    parts: tuple[LatencyPart, ...],
    dominant: LatencyPart | None,
    speed: ExplainedSpeed,
    ridge: int | None,
    formats: tuple[FormatEffect, ...],
    engines: tuple[EngineEffect, ...],
) -> list[Reason]:
    """First whether to mend, to add or to change; then the steps for the dominant part."""
    if dominant is None:
        return [Reason("measure_first")]
    steps = []
    faster = _faster_engine(dominant, speed, engines)
    slow = [part for part in parts if part.verdict == "slower" and part.name != "queue"]
    if dominant.name in _OUTSIDE:
        steps.append(Reason("optimise_outside", {"part": dominant.name}))
    elif dominant.name == "queue":
        steps.append(Reason("mend_before_scaling") if slow else Reason("add_replicas"))
    elif dominant.verdict == "slower":
        steps.append(Reason("optimise_engine", {"part": dominant.name}))
    elif faster is None:
        steps.append(Reason("as_fast_as_laws", {"part": dominant.name}))
    else:
        steps.append(Reason("as_fast_as_engine", {"part": dominant.name, "engine": speed.engine}))
    steps += [faster] if faster is not None else []
    steps += [Reason("optimise_also", {"part": part.name}) for part in slow if part is not dominant]
    overhead = dominant.name == "decode" and speed.bound == "overhead"
    steps.append(Reason(f"next_{dominant.name}", variant="overhead" if overhead else ""))
    if dominant.name == "queue" and speed.running_requests < speed.request.concurrency:
        steps.append(Reason("more_cache", {"running": speed.running_requests}))
    wanted = {"decode": "latency", "prefill": "prompt"}.get(dominant.name)
    helps = [one for one in formats if one.effect in {wanted, "latency"} and one.saved > 0]
    if wanted is not None and helps:
        best = max(helps, key=lambda one: one.saved)
        steps.append(Reason("smaller_format", {"precision": best.precision, "percent": 100 * best.saved, "part": dominant.name}))
    elif wanted is not None and ridge is not None and speed.running_requests >= ridge:
        steps.append(Reason("format_only_memory", {"ridge": ridge}))
    return steps
