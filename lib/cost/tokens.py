"""What is billed beside hardware: tokens at a provider, and storage on the Hub.

Tokens: a provider's price per million, the month at the stated traffic, less the account's monthly credits. Storage: today's prices; the
persistent tiers of the past are recognised by name or size, and a caveat states what the same size costs today.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from lib.catalog.rules import ProviderCredits, RetiredStorageTier, StoragePrices
from lib.cost.result import CostEstimate, CostPart, sum_parts
from lib.cost.usage import Usage
from lib.laws.price import GB_PER_TB, STORAGE, TOKENS, share, storage, tokens_usd
from lib.provenance import Caveat, Source, Value
from lib.units import GB


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrice:
    """USD per million tokens of one provider, or of the visitor's own contract (`provider` says so)."""

    provider: str
    usd_per_million_input: Decimal
    usd_per_million_output: Decimal
    source: Source


def price_request(price: TokenPrice, usage: Usage, rules: ProviderCredits) -> Decimal:
    """USD of one request of the stated shape."""
    prompt = tokens_usd(
        tokens=Decimal(usage.prompt_tokens), usd_per_million=price.usd_per_million_input, markup_percent=rules.markup_percent
    )
    return prompt + tokens_usd(
        tokens=Decimal(usage.output_tokens), usd_per_million=price.usd_per_million_output, markup_percent=rules.markup_percent
    )


def bill_tokens(price: TokenPrice, usage: Usage, rules: ProviderCredits) -> CostEstimate:
    """The month at the stated traffic, less the account's monthly credits (which never make it negative)."""
    requests = usage.requests_per_month
    lines = (
        ("prompt tokens", usage.prompt_tokens, price.usd_per_million_input),
        ("answer tokens", usage.output_tokens, price.usd_per_million_output),
    )
    parts = tuple(
        CostPart(
            name=name,
            kind="tokens",
            usd_per_month=tokens_usd(tokens=requests * tokens, usd_per_million=rate, markup_percent=rules.markup_percent),
            law=TOKENS,
            inputs={"requests": f"{requests:f}", "tokens": str(tokens), "price": f"{rate} USD/10⁶"},
            source=price.source.source,
        )
        for name, tokens, rate in lines
    )
    credit = min(rules.monthly_usd[usage.account], sum_parts(parts))
    if credit > 0:
        parts += (_credit(credit, usage, rules),)
    total = sum_parts(parts)
    return CostEstimate(
        hardware=price.provider,
        platform="providers",
        usd_per_hour=Decimal(0),
        billed_hours_per_month=Decimal(0),
        compute_usd_per_month=total,
        storage_usd_per_month=Decimal(0),
        total_usd_per_month=total,
        serving_usd_per_month=total,
        usd_per_request=price_request(price, usage, rules),
        usd_per_million_output_tokens=price.usd_per_million_output,
        usd_per_million_input_tokens=price.usd_per_million_input,
        usd_per_million_output_tokens_at_traffic=share(total * 1_000_000, requests * usage.output_tokens),
        utilisation=None,
        wakes_per_day=None,
        payer="owner",
        parts=parts,
        sources=(price.source, *rules.sources),
    )


def _credit(credit: Decimal, usage: Usage, rules: ProviderCredits) -> CostPart:
    return CostPart(
        name="monthly credits",
        kind="credit",
        usd_per_month=-credit,
        law="-min(credits, tokens)",
        inputs={"account": usage.account, "credits": f"{rules.monthly_usd[usage.account]} USD/month"},
        source=rules.sources[0].source,
    )


def bill_storage(usage: Usage, prices: StoragePrices) -> CostPart | None:
    """The line for storage; `None` when nothing is stored."""
    if usage.storage_gb <= 0:
        return None
    public = usage.storage_public
    base, rates = (
        (prices.public_usd_per_tb_month, prices.public_volume_rates)
        if public
        else (prices.private_usd_per_tb_month, prices.private_volume_rates)
    )
    included = Decimal(0) if public else included_gb(usage, prices)
    amount = storage(gigabytes=usage.storage_gb, included_gigabytes=included, usd_per_tb_month=base, volume_rates=rates)
    return CostPart(
        name="public storage" if public else "private storage",
        kind="storage",
        usd_per_month=amount,
        law=STORAGE,
        inputs={"held": f"{usage.storage_gb} GB", "included": f"{included} GB", "price": f"{base} USD/TB/month"},
        source=prices.sources[0].source,
    )


def included_gb(usage: Usage, prices: StoragePrices) -> Decimal:
    """Private gigabytes in the plan: per seat for organizations; nothing without an account."""
    seats = usage.seats if usage.account in {"team", "enterprise"} else 1
    return Decimal(prices.included_private.get(usage.account, 0)) / GB * seats


def storage_caveats(usage: Usage, prices: StoragePrices, platform: str) -> list[Caveat]:
    """What the line for storage leaves open, and which old tier it may have been meant as."""
    if usage.storage_gb <= 0:
        return []
    caveats = []
    tier = find_retired_tier(usage.storage_gb, prices)
    if tier is not None:
        caveats.append(describe_retired_tier(tier, usage, prices))
    if platform == "tpu":
        caveats.append(Caveat("storage_elsewhere"))
    rates = prices.public_volume_rates if usage.storage_public else prices.private_volume_rates
    if rates and usage.storage_gb > rates[0][0] * GB_PER_TB:
        caveats.append(Caveat("volume_rate", {"from_tb": rates[0][0]}))
    return caveats


def find_retired_tier(name_or_gb: Decimal | str, prices: StoragePrices) -> RetiredStorageTier | None:
    """The old persistent tier that is meant by a name (`small`, `medium`, `large`) or by exactly its size in GB."""
    for tier in prices.retired_tiers:
        if name_or_gb == tier.id if isinstance(name_or_gb, str) else name_or_gb * GB == tier.size:
            return tier
    return None


def describe_retired_tier(tier: RetiredStorageTier, usage: Usage, prices: StoragePrices) -> Caveat:
    """What became of a tier, and what its size costs now."""
    size = Decimal(tier.size) / GB
    base = prices.private_usd_per_tb_month
    included = included_gb(usage, prices)
    amount = storage(gigabytes=size, included_gigabytes=included, usd_per_tb_month=base, volume_rates=prices.private_volume_rates)
    values: dict[str, Value] = {
        "tier": tier.id,
        "size_gb": size,
        "last_usd_per_month": tier.last_usd_per_month,
        "until": tier.until,
        "usd_per_month": amount,
        "included_gb": included,
        "usd_per_tb_month": base,
    }
    return Caveat("storage_tier_retired", values)
