"""The longest context and the most requests of a model on hardware, within limits on the first token and on speed.

    longest context     the most tokens of each of `requests` sequences
    most requests       the most sequences of `context_tokens` that run at once, within the limits and the engine's max_num_seqs
    largest batch       the same by memory alone
    best precision      the first of as stored, eight and four bits that fits and keeps the limits

Memory counts every sequence at its full length (`lib.memory`), speed is that of requests that fill the context: prompts of the context
without the answer (`lib.speed`). Both grow with length and with requests, except for requests of a few tokens. So a bisection finds the
largest value that keeps the limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lib.advisor.candidates import explain_failure, family_of, list_forms, task_of
from lib.advisor.setup import ServingConfig, on_zerogpu
from lib.engines import traits_of
from lib.engines.traits import Setting
from lib.errors import BadArgument
from lib.memory import find_largest
from lib.provenance import Reason
from lib.request.serving import drop_settings
from lib.speed import SpeedEstimate

LimitedBy = Literal["memory", "model", "engine", "ttft", "speed", "zerogpu", "support", "nothing"] | Setting
"""The limit that one more would exceed: one of these, or a setting that the caller stated."""
LONGEST_CONTEXT = 10_000_000
_PARTS = 10**9  # shares of a limit are counted in billionths, because the bisection compares whole numbers
_HELD_AT_START: tuple[Setting, ...] = ("max_model_len", "ctx_size", "parallel", "kv_cache_memory_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class SLO:
    """Limits on the seconds to the first token and on the tokens per second of a request; 0 sets none."""

    max_ttft_s: float = 0.0
    min_tokens_per_s: float = 0.0

    @property
    def any_set(self) -> bool:
        """Whether there is any."""
        return self.max_ttft_s > 0 or self.min_tokens_per_s > 0

    def limit_usage(self, speed: SpeedEstimate) -> tuple[float, float]:
        """How much of each limit is used: above 1 it is missed."""
        rate = speed.decode_tokens_per_s
        first = speed.ttft_s.value / self.max_ttft_s if self.max_ttft_s > 0 else 0.0
        return first, self.min_tokens_per_s / rate.value if self.min_tokens_per_s > 0 and rate is not None else 0.0

    def missed_limit(self, speed: SpeedEstimate | None) -> LimitedBy | None:
        """The limit that is missed; without a prediction none is."""
        if speed is None:
            return None
        first, rate = self.limit_usage(speed)
        return "ttft" if first > 1 else "speed" if rate > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest possible value (0: not even one, None: unbounded), and the limit that one more would exceed."""

    value: int | None
    limited_by: LimitedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionTry:
    """One precision: whether it fits and which limit it misses, bytes of a device, and the prediction."""

    precision: str
    fits: bool
    missed_limit: LimitedBy | None
    weights_bytes: int
    per_device_bytes: int
    speed: SpeedEstimate | None


def find_failure(config: ServingConfig) -> Reason | None:
    """That the model is known to fail here, by tests or reports (as in `/compare_gpu_tpu`); memory does not help then."""
    return explain_failure(config.spec, config.engine, config.hardware)


def find_longest_context(config: ServingConfig, slo: SLO) -> Limit:
    """The most tokens of each sequence, as many sequences as are asked for."""
    if find_failure(config) is not None:
        return Limit(value=0, limited_by="support")
    fits, model = config.fit().max_context_tokens, config.spec.context_limit
    if fits == 0:
        return Limit(value=0, limited_by=_find_blocker(config))
    bounds = [] if model is None else [Limit(value=model, limited_by="model")]
    if (stated := config.serving.limit_tokens(config.memory_request.batch_size)) is not None:
        bounds.append(Limit(value=stated[1], limited_by=stated[0]))
    most = next((bound for bound in bounds if bound.value == fits), Limit(value=fits, limited_by="nothing" if fits is None else "memory"))
    return _within(most, config, "context_tokens", slo, LONGEST_CONTEXT)


def _find_blocker(config: ServingConfig) -> LimitedBy:
    """The reason that nothing fits: a setting for which the cache has to have room at start, or the memory."""
    for setting in _HELD_AT_START:
        if setting in config.serving.stated and replace(config, serving=drop_settings(config.serving, setting)).fit().fits:
            return setting
    return "memory"


_FEWER = (8, 4, 2, 1)


def find_fewer_cards(config: ServingConfig, slo: SLO) -> tuple[int, SpeedEstimate] | None:
    """The most of fewer cards that meet the limits that all of them miss, and the speed there; None if the limits are met or nowhere.

    Results that cards exchange can take longer than the work they share.
    """
    stated = config.serving.sets_devices or "tensor_parallel" not in traits_of(config.engine).settings
    if stated or not config.fit().fits or slo.missed_limit(config.predict()) is None:
        return None
    for count in (count for count in _FEWER if count < config.devices):
        fewer = replace(config, devices=count, copies=1, serving=replace(config.serving, tensor_parallel=count))
        speed = fewer.predict() if fewer.fit().fits else None
        if speed is not None and slo.missed_limit(speed) is None:
            return count, speed
    return None


def find_largest_batch(config: ServingConfig) -> Limit:
    """The most sequences of this length that all copies hold, at any speed."""
    if find_failure(config) is not None:
        return Limit(value=0, limited_by="support")
    stated = config.serving.limit_sequences(config.context_tokens)
    if stated is not None and (most := stated[1] * config.copies) and replace(config, requests=most).fit().fits:
        return Limit(value=most, limited_by=stated[0])
    each = config.fit().max_batch_size
    if each == 0:
        return Limit(value=0, limited_by=_find_blocker(config))
    return Limit(value=None if each is None else each * config.copies, limited_by="nothing" if each is None else "memory")


def find_most_requests(config: ServingConfig, slo: SLO) -> Limit:
    """The most requests that run at once within the limits."""
    batch, traits = find_largest_batch(config), traits_of(config.engine)
    if batch.value == 0:
        return batch
    if on_zerogpu(config.hardware):
        return _within(Limit(value=1, limited_by="zerogpu"), config, "requests", slo, 1)
    slots = config.copies * traits.max_num_seqs
    stated = config.serving.limit_sequences(config.context_tokens)
    if stated is None and not traits.eager and (batch.value is None or batch.value > slots):
        batch = Limit(value=slots, limited_by="engine")
    return _within(batch, config, "requests", slo, config.copies * 4096)


def _within(most: Limit, config: ServingConfig, name: Literal["context_tokens", "requests"], slo: SLO, endless: int) -> Limit:
    """The largest value up to `most` that keeps the limits, and which of them one more would miss.

    The bound is halved until a value keeps the limits; a bisection between this value and the one before it finds the largest. The search
    does not begin at 1, because many requests of a few tokens are slower than fewer longer ones: each has a prompt.
    """

    def predict(value: int) -> SpeedEstimate | None:
        return (replace(config, context_tokens=value) if name == "context_tokens" else replace(config, requests=value)).predict()

    if not slo.any_set:
        return most
    bound = endless if most.value is None else most.value
    if slo.missed_limit(predict(bound)) is None:
        return most

    def used_parts(value: int) -> int:
        speed = predict(value)
        return 0 if speed is None else int(min(max(slo.limit_usage(speed)), _PARTS) * _PARTS)  # a limit near 0 makes it infinite

    halves = [bound >> times for times in range(bound.bit_length())]
    first_met = next((place for place, value in enumerate(halves) if used_parts(value) <= _PARTS), None)
    if first_met is None:
        return Limit(value=0, limited_by=slo.missed_limit(predict(1)) or "ttft")
    below, above = halves[first_met], halves[first_met - 1]
    value = below + find_largest(lambda more: used_parts(below + more), _PARTS, above - below)
    return Limit(value=value, limited_by=slo.missed_limit(predict(value + 1)) or "ttft")


def try_precisions(config: ServingConfig, slo: SLO) -> tuple[PrecisionTry, ...]:
    """The stated precision (or as stored), then the smaller ones that the advisor would try, largest first."""
    silicon = None if config.silicon.kind == "cpu" else config.silicon
    forms, _ = list_forms(config.spec, family_of(task_of("auto", config.spec)), silicon, config.engine, "auto", ())
    tries: list[PrecisionTry] = []
    for name in dict.fromkeys((config.precision, *(name for name, _, _ in forms))):
        tried = replace(config, precision=name)
        try:
            memory, speed = tried.estimate(), tried.predict()
        except BadArgument:  # the engine does not load it
            continue
        if any(memory.precision == each.precision for each in tries) or (tries and memory.weights.bytes >= tries[0].weights_bytes):
            continue
        tries.append(
            PrecisionTry(
                precision=memory.precision, fits=tried.fit().fits, missed_limit=slo.missed_limit(speed), speed=speed,
                weights_bytes=memory.weights.bytes, per_device_bytes=memory.per_device_bytes,
            )
        )  # fmt: skip
    return tuple(sorted(tries, key=lambda each: -each.weights_bytes))


def best_precision(tries: tuple[PrecisionTry, ...]) -> str | None:
    """The one with most bytes that fits and misses no limit."""
    return next((each.precision for each in tries if each.fits and each.missed_limit is None), None)


def find_roomiest(config: ServingConfig, tries: tuple[PrecisionTry, ...], slo: SLO) -> tuple[str, int] | None:
    """The precision with the longest context of those that fit, and that context; of equal ones the one with most bytes."""
    lengths = {
        each.precision: find_longest_context(replace(config, precision=each.precision), slo).value
        for each in tries
        if each.fits and each.missed_limit is None
    }
    bounded = {precision: LONGEST_CONTEXT if length is None else length for precision, length in lengths.items()}
    return max(bounded.items(), key=lambda item: item[1], default=None)
