"""Predictions for many questions at once: the times of `lib.speed.timing` as an engine serves them, with ranges and datasheet floors.

Engines with a static batch start all requests together; the others take each as soon as there is a place. A range covers 85 % of the
measurements of models that the fit had not seen; no value and no end of a range is below what the datasheet allows.
ttft: time to first token. tpot: mean time per output token after the first, which benchmarks of servers also call inter-token latency.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from lib.catalog.silicon import Accelerator
from lib.engines import TRAITS
from lib.laws.forward_pass import Array, Quantity, linear_flop, roofline_seconds
from lib.laws.serving import MEAN_FILL, queue_time
from lib.memory.media import resolve_media
from lib.provenance import Caveat, Source
from lib.result import Result
from lib.speed.batch import (
    Columns,
    CostModelInputs,
    EngineConfig,
    SpeedQuestion,
    SpeedRequest,
    describe_passes,
    resolve_engine_config,
    tabulate,
)
from lib.speed.calibration import ENGINES, Calibration, load_calibration
from lib.speed.hardware import is_measured
from lib.speed.timing import ForwardPass, ServingTimes, bytes_moved, prompt_attention_flop, read_tokens, time_serving
from lib.units import Seconds, TokensPerSecond

Bound = Literal["bandwidth", "compute", "overhead", "transfer"]
Unit = Literal["tokens", "sequences", "pictures", "windows"]
End = Literal["value", "low", "high"]
Number_co = TypeVar("Number_co", bound=float, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(Generic[Number_co]):
    """A predicted quantity with the range that covers most measurements of its kind: low ≤ value ≤ high.

    >>> Interval(value=0.5, low=0.25, high=1.0).inverse
    Interval(value=2.0, low=1.0, high=4.0)
    """

    value: Number_co
    low: Number_co
    high: Number_co

    def at(self, end: End) -> Number_co:
        """The value or one end of the range."""
        return {"value": self.value, "low": self.low, "high": self.high}[end]

    @property
    def inverse(self) -> Interval[float]:
        """A time as a rate, or a rate as a time."""
        return Interval(value=1 / self.value, low=1 / self.high, high=1 / self.low)

    def times(self, factor: float) -> Interval[float]:
        """The band in another unit."""
        return Interval(value=self.value * factor, low=self.low * factor, high=self.high * factor)


def combine_bands(law: Callable[[float, float], Seconds], one: Interval[Seconds], other: Interval[Seconds]) -> Interval[Seconds]:
    """A time made of two others by a law that grows with both."""
    return Interval(value=law(one.value, other.value), low=law(one.low, other.low), high=law(one.high, other.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFloor:
    """The least time that the datasheet allows: no estimate and no end of its range is below it. 0 if the rates were measured."""

    ttft_s: Seconds
    tpot_s: Seconds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEstimate:
    """How fast requests of one shape run while `request.concurrency` of them are in flight.

    `ttft_s` is the time to the first token, and the time of the whole request if nothing is decoded (encoders, pictures); there `tpot_s`
    is `None`. `throughput_tokens_per_s` counts the tokens of all requests together: those generated, prompts included in the time; for
    encoders those read; `None` for pictures. `bound` names the largest part of a decode step (of the prompt if nothing is decoded);
    `transfer` is moving weights from host memory. `floor` is `None` if the datasheet sets none (pictures). Sound of `sound_s` seconds
    is read in `windows`,
    one after another, each with an answer of its own.
    `prefill_s` is how long the hardware is occupied by reading one prompt, without what the prompt waits for: a batch that starts together
    shares its time. `None` if no prompt is read (pictures).
    """

    request: SpeedRequest
    ttft_s: Interval[Seconds]
    tpot_s: Interval[Seconds] | None
    throughput_tokens_per_s: Interval[TokensPerSecond] | None
    bound: Bound
    floor: SpeedFloor | None
    windows: int = 1
    sound_s: float = 0.0
    prefill_s: Seconds | None = None

    @property
    def decode_tokens_per_s(self) -> Interval[float] | None:
        """Tokens per second of one request once its first token is there; `None` if nothing is decoded."""
        return None if self.tpot_s is None else self.tpot_s.inverse

    @property
    def output_tokens_per_s(self) -> Interval[TokensPerSecond] | None:
        """Generated tokens per second of all requests together; `None` if nothing is decoded."""
        return None if self.tpot_s is None else self.throughput_tokens_per_s

    @property
    def request_s(self) -> float:
        """Seconds of one request: the first token and the others."""
        return self.request_s_at("value")

    @property
    def real_time_factor(self) -> Interval[float] | None:
        """Seconds of sound that all requests together hear in a second; `None` without sound."""
        heard_s = self.sound_s * self.request.concurrency
        low, high = heard_s / self.request_s_at("high"), heard_s / self.request_s_at("low")
        return Interval(value=heard_s / self.request_s, low=low, high=high) if heard_s else None

    def request_s_at(self, end: End) -> float:
        """`request_s`, or one end of its range."""
        decoding_s = 0.0 if self.tpot_s is None else self.tpot_s.at(end) * (self.request.output_tokens - 1)
        return self.windows * (self.ttft_s.at(end) + decoding_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPart(Result):
    """One part of a time."""

    name: str
    """Name of the part."""
    seconds: float
    """Seconds that it adds; where two parts overlap, the shorter has what it adds."""
    law: str
    """The equation."""
    inputs: Mapping[str, str]
    """Symbols of the equation with their values."""
    source: str
    """Source of the equation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSpeed(SpeedEstimate):
    """A speed estimate with its evidence.

    `precision` and `engine` are the resolved ones, `running_requests` is how many requests the engine runs at once. `items_per_s` counts
    `unit`: sequences of an encoder, windows of half a minute of sound, pictures.
    `decode_parts` and `prompt_parts` are the parts of the time per output token and of the time to first token, which they add up to.
    """

    precision: str
    engine: str
    running_requests: float
    items_per_s: Interval[float] | None
    unit: Unit
    decode_parts: tuple[SpeedPart, ...]
    prompt_parts: tuple[SpeedPart, ...]
    caveats: tuple[Caveat, ...]
    sources: tuple[Source, ...]


STATIC_BATCH_ENGINES = frozenset({*(name for name, row in TRAITS.items() if row.static_batch), "host"})
"""Engines that start a batch together; the others take every request as soon as there is a place."""
UNMEASURED_WIDENING = 1.3
"""Factor on the width of a range where the engine was never measured on such a card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalColumn:
    """Bands of n questions: three arrays of shape (n,)."""

    value: Array
    low: Array
    high: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTable:
    """Estimates of n questions in their order; arrays of shape (n,), times in seconds, rates per second (see `SpeedEstimate`).

    `tpot_s` is NaN if nothing is decoded. `prefill_s` is as in `SpeedEstimate`.
    `least_ttft_s` and `least_tpot_s` are the datasheet's floors. `engine_configs`, `inputs`,
    `times` and `encoder_s` (seconds of an encoder that runs before a decoder) are what the numbers came from.
    """

    ttft_s: IntervalColumn
    tpot_s: IntervalColumn
    throughput_tokens_per_s: IntervalColumn
    prefill_s: Array
    least_ttft_s: Array
    least_tpot_s: Array
    bound: list[Bound]
    engine_configs: list[EngineConfig]
    inputs: CostModelInputs
    times: ServingTimes
    encoder_s: Array

    def estimates(self) -> list[SpeedEstimate]:
        """The rows, each as one estimate."""
        columns = (self.ttft_s, self.tpot_s, self.throughput_tokens_per_s)
        ttft, tpot, throughput = (list(zip(c.value.tolist(), c.low.tolist(), c.high.tolist(), strict=True)) for c in columns)
        least = zip(self.least_ttft_s.tolist(), self.least_tpot_s.tolist(), strict=True)
        rows = zip(self.engine_configs, ttft, tpot, throughput, self.bound, least, self.prefill_s.tolist(), strict=True)
        return [_estimate(*row) for row in rows]


_Ends = tuple[float, float, float]


def _estimate(
    config: EngineConfig, ttft: _Ends, tpot: _Ends, throughput: _Ends, bound: Bound, least: tuple[float, float], prefill_s: float
) -> SpeedEstimate:
    decodes = config.work.decoder is not None
    rate = [TokensPerSecond(end) for end in throughput]
    media = resolve_media(config.spec, config.request.media)
    return SpeedEstimate(
        request=config.request,
        ttft_s=_time_band(ttft),
        tpot_s=_time_band(tpot) if decodes else None,
        throughput_tokens_per_s=Interval(value=rate[0], low=rate[1], high=rate[2]),
        bound=bound,
        floor=SpeedFloor(ttft_s=Seconds(least[0]), tpot_s=Seconds(least[1]) if decodes else None),
        windows=media.windows,
        sound_s=media.sound_s,
        prefill_s=Seconds(prefill_s),
    )


def _time_band(ends: _Ends) -> Interval[Seconds]:
    return Interval(value=Seconds(ends[0]), low=Seconds(ends[1]), high=Seconds(ends[2]))


def predict_speeds(questions: Sequence[SpeedQuestion], accelerators: Mapping[str, Accelerator]) -> SpeedTable:
    """Estimate n questions at once: the same laws and constants as for one, on arrays. `accelerators` are the catalog's.

    Raises:
        BadArgument: as `lib.speed.predict_speed`, for the first question that has no answer.
        UnknownHardware: the same.
        UnsupportedModel: the same; pipelines that make pictures are asked about one by one.
    """
    return predict_engine_configs([resolve_engine_config(question, accelerators) for question in questions])


def predict_engine_configs(of: Sequence[EngineConfig]) -> SpeedTable:
    """Estimate n configurations at once."""
    calibration = load_calibration()
    rows, encoders = zip(*(describe_passes(config) for config in of), strict=True)
    inputs = tabulate(rows, [config.ceilings for config in of])
    times = time_serving(inputs, calibration.constants)
    encoder_s = _time_encoders(of, encoders, calibration)
    decodes = np.array([config.work.decoder is not None for config in of], dtype=np.float64)
    served = _serve(of, inputs, times, encoder_s, decodes)
    concurrency = np.array([float(config.request.concurrency) for config in of])
    tokens = concurrency * np.where(decodes > 0, inputs.output_tokens, inputs.prompt_tokens)
    widening = _widening(of, calibration)
    half_width = {
        quantity: np.array([by_engine[engine] for engine in ENGINES])[inputs.engine] * widening
        for quantity, by_engine in calibration.spread.items()
    }
    least_s = (served.least_ttft_s + served.least_tpot_s * inputs.output_tokens * decodes) * concurrency / inputs.running_requests
    whole_s = served.ttft_s + served.tpot_s * inputs.output_tokens * decodes
    whole = _ranges(whole_s, half_width["throughput"], least_s)
    return SpeedTable(
        ttft_s=_ranges(served.ttft_s, half_width["ttft"], served.least_ttft_s),
        tpot_s=_ranges(np.where(decodes > 0, served.tpot_s, np.nan), half_width["tpot"], served.least_tpot_s),
        throughput_tokens_per_s=IntervalColumn(value=tokens / whole.value, low=tokens / whole.high, high=tokens / whole.low),
        prefill_s=served.prefill_s,
        least_ttft_s=served.least_ttft_s,
        least_tpot_s=served.least_tpot_s,
        bound=_largest_parts(times, decodes),
        engine_configs=list(of),
        inputs=inputs,
        times=times,
        encoder_s=encoder_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """Seconds of shape (n,): time to first token and time per output token with all waiting, what one prompt occupies, and the floors."""

    ttft_s: Array
    tpot_s: Array
    prefill_s: Array
    least_ttft_s: Array
    least_tpot_s: Array


def _serve(of: Sequence[EngineConfig], inputs: CostModelInputs, times: ServingTimes, encoder_s: Array, decodes: Array) -> _Served:
    """The times as the engine serves: all requests together as one batch, or each as soon as there is a place."""
    together = np.array([config.layout.engine in STATIC_BATCH_ENGINES for config in of]) | (decodes == 0)
    concurrency = np.array([float(config.request.concurrency) for config in of])
    batch = inputs.running_requests / inputs.replicas
    busy = np.where(together, batch, times.decoding_sequences)
    read_together = np.where(together, batch, 1.0)
    prompts = read_tokens(inputs) * read_together
    least_ttft_s = floor_seconds(inputs, tokens=prompts, sequences=1.0, cached_tokens=0.0, prompts=read_together)
    least_tpot_s = floor_seconds(inputs, tokens=busy, sequences=busy, cached_tokens=inputs.prompt_tokens + inputs.output_tokens * MEAN_FILL)
    tpot_s = np.maximum(np.where(together, times.step.total, times.tpot_s), least_tpot_s)
    ttft_s = np.maximum(np.where(together, times.prefill.total + times.request_s, times.first_token.total) + encoder_s, least_ttft_s)
    read_s = np.where(together, (times.prefill.total + times.request_s) / batch, times.lone_prefill.total) + encoder_s / batch
    prefill_s = np.maximum(read_s, least_ttft_s / read_together) / inputs.replicas
    wait_s = queue_time(
        requests=concurrency, running=inputs.running_requests, ttft_s=ttft_s, tpot_s=tpot_s * decodes, output_tokens=inputs.output_tokens
    )
    return _Served(ttft_s=ttft_s + wait_s, tpot_s=tpot_s, prefill_s=prefill_s, least_ttft_s=least_ttft_s, least_tpot_s=least_tpot_s)


def _time_encoders(of: Sequence[EngineConfig], rows: Sequence[Columns | None], calibration: Calibration) -> Array:
    """Seconds of shape (n,) of the encoders that run before decoders; 0 if there is none."""
    seconds = np.zeros(len(of))
    which = [at for at, row in enumerate(rows) if row is not None]
    if which:
        inputs = tabulate([row for row in rows if row is not None], [of[at].ceilings for at in which])
        batch = inputs.running_requests / inputs.replicas
        least_s = floor_seconds(inputs, tokens=inputs.prompt_tokens * batch, sequences=1.0, cached_tokens=0.0, prompts=batch)
        seconds[which] = np.maximum(time_serving(inputs, calibration.constants).prefill.total, least_s)
    return seconds


def floor_seconds(
    inputs: CostModelInputs, *, tokens: Quantity, sequences: Quantity, cached_tokens: Quantity, prompts: Quantity = 0.0
) -> Array:
    """Seconds of shape (n,) that the datasheet allows for a pass over `tokens` tokens of `sequences` sequences, at least.

    `prompts` whole prompts are in the pass: the FLOP of their attention count too.

    The highest of a card's ceilings are its own. 0 if the rates were measured on the machine itself, for those are not ceilings.
    """
    least = roofline_seconds(
        read_bytes=bytes_moved(inputs, tokens=tokens, sequences=sequences, cached_tokens=cached_tokens),
        flop=linear_flop(parameters=inputs.active_parameters, tokens=tokens, head_parameters=inputs.head_parameters, sequences=sequences)
        + prompts * prompt_attention_flop(inputs),
        devices=inputs.tensor_parallel * np.where(inputs.pipelined, inputs.pipeline_stages, 1.0),
        bandwidth=inputs.bandwidth.max(axis=1),
        peak=inputs.compute.max(axis=1),
    )
    return np.asarray(least * inputs.of_datasheet)


def _widening(of: Sequence[EngineConfig], calibration: Calibration) -> Array:
    """Factor on the width of each range, shape (n,): above 1 where the engine was never measured on such a card."""
    factors: dict[tuple[str, str], float] = {}
    for config in of:
        engine, card = config.layout.engine, config.devices.silicon
        if (engine, card.id) not in factors:
            factors[engine, card.id] = 1.0 if is_measured(calibration.measured, engine, card) else UNMEASURED_WIDENING
    return np.array([factors[config.layout.engine, config.devices.silicon.id] for config in of])


def _ranges(value: Array, half_width: Array, least: Array) -> IntervalColumn:
    """Times with their ranges, in seconds and of shape (n,); nothing is below the floor. `half_width` is in natural logarithms."""
    value = np.maximum(value, least)
    return IntervalColumn(value=value, low=np.maximum(value * np.exp(-half_width), least), high=value * np.exp(half_width))


def _largest_parts(times: ServingTimes, decodes: Array) -> list[Bound]:
    """Largest part of the time: of a decode step, or of the prompt if nothing is decoded."""
    names: tuple[Bound, ...] = ("bandwidth", "compute", "overhead")

    def largest(run: ForwardPass, attention: Quantity) -> NDArray[np.int64]:
        parts = np.stack([run.weights + run.cache, run.compute + attention, run.launch + run.all_reduce])
        return np.asarray(parts.argmax(axis=0))

    largest_part = np.where(decodes > 0, largest(times.step, 0.0), largest(times.prefill.matrices, times.prefill.attention))
    return [names[which] for which in largest_part.tolist()]
