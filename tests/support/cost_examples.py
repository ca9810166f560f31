"""The bundled catalog, a speed and a price per token, as the tests of cost use them."""

from __future__ import annotations

from decimal import Decimal

from lib.catalog import load
from lib.cost.break_even import TokenPrice
from lib.provenance import Source

CATALOG = load()
RULES = CATALOG.rules
L4 = CATALOG.offer("l4x1", "spaces")


def state_price(prompt: str, answer: str) -> TokenPrice:
    """A price per million tokens that the visitor states."""
    source = Source(what="price per token", source="stated by the visitor", checked="2026-11-21")
    return TokenPrice(provider="own price", usd_per_million_input=Decimal(prompt), usd_per_million_output=Decimal(answer), source=source)
