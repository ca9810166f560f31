"""When a CPU is enough, judged by its predicted speed.

    generate          at least 8 tokens per second, and the first token of a 512 token prompt within 5 s
    vision_language   the same, with the prompt as long as the context: pictures fill it
    encode            one pass of 512 tokens within 5 s
    speech            half a minute of sound within half a minute
    image, video      never: Stable Diffusion 1.5 takes 45 s for one 512 px picture on 32 cores (20 steps, fp32)

The limits are judgements. That of the tokens: people read 238 words a minute (Brysbaert 2019, doi:10.1016/j.jml.2019.104047), 5.2 tokens/s
at 1.3 tokens a word; the slowest machines of a class have two thirds of its bandwidth: 5.2 · 3/2. That of the first answer: half of the
ten seconds that keep a visitor's attention (Nielsen 1993, Usability Engineering, chapter 5).
The picture: Ice Lake with 64 virtual CPUs, github.com/huggingface/blog stable-diffusion-inference-intel.md (2023-03).
"""

from __future__ import annotations

from lib.advisor.result import Reason, Speed, Value
from lib.advisor.tasks import Family

ENOUGH_TOKENS_PER_S = 8.0
FIRST_ANSWER_S = 5.0
SOUND_S = 30.0
PICTURE_ON_32_CORES_S = 45.0


def judged(family: Family, speed: Speed, *, context: int, vcpu: int | None) -> tuple[Reason, bool]:
    """Why a CPU is enough for this work, or too slow."""
    values: dict[str, Value] = {"vcpu": vcpu or 0, "family": family}
    if family in {"image", "video"}:
        return Reason("cpu_too_slow", values | {"seconds": PICTURE_ON_32_CORES_S}), False
    found = speed.predicted
    if found is None:
        return Reason("cpu_speed_unknown", values), False
    took = found.request_s
    if family in {"encode", "speech"}:
        limit = FIRST_ANSWER_S if family == "encode" else SOUND_S
        return _verdict(values | {"seconds": took, "limit_s": limit}, enough=took <= limit)
    rate = speed.tokens_per_s or 0.0
    longer = max(1.0, context / found.prompt_tokens) if family == "vision_language" else 1.0
    first = found.ttft_s.value * longer
    values |= {"tokens_per_s": rate, "limit_tokens_per_s": ENOUGH_TOKENS_PER_S, "seconds": first, "limit_s": FIRST_ANSWER_S}
    return _verdict(values, enough=rate >= ENOUGH_TOKENS_PER_S and first <= FIRST_ANSWER_S)


def _verdict(values: dict[str, Value], *, enough: bool) -> tuple[Reason, bool]:
    return Reason("cpu_enough" if enough else "cpu_too_slow", values), enough
