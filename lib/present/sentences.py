"""Sentences from what the core states as a code with values: reasons (`reason_words`) and caveats (`caveat_words`).

    sentence(Reason("price", {"usd_per_hour": …, "usd_per_month": …, "days": 30, "hours": 24}))

One template per code. A name in braces is a value of the statement, shown with the unit at the end of its name ("…_bytes" as GiB,
"…_s" as a time, "usd_per_hour" as dollars); `!s` shows it as it is, `:plain` as the shortest decimal without exponent, `:span` as a
time in its largest whole unit, `:rate` as a price per hour, `:or …` as these words where it is "", and any other format as Python does.
A code with several sentences has them under "code:variant".
"""

from __future__ import annotations

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
from lib.present.caveat_words import CAVEATS
from lib.present.numbers import Number, gib, seconds, span, tokens_per_s, usd
from lib.present.reason_words import REASONS
from lib.provenance import Caveat, Statement, Value
from lib.result import Result, write_json
from lib.workload import MemoryRequest

ACCOUNTS = {"anonymous": "signed out", "pro": "PRO", "team": "Team", "enterprise": "Enterprise"}
BOUNDS = {
    "bandwidth": "limited by memory bandwidth",
    "compute": "limited by compute",
    "overhead": "limited by kernel-launch and CPU overhead",
}
SIDES = {"gpu": "GPU", "tpu": "TPU", "either": "either"}
COMMITMENTS = {"on_demand": "on demand", "spot": "spot", "1_year": "one year committed", "3_years": "three years committed"}
WAYS = {
    "always_on": "running around the clock",
    "sleeping": "sleeping between requests",
    "zerogpu": "ZeroGPU (one visitor who makes all requests)",
    "per_token": "paying a provider per token",
}
_WORDS = {"account": ACCOUNTS, "bound": BOUNDS, "commitment": COMMITMENTS, "kind": SIDES, "below": WAYS, "above": WAYS}
GENERATES = frozenset({"generate", "vision_language"})


def sentence(statement: Statement) -> str:
    """A reason or a caveat as a sentence.

    Raises:
        KeyError: the code has no sentence, or a value that it names is missing; the tests hold every code against this.
    """
    if isinstance(statement, Caveat):
        return fill(CAVEATS[_key(statement, statement.variant)], statement.values)
    return fill(REASONS[_key(statement, _variant(statement))], statement.values)


def to_json(result: object) -> Any:
    """A result as JSON values, its reasons and caveats as sentences; anything else as it is.

    Callers share the JSON of a recommendation, so nobody may change it.
    """
    if isinstance(result, Recommendation):
        return _write_once(result)
    return write_json(result, sentence) if isinstance(result, Result) else result


@cached(LRUCache(32), key=ById, condition=Condition())
def _write_once(result: Recommendation) -> Any:
    return write_json(result, sentence)


def fill(template: str, values: Mapping[str, Value]) -> str:
    """The template with its values, each shown by the unit of its name.

    Raises:
        KeyError: a value that the template names is missing.
    """
    return template.format(**{name: _Figure(name, value) for name, value in values.items()})


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
        self._name, self._value = name, value

    def __str__(self) -> str:
        return str(self._value)

    def __format__(self, spec: str) -> str:
        if not spec:
            return format_value(self._name, self._value)
        if spec == "Capital":
            return _capital(format_value(self._name, self._value))
        if spec == "span":
            return span(int(self._value))
        if spec == "rate":
            return _hourly_rate(self._value)
        if spec.startswith("or "):
            return str(self._value) or spec.removeprefix("or ")
        return _plain(self._value) if spec == "plain" else format(self._value, spec)


def format_value(name: str, value: Value) -> str:
    """A value as text, with its unit from the end of its name."""
    if name == "accounts":  # several plans
        return ", ".join(ACCOUNTS.get(plan, plan) for plan in str(value).split(", "))
    if isinstance(value, str | bool):
        return _WORDS[name].get(str(value), str(value)) if name in _WORDS else str(value)
    if (format_unit := _find_unit(name)) is not None:
        return format_unit(value)
    return f"{value:,}" if isinstance(value, int) else _plain(value)


def _hourly_rate(usd_per_hour: Value) -> str:
    """The price inside a sentence; "" is an unknown one."""
    if usd_per_hour == "":
        return "a price that is not known here"
    return "nothing" if usd_per_hour == 0 else f"{usd(usd_per_hour)} an hour"


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


@lru_cache(maxsize=1024)  # names that the code gives to values: some two hundred
def _find_unit(name: str) -> Callable[[Number], str] | None:
    return next((format_unit for unit, format_unit in _UNITS if name.endswith(unit)), None)


# Ways to run a model, ways to save, and break-even points.


def way_label(option: Option, outlook: Outlook) -> str:
    """A way to run the model in a few words, for a legend: "Space l4x1, always on"."""
    if option.price is not None:
        return f"Per token, {option.price.provider}"
    if option.offer is None:
        return ""
    if option.offer.traits.per_call:
        return f"{option.offer.traits.label}, visitors' quota"
    hours = outlook.usage.hours_per_day
    if option.kind == "sleeping":
        how = "scaled to zero" if option.offer.traits.idle == "scales_to_zero" else "sleeping"
    elif outlook.axis == "hours":
        how = "running"
    else:
        how = "always on" if hours == DAY_H else f"{hours.normalize():f} h a day"
    return f"{option.offer.traits.runs} {option.offer.id}, {how}"


def way_configuration(option: Option, request: MemoryRequest | None) -> str:
    """What runs in this way, and who pays where that is not the host."""
    if option.offer is None or request is None:
        return "less the account's credits"
    configuration = f"{request.precision} with {request.engine}"
    return f"{configuration}, on the visitors' quota" if option.offer.traits.per_call else configuration


def way_change_sentence(change: WayChange, before: str, after: str, axis: Axis) -> str:
    """Where one way becomes cheaper than another, or ends; `before` and `after` are their labels."""
    where = f"{change.at.quantize(Decimal('0.1')).normalize():,f} hours a day" if axis == "hours" else f"{change.at:,.0f} requests a day"
    if change.ends:
        return f"“{before}” ends at {where}: beyond this, too few visitors for their quotas."
    return f"From {where} on, “{after}” costs less than “{before}”: {usd(change.usd_per_month)} a month there."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


SAVING_NAMES = {
    "provider": "Pay per token",
    "zerogpu": "ZeroGPU",
    "more_at_once": "More requests at a time",
    "cheaper_tier": "A cheaper tier",
    "l4_over_a10g": "L4 instead of A10G",
    "fp8": "Weights in fp8",
    "int8": "Weights in eight bits",
    "int4": "Weights in four bits",
    "shorter_context": "A shorter context",
    "smaller_batch": "Fewer requests at a time",
    "cache_precision": "A smaller cache format",
    "sleep": "Sleep between requests",
    "development_tier": "A smaller tier while developing",
}
SAVING = {
    "provider": "Pay {provider} per token instead of renting hardware",
    "zerogpu": "Host it on ZeroGPU ({size}): visitors spend their own quota, {requests_per_visitor!s} such requests each a day",
    "more_at_once": "Serve {at_once!s} requests at a time with {engine} on {offer} instead of renting more replicas",
    "cheaper_tier": "Move to {offer}, which holds the model unchanged",
    "l4_over_a10g": "Use the L4 ({offer}) instead of the A10G: the same memory for less",
    "fp8": "Store the weights in fp8 ({precision}) and move to {offer}",
    "int8": "Store the weights in eight bits ({precision}) and move to {offer}",
    "int4": "Store the weights in four bits ({precision}) and move to {offer}",
    "shorter_context": "Limit the context to {context_tokens!s} tokens and move to {offer}",
    "smaller_batch": "Serve {batch_size!s} requests at a time and move to {offer}",
    "cache_precision": "Store the KV cache in {kv_precision} and move to {offer}",
    "sleep": "Let it sleep after {sleep_after_s:f} s without requests (it wakes {wakes_per_day:.1f} times a day)",
    "development_tier": "Develop on {offer} in four bits, {hours_per_month:f} hours a month (a working week, if you stated none)",
}
GAINS = {
    "compute": "On the same card it is faster too: it multiplies this format natively, and the work is limited by compute.",
    "bandwidth": "On the same card it makes tokens faster too: fewer bytes are read per token, and the engine reads the packed weights.",
    "memory_only": "It saves memory only; it is not faster.",
}
SACRIFICES = {
    "provider": "The provider sets speed and limits, and your requests go there.",
    "zerogpu": "Visitors wait for a free card, and their daily quota limits them.",
    "more_at_once": "Each answer is written more slowly, as requests share the card.",
    "fp8": "Answers change a little.",
    "int8": "Answers change a little.",
    "int4": "Answers get measurably worse: try it on your own task.",
    "shorter_context": "Longer requests are refused.",
    "smaller_batch": "Other requests wait.",
    "cache_precision": "Answers change a little, most at long context.",
    "sleep": "The request that wakes it waits for the start-up.",
    "development_tier": "Only while you work on it; its answers are those of a four-bit model.",
}
"""What a way gives up, in words: no figure is claimed where none was measured."""
NO_SAVING = {
    "price_unknown": "no price per token is known",
    "traffic_not_stated": "state the requests per day to judge it",
    "not_for_this_account": "this account cannot host it",
    "not_on_this_platform": "it is not offered on this platform",
    "one_replica_serves": "one replica serves the traffic",
    "does_not_fit": "the model does not fit",
    "quota_too_small": "one request takes more than a visitor's daily quota",
    "none_holds_it": "no cheaper tier holds the model",
    "no_cheaper_tier": "it would not allow cheaper hardware",
    "engine_lacks_format": "the engine does not load this format",
    "already_as_small": "it is already that small",
    "stored_file": "a GGUF file is run as it is stored; name a smaller file of the repository instead",
    "costs_as_much": "it costs as much or more",
}


def saving_step(saving: Saving) -> str:
    """What to do, without what it saves."""
    offer = "" if saving.offer is None else saving.offer.id
    return fill(SAVING[saving.code], {**saving.values, "offer": offer})


def saving_effect(saving: Saving) -> str:
    """What it costs in quality and what it does to speed, "" for nothing."""
    effects = [SACRIFICES.get(saving.code, "")] + ([] if saving.gain is None else [GAINS[saving.gain]])
    ratio = saving.speed_ratio
    shown_ratio = ratio is not None and not (saving.gain == "memory_only" and ratio > 1)
    if shown_ratio and not 0.95 < (ratio or 1.0) < 1.05:  # noqa: PLR2004  a twentieth is within the datasheets' own error
        how = "By the datasheets it makes at most" if saving.ratio_is_bound else "A request is written at"
        times = "times the tokens per second" if saving.ratio_is_bound else "times today's tokens per second"
        effects.append(f"{how} {ratio:.2g} {times}.")
    return " ".join(effect for effect in effects if effect)


def no_saving_sentence(no_saving: NoSaving) -> str:
    """Why a way saves nothing here."""
    freed = "" if not no_saving.freed_bytes else f" It would free {gib(no_saving.freed_bytes)}."
    return f"{_capital(NO_SAVING[no_saving.reason])}.{freed}"
