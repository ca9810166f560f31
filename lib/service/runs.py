"""A run on the device at hand: before it, what it will take, the memory it needs and what it may take; after it, its row in the ledger.

The peak of memory is `lib.laws.activation.generation_peak_bytes`, the times are those of `lib.speed` on the device itself; a run that was
made is compared with them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from lib.answers.live import AnswerFigures, ChatMetrics, ErrorRatio, MeasureAnswer, MeasuredFigures, MemoryNeed, RunEnd, RunFigures
from lib.catalog import Catalog
from lib.catalog.offers import ZEROGPU_OFFERS, Hardware
from lib.catalog.silicon import Accelerator
from lib.errors import AdvisorError, BadArgument, InvalidInput, LiveError, TooLong, UnsupportedModel
from lib.laws import activation
from lib.laws.activation import generation_peak_bytes
from lib.laws.runtime import WORKSPACE
from lib.live import limits
from lib.live.device import Device, copies_head, device_hardware
from lib.live.ledger import Ledger, LedgerStatus, ledger_place
from lib.live.measure import MeasureRequest
from lib.live.measurements import NAMES, DatasetPush, Measurement, MeasurementKind, WeightsOrigin, model_label, parquet_bytes, start_push
from lib.live.zerogpu import size_for
from lib.memory import MemoryEstimate, estimate_generation, estimate_memory, fit_memory
from lib.memory.resolve import layer_sizes
from lib.model.spec import ModelSpec
from lib.present.sentences import sentence
from lib.present.tables import csv_text
from lib.provenance import Caveat, Reason, Source
from lib.result import fields_of
from lib.speed import End, ExplainedSpeed, SpeedEstimate, SpeedRequest, predict_speed
from lib.units import GIB
from lib.workload import MemoryRequest

_SOME_CPU = "CPU-2vCPU"  # for what it computes natively: the same for all of its kind
_NOT_HERE = "one_prompt"  # said of an estimate that takes the whole context as one prompt, which this one does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: a model in a format on a device, with a prompt of this length and this many tokens of answer.

    `rates` is what the device was seen to reach in this format, if it has no datasheet (a CPU); None leaves it to the catalog.
    """

    spec: ModelSpec
    precision: str
    device: Device
    prompt_tokens: int
    output_tokens: int
    rates: limits.DeviceRates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrediction:
    """Expectation of a run: the cache at its end, the activations of its prompt; `speed` is None if nothing is known of the device.

    `weights_bytes` are all bytes made before the run: parameters and other large tensors.

    `hardware` names what the speed is predicted for: a row of the catalog, or this very machine.
    """

    peak_bytes: int
    weights_bytes: int
    kv_cache_bytes: int
    activation_bytes: int
    speed: ExplainedSpeed | None
    hardware: str | None
    caveats: tuple[Caveat, ...]
    sources: tuple[Source, ...]


def _on(run: Run, catalog: Catalog) -> Hardware | None:
    """The device as the catalog's, a CPU with its own rates where they are known; on ZeroGPU the size that the device is of."""
    if run.rates is not None and run.device.kind == "cpu":
        return device_hardware(
            run.device, catalog, cpu=limits.apply_measured_rates(run.rates, run.precision, run.device, catalog.accelerator(_SOME_CPU))
        )
    large = catalog.offer(ZEROGPU_OFFERS["large"]).vram_bytes_per_accelerator or 0
    return device_hardware(run.device, catalog, "xlarge" if run.device.per_call and run.device.memory_bytes > large else "large")


def _silicon(run: Run, catalog: Catalog) -> Accelerator | None:
    hardware = _on(run, catalog)
    return None if hardware is None else hardware.processor


def _memory(run: Run, catalog: Catalog, tokens: int, encoder: int = 0) -> MemoryEstimate:
    request = MemoryRequest(precision=run.precision, engine="transformers", context_tokens=max(1, tokens), encoder_tokens=encoder)
    return estimate_memory(run.spec, request, _silicon(run, catalog))


def predict_run(run: Run, catalog: Catalog, *, encoder_decoder: bool = False) -> RunPrediction:
    """The prediction.

    An encoder-decoder reads the prompt with its encoder and writes from a single token; where it listens or looks, one pass is run.
    """
    request = MemoryRequest(precision=run.precision, engine="transformers")
    prompt, last, _, weights, moments = estimate_generation(run.spec, request, run.prompt_tokens, run.output_tokens, _silicon(run, catalog))
    cache, activations = last.kv_cache.bytes, prompt.activation.bytes
    if encoder_decoder:
        single = run.spec.task in _SOUND_OR_PICTURE
        whole = _memory(run, catalog, 1) if single else _memory(run, catalog, run.output_tokens, run.prompt_tokens)
        cache, activations = whole.kv_cache.bytes, whole.activation.bytes
        moments = [(cache, activations)]
    elif run.device.kind == "cpu" and run.prompt_tokens > 1 and run.spec.work == "decoder" and copies_head(run.precision):
        sizes = layer_sizes(run.spec)
        activations = max(activations, activation.HALF * sizes.vocabulary * sizes.hidden)
        moments = [(prompt.kv_cache.bytes, activations), *moments[1:]]
    workspace = prompt.runtime.details.get(WORKSPACE, 0)
    speed, hardware, silicon = _speed(run, catalog), _on(run, catalog), _silicon(run, catalog)
    rates = () if run.rates is None or isinstance(speed, Caveat) else (limits.rates_caveat(run.rates, run.precision),)
    return RunPrediction(
        peak_bytes=generation_peak_bytes(weights=weights, moments=moments, workspace=workspace),
        weights_bytes=weights,
        kv_cache_bytes=cache,
        activation_bytes=activations,
        speed=None if isinstance(speed, Caveat) else speed,
        hardware=None if hardware is None else silicon.id if silicon is not None and silicon.reached else hardware.id,
        caveats=(
            *(caveat for caveat in last.caveats if caveat.code != _NOT_HERE),
            *rates,
            *((speed,) if isinstance(speed, Caveat) else speed.caveats),
        ),
        sources=(*last.sources, *(() if isinstance(speed, Caveat) else speed.sources)),
    )


def _speed(run: Run, catalog: Catalog) -> ExplainedSpeed | Caveat:
    """How fast the run is, or why that is not predicted."""
    on = _on(run, catalog)
    if on is None:
        return Caveat("speed_unknown", {"card": run.device.name}, variant="card")
    request = SpeedRequest(precision=run.precision, prompt_tokens=run.prompt_tokens, output_tokens=run.output_tokens)
    try:
        return predict_speed(run.spec, on, request, catalog.accelerators)
    except (InvalidInput, UnsupportedModel) as error:
        return Caveat("speed_unknown", {"failure": str(error)})


def run_end(speed: SpeedEstimate | None, end: End) -> RunEnd:
    """The values of one request, or one end of their ranges."""
    rate = None if speed is None else speed.decode_tokens_per_s
    return RunEnd(ttft_s=None if speed is None else speed.ttft_s.at(end), decode_tokens_per_s=None if rate is None else rate.at(end))


def run_figures(prediction: RunPrediction | None, end: End = "value", *, more_bytes: int = 0) -> RunFigures:
    """The predicted values of a run, or one end of their ranges with `more_bytes` of memory; all None without a prediction."""
    if prediction is None:
        return RunFigures(peak_bytes=None, ttft_s=None, decode_tokens_per_s=None)
    return RunFigures(peak_bytes=prediction.peak_bytes + more_bytes, **fields_of(run_end(prediction.speed, end)))


def compare_run(predicted: RunFigures, measured: MeasuredFigures | AnswerFigures) -> ErrorRatio:
    """Errors of a prediction."""

    def ratio(expected: float | None, found: float | None) -> float | None:
        return None if expected is None or not found else expected / found - 1.0

    return ErrorRatio(
        peak_bytes=ratio(predicted.peak_bytes, measured.peak_bytes),
        ttft_s=ratio(predicted.ttft_s, measured.ttft_s),
        decode_tokens_per_s=ratio(predicted.decode_tokens_per_s, measured.decode_tokens_per_s),
    )


HALF = "bf16"
_SOUND_OR_PICTURE = frozenset({"automatic-speech-recognition", "image-to-text", "text-to-speech", "text-to-audio"})
_SPARE_S, _TIMES = 10.0, 3.0  # a prediction of speed may be this far off, and a GPU's process makes the weights first
_SMALLEST_CACHE = 1.1  # weights of a decoder, with cache and activations of a short prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run with its prediction, its need of memory, and the question to the device."""

    run: Run
    expected: RunPrediction
    need: MemoryNeed
    ask: MeasureRequest


def prepare_run(run: Run, config: Mapping[str, Any], catalog: Catalog, device: Callable[..., Device], placed_bytes: int = 0) -> PreparedRun:
    """The case of a run; on ZeroGPU on the smallest size that holds it (`device(size)`), with the `placed_bytes` that move in."""
    _check_context(run)
    expected, need = _predict_need(run, config, catalog)
    size = size_for(catalog, limits.required_free_bytes(need, run.device) + placed_bytes)
    if run.device.per_call:
        card = device(size)
        run = replace(run, device=replace(card, free_bytes=max(0, card.free_bytes - placed_bytes)))
        expected, need = _predict_need(run, config, catalog)
    limits.check_memory(need, run.device, sentence(_advice(run, config, need, catalog)))
    ask = MeasureRequest(
        config=config,
        precision=run.precision,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens,
        device=run.device.torch_name,
        work=_work(run, expected),
        limit_s=_limit_s(run, expected),
        size=size,
        placed_bytes=placed_bytes,
        memory_limit_bytes=limits.memory_limit_bytes(need, run.device),
    )
    return PreparedRun(run=run, expected=expected, need=need, ask=ask)


def _check_context(run: Run) -> None:
    """Refuse a run that reads positions which the model does not have.

    An encoder and its decoder count their positions apart. Any other model that writes reads its own tokens after the prompt, with or
    without a cache; the last token is written and never read.
    """
    spec, limit = run.spec, run.spec.context_limit
    if limit is None:
        return
    apart, writes = spec.has_encoder, bool(spec.cache_terms) or spec.work == "decoder"
    if run.prompt_tokens + (run.output_tokens - 1 if writes and not apart else 0) > limit:
        lengths = f"{run.prompt_tokens:,} with output_tokens {run.output_tokens:,}"
        raise BadArgument("prompt_tokens", lengths, f"at most {limit:,} tokens in all, the model's own limit")
    if spec.work == "encoder-decoder" and run.output_tokens > limit:
        raise BadArgument("output_tokens", f"{run.output_tokens:,}", f"at most {limit:,} tokens, the model's own limit")


def _predict_need(run: Run, config: Mapping[str, Any], catalog: Catalog) -> tuple[RunPrediction, MemoryNeed]:
    """The prediction, and the same with the process's own memory."""
    expected = predict_run(run, catalog, encoder_decoder=config.get("is_encoder_decoder") is True)
    need = MemoryNeed(
        weights_bytes=expected.weights_bytes,
        kv_cache_bytes=expected.kv_cache_bytes,
        activation_bytes=expected.activation_bytes,
        runtime_bytes=_memory(run, catalog, run.prompt_tokens).runtime.bytes,
    )
    return expected, need


def _advice(run: Run, config: Mapping[str, Any], need: MemoryNeed, catalog: Catalog) -> Reason:
    """A run that would fit: half the precision, a shorter prompt, a smaller model; the first that does."""
    allowed = limits.usable_bytes(run.device)
    if run.precision == "fp32":
        half = _predict_need(replace(run, precision=HALF), config, catalog)[1]
        if half.total_bytes <= allowed:
            return Reason("bf16_fits", {"total_gib": half.total_bytes / GIB})
    request = MemoryRequest(precision=run.precision, engine="transformers", context_tokens=run.prompt_tokens)
    longest = fit_memory(run.spec, request, allowed, _silicon(run, catalog)).max_context_tokens or 0
    if longest > run.output_tokens:
        return Reason("shorter_prompt_fits", {"prompt_tokens": longest - run.output_tokens})
    most = (allowed - need.runtime_bytes) / (2 * _SMALLEST_CACHE)
    return Reason("smaller_model_fits", {"billions": max(0.0, most) / 1e9})


def _work(run: Run, expected: RunPrediction) -> limits.RunWork:
    spec = run.spec
    return limits.RunWork(
        weights_bytes=expected.weights_bytes,
        parameters_per_token=spec.parameters_active,
        step_bytes=expected.weights_bytes * spec.parameters_active // max(1, spec.parameters_total) + expected.kv_cache_bytes,
        layers=spec.dimensions.layers,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens if (bool(spec.cache_terms) or spec.unknown_cache) else 0,
    )


def _limit_s(run: Run, expected: RunPrediction) -> float:
    """Seconds that the run may be estimated to take. On ZeroGPU they are declared, and asked of the visitor's quota: as few as needed."""
    limit = limits.LIMIT_S[run.device.kind]
    if not run.device.per_call:
        return limit
    speed = expected.speed
    first = 0.0 if speed is None else speed.ttft_s.value
    rate = None if speed is None else speed.decode_tokens_per_s
    answer = run.output_tokens / rate.value if rate else 0.0
    wanted = _SPARE_S + _TIMES * (first + answer)
    if wanted > limit:
        raise TooLong(
            f"This run is predicted to take {first:,.1f} s for the prompt and {answer:,.1f} s for {run.output_tokens:,} tokens; declared "
            f"{_TIMES:g}-fold with {_SPARE_S:g} s to make the weights that is {wanted:,.0f} s of a GPU. A run may declare {limit:,.0f} s. "
            "Ask for fewer tokens, a shorter prompt or a smaller model."
        )
    return wanted


log = logging.getLogger(__name__)

Format = Literal["csv", "parquet"]
HERE = "measured on this machine"


def row_of(
    spec: ModelSpec,
    device: Device,
    run: MeasureAnswer | ChatMetrics,
    *,
    kind: MeasurementKind,
    precision: str,
    prompt_tokens: int,
    output_tokens: int,
    weights: WeightsOrigin = "random",
    provenance: str = HERE,
    now: datetime | None = None,
) -> Measurement:
    """A row from the answer of a run."""
    predicted = run.predicted
    return Measurement(
        when=(now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%MZ"),
        kind=kind,
        device=device.name[:200],
        accelerator=device.accelerator,
        devices=1,
        driver=device.driver,
        torch=device.torch,
        engine=f"transformers {device.transformers}",
        model=model_label(spec),
        architecture=spec.architecture[:200],
        weights=weights,
        precision=precision,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        predicted_peak_bytes=predicted.peak_bytes,
        peak_bytes=run.peak_bytes,
        predicted_ttft_s=predicted.ttft_s,
        ttft_s=run.ttft_s,
        predicted_decode_tokens_per_s=predicted.decode_tokens_per_s,
        decode_tokens_per_s=run.decode_tokens_per_s,
        provenance=provenance,
    )


class MeasurementLedger:
    """The ledger behind the page and the measurements."""

    def __init__(self, ledger: Ledger | None = None, copies: DatasetPush | None = None) -> None:
        """By default where the environment says."""
        self._ledger = ledger or Ledger(ledger_place())
        self._copies = copies or start_push()

    def keep(self, row: Measurement) -> None:
        """Write a row and have it copied where the owner wants that. Never fails a measurement."""
        if self._ledger.keep(row):
            self._copies.add(row)

    def record(self, spec: ModelSpec, device: Device, run: MeasureAnswer | ChatMetrics, **row: Any) -> None:
        """`keep(row_of(…))` of a run that just ended; a figure that fits no row is logged, and the run's answer is kept.

        Of a model that only its readers may see nothing is written.
        """
        if spec.read_with_token:
            return
        try:
            self.keep(row_of(spec, device, run, **row))
        except AdvisorError:
            log.exception("a measurement could not be written to the ledger")

    def rows(self) -> tuple[Measurement, ...]:
        """Every row, newest first: own ones and those that come with the app."""
        return self._ledger.rows()

    def status(self) -> LedgerStatus:
        """Storage of the rows, and any problem with them."""
        return replace(self._ledger.status(), copied=self._copies.status())

    def export(self, form: Format) -> bytes:
        """All rows as a file.

        Raises:
            LiveError: Parquet, where pyarrow is not installed.
        """
        if form == "csv":
            return csv_text(NAMES, [asdict(row) for row in self._ledger.rows()]).encode()
        try:
            return parquet_bytes(self._ledger.rows())
        except ImportError as error:
            raise LiveError("Parquet files need the package pyarrow, which is not installed here. Take the CSV file.") from error
