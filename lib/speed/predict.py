"""The laws of speed put together: from cases and constants to times.

Many questions at once: the same laws and constants as for one, as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lib.catalog.silicon import Accelerator
from lib.laws.forward_pass import (
    Array,
    Quantity,
    achieved_bandwidth,
    achieved_compute,
    all_reduce_time,
    attention_flop,
    cache_bytes_read,
    device_time,
    expert_share,
    launch_overhead,
    linear_flop,
    pipeline_share,
    step_time,
    weight_bytes_read,
)
from lib.laws.roofline import floor
from lib.laws.serving import (
    decoding_requests,
    full_load_throughput,
    queue_time,
    running_requests,
    time_per_output_token,
    time_to_first_token,
)
from lib.speed.batch import Cases, Question, Setup, cases, rows, setup
from lib.speed.constants import ADMITTED, CLASSES, ENGINES, FORMS, Constants, Fitted, fitted
from lib.speed.hardware import card_class, peak, with_reached
from lib.speed.result import Band, Bound, SpeedEstimate, SpeedFloor
from lib.units import Seconds, TokensPerSecond

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
    return cache_bytes_read(
        constant=c.cache_constant, per_token=c.cache_per_token, windowed_per_token=c.cache_windowed, window=c.window, tokens=length
    )


def forward(c: Cases, k: Constants, r: Rates, tokens: Quantity, length: Quantity, sequences: Quantity) -> Step:
    """One pass over `tokens` tokens of `sequences` sequences whose caches hold `length` tokens each."""
    reached = expert_share(experts=c.experts, per_token=c.per_token, tokens=tokens)
    weights = weight_bytes_read(dense_bytes=c.dense_bytes, expert_bytes=c.expert_bytes, expert_share=reached) / c.split / r.bandwidth
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
    host = launch_overhead(
        layers=c.layers,
        layer_s=r.layer_s,
        step_s=np.exp(k.step_s[c.engine]),
        sequence_s=np.exp(k.sequence_s[c.engine]),
        sequences=sequences,
        factor=r.unpacking,
    )
    exchange = all_reduce_time(layers=c.layers, devices=c.split, tokens=tokens, hidden=c.hidden, latency_s=r.latency_s, link=r.link)
    device = device_time(weights_s=weights, compute_s=compute, cache_s=cache)
    total = step_time(device_s=device, launch_s=host, all_reduce_s=exchange, eager=c.eager)
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
    staged = np.where(c.staged, pipeline_share(chunks=chunks, stages=c.stages), 1.0)
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
    busy = decoding_requests(requests=batch, prompt_s=one, step_s=step.total, output_tokens=c.answer)
    served = forward(c, k, r, busy, mean, busy)
    tpot = time_per_output_token(
        step_s=served.total, prompt_s=one, requests=batch, output_tokens=c.answer, interference=np.exp(k.interruption[0])
    )
    ttft = time_to_first_token(
        prompt_s=one,
        requests=batch,
        queued=np.exp(k.queued[0]),
        tpot_s=tpot,
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
        served_first=np.asarray(ttft),
        served_between=np.asarray(tpot),
    )


def full_load(c: Cases, k: Constants) -> Array:
    """Generated tokens per second when more requests wait than the engine takes; prompts are read in full chunks between steps."""
    r = rates(c, k)
    sequence = stored(c, c.prompt + c.answer * _MEAN_FILL)
    batch = running_requests(
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
    each = full_load_throughput(prompt_s=flop / c.split / speed, step_s=step.total, running=batch, output_tokens=c.answer)
    rate: Array = c.copies * c.stages * each * np.exp(k.full_load[0])
    return rate


STATIC = frozenset({"transformers", "host", "llama.cpp"})
"""Engines that start a batch together; the others take every request as soon as there is a place."""
UNMEASURED = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class BandColumn:
    """Bands of n questions: three arrays of n entries."""

    value: Array
    low: Array
    high: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTable:
    """Estimates of n questions in their order, as arrays of n entries; times in seconds, rates per second (see `SpeedEstimate`).

    `tpot_s` is NaN where nothing is decoded. `least_ttft_s` and `least_tpot_s` are the datasheet's floors. `setups`, `cases`, `forecast`
    and `encoder_s` are what the numbers came from.
    """

    ttft_s: BandColumn
    tpot_s: BandColumn
    throughput_tokens_per_s: BandColumn
    least_ttft_s: Array
    least_tpot_s: Array
    bound: list[Bound]
    setups: list[Setup]
    cases: Cases
    forecast: Forecast
    encoder_s: Array

    def estimates(self) -> list[SpeedEstimate]:
        """The rows, each as one estimate."""
        columns = (self.ttft_s, self.tpot_s, self.throughput_tokens_per_s)
        ttft, tpot, throughput = (list(zip(c.value.tolist(), c.low.tolist(), c.high.tolist(), strict=True)) for c in columns)
        least = zip(self.least_ttft_s.tolist(), self.least_tpot_s.tolist(), strict=True)
        rows = zip(self.setups, ttft, tpot, throughput, self.bound, least, strict=True)
        return [_estimate(*row) for row in rows]


_Ends = tuple[float, float, float]


def _estimate(of: Setup, ttft: _Ends, tpot: _Ends, throughput: _Ends, bound: Bound, least: tuple[float, float]) -> SpeedEstimate:
    decodes = of.numbers.decoder is not None
    return SpeedEstimate(
        request=of.request,
        ttft_s=Band(value=Seconds(ttft[0]), low=Seconds(ttft[1]), high=Seconds(ttft[2])),
        tpot_s=Band(value=Seconds(tpot[0]), low=Seconds(tpot[1]), high=Seconds(tpot[2])) if decodes else None,
        throughput_tokens_per_s=Band(
            value=TokensPerSecond(throughput[0]), low=TokensPerSecond(throughput[1]), high=TokensPerSecond(throughput[2])
        ),
        bound=bound,
        floor=SpeedFloor(ttft_s=Seconds(least[0]), tpot_s=Seconds(least[1]) if decodes else None),
    )


def floors(of: Sequence[Setup], c: Cases, tokens: Quantity, sequences: Quantity, length: Quantity) -> Array:
    """Datasheet floors of a pass in each case; 0 where the rates were reached on the machine, for those are no ceilings."""
    reached = expert_share(experts=c.experts, per_token=c.per_token, tokens=tokens)
    moved = weight_bytes_read(dense_bytes=c.dense_bytes, expert_bytes=c.expert_bytes, expert_share=reached)
    least = floor(
        read_bytes=moved + np.multiply(sequences, stored(c, length)) * np.greater(length, 0),
        flop=linear_flop(parameters=c.active, tokens=tokens),
        devices=c.split * np.where(c.staged, c.stages, 1.0),
        bandwidth=np.array([s.on.silicon.bandwidth * s.on.share for s in of]),
        peak=np.array([peak(s.on.silicon, s.arithmetic) * s.on.share for s in of]),
    )
    return np.where([s.on.silicon.reached for s in of], 0.0, least)


def _spread(of: Sequence[Setup], held: Fitted, quantity: str) -> Array:
    """Half the width of the range in ln: by engine, wider where the engine was never measured on such a card."""
    found = {}
    for s in of:
        key = (s.laid.engine, s.on.silicon.id)
        if key not in found:
            measured = (s.laid.engine, card_class(s.on.silicon)) in held.measured
            found[key] = held.spread[quantity][s.laid.engine] * (1.0 if measured else UNMEASURED)
    return np.array([found[s.laid.engine, s.on.silicon.id] for s in of])


def _bands(value: Array, spread: Array, least: Array) -> BandColumn:
    """A time with its range; nothing is below the floor."""
    value = np.maximum(value, least)
    return BandColumn(value=value, low=np.maximum(value * np.exp(-spread), least), high=value * np.exp(spread))


def bounds(step: Step, decodes: Array, prompt: Step, attention: Array) -> list[Bound]:
    """What takes most of the time: of a decode step, or of the prompt where nothing is decoded."""
    names: tuple[Bound, ...] = ("bandwidth", "compute", "overhead")
    table = []
    for part, extra in ((step, np.zeros_like(attention)), (prompt, attention)):
        table.append(np.stack([part.weights + part.cache, part.compute + extra, part.host + part.exchange]))
    chosen = np.where(decodes > 0, table[0].argmax(axis=0), table[1].argmax(axis=0))
    return [names[which] for which in chosen.tolist()]


def predict_speeds(questions: Sequence[Question], accelerators: Mapping[str, Accelerator]) -> SpeedTable:
    """Estimate many questions at once: the same laws and constants as for one, on arrays. `accelerators` are the catalog's.

    Raises:
        BadArgument: as `lib.speed.predict_speed`, for the first question that has no answer.
        UnknownHardware: the same.
        UnsupportedModel: the same; pipelines that make pictures are asked about one by one.
    """
    return predict_setups([setup(question, accelerators) for question in questions])


def predict_setups(of: Sequence[Setup]) -> SpeedTable:
    """Estimate questions of which everything is decided."""
    held = fitted()
    pairs = [rows(s) for s in of]
    c = cases(of, [pair[0] for pair in pairs])
    f = forecast(c, held.constants)
    ahead = _encoders(of, [pair[1] for pair in pairs], held)
    decodes = np.array([s.numbers.decoder is not None for s in of], dtype=np.float64)
    times = _times(of, c, f, ahead, decodes)
    asked = np.array([float(s.request.concurrency) for s in of])
    produced = asked * np.where(decodes > 0, c.answer, c.prompt)
    least = (times.least_first + times.least_between * c.answer * decodes) * asked / c.batch
    whole = _bands(times.first + times.between * c.answer * decodes, _spread(of, held, "throughput"), least)
    return SpeedTable(
        ttft_s=_bands(times.first, _spread(of, held, "first"), times.least_first),
        tpot_s=_bands(np.where(decodes > 0, times.between, np.nan), _spread(of, held, "between"), times.least_between),
        throughput_tokens_per_s=BandColumn(value=produced / whole.value, low=produced / whole.high, high=produced / whole.low),
        least_ttft_s=times.least_first,
        least_tpot_s=times.least_between,
        bound=bounds(f.step, decodes, f.prompt_step, f.prompt_attention),
        setups=list(of),
        cases=c,
        forecast=f,
        encoder_s=ahead,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """Seconds to the first token and between tokens, waiting included, and what the datasheet allows for them."""

    first: Array
    between: Array
    least_first: Array
    least_between: Array


def _times(of: Sequence[Setup], c: Cases, f: Forecast, ahead: Array, decodes: Array) -> _Times:
    """Times as the engine serves: all requests together as one batch, or each as soon as there is a place."""
    together = np.array([s.laid.engine in STATIC for s in of]) | (decodes == 0)
    asked = np.array([float(s.request.concurrency) for s in of])
    batch = c.batch / c.copies
    busy = np.where(together, batch, f.served_running)
    least_first = floors(of, c, c.prompt * np.where(together, batch, 1.0), 1.0, 0.0)
    least_between = floors(of, c, busy, busy, c.prompt + c.answer / 2)
    between = np.maximum(np.where(together, f.step.total, f.served_between), least_between)
    first = np.maximum(np.where(together, f.prompt + f.request, f.served_first) + ahead, least_first)
    first = first + queue_time(requests=asked, running=c.batch, ttft_s=first, tpot_s=between * decodes, output_tokens=c.answer)
    return _Times(first=first, between=between, least_first=least_first, least_between=least_between)


def _encoders(of: Sequence[Setup], held: Sequence[dict[str, float] | None], by: Fitted) -> Array:
    """Seconds of the encoders that run before decoders; 0 where there is none."""
    seconds = np.zeros(len(of))
    which = [i for i, row in enumerate(held) if row is not None]
    if which:
        chosen = [of[i] for i in which]
        c = cases(chosen, [row for row in held if row is not None])
        batch = c.batch / c.copies
        seconds[which] = np.maximum(forecast(c, by.constants).prompt, floors(chosen, c, c.prompt * batch, 1.0, 0.0))
    return seconds
