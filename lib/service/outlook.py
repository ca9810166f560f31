"""The questions of the tab *Cost*: one bill, the other ways along traffic or hours, and ways to save, named in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any

from lib.advisor import recommend
from lib.advisor.alternatives import SavingsReport, find_savings
from lib.advisor.result import Entry, Recommendation
from lib.answers.cost import CheapestChange, CostAnswer, OutlookAnswer, WayLine
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.cost import CostEstimate, TokenPrice, Usage, bill_offer
from lib.cost.bill import bill_storage
from lib.cost.break_even import Axis, Kind, Option, Outlook, price_option
from lib.cost.usage import MAX_REPLICAS, measure_capacity
from lib.engines import usual_engine
from lib.errors import UnknownHardware
from lib.memory.spread import spread
from lib.model.spec import ModelSpec
from lib.platforms import PLATFORMS
from lib.present.sentences import sentence, way_change_sentence, way_configuration, way_label, way_use
from lib.provenance import Caveat
from lib.request.fields import Arguments, Asked, Form, one_of, some_of, whole_number
from lib.request.serving import keep_experts_in_host
from lib.request.types import Hardware, Model
from lib.service.cost import cost_answer, deploy, with_files, word_no_saving, word_saving
from lib.service.endpoint import App
from lib.service.reference import may_be_sold
from lib.service.usage import (
    MAX_STORAGE_GB,
    OWN,
    Storage,
    UsdPerMillion,
    estimate_or_none,
    memory_request,
    predict_loads,
    predict_usage,
    read_storage,
    state_price,
)
from lib.speed import ExplainedSpeed, SpeedEstimate
from lib.workload import MemoryRequest, Workload

AXES: tuple[Axis, ...] = ("requests", "hours")
PROVIDERS = "providers"
WHERE = (*PLATFORMS, PROVIDERS)
AUTO = "auto"


class OutlookArguments(Arguments):
    """Arguments of the outlook: the workload as `/recommend` takes it, the hardware, how it is used, and where else the model could run."""

    model: Model
    hardware: Hardware = AUTO
    axis: Annotated[Axis, one_of(AXES), Form("Draw by", "along", group="cost")] = "requests"
    usage: Annotated[Usage, Asked("sleep_after_s days_per_month")] = Usage(sleep_after_s=Decimal(900))
    replicas: Annotated[int, whole_number(0, MAX_REPLICAS), Form("Replicas", group="cost")] = 0
    """Copies, each billed; 0 takes as many as the traffic needs."""
    storage_gb: Annotated[Storage, Form("Private storage, GB", "storage", group="cost", high=MAX_STORAGE_GB)] = 0
    beside: Annotated[tuple[str, ...], some_of(WHERE), Form("Compare with", group="cost")] = (
        "spaces",
        "zerogpu",
        "endpoints",
        "jobs",
        PROVIDERS,
    )
    """The platforms to compare with."""
    usd_per_million_input: Annotated[UsdPerMillion, Form("Prompt, USD per million", "in", group="cost")] = Decimal(0)
    usd_per_million_output: Annotated[UsdPerMillion, Form("Output, USD per million", "out", group="cost")] = Decimal(0)
    workload: Workload = Workload()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConfiguredOffer:
    """An offer with the configuration that runs on it, and its use: the requests and the machines that this configuration takes."""

    offer: Offer
    request: MemoryRequest
    usage: Usage
    speed: ExplainedSpeed | Caveat

    @property
    def estimate(self) -> SpeedEstimate | None:
        """How fast it is, where that is predicted."""
        return estimate_or_none(self.speed)

    def option(self, kind: Kind) -> Option:
        """The same as one way of the outlook."""
        return Option(
            kind=kind,
            offer=self.offer,
            speed=self.estimate,
            replicas=self.usage.replicas,
            concurrency=self.usage.concurrency,
            file_bytes=self.usage.file_bytes,
            alone=False,
        )


def outlook(app: App, arguments: OutlookArguments) -> OutlookAnswer:
    """The cost of hardware (by default the one that `/recommend` picks) and of the best of each other platform.

    Configurations, machines and speeds are those of `/recommend`, so that the same offer costs the same in both answers.
    """
    catalog, spec = app.catalog(), app.models(arguments.model)
    own = state_price(OWN, arguments.usd_per_million_input, arguments.usd_per_million_output)
    beside = arguments.beside
    offered = app.providers(spec.id) if PROVIDERS in beside and own is None and may_be_sold(arguments.model, spec) else None
    # Judge all platforms once, as `/recommend` does.
    judged = recommend(spec, replace(arguments.workload, platforms=PLATFORMS), catalog)
    usage = _usage(arguments, judged, catalog)

    def configure(offer: Offer, entry: Entry | None) -> _ConfiguredOffer:
        used = _use(usage, entry, arguments)
        request = _request(spec, offer, entry, used, arguments)
        used = with_files(used, spec, offer, request)
        speed = predict_usage(app.predict, spec, offer, request, used, catalog.accelerators)
        return _ConfiguredOffer(offer=offer, request=request, usage=used, speed=speed)

    # The chosen offer, the best of each other platform, and prices per token.
    configuration = configure(*_choose_offer(arguments, spec, judged, catalog))
    best = tuple(configure(entry.offer, entry) for entry in _best(judged, beside, configuration.offer))
    prices = tuple(price for price in (own, *(offered.prices[:1] if offered else ())) if price is not None)
    options = _options(configuration, best, prices if PROVIDERS in beside else (), usage)
    view = Outlook(options=options, axis=arguments.axis, usage=usage, rules=catalog.rules)
    # The bill of the chosen offer, and what it could save.
    always_on = replace(configuration.usage, sleep_after_s=Decimal(0))
    bill = cost_answer(
        configuration.offer,
        always_on,
        catalog,
        spec=spec,
        request=configuration.request,
        speed=configuration.speed,
        loads=predict_loads(app.predict, spec, configuration.offer, configuration.request, configuration.usage, catalog.accelerators),
        zerogpu_speed=next((one.estimate for one in (configuration, *best) if one.offer.traits.per_call), None),
        offered=offered,
        own_price=own,
    )
    deployment = deploy(app, catalog, spec, configuration.offer, configuration.request, always_on, prices[0] if prices else None)
    requests = {id(one.offer): one.request for one in (configuration, *best)}
    return outlook_answer(
        view,
        bill,
        price_ways(view, requests),
        find_savings(deployment),
        spec=spec,
        offer=configuration.offer,
        chosen="recommended" if arguments.hardware == AUTO else _rejection(configuration.offer, judged),
    )


def _usage(arguments: OutlookArguments, judged: Recommendation, catalog: Catalog) -> Usage:
    """The stated use with the usual request of the recommendation."""
    workload = arguments.workload
    return replace(
        arguments.usage,
        hours_per_day=workload.hours_per_day,
        replicas=max(1, arguments.replicas),
        requests_per_day=Decimal(workload.requests_per_day if workload.hours_per_day else 0),
        storage_gb=read_storage(arguments.storage_gb, catalog.rules.storage),
        account=workload.account,
        visitor_account=workload.visitor_account,
        visitors_per_day=workload.visitors_per_day,
        prompt_tokens=judged.usual.prompt_tokens,
        output_tokens=judged.usual.output_tokens,
        concurrency=workload.concurrency,
    )


def _use(usage: Usage, entry: Entry | None, arguments: OutlookArguments) -> Usage:
    """The use of one offer: the requests at a time that its configuration was judged with, and its machines if none are stated."""
    if entry is None:
        return usage
    predicted = entry.speed.predicted
    at_once = usage.concurrency if predicted is None else predicted.request.concurrency
    return replace(usage, concurrency=at_once, replicas=arguments.replicas or entry.replicas)


def _request(spec: ModelSpec, offer: Offer, entry: Entry | None, usage: Usage, arguments: OutlookArguments) -> MemoryRequest:
    """The configuration as it was judged; of an offer that does not qualify, as asked."""
    workload = arguments.workload
    brought: Any = {"pictures": workload.pictures, "media": workload.media, "serving": workload.serving}
    if entry is not None:
        context_tokens = workload.context_tokens if entry.memory is None else entry.memory.context_tokens
        request = memory_request(usage, entry.precision, entry.engine, max(1, entry.devices), context_tokens, **brought)
        serving = keep_experts_in_host(request.serving, entry.cpu_moe_layers)
        return replace(request, gpu_layers=None if entry.gpu_layers < 0 else entry.gpu_layers, serving=serving)
    usual = usual_engine(offer.processor.kind, own_files=spec.library == "gguf")
    engine = usual if workload.engine == AUTO else workload.engine
    devices = spread(spec, engine, offer, workload.serving).devices
    return memory_request(usage, workload.precision, engine, devices, workload.context_tokens, **brought)


def _choose_offer(arguments: OutlookArguments, spec: ModelSpec, judged: Recommendation, catalog: Catalog) -> tuple[Offer, Entry | None]:
    """The hardware that was named, else the pick of `/recommend`."""
    if arguments.hardware == AUTO:
        pick = recommend(spec, arguments.workload, catalog).pick
        if pick is None:
            raise UnknownHardware("Nothing on the ticked platforms runs this model; the tab Recommend says why. Name hardware to price it.")
        return pick.offer, pick
    offer = catalog.resolve_offer(arguments.hardware)
    return offer, next((one for one in judged.ranked if one.offer == offer), None)


def _best(judged: Recommendation, platforms: tuple[str, ...], hardware: Offer) -> list[Entry]:
    """The best of each ticked platform but that of the chosen hardware."""
    best: dict[str, Entry] = {}
    for entry in judged.ranked:
        best.setdefault(entry.offer.platform, entry)
    best.pop(hardware.platform, None)
    return [best[name] for name in PLATFORMS if name in best and name in platforms]


def _options(
    chosen: _ConfiguredOffer, best: tuple[_ConfiguredOffer, ...], prices: tuple[TokenPrice, ...], usage: Usage
) -> tuple[Option, ...]:
    """Both ways of hardware that can sleep, else the one that it has; then each price per token."""
    options = [option for one in (chosen, *best) for option in _both(one, usage)]
    return (*options, *(Option(kind="per_token", price=price) for price in prices))


def _both(one: _ConfiguredOffer, usage: Usage) -> tuple[Option, ...]:
    if one.offer.traits.per_call:
        return (one.option("zerogpu"),)
    running = one.option("running")
    return (running, replace(running, kind="sleeping")) if _sleeps(one, usage) else (running,)


def _sleeps(one: _ConfiguredOffer, usage: Usage) -> bool:
    return one.offer.traits.sleeps and usage.sleep_after_s > 0 and one.offer.usd_per_hour != Decimal(0)


def _rejection(offer: Offer, judged: Recommendation) -> str:
    """Why the named hardware does not qualify, in a sentence; "" when it does."""
    return next((sentence(one.reason) for one in judged.rejected if one.offer == offer), "")


def price_ways(outlook: Outlook, configurations: Mapping[int, MemoryRequest]) -> tuple[WayLine, ...]:
    """Each way with its month at the stated use and its line; `configurations` are by the `id` of an offer."""
    lines = outlook.lines()
    return tuple(
        _line(option, outlook, points, configurations.get(id(option.offer))) for option, points in zip(outlook.options, lines, strict=True)
    )


def _line(option: Option, outlook: Outlook, points: Sequence[Decimal | None], configuration: MemoryRequest | None) -> WayLine:
    usage, rules, offer = outlook.usage, outlook.rules, option.offer
    total = price_option(option, usage, rules)
    stored = bill_storage(usage, rules.storage)
    storage = Decimal(0) if stored is None else stored.usd_per_month
    estimate = _estimate(option, outlook)
    compute = None if total is None else total - storage
    requests = usage.requests_per_month
    capacity = None if offer is None or outlook.axis != "requests" else measure_capacity(offer, option.usage(usage), option.speed)
    return WayLine(
        kind=option.kind,
        label=way_label(option, outlook),
        use=way_use(option, outlook),
        hardware="" if offer is None else offer.id,
        platform="providers" if offer is None else offer.platform,
        name=(option.price.provider if option.price else "") if offer is None else offer.name,
        runs_as=way_configuration(option, configuration),
        usd_per_hour=None if estimate is None else estimate.usd_per_hour,
        billed_hours_per_month=None if estimate is None else estimate.billed_hours_per_month,
        compute_usd_per_month=compute,
        storage_usd_per_month=storage,
        total_usd_per_month=total,
        usd_per_request=compute / requests if compute is not None and requests > 0 else None,
        full_at=None if capacity is None else capacity.requests_per_day,
        usd=tuple(points),
    )


def _estimate(option: Option, outlook: Outlook) -> CostEstimate | None:
    """The bill by the hour; nothing if nothing is rented."""
    if option.offer is None or option.offer.traits.per_call:
        return None
    return bill_offer(option.offer, option.usage(outlook.usage), outlook.rules, speed=option.speed)


def outlook_answer(
    outlook: Outlook,
    answer: CostAnswer,
    lines: tuple[WayLine, ...],
    savings: SavingsReport,
    *,
    spec: ModelSpec,
    offer: Offer,
    chosen: str,
) -> OutlookAnswer:
    """The whole answer. `chosen` is "recommended", "" for hardware that was named and qualifies, or why it does not qualify."""
    return OutlookAnswer(
        model=spec.id,
        hardware=offer.id,
        platform=offer.platform,
        name=offer.name,
        chosen=chosen,
        bill=answer,
        axis=outlook.axis,
        stated=outlook.usage.hours_per_day if outlook.axis == "hours" else outlook.usage.requests_per_day,
        x=outlook.xs,
        lines=lines,
        changes=_changes(outlook, lines),
        savings=tuple(map(word_saving, savings.savings)),
        no_savings=tuple(map(word_no_saving, savings.no_savings)),
        prices=answer.prices,
        caveats=answer.caveats,
        sources=answer.sources,
    )


def _changes(outlook: Outlook, lines: Sequence[WayLine]) -> tuple[CheapestChange, ...]:
    """Each point once: where both ways of the chosen hardware meet another at the same place, and where a quota ends."""
    changes: dict[tuple[Decimal, str], CheapestChange] = {}
    for change in outlook.changes([line.usd for line in lines]):
        number = change.before  # a quota ends for each of the other ways at one place
        if not change.ends and outlook.options[change.before].offer is outlook.options[0].offer:
            number = change.after
        before, after = lines[change.before].label, lines[change.after].label
        named = CheapestChange(
            at=change.at,
            usd_per_month=Decimal(0) if change.ends else change.usd_per_month,
            before=before,
            after=after,
            message=way_change_sentence(change, before, after, outlook.axis),
        )
        changes.setdefault((change.at, lines[number].label), named)
    return tuple(changes.values())
