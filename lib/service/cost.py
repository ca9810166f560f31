"""`/estimate_cost`: the bill, its break-even points, and token prices of providers; `/ways_to_save`: cheaper set-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from decimal import Decimal
from typing import Annotated

from lib.advisor.alternatives import NoSaving, Saving, find_savings
from lib.advisor.explain import NEEDS
from lib.advisor.setup import CurrentSetup
from lib.answers import cost as cost_answers
from lib.catalog import Catalog
from lib.catalog.offers import ZEROGPU_TIER, Offer, Rule
from lib.cost import CostEstimate, TokenPrice, Usage, bill_offer, bill_tokens, find_break_even
from lib.cost.usage import TARGET_TPOT_S, TARGET_TTFT_S, BestLoad, find_best_load, request_seconds, to_decimal
from lib.hub.search import ProviderOffers
from lib.laws.price import HOUR_S, answer_price
from lib.memory import estimate_memory, fit_memory, usable_memory
from lib.memory.pipeline import check_media
from lib.memory.resolve import check_server, choose_engine, context_caveats, settle_formats
from lib.memory.result import download_bytes, stored_bytes
from lib.memory.spread import Held, hold_model, split_caveats, spread
from lib.model.spec import ModelSpec
from lib.platforms import PER_CALL
from lib.present.sentences import no_saving_sentence, saving_effect, saving_step
from lib.present.wording import term
from lib.provenance import Caveat, Value
from lib.request.checks import check_text
from lib.request.fields import Arguments, Asked, Checked
from lib.request.media import TEXT_ONLY, MediaRequest
from lib.request.serving import DEFAULTS, ServingSettings
from lib.request.types import Engine, Hardware, Model, Precision
from lib.service.endpoint import App, endpoint
from lib.service.reference import may_be_sold
from lib.service.usage import (
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
from lib.speed import ExplainedSpeed, Interval, SpeedEstimate
from lib.workload import AS_THE_PIPELINE, MemoryRequest, PipelineRequest

_CONDITIONS: tuple[Rule, ...] = ("subscription",)
"""Rules of an offer that decide whether it can be paid for at all. The other rules are named by /recommend."""
Region = Annotated[str, Checked(lambda name, value: check_text(name, value, "europe-west4") if value else "", str)]


class CostArguments(Arguments):
    """Arguments of `/estimate_cost`."""

    behind = ("sleep_after_s storage_gb account model precision engine", "audio_seconds visitor_account visitors_per_day")

    hardware: Hardware
    """An id such as l4x1, zero-a10g, aws-nvidia-l4-x1 or v6e-8; jobs:l4x1 where several platforms share an id."""
    usage: Usage = Usage()
    storage_gb: Storage = 0
    model: Model = ""
    """A Hub id, the text of a config.json, or a parameter count such as 7B; empty for hardware alone."""
    precision: Precision = "auto"
    engine: Engine = "transformers"
    provider_usd_per_million_output_tokens: UsdPerMillion = Decimal(0)
    """A provider's price per million answer tokens; 0 if not known."""
    region: Region = ""
    """Region of a TPU slice, such as europe-west4; empty is us-central1."""
    pictures: Annotated[PipelineRequest, Asked("width height frames steps guidance")] = AS_THE_PIPELINE
    media: MediaRequest = TEXT_ONLY
    serving: ServingSettings = DEFAULTS

    def memory_request(self, spec: ModelSpec, offer: Offer, usage: Usage) -> MemoryRequest:
        """Load that has to fit on the offer."""
        check_media(spec, self.pictures, self.media)
        engine = choose_engine(spec, self.engine)
        check_server(spec, engine, self.serving, usage.prompt_tokens + usage.output_tokens, usage.concurrency)
        devices = spread(spec, engine, offer, self.serving).devices
        request = memory_request(usage, self.precision, engine, devices, pictures=self.pictures, media=self.media, serving=self.serving)
        return settle_formats(request)


@endpoint()
def estimate_cost(app: App, arguments: CostArguments) -> cost_answers.CostAnswer:
    """Price hardware per hour, month, request and million tokens, and find the traffic at which another way is cheaper.

    Returns:
        The bill in parts, prices per request and token, and the break-even points.
    """
    catalog = app.catalog()
    offer = catalog.resolve_offer(arguments.hardware)
    usage, own_price = read_usage(arguments, catalog), read_own_price(arguments)
    if isinstance(arguments.model, str) and not arguments.model.strip():
        return cost_answer(offer, usage, catalog, own_price=own_price)
    spec = app.models(arguments.model)
    request = arguments.memory_request(spec, offer, usage)
    on_zerogpu = predict_usage(app.predict, spec, catalog.offer(ZEROGPU_TIER, "zerogpu"), request, usage, catalog.accelerators)
    return cost_answer(
        offer,
        usage,
        catalog,
        spec=spec,
        request=request,
        speed=predict_usage(app.predict, spec, offer, request, usage, catalog.accelerators),
        loads=predict_loads(app.predict, spec, offer, request, usage, catalog.accelerators),
        zerogpu_speed=estimate_or_none(on_zerogpu),
        offered=app.providers(spec.id) if own_price is None and may_be_sold(arguments.model, spec) else None,
        own_price=own_price,
    )


def read_usage(arguments: CostArguments, catalog: Catalog) -> Usage:
    """How hardware is used, in the region of the call."""
    storage_gb = read_storage(arguments.storage_gb, catalog.rules.storage)
    return replace(arguments.usage, storage_gb=storage_gb, region=arguments.region.casefold() or None)


def read_own_price(arguments: CostArguments) -> TokenPrice | None:
    """The provider's price of the call; the contract has no price of prompt tokens, so these count as free."""
    return state_price(OWN, Decimal(0), arguments.provider_usd_per_million_output_tokens)


def cost_answer(
    offer: Offer,
    usage: Usage,
    catalog: Catalog,
    *,
    spec: ModelSpec | None = None,
    request: MemoryRequest | None = None,
    speed: ExplainedSpeed | Caveat | None = None,
    loads: Sequence[SpeedEstimate] = (),
    zerogpu_speed: SpeedEstimate | None = None,
    offered: ProviderOffers | None = None,
    own_price: TokenPrice | None = None,
) -> cost_answers.CostAnswer:
    """The answer.

    `speed` is a caveat if none is predicted, `loads` are the speeds of one replica at several numbers of requests at a time.
    `own_price` is a price per token that the visitor states; it is used before any that the router told.
    """
    # The bill of the hardware.
    rules = catalog.rules
    if spec is not None and request is not None:
        usage = with_files(usage, spec, offer, request)
    estimate = estimate_or_none(speed)
    items_per_s = estimate.items_per_s if estimate is not None and estimate.unit == "pictures" else None
    bill = bill_offer(offer, usage, rules, speed=estimate)
    prices = tuple(price for price in (own_price, *(offered.prices if offered else ())) if price is not None)
    # The same request on ZeroGPU, and what the model takes of the hardware.
    seconds = usage.seconds_on_gpu or request_seconds(usage, zerogpu_speed)
    zero = None if seconds is None else _zerogpu(offer, catalog, spec, request)
    timed = replace(usage, seconds_on_gpu=seconds)
    too_long = () if spec is None or request is None else context_caveats(spec, usage.prompt_tokens, usage.output_tokens)
    held = None if spec is None or request is None else hold_model(spec, request, offer)
    one, best = _prices_at_loads(bill, loads)
    # The month at a provider, for each price per token.
    bills = [bill_tokens(price, usage, rules.providers) for price in prices]
    per_token = cost_answers.PerToken(
        status="unknown" if offered is None else offered.status,
        providers=() if offered is None else offered.live,
        prices=tuple(
            cost_answers.TokenBill(
                provider=price.provider,
                usd_per_million_input_tokens=price.usd_per_million_input,
                usd_per_million_output_tokens=price.usd_per_million_output,
                usd_per_request=tokens.usd_per_request or Decimal(0),
                total_usd_per_month=tokens.total_usd_per_month,
            )
            for price, tokens in zip(prices, bills, strict=True)
        ),
    )
    billed = {field.name: getattr(bill, field.name) for field in fields(bill)}
    added = (
        *too_long,
        *bill.caveats,
        *(Caveat(NEEDS[rule]) for rule in _CONDITIONS if rule in offer.rules),
        *_caveats(offer, spec, request, held, speed, offered),
        *_price_caveats(usage, one, best, loads, own_price),
    )
    cited = (*bill.sources, *(() if estimate is None else estimate.sources), *(source for tokens in bills for source in tokens.sources))
    return cost_answers.CostAnswer(
        **billed | {"caveats": added, "sources": cited},
        model="" if spec is None else spec.id,
        devices=None if held is None else held.devices,
        per_device_bytes=None if held is None else held.per_device_bytes,
        fits=None if held is None else held.fits,
        usd_per_million_output_tokens_one_at_a_time=one,
        usd_per_picture=_item_price(bill, items_per_s, HOUR_S),
        usd_per_audio_hour=_item_price(bill, None if estimate is None else estimate.real_time_factor, 1),
        concurrency=usage.concurrency,
        best_load=best,
        break_even=find_break_even(offer, timed, rules, speed=estimate, price=prices[0] if prices else None, zerogpu=zero, best=best),
        per_token=per_token,
        prices=catalog.prices[offer.platform],
    )


def _item_price(bill: CostEstimate, rate: Interval[float] | None, per_hour: int) -> float | None:
    """USD of one item at full use; `rate` is items per second, `per_hour` the factor to items per hour."""
    return None if rate is None else float(bill.usd_per_hour / (to_decimal(rate.value) * per_hour))


def _prices_at_loads(bill: CostEstimate, loads: Sequence[SpeedEstimate]) -> tuple[Decimal | None, BestLoad | None]:
    """USD per million answer tokens with one request at a time, and the best load; nothing if no hour is rented."""
    if bill.usd_per_hour <= 0:
        return None, None
    rates = [rate.value for load in loads if load.request.concurrency == 1 and (rate := load.output_tokens_per_s) is not None]
    one = answer_price(usd_per_hour=bill.usd_per_hour, tokens_per_s=to_decimal(rates[0])) if rates else None
    return one, find_best_load(bill.usd_per_hour, loads)


def _price_caveats(
    usage: Usage, one: Decimal | None, best: BestLoad | None, loads: Sequence[SpeedEstimate], own_price: TokenPrice | None
) -> list[Caveat]:
    caveats = []
    if one is not None and best is None and loads:
        caveats.append(Caveat("targets_missed", {"ttft_s": TARGET_TTFT_S, "tpot_s": TARGET_TPOT_S}))
    elif one is not None and best is not None and usage.concurrency == 1 < best.concurrency:
        figures: dict[str, Value] = {
            "one_usd": one,
            "concurrency": best.concurrency,
            "usd": best.usd_per_million_output_tokens,
            "ttft_s": best.ttft_s,
        }
        caveats.append(Caveat("one_at_a_time", figures))
    if own_price is not None and own_price.usd_per_million_input == 0:
        caveats.append(Caveat("prompt_price_unknown"))
    return caveats


def with_files(usage: Usage, spec: ModelSpec, offer: Offer, request: MemoryRequest) -> Usage:
    """The use with the bytes that each start fetches and loads."""
    return replace(usage, file_bytes=download_bytes(estimate_memory(spec, request, offer.processor), stored_bytes(spec)))


def _zerogpu(offer: Offer, catalog: Catalog, spec: ModelSpec | None, request: MemoryRequest | None) -> Offer | None:
    """The first size of ZeroGPU that holds the model; without a model the default one, for a GPU."""
    if offer.silicon is None or offer.tpu is not None or offer.traits.per_call:
        return None
    if spec is None or request is None:
        return catalog.offer(ZEROGPU_TIER, "zerogpu")
    if spec.library == "gguf":
        return None
    alone = replace(request, devices=1, engine="transformers", serving=DEFAULTS)
    return next((zero for zero in catalog.on(PER_CALL) if _fits(zero, spec, alone)), None)


def _fits(offer: Offer, spec: ModelSpec, request: MemoryRequest) -> bool:
    capacity = usable_memory(offer)
    return capacity is not None and fit_memory(spec, request, capacity, offer.processor).fits


def _caveats(
    offer: Offer,
    spec: ModelSpec | None,
    request: MemoryRequest | None,
    held: Held | None,
    speed: ExplainedSpeed | Caveat | None,
    offered: ProviderOffers | None,
) -> list[Caveat]:
    if spec is None or request is None or held is None:
        return []
    caveats = list(spec.caveats)
    if not held.fits:
        caveats.append(Caveat("does_not_fit", {"hardware": offer.id}, variant="bill"))
    caveats += split_caveats(spec, request.engine, offer.accelerator_count)
    if isinstance(speed, Caveat):
        caveats.append(speed)
    elif speed is not None:
        caveats += speed.caveats
    if offered is not None and offered.status == "unknown":
        caveats.append(Caveat("token_price_unknown", {"failure": offered.reason}))
    return caveats


SLOWER = 0.95
"""Below this ratio of speeds a way is called slower: a twentieth is within the datasheets' own error."""


class SavingArguments(CostArguments):
    """Arguments of `/ways_to_save`: as `/estimate_cost`, about a model."""

    model: Model


@endpoint()
def ways_to_save(app: App, arguments: SavingArguments) -> cost_answers.WaysToSave:
    """Find cheaper ways to run a deployment: smaller formats, other tiers, sleep, ZeroGPU, a provider, more requests at a time.

    Returns:
        Ways that save, the most first, with the sacrifice of each, and those that save nothing, with the reason.
    """
    catalog = app.catalog()
    offer = catalog.resolve_offer(arguments.hardware)
    usage = read_usage(arguments, catalog)
    spec = app.models(arguments.model)
    price = read_own_price(arguments)
    if price is None and may_be_sold(arguments.model, spec):
        price = next(iter(app.providers(spec.id).prices), None)
    request = arguments.memory_request(spec, offer, usage)
    report = find_savings(deploy(app, catalog, spec, offer, request, usage, price))
    return cost_answers.WaysToSave(
        model=spec.id,
        hardware=offer.id,
        platform=offer.platform,
        usd_per_month=report.usd_per_month,
        ways=tuple(map(word_saving, report.savings)),
        no_ways=tuple(map(word_no_saving, report.no_savings)),
        caveats=spec.caveats,
        sources=(*offer.sources, *spec.sources, *(() if price is None else (price.source,))),
    )


def deploy(
    app: App, catalog: Catalog, spec: ModelSpec, offer: Offer, request: MemoryRequest, usage: Usage, price: TokenPrice | None
) -> CurrentSetup:
    """Today's configuration, with each speed predicted once: ways to save try the same configurations over and over."""
    estimates: dict[tuple[object, ...], SpeedEstimate | None] = {}

    def predict(spec: ModelSpec, offer: Offer, request: MemoryRequest, used: Usage) -> SpeedEstimate | None:
        where = (offer.id, offer.platform, request.precision, request.engine, request.devices, request.kv_precision)
        key = (*where, used.concurrency)
        if key not in estimates and used.concurrency != usage.concurrency:  # one load is asked for after the other
            loads = predict_loads(app.predict, spec, offer, request, usage, catalog.accelerators)
            estimates.update({(*where, load.request.concurrency): load for load in loads})
        if key not in estimates:
            estimates[key] = estimate_or_none(predict_usage(app.predict, spec, offer, request, used, catalog.accelerators))
        return estimates[key]

    usage = with_files(usage, spec, offer, request)
    return CurrentSetup(spec=spec, offer=offer, request=request, usage=usage, catalog=catalog, price=price, speed=predict)


def word_saving(saving: Saving) -> cost_answers.SavingWay:
    """A way that saves, in words."""
    offer = saving.offer
    needs = {name: value if isinstance(value, str | int) else float(value) for name, value in saving.needs.items()}
    return cost_answers.SavingWay(
        code=saving.code,
        message=saving_step(saving),
        saves_usd_per_month=saving.saves_usd_per_month,
        usd_per_month=saving.usd_per_month,
        slower=None if saving.speed_ratio is None else saving.speed_ratio < SLOWER,
        effect=saving_effect(saving),
        needs=needs if offer is None else {"hardware": offer.id, "platform": offer.platform, **needs},
    )


def word_no_saving(none: NoSaving) -> cost_answers.UselessWay:
    """A way that saves nothing, in words."""
    return cost_answers.UselessWay(
        code=none.code, message=term("saving_names", none.code), reason_code=none.reason, reason=no_saving_sentence(none)
    )
