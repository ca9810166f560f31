"""The answers of `/estimate_speed` and of the roofline."""

from __future__ import annotations

from dataclasses import dataclass

from lib.provenance import Answer
from lib.result import Result
from lib.speed.predict import SpeedPart


@dataclass(frozen=True, kw_only=True)
class SpeedFigures(Result):
    """The values of a prediction, or one end of their ranges."""

    ttft_s: float
    """Time to first token in seconds; the whole request if nothing is decoded."""
    inter_token_s: float | None
    """Time per output token in seconds; null if nothing is decoded."""
    decode_tokens_per_s: float | None
    """Tokens per second of one request; null if nothing is decoded."""
    throughput_tokens_per_s: float | None
    """Tokens per second of all requests together; null if the model handles no tokens."""
    request_s: float
    """Seconds of a request with all its tokens."""
    items_per_s: float | None
    """Items of `unit` per second; null if tokens are the unit."""
    real_time_factor: float | None
    """Seconds of sound that all requests hear per second; null without sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedAnswer(SpeedFigures, Answer):
    """The speed of a configuration."""

    model: str
    """Id of the model; empty without one."""
    hardware: str
    """Id of the hardware."""
    precision: str
    """Number format of the weights."""
    engine: str
    """Inference engine."""
    devices: int
    """Devices that share one copy of the model."""
    per_device_bytes: int
    """Memory of the fullest device with all requests at full length."""
    fits: bool | None
    """Whether that fits; null if the memory of the hardware is not known."""
    unit: str
    """The unit that `items_per_s` counts: sequences, windows of half a minute of sound, pictures, or tokens."""
    bound: str
    """The limit of the speed: bandwidth, compute, overhead, or transfer of weights from host memory."""
    running_requests: float
    """Requests that the engine runs at once."""
    low: SpeedFigures
    """Lower end of each range."""
    high: SpeedFigures
    """Upper end of each range."""
    decode_parts: tuple[SpeedPart, ...]
    """Parts of the time per output token; they add up to it."""
    prompt_parts: tuple[SpeedPart, ...]
    """Parts of the time to first token; they add up to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEntry(Result):
    """A forward pass under the roofline."""

    name: str
    """One step of decoding, or reading the prompts."""
    seconds: float
    """Predicted seconds."""
    flop: float
    """Floating-point operations."""
    bytes: float
    """Bytes moved."""
    flop_per_byte: float
    """Arithmetic intensity."""
    flop_per_s: float
    """Operations per second as predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineAnswer(Result):
    """The two ceilings of the hardware, all devices that work at once together, and the passes under them."""

    hardware: str
    """Id of the hardware."""
    name: str
    """Name for people."""
    precision: str
    """Number format of the weights."""
    arithmetic: str
    """Number format that is multiplied."""
    peak_flop_per_s: float
    """Ceiling of arithmetic."""
    bandwidth_bytes_per_s: float
    """Ceiling of memory."""
    passes: tuple[PassEntry, ...]
    """The passes."""
