"""`/estimate_speed`, and where a model sits under the roofline of hardware: the passes of a prediction, their FLOP and the bytes they move.

Bills ask for the speed of one request shape at a time (`predict_usage`); where none can be predicted they say so and go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lib.answers.common import SCHEMA, PassEntry, RooflineAnswer, SpeedAnswer, SpeedEnd, SpeedFigures, SpeedPartEntry, source_entries
from lib.answers.live import RunEnd
from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator
from lib.cost import Usage
from lib.cost.usage import LOADS
from lib.errors import InvalidInput, UnsupportedModel
from lib.laws.forward_pass import linear_flop
from lib.memory.pipeline import resolve_size
from lib.memory.resolve import context_caveats, split_caveats
from lib.model.spec import ModelSpec
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat
from lib.service.arguments import (
    Concurrency,
    Engine,
    GpuLayers,
    Hardware,
    MediaArguments,
    Model,
    Precision,
    Tokens,
    argument,
    check_offer,
)
from lib.service.endpoint import App
from lib.speed import (
    Band,
    End,
    ExplainedSpeed,
    SpeedEstimate,
    SpeedPart,
    SpeedRequest,
    SpeedTable,
    predict_each,
    predict_speed,
    predict_speeds,
)
from lib.speed.hardware import find_peak
from lib.speed.timing import bytes_moved, prompt_attention_flop
from lib.workload import MemoryRequest, gather_media

if TYPE_CHECKING:
    from lib.catalog.silicon import Cards


class SpeedArguments(MediaArguments):
    """Arguments of `/estimate_speed` and of the roofline."""

    model: Model
    hardware: Hardware = argument(..., "an id such as l4x1, zero-a10g or v6e-8, or plain silicon with a count such as H100-SXMx8")
    precision: Precision = "auto"
    engine: Engine = "transformers"
    prompt_tokens: Tokens = argument(512, "tokens of a prompt (encoders: of a sequence)")
    output_tokens: Tokens = argument(256, "tokens of an answer (sound: of each window of half a minute)")
    concurrency: Concurrency = argument(1, "requests in flight all the time (pictures: of a batch)")
    gpu_layers: GpuLayers = -1

    @property
    def request(self) -> SpeedRequest:
        """The same as the prediction takes it."""
        values = gather_media(self.model_dump(exclude={"model", "hardware"}))
        values["gpu_layers"] = None if self.gpu_layers < 0 else self.gpu_layers
        return SpeedRequest(**values)


def estimate_speed(app: App, arguments: SpeedArguments) -> SpeedAnswer:
    """How fast hardware runs a model: first token, time between tokens, throughput of all requests, and what bounds it.

    Returns:
        Times and rates with their ranges, the parts of the times with their laws, and what bounds the speed.
    """
    catalog = app.catalog()
    hardware = catalog.resolve_hardware(arguments.hardware)
    return speed_answer(app.models(arguments.model), hardware, arguments.request, catalog.accelerators)


def run_end(speed: SpeedEstimate | None, end: End) -> RunEnd:
    """The values of one request, or one end of their ranges; null where nothing is predicted or decoded."""
    return {
        "ttft_s": None if speed is None else speed.ttft_s.at(end),
        "decode_tokens_per_s": None if speed is None else _at(speed.decode_tokens_per_s, end),
    }


def speed_end(speed: SpeedEstimate, end: End) -> SpeedEnd:
    """The values, or one end of their ranges; null where nothing is decoded."""
    return {
        "ttft_s": speed.ttft_s.at(end),
        "inter_token_s": _at(speed.tpot_s, end),
        "decode_tokens_per_s": _at(speed.decode_tokens_per_s, end),
        "throughput_tokens_per_s": _at(speed.output_tokens_per_s, end),
    }


def _figures(speed: ExplainedSpeed, end: End) -> SpeedFigures:
    return {
        **speed_end(speed, end),
        "throughput_tokens_per_s": _at(speed.throughput_tokens_per_s, end),
        "request_s": speed.request_s_at(end),
        "items_per_s": _at(speed.items_per_s, end),
        "real_time_factor": _at(speed.real_time_factor, end),
    }


def _at(band: Band[float] | None, end: End) -> float | None:
    return None if band is None else band.at(end)


def _part(part: SpeedPart) -> SpeedPartEntry:
    return {"name": part.name, "seconds": part.seconds, "law": part.law, "inputs": dict(part.inputs), "source": part.source}


def speed_answer(spec: ModelSpec, hardware: Offer | Cards, request: SpeedRequest, accelerators: Mapping[str, Accelerator]) -> SpeedAnswer:
    """The estimate as plain JSON.

    Raises:
        BadArgument: the engine needs other hardware.
        UnknownHardware: a CPU of which nothing is known.
        UnsupportedModel: a pipeline of which no work per picture is known.
    """
    resolve_size(spec, request.pictures)
    speed = predict_speed(spec, hardware, request, accelerators)
    return {
        "schema": SCHEMA,
        "model": spec.id,
        "hardware": hardware.id,
        "precision": speed.precision,
        "engine": speed.engine,
        **_figures(speed, "value"),
        "unit": speed.unit,
        "bound": speed.bound,
        "running_requests": speed.running_requests,
        "low": _figures(speed, "low"),
        "high": _figures(speed, "high"),
        "decode_parts": [_part(part) for part in speed.decode_parts],
        "prompt_parts": [_part(part) for part in speed.prompt_parts],
        "caveats": caveat_entries((*_limits(spec, hardware, request), *speed.caveats)),
        "sources": source_entries(speed.sources),
    }


def _limits(spec: ModelSpec, hardware: Offer | Cards, request: SpeedRequest) -> list[Caveat]:
    if spec.library == "diffusers":
        return []
    return [
        *context_caveats(spec, request.prompt_tokens, request.output_tokens),
        *split_caveats(spec, request.engine, hardware.accelerator_count),
    ]


def roofline(app: App, arguments: SpeedArguments) -> RooflineAnswer:
    """Where a decode step and the reading of the prompts sit under the two ceilings of the hardware.

    Raises:
        InvalidInput: an argument is wrong, or the engine does not run there.
        UnsupportedModel: no work per token is known.
    """
    catalog = app.catalog()
    offer = check_offer(catalog, arguments.hardware)
    return roofline_answer(offer, predict_speeds([(app.models(arguments.model), offer, arguments.request)], catalog.accelerators))


def roofline_answer(offer: Offer, table: SpeedTable) -> RooflineAnswer:
    """The passes of one prediction: FLOP and bytes by the laws of speed, seconds as predicted."""
    of, inputs, times = table.deployments[0], table.inputs, table.times
    sequences, parameters = of.running_requests, float(inputs.active_parameters[0])
    passes = []
    if of.work.decoder is not None:
        cached = inputs.prompt_tokens + inputs.output_tokens / 2
        moved = bytes_moved(inputs, tokens=sequences, sequences=sequences, cached_tokens=cached)
        flop = float(linear_flop(parameters=parameters, tokens=sequences))
        passes.append(_pass("One step of decoding", float(times.step.total[0]), flop, float(moved[0])))
    tokens = sequences * float(inputs.prompt_tokens[0])
    attention = float(np.asarray(prompt_attention_flop(inputs))[0])
    flop = float(linear_flop(parameters=parameters, tokens=tokens)) + sequences * attention
    moved = bytes_moved(inputs, tokens=tokens, sequences=sequences, cached_tokens=0.0)
    passes.append(_pass("Reading the prompts", float(times.prefill.total[0]), flop, float(moved[0])))
    silicon = of.devices.silicon
    return {
        "hardware": offer.id,
        "name": offer.name,
        "precision": of.precision,
        "arithmetic": of.arithmetic,
        "peak_flop_per_s": find_peak(silicon, of.arithmetic) * of.devices.share * of.layout.tensor_parallel,
        "bandwidth_bytes_per_s": silicon.bandwidth * of.devices.share * of.layout.tensor_parallel,
        "passes": passes,
    }


def _pass(name: str, seconds: float, flop: float, moved: float) -> PassEntry:
    return {
        "name": name,
        "seconds": seconds,
        "flop": flop,
        "bytes": moved,
        "flop_per_byte": flop / moved,
        "flop_per_s": flop / seconds,
    }


Predict = Callable[[ModelSpec, Offer, SpeedRequest, Mapping[str, Accelerator]], ExplainedSpeed]
"""`lib.speed.predict_speed`, or a stand-in for it."""


def predict_usage(
    predict: Predict,
    spec: ModelSpec,
    offer: Offer,
    request: MemoryRequest,
    usage: Usage,
    accelerators: Mapping[str, Accelerator],
) -> ExplainedSpeed | Caveat:
    """How fast an offer runs a model at this use; a caveat where no speed is predicted, which does not stop a bill."""
    try:
        return predict(spec, offer, _speed_request(offer, request, usage), accelerators)
    except (InvalidInput, UnsupportedModel) as error:
        return Caveat("speed_unknown", {"failure": str(error)}, variant="prices")


def _speed_request(offer: Offer, request: MemoryRequest, usage: Usage) -> SpeedRequest:
    return SpeedRequest(
        precision=request.precision,
        engine="transformers" if offer.platform == "zerogpu" else request.engine,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=max(1, usage.output_tokens),
        concurrency=usage.concurrency,
        kv_precision=request.kv_precision,
        pictures=request.pictures,
        media=request.media,
    )


def predict_loads(
    predict: Predict,
    spec: ModelSpec,
    offer: Offer,
    request: MemoryRequest,
    usage: Usage,
    accelerators: Mapping[str, Accelerator],
) -> tuple[SpeedEstimate, ...]:
    """How fast an offer that is rented runs the model at each of `lib.cost.usage.LOADS`; nothing where no speed is predicted.

    All loads are one pass of the laws, unless `predict` is a stand-in, which answers one question at a time.
    """
    if offer.platform == "zerogpu" or not offer.usd_per_hour:
        return ()
    uses = [replace(usage, concurrency=load) for load in LOADS]
    if predict is predict_speed:
        together = predict_each([(spec, offer, _speed_request(offer, request, use)) for use in uses], accelerators)
        return tuple(load for load in together if load is not None)
    loads = (predict_usage(predict, spec, offer, request, use, accelerators) for use in uses)
    return tuple(load for load in loads if isinstance(load, ExplainedSpeed))


def estimate_or_none(speed: ExplainedSpeed | Caveat | None) -> ExplainedSpeed | None:
    """The estimate, where there is one."""
    return speed if isinstance(speed, ExplainedSpeed) else None
