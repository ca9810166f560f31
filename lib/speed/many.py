"""Many questions at once: the same laws and constants as for one, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lib.laws.speed.floor import floor
from lib.laws.speed.quantity import Array, Quantity
from lib.laws.speed.serving import waiting
from lib.laws.speed.weights_read import share_reached, weights_read
from lib.laws.speed.work import linear_flop
from lib.speed.case import Question, Setup, cases, rows, setup
from lib.speed.cases import Cases
from lib.speed.ceilings import card_class, peak
from lib.speed.constants import Fitted, fitted
from lib.speed.forecast import Forecast, Step, forecast, stored

STATIC = frozenset({"transformers", "host", "llama.cpp"})
"""Engines that start a batch together; the others take every request as soon as there is a place."""
UNMEASURED = 1.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Values with the ends of their ranges."""

    value: Array
    low: Array
    high: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Answers to many questions, in their order; arrays of n entries. Seconds, and tokens per second.

    `between_s` is NaN where nothing is decoded. `bound` is one of "bandwidth", "compute", "overhead". `setups`, `cases` and `forecast`
    are what the numbers came from.
    """

    first_s: Bands
    between_s: Bands
    throughput: Bands
    bound: list[str]
    setups: list[Setup]
    cases: Cases
    forecast: Forecast
    encoder_s: Array


def floors(of: Sequence[Setup], c: Cases, tokens: Quantity, sequences: Quantity, length: Quantity) -> Array:
    """Datasheet floors of a pass in each case; 0 where the rates were reached on the machine, for those are no ceilings."""
    reached = share_reached(experts=c.experts, per_token=c.per_token, tokens=tokens)
    moved = weights_read(dense_bytes=c.dense_bytes, expert_bytes=c.expert_bytes, reached=reached)
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


def _bands(value: Array, spread: Array, least: Array) -> Bands:
    """A time with its range; nothing is below the floor."""
    value = np.maximum(value, least)
    return Bands(value=value, low=np.maximum(value * np.exp(-spread), least), high=value * np.exp(spread))


def bounds(step: Step, decodes: Array, prompt: Step, attention: Array) -> list[str]:
    """What takes most of the time: of a decode step, or of the prompt where nothing is decoded."""
    names = np.array(["bandwidth", "compute", "overhead"])
    table = []
    for part, extra in ((step, np.zeros_like(attention)), (prompt, attention)):
        table.append(np.stack([part.weights + part.cache, part.compute + extra, part.host + part.exchange]))
    chosen = np.where(decodes > 0, table[0].argmax(axis=0), table[1].argmax(axis=0))
    return [str(name) for name in names[chosen]]


def speeds(questions: Sequence[Question]) -> Speeds:
    """Answer many questions.

    Raises:
        BadArgument: as `lib.speed.speed`, for the first question that cannot be answered.
        UnknownHardware: the same.
        UnsupportedModel: the same.
    """
    held = fitted()
    of = [setup(q) for q in questions]
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
    return Speeds(
        first_s=_bands(times.first, _spread(of, held, "first"), times.least_first),
        between_s=_bands(np.where(decodes > 0, times.between, np.nan), _spread(of, held, "between"), times.least_between),
        throughput=Bands(value=produced / whole.value, low=produced / whole.high, high=produced / whole.low),
        bound=bounds(f.step, decodes, f.prompt_step, f.prompt_attention),
        setups=of,
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
    first = first + waiting(requests=asked, running=c.batch, first_s=first, token_s=between * decodes, answer=c.answer)
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
