"""Paying per token instead of renting hardware.

    C = N · (t_in · p_in + t_out · p_out) / 10⁶ · (1 + m)

    C  USD per month      N  requests per month      t_in, t_out  tokens of a request, prompt and answer
    p_in, p_out  USD per million tokens              m  markup of the router (0)

The account's monthly credits are subtracted by the caller, as a part of their own, down to nothing.
Source: hub-docs inference-providers/pricing.md 2026-08-21 (the provider's own price, no markup; credits).
"""

from __future__ import annotations

from decimal import Decimal

MILLION = 1_000_000


def tokens_usd(*, tokens: Decimal, usd_per_million: Decimal, markup_percent: Decimal = Decimal(0)) -> Decimal:
    """USD for this many tokens: a million and a half at 0.40 USD.

    >>> tokens_usd(tokens=Decimal(1_500_000), usd_per_million=Decimal("0.40"))
    Decimal('0.60')
    """
    return tokens * usd_per_million * (100 + markup_percent) / (100 * MILLION)
