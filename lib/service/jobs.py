"""Jobs before and after they run: what they will cost at most, the files that are sent with them, and rows from what they printed.

What runs inside a job: each model measured as the page's Measure does it, and its row printed to the log.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from lib.catalog import Catalog, load
from lib.catalog.offers import Offer
from lib.catalog.silicon import Accelerator
from lib.engines import Engine
from lib.errors import AdvisorError, AgainstRules, BadArgument, InvalidInput, UnsupportedModel
from lib.hub.jobs import Jobs, SubmittedJob, mark_result, own_script, parse_results, vllm_script
from lib.live.ledger import Ledger, LedgerPlace
from lib.live.measurements import DatasetPush, Measurement, read_row
from lib.model import bundled
from lib.model.spec import ModelSpec
from lib.request.types import AUTO
from lib.service import job_plans
from lib.service.endpoint import App
from lib.service.job_bench import bench_command, read_bench
from lib.service.job_pictures import describe_pictures, picture_row, picture_script
from lib.service.job_plans import ImageCommand, JobPlan, JobRequest, ProgramName, describe_text
from lib.service.measure import MeasureArguments, measure
from lib.service.models import Models
from lib.service.runs import MeasurementLedger, run_end
from lib.speed import SpeedRequest, predict_each

ModelKind = Literal["text models", "GGUF files", "picture models"]
PRECISIONS = ("bf16", "fp16", "fp32")
_KINDS: Mapping[str, ModelKind] = {"diffusers": "picture models", "gguf": "GGUF files"}
"""By the library of a model; all others are text models."""
Reader = Callable[[Sequence[str], JobPlan, JobRequest, Models, Mapping[str, Accelerator]], tuple[tuple[Measurement, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that is measured."""

    name: ProgramName
    predicted_as: Engine
    """The engine's row that predicts its memory and speed."""
    least_gpus: int
    """GPUs that a flavor needs for it, at least."""
    most_gpus: int
    """The same, at most."""
    runs: ModelKind
    """The models that it runs."""
    precisions: tuple[str, ...]
    """Formats that it is measured in, the default first; none if a model's file decides."""
    weights: str
    """Origin of the weights, in words."""
    several_models: bool
    """One job measures several models."""
    read: Reader
    """Rows and complaints from the lines of a log."""
    prepare: Callable[[JobPlan, JobRequest], str | ImageCommand]
    """The script of a job, or its command in an image."""
    describe: Callable[[JobRequest], str]
    """The request in words."""

    def runs_on(self, offer: Offer) -> bool:
        """Whether a flavor has as many GPUs as the program needs and can use."""
        return self.least_gpus <= offer.accelerator_count <= self.most_gpus


def find_program(name: str) -> Program:
    """The row of a program."""
    return _BY_NAME[name]


def plan_job(flavor: str, timeout_s: int, catalog: Catalog, engine: str = AUTO, kind: ModelKind = "text models") -> JobPlan:
    """A job on a flavor; `auto` takes the first program that runs these models there: for text transformers, on several GPUs vllm.

    Raises:
        UnknownHardware: no flavor of Jobs.
        AgainstRules: it is no longer offered, its price is not known, or the program does not run these models there.
    """
    offer = catalog.offer(flavor, platform="jobs")
    if offer.status != "listed":
        raise AgainstRules(
            f"The flavor {offer.id} is no longer offered on Jobs. Choose one that is listed (see `list_hardware`, platform jobs)."
        )
    if offer.usd_per_hour is None:
        raise AgainstRules(f"The price of the flavor {offer.id} is not known, so no job is started on it. Choose another.")
    able: dict[str, Program] = {program.name: program for program in PROGRAMS if program.runs == kind and program.runs_on(offer)}
    program = next(iter(able.values()), None) if engine == AUTO else able.get(engine)
    if program is None:
        asked = kind[0].upper() + kind[1:] if engine == AUTO else f"{engine}, with {kind},"
        most = max(program.most_gpus for program in PROGRAMS if program.runs == kind)
        instead = f"--engine {' or '.join(able)}" if able else f"a flavor with at most {most} GPU"
        raise AgainstRules(f"{asked} is not measured on {offer.id}. For {kind}, choose {instead}.")
    return JobPlan(offer=offer, engine=program.name, timeout_s=timeout_s, usd_per_hour=offer.usd_per_hour)


def plan_jobs(
    models: Mapping[str, ModelSpec | None], flavors: Sequence[str], timeout_s: int, catalog: Catalog, engine: str, request: JobRequest
) -> list[tuple[JobPlan, JobRequest]]:
    """Each model on each flavor: one job for the models that its program measures together, else one for each model.

    Args:
        models: the models by their names; None if one cannot be looked up, which is taken as the program's own kind.
        flavors: ids of flavors of Jobs.
        timeout_s: of each job.
        catalog: flavors with prices.
        engine: a program, or auto.
        request: the measurement; its models are those of `models`, and its precision may be "" for the program's own.

    Raises:
        AgainstRules: as `plan_job`.
        BadArgument: the program is not measured in this precision, or the file of a model has another.
    """
    jobs: list[tuple[JobPlan, JobRequest]] = []
    own = _BY_NAME.get(engine, PROGRAMS[0]).runs
    kinds = {model: own if spec is None else _KINDS.get(spec.library, PROGRAMS[0].runs) for model, spec in models.items()}
    for flavor in flavors:
        for kind in dict.fromkeys(kinds.values()):
            plan = plan_job(flavor, timeout_s, catalog, engine, kind)
            group = tuple(model for model in models if kinds[model] == kind)
            together = (group,) if find_program(plan.engine).several_models else tuple((model,) for model in group)
            jobs += [(plan, replace(request, models=names, precision=_precision(plan, request, models[names[0]]))) for names in together]
    return jobs


def _precision(plan: JobPlan, request: JobRequest, spec: ModelSpec | None) -> str:
    """The precision of a job: the stated one, else that of the model's file, else the program's default."""
    stored = None if spec is None else spec.stored.quantization
    accepted = find_program(plan.engine).precisions or (("" if stored is None else stored.format),)
    if request.precision and request.precision not in accepted:
        raise BadArgument("precision", request.precision, f"{', '.join(accepted) or 'that of the file'} with {plan.engine}")
    return request.precision or accepted[0]


def start_job(plan: JobPlan, request: JobRequest, jobs: Jobs) -> SubmittedJob:
    """Start a job with its program's script, or with its command in an image.

    Raises:
        HubError: it was not started.
    """
    work = find_program(plan.engine).prepare(plan, request)
    if isinstance(work, ImageCommand):
        return jobs.start_command(work.image, work.words, flavor=plan.offer.id, timeout_s=plan.timeout_s)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"measure_{plan.engine}.py"
        file.write_text(work, encoding="utf-8")
        return jobs.start(file, flavor=plan.offer.id, timeout_s=plan.timeout_s)


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
                    complaints.append(f"{job_plans.job_words(result.get('model'))}: {job_plans.job_words(result['error'])}")
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
    spec = models(job_plans.check_model(result.get("model"), request))
    first, whole = (job_plans.median_of(name, result.get(name)) for name in ("first_s", "whole_s"))
    further = request.output_tokens - 1
    shape = SpeedRequest(
        precision=request.precision, engine="vllm", prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens
    )
    expected = run_end(predict_each([(spec, plan.offer, shape)], accelerators)[0], "value")
    return job_plans.job_row(
        plan,
        spec,
        device=f"{plan.offer.accelerator_count} × {result.get('device')}"[:200],
        devices=plan.offer.accelerator_count,
        driver=result.get("driver"),
        torch=str(result.get("torch")),
        engine=f"vllm {result.get('vllm')}",
        weights="random",
        precision=request.precision,
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        predicted_ttft_s=expected.ttft_s,
        ttft_s=first,
        predicted_decode_tokens_per_s=expected.decode_tokens_per_s,
        decode_tokens_per_s=further / (whole - first) if further and whole > first else None,
        provenance=plan.provenance,
    )


PROGRAMS = (
    Program(
        name="transformers", predicted_as="transformers", least_gpus=0, most_gpus=1, runs="text models", precisions=PRECISIONS,
        weights="random weights", several_models=True, prepare=_own_script, describe=describe_text, read=_marked(_own_row),
    ),
    Program(
        name="vllm", predicted_as="vllm", least_gpus=1, most_gpus=64, runs="text models", precisions=PRECISIONS, weights="random weights",
        several_models=True, prepare=_vllm_script, describe=describe_text, read=_marked(_vllm_row),
    ),
    Program(
        name="llama.cpp", predicted_as="llama.cpp", least_gpus=0, most_gpus=64, runs="GGUF files", precisions=(),
        several_models=False, weights="weights of the file", prepare=bench_command, describe=describe_text, read=_read_bench,
    ),
    Program(
        name="diffusers", predicted_as="transformers", least_gpus=0, most_gpus=1, runs="picture models", precisions=PRECISIONS,
        weights="weights of the checkpoint", several_models=False, prepare=picture_script, describe=describe_pictures,
        read=_marked(picture_row),
    ),
)  # fmt: skip
"""In the order in which `auto` takes them."""
_BY_NAME: Mapping[str, Program] = {program.name: program for program in PROGRAMS}


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
