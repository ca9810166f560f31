"""How fast: ModelSpec × hardware × request → times, rates, ranges and what bounds them.

predict_speed(spec, catalog.resolve_hardware("l4x1"), SpeedRequest(prompt_tokens=512), catalog.accelerators).ttft_s.value
predict_speeds([(spec, hardware, request), …], catalog.accelerators).throughput_tokens_per_s.value   # arrays, for many at once
"""

from __future__ import annotations

from lib.speed.batch import SpeedRequest
from lib.speed.estimate import predict_each, predict_speed
from lib.speed.predict import (
    End,
    ExplainedSpeed,
    Interval,
    IntervalColumn,
    SpeedEstimate,
    SpeedFloor,
    SpeedPart,
    SpeedTable,
    predict_speeds,
)

__all__ = [
    "End",
    "ExplainedSpeed",
    "Interval",
    "IntervalColumn",
    "SpeedEstimate",
    "SpeedFloor",
    "SpeedPart",
    "SpeedRequest",
    "SpeedTable",
    "predict_each",
    "predict_speed",
    "predict_speeds",
]  # fmt: skip
