"""Measure models on hardware of Hugging Face Jobs, and merge the results into the ledger.

python scripts/measure_on_jobs.py Qwen/Qwen3-8B --flavor l4x1 --flavor a100-large          shows the plan and its price; starts nothing
python scripts/measure_on_jobs.py Qwen/Qwen3-8B --flavor l4x1 --go                          asks, then starts
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, without PYTHONPATH

import click

from lib.cli.job_runs import at_most, confirm, end_jobs, follow_job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lib.catalog import Catalog
    from lib.hub.jobs import Jobs, SubmittedJob
    from lib.live.ledger import Ledger
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


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option(
    "--flavor", "flavors", multiple=True, required=True, metavar="ID", help="A flavor of Jobs such as l4x1; may be given several times."
)
@click.option("--prompt-tokens", default=512, show_default=True)
@click.option("--output-tokens", default=64, show_default=True)
@click.option("--precision", default="bf16", show_default=True, help="fp32, fp16 or bf16.")
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
    timeout: int,
    namespace: str | None,
    file: Path | None,
    go: bool,
    yes: bool,
) -> None:
    """Measure MODELs on flavors of Hugging Face Jobs, with random weights, and merge the results into the ledger.

    Flavors with one GPU or none run this app's own measurement; those with several run vLLM's latency benchmark. A MODEL is a Hub id. The
    token is that of this machine's login (`hf auth login`, or HF_TOKEN); it is not given to the job.

    Exit status: 0 all measured (or the plan was shown), 1 something was not, 2 wrong arguments or
    what does not fit, 3 not logged in, 4 not confirmed.
    """
    from huggingface_hub import get_token  # noqa: PLC0415
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # noqa: PLC0415

    from lib.errors import AdvisorError  # noqa: PLC0415
    from lib.hub.jobs import Jobs  # noqa: PLC0415
    from lib.live.ledger import Ledger, LedgerPlace, ledger_place  # noqa: PLC0415
    from lib.request import checks  # noqa: PLC0415
    from lib.service.jobs import PRECISIONS, JobRequest, most_usd, plan_job  # noqa: PLC0415

    catalog, prices = _prices()
    try:
        request = JobRequest(
            models=tuple(dict.fromkeys(checks.check_text("model", model, "Qwen/Qwen3-8B") for model in models)),
            prompt_tokens=checks.check_whole("prompt-tokens", prompt_tokens, 1, 1_000_000),
            output_tokens=checks.check_whole("output-tokens", output_tokens, 2, 100_000),
            precision=checks.check_choice("precision", precision, PRECISIONS),
        )
        limit = checks.check_whole("timeout", timeout, 60, 86_400)
        plans = [plan_job(flavor, limit, catalog) for flavor in dict.fromkeys(flavors)]
    except AdvisorError as refusal:
        flavors_of_jobs = ", ".join(offer.id for offer in catalog.offers if offer.platform == "jobs" and offer.listed)
        raise click.UsageError(str(refusal).replace("/list_hardware lists every id.", f"Jobs has {flavors_of_jobs}.")) from None
    _show(plans, request, prices)
    unfit = _unfit(plans, request)
    if unfit:
        click.echo("\n".join([*unfit, "Nothing was started."]), err=True)
        sys.exit(2)
    if not go:
        click.echo("Nothing was started. Add --go to start these jobs.")
        return
    token = get_token()
    if token is None:
        click.echo("Nobody is logged in on this machine. Run `hf auth login` with a token that may run jobs, or set HF_TOKEN.", err=True)
        sys.exit(3)
    if not yes and not confirm(f"Start {len(plans)} job(s) for at most {at_most(most_usd(plans))} USD?"):
        click.echo("Nothing was started.")
        sys.exit(4)
    disable_progress_bars()  # of the script's way into the bucket
    where = ledger_place() if file is None else LedgerPlace(path=file, lasting=True, words="the file of --ledger")
    ledger = Ledger(where)
    good = _run(plans, request, Jobs(token, namespace=namespace), ledger, catalog)
    problem = ledger.status().problem
    if problem:
        click.echo(f"The rows could not be kept: {problem}", err=True)
    sys.exit(0 if good and not problem else 1)


if __name__ == "__main__":
    main(prog_name="python scripts/measure_on_jobs.py")
