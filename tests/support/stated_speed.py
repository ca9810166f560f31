"""Speed estimates of stated figures, for the tests of what is computed from them."""

from __future__ import annotations

from lib.provenance import Source
from lib.speed import ExplainedSpeed, Interval, SpeedRequest
from lib.units import Seconds, TokensPerSecond


def stated_speed(
    ttft_s: float = 0.5, tpot_s: float | None = 0.05, throughput_tokens_per_s: float = 20.0, sources: tuple[Source, ...] = ()
) -> ExplainedSpeed:
    """Exactly these figures, by default half a second to the first token and 20 tokens/s; nothing is decoded where `tpot_s` is None."""
    ttft, rate = Seconds(ttft_s), TokensPerSecond(throughput_tokens_per_s)
    step = None if tpot_s is None else Seconds(tpot_s)
    return ExplainedSpeed(
        request=SpeedRequest(),
        ttft_s=Interval(value=ttft, low=ttft, high=ttft),
        tpot_s=None if step is None else Interval(value=step, low=step, high=step),
        throughput_tokens_per_s=Interval(value=rate, low=rate, high=rate),
        bound="bandwidth",
        floor=None,
        prefill_s=ttft,
        precision="bf16",
        engine="transformers",
        running_requests=1.0,
        items_per_s=None,
        unit="tokens",
        decode_parts=(),
        prompt_parts=(),
        caveats=(),
        sources=sources,
    )
