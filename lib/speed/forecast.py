"""The laws of speed put together: from cases and constants to times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.laws.speed.achieved import achieved_bandwidth, achieved_compute
from lib.laws.speed.admitted import admitted
from lib.laws.speed.cache_read import cache_read
from lib.laws.speed.exchange_time import exchange_time
from lib.laws.speed.host_time import host_time
from lib.laws.speed.quantity import Array, Quantity
from lib.laws.speed.serving import between_tokens, decoding, first_token
from lib.laws.speed.step_time import device_time, step_time
from lib.laws.speed.weights_read import share_reached, weights_read
from lib.laws.speed.work import attention_flop, linear_flop
from lib.speed.cases import Cases
from lib.speed.ceilings import with_reached
from lib.speed.constants import ADMITTED, CLASSES, ENGINES, FORMS, Constants

_LIMITS = np.array([ADMITTED.get(name, 256) for name in ENGINES], dtype=np.float64)
_UNRECORDED = np.array([name.endswith("-experts") for name in FORMS])  # kernels that no engine measured runs from a recorded graph
_MATRIX_UNITS = np.array([float(name != "cpu") for name in CLASSES])  # vector units lose nothing on few rows
_NOTHING_LOST = np.zeros(len(CLASSES) + 1)
_MANY = 1e9  # rows at which nothing is lost
_CHUNK = 512.0  # llama.cpp feeds a prompt to its stages in micro-batches of this many tokens
_MEAN_FILL = 0.6  # of an answer, in the cache of an engine at full load


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What does not change from step to step: rates that are reached, and host times."""

    bandwidth: Array
    cache_bandwidth: Array
    compute_logit: Array
    layer_s: Array
    unpacking: Array
    latency_s: Array
    link: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One forward pass: its time and the parts."""

    total: Array
    weights: Array
    cache: Array
    compute: Array
    host: Array
    exchange: Array


def rates(c: Cases, k: Constants) -> Rates:
    """Rates reached in each case."""
    by_class = with_reached(k.bandwidth_class)
    base = k.bandwidth[0] + k.bandwidth_engine[c.engine]
    slower = np.where(c.bus, np.exp(k.exchange_bus[0]), 1.0) * np.where(c.row_split, np.exp(k.exchange_rows[0]), 1.0)
    unpacking = np.where(c.eager | _UNRECORDED[c.form], np.exp(k.eager_form[c.form]), 1.0) * np.where(
        c.experts > 0, np.exp(k.experts_host[0]), 1.0
    )
    return Rates(
        bandwidth=achieved_bandwidth(by_class=c.bandwidth, logit=base + k.bandwidth_form[c.form], class_logit=by_class),
        cache_bandwidth=achieved_bandwidth(by_class=c.bandwidth, logit=np.full(len(c), k.bandwidth[0] + k.cache[0]), class_logit=by_class),
        compute_logit=k.compute[0] + k.compute_engine[c.engine] + k.compute_form[c.form],
        layer_s=np.exp(k.layer_s[c.engine]),
        unpacking=unpacking,
        latency_s=np.exp(k.exchange_s[0]) * slower,
        link=c.link * np.exp(k.exchange_share[0]),
    )


def stored(c: Cases, length: Quantity) -> Quantity:
    """Bytes of cache of one sequence of this length."""
    return cache_read(
        constant=c.cache_constant, per_token=c.cache_per_token, windowed_per_token=c.cache_windowed, window=c.window, tokens=length
    )


def forward(c: Cases, k: Constants, r: Rates, tokens: Quantity, length: Quantity, sequences: Quantity) -> Step:
    """One pass over `tokens` tokens of `sequences` sequences whose caches hold `length` tokens each."""
    reached = share_reached(experts=c.experts, per_token=c.per_token, tokens=tokens)
    weights = weights_read(dense_bytes=c.dense_bytes, expert_bytes=c.expert_bytes, reached=reached) / c.split / r.bandwidth
    held = stored(c, np.where(c.static > 0, c.static, length))
    cache = np.where(np.asarray(length) > 0, sequences * held / np.minimum(c.split, c.cache_split) / r.cache_bandwidth, 0.0)
    speed = achieved_compute(
        by_class=c.compute,
        logit=r.compute_logit,
        class_logit=with_reached(k.compute_class),
        rows=np.broadcast_to(np.asarray(tokens, dtype=np.float64), len(c)),
        half_rows=np.append(np.exp(k.rows_half[0] + k.rows_half_class) * _MATRIX_UNITS, 0.0),
    )
    compute = linear_flop(parameters=c.active, tokens=tokens) / c.split / speed
    host = host_time(
        layers=c.layers,
        layer_s=r.layer_s,
        step_s=np.exp(k.step_s[c.engine]),
        sequence_s=np.exp(k.sequence_s[c.engine]),
        sequences=sequences,
        factor=r.unpacking,
    )
    exchange = exchange_time(layers=c.layers, devices=c.split, tokens=tokens, hidden=c.hidden, latency_s=r.latency_s, link=r.link)
    device = device_time(weights_s=weights, compute_s=compute, cache_s=cache)
    total = step_time(device_s=device, host_s=host, exchange_s=exchange, eager=c.eager)
    return Step(total=total, weights=weights, cache=cache, compute=compute, host=np.asarray(host), exchange=exchange)


def attention_time(c: Cases, k: Constants, r: Rates, sequences: Quantity) -> Array:
    """Seconds of attention over the prompts."""
    flop = attention_flop(width=c.width, full_layers=c.full_layers, windowed_layers=c.windowed_layers, window=c.window, tokens=c.prompt)
    speed = achieved_compute(
        by_class=c.compute,
        logit=r.compute_logit,
        class_logit=with_reached(k.compute_class),
        rows=np.full(len(c), _MANY),
        half_rows=_NOTHING_LOST,
    )
    rate: Array = np.asarray(sequences) * flop / c.split / (speed * np.exp(k.attention[0]))
    return rate


def prefill(c: Cases, k: Constants, r: Rates, sequences: Quantity) -> tuple[Array, Step, Array]:
    """Seconds in which the prompts of `sequences` are read, with the matrices' step and the attention in it."""
    tokens = np.maximum(sequences * c.prompt, 1.0)
    step = forward(c, k, r, tokens, 0.0, sequences)
    attention = attention_time(c, k, r, sequences)
    chunks = np.maximum(1.0, tokens / _CHUNK)
    staged = np.where(c.staged, (chunks + c.stages - 1.0) / chunks / c.stages, 1.0)
    return (step.total + attention) * staged, step, attention


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Times in seconds. `step` is a decode step with the whole batch; `served_*` are means in a closed loop."""

    step: Step
    prompt: Array
    prompt_step: Step
    prompt_attention: Array
    request: Array
    served_step: Array
    served_running: Array
    served_first: Array
    served_between: Array


def forecast(c: Cases, k: Constants) -> Forecast:
    """Everything about each case, at the batch it names."""
    r = rates(c, k)
    batch = c.batch / c.copies
    mean = c.prompt + c.answer / 2.0
    whole, prompt_step, attention = prefill(c, k, r, batch)
    step = forward(c, k, r, batch, mean, batch)
    one, _, _ = prefill(c, k, r, 1.0)
    busy = decoding(requests=batch, prompt_s=one, step_s=step.total, answer=c.answer)
    served = forward(c, k, r, busy, mean, busy)
    token = between_tokens(step_s=served.total, prompt_s=one, requests=batch, answer=c.answer, interruption=np.exp(k.interruption[0]))
    first = first_token(
        prompt_s=one,
        requests=batch,
        queued=np.exp(k.queued[0]),
        token_s=token,
        steps=np.exp(k.steps_waited[0]),
        fixed_s=np.exp(k.first_s[c.engine]),
    )
    return Forecast(
        step=step,
        prompt=whole,
        prompt_step=prompt_step,
        prompt_attention=attention,
        request=np.exp(k.request_s[c.engine]),
        served_step=served.total,
        served_running=busy,
        served_first=np.asarray(first),
        served_between=np.asarray(token),
    )


def full_load(c: Cases, k: Constants) -> Array:
    """Generated tokens per second when more requests wait than the engine takes; prompts are read in full chunks between steps."""
    r = rates(c, k)
    sequence = stored(c, c.prompt + c.answer * _MEAN_FILL)
    batch = admitted(
        limit=_LIMITS[c.engine], memory=c.memory * c.split * c.stages, weight_bytes=c.dense_bytes + c.expert_bytes, sequence_bytes=sequence
    )
    step = forward(c, k, r, batch, c.prompt + c.answer / 2.0, batch)
    flop = linear_flop(parameters=c.active, tokens=c.prompt) + attention_flop(
        width=c.width, full_layers=c.full_layers, windowed_layers=c.windowed_layers, window=c.window, tokens=c.prompt
    )
    speed = achieved_compute(
        by_class=c.compute,
        logit=r.compute_logit,
        class_logit=with_reached(k.compute_class),
        rows=np.full(len(c), _MANY),
        half_rows=_NOTHING_LOST,
    )
    per_request = flop / c.split / speed + c.answer * step.total / batch
    rate: Array = c.copies * c.stages * c.answer / per_request * np.exp(k.full_load[0])
    return rate
