"""The shape of the answer of `/estimate_speed`; see `lib.service.results` for what holds for all answers."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.service.results import Answer


class SpeedFigures(TypedDict):
    """One end of the ranges; null where the figure does not exist for such a model."""

    ttft_s: float
    inter_token_s: float | None
    decode_tokens_per_s: float | None
    throughput_tokens_per_s: float | None
    items_per_s: float | None
    real_time_factor: float | None


class SpeedPartEntry(TypedDict):
    """One part of a time, opened: the law that gave it, what went in, where it comes from."""

    name: str
    seconds: float
    law: str
    inputs: dict[str, str]
    source: str


class SpeedAnswer(Answer):
    """How fast a configuration is. Rates per second: `decode_tokens_per_s` of one request, `throughput_tokens_per_s` of all together.

    `items_per_s` counts `unit`: sequences (encoders), windows (half a minute of sound), pictures; null where tokens are the unit.
    `low` and `high` are the ends of each figure's range. The parts of a time overlap and do not add up to it.
    """

    model: str
    hardware: str
    precision: str
    engine: str
    ttft_s: float
    inter_token_s: float | None
    decode_tokens_per_s: float | None
    throughput_tokens_per_s: float | None
    items_per_s: float | None
    unit: str
    real_time_factor: float | None
    bound: str
    running_requests: float
    low: SpeedFigures
    high: SpeedFigures
    decode_parts: list[SpeedPartEntry]
    prompt_parts: list[SpeedPartEntry]
