"""`/estimate_cost` as plain JSON: the bill, where it crosses other ways, and what providers ask per token."""

from __future__ import annotations

from dataclasses import replace

from lib.answers.common import SCHEMA
from lib.answers.cost import CostAnswer, CostPartEntry, CrossingEntry, PerTokenEntry, TokenPriceEntry, ZeroGpuEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules
from lib.cost import CostEstimate, CostPart, Crossing, Pace, TokenPrice, Usage, ZeroGpuUse, break_even, cost, per_token
from lib.cost.usage import request_seconds
from lib.hub.providers import Offered
from lib.memory import fit_memory, usable_memory
from lib.model.spec import ModelSpec
from lib.present.sentences import crossing_sentence
from lib.provenance import Caveat
from lib.service.pace import ONE_AT_A_TIME, Paced
from lib.service.wire import caveat_entries, price_entry, source_entries, usd
from lib.workload import MemoryRequest

ZEROGPU = "zero-a10g"


def cost_answer(
    offer: Offer,
    usage: Usage,
    catalog: Catalog,
    *,
    spec: ModelSpec | None = None,
    request: MemoryRequest | None = None,
    speed: Paced | None = None,
    zerogpu_speed: Pace | None = None,
    offered: Offered | None = None,
    own_price: TokenPrice | None = None,
) -> CostAnswer:
    """The answer; `own_price` is a price per token that the visitor states, used before any that the router told."""
    rules = catalog.rules
    quick = Paced() if speed is None else speed
    bill = cost(offer, usage, rules, speed=quick.pace)
    prices = tuple(price for price in (own_price, *(offered.prices if offered else ())) if price is not None)
    zero = _zerogpu(offer, catalog, spec, request)
    seconds = usage.seconds_on_gpu or request_seconds(usage, zerogpu_speed)
    asked = replace(usage, seconds_on_gpu=seconds)
    crossings = break_even(offer, asked, rules, speed=quick.pace, price=prices[0] if prices else None, zerogpu=zero)
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
        "caveats": caveat_entries((*bill.caveats, *_caveats(offer, spec, request, quick, offered))),
        "sources": source_entries((*bill.sources, *quick.sources, *(source for one in tokens for source in one.sources))),
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


def _per_token(offered: Offered | None, prices: tuple[TokenPrice, ...], usage: Usage, rules: PlatformRules) -> PerTokenEntry:
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


def _caveats(offer: Offer, spec: ModelSpec | None, request: MemoryRequest | None, quick: Paced, offered: Offered | None) -> list[Caveat]:
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
    found += quick.caveats
    if quick.pace is not None and quick.pace.throughput_tokens_per_s:
        found.append(ONE_AT_A_TIME)
    if offered is not None and offered.status == "unknown":
        found.append(Caveat(code="token_price_unknown", message=offered.reason))
    return found
