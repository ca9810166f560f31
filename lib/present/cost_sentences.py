"""Break-even points as sentences; all rounding of money happens here and in `lib.present.numbers`."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from lib.cost import Crossing

WAYS = {
    "always_on": "running around the clock",
    "sleeping": "sleeping between requests",
    "zerogpu": "ZeroGPU (one visitor who makes all requests)",
    "per_token": "paying a provider per token",
}


def usd(amount: Decimal) -> str:
    """Two places, more where the amount is small: 576.00 USD, 0.0032 USD."""
    if amount != 0 and abs(amount) < Decimal("0.1"):
        return f"{amount:.2g} USD"
    return f"{amount.quantize(Decimal('0.01'), rounding=ROUND_HALF_UP):,} USD"


def crossing_sentence(found: Crossing) -> str:
    """Which of two ways is cheaper up to where."""
    below, above = WAYS[found.below], WAYS[found.above]
    if found.requests_per_day is None:
        if found.below == "sleeping":
            return f"{_capital(below)} costs less than {above} at any traffic."
        return f"{_capital(below)} never costs more than {above}."
    requests = found.requests_per_day.quantize(Decimal(1), rounding=ROUND_HALF_UP)
    where = f"up to about {requests:,} requests a day"
    beyond = " That is more than this hardware serves, so it stays cheaper." if found.within_capacity is False else ""
    if found.usd_per_month is None:
        return f"{_capital(below)} is free {where}; this account cannot pay for more."
    if found.below == "sleeping" and found.above == "always_on":
        return f"{_capital(below)} saves more than a hundredth {where}; from there on it is awake nearly all the time."
    return f"{_capital(below)} costs less than {above} {where} ({usd(found.usd_per_month)} a month there).{beyond}"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
