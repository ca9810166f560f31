"""Measure models on hardware of Hugging Face Jobs, and merge the results into the ledger.

python scripts/measure_on_jobs.py Qwen/Qwen3-8B --flavor l4x1 --flavor a100-large          shows the plan and its price; starts nothing
python scripts/measure_on_jobs.py Qwen/Qwen3-8B --flavor l4x1 --go                          asks, then starts
python scripts/measure_on_jobs.py Qwen/Qwen3-8B --flavor l4x1 --start-only vllm             the memory that a server prints when it starts
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, without PYTHONPATH

import click

from lib.cli import job_runs
from lib.cli.job_runs import at_most, confirm, end_jobs, follow_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lib.catalog import Catalog
    from lib.hub.jobs import Jobs, SubmittedJob
    from lib.live.ledger import Ledger
    from lib.service.job_starts import StartPlan
    from lib.service.jobs import JobPlan, JobRequest


def _prices() -> tuple[Catalog, str]:
    """The catalog with today's prices of Jobs, or the bundled ones, and which of the two."""
    from lib.catalog import load  # noqa: PLC0415  --help answers at once
    from lib.hub.prices import PriceFeed  # noqa: PLC0415

    catalog = PriceFeed(load()).refresh()
    state = catalog.prices["jobs"]
    return catalog, f"{'live prices' if state.basis == 'live' else 'bundled prices (the live list could not be had)'}, {state.checked}"


def _show(plans: Sequence[JobPlan], request: JobRequest, prices: str) -> None:
    from lib.service.jobs import most_usd  # noqa: PLC0415

    click.echo(f"Models: {', '.join(model[:60] for model in request.models)}")
    click.echo(f"Each: {request.prompt_tokens} prompt tokens, {request.output_tokens} output tokens, {request.precision}, random weights")
    click.echo(f"{'flavor':<20}{'accelerators':<40}{'engine':<14}{'USD/hour':>9}{'at most USD':>13}")
    for plan in plans:
        cards = f"{plan.offer.accelerator_count} × {plan.offer.accelerator}" if plan.offer.accelerator_count else "CPU"
        click.echo(f"{plan.offer.id:<20}{cards:<40}{plan.engine:<14}{plan.usd_per_hour:>9.2f}{at_most(plan.most_usd):>13}")
    together = at_most(most_usd(plans))
    click.echo(f"Together at most {together} USD: each job's whole time-out of {plans[0].timeout_s} s at its price ({prices}).")
    click.echo("A job is billed by the minute while it starts and runs, and ends by itself when it is done.")


def _unfit(plans: Sequence[JobPlan], request: JobRequest) -> list[str]:
    """Why something does not fit its flavor; a model that cannot be looked up is reported and let through, because the job may reach it."""
    from lib.errors import AdvisorError, DoesNotFit  # noqa: PLC0415
    from lib.service.jobs import check_fit  # noqa: PLC0415
    from lib.service.models import Models  # noqa: PLC0415

    models, refusals = Models(), []
    for model in request.models:
        try:
            spec = models(model)
        except AdvisorError as unknown:
            click.echo(f"Whether {model[:60]} fits was not checked: {unknown}", err=True)
            continue
        for plan in plans:
            try:
                check_fit(plan, request, model, spec)
            except DoesNotFit as refusal:
                refusals.append(str(refusal))
    return refusals


def _run(plans: Sequence[JobPlan], request: JobRequest, jobs: Jobs, ledger: Ledger, catalog: Catalog) -> bool:
    """Start all jobs, follow them and merge their rows; false when one gave fewer than planned. Jobs that still run are stopped."""
    from lib.errors import AdvisorError  # noqa: PLC0415
    from lib.service.jobs import job_script, read_log  # noqa: PLC0415
    from lib.service.models import Models  # noqa: PLC0415

    running: list[tuple[JobPlan, SubmittedJob]] = []
    models, good = Models(), True
    try:
        for plan in plans:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / f"measure_{plan.engine}.py"
                file.write_text(job_script(plan, request), encoding="utf-8")
                running.append((plan, jobs.start(file, flavor=plan.offer.id, timeout_s=plan.timeout_s)))
            click.echo(f"{plan.offer.id}: started, {running[-1][1].url}", err=True)
        while running:
            plan, job = running[0]
            rows, complaints = read_log(follow_job(job, plan.offer.id, jobs, plan.timeout_s), plan, request, models, catalog.accelerators)
            running.pop(0)
            for row in rows:
                new = ledger.keep(row)
                click.echo(f"{plan.offer.id}: {row.model}: {row.decode_tokens_per_s} tokens/s{'' if new else ' (known already)'}")
            for complaint in complaints:
                click.echo(f"{plan.offer.id}: {complaint}", err=True)
            good = good and len(rows) == len(request.models)
    except AdvisorError as refusal:
        click.echo(str(refusal), err=True)
        good = False
    finally:
        end_jobs([(plan.offer.id, job) for plan, job in running], jobs)
    return good


def _show_starts(plans: Sequence[StartPlan], prices: str) -> None:
    from lib.service.jobs import most_usd  # noqa: PLC0415

    click.echo(f"{'model':<44}{'flavor':<18}{'USD/hour':>9}{'at most USD':>13}  command")
    for plan in plans:
        money = f"{plan.job.usd_per_hour:>9.2f}{at_most(plan.job.most_usd):>13}"
        click.echo(f"{plan.model[:42]:<44}{plan.job.offer.id:<18}{money}  {' '.join(plan.words)}")
    bound = at_most(most_usd(plan.job for plan in plans))
    click.echo(f"Together at most {bound} USD: each job's whole time-out of {plans[0].job.timeout_s} s ({prices}).")
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
            job = jobs.start_server(plan.image, plan.words, flavor=plan.job.offer.id, timeout_s=plan.job.timeout_s)
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
@click.option("--precision", default="bf16", show_default=True, help="fp32, fp16 or bf16.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "transformers", "vllm"]),
    default="auto",
    show_default=True,
    help="The program that is measured; auto is vllm on several GPUs, else transformers.",
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
    output_tokens: int,
    precision: str,
    server: str | None,
    engine: str,
    timeout: int,
    namespace: str | None,
    file: Path | None,
    go: bool,
    yes: bool,
) -> None:
    """Measure MODELs on flavors of Hugging Face Jobs, with random weights, and merge the results into the ledger.

    Flavors with one GPU or none run this app's own measurement; those with several, or with --engine vllm, run vLLM's latency benchmark.
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
    from lib.service.job_starts import plan_starts  # noqa: PLC0415
    from lib.service.jobs import PRECISIONS, JobRequest, most_usd, plan_job  # noqa: PLC0415

    catalog, prices = _prices()
    try:
        names = tuple(dict.fromkeys(checks.check_text("model", model, "Qwen/Qwen3-8B") for model in models))
        limit = checks.check_whole("timeout", timeout, 60, 86_400)
        tokens = checks.check_whole("prompt-tokens", prompt_tokens, 1, 1_000_000)
        chosen = tuple(dict.fromkeys(flavors))
        if server is not None:
            form = check_precision("precision", precision, NAMES)
            starts = plan_starts(names, chosen, server, precision=form, context_tokens=tokens, timeout_s=limit, catalog=catalog)
            count, bound = len(starts), most_usd(plan.job for plan in starts)
            _show_starts(starts, prices)
        else:
            request = JobRequest(
                models=names,
                prompt_tokens=tokens,
                output_tokens=checks.check_whole("output-tokens", output_tokens, 2, 100_000),
                precision=checks.check_choice("precision", precision, PRECISIONS),
            )
            plans = [plan_job(flavor, limit, catalog, engine) for flavor in chosen]
            count, bound = len(plans), most_usd(plans)
            _show(plans, request, prices)
            unfit = _unfit(plans, request)
            if unfit:
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
    good = _run(plans, request, jobs, ledger, catalog) if server is None else _run_starts(starts, jobs, ledger, catalog)
    sys.exit(0 if _is_kept(ledger) and good else 1)


if __name__ == "__main__":
    main(prog_name="python scripts/measure_on_jobs.py")
