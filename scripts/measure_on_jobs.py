"""Measure models on hardware of Hugging Face Jobs, and merge the results into the ledger.

python scripts/measure_on_jobs.py Qwen/Qwen3-8B --flavor l4x1 --flavor a100-large          shows the plan and its price; starts nothing
python scripts/measure_on_jobs.py Qwen/Qwen3-8B --flavor l4x1 --go                          asks, then starts
python scripts/measure_on_jobs.py Qwen/Qwen3-8B-GGUF:Q4_K_M --flavor l4x1 --engine llama.cpp      llama-bench, with the file's own weights
python scripts/measure_on_jobs.py stabilityai/sdxl-turbo --flavor l4x1 --steps 4 --guidance 0     seconds and memory of a picture
python scripts/measure_on_jobs.py Qwen/Qwen3-8B --flavor l4x1 --start-only vllm             the memory that a server prints when it starts
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, without PYTHONPATH

import click

from lib.cli import job_runs
from lib.cli.job_runs import at_most, confirm, end_jobs, follow_job

ENGINES = ("transformers", "vllm", "llama.cpp", "diffusers")
"""Programs that are measured: a test holds them equal to the rows, which --help does not import."""

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lib.catalog import Catalog
    from lib.hub.jobs import Jobs, SubmittedJob
    from lib.live.ledger import Ledger
    from lib.model.spec import ModelSpec
    from lib.service.job_plans import JobPlan, JobRequest
    from lib.service.job_starts import StartPlan


def _prices() -> tuple[Catalog, str]:
    """The catalog with today's prices of Jobs, or the bundled ones, and which of the two."""
    from lib.catalog import load  # noqa: PLC0415  --help answers at once
    from lib.hub.prices import PriceFeed  # noqa: PLC0415

    catalog = PriceFeed(load()).refresh()
    state = catalog.prices["jobs"]
    return catalog, f"{'live prices' if state.basis == 'live' else 'bundled prices (the live list could not be had)'}, {state.checked}"


def _show(jobs: Sequence[tuple[JobPlan, JobRequest]], prices: str) -> None:
    from lib.service.job_plans import most_usd  # noqa: PLC0415
    from lib.service.jobs import find_program  # noqa: PLC0415

    click.echo(f"{'models':<44}{'flavor':<18}{'accelerators':<36}{'program':<14}{'precision':<13}{'USD/hour':>9}{'at most USD':>13}")
    for plan, request in jobs:
        cards = f"{plan.offer.accelerator_count} × {plan.offer.accelerator}" if plan.offer.accelerator_count else "CPU"
        where = f"{', '.join(request.models)[:42]:<44}{plan.offer.id:<18}{cards:<36}"
        click.echo(f"{where}{plan.engine:<14}{request.precision:<13}{plan.usd_per_hour:>9.2f}{at_most(plan.most_usd):>13}")
    for program in {plan.engine: find_program(plan.engine) for plan, _ in jobs}.values():
        click.echo(f"{program.name}: {program.describe(jobs[0][1])}, {program.weights}")
    together, timeout_s = at_most(most_usd(plan for plan, _ in jobs)), jobs[0][0].timeout_s
    click.echo(f"Together at most {together} USD: each job's whole timeout of {timeout_s} s at its price ({prices}).")
    click.echo("A job is billed by the minute while it starts and runs, and ends by itself when it is done.")


def _read_request(
    models: tuple[str, ...], prompt_tokens: int, precision: str, *, output_tokens: int, width: int, height: int, steps: int,
    guidance: float | None,
) -> JobRequest:  # fmt: skip
    from lib.request import checks  # noqa: PLC0415
    from lib.request.pictures import LONGEST_SIDE  # noqa: PLC0415
    from lib.request.types import MAX_STEPS  # noqa: PLC0415
    from lib.service.job_plans import JobRequest  # noqa: PLC0415
    from lib.workload import PipelineRequest  # noqa: PLC0415

    return JobRequest(
        models=models,
        prompt_tokens=prompt_tokens,
        output_tokens=checks.check_whole("output-tokens", output_tokens, 2, 100_000),
        precision=precision,
        pictures=PipelineRequest(
            width=checks.check_whole("width", width, 0, LONGEST_SIDE),
            height=checks.check_whole("height", height, 0, LONGEST_SIDE),
            steps=checks.check_whole("steps", steps, 0, MAX_STEPS),
            guidance="off" if guidance == 0 else "auto",
        ),
        guidance=None if guidance is None else checks.check_number("guidance", guidance, 0, 1_000),
    )


def _look_up(models: Sequence[str]) -> dict[str, ModelSpec | None]:
    """The models by their ids; one that cannot be looked up is reported and let through, because the job may reach it."""
    from lib.errors import AdvisorError  # noqa: PLC0415
    from lib.service.models import Models  # noqa: PLC0415

    find, found = Models(), dict[str, "ModelSpec | None"]()
    for model in models:
        try:
            spec = find(model)
            found[spec.id or model] = spec
        except AdvisorError as unknown:
            click.echo(f"Whether {model[:60]} fits was not checked: {unknown}", err=True)
            found[model] = None
    return found


def _unfit(jobs: Sequence[tuple[JobPlan, JobRequest]], specs: Mapping[str, ModelSpec | None]) -> list[str]:
    """Why something does not fit its flavor."""
    from lib.errors import DoesNotFit  # noqa: PLC0415
    from lib.service.job_plans import check_fit  # noqa: PLC0415
    from lib.service.jobs import find_program  # noqa: PLC0415

    refusals = []
    for plan, request in jobs:
        for model in request.models:
            spec = specs[model]
            try:
                if spec is not None:
                    check_fit(plan, request, model, spec, find_program(plan.engine).predicted_as)
            except DoesNotFit as refusal:
                refusals.append(str(refusal))
    return refusals


def _run(planned: Sequence[tuple[JobPlan, JobRequest]], jobs: Jobs, ledger: Ledger, catalog: Catalog) -> bool:
    """Start all jobs, follow them and merge their rows; false when one gave fewer than planned. Jobs that still run are stopped."""
    from lib.errors import AdvisorError  # noqa: PLC0415
    from lib.service.job_plans import describe_row  # noqa: PLC0415
    from lib.service.jobs import read_log, start_job  # noqa: PLC0415
    from lib.service.models import Models  # noqa: PLC0415

    running: list[tuple[JobPlan, JobRequest, SubmittedJob]] = []
    models, good = Models(), True
    try:
        for plan, request in planned:
            running.append((plan, request, start_job(plan, request, jobs)))
            click.echo(f"{plan.describe(request)}: started, {running[-1][-1].url}", err=True)
        while running:
            plan, request, job = running[0]
            name = plan.describe(request)
            rows, complaints = read_log(follow_job(job, name, jobs, plan.timeout_s), plan, request, models, catalog.accelerators)
            running.pop(0)
            for row in rows:
                new = ledger.keep(row)
                click.echo(f"{row.model} on {plan.offer.id}: {describe_row(row)}{'' if new else ' (known already)'}")
            for complaint in complaints:
                click.echo(f"{plan.offer.id}: {complaint}", err=True)
            good = good and len(rows) == len(request.models)
    except AdvisorError as refusal:
        click.echo(str(refusal), err=True)
        good = False
    finally:
        end_jobs([(plan.describe(request), job) for plan, request, job in running], jobs)
    return good


def _show_starts(plans: Sequence[StartPlan], prices: str) -> None:
    from lib.service.job_plans import most_usd  # noqa: PLC0415

    click.echo(f"{'model':<44}{'flavor':<18}{'USD/hour':>9}{'at most USD':>13}  command")
    for plan in plans:
        money = f"{plan.job.usd_per_hour:>9.2f}{at_most(plan.job.most_usd):>13}"
        click.echo(f"{plan.model[:42]:<44}{plan.job.offer.id:<18}{money}  {' '.join(plan.words)}")
    bound = at_most(most_usd(plan.job for plan in plans))
    click.echo(f"Together at most {bound} USD: each job's whole timeout of {plans[0].job.timeout_s} s ({prices}).")
    click.echo("Each job is ended as soon as its server takes requests, so it costs a few minutes.")


def _run_starts(plans: Sequence[StartPlan], jobs: Jobs, ledger: Ledger, catalog: Catalog) -> bool:
    """Start the servers one after the other, end each when its lines are there, and merge the rows; false where one gave none."""
    from lib.errors import AdvisorError  # noqa: PLC0415
    from lib.service.endpoint import App  # noqa: PLC0415
    from lib.service.job_starts import describe_start, read_start  # noqa: PLC0415
    from lib.service.models import Models  # noqa: PLC0415

    app, good = App(catalog=lambda: catalog, models=Models()), True
    for plan in plans:
        running: list[tuple[str, SubmittedJob]] = []
        try:
            job = jobs.start_command(plan.image, plan.words, flavor=plan.job.offer.id, timeout_s=plan.job.timeout_s)
            running.append((plan.name, job))
            click.echo(f"{plan.name}: started, {job.url}", err=True)
            lines: list[str] = []
            with closing(jobs.follow(job, limit_s=plan.job.timeout_s + job_runs.SCHEDULING_S)) as log:
                for line in log:
                    lines.append(line[:2_000])
                    if plan.is_ready(line):
                        break
            row, said = read_start(lines, plan, app)
            click.echo(f"{plan.name}: {describe_start(said)}")
            if row is not None:
                click.echo(f"{plan.name}: {'kept' if ledger.keep(row) else 'known already'}")
            good = good and row is not None
        except AdvisorError as refusal:
            click.echo(f"{plan.name}: {refusal}", err=True)
            good = False
        finally:
            end_jobs(running, jobs)
    return good


def _is_kept(ledger: Ledger) -> bool:
    """Whether the ledger could be written; the reason is shown otherwise."""
    problem = ledger.status().problem
    if problem:
        click.echo(f"The rows could not be kept: {problem}", err=True)
    return not problem


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "--flavor", "flavors", multiple=True, required=True, metavar="ID", help="A flavor of Jobs such as l4x1; may be given several times."
)
@click.option("--prompt-tokens", default=512, show_default=True)
@click.option("--output-tokens", default=64, show_default=True)
@click.option("--width", default=0, help="Pixels of a picture; 0 is the model's own, as for the next two.")
@click.option("--height", default=0, help="Pixels of a picture.")
@click.option("--steps", default=0, help="Denoising steps of a picture.")
@click.option("--guidance", type=float, help="Guidance scale of a picture; by default the model's own.")
@click.option(
    "--precision", default="", help="bf16, fp16 or fp32, for llama.cpp a format such as gguf:Q8_0; by default bf16 or gguf:Q4_K_M."
)
@click.option(
    "--engine",
    type=click.Choice(["auto", *ENGINES]),
    default="auto",
    show_default=True,
    help="The program that is measured; auto is diffusers for pictures, vllm on several GPUs, else transformers.",
)
@click.option("--start-only", "server", metavar="ENGINE", help="Start ENGINE's server (vllm, sglang, llama.cpp) and read its start lines.")
@click.option(
    "--timeout", default=1800, show_default=True, metavar="SECONDS", help="A job is ended after so long; it sets what it can cost."
)
@click.option("--namespace", help="User or organization that pays; by default the login's own.")
@click.option(
    "--ledger", "file", type=click.Path(dir_okay=False, path_type=Path), help="The ledger to merge into; by default this machine's."
)
@click.option("--go", is_flag=True, help="Start the jobs after asking. Without it only the plan is shown.")
@click.option("--yes", "-y", is_flag=True, help="With --go: do not ask; you agree to the price that is shown.")
def main(
    models: tuple[str, ...],
    flavors: tuple[str, ...],
    prompt_tokens: int,
    precision: str,
    server: str | None,
    engine: str,
    timeout: int,
    namespace: str | None,
    file: Path | None,
    go: bool,
    yes: bool,
    **sizes: Any,
) -> None:
    """Measure MODELs on flavors of Hugging Face Jobs and merge the results into the ledger.

    Flavors with one GPU or none run this app's own measurement; those with several, or with --engine vllm, run vLLM's latency benchmark;
    both with random weights. Models that make pictures run with diffusers, and GGUF files with --engine llama.cpp run llama-bench; both
    download their weights.
    With --start-only a server is started on each flavor for each model and ended when it takes requests: its start lines have the memory.
    A MODEL is a Hub id, for llama.cpp a GGUF file such as Qwen/Qwen3-8B-GGUF:Q4_K_M. The token is that of this machine's login
    (`hf auth login`, or HF_TOKEN); it is not given to the job.

    Exit status: 0 all measured (or the plan was shown), 1 something was not, 2 wrong arguments or
    what does not fit, 3 not logged in, 4 not confirmed.
    """
    from huggingface_hub import get_token  # noqa: PLC0415
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # noqa: PLC0415

    from lib.errors import AdvisorError  # noqa: PLC0415
    from lib.hub.jobs import Jobs  # noqa: PLC0415
    from lib.live.ledger import Ledger, LedgerPlace, ledger_place  # noqa: PLC0415
    from lib.precision import NAMES  # noqa: PLC0415
    from lib.request import checks  # noqa: PLC0415
    from lib.request.types import check_precision  # noqa: PLC0415
    from lib.service.job_plans import most_usd  # noqa: PLC0415
    from lib.service.job_starts import plan_starts  # noqa: PLC0415
    from lib.service.jobs import plan_jobs  # noqa: PLC0415

    catalog, prices = _prices()
    try:
        names = tuple(dict.fromkeys(checks.check_text("model", model, "Qwen/Qwen3-8B") for model in models))
        limit = checks.check_whole("timeout", timeout, 60, 86_400)
        tokens = checks.check_whole("prompt-tokens", prompt_tokens, 1, 1_000_000)
        chosen = tuple(dict.fromkeys(flavors))
        form = check_precision("precision", precision, NAMES) if precision else ""
        if server is not None:
            starts = plan_starts(names, chosen, server, precision=form, context_tokens=tokens, timeout_s=limit, catalog=catalog)
            count, bound = len(starts), most_usd(plan.job for plan in starts)
            _show_starts(starts, prices)
        else:
            request = _read_request(names, tokens, form, **sizes)
            planned = plan_jobs(specs := _look_up(names), chosen, limit, catalog, engine, request)
            count, bound = len(planned), most_usd(plan for plan, _ in planned)
            _show(planned, prices)
            if unfit := _unfit(planned, specs):
                click.echo("\n".join([*unfit, "Nothing was started."]), err=True)
                sys.exit(2)
    except AdvisorError as refusal:
        flavors_of_jobs = ", ".join(offer.id for offer in catalog.offers if offer.platform == "jobs" and offer.listed)
        raise click.UsageError(str(refusal).replace("/list_hardware lists every id.", f"Jobs has {flavors_of_jobs}.")) from None
    if not go:
        click.echo("Nothing was started. Add --go to start these jobs.")
        return
    token = get_token()
    if token is None:
        click.echo("Nobody is logged in on this machine. Run `hf auth login` with a token that may run jobs, or set HF_TOKEN.", err=True)
        sys.exit(3)
    if not yes and not confirm(f"Start {count} job(s) for at most {at_most(bound)} USD?"):
        click.echo("Nothing was started.")
        sys.exit(4)
    disable_progress_bars()  # of the script's way into the bucket
    where = ledger_place() if file is None else LedgerPlace(path=file, lasting=True, words="the file of --ledger")
    ledger = Ledger(where)
    jobs = Jobs(token, namespace=namespace)
    good = _run(planned, jobs, ledger, catalog) if server is None else _run_starts(starts, jobs, ledger, catalog)
    sys.exit(0 if _is_kept(ledger) and good else 1)


if __name__ == "__main__":
    main(prog_name="python scripts/measure_on_jobs.py")
