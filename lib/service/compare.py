"""Before and after: two configurations, estimated or measured, under the traffic of the tab *Cost*.

The answer of before and after as plain JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

from lib.answers.common import usd
from lib.answers.cost import ComparisonAnswer, SideEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost.compare import Comparison, Configuration, Side, compare, predicted, side
from lib.cost.usage import Usage
from lib.errors import BadArgument, InvalidInput
from lib.laws.price import HOUR_S
from lib.memory import fit_memory, usable_memory
from lib.model.spec import ModelSpec
from lib.present.numbers import gib
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat
from lib.service import arguments
from lib.service.arguments import offer_of
from lib.service.cost import usage_of
from lib.service.speed import speed_request
from lib.speed import ExplainedSpeed, SpeedEstimate, SpeedRequest, predict_speed
from lib.workload import MemoryRequest

HORIZON_MONTHS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The traffic: its rate of arrival and of answer tokens while it runs, and the hours it runs."""

    usage: Usage
    requests_per_s: Decimal
    tokens_per_s: Decimal
    hours_per_month: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A side with everything that is known of it."""

    offer: Offer
    request: SpeedRequest
    configuration: Configuration
    found: ExplainedSpeed | None
    timed: bool


def comparison_answer(found: Comparison, old: Known, new: Known, load: Load, effort: Decimal) -> ComparisonAnswer:
    """A comparison as plain JSON."""
    caveats: list[Caveat] = [caveat for one in (old, new) if one.found is not None for caveat in one.found.caveats]
    return {
        "before": _entry(found.before, old),
        "after": _entry(found.after, new),
        "tokens_per_s": float(load.tokens_per_s),
        "hours_per_month": float(load.hours_per_month),
        "effort_usd": float(effort),
        "horizon_months": HORIZON_MONTHS,
        "saved_usd_per_month": float(found.saved_usd_per_month),
        "worth_usd": float(found.worth_usd),
        "payback_months": usd(found.payback_months),
        "speedup": float(found.speedup),
        "latency_ratio": usd(found.latency_ratio),
        "verdict": found.verdict,
        "arithmetic": list(found.arithmetic),
        "caveats": caveat_entries(caveats),
    }


def _entry(of: Side, known: Known) -> SideEntry:
    own, band = of.configuration, None if known.found is None else known.found.output_tokens_per_s
    return {
        "name": known.offer.name,
        "hardware": f"{known.offer.platform}:{known.offer.id}",
        "runs_as": f"{known.request.precision if known.found is None else known.found.precision} with {known.request.engine}, "
        f"{known.request.concurrency:,} at once",
        "measured": known.found is None,
        "measured_latency": known.timed,
        "device": "chip" if known.offer.platform == "tpu" else "GPU",
        "devices": own.devices,
        "usd_per_hour": float(own.usd_per_hour),
        "tokens_per_s": float(own.tokens_per_s),
        "low": None if band is None else band.low,
        "high": None if band is None else band.high,
        "gpu_hours_per_million_tokens": float(of.gpu_hours_per_million_tokens),
        "latency_p50_s": usd(own.latency_p50_s),
        "latency_p99_s": usd(own.latency_p99_s),
        "replicas": of.replicas,
        "utilisation": float(of.utilisation),
        "used_usd_per_hour": float(of.utilisation * of.replicas * own.usd_per_hour),
        "usd_per_million_tokens_full": float(of.usd_per_million_tokens_full),
        "usd_per_million_tokens": usd(of.usd_per_million_tokens),
        "usd_per_month": float(of.usd_per_month),
    }


SLOWEST = Decimal("0.001")  # tokens per second; below it a replica is broken, not slow
MAX_SECONDS = 86_400
MAX_EFFORT_USD = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One side as it arrives, unchecked; `tokens_per_s` and the latencies are measurements of one replica, 0 where nothing was measured."""

    hardware: object
    precision: object = "auto"
    engine: object = "transformers"
    concurrency: object = 1
    tokens_per_s: object = 0
    latency_p50_s: object = 0
    latency_p99_s: object = 0


class ComparisonQuestion:
    """Answers whether a change to how a model is run is worth its effort."""

    def __init__(self, *, catalog: Callable[[], Catalog], models: Callable[[object], ModelSpec]) -> None:
        """Answer from `catalog()` and `models`."""
        self._catalog, self._models = catalog, models

    def comparison(
        self,
        model: str,
        before: Asked,
        after: Asked,
        hours_per_day: float = 24,
        days_per_month: float = 30,
        requests_per_day: int = 100,
        prompt_tokens: int = 512,
        output_tokens: int = 256,
        effort_usd: float = 0,
    ) -> ComparisonAnswer:
        """Both sides under the same traffic; a model is only looked up where a rate has to be estimated.

        Raises:
            AdvisorError: an argument that is wrong, hardware without a price per hour or too small, or a rate that is not known.
        """
        catalog = self._catalog()
        load = _load(catalog, hours_per_day, days_per_month, requests_per_day, prompt_tokens, output_tokens)
        effort = arguments.decimal("effort in USD", effort_usd, 0, MAX_EFFORT_USD)
        old, new = self._known("Before", model, before, load, catalog), self._known("After", model, after, load, catalog)
        found = compare(
            old.configuration,
            new.configuration,
            tokens_per_s=load.tokens_per_s,
            hours_per_month=load.hours_per_month,
            effort_usd=effort,
            horizon_months=HORIZON_MONTHS,
        )
        return comparison_answer(found, old, new, load, effort)

    def _known(self, name: str, model: object, asked: Asked, load: Load, catalog: Catalog) -> Known:
        try:
            offer = _rented(offer_of(catalog, asked.hardware))
            usage = load.usage
            request = speed_request(asked.precision, asked.engine, usage.prompt_tokens, usage.output_tokens, asked.concurrency)
            rate = _rate(asked.tokens_per_s)
            times = _times(asked.latency_p50_s, asked.latency_p99_s)
            if rate is not None:
                return Known(offer=offer, request=request, configuration=_own(name, offer, rate, times), found=None, timed=any(times))
            spec = self._models(model)
            _held(spec, offer, request)
            found = predict_speed(spec, offer, request, catalog.accelerators)
            expected = _expected(name, offer, request, found, load)
        except InvalidInput as refused:
            raise InvalidInput(f"{name}: {refused}") from refused
        if any(times):
            expected = replace(expected, latency_p50_s=times[0], latency_p99_s=times[1])
        return Known(offer=offer, request=request, configuration=expected, found=found, timed=any(times))


def _load(catalog: Catalog, hours: object, days: object, requests: object, prompt: object, output: object) -> Load:
    usage = usage_of(
        catalog.rules.storage,
        hours_per_day=hours,
        days_per_month=days,
        replicas=1,
        requests_per_day=requests,
        sleep_after_s=0,
        storage_gb=0,
        account="free",
        prompt_tokens=prompt,
        output_tokens=output,
    )
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


def _rented(offer: Offer) -> Offer:
    if offer.platform == "zerogpu" or offer.usd_per_hour is None:
        raise InvalidInput(
            f"{offer.name} is not rented by the hour, so its hours cannot be compared. Choose hardware with a price per hour."
        )
    return offer


def _rate(value: object) -> Decimal | None:
    rate = arguments.decimal("measured tokens per second", value, 0, arguments.MAX_TOKENS_PER_S)
    if 0 < rate < SLOWEST:
        raise BadArgument("measured tokens per second", arguments.seen(value), f"0 (not measured), or {SLOWEST} and more")
    return _plain(rate) or None


def _times(p50: object, p99: object) -> tuple[Decimal | None, Decimal | None]:
    half = arguments.decimal("measured p50 latency", p50, 0, MAX_SECONDS)
    most = arguments.decimal("measured p99 latency", p99, 0, MAX_SECONDS)
    if 0 < most < half:
        raise BadArgument("measured p99 latency", arguments.seen(p99), f"at least the p50 latency of {half:f} s, or 0 (not measured)")
    return half or None, most or None


def _own(name: str, offer: Offer, rate: Decimal, times: tuple[Decimal | None, Decimal | None]) -> Configuration:
    return Configuration(
        name=name,
        usd_per_hour=_price(offer),
        devices=offer.accelerator_count,
        tokens_per_s=rate,
        latency_p50_s=times[0],
        latency_p99_s=times[1],
    )


def _price(offer: Offer) -> Decimal:
    return Decimal(offer.usd_per_hour or 0)


def _held(spec: ModelSpec, offer: Offer, request: SpeedRequest) -> None:
    """Engines that keep a queue need room for one request, `transformers` for the whole batch."""
    capacity = usable_memory(offer)
    if capacity is None:
        return
    asked = MemoryRequest(
        precision=request.precision,
        engine=request.engine,
        context_tokens=request.prompt_tokens + request.output_tokens,
        batch_size=request.concurrency if request.engine == "transformers" else 1,
        devices=max(1, offer.accelerator_count),
    )
    fit = fit_memory(spec, asked, capacity, offer.silicon or offer.host_cpu)
    if not fit.fits:
        raise InvalidInput(
            f"{offer.name} lacks {gib(-fit.free_bytes)} of memory for {request.precision} with {request.engine} and "
            f"{asked.batch_size:,} at once. Choose larger hardware, a smaller precision or fewer at once, or type what was measured."
        )


def _expected(name: str, offer: Offer, request: SpeedRequest, found: SpeedEstimate, load: Load) -> Configuration:
    """The estimate as a configuration; the slots of a queue are those of all replicas that the load needs."""
    if found.output_tokens_per_s is None:
        raise InvalidInput("This model writes no answer tokens, so there is no rate to estimate. Type the measured tokens per second.")

    def at(requests_per_s: float, replicas: int) -> Configuration:
        expected = predicted(
            name,
            found,
            usd_per_hour=_price(offer),
            devices=offer.accelerator_count,
            output_tokens=request.output_tokens,
            concurrency=request.concurrency * replicas,
            requests_per_s=requests_per_s,
        )
        if expected is None:
            raise InvalidInput("No rate was estimated for this configuration. Type the measured tokens per second.")
        return expected

    needed = side(at(0.0, 1), load.tokens_per_s, load.hours_per_month).replicas
    if needed * request.concurrency > arguments.MAX_CONCURRENCY:  # Erlang's recursion walks over every slot
        raise InvalidInput(f"The traffic needs {needed:,} replicas here, more than can be compared. Lower the requests a day.")
    return at(float(load.requests_per_s), needed)
