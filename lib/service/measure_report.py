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
from lib.live.measure import MeasuredRun
from lib.live.measure_process import gpu_seconds
from lib.live.verdict import RESOLUTION, ComparedRate, judge_prediction
from lib.live.zerogpu import arithmetic
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat, Source
from lib.service.run_prediction import Case, Predicted, ratio
from lib.service.speed import run_end
from lib.speed.model_work import TOWERS

_KERNELS = {"sdpa", "eager"}
_NOT_ASKED = "dtype_unstated"  # said of "auto", which a measurement does not know


def _floor_rate(case: Case, catalog: Catalog) -> float | None:
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


def _predicted(case: Case) -> MeasurePrediction:
    said = case.expected
    return {
        "peak_bytes": said.peak_bytes,
        **run_end(said.speed, "value"),
        "weights_bytes": said.weights_bytes,
        "kv_cache_bytes": said.kv_cache_bytes,
        "activation_bytes": said.activation_bytes,
        "runtime_bytes": case.need.runtime_bytes,
        "hardware": said.hardware,
        "low": run_end(said.speed, "low"),
        "high": run_end(said.speed, "high"),
    }


def _errors(said: Predicted, seen: MeasuredRun) -> ErrorRatio:
    expected = run_end(said.speed, "value")
    return {
        "peak_bytes": ratio(said.peak_bytes, seen.peak_bytes),
        "ttft_s": ratio(expected["ttft_s"], seen.ttft_s),
        "decode_tokens_per_s": ratio(expected["decode_tokens_per_s"], seen.decode_tokens_per_s),
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


def _caveats(case: Case, seen: MeasuredRun, rules: ZeroGpuRules) -> list[Caveat]:
    run, said = case.run, []
    stored = run.spec.stored.quantization
    if stored is not None:
        text = f"The published weights are quantized ({stored.format}); the architecture was run in {run.precision}, as if it were not."
        said.append(Caveat(code="measured_unquantized", message=text))
    if run.device.kind == "cpu":
        text = "Memory is the process's resident set, with blocks of 1 MiB and more given back to the system at once."
        said.append(Caveat(code="resident_set", message=text))
    if run.device.kind == "zerogpu":
        said.append(Caveat(code="quota", message=arithmetic(rules, gpu_seconds(case.ask), case.ask.size)))
    if not seen.steps and case.ask.work.output_tokens:
        text = "One token or one pass was run, so there is no speed of decoding."
        said.append(Caveat(code="nothing_decoded", message=text))
    if seen.kernel not in _KERNELS:
        text = f"The attention that ran is '{seen.kernel[:40]}'; the prediction is that of the default kernel."
        said.append(Caveat(code="other_attention", message=text))
    said.append(
        Caveat(code="random_weights", message="Weights are random and made on the device: speed and memory do not depend on values.")
    )
    return said


def measure_answer(case: Case, seen: MeasuredRun, catalog: Catalog) -> MeasureAnswer:
    """The answer to a finished run."""
    run, said = case.run, case.expected
    rate = None if said.speed is None else said.speed.decode_tokens_per_s
    errors = _errors(said, seen)
    figure = ComparedRate(
        predicted=rate.value if rate else None,
        low=rate.low if rate else None,
        high=rate.high if rate else None,
        measured=seen.decode_tokens_per_s,
    )
    code, message = judge_prediction(
        said.peak_bytes,
        seen.peak_bytes,
        figure,
        floor_tokens_per_s=_floor_rate(case, catalog),
        resolution=RESOLUTION if run.device.kind == "cpu" else 0,
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
        "device": seen.device_name or run.device.name,
        "device_details": _device(run.device),
        "weights": "random",
        "precision": run.precision,
        "attention": seen.kernel,
        "prompt_tokens": run.prompt_tokens,
        "output_tokens": run.output_tokens,
        "peak_bytes": seen.peak_bytes,
        "weights_bytes": seen.weights_bytes,
        "before_bytes": seen.before_bytes,
        "reserved_bytes": seen.reserved_bytes,
        "ttft_s": seen.ttft_s,
        "decode_tokens_per_s": seen.decode_tokens_per_s,
        "mean_tokens_per_s": seen.mean_tokens_per_s,
        "weights_s": seen.weights_s,
        "predicted": _predicted(case),
        "error_ratio": errors,
        "verdict": {"code": code, "message": message},
        "caveats": caveat_entries(
            (*_caveats(case, seen, catalog.rules.zerogpu), *(caveat for caveat in said.caveats if caveat.code != _NOT_ASKED))
        ),
        "sources": source_entries((ran, *said.sources)),
    }
