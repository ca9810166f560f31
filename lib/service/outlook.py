"""What the tab *Cost* asks: one bill, the other ways beside it along traffic or hours, and ways to save.

An outlook as plain JSON, its ways named in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from lib.advisor import recommend
from lib.advisor.result import Entry, Recommendation
from lib.advisor.savings import Case, NoWay, Savings, Way, ways_to_save
from lib.answers.common import SCHEMA, usd
from lib.answers.cost import ChangeEntry, CostAnswer, LineEntry, OutlookAnswer, SavingEntry
from lib.catalog import Catalog
from lib.catalog.offers import PLATFORMS, Offer
from lib.cost import CostEstimate, TokenPrice, Usage, cost
from lib.cost.outlook import Axis, Change, Kind, Option, Outlook, bill, carried
from lib.cost.tokens import storage_part
from lib.errors import UnknownHardware
from lib.hub.providers import ProviderOffers
from lib.model.spec import ModelSpec
from lib.present.cards import PLATFORM_NAMES
from lib.present.numbers import usd as usd_shown
from lib.present.sentences import no_way_sentence, sentence, trade, what_to_do
from lib.provenance import Caveat, Source
from lib.service import arguments
from lib.service.arguments import offer_of, read
from lib.service.cost import cost_answer, usage_of
from lib.service.speed import Predict, estimate_or_none, predict_usage
from lib.speed import ExplainedSpeed, SpeedEstimate, predict_speed
from lib.workload import ENGINES, Engine, MemoryRequest, Workload

ALL_DAY = 24


def label(option: Option, outlook: Outlook) -> str:
    """A way in a few words, for a legend."""
    if option.price is not None:
        return f"Per token, {option.price.provider}"
    if option.offer is None:
        return ""
    if option.kind == "zerogpu":
        return "ZeroGPU, one visitor"
    where = {"spaces": "Space", "endpoints": "Endpoint", "jobs": "Job", "tpu": "TPU"}[option.offer.platform]
    how = "sleeping" if option.kind == "sleeping" else _hours(outlook)
    if option.kind == "sleeping" and option.offer.platform == "endpoints":
        how = "scaled to zero"
    return f"{where} {option.offer.id}, {how}"


def _hours(outlook: Outlook) -> str:
    hours = outlook.usage.hours_per_day
    if outlook.axis == "hours":
        return "running"
    return "always on" if hours == ALL_DAY else f"{hours.normalize():f} h a day"


def line_entries(outlook: Outlook, runs: Mapping[int, str]) -> list[LineEntry]:
    """Each way with its month at the stated use and its line; `runs` says by offer in which configuration."""
    lines = outlook.lines()
    return [_line(option, outlook, points, runs) for option, points in zip(outlook.options, lines, strict=True)]


def _line(option: Option, outlook: Outlook, points: Sequence[Decimal | None], runs: Mapping[int, str]) -> LineEntry:
    usage, rules, offer = outlook.usage, outlook.rules, option.offer
    total = bill(option, usage, rules)
    stored = storage_part(usage, rules.storage)
    storage = Decimal(0) if stored is None else stored.usd_per_month
    found = _estimate(option, outlook)
    compute = None if total is None else total - storage
    requests = usage.requests_per_month
    return {
        "kind": option.kind,
        "label": label(option, outlook),
        "hardware": "" if offer is None else offer.id,
        "platform": "providers" if offer is None else offer.platform,
        "name": (option.price.provider if option.price else "") if offer is None else offer.name,
        "runs_as": _runs_as(option, runs),
        "usd_per_hour": None if found is None else usd(found.usd_per_hour),
        "billed_hours_per_month": None if found is None else usd(found.billed_hours_per_month),
        "compute_usd_per_month": usd(compute),
        "storage_usd_per_month": float(storage),
        "total_usd_per_month": usd(total),
        "usd_per_request": usd(compute / requests) if compute is not None and requests > 0 else None,
        "full_at": usd(carried(option, usage)) if outlook.axis == "requests" else None,
        "usd": [usd(point) for point in points],
    }


def _runs_as(option: Option, runs: Mapping[int, str]) -> str:
    if option.offer is None:
        return "less the account's credits"
    ran = runs.get(id(option.offer), "")
    return f"{ran}, paid by the visitor" if option.kind == "zerogpu" else ran


def _estimate(option: Option, outlook: Outlook) -> CostEstimate | None:
    """The bill by the hour; nothing where nothing is rented."""
    if option.offer is None or option.kind == "zerogpu":
        return None
    asked = replace(outlook.usage, sleep_after_s=Decimal(0)) if option.kind == "running" else outlook.usage
    return cost(option.offer, asked, outlook.rules, speed=option.speed)


def outlook_answer(
    outlook: Outlook,
    answer: CostAnswer,
    lines: list[LineEntry],
    savings: Savings,
    *,
    spec: ModelSpec,
    offer: Offer,
    chosen: str,
) -> OutlookAnswer:
    """The whole answer. `chosen` is "recommended", "" for hardware that was named and qualifies, or why it does not qualify."""
    bills = [[None if point is None else Decimal(str(point)) for point in line["usd"]] for line in lines]
    stated = outlook.usage.hours_per_day if outlook.axis == "hours" else outlook.usage.requests_per_day
    return {
        "schema": SCHEMA,
        "model": spec.id,
        "hardware": offer.id,
        "platform": offer.platform,
        "name": offer.name,
        "chosen": chosen,
        "bill": answer,
        "axis": outlook.axis,
        "stated": float(stated),
        "x": [float(x) for x in outlook.xs],
        "lines": lines,
        "changes": _changes(outlook, bills, lines),
        "savings": [_saving(way) for way in savings.ways],
        "no_savings": [_no_saving(none) for none in savings.others],
        "prices": answer["prices"],
        "caveats": answer["caveats"],
        "sources": answer["sources"],
    }


def _changes(outlook: Outlook, bills: Sequence[Sequence[Decimal | None]], lines: Sequence[LineEntry]) -> list[ChangeEntry]:
    """Each point once: where both ways of the chosen hardware meet another at the same place, and where a quota ends."""
    found: dict[tuple[float, str], ChangeEntry] = {}
    for change in outlook.changes(bills):
        other = change.after if outlook.options[change.before].offer is outlook.options[0].offer else change.before
        found.setdefault((float(change.at), lines[other]["label"]), _change(change, lines, outlook))
    return list(found.values())


def _change(change: Change, lines: Sequence[LineEntry], outlook: Outlook) -> ChangeEntry:
    before, after = lines[change.before]["label"], lines[change.after]["label"]
    at = f"{change.at.quantize(Decimal('0.1')).normalize():,f}" if outlook.axis == "hours" else f"{change.at:,.0f}"
    where = f"{at} {'hours' if outlook.axis == 'hours' else 'requests'} a day"
    figure = usd_shown(change.usd_per_month)
    message = (
        f"“{before}” ends at {where}: the quota is used up, and this account cannot pay for more."
        if change.ends
        else f"From {where} on, “{after}” costs less than “{before}”: {figure} a month there."
    )
    return {
        "at": float(change.at),
        "usd_per_month": 0.0 if change.ends else float(change.usd_per_month),
        "before": before,
        "after": after,
        "message": message,
    }


def _saving(way: Way) -> SavingEntry:
    return {
        "code": way.code,
        "what": what_to_do(way),
        "hardware": None if way.offer is None else f"{way.offer.id}, {PLATFORM_NAMES.get(way.offer.platform, way.offer.platform)}",
        "usd_per_month": float(way.usd_per_month),
        "saves_usd_per_month": float(way.saves_usd_per_month),
        "effect": trade(way),
    }


def _no_saving(none: NoWay) -> SavingEntry:
    return {
        "code": none.code,
        "what": NO_WAYS[none.code],
        "hardware": None,
        "usd_per_month": None,
        "saves_usd_per_month": None,
        "effect": no_way_sentence(none),
    }


NO_WAYS: Mapping[str, str] = {
    "provider": "Pay per token",
    "zerogpu": "ZeroGPU",
    "cheaper_tier": "A cheaper tier",
    "l4_over_a10g": "L4 instead of A10G",
    "fp8": "Weights in fp8",
    "int8": "Weights in eight bits",
    "int4": "Weights in four bits",
    "shorter_context": "A shorter context",
    "smaller_batch": "Fewer requests at a time",
    "cache_precision": "A smaller cache format",
    "sleep": "Sleep between requests",
    "development_tier": "A smaller tier while developing",
}


AXES: tuple[Axis, ...] = ("requests", "hours")
PROVIDERS = "providers"
WHERE = (*PLATFORMS, PROVIDERS)
AUTO = "auto"
MAX_USD_PER_MILLION = 1_000_000
OWN = "your own price"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """An offer with the configuration that runs on it."""

    offer: Offer
    request: MemoryRequest
    speed: ExplainedSpeed | Caveat

    @property
    def estimate(self) -> ExplainedSpeed | None:
        """How fast it is, where that is predicted."""
        return estimate_or_none(self.speed)


class OutlookQuestion:
    """Answers what the ways to run a model cost beside each other."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        models: Callable[[object], ModelSpec],
        offered: Callable[[str], ProviderOffers],
        predict: Predict = predict_speed,
    ) -> None:
        """As `lib.service.cost.CostQuestion`."""
        self._catalog, self._models, self._offered, self._predict = catalog, models, offered, predict

    def outlook(
        self,
        model: str,
        hardware: str = AUTO,
        axis: str = "requests",
        hours_per_day: float = 24,
        days_per_month: float = 30,
        requests_per_day: int = 100,
        sleep_after_s: int = 900,
        replicas: int = 1,
        storage_gb: float = 0,
        account: str = "free",
        prompt_tokens: int = 512,
        output_tokens: int = 256,
        platforms: str = "spaces,zerogpu,endpoints,jobs,providers",
        usd_per_million_input: float = 0,
        usd_per_million_output: float = 0,
    ) -> OutlookAnswer:
        """What hardware (by default the best Space for the model) costs, and what the best of each other platform would.

        Raises:
            AdvisorError: an argument that is wrong, a model that is not known, or nothing that runs it.
        """
        catalog, spec = self._catalog(), self._models(model)
        usage = usage_of(
            catalog.rules.storage,
            hours_per_day=hours_per_day,
            days_per_month=days_per_month,
            replicas=replicas,
            requests_per_day=requests_per_day,
            sleep_after_s=sleep_after_s,
            storage_gb=storage_gb,
            account=account,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )
        along = arguments.choice("axis", axis, AXES)
        where = arguments.choices("platforms", platforms, WHERE)
        own = _own_price(usd_per_million_input, usd_per_million_output)
        offered = self._offered(spec.id) if PROVIDERS in where and own is None and read(model).kind == "id" and spec.id else None
        judged = recommend(spec, _workload(usage), catalog)
        chosen = self._chosen(hardware, judged, spec, usage, catalog)
        best = self._best(judged, spec, usage, where, chosen, catalog)
        prices = tuple(price for price in (own, *(offered.prices[:1] if offered else ())) if price is not None)
        options = _options(chosen, best, prices if PROVIDERS in where else (), usage)
        view = Outlook(options=options, axis=along, usage=usage, rules=catalog.rules)
        bill = cost_answer(
            chosen.offer,
            usage,
            catalog,
            spec=spec,
            request=chosen.request,
            speed=chosen.speed,
            zerogpu_speed=next((one.estimate for one in best if one.offer.platform == "zerogpu"), None),
            offered=offered,
            own_price=own,
        )
        ways = {id(one.offer): one.request for one in (chosen, *best)}
        case = Case(
            spec=spec,
            offer=chosen.offer,
            request=chosen.request,
            usage=usage,
            catalog=catalog,
            price=prices[0] if prices else None,
            speed=self._remembering(catalog),
        )
        return outlook_answer(
            view,
            bill,
            line_entries(view, {key: f"{request.precision} with {request.engine}" for key, request in ways.items()}),
            ways_to_save(case),
            spec=spec,
            offer=chosen.offer,
            chosen="recommended" if hardware == AUTO else _fits(chosen.offer, judged),
        )

    def _remembering(self, catalog: Catalog) -> Callable[[ModelSpec, Offer, MemoryRequest, Usage], SpeedEstimate | None]:
        """The speed, predicted once for each configuration: ways to save try the same ones over and over."""
        known: dict[tuple[object, ...], SpeedEstimate | None] = {}

        def predict(spec: ModelSpec, offer: Offer, request: MemoryRequest, usage: Usage) -> SpeedEstimate | None:
            key = (offer.id, offer.platform, request.precision, request.engine, request.devices, request.kv_precision)
            if key not in known:
                known[key] = estimate_or_none(predict_usage(self._predict, spec, offer, request, usage, catalog.accelerators))
            return known[key]

        return predict

    def _ran(self, entry: Entry, spec: ModelSpec, usage: Usage, catalog: Catalog) -> _Ran:
        return self._on(entry.offer, _request(usage, entry.precision, entry.engine, entry.devices), spec, usage, catalog)

    def _on(self, offer: Offer, request: MemoryRequest, spec: ModelSpec, usage: Usage, catalog: Catalog) -> _Ran:
        speed = predict_usage(self._predict, spec, offer, request, usage, catalog.accelerators)
        return _Ran(offer=offer, request=request, speed=speed)

    def _chosen(self, hardware: object, judged: Recommendation, spec: ModelSpec, usage: Usage, catalog: Catalog) -> _Ran:
        """The hardware that was named, in the configuration in which it runs the model; else the best paid Space, else the best of all."""
        if hardware == AUTO:
            paid = [entry for entry in judged.ranked if entry.offer.platform != "zerogpu"]
            entry = next((one for one in paid if one.offer.platform == "spaces"), paid[0] if paid else None)
            if entry is None:
                raise UnknownHardware(
                    "Nothing on the ticked platforms runs this model; the tab Recommend says why. Name hardware to price it."
                )
            return self._ran(entry, spec, usage, catalog)
        offer = offer_of(catalog, hardware)
        entry = next((one for one in judged.ranked if one.offer == offer), None)
        if entry is not None:
            return self._ran(entry, spec, usage, catalog)
        engine = "vllm-tpu" if offer.platform == "tpu" else "transformers"
        request = _request(usage, "auto", engine, max(1, offer.accelerator_count))
        return self._on(offer, request, spec, usage, catalog)

    def _best(
        self, judged: Recommendation, spec: ModelSpec, usage: Usage, where: tuple[str, ...], chosen: _Ran, catalog: Catalog
    ) -> tuple[_Ran, ...]:
        """The best of each ticked platform but that of the chosen hardware."""
        found: dict[str, Entry] = {}
        for entry in judged.ranked:
            if entry.offer.platform in where and entry.offer.platform != chosen.offer.platform:
                found.setdefault(entry.offer.platform, entry)
        return tuple(self._ran(found[name], spec, usage, catalog) for name in PLATFORMS if name in found)


def _own_price(prompt: object, answer: object) -> TokenPrice | None:
    into = arguments.decimal("usd_per_million_input", prompt, 0, MAX_USD_PER_MILLION)
    out = arguments.decimal("usd_per_million_output", answer, 0, MAX_USD_PER_MILLION)
    if into == 0 and out == 0:
        return None
    said = Source(what="price per token", source="stated by the visitor", checked="")
    return TokenPrice(provider=OWN, usd_per_million_input=into, usd_per_million_output=out, source=said)


def _workload(usage: Usage) -> Workload:
    """Everything is judged, so that hardware of any platform can be named."""
    return Workload(
        context_tokens=max(1, usage.prompt_tokens + usage.output_tokens),
        requests_per_day=int(usage.requests_per_day),
        hours_per_day=usage.hours_per_day,
        account=usage.account,
        platforms=PLATFORMS,
    )


def _request(usage: Usage, precision: str, engine: str, devices: int) -> MemoryRequest:
    known: Engine = next((name for name in ENGINES if name == engine), "transformers")
    context = max(1, usage.prompt_tokens + usage.output_tokens)
    return MemoryRequest(precision=precision, engine=known, context_tokens=context, devices=devices)


def _options(chosen: _Ran, best: tuple[_Ran, ...], prices: tuple[TokenPrice, ...], usage: Usage) -> tuple[Option, ...]:
    """Both ways of the chosen hardware where it can sleep; of each other platform the way that suits it."""
    found = [*_both(chosen, usage)]
    for one in best:
        kind: Kind = "zerogpu" if one.offer.platform == "zerogpu" else "sleeping" if _sleeps(one, usage) else "running"
        found.append(Option(kind=kind, offer=one.offer, speed=one.estimate))
    return (*found, *(Option(kind="per_token", price=price) for price in prices))


def _both(one: _Ran, usage: Usage) -> tuple[Option, ...]:
    if one.offer.platform == "zerogpu":
        return (Option(kind="zerogpu", offer=one.offer, speed=one.estimate),)
    running = Option(kind="running", offer=one.offer, speed=one.estimate)
    return (running, replace(running, kind="sleeping")) if _sleeps(one, usage) else (running,)


def _sleeps(one: _Ran, usage: Usage) -> bool:
    return one.offer.platform in {"spaces", "endpoints"} and usage.sleep_after_s > 0 and one.offer.usd_per_hour != Decimal(0)


def _fits(offer: Offer, judged: Recommendation) -> str:
    """Why the named hardware does not qualify, in a sentence; "" when it does."""
    return next((sentence(one.reason) for one in judged.rejected if one.offer == offer), "")
