"""`/estimate_cost`: the bill, where it crosses other ways, and what providers ask per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated

from lib.answers.common import SCHEMA, price_entry, source_entries, usd
from lib.answers.cost import (
    BestLoadEntry,
    CapacityEntry,
    CostAnswer,
    CostPartEntry,
    CrossingEntry,
    PerTokenEntry,
    TokenPriceEntry,
    ZeroGpuEntry,
)
from lib.catalog import Catalog
from lib.catalog.offers import ZEROGPU_TIER, Offer
from lib.catalog.rules import PlatformRules
from lib.cost import (
    BreakEvenPoint,
    CostEstimate,
    CostPart,
    TokenPrice,
    Usage,
    ZeroGpuUse,
    bill_offer,
    bill_tokens,
    find_break_even,
)
from lib.cost.usage import TARGET_TPOT_S, TARGET_TTFT_S, BestLoad, find_best_load, request_seconds, to_decimal
from lib.hub.search import ProviderOffers
from lib.laws.price import HOUR_S, answer_price
from lib.memory import fit_memory, usable_memory
from lib.memory.pipeline import resolve_size
from lib.memory.resolve import choose_engine, context_caveats, resolve_media, split_caveats
from lib.model.spec import ModelSpec
from lib.present.sentences import break_even_sentence, caveat_entries
from lib.provenance import Caveat, Value
from lib.service.arguments import (
    Account,
    Checked,
    Concurrency,
    DaysPerMonth,
    Engine,
    Hardware,
    HoursPerDay,
    MediaArguments,
    Model,
    Precision,
    RequestsPerDay,
    Tokens,
    TokensOrNone,
    argument,
    check_offer,
    check_text,
)
from lib.service.endpoint import App, read_reference
from lib.service.usage import (
    OWN,
    Replicas,
    SleepAfter,
    Storage,
    UsageArguments,
    UsdPerMillion,
    estimate_or_none,
    memory_request,
    predict_loads,
    predict_usage,
    state_price,
    usage_of,
)
from lib.speed import Band, ExplainedSpeed, SpeedEstimate
from lib.workload import MEDIA_ARGUMENTS, PICTURE_ARGUMENTS, MemoryRequest, gather_media

Region = Annotated[str, Checked(lambda name, value: check_text(name, value, "europe-west4") if value else "", str)]


class CostArguments(MediaArguments, UsageArguments):
    """Arguments of `/estimate_cost`."""

    hardware: Hardware = argument(
        ..., "an id such as l4x1, zero-a10g, aws-nvidia-l4-x1 or v6e-8; jobs:l4x1 where several platforms share an id"
    )
    hours_per_day: HoursPerDay = argument(24, "hours a day that it runs at most, and in which requests arrive")
    days_per_month: DaysPerMonth = argument(30, "days of a month")
    replicas: Replicas = argument(1, "copies, each billed")
    requests_per_day: RequestsPerDay = argument(0, "requests that arrive in these hours; 0 if not known")
    sleep_after_s: SleepAfter = argument(
        0, "seconds without requests after which it sleeps (Endpoints: is scaled to zero); 0 or -1 is never"
    )
    storage_gb: Storage = argument(0, "private storage in gigabytes")
    account: Account = argument("free", "the plan of the account that pays")
    model: Model = argument("", "a Hub id, the text of a config.json, or a parameter count such as 7B; empty for hardware alone")
    precision: Precision = "auto"
    engine: Engine = "transformers"
    prompt_tokens: Tokens = argument(512, "tokens of a prompt")
    output_tokens: TokensOrNone = argument(256, "tokens of an answer")
    concurrency: Concurrency = argument(1, "requests that each replica serves at the same time")
    provider_usd_per_million_output_tokens: UsdPerMillion = argument(0, "what a provider asks per million answer tokens; 0 if not known")
    region: Region = argument("", "region of a TPU slice, such as europe-west4; empty is us-central1")

    def memory_request(self, spec: ModelSpec, offer: Offer, usage: Usage) -> MemoryRequest:
        """What has to fit on the offer.

        Raises:
            BadArgument: the engine does not run the model, or this model makes or takes no such pictures or sound.
        """
        brought = gather_media(self.model_dump(include={*PICTURE_ARGUMENTS, *MEDIA_ARGUMENTS}))
        resolve_size(spec, brought["pictures"])
        resolve_media(spec, brought["media"])
        return memory_request(usage, self.precision, choose_engine(spec, self.engine), max(1, offer.accelerator_count), **brought)


def estimate_cost(app: App, arguments: CostArguments) -> CostAnswer:
    """What hardware costs per hour, month, request and million tokens, and at which traffic another way is cheaper.

    Returns:
        The bill in parts, prices per request and token, and the break-even points.
    """
    catalog = app.catalog()
    offer = check_offer(catalog, arguments.hardware)
    usage, own_price = read_usage(arguments, catalog), read_own_price(arguments)
    if isinstance(arguments.model, str) and not arguments.model.strip():
        return cost_answer(offer, usage, catalog, own_price=own_price)
    spec = app.models(arguments.model)
    request = arguments.memory_request(spec, offer, usage)
    on_zerogpu = predict_usage(app.predict, spec, catalog.offer(ZEROGPU_TIER, "zerogpu"), request, usage, catalog.accelerators)
    on_hub = read_reference(arguments.model).kind == "id" and spec.id and spec.library != "gguf"
    return cost_answer(
        offer,
        usage,
        catalog,
        spec=spec,
        request=request,
        speed=predict_usage(app.predict, spec, offer, request, usage, catalog.accelerators),
        loads=predict_loads(app.predict, spec, offer, request, usage, catalog.accelerators),
        zerogpu_speed=estimate_or_none(on_zerogpu),
        offered=app.providers(spec.id) if on_hub and own_price is None else None,
        own_price=own_price,
    )


def read_usage(arguments: CostArguments, catalog: Catalog) -> Usage:
    """How hardware is used, in the region of the call."""
    return replace(usage_of(arguments, catalog.rules.storage), region=arguments.region.casefold() or None)


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
) -> CostAnswer:
    """The answer.

    `speed` is a caveat where none is predicted, `loads` are the speeds of one replica at several numbers of requests at a time.
    `own_price` is a price per token that the visitor states; it is used before any that the router told.
    """
    rules = catalog.rules
    estimate = estimate_or_none(speed)
    items_per_s = estimate.items_per_s if estimate is not None and estimate.unit == "pictures" else None
    bill = bill_offer(offer, usage, rules, speed=estimate)
    prices = tuple(price for price in (own_price, *(offered.prices if offered else ())) if price is not None)
    seconds = usage.seconds_on_gpu or request_seconds(usage, zerogpu_speed)
    zero = None if seconds is None else _zerogpu(offer, catalog, spec, request)
    timed = replace(usage, seconds_on_gpu=seconds)
    too_long = () if spec is None or request is None else context_caveats(spec, usage.prompt_tokens, usage.output_tokens)
    one, best = _prices_at_loads(bill, loads)
    break_even_points = find_break_even(offer, timed, rules, speed=estimate, price=prices[0] if prices else None, zerogpu=zero, best=best)
    tokens = [bill_tokens(price, usage, rules.providers) for price in prices]
    return {
        "schema": SCHEMA,
        "hardware": offer.id,
        "platform": offer.platform,
        "model": "" if spec is None else spec.id,
        "usd_per_hour": float(bill.usd_per_hour),
        "billed_hours_per_month": float(bill.billed_hours_per_month),
        "compute_usd_per_month": float(bill.compute_usd_per_month),
        "storage_usd_per_month": float(bill.storage_usd_per_month),
        "total_usd_per_month": float(bill.total_usd_per_month),
        "usd_per_request": usd(bill.usd_per_request),
        "usd_per_million_output_tokens": usd(bill.usd_per_million_output_tokens),
        "usd_per_million_output_tokens_one_at_a_time": usd(one),
        "usd_per_million_input_tokens": usd(bill.usd_per_million_input_tokens),
        "usd_per_million_output_tokens_at_traffic": usd(bill.usd_per_million_output_tokens_at_traffic),
        "usd_per_picture": _item_price(bill, items_per_s, HOUR_S),
        "usd_per_audio_hour": _item_price(bill, None if estimate is None else estimate.real_time_factor, 1),
        "left_running_usd_per_month": usd(bill.left_running_usd_per_month),
        "concurrency": usage.concurrency,
        "capacity": _capacity(bill),
        "best_load": None if best is None else _best_load(best),
        "utilisation": usd(bill.utilisation),
        "wakes_per_day": usd(bill.wakes_per_day),
        "payer": bill.payer,
        "parts": [_part(part) for part in bill.parts],
        "break_even": [_break_even_entry(point) for point in break_even_points],
        "zerogpu": None if bill.zerogpu is None else _quota(bill.zerogpu),
        "per_token": _per_token(offered, prices, usage, rules),
        "prices": price_entry(catalog.prices[offer.platform]),
        "caveats": caveat_entries(
            (
                *too_long,
                *bill.caveats,
                *_caveats(offer, spec, request, speed, offered),
                *_price_caveats(usage, one, best, loads, own_price),
            )
        ),
        "sources": source_entries(
            (
                *bill.sources,
                *(() if estimate is None else estimate.sources),
                *(source for one in tokens for source in one.sources),
            )
        ),
    }


def _item_price(bill: CostEstimate, rate: Band[float] | None, per_hour: int) -> float | None:
    """USD of one of what hardware makes or hears at full use: those in a second, of which an hour holds so many."""
    return None if rate is None else float(bill.usd_per_hour / (to_decimal(rate.value) * per_hour))


def _prices_at_loads(bill: CostEstimate, loads: Sequence[SpeedEstimate]) -> tuple[Decimal | None, BestLoad | None]:
    """USD per million answer tokens with one request at a time, and the best load; nothing where no hour is rented."""
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


def _capacity(bill: CostEstimate) -> CapacityEntry | None:
    capacity = bill.capacity
    if capacity is None:
        return None
    return {
        "requests_per_day": float(capacity.requests_per_day),
        "replicas_needed": capacity.replicas_needed,
        "total_usd_per_month": float(bill.serving_usd_per_month),
    }


def _best_load(best: BestLoad) -> BestLoadEntry:
    return {
        "concurrency": best.concurrency,
        "max_ttft_s": TARGET_TTFT_S,
        "max_inter_token_s": TARGET_TPOT_S,
        "ttft_s": best.ttft_s,
        "inter_token_s": best.tpot_s,
        "throughput_tokens_per_s": best.tokens_per_s,
        "usd_per_million_output_tokens": float(best.usd_per_million_output_tokens),
    }


def _part(part: CostPart) -> CostPartEntry:
    return {
        "name": part.name,
        "kind": part.kind,
        "usd_per_month": float(part.usd_per_month),
        "law": part.law,
        "inputs": dict(part.inputs),
        "source": part.source,
    }


def _break_even_entry(point: BreakEvenPoint) -> CrossingEntry:
    return {
        "below": point.below,
        "above": point.above,
        "requests_per_day": usd(point.requests_per_day),
        "tokens_per_month": usd(point.tokens_per_month),
        "usd_per_month": usd(point.usd_per_month),
        "within_capacity": point.within_capacity,
        "best_concurrency": point.best_concurrency,
        "best_utilisation": usd(point.best_utilisation),
        "message": break_even_sentence(point),
        "law": point.law,
    }


def _quota(used: ZeroGpuUse) -> ZeroGpuEntry:
    return {
        "size": used.size,
        "seconds": float(used.seconds),
        "quota_s_per_request": float(used.quota_s_per_request),
        "daily_quota_s": used.daily_quota_s,
        "requests_in_quota": used.requests_in_quota,
        "visitors": used.visitors,
        "usd_per_request_beyond": usd(used.usd_per_request_beyond),
        "usd_per_month_alone": usd(used.usd_per_month_alone),
    }


def _per_token(offered: ProviderOffers | None, prices: tuple[TokenPrice, ...], usage: Usage, rules: PlatformRules) -> PerTokenEntry:
    return {
        "status": "unknown" if offered is None else offered.status,
        "providers": [] if offered is None else list(offered.live),
        "prices": [_token_price(price, bill_tokens(price, usage, rules.providers)) for price in prices],
    }


def _token_price(price: TokenPrice, bill: CostEstimate) -> TokenPriceEntry:
    return {
        "provider": price.provider,
        "usd_per_million_input_tokens": float(price.usd_per_million_input),
        "usd_per_million_output_tokens": float(price.usd_per_million_output),
        "usd_per_request": float(bill.usd_per_request or 0),
        "total_usd_per_month": float(bill.total_usd_per_month),
    }


def _zerogpu(offer: Offer, catalog: Catalog, spec: ModelSpec | None, request: MemoryRequest | None) -> Offer | None:
    """The first size of ZeroGPU that holds the model; without a model the default one, for a GPU."""
    if offer.silicon is None or offer.tpu is not None or offer.platform == "zerogpu":
        return None
    if spec is None or request is None:
        return catalog.offer(ZEROGPU_TIER, "zerogpu")
    if spec.library == "gguf":
        return None
    alone = replace(request, devices=1, engine="transformers")
    return next((zero for zero in catalog.on(("zerogpu",)) if _fits(zero, spec, alone)), None)


def _fits(offer: Offer, spec: ModelSpec, request: MemoryRequest) -> bool:
    capacity = usable_memory(offer)
    return capacity is not None and fit_memory(spec, request, capacity, offer.silicon or offer.host_cpu).fits


def _caveats(
    offer: Offer,
    spec: ModelSpec | None,
    request: MemoryRequest | None,
    speed: ExplainedSpeed | Caveat | None,
    offered: ProviderOffers | None,
) -> list[Caveat]:
    if spec is None or request is None:
        return []
    caveats = list(spec.caveats)
    if not _fits(offer, spec, request):
        caveats.append(Caveat("does_not_fit", {"hardware": offer.id}, variant="bill"))
    caveats += split_caveats(spec, request.engine, offer.accelerator_count)
    if isinstance(speed, Caveat):
        caveats.append(speed)
    elif speed is not None:
        caveats += speed.caveats
    if offered is not None and offered.status == "unknown":
        caveats.append(Caveat("token_price_unknown", {"failure": offered.reason}))
    return caveats
