"""`/compare`, before and after: two configurations, estimated or measured, under the same traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import model_validator

from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost import compare as cost_compare
from lib.cost.usage import Usage, to_decimal
from lib.errors import BadArgument, InvalidInput, quote_value
from lib.laws.price import HOUR_S
from lib.memory import fit_memory, host_memory, usable_memory
from lib.memory.resolve import check_server, choose_engine, settle_formats
from lib.memory.spread import spread
from lib.model.spec import ModelSpec
from lib.present.numbers import gib
from lib.request.checks import check_decimal, check_whole, describe_value
from lib.request.fields import Arguments, Asked, Checked
from lib.request.serving import DEFAULTS, ServingSettings
from lib.request.types import (
    MAX_CONCURRENCY,
    MAX_TOKENS,
    MAX_TOKENS_PER_S,
    Concurrency,
    Engine,
    Hardware,
    Model,
    Precision,
)
from lib.service.endpoint import App, endpoint
from lib.service.usage import memory_request
from lib.speed import ExplainedSpeed, SpeedRequest, predict_speed

HORIZON_MONTHS = 12
SLOWEST = Decimal("0.001")  # tokens per second; below it a replica is broken, not slow
MAX_SECONDS = 86_400
MAX_EFFORT_USD = 1_000_000_000


def _measurement(words: str, high: int) -> Checked:
    """A figure that was measured (0: it was not), called by its words in refusals."""
    return Checked(lambda _, value: check_decimal(words, value, 0, high), float)


RATE, P50, P99, EFFORT = "measured tokens per second", "measured p50 latency", "measured p99 latency", "effort in USD"


class SideArguments(Arguments):
    """One side, of a model of its own where one is named.

    The rate and the latencies are measurements of one replica, 0 if nothing was measured.
    """

    hardware: Hardware
    model: Model = ""
    precision: Precision = "auto"
    engine: Engine = "transformers"
    concurrency: Concurrency = 1
    serving: ServingSettings = DEFAULTS
    tokens_per_s: Annotated[Decimal, _measurement(RATE, MAX_TOKENS_PER_S)] = Decimal(0)
    latency_p50_s: Annotated[Decimal, _measurement(P50, MAX_SECONDS)] = Decimal(0)
    latency_p99_s: Annotated[Decimal, _measurement(P99, MAX_SECONDS)] = Decimal(0)

    @model_validator(mode="after")
    def _plausible(self) -> Self:
        if 0 < self.tokens_per_s < SLOWEST:
            raise BadArgument(RATE, describe_value(self.tokens_per_s), f"0 (not measured), or {SLOWEST} and more")
        if 0 < self.latency_p99_s < self.latency_p50_s:
            accepted = f"at least the p50 latency of {self.latency_p50_s:f} s, or 0 (not measured)"
            raise BadArgument(P99, describe_value(self.latency_p99_s), accepted)
        return self


@contextmanager
def _name_side(side: str) -> Iterator[None]:
    """Refusals that say which side they are about."""
    try:
        yield
    except InvalidInput as refused:
        raise InvalidInput(f"{side}: {refused}") from refused


def _side(name: str, value: object) -> SideArguments:
    accepted = f"an object with hardware, and optionally others of {', '.join(SideArguments.model_fields)}"
    if not isinstance(value, dict):
        raise BadArgument(name, describe_value(value), accepted)
    unknown = next((key for key in value if key not in SideArguments.model_fields), None)
    if unknown is not None or "hardware" not in value:
        raise BadArgument(name, "an object without hardware" if unknown is None else f"an object with {quote_value(unknown)}", accepted)
    with _name_side(name.capitalize()):
        return SideArguments.model_validate(value)


class CompareArguments(Arguments):
    """Arguments of `/compare`; a side is given as an object."""

    model: Model
    """A Hub id, the text of a config.json, or a parameter count; empty if both rates were measured."""
    before: Annotated[SideArguments, Checked(_side, dict[str, Any])]
    """An object with hardware, and optionally model (in place of the shared one), precision, engine, concurrency, serving, and
    measurements: tokens_per_s, latency_p50_s, latency_p99_s."""
    after: Annotated[SideArguments, Checked(_side, dict[str, Any])]
    """The same for the other configuration."""
    usage: Annotated[Usage, Asked("prompt_tokens output_tokens requests_per_day hours_per_day days_per_month")] = Usage(
        requests_per_day=Decimal(100)
    )
    effort_usd: Annotated[Decimal, Checked(lambda _, value: check_decimal(EFFORT, value, 0, MAX_EFFORT_USD), float)] = Decimal(0)
    """One-off cost of the change, USD; 0 if not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """The traffic: its rate of arrival and of answer tokens while it runs, and the hours it runs."""

    usage: Usage
    requests_per_s: Decimal
    tokens_per_s: Decimal
    hours_per_month: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConfiguredSide:
    """A side as it runs; `speed` is None if its rate was measured."""

    offer: Offer
    configuration: cost_compare.PricedConfiguration
    speed: ExplainedSpeed | None = None


@endpoint()
def compare(app: App, arguments: CompareArguments) -> cost_compare.Comparison:
    """Two configurations, of one model or of two, under the same traffic: cost per request and million tokens, speed, replicas, verdict.

    A model is only looked up where a rate has to be estimated.

    Returns:
        Both sides, the saving of the change, and why it is worth its effort or not.
    """
    load, catalog = _load(arguments), app.catalog()
    with _name_side("Before"):
        old = _configure_side(app, catalog, arguments.model, arguments.before, load)
    with _name_side("After"):
        new = _configure_side(app, catalog, arguments.model, arguments.after, load)
    return cost_compare.compare(
        old.configuration,
        new.configuration,
        tokens_per_s=load.tokens_per_s,
        hours_per_month=load.hours_per_month,
        output_tokens=load.usage.output_tokens,
        effort_usd=arguments.effort_usd,
        horizon_months=HORIZON_MONTHS,
        caveats=tuple(caveat for side in (old, new) if side.speed for caveat in side.speed.caveats),
        sources=tuple(source for side in (old, new) for source in (*side.offer.sources, *(side.speed.sources if side.speed else ()))),
    )


def _configure_side(app: App, catalog: Catalog, model: object, side: SideArguments, load: _Load) -> _ConfiguredSide:
    offer = catalog.resolve_offer(side.hardware)
    if offer.traits.per_call or offer.usd_per_hour is None:
        raise InvalidInput(
            f"{offer.name} is not rented by the hour, so its hours cannot be compared. Choose hardware with a price per hour."
        )
    # As measured by the caller, if rates were stated.
    usage = load.usage
    request = SpeedRequest(
        precision=side.precision,
        engine=side.engine,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=check_whole("output_tokens", usage.output_tokens, 1, MAX_TOKENS),
        concurrency=side.concurrency,
        serving=side.serving,
    )
    latencies = (side.latency_p50_s or None, side.latency_p99_s or None)
    measured = cost_compare.PricedConfiguration(
        name=offer.name,
        hardware=f"{offer.platform}:{offer.id}",
        runs_as=f"{side.precision} with {side.engine}, concurrency {side.concurrency:,}{_settings_words(side)}",
        measured_latency=any(latencies),
        device="chip" if offer.traits.rents_tpus else "GPU",
        devices=offer.accelerator_count,
        usd_per_hour=offer.usd_per_hour,
        tokens_per_s=_plain(side.tokens_per_s),
        latency_p50_s=latencies[0],
        latency_p99_s=latencies[1],
    )
    if side.tokens_per_s:
        return _ConfiguredSide(offer=offer, configuration=measured)
    # As predicted, if not.
    spec = app.models(side.model or model)
    request = settle_formats(replace(request, engine=choose_engine(spec, request.engine)))
    check_server(spec, request.engine, side.serving, request.prompt_tokens + request.output_tokens, request.concurrency)
    _check_memory(spec, offer, request, replace(usage, concurrency=side.concurrency))
    speed = predict_speed(spec, offer, request, catalog.accelerators)
    rate = speed.output_tokens_per_s
    if rate is None:
        raise InvalidInput("This model writes no output tokens, so there is no rate to estimate. Type the measured tokens per second.")
    expected = replace(
        measured,
        model=spec.id,
        runs_as=f"{speed.precision} with {request.engine}, concurrency {request.concurrency:,}{_settings_words(side)}",
        measured=False,
        tokens_per_s=to_decimal(rate.value),
        low=rate.low,
        high=rate.high,
    )
    # Replicas for the load, and their latencies.
    replicas = cost_compare.apply_load(expected, load.tokens_per_s, load.hours_per_month).replicas
    if replicas * request.concurrency > MAX_CONCURRENCY:  # Erlang's recursion walks over every slot
        raise InvalidInput(f"The traffic needs {replicas:,} replicas here, more than can be compared. Lower the requests a day.")
    if not any(latencies):
        slots = request.concurrency * replicas
        p50, p99 = cost_compare.predict_latencies(speed, request.output_tokens, slots, float(load.requests_per_s))
        expected = replace(expected, latency_p50_s=p50, latency_p99_s=p99)
    return _ConfiguredSide(offer=offer, configuration=expected, speed=speed)


def _settings_words(side: SideArguments) -> str:
    """The stated settings of the server, after a comma."""
    return "".join(f", {name} {value}" for name, value in side.serving.stated.items())


def _load(arguments: CompareArguments) -> _Load:
    usage = arguments.usage
    if usage.hours_per_day == 0:
        raise InvalidInput("Hours a day is 0, so nothing runs and there is nothing to compare. Set the hours in which requests arrive.")
    arriving = usage.requests_per_day / (usage.hours_per_day * HOUR_S)
    return _Load(
        usage=usage,
        requests_per_s=arriving,
        tokens_per_s=_plain(arriving * usage.output_tokens),
        hours_per_month=_plain(usage.hours_per_day * usage.days_per_month),
    )


def _plain(value: Decimal) -> Decimal:
    """Without zeros at the end, which the arithmetic would print."""
    return Decimal(f"{value.normalize():f}")


def _check_memory(spec: ModelSpec, offer: Offer, request: SpeedRequest, usage: Usage) -> None:
    capacity = usable_memory(offer)
    if capacity is None:
        return
    devices = spread(spec, request.engine, offer, request.serving).devices
    needed = memory_request(usage, request.precision, request.engine, devices, serving=request.serving)
    needed = replace(needed, kv_precision=request.kv_precision, gpu_layers=request.gpu_layers)
    host_bytes = host_memory(offer, experts=bool(request.serving.cpu_moe_layers))
    fit = fit_memory(spec, needed, capacity, offer.processor, host_bytes=host_bytes)
    if not fit.fits:
        raise InvalidInput(
            f"{offer.name} lacks {gib(-fit.free_bytes)} of memory for {request.precision} with {request.engine} and "
            f"concurrency {needed.batch_size:,}. Choose larger hardware, a smaller precision or fewer requests, or type what was measured."
        )
