"""Every way, tried on the case. Each re-runs the estimate of memory and the bill; none is a percentage of anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

from lib import estimate
from lib.cost import Usage, cost, per_token
from lib.cost.quota import zerogpu_use
from lib.offer import Offer
from lib.savings.case import Case, Code, NoWay, Savings, Way
from lib.savings.tiers import Tier, bill, cheapest, devices_used, gain, rate, tier
from lib.workload import MemoryRequest

SLEEP_S = (Decimal(900), Decimal(300))
"""Sleep times that are tried: a quarter of an hour, and five minutes where it is set to less than that already."""
FORMATS: tuple[Code, ...] = ("fp8", "int8", "int4")

Found = Way | NoWay


def ways_to_save(case: Case) -> Savings:
    """All ways, those that save first. Today's configuration is spread over the cards of its offer.

    Raises:
        UnknownHardware: today's offer has no price.
        BadArgument: a precision that no format has.
    """
    case = replace(case, request=replace(case.request, devices=devices_used(case, case.offer, case.request)))
    now = bill(case, case.offer, case.request)
    found = [one for try_out in _TRIED for one in try_out(case, now)]
    ways = [one for one in found if isinstance(one, Way)]
    return Savings(
        usd_per_month=now,
        ways=tuple(sorted(ways, key=lambda way: (-way.saves_usd_per_month, way.code))),
        others=tuple(one for one in found if isinstance(one, NoWay)),
    )


def _provider(case: Case, now: Decimal) -> Iterator[Found]:
    if case.price is None:
        yield NoWay(code="provider", reason="price_unknown")
    elif case.usage.requests_per_day <= 0:
        yield NoWay(code="provider", reason="traffic_not_stated")
    else:
        tokens = per_token(case.price, case.usage, case.catalog.rules.providers)
        kept = cost(case.offer, case.usage, case.catalog.rules).storage_usd_per_month
        inputs = {"provider": case.price.provider, "requests": f"{case.usage.requests_per_month:f}"}
        yield _if_less("provider", now, tokens.total_usd_per_month + kept, inputs=inputs)


def _zerogpu(case: Case, now: Decimal) -> Iterator[Found]:
    rules = case.catalog.rules.zerogpu
    if case.offer.platform != "spaces" or rules.max_spaces[case.usage.account] == 0:
        yield NoWay(code="zerogpu", reason="not_for_this_account" if case.offer.platform == "spaces" else "not_on_this_platform")
        return
    for offer in case.catalog.on(("zerogpu",)):
        held = tier(case, offer, replace(case.request, engine="transformers"))
        if held is None:
            continue
        used = zerogpu_use(offer, case.usage, rules, case.paced(offer, held.request))
        if used.requests_in_quota == 0:
            yield NoWay(code="zerogpu", reason="quota_too_small")
        else:
            inputs = {
                "size": used.size,
                "quota seconds per request": f"{used.quota_s_per_request.normalize():f}",
                "requests per visitor and day": str(used.requests_in_quota),
                "visitors needed": str(used.visitors),
            }
            yield _moved(case, "zerogpu", now, held, inputs)
        return
    yield NoWay(code="zerogpu", reason="does_not_fit")


def _other_tier(case: Case, now: Decimal) -> Iterator[Found]:
    found = cheapest(case, case.request)
    if found is None or found.usd_per_month >= now:
        yield NoWay(code="cheaper_tier", reason="none_holds_it")
        return
    silicon = (case.offer.accelerator, found.offer.accelerator)
    code: Code = "l4_over_a10g" if silicon == ("A10G", "L4") else "cheaper_tier"
    yield _moved(case, code, now, found, {})


def _formats(case: Case, now: Decimal) -> Iterator[Found]:
    today = _memory(case, case.request)
    for code in FORMATS:
        asked = replace(case.request, precision=code)
        smaller = _memory(case, asked)
        if smaller.weights.bytes >= today.weights.bytes:
            yield NoWay(code=code, reason="already_as_small")
            continue
        found = cheapest(case, asked)
        freed = today.per_device_bytes - smaller.per_device_bytes
        if found is None or found.usd_per_month >= now or _without(case, found):
            effect, _ = gain(case, case.request, asked, case.offer)
            yield NoWay(code=code, reason="no_cheaper_tier", gain=effect, freed_bytes=freed)
            continue
        moved = _moved(case, code, now, found, {"precision": found.memory.precision})
        effect, native = gain(case, case.request, found.request, found.offer)
        yield replace(moved, gain=effect, native=native) if isinstance(moved, Way) else moved


def _context(case: Case, now: Decimal) -> Iterator[Found]:
    """The context that the traffic needs, if that is less than what is held, else half of it."""
    held, needed = case.request.context_tokens, case.usage.prompt_tokens + case.usage.output_tokens
    tokens = needed if needed < held else held // 2
    yield _smaller(case, "shorter_context", now, replace(case.request, context_tokens=max(1, tokens)), {"context tokens": str(tokens)})


def _batch(case: Case, now: Decimal) -> Iterator[Found]:
    """The largest of the halved batches that saves; a smaller batch serves fewer requests at once."""
    size = case.request.batch_size
    if size == 1:
        yield NoWay(code="smaller_batch", reason="already_as_small")
        return
    found: Found = NoWay(code="smaller_batch", reason="no_cheaper_tier")
    while size > 1 and isinstance(found, NoWay):
        size //= 2
        found = _smaller(case, "smaller_batch", now, replace(case.request, batch_size=size), {"batch": str(size)})
    yield found


def _cache(case: Case, now: Decimal) -> Iterator[Found]:
    """fp8 in vLLM, eight bits elsewhere."""
    name = "fp8" if case.request.engine.startswith("vllm") else "int8"
    smaller = replace(case.request, kv_precision=name)
    if _memory(case, smaller).kv_cache.bytes >= _memory(case, case.request).kv_cache.bytes:
        yield NoWay(code="cache_precision", reason="already_as_small")
        return
    yield _smaller(case, "cache_precision", now, smaller, {"cache": name})


def _sleep(case: Case, now: Decimal) -> Iterator[Found]:
    if case.usage.requests_per_day <= 0:
        yield NoWay(code="sleep", reason="traffic_not_stated")
        return
    if case.offer.platform not in {"spaces", "endpoints"}:
        yield NoWay(code="sleep", reason="not_on_this_platform")
        return
    current = case.usage.sleep_after_s
    after = next((s for s in SLEEP_S if current == 0 or s < current), None)
    if after is None:
        yield NoWay(code="sleep", reason="already_as_small")
        return
    asleep = cost(case.offer, replace(case.usage, sleep_after_s=after), case.catalog.rules, speed=case.paced(case.offer, case.request))
    wakes = "0" if asleep.wakes_per_day is None else f"{asleep.wakes_per_day:.1f}"
    inputs = {"sleep after s": f"{after:f}", "wakes a day": wakes}
    yield _if_less("sleep", now, asleep.total_usd_per_month, offer=case.offer, request=case.request, inputs=inputs)


def _development(case: Case, _now: Decimal) -> Iterator[Found]:
    """While one works on it: four bits, one request, on the cheapest tier that holds that."""
    small = replace(case.request, precision="int4", batch_size=1, context_tokens=min(case.request.context_tokens, _needed(case.usage)))
    found = cheapest(case, small)
    price = case.offer.usd_per_hour
    if found is None or price is None or found.offer.usd_per_hour is None or found.offer.usd_per_hour >= price:
        yield NoWay(code="development_tier", reason="no_cheaper_tier")
        return
    hours = case.development_hours_per_month
    before, after = price * hours, found.offer.usd_per_hour * hours
    inputs = {"hours per month": f"{hours:f}", "precision": found.memory.precision}
    yield _if_less("development_tier", before, after, offer=found.offer, request=found.request, inputs=inputs)


def _needed(usage: Usage) -> int:
    return usage.prompt_tokens + usage.output_tokens


def _smaller(case: Case, code: Code, now: Decimal, request: MemoryRequest, inputs: dict[str, str]) -> Found:
    """The cheapest tier for a smaller request, or how many bytes it frees on today's."""
    found = cheapest(case, request)
    if found is None or found.usd_per_month >= now or _without(case, found):
        freed = _memory(case, case.request).per_device_bytes - _memory(case, request).per_device_bytes
        return NoWay(code=code, reason="no_cheaper_tier", freed_bytes=freed)
    return _moved(case, code, now, found, inputs)


def _without(case: Case, found: Tier) -> bool:
    """Whether today's request fits that tier as it is: then the change itself saves nothing."""
    return tier(case, found.offer, case.request) is not None


def _memory(case: Case, request: MemoryRequest) -> estimate.MemoryEstimate:
    return estimate.memory(case.spec, request, case.offer.silicon or case.offer.host_cpu)


def _moved(case: Case, code: Code, now: Decimal, found: Tier, inputs: dict[str, str]) -> Found:
    before, after = rate(case, case.offer, case.request), rate(case, found.offer, found.request)
    ratio = after / before if before and after else None
    way = _if_less(code, now, found.usd_per_month, offer=found.offer, request=found.request, inputs=inputs)
    return replace(way, speed_ratio=ratio) if isinstance(way, Way) else way


def _if_less(
    code: Code,
    before: Decimal,
    after: Decimal,
    *,
    offer: Offer | None = None,
    request: MemoryRequest | None = None,
    inputs: dict[str, str] | None = None,
) -> Found:
    if after >= before:
        return NoWay(code=code, reason="costs_as_much")
    return Way(code=code, usd_per_month_before=before, usd_per_month=after, offer=offer, request=request, inputs=inputs or {})


_TRIED: tuple[Callable[[Case, Decimal], Iterator[Found]], ...] = (
    _provider,
    _zerogpu,
    _other_tier,
    _formats,
    _context,
    _batch,
    _cache,
    _sleep,
    _development,
)
