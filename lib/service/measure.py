"""`/measure`: any architecture with random weights on the device at hand, beside the prediction for exactly this run.

Before it, on the page: the prediction, and the memory that the run needs beside what is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, cast

from lib.answers.common import SCHEMA, source_entries
from lib.answers.live import ExpectedAnswer, MeasureAnswer, MeasureStage
from lib.errors import UnsupportedModel
from lib.live.limits import usable_bytes
from lib.live.measure import MeasuredRun
from lib.present.sentences import caveat_entries
from lib.provenance import Source
from lib.service.arguments import Arguments, Model, argument, one_of, whole_number
from lib.service.endpoint import App
from lib.service.measure_report import measure_answer
from lib.service.run_prediction import PreparedRun, Run, prepare_run
from lib.service.speed import run_end

MAX_PROMPT, MAX_OUTPUT = 1_048_576, 4_096
PRECISIONS = ("fp32", "fp16", "bf16")


class MeasureArguments(Arguments):
    """Arguments of `/measure`."""

    model: Model = argument(..., "a Hub id or the text of a config.json; only its configuration is read, no weights")
    prompt_tokens: Annotated[int, whole_number(1, MAX_PROMPT)] = argument(512, "tokens of the prompt")
    output_tokens: Annotated[int, whole_number(1, MAX_OUTPUT)] = argument(64, "tokens to write")
    precision: Annotated[str, one_of(PRECISIONS)] = argument("bf16", "fp32, fp16 or bf16")


def measure(app: App, arguments: MeasureArguments) -> MeasureAnswer:
    """Run any architecture with random weights on this device: peak memory, first token, tokens per second, beside the prediction.

    Returns:
        What was measured, what was predicted for exactly this run, and how far apart they are.
    """
    *_, answer = stream_measurement(app, arguments)
    return cast("MeasureAnswer", answer)  # the last item


def stream_measurement(app: App, arguments: MeasureArguments) -> Iterator[MeasureStage | MeasureAnswer]:
    """`measure` as it goes: what is being done, and as the last item the answer. Closing it ends the run.

    Raises:
        InvalidInput: an argument is wrong.
        UnsupportedModel: it is no architecture of transformers that can be built here.
        DoesNotFit: found beforehand, with the arithmetic.
        TooLong: found beforehand, with the arithmetic.
        LiveError: the device did not do it.
    """
    case = measurement_case(app, arguments)
    for item in app.run_measurement(case.ask, case.run.device):
        if not isinstance(item, MeasuredRun):
            yield {"stage": item}
            continue
        answer = measure_answer(case, item, app.catalog())
        if answer["verdict"]["code"] != "invalid":
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


def predict_measurement(app: App, arguments: MeasureArguments) -> ExpectedAnswer:
    """What is predicted of this run on the device at hand; nothing is run.

    Raises:
        AdvisorError: whatever the measurement would refuse before it starts, in the same words.
    """
    case = measurement_case(app, arguments)
    run, prediction, need = case.run, case.expected, case.need
    seen = Source(what="free memory", source=f"looked at on {run.device.name}", checked=datetime.now(UTC).date().isoformat())
    return {
        "schema": SCHEMA,
        "model": run.spec.id,
        "architecture": run.spec.architecture,
        "device": run.device.name,
        "device_kind": run.device.kind,
        "precision": run.precision,
        "prompt_tokens": run.prompt_tokens,
        "output_tokens": run.output_tokens,
        "predicted": {"peak_bytes": prediction.peak_bytes, **run_end(prediction.speed, "value")},
        "low": run_end(prediction.speed, "low"),
        "high": run_end(prediction.speed, "high"),
        "weights_bytes": prediction.weights_bytes,
        "kv_cache_bytes": prediction.kv_cache_bytes,
        "activation_bytes": prediction.activation_bytes,
        "runtime_bytes": need.runtime_bytes,
        "need_bytes": need.total_bytes,
        "allowed_bytes": usable_bytes(run.device),
        "free_bytes": run.device.free_bytes,
        "limit_s": case.ask.limit_s,
        "caveats": caveat_entries(prediction.caveats),
        "sources": source_entries((seen, *prediction.sources)),
    }
