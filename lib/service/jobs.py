"""Jobs before and after they run: what they will cost at most, the files that are sent with them, and rows from what they printed.

What runs inside a job: each model measured as the page's Measure does it, and its row printed to the log.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from lib.catalog import Catalog, load
from lib.catalog.silicon import Accelerator
from lib.engines import Engine
from lib.errors import AdvisorError, AgainstRules, BadArgument, InvalidInput, UnsupportedModel
from lib.hub.jobs import mark_result, own_script, parse_results, vllm_script
from lib.live.ledger import Ledger, LedgerPlace
from lib.live.measurements import DatasetPush, Measurement, model_label, read_row
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.precision import NAMES
from lib.service.endpoint import App
from lib.service.job_bench import bench_command, read_bench
from lib.service.job_pictures import picture_row, picture_script
from lib.service.job_plans import JobPlan, JobRequest, ProgramName, check_model, job_words, median_of, minute_now
from lib.service.measure import MeasureArguments, measure
from lib.service.models import Models
from lib.service.runs import MeasurementLedger, run_end
from lib.speed import SpeedRequest, predict_each

PRECISIONS = ("bf16", "fp16", "fp32")
Reader = Callable[[Sequence[str], JobPlan, JobRequest, Models, Mapping[str, Accelerator]], tuple[tuple[Measurement, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that is measured. A job has a script, or else a command in an image."""

    name: ProgramName
    predicted_as: Engine
    """The engine's row that predicts its memory and speed."""
    least_gpus: int
    """GPUs that a flavor needs for it, at least."""
    most_gpus: int
    """The same, at most."""
    makes: Literal["text", "pictures"]
    """Output of the models that it runs."""
    precisions: tuple[str, ...]
    """Formats that it is measured in, the default first."""
    weights: str
    """Origin of the weights, in words."""
    several_models: bool
    """One job measures several models."""
    read: Reader
    """Rows and complaints from the lines of a log."""
    script: Callable[[JobPlan, JobRequest], str] | None = None
    command: Callable[[JobPlan, JobRequest], tuple[str, tuple[str, ...]]] | None = None


def find_program(name: str) -> Program:
    """The row of a program."""
    return next(program for program in PROGRAMS if program.name == name)


def plan_job(flavor: str, timeout_s: int, catalog: Catalog, engine: str = "auto", makes: str = "text") -> JobPlan:
    """A job on a flavor; `auto` takes the first program that makes this there: transformers, vllm on several GPUs, diffusers for pictures.

    Raises:
        UnknownHardware: no flavor of Jobs.
        AgainstRules: it is no longer offered, its price is not known, or the engine needs a GPU or one GPU at most.
    """
    offer = catalog.offer(flavor, platform="jobs")
    if offer.status != "listed":
        raise AgainstRules(
            f"The flavor {offer.id} is no longer offered on Jobs. Choose one that is listed (see `list_hardware`, platform jobs)."
        )
    if offer.usd_per_hour is None:
        raise AgainstRules(f"The price of the flavor {offer.id} is not known, so no job is started on it. Choose another.")
    able = [
        program for program in PROGRAMS if program.makes == makes and program.least_gpus <= offer.accelerator_count <= program.most_gpus
    ]
    program = next((program for program in able if engine in {"auto", program.name}), None)
    if program is None:
        others = ", ".join(program.name for program in able)
        instead = f"There, {makes} is measured with {others}." if others else "Choose a flavor with at most one GPU."
        raise AgainstRules(f"{engine} is not measured on {offer.id} with models that make {makes}. {instead}")
    return JobPlan(offer=offer, engine=program.name, timeout_s=timeout_s, usd_per_hour=offer.usd_per_hour)


def plan_jobs(
    models: Mapping[str, ModelSpec | None], flavors: Sequence[str], timeout_s: int, catalog: Catalog, engine: str, request: JobRequest
) -> list[tuple[JobPlan, JobRequest]]:
    """Each model on each flavor: one job for the models that its program measures together, else one for each model.

    Args:
        models: the models by their ids; None where one cannot be looked up, which is taken as the engine's own kind.
        flavors: ids of flavors of Jobs.
        timeout_s: of each job.
        catalog: flavors with prices.
        engine: a program, or auto.
        request: the measurement; its models are those of `models`, and its precision may be "" for the program's own.

    Raises:
        AgainstRules: as `plan_job`.
        BadArgument: the program is not measured in this precision.
    """
    jobs = []
    own = next((program.makes for program in PROGRAMS if program.name == engine), "text")
    kinds = {model: own if spec is None else "pictures" if spec.library == "diffusers" else "text" for model, spec in models.items()}
    for flavor in flavors:
        for makes in dict.fromkeys(kinds.values()):
            plan = plan_job(flavor, timeout_s, catalog, engine, makes)
            program, group = find_program(plan.engine), tuple(model for model in models if kinds[model] == makes)
            precision = request.precision or program.precisions[0]
            if precision not in program.precisions:
                raise BadArgument("precision", precision, f"{', '.join(program.precisions)} with {program.name}")
            for names in (group,) if program.several_models else ((model,) for model in group):
                jobs.append((plan, replace(request, models=names, precision=precision)))
    return jobs


def job_script(plan: JobPlan, request: JobRequest) -> str:
    """The script of a job whose program has one."""
    make = find_program(plan.engine).script
    assert make is not None, "asked for by its row"  # noqa: S101 a fact for the type checker
    return make(plan, request)


def _own_script(plan: JobPlan, request: JobRequest) -> str:
    return own_script(_sizes(request) | {"models": list(request.models), "provenance": plan.provenance})


def _vllm_script(plan: JobPlan, request: JobRequest) -> str:
    models = [[model, bundled.find_config(model)] for model in request.models]
    return vllm_script(_sizes(request) | {"models": models, "devices": plan.offer.accelerator_count})


def _sizes(request: JobRequest) -> dict[str, Any]:
    return {"prompt_tokens": request.prompt_tokens, "output_tokens": request.output_tokens, "precision": request.precision}


def read_log(
    lines: Iterable[str], plan: JobPlan, request: JobRequest, models: Models, accelerators: Mapping[str, Accelerator]
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Rows and complaints from a job's log. A line that is not a valid row is a complaint: the job's owner controls its log."""
    return find_program(plan.engine).read(list(lines), plan, request, models, accelerators)


def _marked(read_result: Callable[..., Measurement]) -> Reader:
    """A reader of the results that a script marks in its log."""

    def read(
        lines: Sequence[str], plan: JobPlan, request: JobRequest, models: Models, accelerators: Mapping[str, Accelerator]
    ) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
        rows, complaints = [], []
        for result in parse_results(lines):
            try:
                if "error" in result:
                    complaints.append(f"{job_words(result.get('model'))}: {job_words(result['error'])}")
                else:
                    rows.append(read_result(result, plan, request, models, accelerators))
            except (InvalidInput, UnsupportedModel) as error:
                complaints.append(f"A result that the job printed cannot be used: {error}")
        return tuple(rows), tuple(complaints)

    return read


def _read_bench(
    lines: Sequence[str], plan: JobPlan, request: JobRequest, models: Models, accelerators: Mapping[str, Accelerator]
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    try:
        return (read_bench(lines, plan, request, models, accelerators),), ()
    except (InvalidInput, UnsupportedModel) as error:
        return (), (f"{request.models[0][:60]}: {error}",)


def _own_row(result: Mapping[str, Any], *_: object) -> Measurement:
    """A row as the app's own measurement wrote it."""
    row = result.get("row")
    return read_row(row if isinstance(row, dict) else {})


def _vllm_row(
    result: Mapping[str, Any], plan: JobPlan, request: JobRequest, models: Models, accelerators: Mapping[str, Accelerator]
) -> Measurement:
    """A row from two latencies: rate = (tokens − 1) / (whole − first)."""
    spec = models(check_model(result.get("model"), request))
    first, whole = (median_of(name, result.get(name)) for name in ("first_s", "whole_s"))
    further = request.output_tokens - 1
    shape = SpeedRequest(
        precision=request.precision, engine="vllm", prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens
    )
    expected = run_end(predict_each([(spec, plan.offer, shape)], accelerators)[0], "value")
    return Measurement(
        when=minute_now(),
        kind="job",
        device=f"{plan.offer.accelerator_count} × {result.get('device')}"[:200],
        accelerator=plan.offer.accelerator,
        devices=plan.offer.accelerator_count,
        driver=result.get("driver"),
        torch=str(result.get("torch")),
        engine=f"vllm {result.get('vllm')}",
        model=model_label(spec),
        architecture=spec.architecture,
        weights="random",
        precision=request.precision,
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        predicted_peak_bytes=None,
        peak_bytes=None,
        predicted_ttft_s=expected.ttft_s,
        ttft_s=first,
        predicted_decode_tokens_per_s=expected.decode_tokens_per_s,
        decode_tokens_per_s=further / (whole - first) if further and whole > first else None,
        provenance=plan.provenance,
    )


PROGRAMS = (
    Program(
        name="transformers", predicted_as="transformers", least_gpus=0, most_gpus=1, makes="text", precisions=PRECISIONS,
        weights="random weights", several_models=True, script=_own_script, read=_marked(_own_row),
    ),
    Program(
        name="vllm", predicted_as="vllm", least_gpus=1, most_gpus=64, makes="text", precisions=PRECISIONS, weights="random weights",
        several_models=True, script=_vllm_script, read=_marked(_vllm_row),
    ),
    Program(
        name="llama.cpp", predicted_as="llama.cpp", least_gpus=0, most_gpus=64, makes="text", several_models=False,
        precisions=("gguf:Q4_K_M", *(name for name in NAMES if name.startswith("gguf:") and name != "gguf:Q4_K_M")),
        weights="weights of the GGUF file", command=bench_command, read=_read_bench,
    ),
    Program(
        name="diffusers", predicted_as="transformers", least_gpus=0, most_gpus=1, makes="pictures", precisions=PRECISIONS,
        weights="weights of the checkpoint", several_models=False, script=picture_script, read=_marked(picture_row),
    ),
)  # fmt: skip
"""In the order in which `auto` takes them."""


def main(request: Mapping[str, Any]) -> None:
    """Measure `models`, with `prompt_tokens`, `output_tokens` and `precision`; a model that fails does not stop the others."""
    ledger = Ledger(LedgerPlace(path=None, lasting=False, words="memory of the job"))
    app = App(catalog=load, models=Models(), ledger=MeasurementLedger(ledger, DatasetPush(None)))
    for model in request["models"]:
        sys.stdout.write(mark_result(_one(model, request, app, ledger)) + "\n")
        sys.stdout.flush()


def _one(model: str, request: Mapping[str, Any], app: App, ledger: Ledger) -> dict[str, Any]:
    before = len(ledger.own_rows())
    try:
        measure(app, MeasureArguments(model=model, **{name: request[name] for name in ("prompt_tokens", "output_tokens", "precision")}))
    except AdvisorError as refusal:
        return {"model": model[:200], "error": str(refusal)}
    except Exception as error:  # noqa: BLE001 the log shows the trace, and the next model gets its turn
        traceback.print_exc()
        return {"model": model[:200], "error": f"It failed ({type(error).__name__}); the log says more."}
    rows = ledger.own_rows()
    if len(rows) == before:
        return {"model": model[:200], "error": "It was measured, but gave no row for the ledger; the log says why."}
    return {"row": asdict(replace(rows[-1], kind="job", provenance=request["provenance"]))}
