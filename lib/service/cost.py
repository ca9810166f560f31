"""The question `/estimate_cost`: arguments of any kind in, checked, answered.

`/estimate_cost` as plain JSON: the bill, where it crosses other ways, and what providers ask per token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from lib.answers.common import SCHEMA, price_entry, source_entries, usd
from lib.answers.cost import CostAnswer, CostPartEntry, CrossingEntry, PerTokenEntry, TokenPriceEntry, ZeroGpuEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules, StoragePrices
from lib.cost import CostEstimate, CostPart, Crossing, TokenPrice, Usage, ZeroGpuUse, break_even, cost, per_token, retired_tier
from lib.cost.usage import request_seconds
from lib.hub.providers import ProviderOffers
from lib.memory import fit_memory, usable_memory
from lib.model.spec import ModelSpec
from lib.present.sentences import caveat_entries, crossing_sentence
from lib.provenance import Caveat
from lib.service import arguments
from lib.service.arguments import MAX_HARDWARE, memory_request, offer_of, read
from lib.service.speed import ONE_AT_A_TIME, Predict, estimate_or_none, predict_usage
from lib.speed import ExplainedSpeed, SpeedEstimate, predict_speed
from lib.units import GB
from lib.workload import ACCOUNTS, Account, Engine, MemoryRequest

ZEROGPU = "zero-a10g"


def cost_answer(
    offer: Offer,
    usage: Usage,
    catalog: Catalog,
    *,
    spec: ModelSpec | None = None,
    request: MemoryRequest | None = None,
    speed: ExplainedSpeed | Caveat | None = None,
    zerogpu_speed: SpeedEstimate | None = None,
    offered: ProviderOffers | None = None,
    own_price: TokenPrice | None = None,
) -> CostAnswer:
    """The answer.

    `speed` is a caveat where none is predicted. `own_price` is a price per token that the visitor states; it is used before any that the
    router told.
    """
    rules = catalog.rules
    estimate = estimate_or_none(speed)
    bill = cost(offer, usage, rules, speed=estimate)
    prices = tuple(price for price in (own_price, *(offered.prices if offered else ())) if price is not None)
    zero = _zerogpu(offer, catalog, spec, request)
    seconds = usage.seconds_on_gpu or request_seconds(usage, zerogpu_speed)
    asked = replace(usage, seconds_on_gpu=seconds)
    crossings = break_even(offer, asked, rules, speed=estimate, price=prices[0] if prices else None, zerogpu=zero)
    tokens = [per_token(price, usage, rules.providers) for price in prices]
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
        "usd_per_million_input_tokens": usd(bill.usd_per_million_input_tokens),
        "usd_per_million_output_tokens_at_traffic": usd(bill.usd_per_million_output_tokens_at_traffic),
        "utilisation": usd(bill.utilisation),
        "wakes_per_day": usd(bill.wakes_per_day),
        "payer": bill.payer,
        "parts": [_part(part) for part in bill.parts],
        "break_even": [_crossing(found) for found in crossings],
        "zerogpu": None if bill.zerogpu is None else _quota(bill.zerogpu),
        "per_token": _per_token(offered, prices, usage, rules),
        "prices": price_entry(catalog.prices[offer.platform]),
        "caveats": caveat_entries((*bill.caveats, *_caveats(offer, spec, request, speed, offered))),
        "sources": source_entries(
            (
                *bill.sources,
                *(() if estimate is None else estimate.sources),
                *(source for one in tokens for source in one.sources),
            )
        ),
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


def _crossing(found: Crossing) -> CrossingEntry:
    return {
        "below": found.below,
        "above": found.above,
        "requests_per_day": usd(found.requests_per_day),
        "tokens_per_month": usd(found.tokens_per_month),
        "usd_per_month": usd(found.usd_per_month),
        "within_capacity": found.within_capacity,
        "message": crossing_sentence(found),
        "law": found.law,
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
        "prices": [_token_price(price, per_token(price, usage, rules.providers)) for price in prices],
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
    """The first size of ZeroGPU that holds the model; without a model the default one, for hardware with a GPU."""
    if offer.silicon is None or offer.platform == "zerogpu":
        return None
    if spec is None or request is None:
        return catalog.offer(ZEROGPU, "zerogpu")
    alone = replace(request, devices=1, engine="transformers")
    return next((zero for zero in catalog.on(("zerogpu",)) if _fits(zero, spec, alone)), None)


def _fits(offer: Offer, spec: ModelSpec, request: MemoryRequest) -> bool:
    held = usable_memory(offer)
    return held is not None and fit_memory(spec, request, held, offer.silicon or offer.host_cpu).fits


def _caveats(
    offer: Offer,
    spec: ModelSpec | None,
    request: MemoryRequest | None,
    speed: ExplainedSpeed | Caveat | None,
    offered: ProviderOffers | None,
) -> list[Caveat]:
    if spec is None or request is None:
        return []
    found = list(spec.caveats)
    if not _fits(offer, spec, request):
        message = f"The model does not fit {offer.id} in this precision: /recommend tells what does."
        found.append(Caveat(code="does_not_fit", message=message))
    limit = spec.context_limit
    if limit is not None and request.context_tokens > limit:
        message = f"Prompt and answer are {request.context_tokens:,} tokens together; the model takes {limit:,}."
        found.append(Caveat(code="beyond_context", message=message))
    if isinstance(speed, Caveat):
        found.append(speed)
    elif speed is not None:
        found += [*speed.caveats, *([] if speed.output_tokens_per_s is None else [ONE_AT_A_TIME])]
    if offered is not None and offered.status == "unknown":
        found.append(Caveat(code="token_price_unknown", message=offered.reason))
    return found


MAX_REPLICAS = 1_000
MAX_SLEEP_S = 31 * 86_400
MAX_STORAGE_GB = 1_000_000_000


def storage_of(value: object, prices: StoragePrices) -> Decimal:
    """Gigabytes; the name of an old persistent tier means its size, and is answered as retired.

    Raises:
        BadArgument: neither.
    """
    tier = retired_tier(value.strip().casefold(), prices) if isinstance(value, str) and len(value) <= MAX_HARDWARE else None
    if tier is not None:
        return Decimal(tier.size) / GB
    return arguments.decimal("storage_gb", value, 0, MAX_STORAGE_GB)


def usage_of(
    prices: StoragePrices,
    *,
    hours_per_day: object,
    days_per_month: object,
    replicas: object,
    requests_per_day: object,
    sleep_after_s: object,
    storage_gb: object,
    account: object,
    prompt_tokens: object,
    output_tokens: object,
) -> Usage:
    """How hardware is used.

    Raises:
        BadArgument: the first argument that is wrong.
    """
    return Usage(
        hours_per_day=arguments.decimal("hours_per_day", hours_per_day, 0, 24),
        days_per_month=arguments.decimal("days_per_month", days_per_month, 0, 31),
        replicas=arguments.whole("replicas", replicas, 1, MAX_REPLICAS),
        requests_per_day=Decimal(arguments.whole("requests_per_day", requests_per_day, 0, arguments.MAX_REQUESTS_PER_DAY)),
        sleep_after_s=Decimal(max(0, arguments.whole("sleep_after_s", sleep_after_s, -1, MAX_SLEEP_S))),
        storage_gb=storage_of(storage_gb, prices),
        account=arguments.choice("account", account, ACCOUNTS),
        prompt_tokens=arguments.whole("prompt_tokens", prompt_tokens, 1, arguments.MAX_TOKENS),
        output_tokens=arguments.whole("output_tokens", output_tokens, 0, arguments.MAX_TOKENS),
    )


class CostQuestion:
    """Answers what hardware costs."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        models: Callable[[object], ModelSpec],
        offered: Callable[[str], ProviderOffers],
        predict: Predict = predict_speed,
    ) -> None:
        """`offered` asks who serves a model per token, `predict` estimates how fast an offer runs it."""
        self._catalog, self._models, self._offered, self._predict = catalog, models, offered, predict

    def estimate_cost(
        self,
        hardware: str,
        hours_per_day: float = 24,
        days_per_month: float = 30,
        replicas: int = 1,
        requests_per_day: int = 0,
        sleep_after_s: int = 0,
        storage_gb: float = 0,
        account: Account = "free",
        model: str = "",
        precision: str = "auto",
        engine: Engine = "transformers",
        prompt_tokens: int = 512,
        output_tokens: int = 256,
    ) -> CostAnswer:
        """What hardware costs per hour, month, request and million tokens, and at which traffic another way is cheaper.

        Args:
            hardware: an id such as l4x1, zero-a10g, aws-nvidia-l4-x1 or v6e-8; jobs:l4x1 where several platforms share an id
            hours_per_day: hours a day that it runs at most, and in which requests arrive
            days_per_month: days of a month
            replicas: copies, each billed
            requests_per_day: requests that arrive in these hours; 0 if not known
            sleep_after_s: seconds without requests after which it sleeps (Endpoints: is scaled to zero); 0 or -1 is never
            storage_gb: private storage in gigabytes
            account: the plan of the account that pays; on ZeroGPU that of the visitors
            model: a Hub id, the text of a config.json, or a parameter count such as 7B; empty for hardware alone
            precision: auto, fp32, fp16, bf16, fp8, int8, int4, or a named format such as bnb-nf4 or gguf:Q4_K_M
            engine: what runs the model
            prompt_tokens: tokens of a prompt
            output_tokens: tokens of an answer

        Returns:
            The bill in parts, prices per request and token, and the break-even points.
        """
        catalog = self._catalog()
        offer = offer_of(catalog, hardware)
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
        asked = memory_request(precision, engine, usage.prompt_tokens + usage.output_tokens, 1, "auto", "inference", 1, 0)
        request = replace(asked, devices=max(1, offer.accelerator_count))
        if isinstance(model, str) and not model.strip():
            return cost_answer(offer, usage, catalog)
        return self._with_model(offer, usage, catalog, request, model)

    def _with_model(self, offer: Offer, usage: Usage, catalog: Catalog, request: MemoryRequest, model: object) -> CostAnswer:
        spec = self._models(model)
        on_hub = read(model).kind == "id"
        return cost_answer(
            offer,
            usage,
            catalog,
            spec=spec,
            request=request,
            speed=predict_usage(self._predict, spec, offer, request, usage, catalog.accelerators),
            zerogpu_speed=estimate_or_none(
                predict_usage(self._predict, spec, catalog.offer(ZEROGPU, "zerogpu"), request, usage, catalog.accelerators)
            ),
            offered=self._offered(spec.id) if on_hub and spec.id else None,
        )
