"""Sentences from what the core states as a code with values: reasons (`reason_words`) and caveats (`caveat_words`).

    sentence(Reason("price", {"usd_per_hour": …, "usd_per_month": …, "days": 30, "hours": 24}))

One template per code. A name in braces is a value of the statement, shown with the unit at the end of its name ("…_bytes" as GiB,
"…_s" as a time, "usd_per_hour" as dollars); `!s` shows it as it is, `:plain` as the shortest decimal without exponent, `:span` as a
time in its largest whole unit, and any other format as Python does. A code with several sentences has them under "code:variant".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal

from lib.answers.common import CaveatEntry, ReasonEntry
from lib.present.caveat_words import CAVEATS
from lib.present.gpu_tpu_words import COMMITMENTS, SIDES
from lib.present.numbers import Number, gib, seconds, span, tokens_per_s, usd
from lib.present.reason_words import REASONS
from lib.provenance import Caveat, Reason, Statement, Value

ACCOUNTS = {"anonymous": "signed out", "pro": "PRO", "team": "Team", "enterprise": "Enterprise"}
BOUNDS = {
    "bandwidth": "limited by memory bandwidth",
    "compute": "limited by compute",
    "overhead": "limited by kernel-launch and CPU overhead",
}
SERVED = frozenset({"generate", "vision_language"})


def sentence(statement: Statement) -> str:
    """A reason or a caveat as a sentence.

    Raises:
        KeyError: the code has no sentence, or a value that it names is missing; the tests hold every code against this.
    """
    if isinstance(statement, Caveat):
        return fill(CAVEATS[_key(statement, statement.variant)], statement.values)
    return fill(REASONS[_key(statement, _variant(statement))], statement.values)


def fill(template: str, values: Mapping[str, Value]) -> str:
    """The template with its values, each shown by the unit of its name.

    Raises:
        KeyError: a value that the template names is missing.
    """
    return template.format_map(_Shown(values))


def reason_entries(reasons: Iterable[Reason]) -> list[ReasonEntry]:
    """Reasons with their sentences, as answers carry them."""
    return [{"code": reason.code, "message": sentence(reason)} for reason in reasons]


def caveat_entries(caveats: Iterable[Caveat]) -> list[CaveatEntry]:
    """Each distinct caveat once, in the order met."""
    return [{"code": caveat.code, "message": sentence(caveat)} for caveat in dict.fromkeys(caveats)]


def _key(statement: Statement, variant: str) -> str:
    return f"{statement.code}:{variant}" if variant else statement.code


def _variant(reason: Statement) -> str:
    """Of codes that are worded by the kind of work, or by the account."""
    code, values = reason.code, reason.values
    if code in {"cpu_too_slow", "cpu_enough"}:
        family = str(values["family"])
        return "generate" if family in SERVED else "draw" if family in {"image", "video"} else family
    if code == "quota_too_small" and values["requests_per_visitor"] == 0:
        return "one"
    if code == "retired" and values["since"]:
        return "since"
    if code == "free" and values.get("gradio_only"):
        return "gradio"
    if code == "price":
        return "idle" if values["usd_per_month"] == 0 else "replicas" if "replicas" in values else ""
    return reason.variant


class _Shown(Mapping[str, "_Figure"]):
    """The values as text, made when a sentence names them."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> _Figure:
        return _Figure(name, self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class _Figure:
    """One value: by the unit of its name, or in the format that the template asks for."""

    def __init__(self, name: str, value: Value) -> None:
        self._name, self._value = name, value

    def __str__(self) -> str:
        return str(self._value)

    def __format__(self, spec: str) -> str:
        if not spec:
            return format_value(self._name, self._value)
        if spec == "span":
            return span(int(self._value))
        return _plain(self._value) if spec == "plain" else format(self._value, spec)


def format_value(name: str, value: Value) -> str:
    """A value as text, with its unit from the end of its name."""
    if isinstance(value, str | bool):
        words = {"account": ACCOUNTS, "bound": BOUNDS, "commitment": COMMITMENTS, "kind": SIDES}.get(name, {})
        return words.get(str(value), str(value))
    for unit, written in _UNITS:
        if name.endswith(unit):
            return written(value)
    return f"{value:,}" if isinstance(value, int) else _plain(value)


def _plain(value: Value) -> str:
    return f"{Decimal(str(value)).normalize():f}"


_UNITS: tuple[tuple[str, Callable[[Number], str]], ...] = (
    ("bytes", gib),
    ("tokens_per_s", tokens_per_s),
    ("usd", usd),
    ("usd_per_hour", usd),
    ("usd_per_month", usd),
    ("usd_per_gpu_hour", usd),
    ("usd_per_request", usd),
    ("seconds", seconds),
    ("_s", seconds),
)
