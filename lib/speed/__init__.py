"""How fast: ModelSpec × hardware × request → times, rates, ranges and what bounds them.

speed(spec, catalog.resolve_hardware("l4x1"), SpeedRequest(prompt_tokens=512)).ttft_s.value
speeds([(spec, hardware, request), …]).throughput.value        # arrays, for many at once
"""

from __future__ import annotations

from lib.speed.estimate import speed
from lib.speed.predict import Bands, Speeds, speeds
from lib.speed.result import Band, SpeedEstimate, SpeedPart, SpeedRequest

__all__ = ["Band", "Bands", "SpeedEstimate", "SpeedPart", "SpeedRequest", "Speeds", "speed", "speeds"]
