"""`/compare`, before and after: two configurations, estimated or measured, under the same traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import model_validator

from lib.answers.common import fill, source_entries
from lib.answers.cost import ComparisonAnswer, SideEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost.compare import Comparison, PricedConfiguration, Side, apply_load, configure_from_speed, explain_comparison
from lib.cost.compare import compare as compare_configurations
from lib.cost.usage import Usage
from lib.errors import BadArgument, InvalidInput, quote_value
from lib.laws.price import HOUR_S, MILLION
from lib.memory import fit_memory, usable_memory
from lib.memory.resolve import choose_engine
from lib.memory.spread import spread
from lib.model.spec import ModelSpec
from lib.present.numbers import gib
from lib.present.sentences import caveat_entries, comparison_arithmetic, reason_entries
from lib.service.arguments import (
    MAX_CONCURRENCY,
    MAX_TOKENS,
    MAX_TOKENS_PER_S,
    Arguments,
    Checked,
    Concurrency,
    DaysPerMonth,
    Engine,
    Hardware,
    HoursPerDay,
    Model,
    Precision,
    RequestsPerDay,
    Tokens,
    TokensOrNone,
    argument,
    check_decimal,
    check_whole,
    describe_value,
)
from lib.service.endpoint import App, endpoint
from lib.service.usage import TrafficArguments, memory_request, traffic_of
from lib.speed import ExplainedSpeed, SpeedEstimate, SpeedRequest, predict_speed

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

    The rate and the latencies are measurements of one replica, 0 where nothing was measured.
    """

    hardware: Hardware
    model: Model = ""
    precision: Precision = "auto"
    engine: Engine = "transformers"
    concurrency: Concurrency = 1
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


_SIDE = (
    "an object with hardware, and optionally model (in place of the shared one), precision, engine, concurrency, and what was measured: "
    "tokens_per_s, latency_p50_s, latency_p99_s"
)


class CompareArguments(TrafficArguments):
    """Arguments of `/compare`; a side is given as an object."""

    model: Model = argument(..., "a Hub id, the text of a config.json, or a parameter count; empty where both rates were measured")
    before: Annotated[SideArguments, Checked(_side, dict[str, Any])] = argument(..., _SIDE)
    after: Annotated[SideArguments, Checked(_side, dict[str, Any])] = argument(..., "the same for the other configuration")
    prompt_tokens: Tokens = argument(512, "tokens of a prompt")
    output_tokens: TokensOrNone = argument(256, "tokens of an answer")
    requests_per_day: RequestsPerDay = argument(100, "requests that arrive in a day")
    hours_per_day: HoursPerDay = argument(24, "hours a day that it runs, and in which requests arrive")
    days_per_month: DaysPerMonth = argument(30, "days of a month")
    effort_usd: Annotated[Decimal, Checked(lambda _, value: check_decimal(EFFORT, value, 0, MAX_EFFORT_USD), float)] = argument(
        0, "what the change costs once, USD; 0 if not known"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The traffic: its rate of arrival and of answer tokens while it runs, and the hours it runs."""

    usage: Usage
    requests_per_s: Decimal
    tokens_per_s: Decimal
    hours_per_month: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSide:
    """A side as it runs; `speed` is None where its rate was measured, and `model` then "" for none that was looked up."""

    model: str
    offer: Offer
    request: SpeedRequest
    configuration: PricedConfiguration
    speed: ExplainedSpeed | None
    measured_latency: bool


@endpoint()
def compare(app: App, arguments: CompareArguments) -> ComparisonAnswer:
    """Two configurations, of one model or of two, under the same traffic: cost per request and million tokens, speed, replicas, verdict.

    A model is only looked up where a rate has to be estimated.

    Returns:
        Both sides, what the change saves, and why it is worth its effort or not.
    """
    load, catalog = _load(arguments), app.catalog()
    with _name_side("Before"):
        old = _configure_side(app, catalog, "Before", arguments.model, arguments.before, load)
    with _name_side("After"):
        new = _configure_side(app, catalog, "After", arguments.model, arguments.after, load)
    result = compare_configurations(
        old.configuration,
        new.configuration,
        tokens_per_s=load.tokens_per_s,
        hours_per_month=load.hours_per_month,
        effort_usd=arguments.effort_usd,
        horizon_months=HORIZON_MONTHS,
    )
    return comparison_answer(result, old, new)


def _configure_side(app: App, catalog: Catalog, name: str, model: object, side: SideArguments, load: Load) -> ConfiguredSide:
    usage = load.usage
    offer = _as_rented(catalog.resolve_offer(side.hardware))
    request = SpeedRequest(
        precision=side.precision,
        engine=side.engine,
        prompt_tokens=usage.prompt_tokens,
        output_tokens=check_whole("output_tokens", usage.output_tokens, 1, MAX_TOKENS),
        concurrency=side.concurrency,
    )
    latencies = (side.latency_p50_s or None, side.latency_p99_s or None)
    measured = any(latencies)
    if side.tokens_per_s:
        own = _own(name, offer, _plain(side.tokens_per_s), latencies)
        return ConfiguredSide(model="", offer=offer, request=request, configuration=own, speed=None, measured_latency=measured)
    spec = app.models(side.model or model)
    request = replace(request, engine=choose_engine(spec, request.engine))
    _check_memory(spec, offer, request, replace(usage, concurrency=side.concurrency))
    speed = predict_speed(spec, offer, request, catalog.accelerators)
    expected = _expected_configuration(name, offer, request, speed, load)
    if measured:
        expected = replace(expected, latency_p50_s=latencies[0], latency_p99_s=latencies[1])
    return ConfiguredSide(model=spec.id, offer=offer, request=request, configuration=expected, speed=speed, measured_latency=measured)


def _load(arguments: CompareArguments) -> Load:
    usage = traffic_of(arguments)
    if usage.hours_per_day == 0:
        raise InvalidInput("Hours a day is 0, so nothing runs and there is nothing to compare. Set the hours in which requests arrive.")
    arriving = usage.requests_per_day / (usage.hours_per_day * HOUR_S)
    return Load(
        usage=usage,
        requests_per_s=arriving,
        tokens_per_s=_plain(arriving * usage.output_tokens),
        hours_per_month=_plain(usage.hours_per_day * usage.days_per_month),
    )


def _plain(value: Decimal) -> Decimal:
    """Without zeros at the end, which the arithmetic would print."""
    return Decimal(f"{value.normalize():f}")


def _as_rented(offer: Offer) -> Offer:
    if offer.traits.per_call or offer.usd_per_hour is None:
        raise InvalidInput(
            f"{offer.name} is not rented by the hour, so its hours cannot be compared. Choose hardware with a price per hour."
        )
    return offer


def _own(name: str, offer: Offer, rate: Decimal, times: tuple[Decimal | None, Decimal | None]) -> PricedConfiguration:
    return PricedConfiguration(
        name=name,
        usd_per_hour=_price(offer),
        devices=offer.accelerator_count,
        tokens_per_s=rate,
        latency_p50_s=times[0],
        latency_p99_s=times[1],
    )


def _price(offer: Offer) -> Decimal:
    return Decimal(offer.usd_per_hour or 0)


def _check_memory(spec: ModelSpec, offer: Offer, request: SpeedRequest, usage: Usage) -> None:
    capacity = usable_memory(offer)
    if capacity is None:
        return
    needed = memory_request(usage, request.precision, request.engine, spread(spec, request.engine, offer.accelerator_count).devices)
    fit = fit_memory(spec, needed, capacity, offer.processor)
    if not fit.fits:
        raise InvalidInput(
            f"{offer.name} lacks {gib(-fit.free_bytes)} of memory for {request.precision} with {request.engine} and "
            f"concurrency {needed.batch_size:,}. Choose larger hardware, a smaller precision or fewer requests, or type what was measured."
        )


def _expected_configuration(name: str, offer: Offer, request: SpeedRequest, speed: SpeedEstimate, load: Load) -> PricedConfiguration:
    """The estimate as a configuration; the slots of a queue are those of all replicas that the load needs."""
    if speed.output_tokens_per_s is None:
        raise InvalidInput("This model writes no output tokens, so there is no rate to estimate. Type the measured tokens per second.")

    def at(requests_per_s: float, replicas: int) -> PricedConfiguration:
        expected = configure_from_speed(
            name,
            speed,
            usd_per_hour=_price(offer),
            devices=offer.accelerator_count,
            output_tokens=request.output_tokens,
            concurrency=request.concurrency * replicas,
            requests_per_s=requests_per_s,
        )
        if expected is None:
            raise InvalidInput("No rate was estimated for this configuration. Type the measured tokens per second.")
        return expected

    needed = apply_load(at(0.0, 1), load.tokens_per_s, load.hours_per_month).replicas
    if needed * request.concurrency > MAX_CONCURRENCY:  # Erlang's recursion walks over every slot
        raise InvalidInput(f"The traffic needs {needed:,} replicas here, more than can be compared. Lower the requests a day.")
    return at(float(load.requests_per_s), needed)


def comparison_answer(result: Comparison, old: ConfiguredSide, new: ConfiguredSide) -> ComparisonAnswer:
    """A comparison as plain JSON."""
    speeds = [one.speed for one in (old, new) if one.speed is not None]
    sides = _entry(result.before, old), _entry(result.after, new)
    return fill(
        ComparisonAnswer,
        result,
        before=sides[0],
        after=sides[1],
        usd_per_million_output_tokens={"before": sides[0]["usd_per_million_tokens"], "after": sides[1]["usd_per_million_tokens"]},
        usd_per_request={"before": sides[0]["usd_per_request"], "after": sides[1]["usd_per_request"]},
        reasons=reason_entries(explain_comparison(result)),
        arithmetic=comparison_arithmetic(result),
        caveats=caveat_entries(caveat for speed in speeds for caveat in speed.caveats),
        sources=source_entries(source for one in (old, new) for source in (*one.offer.sources, *(one.speed.sources if one.speed else ()))),
    )


def _entry(of: Side, configured: ConfiguredSide) -> SideEntry:
    own, request, speed = of.configuration, configured.request, configured.speed
    band = None if speed is None else speed.output_tokens_per_s
    million, answer = of.usd_per_million_tokens, Decimal(request.output_tokens) / MILLION
    return fill(
        SideEntry,
        own,
        of,
        name=configured.offer.name,
        model=configured.model,
        hardware=f"{configured.offer.platform}:{configured.offer.id}",
        runs_as=f"{request.precision if speed is None else speed.precision} with {request.engine}, concurrency {request.concurrency:,}",
        measured=speed is None,
        measured_latency=configured.measured_latency,
        device="chip" if configured.offer.traits.rents_tpus else "GPU",
        low=None if band is None else band.low,
        high=None if band is None else band.high,
        used_usd_per_hour=float(of.utilisation * of.replicas * own.usd_per_hour),
        usd_per_million_tokens=million,
        usd_per_request_full=float(of.usd_per_million_tokens_full * answer),
        usd_per_request=None if million is None else float(million * answer),
    )
