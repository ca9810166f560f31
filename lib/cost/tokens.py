"""The bill of tokens at a provider: its price per million, the month at the stated traffic, less the account's monthly credits."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from lib.catalog.rules import ProviderCredits
from lib.cost.bill import CostEstimate, CostPart, sum_parts
from lib.cost.usage import Usage
from lib.laws.price import TOKENS, share, tokens_usd
from lib.provenance import Source


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
