"""What is asked about speed, and what an answer is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lib.provenance import Caveat, Source
from lib.workload import Engine

Bound = Literal["bandwidth", "compute", "overhead"]
Unit = Literal["tokens", "sequences", "pictures", "windows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRequest:
    """One question about speed; `concurrency` requests are in flight all the time, each of the same shape.

    `kv_precision` as in `MemoryRequest`. For pipelines that make pictures the tokens mean nothing.
    """

    precision: str = "auto"
    engine: Engine = "transformers"
    prompt_tokens: int = 512
    output_tokens: int = 256
    concurrency: int = 1
    kv_precision: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A prediction with the range that covers most measurements of its kind: low ≤ value ≤ high."""

    value: float
    low: float
    high: float

    @property
    def inverse(self) -> Band:
        """A time as a rate, or a rate as a time."""
        return Band(value=1 / self.value, low=1 / self.high, high=1 / self.low)

    def times(self, factor: float) -> Band:
        """The band in another unit."""
        return Band(value=self.value * factor, low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPart:
    """One part of a time, opened: seconds, the law, what went in, where the law comes from."""

    name: str
    seconds: float
    law: str
    inputs: dict[str, str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEstimate:
    """How fast a configuration is.

    `ttft_s`: time to the first token (encoders: of the whole answer). `inter_token_s` and `decode_tokens_per_s` of one request, `None`
    where nothing is decoded. `throughput_tokens_per_s`: generated tokens per second of all requests together, prompts included in the
    time; for encoders the tokens read. `items_per_s` counts `unit`: sequences of an encoder, windows of half a minute of sound, pictures.
    `real_time_factor` is seconds of sound per second. `bound` names the largest part of a decode step (of the prompt where nothing
    is decoded). `running` is how many requests the engine runs at once, `decode` and `prompt` the parts of the two times.
    """

    precision: str
    engine: str
    ttft_s: Band
    inter_token_s: Band | None
    decode_tokens_per_s: Band | None
    throughput_tokens_per_s: Band | None
    items_per_s: Band | None
    unit: Unit
    real_time_factor: Band | None
    bound: Bound
    running: float
    decode: tuple[SpeedPart, ...]
    prompt: tuple[SpeedPart, ...]
    caveats: tuple[Caveat, ...]
    sources: tuple[Source, ...]
