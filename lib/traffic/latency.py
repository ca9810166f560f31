"""Where the time of a request goes: measured parts beside what the laws expect, the largest of them, and what to do next.

    total = preprocess + transfer + queue + prefill + decode + postprocess
    prefill = TTFT - queue        decode = TPOT · (output tokens - 1)

The time to first token of a server begins when it has the request, so its queue is inside. The laws expect of a lone request its prefill;
of `concurrency` requests the wait that these add to the first token (counted as queue) and the longer steps. Nothing is expected of what
happens outside the engine: preprocessing, transfer, postprocessing.

Fewer bits help where the bytes of the weights are what a step waits for, below the ridge point (`lib.speed.steps.ridge_sequences`); above
it only units that compute faster in that format help. Both are read off the predictions: a format cuts latency here when it takes a
twentieth off a step.

What a server says of its own times (`read_metrics`) is a Prometheus text of vLLM or TGI, or the JSON of a benchmark. It comes from outside,
so it is bounded. Means are sums over counts since the server started, all models together; `vllm bench serve --save-result` and its kin
write means in ms. Names: vllm v1/metrics/loggers.py; text-generation-inference docs/source/reference/metrics.md; read 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from lib.catalog.offers import Hardware
from lib.catalog.silicon import Accelerator
from lib.engines import traits_of
from lib.errors import BadArgument, UnreadableJson, UnsupportedModel, read_json
from lib.memory import cache_headroom, count_sequences, estimate_memory, usable_memory
from lib.model.spec import ModelSpec
from lib.provenance import Caveat, Reason, Value
from lib.result import HIDDEN, Result
from lib.speed import ExplainedSpeed, Interval, SpeedEstimate, SpeedRequest, predict_each, predict_speed
from lib.speed.batch import EngineConfig, resolve_engine_config
from lib.speed.steps import ridge_sequences
from lib.traffic.arrivals import RequestShape
from lib.traffic.server import check_room
from lib.workload import MemoryRequest

MAX_TEXT = 2_000_000  # characters
LONGEST_MS = 86_400_000  # a day: no mean of a request is longer
MOST_AT_ONCE = 100_000
_MOST_NODES = 200_000
_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]{0,199})(\{[^{}]{0,2000}\})?[ \t]+([0-9eE+.\-]{1,40})(?:[ \t]+[0-9]{1,20})?[ \t]*", re.ASCII)
_ACCEPTED = "the text of a vLLM or TGI server's /metrics, or the JSON that vllm bench serve saves"
Origin = Literal["vllm", "tgi", "benchmark", "stated"]
_VLLM: Mapping[str, tuple[str, ...]] = {
    "ttft_ms": ("vllm:time_to_first_token_seconds",),
    "tpot_ms": ("vllm:request_time_per_output_token_seconds", "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
    "queue_ms": ("vllm:request_queue_time_seconds",),
    "prompt_tokens": ("vllm:request_prompt_tokens",),
    "output_tokens": ("vllm:request_generation_tokens",),
}
_TGI: Mapping[str, tuple[str, ...]] = {
    "tpot_ms": ("tgi_request_mean_time_per_token_duration",),
    "queue_ms": ("tgi_request_queue_duration",),
    "preprocess_ms": ("tgi_request_validation_duration",),
    "prompt_tokens": ("tgi_request_input_length",),
    "output_tokens": ("tgi_request_generated_tokens",),
}
_TGI_PREFILL = 'tgi_batch_inference_duration{method="prefill"}'
_BENCHMARK: Mapping[str, tuple[str, ...]] = {
    "ttft_ms": ("mean_ttft_ms", "median_ttft_ms"),
    "tpot_ms": ("mean_tpot_ms", "median_tpot_ms", "mean_itl_ms"),
    "concurrency": ("max_concurrency",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTimes:
    """Means of a request, in ms; 0 where a time was not measured. `ttft_ms` begins when the server has the request, its queue included.

    Tokens and requests at a time are None where nothing tells them.
    """

    preprocess_ms: float = 0.0
    queue_ms: float = 0.0
    transfer_ms: float = 0.0
    ttft_ms: float = 0.0
    tpot_ms: float = 0.0
    postprocess_ms: float = 0.0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    origin: Origin = "stated"


def read_metrics(text: str) -> MeasuredTimes:
    """The times in a text.

    Raises:
        BadArgument: too long, nothing in it is a time that is known here, or a mean is longer than a day.
    """
    if len(text) > MAX_TEXT:
        raise BadArgument("metrics_text", f"{len(text):,} characters", f"{_ACCEPTED}, at most {MAX_TEXT:,} characters")
    read = _benchmark(text) if text.lstrip().startswith(("{", "[")) else _prometheus(text)
    if read is None or not (read.ttft_ms or read.tpot_ms or read.queue_ms):
        raise BadArgument("metrics_text", text[:40], _ACCEPTED)
    for name in ("preprocess_ms", "queue_ms", "ttft_ms", "tpot_ms"):
        if getattr(read, name) > LONGEST_MS:
            raise BadArgument("metrics_text", f"{name}: {getattr(read, name):.3g}", f"means of at most a day ({LONGEST_MS:,} ms)")
    if read.concurrency is not None and read.concurrency > MOST_AT_ONCE:
        raise BadArgument("metrics_text", f"{read.concurrency:,} requests at a time", f"at most {MOST_AT_ONCE:,}")
    return read


def _prometheus(text: str) -> MeasuredTimes | None:
    """Sums and counts of the histograms; labels are summed over, but for the method of TGI's batches."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        sample = _SAMPLE.fullmatch(line)
        if sample is None:  # comments, NaN, and what is no sample
            continue
        name, labels, written = sample.groups()
        try:
            value = float(written)
        except ValueError:
            continue
        if not 0 <= value < 1e18:  # noqa: PLR2004  negative, infinite, or longer than any time
            continue
        method = '{method="prefill"}' if labels and 'method="prefill"' in labels else ""
        values[name + method] = values.get(name + method, 0.0) + value
    vllm = any(name.startswith("vllm:") for name in values)
    if not vllm and not any(name.startswith("tgi_") for name in values):
        return None
    figures = {field: _mean(values, names) for field, names in (_VLLM if vllm else _TGI).items()}
    running = values.get("vllm:num_requests_running" if vllm else "tgi_batch_current_size", 0.0)
    first_s = figures["ttft_ms"] if vllm else _mean(values, (_TGI_PREFILL,))
    return MeasuredTimes(
        preprocess_ms=_ms(figures.get("preprocess_ms")),
        queue_ms=_ms(figures["queue_ms"]),
        ttft_ms=_ms(first_s) + (0.0 if vllm else _ms(figures["queue_ms"])),
        tpot_ms=_ms(figures["tpot_ms"]),
        prompt_tokens=_count(figures["prompt_tokens"]),
        output_tokens=_count(figures["output_tokens"]),
        concurrency=_count(running),
        origin="vllm" if vllm else "tgi",
    )


def _mean(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    """Sum over count of the first of these histograms that counted anything; their parts may carry a method."""
    for name in names:
        base, _, method = name.partition("{")
        suffix = "{" + method if method else ""
        total, count = values.get(f"{base}_sum{suffix}"), values.get(f"{base}_count{suffix}")
        if total is not None and count:
            return total / count
    return None


def _ms(seconds: float | None) -> float:
    return 0.0 if seconds is None else seconds * 1e3


def _count(value: float | None) -> int | None:
    return None if value is None or not 1 <= value <= 1e8 else round(value)  # noqa: PLR2004  tokens of a request, requests at a time


def _benchmark(text: str) -> MeasuredTimes | None:
    try:
        read = read_json(text.encode("utf-8", "replace"), _MOST_NODES)
    except UnreadableJson as error:
        raise BadArgument("metrics_text", text[:40], f"{_ACCEPTED}; {error}") from None
    if isinstance(read, list):
        read = read[-1] if read else {}
    if not isinstance(read, dict):
        return None
    figures = {field: next((value for name in names if (value := _plain(read, name))), 0.0) for field, names in _BENCHMARK.items()}
    completed = _plain(read, "completed")
    tokens = {
        field: _count(total / completed) if completed and (total := _plain(read, name)) else None
        for field, name in (("prompt_tokens", "total_input_tokens"), ("output_tokens", "total_output_tokens"))
    }
    return MeasuredTimes(
        ttft_ms=figures["ttft_ms"],
        tpot_ms=figures["tpot_ms"],
        concurrency=_count(figures["concurrency"]),
        prompt_tokens=tokens["prompt_tokens"],
        output_tokens=tokens["output_tokens"],
        origin="benchmark",
    )


def _plain(read: Mapping[str, Any], name: str) -> float:
    """A number of the JSON; 0 where it is missing or null."""
    value = read.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:  # noqa: PLR2004  more is no time
        raise BadArgument("metrics_text", f"{name}: {value!s:.40}", f"a number from 0 on for {name}")
    return float(value)


RequestPart = Literal["preprocess", "transfer", "queue", "prefill", "decode", "postprocess"]
PartVerdict = Literal["as_expected", "slower", "faster", "no_law", "not_measured"]
WORTH = 0.05  # share of a step that a format has to take off to be called faster
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
    """What it saves: latency of every token, time of the prompt, memory alone; or it is slower."""

    saved: Annotated[float, HIDDEN]
    """Share of the time that it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The parts, the dominant one (None: nothing was measured), why, what to do next, and what formats would do."""

    parts: tuple[LatencyPart, ...]
    total_ms: float
    dominant: LatencyPart | None
    speed: ExplainedSpeed
    ridge: int | None
    reasons: tuple[Reason, ...]
    next_steps: tuple[Reason, ...]
    formats: tuple[FormatEffect, ...]
    caveats: tuple[Caveat, ...]


def diagnose_latency(
    spec: ModelSpec, hardware: Hardware, request: SpeedRequest, measured: MeasuredTimes, accelerators: Mapping[str, Accelerator]
) -> Diagnosis:
    """The diagnosis of one kind of request; `request.concurrency` requests are on their way at a time.

    Raises:
        BadArgument: the precision is unknown, the engine needs other hardware, or the hardware does not hold the model with one request.
        UnknownHardware: hardware of which too little is known.
        UnsupportedModel: a model that generates no tokens, or for which no speed is predicted.
    """
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
    possible = (
        (measured.origin in {"vllm", "tgi"}, Caveat("means_since_start")),
        (measured.origin == "tgi" and measured.ttft_ms > 0, Caveat("tgi_first_token")),
        (measured.ttft_ms > 0 and measured.queue_ms > measured.ttft_ms, Caveat("queue_beyond_first_token")),
    )
    return Diagnosis(
        parts=parts,
        total_ms=total,
        dominant=dominant,
        speed=speed,
        ridge=ridge,
        reasons=tuple(_reasons(parts, total, dominant, speed, ridge, holds)),
        next_steps=tuple(_next_steps(parts, dominant, speed, ridge, formats)),
        formats=formats,
        caveats=(*(caveat for applies, caveat in possible if applies), *speed.caveats),
    )


def _check_memory(config: EngineConfig, hardware: Hardware) -> int | None:
    """Requests that the cache of all copies holds beside the weights; None where nothing bounds them or the memory is not known."""
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
    """What 8 and 4 bits would do to a step, to the first token and to the weights, by the same laws."""
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


def _reasons(
    parts: tuple[LatencyPart, ...],
    total_ms: float,
    dominant: LatencyPart | None,
    speed: ExplainedSpeed,
    ridge: int | None,
    holds: int | None,
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
        values: dict[str, Value] = {"running": running, "ridge": ridge or 0, "bound": speed.bound}
        if ridge is None:
            reasons.append(Reason("never_ridge", values))
        else:
            reasons.append(Reason("below_ridge", values) if running < ridge else Reason("above_ridge", values))
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
) -> list[Reason]:
    """First whether to mend, to add or to change; then the steps for the dominant part."""
    if dominant is None:
        return [Reason("measure_first")]
    steps = []
    slow = [part for part in parts if part.verdict == "slower" and part.name != "queue"]
    if dominant.name in _OUTSIDE:
        steps.append(Reason("optimise_outside", {"part": dominant.name}))
    elif dominant.name == "queue":
        steps.append(Reason("mend_before_scaling") if slow else Reason("add_replicas"))
    elif dominant.verdict == "slower":
        steps.append(Reason("optimise_engine", {"part": dominant.name}))
    else:
        steps.append(Reason("as_fast_as_laws", {"part": dominant.name}))
    steps += [Reason("optimise_also", {"part": part.name}) for part in slow if part is not dominant]
    steps.append(Reason(f"next_{dominant.name}"))
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
