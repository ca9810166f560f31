"""A finished measurement as plain JSON: what was measured, what was predicted, and what one says of the other."""

from __future__ import annotations

from datetime import UTC, datetime

from lib.advisor.speed import count_decode_parameters
from lib.answers.common import SCHEMA, source_entries
from lib.answers.live import DeviceEntry, ErrorRatio, MeasureAnswer, MeasurePrediction
from lib.catalog import Catalog
from lib.catalog.rules import ZeroGpuRules
from lib.laws.roofline import decode_floor
from lib.live.device import Device, device_hardware
from lib.live.heartbeat import datasheet_roof
from lib.live.measure import RESOLUTION, ComparedRate, MeasuredRun, judge_prediction
from lib.live.measure_process import gpu_seconds
from lib.live.zerogpu import quota_values
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat, Source
from lib.service.run_prediction import PreparedRun, RunPrediction, relative_error
from lib.service.speed import run_end
from lib.speed.model_work import TOWERS

_KERNELS = {"sdpa", "eager"}
_NOT_ASKED = "dtype_unstated"  # a caveat of "auto", which a measurement does not know


def _floor_rate(case: PreparedRun, catalog: Catalog) -> float | None:
    """Tokens a second that the memory's datasheet bandwidth allows; None on a CPU, and where an encoder's share is not read again.

    A bound that no honest clock beats: an input embedding of its own is only looked up, towers of pictures and sound are passed by, weights
    that a cache on chip may keep are left out, and a part of a card may have the bandwidth of the whole.
    """
    on = device_hardware(case.run.device, catalog)
    silicon = None if on is None else on.silicon
    spec, parts = case.run.spec, case.run.spec.parameters_by_component
    if silicon is None or not silicon.bandwidth_is_peak or "encoder" in parts:
        return None
    cache = datasheet_roof(silicon, "float32").cache_bytes
    share = (count_decode_parameters(spec) - sum(parts.get(tower, 0) for tower in TOWERS)) / max(1, spec.parameters_total)
    read = max(0, int(case.expected.weights_bytes * share) - cache)
    least = decode_floor(weight_bytes=read, cache_bytes=0, bandwidth=silicon.bandwidth, active_parameters=0)
    return 1 / least.seconds if least.seconds > 0 else None


def _prediction(case: PreparedRun) -> MeasurePrediction:
    prediction = case.expected
    return {
        "peak_bytes": prediction.peak_bytes,
        **run_end(prediction.speed, "value"),
        "weights_bytes": prediction.weights_bytes,
        "kv_cache_bytes": prediction.kv_cache_bytes,
        "activation_bytes": prediction.activation_bytes,
        "runtime_bytes": case.need.runtime_bytes,
        "hardware": prediction.hardware,
        "low": run_end(prediction.speed, "low"),
        "high": run_end(prediction.speed, "high"),
    }


def _errors(prediction: RunPrediction, measured: MeasuredRun) -> ErrorRatio:
    expected = run_end(prediction.speed, "value")
    return {
        "peak_bytes": relative_error(prediction.peak_bytes, measured.peak_bytes),
        "ttft_s": relative_error(expected["ttft_s"], measured.ttft_s),
        "decode_tokens_per_s": relative_error(expected["decode_tokens_per_s"], measured.decode_tokens_per_s),
    }


def _device(device: Device) -> DeviceEntry:
    return {
        "kind": device.kind,
        "name": device.name,
        "accelerator": device.accelerator,
        "memory_bytes": device.memory_bytes,
        "cores": device.cores,
        "driver": device.driver,
        "torch": device.torch,
        "transformers": device.transformers,
    }


def _caveats(case: PreparedRun, measured: MeasuredRun, rules: ZeroGpuRules) -> list[Caveat]:
    run = case.run
    caveats: list[Caveat] = []
    stored = run.spec.stored.quantization
    if stored is not None:
        caveats.append(Caveat("measured_unquantized", {"format": stored.format, "precision": run.precision}))
    if run.device.kind == "cpu":
        caveats.append(Caveat("resident_set"))
    if run.device.kind == "zerogpu":
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
    rate = None if prediction.speed is None else prediction.speed.decode_tokens_per_s
    errors = _errors(prediction, measured)
    figure = ComparedRate(
        predicted=rate.value if rate else None,
        low=rate.low if rate else None,
        high=rate.high if rate else None,
        measured=measured.decode_tokens_per_s,
    )
    code, message = judge_prediction(
        prediction.peak_bytes,
        measured.peak_bytes,
        figure,
        floor_tokens_per_s=_floor_rate(case, catalog),
        resolution=RESOLUTION if run.device.kind == "cpu" else 0,
        first_token_error=errors["ttft_s"],
    )
    how = "the host's clock, each token awaited" if run.device.kind == "cpu" else "the host's clock, the device awaited at each token"
    ran = Source(
        what="measured figures",
        source=f"run on this device with transformers {run.device.transformers} and torch {run.device.torch}; {how}",
        checked=datetime.now(UTC).date().isoformat(),
    )
    return {
        "schema": SCHEMA,
        "model": run.spec.id,
        "architecture": run.spec.architecture,
        "device": measured.device_name or run.device.name,
        "device_details": _device(run.device),
        "weights": "random",
        "precision": run.precision,
        "attention": measured.kernel,
        "prompt_tokens": run.prompt_tokens,
        "output_tokens": run.output_tokens,
        "peak_bytes": measured.peak_bytes,
        "weights_bytes": measured.weights_bytes,
        "before_bytes": measured.before_bytes,
        "reserved_bytes": measured.reserved_bytes,
        "ttft_s": measured.ttft_s,
        "decode_tokens_per_s": measured.decode_tokens_per_s,
        "mean_tokens_per_s": measured.mean_tokens_per_s,
        "weights_s": measured.weights_s,
        "predicted": _prediction(case),
        "error_ratio": errors,
        "verdict": {"code": code, "message": message},
        "caveats": caveat_entries(
            (*_caveats(case, measured, catalog.rules.zerogpu), *(caveat for caveat in prediction.caveats if caveat.code != _NOT_ASKED))
        ),
        "sources": source_entries((ran, *prediction.sources)),
    }
