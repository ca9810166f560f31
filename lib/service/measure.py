"""`/measure`: any architecture with random weights on the device at hand, and the prediction for exactly this run.

Before it, on the page: the prediction, the memory that the run needs, and the free memory.

`/heartbeat`: how fast the device at hand multiplies, and the least time that is physically possible.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, cast

from lib.answers.live import (
    ExpectedAnswer,
    HeartbeatAnswer,
    HeartbeatProgress,
    MeasureAnswer,
    MeasuredFigures,
    MeasurePrediction,
    MeasureStage,
)
from lib.catalog import Catalog
from lib.catalog.rules import ZeroGpuRules
from lib.errors import AdvisorError, DoesNotFit, TooLong, UnsupportedModel
from lib.laws.forward_pass import decode_floor
from lib.live.device import Device, device_hardware
from lib.live.device_queue import DEVICE, hardware_turn
from lib.live.heartbeat import LIMIT_S, UNKNOWN_CACHE_BYTES, HeartbeatRun, MatmulCase, datasheet_roof
from lib.live.limits import NOISE_BYTES_PER_S, estimate_duration, usable_bytes
from lib.live.measure import RESOLUTION, ComparedRate, MeasuredRun, gpu_seconds, judge_prediction
from lib.live.zerogpu import quota_seconds, quota_values
from lib.provenance import Caveat, Source, StatementText, Value
from lib.request.fields import Arguments, one_of, whole_number
from lib.request.types import Model
from lib.result import fields_of
from lib.service.endpoint import App, endpoint
from lib.service.runs import PreparedRun, Run, compare_run, prepare_run, run_end, run_figures
from lib.speed.model_work import count_multiplied
from lib.units import MIB

if TYPE_CHECKING:
    from lib.model.spec import ModelSpec


_KERNELS = {"sdpa", "eager"}
_NOT_ASKED = "dtype_unstated"  # a caveat of "auto", which a measurement does not know


def _floor_rate(case: PreparedRun, catalog: Catalog) -> float | None:
    """Tokens a second that the memory's datasheet bandwidth allows; None on a CPU, and where an encoder's share is not read again.

    A bound that no honest clock beats: tables and towers of pictures and sound are not read at all, and weights that an on-chip cache may
    keep are left out. A part of a card may have the bandwidth of the whole.
    """
    on = device_hardware(case.run.device, catalog)
    silicon = None if on is None else on.silicon
    spec = case.run.spec
    if silicon is None or not silicon.bandwidth_is_peak or "encoder" in spec.parameters_by_component:
        return None
    cache = datasheet_roof(silicon, "float32").cache_bytes
    share = count_multiplied(spec) / max(1, spec.parameters_total)
    read = max(0, int(case.expected.weights_bytes * share) - cache)
    least = decode_floor(weight_bytes=read, cache_bytes=0, bandwidth=silicon.bandwidth, active_parameters=0)
    return 1 / least.seconds if least.seconds > 0 else None


def _caveats(case: PreparedRun, measured: MeasuredRun, rules: ZeroGpuRules) -> list[Caveat]:
    run = case.run
    caveats: list[Caveat] = []
    stored = run.spec.stored.quantization
    if stored is not None:
        caveats.append(Caveat("measured_unquantized", {"format": stored.format, "precision": run.precision}))
    if run.device.kind == "cpu":
        caveats.append(Caveat("resident_set"))
    if run.device.per_call:
        caveats.append(Caveat("quota", quota_values(rules, gpu_seconds(case.ask), case.ask.size)))
    if not measured.steps and case.ask.work.output_tokens:
        caveats.append(Caveat("nothing_decoded"))
    if measured.kernel not in _KERNELS:
        caveats.append(Caveat("other_attention", {"kernel": measured.kernel[:40]}))
    caveats.append(Caveat("random_weights"))
    return caveats


def measure_answer(case: PreparedRun, measured: MeasuredRun, catalog: Catalog) -> MeasureAnswer:
    """The answer to a finished run."""
    run, prediction = case.run, case.expected
    low, high = run_end(prediction.speed, "low"), run_end(prediction.speed, "high")
    predicted = MeasurePrediction(
        **fields_of(run_figures(prediction)), **fields_of(case.need), hardware=prediction.hardware, low=low, high=high
    )
    errors = compare_run(predicted, measured)
    figure = ComparedRate(
        predicted=predicted.decode_tokens_per_s,
        low=low.decode_tokens_per_s,
        high=high.decode_tokens_per_s,
        measured=measured.decode_tokens_per_s,
    )
    code, message = judge_prediction(
        prediction.peak_bytes,
        measured.peak_bytes,
        figure,
        floor_tokens_per_s=_floor_rate(case, catalog),
        resolution=RESOLUTION if run.device.kind == "cpu" else 0,
        first_token_error=errors.ttft_s,
    )
    how = "the host's clock, each token awaited" if run.device.kind == "cpu" else "the host's clock, the device awaited at each token"
    ran = Source(
        what="measured figures",
        source=f"run on this device with transformers {run.device.transformers} and torch {run.device.torch}; {how}",
        checked=datetime.now(UTC).date().isoformat(),
    )
    return MeasureAnswer(
        **fields_of(measured, MeasuredFigures),
        model=run.spec.id,
        architecture=run.spec.architecture,
        device=measured.device_name or run.device.name,
        device_details=run.device,
        weights="random",
        precision=run.precision,
        attention=measured.kernel,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens,
        predicted=predicted,
        error_ratio=errors,
        verdict=StatementText(code=code, message=message),
        caveats=(
            *_caveats(case, measured, catalog.rules.zerogpu),
            *(caveat for caveat in prediction.caveats if caveat.code != _NOT_ASKED),
        ),
        sources=(ran, *prediction.sources),
    )


MAX_PROMPT, MAX_OUTPUT = 1_048_576, 4_096
PRECISIONS = ("fp32", "fp16", "bf16")


class MeasureArguments(Arguments):
    """Arguments of `/measure`."""

    model: Model
    """A Hub id or the text of a config.json; only its configuration is read, no weights."""
    prompt_tokens: Annotated[int, whole_number(1, MAX_PROMPT)] = 512
    """Tokens of the prompt."""
    output_tokens: Annotated[int, whole_number(1, MAX_OUTPUT)] = 64
    """Tokens to write."""
    precision: Annotated[str, one_of(PRECISIONS)] = "bf16"
    """fp32, fp16 or bf16."""


@endpoint(queue=DEVICE, writes=True, repeatable=False)
def measure(app: App, arguments: MeasureArguments) -> MeasureAnswer:
    """Run any architecture with random weights on this device: peak memory, first token, tokens per second, each with its prediction.

    Returns:
        The measured figures, the prediction for exactly this run, and the ratio of both.
    """
    *_, answer = stream_measurement(app, arguments)
    return cast("MeasureAnswer", answer)  # the last item


def stream_measurement(app: App, arguments: MeasureArguments) -> Iterator[MeasureStage | MeasureAnswer]:
    """`measure` as it runs: each step, and as the last item the answer. Closing it ends the run."""
    case = measurement_case(app, arguments)
    for item in app.run_measurement(case.ask, case.run.device):
        if not isinstance(item, MeasuredRun):
            yield MeasureStage(stage=item)
            continue
        answer = measure_answer(case, item, app.catalog())
        if answer.verdict.code != "invalid":
            sizes = {"prompt_tokens": case.run.prompt_tokens, "output_tokens": case.run.output_tokens}
            app.ledger.record(case.run.spec, case.run.device, answer, kind="measure", precision=case.run.precision, **sizes)
        yield answer


def measurement_case(app: App, arguments: MeasureArguments) -> PreparedRun:
    """All that is known before the run, which may be refused here."""
    config, spec = app.models.config(arguments.model), app.models(arguments.model)
    if spec.library != "transformers":
        raise UnsupportedModel(
            f"{spec.id or 'This'} is a pipeline that makes pictures. Only single architectures of transformers are measured; "
            "its memory and speed are estimated on the other tabs."
        )
    device = app.device()
    run = Run(
        spec=spec,
        precision=arguments.precision,
        device=device,
        prompt_tokens=arguments.prompt_tokens,
        output_tokens=arguments.output_tokens,
        rates=app.rates(device, arguments.precision),
    )
    return prepare_run(run, config, app.catalog(), app.device, app.placed_bytes())


def suggest_measurement(app: App, arguments: MeasureArguments) -> str:
    """The largest bundled text model of which the same run fits the device at hand, in memory and time; "" if none does."""
    return _largest_that_fits(app, arguments, math.inf)


def _largest_that_fits(app: App, arguments: MeasureArguments, most_s: float) -> str:
    """The largest bundled text model whose run fits its context limit, the memory, the time limit and `most_s`; "" without one."""

    def is_refused(spec: ModelSpec, *, for_memory: bool = False) -> bool:
        try:
            case = measurement_case(app, arguments.model_copy(update={"model": spec.id}))
        except AdvisorError as refused:
            return isinstance(refused, DoesNotFit) or not for_memory
        return not for_memory and not (_predicts_decoding(case) and _ends_in_time(case, app.catalog(), most_s))

    specs = [app.models(name) for name in app.models.bundled]
    decoders = sorted(
        (one for one in specs if one.library == "transformers" and one.work == "decoder"), key=lambda one: one.parameters_total
    )
    # Memory grows with the parameters. Time does not: of some models a token reads only a part of the embeddings or experts.
    held = decoders[: bisect_left(decoders, True, key=lambda one: is_refused(one, for_memory=True))]
    return next((one.id for one in reversed(held) if not is_refused(one)), "")


def _predicts_decoding(case: PreparedRun) -> bool:
    """Whether the answer's tokens have a predicted rate; on a device without predicted speeds, whether the model keeps a cache.

    Without a cache each token reads all of the text again: no rate is predicted, and the answer's seconds are unknown.
    """
    if case.expected.speed is None:
        return bool(case.run.spec.cache_terms) or case.run.spec.unknown_cache
    return case.expected.speed.decode_tokens_per_s is not None


def _run_seconds(case: PreparedRun) -> float | None:
    """Seconds of making the weights, the prompt and the answer; None if no speed is predicted."""
    ends = run_end(case.expected.speed, "value")
    first, rate = ends.ttft_s, ends.decode_tokens_per_s
    if first is None:
        return None
    weights_s = case.ask.work.weights_bytes / NOISE_BYTES_PER_S[case.ask.device]
    predicted = weights_s + first + (case.run.output_tokens / rate if rate else 0.0)
    if case.run.rates is None:
        return predicted
    # The run itself is checked with these rates before it starts: the longer of the two estimates counts.
    return max(predicted, estimate_duration(case.ask.work, case.run.rates, case.ask.device).total_s)


def _ends_in_time(case: PreparedRun, catalog: Catalog, most_s: float) -> bool:
    """Whether the run is predicted to end within its limit and `most_s`, and on ZeroGPU within an anonymous visitor's daily quota."""
    seconds = _run_seconds(case)
    if seconds is not None and seconds > min(case.ask.limit_s, most_s):
        return False
    if not case.run.device.per_call:
        return True
    rules = catalog.rules.zerogpu
    return quota_seconds(rules, gpu_seconds(case.ask), case.ask.size) <= rules.daily_quota_s["anonymous"]


SHORT_S = 20.0
"""Seconds that the run of a smaller model may be predicted to take. A choice: a visitor waits that long without leaving."""
_SHORTER = ((128, 32), (32, 8))  # prompt and output tokens, tried in this order where no model can do the lengths that were asked


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRun:
    """A run that the device at hand allows. `changed` says whether it is smaller than the run that was asked."""

    model: str
    prompt_tokens: int
    output_tokens: int
    seconds: float | None
    changed: bool


def default_measurement(app: App, arguments: MeasureArguments) -> DefaultRun | None:
    """The run itself where the device allows it; else the same of a smaller model, or a shorter run of one. None if nothing fits."""
    try:
        case = measurement_case(app, arguments)
        if _ends_in_time(case, app.catalog(), math.inf):
            return _default_run(case, arguments, changed=False)
    except (DoesNotFit, TooLong):
        pass
    asked = (arguments.prompt_tokens, arguments.output_tokens)
    for prompt, output in (asked, *(pair for pair in _SHORTER if pair[0] <= asked[0] and pair[1] <= asked[1])):
        shorter = arguments.model_copy(update={"prompt_tokens": prompt, "output_tokens": output})
        if model := _largest_that_fits(app, shorter, SHORT_S):
            smaller = shorter.model_copy(update={"model": model})
            return _default_run(measurement_case(app, smaller), smaller, changed=True)
    return None


def _default_run(case: PreparedRun, arguments: MeasureArguments, *, changed: bool) -> DefaultRun:
    return DefaultRun(
        model=cast("str", arguments.model),
        prompt_tokens=case.run.prompt_tokens,
        output_tokens=case.run.output_tokens,
        seconds=_run_seconds(case),
        changed=changed,
    )


def predict_measurement(app: App, arguments: MeasureArguments) -> ExpectedAnswer:
    """Prediction of this run on the local device; nothing is run."""
    case = measurement_case(app, arguments)
    run, prediction, need = case.run, case.expected, case.need
    free_memory = Source(what="free memory", source=f"looked at on {run.device.name}", checked=datetime.now(UTC).date().isoformat())
    return ExpectedAnswer(
        **fields_of(need),
        model=run.spec.id,
        architecture=run.spec.architecture,
        device=run.device.name,
        device_kind=run.device.kind,
        precision=run.precision,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens,
        predicted=run_figures(prediction),
        low=run_end(prediction.speed, "low"),
        high=run_end(prediction.speed, "high"),
        need_bytes=need.total_bytes,
        allowed_bytes=usable_bytes(run.device),
        free_bytes=run.device.free_bytes,
        limit_s=case.ask.limit_s,
        caveats=prediction.caveats,
        sources=(free_memory, *prediction.sources),
    )


class HeartbeatArguments(Arguments):
    """Arguments of `/heartbeat`."""

    case: MatmulCase = MatmulCase()


@endpoint(queue=DEVICE, repeatable=False)
def heartbeat(app: App, arguments: HeartbeatArguments) -> HeartbeatAnswer:
    """One matrix product, timed over and over on the device at hand, and compared with the least time that is possible.

    Returns:
        The times, the floor, and whether they can be believed.
    """
    *_, answer = stream_heartbeat(app, arguments)
    return cast("HeartbeatAnswer", answer)  # the last item


def stream_heartbeat(app: App, arguments: HeartbeatArguments) -> Iterator[HeartbeatProgress | HeartbeatAnswer]:
    """`heartbeat` as it goes: how far it is, and as the last item the answer."""
    case = arguments.case
    with hardware_turn():
        device = app.device()
        silicon = None if device.accelerator is None else app.catalog().accelerator(device.accelerator)
        for step in app.run_heartbeat(case, device, silicon, app.placed_bytes()):
            yield _heartbeat_answer(case, device, step) if isinstance(step, HeartbeatRun) else step


def _heartbeat_answer(case: MatmulCase, device: Device, outcome: HeartbeatRun) -> HeartbeatAnswer:
    roof, least = outcome.roof, outcome.floor
    clock = "the host's clock" if device.kind == "cpu" else "events on the device's stream"
    today = datetime.now(UTC).date().isoformat()
    timed = Source(what="the times", source=f"run on this device with torch {device.torch}, by {clock}, each result awaited", checked=today)
    return HeartbeatAnswer(
        **fields_of(outcome.beat),
        device=device.name,
        device_kind=device.kind,
        accelerator=device.accelerator,
        dtype=case.dtype,
        batch=case.batch,
        hidden=case.hidden,
        intermediate=case.intermediate,
        iterations=outcome.done,
        warmup=case.warmup,
        flops=case.flops,
        weight_bytes=case.weight_bytes,
        moved_bytes=case.moved_bytes,
        floor_s=least.seconds,
        floor_memory_s=least.memory_s,
        floor_compute_s=least.compute_s,
        bound=least.bound,
        bandwidth_bytes_per_s=roof.bandwidth,
        peak_flops_per_s=roof.peak,
        driver=device.driver,
        torch=device.torch,
        caveats=tuple(_heartbeat_caveats(case, device, outcome)),
        sources=(timed, *roof.sources),
    )


def _heartbeat_caveats(case: MatmulCase, device: Device, outcome: HeartbeatRun) -> Iterator[Caveat]:
    beat, roof = outcome.beat, outcome.roof
    if not beat.valid:
        yield _impossible(case, outcome)
    if roof.measured:
        yield Caveat("measured_floor", {"device": device.name})
    if roof.cache_bytes == UNKNOWN_CACHE_BYTES:
        yield Caveat("cache_unknown", {"device": device.name, "cache_mib": roof.cache_bytes / MIB}, variant="device")
    elif roof.cache_bytes >= case.moved_bytes:
        yield Caveat("fits_cache", {"matrices_mib": case.moved_bytes / MIB, "cache_mib": roof.cache_bytes / MIB})
    if outcome.emulated:
        yield Caveat("not_native", {"device": device.name, "dtype": case.dtype})
    if outcome.in_tf32:
        yield Caveat("tf32")
    if outcome.done < case.iterations:
        yield Caveat("fewer_iterations", {"timed": outcome.done, "asked": case.iterations, "limit_s": LIMIT_S[device.kind]})
    if device.per_call:
        yield Caveat("part_of_a_card")


def _impossible(case: MatmulCase, outcome: HeartbeatRun) -> Caveat:
    """Why a time below the floor cannot be one."""
    beat, roof, least = outcome.beat, outcome.roof, outcome.floor
    values: dict[str, Value] = {
        "shortest_ms": min(beat.min_s, beat.cold_first_s) * 1e3,
        "moved_mb": case.moved_bytes / 1e6,
        "gb_per_s": roof.bandwidth / 1e9,
        "memory_ms": least.memory_s * 1e3,
    }
    if least.compute_s is None or roof.peak is None:
        return Caveat("beats_the_floor", values)
    compute = {"gflop": case.flops / 1e9, "tflop_per_s": roof.peak / 1e12, "compute_ms": least.compute_s * 1e3}
    return Caveat("beats_the_floor", values | compute, variant="compute")
