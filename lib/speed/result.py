"""What is asked about speed, and what an estimate is made of.

ttft: time to first token. tpot: mean time per output token after the first, which benchmarks of servers also call inter-token latency.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from lib.engines import Engine
from lib.provenance import Caveat, Source
from lib.units import Seconds, TokensPerSecond
from lib.workload import AS_THE_PIPELINE, TEXT_ONLY, MediaRequest, PipelineRequest

Bound = Literal["bandwidth", "compute", "overhead"]
Unit = Literal["tokens", "sequences", "pictures", "windows"]
End = Literal["value", "low", "high"]
Number_co = TypeVar("Number_co", bound=float, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRequest:
    """One question about speed; `concurrency` requests are in flight all the time, each of the same shape.

    `kv_precision`, `gpu_layers`, `pictures` and `media` as in `MemoryRequest`. For pipelines that make pictures the tokens mean nothing.
    """

    precision: str = "auto"
    engine: Engine = "transformers"
    prompt_tokens: int = 512
    output_tokens: int = 256
    concurrency: int = 1
    kv_precision: str = "auto"
    gpu_layers: int | None = None
    pictures: PipelineRequest = AS_THE_PIPELINE
    media: MediaRequest = TEXT_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Band(Generic[Number_co]):
    """A predicted quantity with the range that covers most measurements of its kind: low ≤ value ≤ high.

    >>> Band(value=0.5, low=0.25, high=1.0).inverse
    Band(value=2.0, low=1.0, high=4.0)
    """

    value: Number_co
    low: Number_co
    high: Number_co

    def at(self, end: End) -> Number_co:
        """The value or one end of the range."""
        return {"value": self.value, "low": self.low, "high": self.high}[end]

    @property
    def inverse(self) -> Band[float]:
        """A time as a rate, or a rate as a time."""
        return Band(value=1 / self.value, low=1 / self.high, high=1 / self.low)

    def times(self, factor: float) -> Band[float]:
        """The band in another unit."""
        return Band(value=self.value * factor, low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFloor:
    """The least time that the datasheet allows: no estimate and no end of its range is below it. 0 where the rates were measured."""

    ttft_s: Seconds
    tpot_s: Seconds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEstimate:
    """How fast requests of one shape run while `request.concurrency` of them are in flight.

    `ttft_s` is the time to the first token, and the time of the whole request where nothing is decoded (encoders, pictures); there `tpot_s`
    is `None`. `throughput_tokens_per_s` counts the tokens of all requests together: those generated, prompts included in the time; for
    encoders those read; `None` for pictures. `bound` names the largest part of a decode step (of the prompt where nothing is decoded).
    `floor` is `None` where the datasheet sets none (pictures). Sound of `sound_s` seconds is read in `windows`,
    one after another, each with an answer of its own.
    `prefill_s` is how long the hardware is occupied by reading one prompt, without what the prompt waits for: a batch that starts together
    shares its time. `None` where no prompt is read (pictures).
    """

    request: SpeedRequest
    ttft_s: Band[Seconds]
    tpot_s: Band[Seconds] | None
    throughput_tokens_per_s: Band[TokensPerSecond] | None
    bound: Bound
    floor: SpeedFloor | None
    windows: int = 1
    sound_s: float = 0.0
    prefill_s: Seconds | None = None

    @property
    def decode_tokens_per_s(self) -> Band[float] | None:
        """Tokens per second of one request once its first token is there; `None` where nothing is decoded."""
        return None if self.tpot_s is None else self.tpot_s.inverse

    @property
    def output_tokens_per_s(self) -> Band[TokensPerSecond] | None:
        """Generated tokens per second of all requests together; `None` where nothing is decoded."""
        return None if self.tpot_s is None else self.throughput_tokens_per_s

    @property
    def request_s(self) -> float:
        """Seconds of one request: the first token and the others."""
        return self.request_s_at("value")

    @property
    def real_time_factor(self) -> Band[float] | None:
        """Seconds of sound that all requests together hear in a second; `None` without sound."""
        heard_s = self.sound_s * self.request.concurrency
        low, high = heard_s / self.request_s_at("high"), heard_s / self.request_s_at("low")
        return Band(value=heard_s / self.request_s, low=low, high=high) if heard_s else None

    def request_s_at(self, end: End) -> float:
        """`request_s`, or one end of its range."""
        decoding_s = 0.0 if self.tpot_s is None else self.tpot_s.at(end) * (self.request.output_tokens - 1)
        return self.windows * (self.ttft_s.at(end) + decoding_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPart:
    """One part of a time, opened: seconds, the law, what went in, where the law comes from."""

    name: str
    seconds: float
    law: str
    inputs: dict[str, str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSpeed(SpeedEstimate):
    """A speed estimate with what stands behind it.

    `precision` and `engine` are the resolved ones, `running_requests` is how many requests the engine runs at once. `items_per_s` counts
    `unit`: sequences of an encoder, windows of half a minute of sound, pictures.
    `decode_parts` and `prompt_parts` are the parts of the time per output token and of the time to first token, which they add up to.
    """

    precision: str
    engine: str
    running_requests: float
    items_per_s: Band[float] | None
    unit: Unit
    decode_parts: tuple[SpeedPart, ...]
    prompt_parts: tuple[SpeedPart, ...]
    caveats: tuple[Caveat, ...]
    sources: tuple[Source, ...]
