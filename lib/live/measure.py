"""A measurement from a configuration to its figures, in the process that has the device.

On a machine of its own it is run in a fresh process (`lib.live.measure_process`), so that memory surely returns and a crash stays there; on
ZeroGPU in the process that is given a GPU. `judge_prediction` compares the figures with the prediction: one code and one sentence.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lib.errors import AdvisorError
from lib.live.device import Size
from lib.live.faults import translate_failure, unknown_failure
from lib.live.limits import Work, check_time, estimate_duration, measure_rates
from lib.precision import TORCH_DTYPES

log = logging.getLogger(__name__)

Stage = Literal["starting", "building", "weights", "warm-up", "running"]
ACTIVITY = "measuring this model"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """What to measure: a parsed configuration, a precision, lengths; and what it is estimated to cost.

    `device` is torch's name, `size` what is asked of ZeroGPU, `placed_bytes` what it moves to the device before.
    `memory_limit_bytes` bounds a process of its own on a CPU (0: no bound).
    """

    config: Mapping[str, Any]
    precision: str
    prompt_tokens: int
    output_tokens: int
    device: Literal["cpu", "cuda"]
    work: Work
    limit_s: float
    size: Size = "large"
    placed_bytes: int = 0
    memory_limit_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """The figures of one run.

    `peak_bytes` is over what was held before the run; `weights_bytes` what was held when the weights were made. `before_bytes` is what was
    held before (CPU: the process's resident set with its libraries; CUDA: what torch had given out for other models). `reserved_bytes` is
    what torch's allocator kept at most on a card, None on a CPU. Rates are None where nothing is decoded. `kernel` is the attention that
    ran.
    """

    peak_bytes: int
    weights_bytes: int
    before_bytes: int
    reserved_bytes: int | None
    ttft_s: float
    decode_tokens_per_s: float | None
    mean_tokens_per_s: float | None
    steps: int
    weights_s: float
    kernel: str
    device_name: str | None


def measure_run(ask: MeasureRequest) -> Iterator[Stage | MeasuredRun]:
    """The measurement as it goes: what is being done, and as the last item the figures.

    Raises:
        AdvisorError: the configuration cannot be built, the run would take too long, or memory ran out.
        LiveError: the model failed in an unknown way.
    """
    try:
        yield from _stages(ask)
    except AdvisorError:
        raise
    except Exception as error:
        known = translate_failure(error)
        if known is None:
            log.exception("unforeseen failure while %s", ACTIVITY)
        raise known or unknown_failure(error, ACTIVITY) from None


def _stages(ask: MeasureRequest) -> Iterator[Stage | MeasuredRun]:
    import torch  # noqa: PLC0415 loaded when first needed

    from lib.live import memory_gauge  # noqa: PLC0415
    from lib.live.run_model import build_on_meta, give_memory, time_run, warm_up  # noqa: PLC0415

    yield "building"
    built = build_on_meta(ask.config, ask.precision)
    # Before the first product: torch's allocator then gives out the workspace of cuBLAS, which is part of the run and of its prediction.
    on_card = memory_gauge.CudaGauge() if ask.device == "cuda" else None
    pace = measure_rates(TORCH_DTYPES[ask.precision], ask.device)
    check_time(ask.work, pace, estimate_duration(ask.work, pace, ask.device), ask.limit_s)
    gc.collect()
    gauge = on_card or memory_gauge.HostGauge()  # a process's set of pages counts libraries too, which the products have brought in
    try:
        yield "weights"
        gauge.restart()
        began = time.perf_counter()
        model = give_memory(built, ask.precision, ask.device)
        if ask.device == "cuda":
            torch.cuda.synchronize()
        weights_s, weights_bytes = time.perf_counter() - began, gauge.count_bytes()
        yield "warm-up"
        warm_up(model, ask.prompt_tokens, ask.device)
        yield "running"
        gauge.restart()
        timed = time_run(model, ask.prompt_tokens, ask.output_tokens, ask.device)
        cuda = ask.device == "cuda"
        yield MeasuredRun(
            peak_bytes=gauge.peak(),
            weights_bytes=weights_bytes,
            before_bytes=gauge.before,
            reserved_bytes=int(torch.cuda.max_memory_reserved()) if cuda else None,
            ttft_s=timed.ttft_s,
            decode_tokens_per_s=timed.decode_tokens_per_s,
            mean_tokens_per_s=timed.mean_tokens_per_s,
            steps=len(timed.steps_s),
            weights_s=weights_s,
            kernel=str(getattr(model.config, "_attn_implementation", "")),
            device_name=torch.cuda.get_device_name() if cuda else None,
        )
    finally:
        gauge.close()


Code = Literal["confirmed", "memory_off", "speed_off", "invalid"]

MEMORY_WITHIN = 0.10
"""Of the measured peak: what the prediction of memory promises."""
RESOLUTION = 16 * 2**20
"""Bytes below which a resident set tells nothing: pages of libraries, Python's heap, kernels' scratch. Seen: 11 to 19 MiB on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRate:
    """A prediction with its range, and what was measured; None where either is missing."""

    predicted: float | None
    low: float | None
    high: float | None
    measured: float | None

    @property
    def inside(self) -> bool | None:
        """Whether the measurement lies in the range; None where one is missing."""
        if self.measured is None or self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


def _deviation_words(error: float) -> str:
    return f"{abs(error):.1%} {'more' if error > 0 else 'less'} than was measured"


def _speed(rate: ComparedRate) -> str:
    if rate.measured is None:
        return "Nothing is decoded by this model: the first figure is the whole pass."
    if rate.inside is None or rate.predicted is None:
        return f"Decoding: {rate.measured:,.1f} tokens/s, nothing predicted for this device."
    where = "inside" if rate.inside else "outside"
    return (
        f"Decoding: {rate.measured:,.1f} tokens/s, {where} the predicted range of {rate.low:,.1f} to {rate.high:,.1f} "
        f"({rate.predicted:,.1f} expected)."
    )


def judge_prediction(
    predicted: int,
    measured: int,
    rate: ComparedRate,
    *,
    floor_tokens_per_s: float | None,
    resolution: int,
    first_token_error: float | None = None,
) -> tuple[Code, str]:
    """A code and its sentence. Nothing is confirmed whose rate, or time to the first token, was predicted wrong by a factor of two.

    Args:
        predicted: peak of memory, in bytes.
        measured: the same.
        rate: tokens a second while decoding.
        floor_tokens_per_s: the most that the memory's bandwidth allows, where the datasheet states it.
        resolution: bytes that the measurement of memory cannot tell apart.
        first_token_error: predicted / measured - 1 of the time to the first token.
    """
    if floor_tokens_per_s is not None and rate.measured is not None and rate.measured > floor_tokens_per_s:
        said = (
            f"{rate.measured:,.1f} tokens/s is more than the {floor_tokens_per_s:,.1f} that the device's memory bandwidth allows when "
            "every step reads the weights: the clock, not the device, is wrong, and this measurement counts for nothing."
        )
        return "invalid", said
    error, apart = predicted / max(1, measured) - 1, abs(predicted - measured)
    close = abs(error) <= MEMORY_WITHIN
    unclear = not close and apart <= resolution
    memory = f"Memory: predicted {_deviation_words(error)}"
    if close:
        memory += f", inside the promised {MEMORY_WITHIN:.0%}"
    if unclear:
        memory += f"; the {apart / 2**20:,.1f} MiB between them are below what can be told apart here ({resolution / 2**20:,.0f} MiB)"
    rate_error = rate.predicted / rate.measured - 1 if rate.predicted and rate.measured else None
    off = [name for name, ratio in (("decoding", rate_error), ("the first token", first_token_error)) if _is_off(ratio)]
    code: Code = "memory_off" if not close and not unclear else "speed_off" if rate.inside is False or off else "confirmed"
    return code, f"{memory}. {_speed(rate)}" + (f" Wrong by a factor of two or more: {' and '.join(off)}." if off else "")


FACTOR = 1.95
"""What is written as "2.0 times too slow" begins here."""


def _is_off(error: float | None) -> bool:
    return error is not None and not 1 / FACTOR < error + 1 < FACTOR
