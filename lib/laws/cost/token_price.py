"""What a million tokens cost on rented hardware that has nothing else to do.

    answer   p / (3600 · φ) · 10⁶                prompt   p / 3600 · τ / (k · t_in) · 10⁶

    p  USD per hour      φ  answer tokens per second, all requests together      τ  time to the first token, s
    t_in  tokens of a prompt                   k  prompts read in that time (requests in flight)

At full use, the best case. The price of the answer carries the whole machine, its prompts included; the price of the prompt is that
of reading alone, for answers of no length. They are two views of the same hour and are not to be added.
At the visitor's own traffic divide what a month costs by the tokens of the month instead (`share`).
Source: the definition; units only.
"""

from __future__ import annotations

from decimal import Decimal

HOUR_S = 3600
MILLION = 1_000_000


def answer_price(*, usd_per_hour: Decimal, tokens_per_s: Decimal) -> Decimal:
    """USD per million answer tokens. 0.80 USD/h at 20 tokens/s: 0.80 / 72000 × 10⁶.

    >>> round(answer_price(usd_per_hour=Decimal("0.80"), tokens_per_s=Decimal(20)), 4)
    Decimal('11.1111')
    """
    return usd_per_hour * MILLION / (HOUR_S * tokens_per_s)


def prompt_price(*, usd_per_hour: Decimal, first_token_s: Decimal, prompt_tokens: int, in_flight: int = 1) -> Decimal:
    """USD per million prompt tokens. 0.80 USD/h, 1000 tokens read in half a second: 0.80 / 3600 × 0.5 / 1000 × 10⁶.

    >>> round(prompt_price(usd_per_hour=Decimal("0.80"), first_token_s=Decimal("0.5"), prompt_tokens=1000), 4)
    Decimal('0.1111')
    """
    return usd_per_hour * first_token_s * MILLION / (HOUR_S * in_flight * prompt_tokens)


def share(usd_per_month: Decimal, units_per_month: Decimal) -> Decimal | None:
    """USD per unit at the visitor's own traffic; `None` without any."""
    return usd_per_month / units_per_month if units_per_month > 0 else None
