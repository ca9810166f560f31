"""The advisor's reasons as sentences: one template per code; a value is shown by the unit in its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

from lib.advisor.result import Reason, Value
from lib.present.numbers import Number, gib, seconds, tokens_per_s, usd
from lib.present.reason_sentences import SENTENCES

ACCOUNTS = {"anonymous": "signed out", "pro": "PRO", "team": "Team", "enterprise": "Enterprise"}
BOUNDS = {"bandwidth": "memory bandwidth limits it", "compute": "arithmetic limits it", "overhead": "launch and host time limit it"}
SERVED = frozenset({"generate", "vision_language"})


def sentence(reason: Reason) -> str:
    """One reason as a sentence.

    Raises:
        KeyError: the code has no sentence, or a value that it names is missing; the tests hold every code against this.
    """
    return SENTENCES[_variant(reason)].format_map(_Shown(reason.values))


class _Shown(Mapping[str, str]):
    """The values as text, made when a sentence names them."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> str:
        return shown(name, self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


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
    if code == "free" and values.get("gradio_only"):
        return "free:gradio"
    if code == "price" and values["usd_per_month"] == 0:
        return "price:idle"
    return code


def shown(name: str, value: Value) -> str:
    """A value as text, with its unit from the end of its name."""
    if isinstance(value, str | bool):
        words = {"account": ACCOUNTS, "bound": BOUNDS}.get(name, {})
        return words.get(str(value), str(value))
    for unit, written in _UNITS:
        if name.endswith(unit):
            return written(value)
    return f"{value:,}" if isinstance(value, int) else f"{Decimal(str(value)).normalize():f}"


_UNITS: tuple[tuple[str, Callable[[Number], str]], ...] = (
    ("bytes", gib),
    ("tokens_per_s", tokens_per_s),
    ("usd", usd),
    ("usd_per_hour", usd),
    ("usd_per_month", usd),
    ("usd_per_gpu_hour", usd),
    ("seconds", seconds),
    ("_s", seconds),
)
