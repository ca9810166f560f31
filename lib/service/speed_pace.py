"""The speed estimate as the pace of a bill: one request at a time, of the stated shape."""

from __future__ import annotations

from lib.catalog.offers import Offer
from lib.cost import Usage
from lib.model.spec import ModelSpec
from lib.service.pace import KnownPace, Paced
from lib.speed import SpeedRequest, speed
from lib.workload import MemoryRequest


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
