"""The shape of what `/measure` answers, and of what it tells meanwhile.

The shapes of what `/chat` streams.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.answers.common import Answer


class RunFigures(TypedDict):
    """The three figures of a run; null where nothing is decoded, or nothing known."""

    peak_bytes: int | None
    ttft_s: float | None
    decode_tokens_per_s: float | None


class RunEnd(TypedDict):
    """One end of the ranges of the predicted speed."""

    ttft_s: float | None
    decode_tokens_per_s: float | None


class PredictedRun(RunFigures):
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
    predicted: PredictedRun
    error_ratio: ErrorRatio
    verdict: VerdictEntry


class MeasureStage(TypedDict):
    """What is being done: `starting`, `building`, `weights`, `warm-up` or `running`."""

    stage: str


class ChatResultsRunFigures(TypedDict):
    """Figures of one run; null where nothing is known, or where one token is too few for a speed."""

    ttft_s: float | None
    decode_tokens_per_s: float | None
    peak_bytes: float | None


class RunPrediction(ChatResultsRunFigures):
    """What the laws say of exactly this run, with the range that covers most measurements of its kind."""

    weights_bytes: int | None
    kv_cache_bytes: int | None
    activation_bytes: int | None
    low: ChatResultsRunFigures
    high: ChatResultsRunFigures


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
    predicted: RunPrediction
    error_ratio: ChatResultsRunFigures


class ChatPiece(Answer):
    """The answer so far.

    `stage`: `loading` (the model), `waiting` (for others), `reading` (the prompt), `writing`, `done`. `note` says what is going on while
    there is no text yet. `metrics` comes with the last piece and is null before.
    """

    stage: str
    text: str
    note: str
    metrics: ChatMetrics | None
