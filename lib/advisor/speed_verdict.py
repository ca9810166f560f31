"""The verdict on a speed: stated limits, the bands of its kind of work (`lib.advisor.bands`), and whether a CPU is fast enough.

A slow CPU is rejected, and its limits are stricter. The limits are judgements:

- 8 tokens per second, because the slowest machines of a class have two thirds of its bandwidth (5.2 · 3/2).
- A first token within 5 s, half of the ten seconds that keep a visitor's attention (Nielsen 1993, Usability Engineering, chapter 5). For
  vision_language the prompt counts as long as the context, because pictures fill it.
- No pictures: Stable Diffusion 1.5 takes 45 s for one of 512 px on 32 cores (20 steps, fp32; Ice Lake with 64 virtual CPUs,
  github.com/huggingface/blog stable-diffusion-inference-intel.md, 2023-03).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lib.advisor import result
from lib.advisor.bands import limit_request_s, measure_bands
from lib.advisor.fit import HostedModel, JudgeContext
from lib.catalog.offers import Hardware
from lib.provenance import Reason, Value
from lib.workload import Family

CPU_TOKENS_PER_S = 8.0
FIRST_ANSWER_S = 5.0
PICTURE_ON_32_CORES_S = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedVerdict:
    """The verdict on a speed: the stated limits that it misses, further reasons, and its band."""

    obstacles: tuple[Reason, ...] = ()
    reasons: tuple[Reason, ...] = ()
    band: result.Verdict = "comfortable"


SLOW = frozenset({"cpu_too_slow", "too_slow", "first_token_late"})
"""Codes of the obstacles of speed."""


def judge_speed(
    offer: Hardware, context: JudgeContext, model: HostedModel, speed: result.Speed, *, engine: str, precision: str
) -> SpeedVerdict:
    """The speed of an engine in a precision against the limits that were asked for and the bands of its kind of work."""
    workload, family = context.workload, context.family
    runs_as: dict[str, Value] = {"engine": engine, "precision": precision}
    obstacles = []
    rate, least = speed.tokens_per_s, workload.min_tokens_per_s
    if rate is not None and rate < least:
        obstacles.append(Reason("too_slow", runs_as | {"tokens_per_s": rate, "wanted_tokens_per_s": least}))
    first_s, limit_s = speed.ttft_s, workload.max_ttft_s
    if limit_s and first_s is not None and first_s > limit_s:
        obstacles.append(Reason("first_token_late", runs_as | {"ttft_s": first_s, "wanted_s": limit_s}))
    enough_reasons: tuple[Reason, ...] = ()
    if offer.silicon is None:
        reason, enough = judge_cpu(family, speed, context_tokens=context.context_tokens, vcpu=offer.vcpu)
        if not enough:
            return SpeedVerdict(obstacles=(*obstacles, replace(reason, values={**reason.values, **runs_as})))
        enough_reasons = (reason,)
    missed = [band for band in measure_bands(model.spec, family, speed, workload) if not band.is_comfortable]
    return SpeedVerdict(
        obstacles=tuple(obstacles),
        reasons=(*enough_reasons, *(band.explain() for band in missed)),
        band="slow" if any(band.is_slow for band in missed) else "usable" if missed else "comfortable",
    )


def judge_cpu(family: Family, speed: result.Speed, *, context_tokens: int, vcpu: int | None) -> tuple[Reason, bool]:
    """Whether a CPU is enough for this work, by its limits above, and why."""
    values: dict[str, Value] = {"vcpu": vcpu or 0, "family": family}
    if family in {"image", "video"}:
        return Reason("cpu_too_slow", values | {"seconds": PICTURE_ON_32_CORES_S}), False
    predicted = speed.predicted
    if predicted is None:
        return Reason("cpu_speed_unknown", values), False
    if (limit_s := limit_request_s(family, predicted)) is not None:
        seconds = predicted.request_s
        values |= {"seconds": seconds, "limit_s": limit_s}
        enough = seconds <= limit_s
    else:
        by_pictures = family == "vision_language" and not predicted.request.media.images  # else they are counted in the prompt
        longer = max(1.0, context_tokens / predicted.request.prompt_tokens) if by_pictures else 1.0
        rate, ttft_s = speed.tokens_per_s or 0.0, predicted.ttft_s.value * longer
        values |= {"tokens_per_s": rate, "limit_tokens_per_s": CPU_TOKENS_PER_S, "seconds": ttft_s, "limit_s": FIRST_ANSWER_S}
        enough = rate >= CPU_TOKENS_PER_S and ttft_s <= FIRST_ANSWER_S
    return Reason("cpu_enough" if enough else "cpu_too_slow", values), enough
