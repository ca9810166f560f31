"""The shape of what `/measure` answers, and of what it tells meanwhile."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.service.results import Answer


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
