"""The shapes of what is answered by running something: `/measure`, `/chat`, `/heartbeat`, and the ledger of measurements.

Times are in seconds, memory in bytes; see `lib.answers.common` for what holds for all answers.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.answers.common import Answer


class RunFigures(TypedDict):
    """The three figures of a run; null where nothing is decoded (one token is too few for a speed), or nothing known."""

    peak_bytes: int | None
    ttft_s: float | None
    decode_tokens_per_s: float | None


class RunEnd(TypedDict):
    """One end of the ranges of the predicted speed."""

    ttft_s: float | None
    decode_tokens_per_s: float | None


class MeasurePrediction(RunFigures):
    """The prediction for exactly this run. `peak_bytes` is weights + the larger of the two moments; `runtime_bytes` is beside it."""

    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    runtime_bytes: int
    hardware: str | None
    low: RunEnd
    high: RunEnd


class ErrorRatio(TypedDict):
    """Predicted over measured, less 1: +0.1 is a prediction 10 % too high. Null where either is missing."""

    peak_bytes: float | None
    ttft_s: float | None
    decode_tokens_per_s: float | None


class VerdictEntry(TypedDict):
    """`confirmed`, `memory_off`, `speed_off` or `invalid`, and the sentence."""

    code: str
    message: str


class DeviceEntry(TypedDict):
    """The device that was measured, and what ran on it."""

    kind: str
    name: str
    accelerator: str | None
    memory_bytes: int
    cores: int
    driver: str | None
    torch: str
    transformers: str


class MeasureAnswer(Answer):
    """A run with random weights, beside its prediction.

    `peak_bytes` is what weights, cache and activations took at most (CUDA: torch's allocator; CPU: resident set over what was held
    before). `before_bytes` is what the process held without the model, `reserved_bytes` what torch's allocator kept at most on a card.
    `decode_tokens_per_s` is from the median step, `mean_tokens_per_s` from all of them.
    """

    model: str
    architecture: str
    device: str
    device_details: DeviceEntry
    weights: str
    precision: str
    attention: str
    prompt_tokens: int
    output_tokens: int
    peak_bytes: int
    weights_bytes: int
    before_bytes: int
    reserved_bytes: int | None
    ttft_s: float
    decode_tokens_per_s: float | None
    mean_tokens_per_s: float | None
    weights_s: float
    predicted: MeasurePrediction
    error_ratio: ErrorRatio
    verdict: VerdictEntry


class MeasureStage(TypedDict):
    """What is being done: `starting`, `building`, `weights`, `warm-up` or `running`."""

    stage: str


class ChatPrediction(RunFigures):
    """What the laws say of exactly this run, with the range that covers most measurements of its kind."""

    weights_bytes: int | None
    kv_cache_bytes: int | None
    activation_bytes: int | None
    low: RunFigures
    high: RunFigures


class ChatMetrics(TypedDict):
    """What the answer took, beside the prediction for exactly this run.

    `peak_of` says how the peak was found: `allocator` (torch's own on CUDA), `weights_and_growth` (a CPU: weights as loaded and what the
    process grew by). `stopped`: `end` (the model was done), `limit` (as many tokens
    as were allowed), `stopped` (time was up). `error_ratio` is predicted / measured − 1.
    """

    ttft_s: float
    decode_tokens_per_s: float | None
    peak_bytes: int
    peak_of: str
    device: str
    model: str
    precision: str
    prompt_tokens: int
    output_tokens: int
    stopped: str
    predicted: ChatPrediction
    error_ratio: ErrorRatio


class ChatPiece(Answer):
    """The answer so far.

    `stage`: `loading` (the model), `waiting` (for others), `reading` (the prompt), `writing`, `done`. `note` says what is going on while
    there is no text yet. `metrics` comes with the last piece and is null before.
    """

    stage: str
    text: str
    note: str
    metrics: ChatMetrics | None


class HeartbeatAnswer(Answer):
    """The times of one product y = x @ w, in seconds, and what they can be believed.

    `p95_s` is the nearest rank. `flops` and `moved_bytes` are of one product; `floor_s` is the larger of `floor_memory_s` and
    `floor_compute_s` (null without a known peak). `efficiency` = floor / median, null where the result is not valid.
    `iterations` counts the warm products that were timed.
    """

    device: str
    device_kind: str
    accelerator: str | None
    dtype: str
    batch: int
    hidden: int
    intermediate: int
    iterations: int
    warmup: int
    mean_s: float
    median_s: float
    p95_s: float
    min_s: float
    cold_first_s: float
    flops: int
    weight_bytes: int
    moved_bytes: int
    achieved_flops_per_s: float
    floor_s: float
    floor_memory_s: float
    floor_compute_s: float | None
    bound: str
    efficiency: float | None
    valid: bool
    bandwidth_bytes_per_s: float
    peak_flops_per_s: float | None
    driver: str | None
    torch: str


class HeartbeatProgress(TypedDict):
    """How far a heartbeat is: `cold`, `warm-up`, `warm` or `bandwidth`, how many products of how many, the last one's seconds."""

    phase: str
    done: int
    of: int
    last_s: float | None


class ExpectedAnswer(Answer):
    """The run that would be measured. `need_bytes` is all that it takes, `allowed_bytes` what it may take of the `free_bytes`."""

    model: str
    architecture: str
    device: str
    device_kind: str
    precision: str
    prompt_tokens: int
    output_tokens: int
    predicted: RunFigures
    low: RunEnd
    high: RunEnd
    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    runtime_bytes: int
    need_bytes: int
    allowed_bytes: int
    free_bytes: int
    limit_s: float
