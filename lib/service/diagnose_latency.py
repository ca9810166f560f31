"""`/diagnose_latency`: where the time of a request goes, beside what the laws expect, and what to do next."""

from __future__ import annotations

from typing import Annotated

from lib.answers.common import SCHEMA, source_entries
from lib.answers.traffic import LatencyAnswer, LatencyPartEntry, PrecisionEntry
from lib.errors import BadArgument
from lib.present.sentences import caveat_entries, reason_entries, sentence
from lib.provenance import Reason, Value
from lib.service.arguments import (
    Arguments,
    Checked,
    Concurrency,
    Engine,
    Hardware,
    Model,
    Precision,
    Tokens,
    argument,
    check_hardware,
    check_number,
    describe_value,
)
from lib.service.endpoint import App
from lib.speed import SpeedRequest
from lib.traffic.latency import FormatEffect, LatencyPart
from lib.traffic.latency import diagnose_latency as diagnose
from lib.traffic.metrics_text import LONGEST_MS, MeasuredTimes, read_metrics


def _check_metrics(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadArgument(name, describe_value(value), "the text of a server's /metrics or of a benchmark's JSON, or an empty text")
    return value


Milliseconds = Annotated[float, Checked(lambda name, value: check_number(name, value, 0, LONGEST_MS), float)]


class LatencyArguments(Arguments):
    """Arguments of `/diagnose_latency`: means of a request; 0 is not measured."""

    model: Model
    hardware: Hardware = argument(..., "an id such as l4x1 or v6e-8, or plain silicon with a count such as H100-SXMx8")
    preprocess_ms: Milliseconds = argument(0, "measured: host work before the request is sent (tokenising, templates)")
    queue_ms: Milliseconds = argument(0, "measured: wait in the server before the first step")
    transfer_ms: Milliseconds = argument(0, "measured: network, both ways")
    ttft_ms: Milliseconds = argument(0, "measured: time to first token from when the server has the request, its queue included")
    tpot_ms: Milliseconds = argument(0, "measured: time per output token after the first")
    postprocess_ms: Milliseconds = argument(0, "measured: host work after the last token")
    metrics_text: Annotated[str, Checked(_check_metrics, str)] = argument(
        "", "instead: the text of a vLLM or TGI server's /metrics, or the JSON of vllm bench serve; times that are stated win"
    )
    precision: Precision = "auto"
    engine: Engine = "vllm"
    prompt_tokens: Tokens = argument(512, "tokens of a prompt; those of the text win")
    output_tokens: Tokens = argument(256, "tokens of an answer; those of the text win")
    concurrency: Concurrency = argument(1, "requests on their way at a time; those of the text win")

    def measured(self) -> MeasuredTimes:
        """The stated times, and from the text those that are not stated.

        Raises:
            BadArgument: nothing in the text is a known time.
        """
        read = read_metrics(self.metrics_text) if self.metrics_text.strip() else MeasuredTimes()
        return MeasuredTimes(
            preprocess_ms=self.preprocess_ms or read.preprocess_ms,
            queue_ms=self.queue_ms or read.queue_ms,
            transfer_ms=self.transfer_ms or read.transfer_ms,
            ttft_ms=self.ttft_ms or read.ttft_ms,
            tpot_ms=self.tpot_ms or read.tpot_ms,
            postprocess_ms=self.postprocess_ms or read.postprocess_ms,
            prompt_tokens=read.prompt_tokens or self.prompt_tokens,
            output_tokens=read.output_tokens or self.output_tokens,
            concurrency=read.concurrency or self.concurrency,
            origin=read.origin,
        )


def diagnose_latency(app: App, arguments: LatencyArguments) -> LatencyAnswer:
    """Where the time of a request goes: each part measured beside expected, the dominant one, what to do next, what formats would do.

    Returns:
        The parts with their ranges and verdicts, reasons and next steps in sentences, and the effect of each smaller format.
    """
    catalog, spec, measured = app.catalog(), app.models(arguments.model), arguments.measured()
    hardware = check_hardware(catalog, arguments.hardware)
    request = SpeedRequest(
        precision=arguments.precision,
        engine=arguments.engine,
        prompt_tokens=measured.prompt_tokens or arguments.prompt_tokens,
        output_tokens=measured.output_tokens or arguments.output_tokens,
        concurrency=measured.concurrency or arguments.concurrency,
    )
    diagnosis = diagnose(spec, hardware, request, measured, catalog.accelerators)
    return {
        "schema": SCHEMA,
        "model": spec.id,
        "hardware": hardware.id,
        "precision": diagnosis.speed.precision,
        "engine": diagnosis.speed.engine,
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": request.output_tokens,
        "concurrency": diagnosis.speed.request.concurrency,
        "parts": [_part(part, diagnosis.total_ms) for part in diagnosis.parts],
        "total_ms": diagnosis.total_ms,
        "dominant": None if diagnosis.dominant is None else diagnosis.dominant.name,
        "bound": diagnosis.speed.bound,
        "ridge_batch": diagnosis.ridge,
        "read_from": measured.origin,
        "reasons": reason_entries(diagnosis.reasons),
        "next_steps": reason_entries(diagnosis.next_steps),
        "precisions": [_format(effect) for effect in diagnosis.formats],
        "caveats": caveat_entries(diagnosis.caveats),
        "sources": source_entries(diagnosis.speed.sources),
    }


def _part(part: LatencyPart, total_ms: float) -> LatencyPartEntry:
    expected = part.expected
    return {
        "name": part.name,
        "measured_ms": part.measured_ms,
        "expected_ms": None if expected is None else expected.value,
        "low_ms": None if expected is None else expected.low,
        "high_ms": None if expected is None else expected.high,
        "share": part.measured_ms / total_ms if total_ms > 0 else None,
        "verdict": part.verdict,
    }


def _format(effect: FormatEffect) -> PrecisionEntry:
    values: dict[str, Value] = {"precision": effect.precision, "percent": abs(100 * effect.saved)}
    return {
        "precision": effect.precision,
        "tpot_ms": effect.tpot_ms,
        "ttft_ms": effect.ttft_ms,
        "weights_bytes": effect.weights_bytes,
        "effect": effect.effect,
        "message": sentence(Reason(f"format_{effect.effect}", values)),
    }
