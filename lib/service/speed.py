"""`/estimate_speed`, where a model sits under the roofline of hardware, and `/diagnose_latency`, where the time of a request goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np

from lib.answers.speed import PassEntry, RooflineAnswer, SpeedAnswer, SpeedFigures
from lib.answers.traffic import LatencyAnswer, LatencyPartEntry, PrecisionEntry
from lib.catalog.host_memory import HostMemoryText
from lib.catalog.offers import plug_in
from lib.catalog.silicon import Accelerator
from lib.laws.forward_pass import linear_flop
from lib.laws.serving import MEAN_FILL
from lib.memory.pipeline import resolve_size
from lib.memory.resolve import choose_engine, context_caveats
from lib.memory.spread import hold_model, unused_devices
from lib.model.spec import ModelSpec
from lib.present.sentences import sentence
from lib.provenance import Caveat, Reason, Value
from lib.request.fields import Arguments, Asked, number
from lib.request.types import Hardware, Model, text_of
from lib.result import fields_of
from lib.service.endpoint import App, endpoint
from lib.speed import End, ExplainedSpeed, Interval, SpeedRequest, SpeedTable, predict_speed, predict_speeds
from lib.speed.hardware import find_peak
from lib.speed.timing import bytes_moved, prompt_attention_flop, read_tokens
from lib.traffic.latency import FormatEffect, LatencyPart
from lib.traffic.latency import diagnose_latency as diagnose
from lib.traffic.metrics import LONGEST_MS, MeasuredTimes, read_metrics
from lib.workload import MemoryRequest

if TYPE_CHECKING:
    from lib.catalog.offers import Hardware as AnyHardware


class SpeedArguments(Arguments):
    """Arguments of `/estimate_speed` and of the roofline."""

    model: Model
    hardware: Hardware
    """An id such as l4x1, zero-a10g or v6e-8, or plain silicon with a count such as H100-SXMx8."""
    request: SpeedRequest = SpeedRequest()
    host_memory: HostMemoryText = None


@endpoint()
def estimate_speed(app: App, arguments: SpeedArguments) -> SpeedAnswer:
    """How fast hardware runs a model: first token, time between tokens, throughput of all requests, and what bounds it.

    Returns:
        Times and rates with their ranges, the parts of the times with their laws, and what bounds the speed.
    """
    catalog = app.catalog()
    hardware = plug_in(catalog.resolve_hardware(arguments.hardware), arguments.host_memory)
    return speed_answer(app.models(arguments.model), hardware, arguments.request, catalog.accelerators)


def _figures(speed: ExplainedSpeed, end: End) -> SpeedFigures:
    return SpeedFigures(
        ttft_s=speed.ttft_s.at(end),
        inter_token_s=_at(speed.tpot_s, end),
        decode_tokens_per_s=_at(speed.decode_tokens_per_s, end),
        throughput_tokens_per_s=_at(speed.throughput_tokens_per_s, end),
        request_s=speed.request_s_at(end),
        items_per_s=_at(speed.items_per_s, end),
        real_time_factor=_at(speed.real_time_factor, end),
    )


def _at(band: Interval[float] | None, end: End) -> float | None:
    return None if band is None else band.at(end)


def speed_answer(spec: ModelSpec, hardware: AnyHardware, request: SpeedRequest, accelerators: Mapping[str, Accelerator]) -> SpeedAnswer:
    """The estimate as plain JSON."""
    resolve_size(spec, request.pictures)
    speed = predict_speed(spec, hardware, request, accelerators)
    limits: tuple[Caveat, ...] = ()
    if spec.library != "diffusers":
        lengths = context_caveats(spec, request.prompt_tokens, request.output_tokens)
        limits = (*lengths, *unused_devices(spec, request.engine, hardware.accelerator_count, request.serving))
    held = hold_model(spec, _memory_request(spec, request), hardware)
    return SpeedAnswer(
        **fields_of(_figures(speed, "value")),
        model=spec.id,
        hardware=hardware.id,
        precision=speed.precision,
        engine=speed.engine,
        devices=held.devices,
        per_device_bytes=held.per_device_bytes,
        fits=held.fits,
        unit=speed.unit,
        bound=speed.bound,
        running_requests=speed.running_requests,
        low=_figures(speed, "low"),
        high=_figures(speed, "high"),
        decode_parts=speed.decode_parts,
        prompt_parts=speed.prompt_parts,
        caveats=(*limits, *speed.caveats),
        sources=speed.sources,
    )


def _memory_request(spec: ModelSpec, request: SpeedRequest) -> MemoryRequest:
    """Load that has to fit: all requests at full length."""
    return MemoryRequest(
        precision=request.precision,
        engine=choose_engine(spec, request.engine),
        context_tokens=max(1, request.prompt_tokens + request.output_tokens),
        batch_size=request.concurrency,
        kv_precision=request.kv_precision,
        pictures=request.pictures,
        media=request.media,
        gpu_layers=request.gpu_layers,
        serving=request.serving,
    )


def roofline(app: App, arguments: SpeedArguments) -> RooflineAnswer:
    """Places of a decode step and of prefill under the two ceilings of the hardware."""
    catalog = app.catalog()
    offer = catalog.resolve_hardware(arguments.hardware)
    return roofline_answer(offer, predict_speeds([(app.models(arguments.model), offer, arguments.request)], catalog.accelerators))


def roofline_answer(offer: AnyHardware, table: SpeedTable) -> RooflineAnswer:
    """The passes of one prediction: FLOP and bytes by the laws of speed, seconds as predicted."""
    of, inputs, times = table.engine_configs[0], table.inputs, table.times
    sequences, parameters = of.running_requests, float(inputs.active_parameters[0])
    passes = []
    if of.work.decoder is not None:
        cached = inputs.prompt_tokens + inputs.output_tokens * MEAN_FILL
        moved = bytes_moved(inputs, tokens=sequences, sequences=sequences, cached_tokens=cached)
        flop = float(linear_flop(parameters=parameters, tokens=sequences))
        passes.append(_pass("One step of decoding", float(times.step.total[0]), flop, float(moved[0])))
    tokens = sequences * float(read_tokens(inputs)[0])
    attention = float(np.asarray(prompt_attention_flop(inputs))[0])
    flop = float(linear_flop(parameters=parameters, tokens=tokens)) + sequences * attention
    moved = bytes_moved(inputs, tokens=tokens, sequences=sequences, cached_tokens=0.0)
    passes.append(_pass("Reading the prompts", float(times.prefill.total[0]), flop, float(moved[0])))
    silicon = of.devices.silicon
    return RooflineAnswer(
        hardware=offer.id,
        name=offer.name,
        precision=of.precision,
        arithmetic=of.arithmetic,
        peak_flop_per_s=find_peak(silicon, of.arithmetic) * of.devices.share * of.layout.tensor_parallel,
        bandwidth_bytes_per_s=silicon.bandwidth * of.devices.share * of.layout.tensor_parallel,
        passes=tuple(passes),
    )


def _pass(name: str, seconds: float, flop: float, moved: float) -> PassEntry:
    return PassEntry(name=name, seconds=seconds, flop=flop, bytes=moved, flop_per_byte=flop / moved, flop_per_s=flop / seconds)


Milliseconds = Annotated[float, number(0, LONGEST_MS)]


class LatencyArguments(Arguments):
    """Arguments of `/diagnose_latency`: means of a request; 0 is not measured."""

    model: Model
    hardware: Hardware
    """An id such as l4x1 or v6e-8, or plain silicon with a count such as H100-SXMx8."""
    preprocess_ms: Milliseconds = 0
    """Measured: host work before the request is sent (tokenising, templates)."""
    queue_ms: Milliseconds = 0
    """Measured: wait in the server before the first step."""
    transfer_ms: Milliseconds = 0
    """Measured: network, both ways."""
    ttft_ms: Milliseconds = 0
    """Measured: time to first token from when the server has the request, its queue included."""
    tpot_ms: Milliseconds = 0
    """Measured: time per output token after the first."""
    postprocess_ms: Milliseconds = 0
    """Measured: host work after the last token."""
    metrics_text: Annotated[str, text_of("a server's /metrics or of a benchmark's JSON")] = ""
    """Instead: the text of a vLLM or TGI server's /metrics, or the JSON of vllm bench serve; stated times win, but its tokens and
    requests at a time replace those below."""
    request: Annotated[SpeedRequest, Asked("precision engine prompt_tokens output_tokens concurrency")] = SpeedRequest(engine="vllm")

    def measured_times(self) -> MeasuredTimes:
        """The stated times, and from the text those that are not stated."""
        read = read_metrics(self.metrics_text) if self.metrics_text.strip() else MeasuredTimes()
        return MeasuredTimes(
            preprocess_ms=self.preprocess_ms or read.preprocess_ms,
            queue_ms=self.queue_ms or read.queue_ms,
            transfer_ms=self.transfer_ms or read.transfer_ms,
            ttft_ms=self.ttft_ms or read.ttft_ms,
            tpot_ms=self.tpot_ms or read.tpot_ms,
            postprocess_ms=self.postprocess_ms or read.postprocess_ms,
            prompt_tokens=read.prompt_tokens or self.request.prompt_tokens,
            output_tokens=read.output_tokens or self.request.output_tokens,
            concurrency=read.concurrency or self.request.concurrency,
            origin=read.origin,
        )


@endpoint()
def diagnose_latency(app: App, arguments: LatencyArguments) -> LatencyAnswer:
    """Latency by part, measured and expected, with the dominant part, the next step, and the effect of other formats.

    Returns:
        The parts with their ranges and verdicts, reasons and next steps in sentences, and the effect of each smaller format.
    """
    catalog, spec, measured = app.catalog(), app.models(arguments.model), arguments.measured_times()
    hardware = catalog.resolve_hardware(arguments.hardware)
    request = replace(
        arguments.request,
        prompt_tokens=measured.prompt_tokens or arguments.request.prompt_tokens,
        output_tokens=measured.output_tokens or arguments.request.output_tokens,
        concurrency=measured.concurrency or arguments.request.concurrency,
    )
    diagnosis = diagnose(spec, hardware, request, measured, catalog.accelerators)
    return LatencyAnswer(
        model=spec.id,
        hardware=hardware.id,
        precision=diagnosis.speed.precision,
        engine=diagnosis.speed.engine,
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        concurrency=diagnosis.speed.request.concurrency,
        parts=tuple(_latency_part(part, diagnosis.total_ms) for part in diagnosis.parts),
        total_ms=diagnosis.total_ms,
        dominant=None if diagnosis.dominant is None else diagnosis.dominant.name,
        bound=diagnosis.speed.bound,
        ridge_batch=diagnosis.ridge,
        read_from=measured.origin,
        reasons=diagnosis.reasons,
        next_steps=diagnosis.next_steps,
        precisions=tuple(map(_format_effect, diagnosis.formats)),
        engines=diagnosis.engines,
        caveats=diagnosis.caveats,
        sources=diagnosis.speed.sources,
    )


def _latency_part(part: LatencyPart, total_ms: float) -> LatencyPartEntry:
    expected = part.expected
    return LatencyPartEntry(
        name=part.name,
        measured_ms=part.measured_ms,
        verdict=part.verdict,
        expected_ms=None if expected is None else expected.value,
        low_ms=None if expected is None else expected.low,
        high_ms=None if expected is None else expected.high,
        share=part.measured_ms / total_ms if total_ms > 0 else None,
    )


def _format_effect(effect: FormatEffect) -> PrecisionEntry:
    values: dict[str, Value] = {"precision": effect.precision, "percent": abs(100 * effect.saved)}
    return PrecisionEntry(**fields_of(effect), message=sentence(Reason(f"format_{effect.effect}", values)))
