"""The question `/estimate_speed`: arguments of any kind in, checked, answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from lib.answers.common import SCHEMA, SpeedAnswer, SpeedFigures, SpeedPartEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.model.spec import ModelSpec
from lib.service import arguments
from lib.service.requests import memory_request
from lib.service.wire import caveat_entries, source_entries
from lib.speed import Band, SpeedEstimate, SpeedPart, SpeedRequest, speed
from lib.workload import Engine

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
