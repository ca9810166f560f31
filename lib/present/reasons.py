"""The advisor's reasons as sentences: one template per code; a value is shown by the unit in its name."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from lib.advisor.result import Reason, Value
from lib.present.numbers import Number, gib, tokens_per_s, usd
from lib.present.reason_sentences import SENTENCES

ACCOUNTS = {"anonymous": "signed out", "pro": "PRO", "team": "Team", "enterprise": "Enterprise"}
SERVED = frozenset({"generate", "vision_language"})


def sentence(reason: Reason) -> str:
    """One reason as a sentence.

    Raises:
        KeyError: the code has no sentence, or a value that it names is missing; the tests hold every code against this.
    """
    return SENTENCES[_variant(reason)].format(**{name: shown(name, value) for name, value in reason.values.items()})


def _variant(reason: Reason) -> str:
    """Codes that are worded by the kind of work, or by the account."""
    code, values = reason.code, reason.values
    if code in {"cpu_too_slow", "cpu_enough"}:
        family = str(values["family"])
        return f"{code}:{'generate' if family in SERVED else 'draw' if family in {'image', 'video'} else family}"
    if code == "quota_too_small" and values["requests_per_visitor"] == 0:
        return "quota_too_small:one"
    if code == "retired" and values["since"]:
        return "retired:since"
    if code == "price" and values["usd_per_month"] == 0:
        return "price:idle"
    return code


def shown(name: str, value: Value) -> str:
    """A value as text, with its unit from the end of its name."""
    if isinstance(value, str | bool):
        return ACCOUNTS.get(str(value), str(value)) if name == "account" else str(value)
    for unit, written in _UNITS:
        if name.endswith(unit):
            return written(value)
    return f"{value:,}" if isinstance(value, int) else f"{Decimal(str(value)).normalize():f}"


def _seconds(value: float | str | Decimal) -> str:
    amount = float(value)
    if amount < 1:
        return f"{amount * 1000:.0f} ms" if amount >= 0.001 else "less than 1 ms"  # noqa: PLR2004  a thousandth
    return f"{amount:.1f} s" if amount < 10 and amount != int(amount) else f"{amount:,.0f} s"  # noqa: PLR2004  one decimal below ten


_UNITS: tuple[tuple[str, Callable[[Number], str]], ...] = (
    ("bytes", gib),
    ("tokens_per_s", tokens_per_s),
    ("usd", usd),
    ("usd_per_hour", usd),
    ("usd_per_month", usd),
    ("usd_per_gpu_hour", usd),
    ("seconds", _seconds),
    ("_s", _seconds),
)
