"""How hardware is used, as the questions about cost state it: traffic, hours, replicas, storage, prices per token that a caller states.

Bills ask for the speed of one request shape at a time (`predict_usage`); if none can be predicted they say so and go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated

from lib.catalog.offers import Offer
from lib.catalog.rules import StoragePrices
from lib.catalog.silicon import Accelerator
from lib.cost import TokenPrice, Usage, find_retired_tier
from lib.cost.usage import LOADS
from lib.engines import ENGINES, find_engine, traits_of
from lib.errors import InvalidInput, UnsupportedModel
from lib.model.spec import ModelSpec
from lib.provenance import Caveat, Source
from lib.request.checks import check_decimal
from lib.request.fields import decimal_number
from lib.request.media import TEXT_ONLY, MediaRequest
from lib.request.serving import DEFAULTS, Serving
from lib.request.types import MAX_HARDWARE, look_up_later
from lib.speed import ExplainedSpeed, SpeedEstimate, SpeedRequest, predict_each, predict_speed
from lib.units import GB
from lib.workload import AS_THE_PIPELINE, MemoryRequest, PipelineRequest

MAX_STORAGE_GB = 1_000_000_000
MAX_USD_PER_MILLION = 1_000_000
OWN = "your own price"

Storage = Annotated[object, look_up_later(float, "Private storage in gigabytes.")]
UsdPerMillion = Annotated[Decimal, decimal_number(0, MAX_USD_PER_MILLION)]


def state_price(provider: str, usd_per_million_input: Decimal, usd_per_million_output: Decimal) -> TokenPrice | None:
    """A price per token that the caller states; `None` if both are 0."""
    if usd_per_million_input == 0 and usd_per_million_output == 0:
        return None
    return TokenPrice(
        provider=provider,
        usd_per_million_input=usd_per_million_input,
        usd_per_million_output=usd_per_million_output,
        source=Source(what="price per token", source="stated by the visitor", checked=""),
    )


def memory_request(
    usage: Usage,
    precision: str,
    engine: str,
    devices: int,
    context_tokens: int = 0,
    *,
    pictures: PipelineRequest = AS_THE_PIPELINE,
    media: MediaRequest = TEXT_ONLY,
    serving: Serving = DEFAULTS,
) -> MemoryRequest:
    """Load that has to fit: a whole batch where requests start together, one request where the engine keeps a queue.

    Each holds `context_tokens`; 0 takes the prompt and the answer.
    """
    name = find_engine(engine) or ENGINES[0]
    return MemoryRequest(
        precision=precision,
        engine=name,
        context_tokens=context_tokens or max(1, usage.prompt_tokens + usage.output_tokens),
        batch_size=usage.concurrency if traits_of(name).static_batch else 1,
        devices=devices,
        pictures=pictures,
        media=media,
        serving=serving,
    )


def read_storage(value: object, prices: StoragePrices) -> Decimal:
    """Gigabytes; the name of an old persistent tier means its size, and is answered as retired."""
    tier = find_retired_tier(value.strip().casefold(), prices) if isinstance(value, str) and len(value) <= MAX_HARDWARE else None
    return check_decimal("storage_gb", value, 0, MAX_STORAGE_GB) if tier is None else Decimal(tier.size) / GB


Predict = Callable[[ModelSpec, Offer, SpeedRequest, Mapping[str, Accelerator]], ExplainedSpeed]
"""`lib.speed.predict_speed`, or a replacement."""


def predict_usage(
    predict: Predict,
    spec: ModelSpec,
    offer: Offer,
    request: MemoryRequest,
    usage: Usage,
    accelerators: Mapping[str, Accelerator],
) -> ExplainedSpeed | Caveat:
    """How fast an offer runs a model at this use; a caveat if no speed is predicted, which does not stop a bill."""
    try:
        return predict(spec, offer, _speed_request(offer, request, usage), accelerators)
    except (InvalidInput, UnsupportedModel) as error:
        return Caveat("speed_unknown", {"failure": str(error)}, variant="prices")


def _speed_request(offer: Offer, request: MemoryRequest, usage: Usage) -> SpeedRequest:
    return SpeedRequest(
        precision=request.precision,
        engine="transformers" if offer.traits.per_call else request.engine,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=max(1, usage.output_tokens),
        concurrency=usage.concurrency,
        kv_precision=request.kv_precision,
        pictures=request.pictures,
        media=request.media,
        gpu_layers=request.gpu_layers,
        serving=DEFAULTS if offer.traits.per_call else request.serving,
    )


def predict_loads(
    predict: Predict,
    spec: ModelSpec,
    offer: Offer,
    request: MemoryRequest,
    usage: Usage,
    accelerators: Mapping[str, Accelerator],
) -> tuple[SpeedEstimate, ...]:
    """How fast an offer that is rented runs the model at each of `lib.cost.usage.LOADS`; nothing if no speed is predicted.

    All loads are one pass of the laws, unless `predict` is a replacement, which answers one question at a time.
    """
    if offer.traits.per_call or not offer.usd_per_hour:
        return ()
    uses = [replace(usage, concurrency=load) for load in LOADS]
    if predict is predict_speed:
        together = predict_each([(spec, offer, _speed_request(offer, request, use)) for use in uses], accelerators)
        return tuple(load for load in together if load is not None)
    loads = (predict_usage(predict, spec, offer, request, use, accelerators) for use in uses)
    return tuple(load for load in loads if isinstance(load, ExplainedSpeed))


def estimate_or_none(speed: ExplainedSpeed | Caveat | None) -> ExplainedSpeed | None:
    """The estimate, if there is one."""
    return speed if isinstance(speed, ExplainedSpeed) else None
