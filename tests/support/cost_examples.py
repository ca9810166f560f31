"""The bundled catalog, a speed and a price per token, as the tests of cost use them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from lib.catalog import load
from lib.cost.tokens import TokenPrice
from lib.provenance import Source

CATALOG = load()
RULES = CATALOG.rules
L4 = CATALOG.offer("l4x1", "spaces")


@dataclass(frozen=True)
class Speed:
    """A speed estimate: half a second to the first token, then 20 tokens/s."""

    ttft_s: float | None = 0.5
    inter_token_s: float | None = 0.05
    throughput_tokens_per_s: float | None = 20.0


def own(prompt: str, answer: str) -> TokenPrice:
    """A price per million tokens that the visitor states."""
    source = Source(what="price per token", source="stated by the visitor", checked="2026-11-21")
    return TokenPrice(provider="own price", usd_per_million_input=Decimal(prompt), usd_per_million_output=Decimal(answer), source=source)
