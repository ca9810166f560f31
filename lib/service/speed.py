"""The question `/estimate_speed`: arguments of any kind in, checked, answered.

Where a model sits under a card's roofline: the passes of a prediction, their FLOP and the bytes they move.

What a bill needs of a speed estimate: three figures, and what the estimate leaves open.

The speed estimate as the pace of a bill: one request at a time, of the stated shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from lib.answers.common import SCHEMA, PassEntry, RooflineAnswer, SpeedAnswer, SpeedFigures, SpeedPartEntry, caveat_entries, source_entries
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost import Pace, Usage
from lib.errors import InvalidInput, UnsupportedModel
from lib.laws.forward_pass import attention_flop, cache_read, linear_flop, share_reached, weights_read
from lib.model.spec import ModelSpec
from lib.provenance import Caveat, Source
from lib.service import arguments
from lib.service.arguments import memory_request, offer_of
from lib.speed import Band, SpeedEstimate, SpeedPart, SpeedRequest, Speeds, speed, speeds
from lib.speed.hardware import peak
from lib.workload import Engine, MemoryRequest

if TYPE_CHECKING:
    from lib.catalog.silicon import Cards

End = Literal["value", "low", "high"]


def speed_request(precision: object, engine: object, prompt_tokens: object, output_tokens: object, concurrency: object) -> SpeedRequest:
    """A question about speed.

    Raises:
        BadArgument: the first argument that is wrong.
    """
    named = memory_request(precision, engine, 1, 1, "auto", "inference", 1, 0)
    return SpeedRequest(
        precision=named.precision,
        engine=named.engine,
        prompt_tokens=arguments.whole("prompt_tokens", prompt_tokens, 1, arguments.MAX_TOKENS),
        output_tokens=arguments.whole("output_tokens", output_tokens, 1, arguments.MAX_TOKENS),
        concurrency=arguments.whole("concurrency", concurrency, 1, arguments.MAX_CONCURRENCY),
    )


def _end(band: Band, end: End) -> float:
    return {"value": band.value, "low": band.low, "high": band.high}[end]


def _figures(found: SpeedEstimate, end: End) -> SpeedFigures:
    def of(band: Band | None) -> float | None:
        return None if band is None else _end(band, end)

    return {
        "ttft_s": _end(found.ttft_s, end),
        "inter_token_s": of(found.inter_token_s),
        "decode_tokens_per_s": of(found.decode_tokens_per_s),
        "throughput_tokens_per_s": of(found.throughput_tokens_per_s),
        "items_per_s": of(found.items_per_s),
        "real_time_factor": of(found.real_time_factor),
    }


def _part(part: SpeedPart) -> SpeedPartEntry:
    return {"name": part.name, "seconds": part.seconds, "law": part.law, "inputs": dict(part.inputs), "source": part.source}


def speed_answer(spec: ModelSpec, hardware: Offer | Cards, request: SpeedRequest) -> SpeedAnswer:
    """The estimate as plain JSON.

    Raises:
        BadArgument: the engine needs other hardware.
        UnknownHardware: a CPU of which nothing is known.
        UnsupportedModel: a pipeline of which no work per picture is known.
    """
    found = speed(spec, hardware, request)
    return {
        "schema": SCHEMA,
        "model": spec.id,
        "hardware": hardware.id,
        "precision": found.precision,
        "engine": found.engine,
        **_figures(found, "value"),
        "unit": found.unit,
        "bound": found.bound,
        "running_requests": found.running,
        "low": _figures(found, "low"),
        "high": _figures(found, "high"),
        "decode_parts": [_part(part) for part in found.decode],
        "prompt_parts": [_part(part) for part in found.prompt],
        "caveats": caveat_entries(found.caveats),
        "sources": source_entries(found.sources),
    }


class SpeedQuestion:
    """Answers how fast hardware runs a model."""

    def __init__(self, *, catalog: Callable[[], Catalog], models: Callable[[object], ModelSpec]) -> None:
        """Answer from `catalog()` and `models`."""
        self._catalog, self._models = catalog, models

    def estimate_speed(
        self,
        model: str,
        hardware: str,
        precision: str = "auto",
        engine: Engine = "transformers",
        prompt_tokens: int = 512,
        output_tokens: int = 256,
        concurrency: int = 1,
    ) -> SpeedAnswer:
        """How fast hardware runs a model: first token, time between tokens, throughput of all requests, and what bounds it.

        Args:
            model: a Hub id, the text of a config.json, or a parameter count such as 7B
            hardware: an id such as l4x1, zero-a10g or v6e-8, or plain silicon with a count such as H100-SXMx8
            precision: auto, fp32, fp16, bf16, fp8, int8, int4, or a named format such as bnb-nf4 or gguf:Q4_K_M
            engine: what runs the model
            prompt_tokens: tokens of a prompt (encoders: of a sequence)
            output_tokens: tokens of an answer
            concurrency: requests in flight all the time (pictures: of a batch)

        Returns:
            Times and rates with their ranges, the parts of the times with their laws, and what bounds the speed.
        """
        request = speed_request(precision, engine, prompt_tokens, output_tokens, concurrency)
        found = self._catalog().resolve_hardware(hardware)
        return speed_answer(self._models(model), found, request)


class RooflineQuestion:
    """Answers where a model sits under the two ceilings of hardware."""

    def __init__(self, *, catalog: Callable[[], Catalog], models: Callable[[object], ModelSpec]) -> None:
        """Answer from `catalog()` and `models`."""
        self._catalog, self._models = catalog, models

    def roofline(
        self, model: str, hardware: str, precision: str, engine: str, prompt_tokens: int, output_tokens: int, concurrency: int
    ) -> RooflineAnswer:
        """Where a decode step and the reading of the prompts sit under the two ceilings of the hardware.

        Raises:
            InvalidInput: an argument is wrong, or the engine does not run there.
            UnsupportedModel: no work per token is known.
        """
        offer = offer_of(self._catalog(), hardware)
        request = speed_request(precision, engine, prompt_tokens, output_tokens, concurrency)
        return roofline_answer(offer, speeds([(self._models(model), offer, request)]))


def roofline_answer(offer: Offer, found: Speeds) -> RooflineAnswer:
    """The passes of one prediction: FLOP and bytes by the laws of speed, seconds as predicted."""
    of, c, f = found.setups[0], found.cases, found.forecast
    devices = of.laid.split
    row = {
        name: float(getattr(c, name)[0]) for name in ("dense_bytes", "expert_bytes", "experts", "per_token", "active", "prompt", "answer")
    }
    sequences = of.running
    passes = []
    if of.numbers.decoder is not None:
        moved = _weights(row, sequences) + sequences * _cache(found, row["prompt"] + row["answer"] / 2)
        passes.append(
            _pass("One step of decoding", float(f.step.total[0]), float(linear_flop(parameters=row["active"], tokens=sequences)), moved)
        )
    tokens = sequences * row["prompt"]
    attended = attention_flop(
        width=c.width[0], full_layers=c.full_layers[0], windowed_layers=c.windowed_layers[0], window=c.window[0], tokens=c.prompt[0]
    )
    flop = float(linear_flop(parameters=row["active"], tokens=tokens)) + sequences * float(attended)
    passes.append(_pass("Reading the prompts", float(f.prompt[0]), flop, _weights(row, tokens)))
    silicon, share = of.on.silicon, of.on.share
    return {
        "hardware": offer.id,
        "name": offer.name,
        "precision": of.precision,
        "arithmetic": of.arithmetic,
        "peak_flop_per_s": peak(silicon, of.arithmetic) * share * devices,
        "bandwidth_bytes_per_s": silicon.bandwidth * share * devices,
        "passes": passes,
    }


def _weights(row: dict[str, float], tokens: float) -> float:
    reached = share_reached(experts=row["experts"], per_token=row["per_token"], tokens=tokens)
    return float(np.asarray(weights_read(dense_bytes=row["dense_bytes"], expert_bytes=row["expert_bytes"], reached=reached)))


def _cache(found: Speeds, length: float) -> float:
    c = found.cases
    held = cache_read(
        constant=c.cache_constant[0],
        per_token=c.cache_per_token[0],
        windowed_per_token=c.cache_windowed[0],
        window=c.window[0],
        tokens=length,
    )
    return float(held)


def _pass(name: str, seconds: float, flop: float, moved: float) -> PassEntry:
    return {
        "name": name,
        "seconds": seconds,
        "flop": flop,
        "bytes": moved,
        "flop_per_byte": flop / moved,
        "flop_per_s": flop / seconds,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPace:
    """Seconds to the first token and between tokens, answer tokens per second; `None` where nothing is decoded."""

    ttft_s: float | None
    inter_token_s: float | None
    throughput_tokens_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """The pace of an offer, `None` where it could not be estimated; then a caveat says why."""

    pace: Pace | None = None
    caveats: tuple[Caveat, ...] = ()
    sources: tuple[Source, ...] = ()


Speed = Callable[[ModelSpec, Offer, MemoryRequest, Usage], Paced]
"""How fast an offer runs a model at this use; what it raises as bad input is a reason, not a failure."""

ONE_AT_A_TIME = Caveat(
    code="one_at_a_time",
    message="Prices per million tokens are those of one request at a time at full use; an engine that serves several at once costs less.",
)
UNKNOWN = Caveat(code="speed_unknown", message="The speed on this hardware was not estimated, so prices per token are left open.")


def paced(speed: Speed | None, spec: ModelSpec, offer: Offer, request: MemoryRequest, usage: Usage) -> Paced:
    """The pace, or why there is none: hardware and models that cannot be estimated do not stop a bill."""
    if speed is None:
        return Paced(caveats=(UNKNOWN,))
    try:
        return speed(spec, offer, request, usage)
    except (InvalidInput, UnsupportedModel) as error:
        return Paced(caveats=(Caveat(code="speed_unknown", message=f"Prices per token are left open. {error}"),))


def estimated(spec: ModelSpec, offer: Offer, request: MemoryRequest, usage: Usage) -> Paced:
    """What `lib.speed` says; where nothing is decoded (encoders, pictures) its throughput counts no answer tokens and is left out.

    Raises:
        InvalidInput: the engine needs other hardware, or nothing is known of it.
        UnsupportedModel: nothing is known of the work of this pipeline.
    """
    found = speed(
        spec,
        offer,
        SpeedRequest(
            precision=request.precision,
            engine="transformers" if offer.platform == "zerogpu" else request.engine,
            prompt_tokens=usage.prompt_tokens,
            output_tokens=max(1, usage.output_tokens),
            concurrency=usage.concurrency,
            kv_precision=request.kv_precision,
        ),
    )
    between, through = found.inter_token_s, found.throughput_tokens_per_s
    pace = KnownPace(
        ttft_s=found.ttft_s.value,
        inter_token_s=None if between is None else between.value,
        throughput_tokens_per_s=None if between is None or through is None else through.value,
    )
    return Paced(pace=pace, caveats=found.caveats, sources=found.sources)
