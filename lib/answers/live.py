"""Answers that come from running something: `/measure`, `/chat`, `/heartbeat`, and the prediction before a run. Times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lib.provenance import Answer, StatementText
from lib.result import Result

Peak = Literal["allocator", "weights_and_growth"]
StopReason = Literal["end", "limit", "stopped"]


@dataclass(frozen=True, kw_only=True)
class RunEnd(Result):
    """Speed of a run: the predicted value, or one end of its range."""

    ttft_s: float | None
    """Time to first token; null if nothing is known."""
    decode_tokens_per_s: float | None
    """Output tokens per second; null if nothing is decoded (one token is too few for a speed), or nothing is known."""


@dataclass(frozen=True, kw_only=True)
class RunFigures(RunEnd):
    """The three figures of a run."""

    peak_bytes: int | None
    """Peak memory: weights, and the larger of the prompt's and the last token's moment; null if nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRatio(Result):
    """Errors of a prediction: predicted / measured − 1, so +0.1 is 10 % too high. Null if either figure is missing."""

    peak_bytes: float | None
    """Error of the peak memory."""
    ttft_s: float | None
    """Error of the time to first token."""
    decode_tokens_per_s: float | None
    """Error of the output tokens per second."""


@dataclass(frozen=True, kw_only=True)
class MemoryNeed(Result):
    """Memory that a run is predicted to take, by part."""

    weights_bytes: int
    """Weights."""
    kv_cache_bytes: int
    """KV cache at the end of the run."""
    activation_bytes: int
    """Activations of the prompt."""
    runtime_bytes: int
    """Memory of the process itself, which the peak does not count."""

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.weights_bytes + self.kv_cache_bytes + self.activation_bytes + self.runtime_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePrediction(RunFigures, MemoryNeed):
    """The prediction for exactly this run."""

    hardware: str | None
    """Id of the hardware that the speed is predicted for; null if it is not known."""
    low: RunEnd
    """Low end of the ranges."""
    high: RunEnd
    """High end of the ranges."""


@dataclass(frozen=True, kw_only=True)
class DeviceEntry(Result):
    """A device of this machine, and the software that runs on it."""

    kind: Literal["cpu", "cuda", "zerogpu"]
    """Kind of device: cpu, cuda or zerogpu."""
    name: str
    """Name for people."""
    accelerator: str | None
    """Id of the card in the catalog; null for a CPU and for a card that the catalog does not have."""
    memory_bytes: int
    """All of its memory."""
    cores: int
    """CPU cores of the host."""
    driver: str | None
    """Version of NVIDIA's driver; null without one."""
    torch: str
    """Version of torch."""
    transformers: str
    """Version of transformers."""


@dataclass(frozen=True, kw_only=True)
class MeasuredFigures(Result):
    """The figures of a finished run."""

    peak_bytes: int
    """Peak memory of weights, cache and activations: by torch's allocator on CUDA, by the growth of the resident set on a CPU."""
    weights_bytes: int
    """Memory held when the weights were made."""
    before_bytes: int
    """Memory that the process held without the model."""
    reserved_bytes: int | None
    """Most memory that torch's allocator kept on a card; null on a CPU."""
    ttft_s: float
    """Time to first token."""
    decode_tokens_per_s: float | None
    """Output tokens per second by the median step; null if nothing is decoded."""
    mean_tokens_per_s: float | None
    """Output tokens per second over all steps; null if nothing is decoded."""
    weights_s: float
    """Seconds in which the random weights were made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureAnswer(MeasuredFigures, Answer):
    """A run with random weights, and the prediction for exactly this run."""

    model: str
    """Id of the model; empty without one."""
    architecture: str
    """Class of the architecture in transformers."""
    device: str
    """Name of the device."""
    device_details: DeviceEntry
    """The device, and the software that ran on it."""
    weights: str
    """Always `random`."""
    precision: str
    """Number format of the weights."""
    attention: str
    """Attention kernel that ran."""
    prompt_tokens: int
    """Tokens of the prompt."""
    output_tokens: int
    """Tokens written."""
    predicted: MeasurePrediction
    """The prediction."""
    error_ratio: ErrorRatio
    """Errors of the prediction."""
    verdict: StatementText
    """`confirmed`, `memory_off`, `speed_off` or `invalid`, and the sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureStage(Result):
    """A step of a measurement that is under way."""

    stage: str
    """`starting`, `building`, `weights`, `warm-up` or `running`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrediction(RunFigures):
    """The prediction for exactly this answer, with the range that covers most measurements of its kind; all null without one."""

    weights_bytes: int | None
    """Predicted weights."""
    kv_cache_bytes: int | None
    """Predicted KV cache at the end of the answer."""
    activation_bytes: int | None
    """Predicted activations of the prompt."""
    low: RunFigures
    """Low end of the ranges."""
    high: RunFigures
    """High end of the ranges."""


@dataclass(frozen=True, kw_only=True)
class AnswerFigures(Result):
    """Time and memory that an answer of the chat took."""

    ttft_s: float
    """Time to first token."""
    decode_tokens_per_s: float | None
    """Output tokens per second after the first; null if only one token came."""
    peak_bytes: int
    """Peak memory."""
    peak_of: Peak
    """How the peak was found: `allocator` (torch's, on CUDA), or `weights_and_growth` (CPU: loaded weights and growth of the process)."""
    prompt_tokens: int
    """Tokens read."""
    output_tokens: int
    """Tokens written."""
    stopped: StopReason
    """`end` (the model was done), `limit` (as many tokens as were allowed), or `stopped` (time was up)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMetrics(AnswerFigures):
    """Time and memory that the answer took, and the prediction for exactly this answer."""

    device: str
    """Name of the device."""
    model: str
    """Name of the model."""
    precision: str
    """Number format of the weights."""
    predicted: ChatPrediction
    """The prediction."""
    error_ratio: ErrorRatio
    """Errors of the prediction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPiece(Answer):
    """The answer so far."""

    stage: str
    """`loading` (the model), `waiting` (for others), `reading` (the prompt), `writing` or `done`."""
    text: str
    """The answer so far."""
    note: str
    """Progress while there is no text yet."""
    metrics: ChatMetrics | None
    """Time and memory of the answer, in the last piece; null before."""


@dataclass(frozen=True, kw_only=True)
class HeartbeatFigures(Result):
    """Times of one product y = x @ w. A result with a time below the floor is not valid."""

    mean_s: float
    """Mean of the warm products."""
    median_s: float
    """Median of the warm products."""
    p95_s: float
    """Nearest rank: the shortest time that at least 95 % of the warm products did not exceed."""
    min_s: float
    """Shortest warm product."""
    cold_first_s: float
    """First product, before anything was warm."""
    achieved_flops_per_s: float
    """Operations of a product over the median."""
    efficiency: float | None
    """Floor over median; null if the result is not valid."""
    valid: bool
    """Whether no time is below the floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer(HeartbeatFigures, Answer):
    """The times of one product y = x @ w, the time that it cannot beat, and whether the times are possible."""

    device: str
    """Name of the device."""
    device_kind: str
    """Kind of device: cpu, cuda or zerogpu."""
    accelerator: str | None
    """Id of the card in the catalog; null for a CPU and for a card that the catalog does not have."""
    dtype: str
    """Number format."""
    batch: int
    """Rows of x."""
    hidden: int
    """Columns of x and rows of w."""
    intermediate: int
    """Columns of w."""
    iterations: int
    """Warm products that were timed."""
    warmup: int
    """Products that were run and not counted, after the first."""
    flops: int
    """Floating-point operations of one product."""
    weight_bytes: int
    """Bytes of w."""
    moved_bytes: int
    """Bytes that one product reads and writes at least."""
    floor_s: float
    """The time that a product cannot beat: the larger of the next two."""
    floor_memory_s: float
    """Time to move the bytes."""
    floor_compute_s: float | None
    """Time of the operations; null without a known peak."""
    bound: str
    """Which of the two is larger: bandwidth or compute."""
    bandwidth_bytes_per_s: float
    """Memory bandwidth of the floor."""
    peak_flops_per_s: float | None
    """Peak of the floor; null without a known one."""
    driver: str | None
    """Version of NVIDIA's driver; null without one."""
    torch: str
    """Version of torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatProgress(Result):
    """Progress of a heartbeat."""

    phase: Literal["cold", "warm-up", "warm", "bandwidth"]
    """`cold`, `warm-up`, `warm`, or `bandwidth` (the memory is measured, because no datasheet is known)."""
    done: int = 0
    """Products done."""
    of: int = 0
    """Products in all."""
    last_s: float | None = None
    """Seconds of the last product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAnswer(MemoryNeed, Answer):
    """The prediction of a run that would be measured."""

    model: str
    """Id of the model; empty without one."""
    architecture: str
    """Class of the architecture in transformers."""
    device: str
    """Name of the device."""
    device_kind: str
    """Kind of device: cpu, cuda or zerogpu."""
    precision: str
    """Number format of the weights."""
    prompt_tokens: int
    """Tokens of the prompt."""
    output_tokens: int
    """Tokens to write."""
    predicted: RunFigures
    """The predicted figures."""
    low: RunEnd
    """Low end of the ranges."""
    high: RunEnd
    """High end of the ranges."""
    need_bytes: int
    """All memory that the run takes."""
    allowed_bytes: int
    """Memory that it may take."""
    free_bytes: int
    """Free memory."""
    limit_s: float
    """Seconds that it may take."""
