"""Sentences from codes with values: reasons and caveats of the rooms below, worded in `lib/data/wording/`.

    sentence(Reason("price", {"usd_per_hour": …, "usd_per_month": …, "days": 30, "hours": 24}))

One template per code. A name in braces is a value of the statement, shown with the unit at the end of its name ("…_bytes" as GiB,
"…_s" as a time, "usd_per_hour" as dollars). A format after the name changes that:

    !s               the value as it is
    :plain           the shortest decimal without exponent
    :span            a time in its largest whole unit
    :duration        a time in the unit that suits it
    :rate            a price per hour
    :count replica   "1 replica" or "3 replicas"
    :or …            these words instead of ""
    any other        as in Python

A code with several sentences has them under "code:variant".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from threading import Condition
from typing import Any

from cachetools import LRUCache, cached

from lib.advisor.alternatives import NoSaving, Saving
from lib.advisor.result import Recommendation
from lib.catalog.rows import ById
from lib.cost.break_even import Axis, Option, Outlook, WayChange
from lib.laws.price import DAY_H
from lib.present.numbers import Number, count_words, duration, gib, seconds, span, tokens_per_s, usd
from lib.present.wording import load_sentences, load_wording, term
from lib.provenance import Caveat, Statement, Value
from lib.result import Result, write_json
from lib.workload import MemoryRequest

_TERMS = {"account": "accounts", "bound": "bounds", "commitment": "commitments", "kind": "sides", "below": "ways", "above": "ways"}
"""The group of terms.yaml that words a value of this name."""
GENERATES = frozenset({"generate", "vision_language"})


def sentence(statement: Statement) -> str:
    """A reason or a caveat as a sentence.

    Raises:
        KeyError: the code has no sentence, or a value that it names is missing; the tests hold every code against this.
    """
    if isinstance(statement, Caveat):
        return fill(load_sentences("caveats")[_key(statement, statement.variant)], statement.values)
    return fill(load_sentences("reasons")[_key(statement, _variant(statement))], statement.values)


def to_json(result: object) -> Any:
    """A result as JSON values, its reasons and caveats as sentences; anything else as it is."""
    return write_json(result, sentence) if isinstance(result, Result) else result


def write_answer(result: object) -> str:
    """The text of `to_json`. Callers who get the same recommendation share its text."""
    return _write_once(result) if isinstance(result, Recommendation) else _write_text(result)


def _write_text(result: object) -> str:
    return json.dumps(to_json(result), allow_nan=False, separators=(",", ":"))


@cached(LRUCache(32), key=ById, condition=Condition())
def _write_once(result: Recommendation) -> str:
    return _write_text(result)


def fill(template: str, values: Mapping[str, Value]) -> str:
    """The template with its values, each shown by the unit of its name.

    Raises:
        KeyError: a value that the template names is missing.
    """
    return template.format(**{name: _Figure(name, value) for name, value in values.items()})


def note(file: str, code: str, /, **values: Value) -> str:
    """A sentence of the group `notes` of a wording file, with its values."""
    return say(file, "notes", code, **values)


def say(file: str, group: str, code: str, /, **values: Value) -> str:
    """A text of a wording file, with its values."""
    return fill(load_wording(file)[group][code], values)


def _key(statement: Statement, variant: str) -> str:
    return f"{statement.code}:{variant}" if variant else statement.code


def _variant(reason: Statement) -> str:
    """Of codes that are worded by the kind of work, or by the account."""
    code, values = reason.code, reason.values
    if code in {"cpu_too_slow", "cpu_enough"}:
        family = str(values["family"])
        return "generate" if family in GENERATES else "draw" if family in {"image", "video"} else family
    if code == "quota_too_small" and values["requests_per_visitor"] == 0:
        return "one"
    if code == "retired" and values["since"]:
        return "since"
    if code == "free" and values.get("gradio_only"):
        return "gradio"
    if code == "price":
        return "idle" if values["usd_per_month"] == 0 else "replicas" if "replicas" in values else ""
    return reason.variant


class _Figure:
    """One value: by the unit of its name, or in the format that the template asks for."""

    def __init__(self, name: str, value: Value) -> None:
        self.name, self.value = name, value

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        name, _, words = spec.partition(" ")
        shown = _FORMATS.get(name)
        return format(self.value, spec) if shown is None else shown(self, words)


def format_value(name: str, value: Value) -> str:
    """A value as text, with its unit from the end of its name."""
    if name == "accounts":  # several plans
        return ", ".join(term("accounts", plan) for plan in str(value).split(", "))
    if isinstance(value, str | bool):
        return term(_TERMS[name], str(value)) if name in _TERMS else str(value)
    if (format_unit := _find_unit(name)) is not None:
        return format_unit(value)
    return f"{value:,}" if isinstance(value, int) else _plain(value)


def _hourly_rate(usd_per_hour: Value) -> str:
    """The price inside a sentence; "" is an unknown one."""
    if usd_per_hour == "":
        return say("cards", "prices", "unknown")
    return "nothing" if usd_per_hour == 0 else f"{usd(usd_per_hour)} an hour"


def _plain(value: Value) -> str:
    return f"{Decimal(str(value)).normalize():f}"


_FORMATS: Mapping[str, Callable[[_Figure, str], str]] = {
    "": lambda figure, _: format_value(figure.name, figure.value),
    "Capital": lambda figure, _: _capital(format_value(figure.name, figure.value)),
    "span": lambda figure, _: span(int(figure.value)),
    "duration": lambda figure, _: duration(float(figure.value) / 3600),
    "rate": lambda figure, _: _hourly_rate(figure.value),
    "count": lambda figure, noun: count_words(int(figure.value), noun),
    "or": lambda figure, otherwise: str(figure.value) or otherwise,
    "plain": lambda figure, _: _plain(figure.value),
}
"""The formats of a sentence that are not Python's: of a value and the words after the format's name."""
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


@lru_cache(maxsize=1024)  # names that the code gives to values: some two hundred
def _find_unit(name: str) -> Callable[[Number], str] | None:
    return next((format_unit for unit, format_unit in _UNITS if name.endswith(unit)), None)


# Ways to run a model, ways to save, and break-even points.


def way_label(option: Option, outlook: Outlook) -> str:
    """A way to run the model in a few words, for a legend: "Space 1x L4, always on"."""
    if option.price is not None:
        return f"Per token, {option.price.provider}"
    if option.offer is None:
        return ""
    traits = option.offer.traits
    return f"{traits.label if traits.per_call else f'{traits.runs} {short_name(option.offer.name)}'}, {way_use(option, outlook)}"


def way_use(option: Option, outlook: Outlook) -> str:
    """How a way uses its hardware; "" per token."""
    if option.offer is None:
        return ""
    if option.offer.traits.per_call:
        return "visitors' quota"
    if option.kind == "sleeping":
        return "scaled to zero" if option.offer.traits.idle == "scales_to_zero" else "sleeping"
    if outlook.axis == "hours":
        return "running"
    hours = outlook.usage.hours_per_day
    return "always on" if hours == DAY_H else f"{hours.normalize():f} h a day"


def short_name(name: str) -> str:
    """Hardware without its maker, for a legend: "1x L4", "A100 - large", "GCP · L4 · x1"."""
    return name.replace("Nvidia ", "").replace("NVIDIA ", "")


def way_configuration(option: Option, request: MemoryRequest | None) -> str:
    """Configuration of this way, and the payer if it is not the host."""
    if option.offer is None or request is None:
        return "less the account's credits"
    configuration = f"{request.precision} with {request.engine}"
    return f"{configuration}, on the visitors' quota" if option.offer.traits.per_call else configuration


def way_change_sentence(change: WayChange, before: str, after: str, axis: Axis) -> str:
    """Point at which one way becomes cheaper than another, or ends; `before` and `after` are their labels."""
    where = f"{change.at.quantize(Decimal('0.1')).normalize():,f} hours a day" if axis == "hours" else f"{change.at:,.0f} requests a day"
    if change.ends:
        return say("cards", "ways", "ends", before=before, where=where)
    return say("cards", "ways", "cheaper", where=where, after=after, before=before, price=usd(change.usd_per_month))


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def saving_step(saving: Saving) -> str:
    """The step, without its saving."""
    offer = "" if saving.offer is None else saving.offer.name
    return fill(load_wording("terms")["saving_steps"][saving.code], {**saving.values, "offer": offer})


def saving_effect(saving: Saving) -> str:
    """Cost in quality and effect on speed; "" for none."""
    terms = load_wording("terms")
    effects = [terms["saving_sacrifices"].get(saving.code, ""), terms["saving_gains"].get(saving.gain, "")]
    ratio = saving.speed_ratio
    shown_ratio = ratio is not None and not (saving.gain == "memory_only" and ratio > 1)
    if shown_ratio and not 0.95 < (ratio or 1.0) < 1.05:  # noqa: PLR2004  a twentieth is within the datasheets' own error
        effects.append(say("cards", "ways", "bound_ratio" if saving.ratio_is_bound else "ratio", ratio=ratio or 1.0))
    return " ".join(effect for effect in effects if effect)


def no_saving_sentence(no_saving: NoSaving) -> str:
    """Why a way saves nothing here."""
    freed = "" if not no_saving.freed_bytes else f" It would free {gib(no_saving.freed_bytes)}."
    return f"{_capital(fill(load_wording('terms')['no_saving'][no_saving.reason], no_saving.values))}.{freed}"


def stage_words(name: str) -> str:
    """The stage of a Space, an endpoint or a Job in a word or two; the Hub's own name where the stage is not known."""
    return load_wording("terms")["stage_words"].get(name) or name


def stage_sentence(name: str) -> str:
    """State of a Space, an endpoint or a Job at this stage."""
    return load_wording("terms")["stages"].get(name) or say("cards", "space", "stage_unknown", stage=name)
