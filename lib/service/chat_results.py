"""The shapes of what `/chat` streams."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.service.results import Answer


class RunFigures(TypedDict):
    """Figures of one run; null where nothing is known, or where one token is too few for a speed."""

    ttft_s: float | None
    decode_tokens_per_s: float | None
    peak_bytes: float | None


class RunPrediction(RunFigures):
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
    predicted: RunPrediction
    error_ratio: RunFigures


class ChatPiece(Answer):
    """The answer so far.

    `stage`: `loading` (the model), `waiting` (for others), `reading` (the prompt), `writing`, `done`. `note` says what is going on while
    there is no text yet. `metrics` comes with the last piece and is null before.
    """

    stage: str
    text: str
    note: str
    metrics: ChatMetrics | None
