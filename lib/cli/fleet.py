"""The command `fleet`: rows of questions from a file, a dataset or an account to Parquet or a dataset, here, on Ray or on Jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lib.cli.outcome import INTERRUPTED, end_command, guard_command, print_answer, say, write_line

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.service.fleet_files import Cells, FleetPart, Output

_EXAMPLES = """\b
Examples:
  python scripts/manage_space.py fleet questions.csv answers.parquet
  python scripts/manage_space.py fleet --owner my-organization answers.parquet
  python scripts/manage_space.py fleet datasets/ada/questions datasets/ada/answers
  python scripts/manage_space.py fleet questions.jsonl answers.parquet --ray auto
  python scripts/manage_space.py fleet questions.parquet answers.parquet --jobs 8 --go
  python scripts/manage_space.py fleet questions.csv answers.parquet --jobs 2 --schedule '@weekly' --go"""
_OWN_LIST = "questions.jsonl"
JOBS_FLAVOR = "cpu-upgrade"


@click.command(short_help="Answer a file of questions to a Parquet file.", epilog=_EXAMPLES)
@click.argument("paths", nargs=-1, required=True, metavar="[IN] OUT")
@click.option("--owner", metavar="NAME", help="In place of IN: the models of an account, and those that its Spaces run on their hardware.")
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Processes here or on Ray; by default one for each core.")
@click.option("--ray", metavar="auto|ADDRESS", help="Answer on a Ray cluster; auto is that of this machine. No token goes there.")
@click.option(
    "--jobs", type=click.IntRange(1, 100), metavar="N", help="Answer on N Hugging Face Jobs. Shows the price. No token goes there."
)
@click.option("--flavor", default=JOBS_FLAVOR, show_default=True, metavar="ID", help="With --jobs: the flavor of Jobs.")
@click.option("--timeout", default=3600, show_default=True, type=click.IntRange(60, 86_400), metavar="SECONDS", help="With --jobs.")
@click.option("--namespace", metavar="NAME", help="With --jobs: user or organization that pays; by default the login's own.")
@click.option("--bucket", default="jobs-artifacts", show_default=True, metavar="NAME", help="With --jobs: the bucket of the answers.")
@click.option("--schedule", metavar="CRON", help="With --jobs: start them at these times, such as @weekly; answers stay in the bucket.")
@click.option("--go", is_flag=True, help="With --jobs: start them after asking. Without it only the price is shown.")
@click.option("--yes", "-y", is_flag=True, help="With --go: do not ask; you agree to the price that is shown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; everything else goes to stderr.")
@guard_command
def fleet(*, paths: tuple[str, ...], owner: str | None, as_json: bool, **options: Any) -> None:
    """Answer the rows of IN (CSV, JSONL, Parquet, or datasets/owner/name on the Hub) to OUT, a Parquet file or datasets/owner/name.

    A row has the column `model`, and any argument of `recommend` as further columns. `hardware` is the current hardware, `label` a text
    that the answer repeats. OUT has the pick, memory by part, speed, cost, verdict, reasons, and the saving compared with the current
    hardware. A dataset that does not exist is created, private. A row that cannot be answered has an error instead. The same command
    continues a stopped run.
    """
    if len(paths) != (1 if owner else 2):
        raise click.UsageError("Name the questions and the file or dataset for the answers: IN OUT, or --owner NAME OUT.")
    if options["ray"] and options["jobs"]:
        raise click.UsageError("Choose --ray or --jobs, not both.")
    if (options["go"] or options["schedule"]) and not options["jobs"]:
        raise click.UsageError("--go and --schedule belong to --jobs N.")
    from lib.service.fleet_files import find_dataset  # noqa: PLC0415

    source, dataset = paths[0] if owner is None else "", find_dataset(paths[-1])
    if dataset is None:
        text = run_fleet(source, Path(paths[-1]), owner=owner, **options)
    else:
        text = run_to_dataset(source, dataset, owner=owner, **options)
    print_answer(text, text["message"], as_json=as_json)


def run_to_dataset(source: str, name: str, **options: Any) -> dict[str, Any]:
    """Answer to a Parquet file in the current folder, and move that into a dataset. A file that is complete already is only moved.

    Raises:
        AgainstRules: the dataset has answers already, or other files.
        AdvisorError: as `run_fleet`, or the dataset cannot be written; the file stays.
    """
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # noqa: PLC0415

    from lib.cli.act import require_login  # noqa: PLC0415
    from lib.errors import AgainstRules  # noqa: PLC0415
    from lib.hub.datasets import FILE, DatasetFile  # noqa: PLC0415

    dataset = DatasetFile(name, require_login(f"write to the dataset {name}"))
    state = dataset.look()
    if state.answers:
        raise AgainstRules(f"{dataset.url} has answers already. Remove its {FILE} to ask again, or name another dataset.")
    if state.others:
        raise AgainstRules(f"{dataset.url} has other files, such as {state.others[0][:80]}. Name a dataset of its own for the answers.")
    out = Path(f"{name.replace('/', '--')}.parquet")
    told = run_fleet(source, out, **options)
    if not out.exists():
        return told
    say(told["message"])
    disable_progress_bars()
    dataset.put(out, state)
    out.unlink()
    kind = "private" if state.private else "public"
    return told | {"path": dataset.url, "message": write_line("fleet", "in_dataset", kind=kind, url=dataset.url)}


def run_fleet(source: str, out: Path, *, owner: str | None = None, **options: Any) -> dict[str, Any]:
    """Answer the missing parts of an output, and join them.

    Raises:
        AdvisorError: the questions cannot be read, or the answers not be written.
    """
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]  # noqa: PLC0415

    from lib.catalog import load  # noqa: PLC0415
    from lib.hub.prices import PriceFeed  # noqa: PLC0415
    from lib.service.fleet_files import Output, read_rows, split_parts  # noqa: PLC0415

    output = Output(out)
    if output.complete:
        return {"path": str(out), "rows": 0, "found": 0, "message": write_line("fleet", "complete", path=out)}
    total = 0 if owner else sum(1 for _ in read_rows(source))  # what cannot be read is refused before anything is written
    with output:
        if owner is not None:
            source = _list_owner(owner, output)
            total = sum(1 for _ in read_rows(source))
        # Answer the parts that the output lacks; parts of an earlier run only move the bar.
        catalog = PriceFeed(load()).refresh()
        say(f"{total:,} rows.")
        with tqdm(total=total, unit=" rows", disable=None) as bar:  # type: ignore[no-untyped-call]
            found = 0

            def missing() -> Iterator[FleetPart]:
                nonlocal found
                for part in split_parts(read_rows(source)):
                    if output.find(part):
                        found += len(part.cells)
                        bar.update(len(part.cells))
                    else:
                        yield part

            try:
                started = _answer(missing(), output, catalog, bar.update, **options)
            except KeyboardInterrupt:
                say(write_line("fleet", "stopped", folder=output.parts))
                end_command(INTERRUPTED)
        if not started:
            return {"path": str(out), "rows": 0, "found": found, "message": write_line("fleet", "unwritten", path=out)}
        # Join all parts into one file.
        rows = output.join()
    message = write_line("fleet", "rows_found" if found else "rows", rows=rows, path=out, found=found)
    return {"path": str(out), "rows": rows, "found": found, "message": message}


def _list_owner(owner: str, output: Output) -> str:
    """The file of an account's questions. It is made once, so that a continued run has the same."""
    from lib.cli.act import login  # noqa: PLC0415
    from lib.hub.spaces import Spaces  # noqa: PLC0415
    from lib.service.fleet import list_owner_rows  # noqa: PLC0415

    file = output.parts / _OWN_LIST
    if not file.exists():
        rows: list[Cells] = list(list_owner_rows(Spaces(login()), owner))
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        unfinished.replace(file)
    return str(file)


def _answer(
    parts: Iterator[FleetPart],
    output: Output,
    catalog: Catalog,
    advance: Callable[[int], object],
    *,
    workers: int | None = None,
    ray: str | None = None,
    jobs: int | None = None,
    **options: Any,
) -> bool:
    """Answer the parts where the options say; false if nothing was started."""
    from lib.cli.act import login  # noqa: PLC0415
    from lib.service.fleet_run import WorkerSetup, cores, run_here  # noqa: PLC0415

    if jobs is not None:
        return _answer_on_jobs(parts, output, catalog, advance, jobs, **options)
    if ray is not None:
        from lib.service.fleet_ray import run_on_ray  # noqa: PLC0415

        run = run_on_ray(parts, WorkerSetup(catalog=catalog), ray, workers, advance)
    else:
        run = run_here(parts, WorkerSetup(catalog=catalog, token=login()), workers or cores(), advance)
    with closing(run) as answered:
        for part, rows in answered:
            output.write(part, rows)
    return True


def _answer_on_jobs(
    missing: Iterator[FleetPart], output: Output, catalog: Catalog, advance: Callable[[int], object], count: int, **options: Any
) -> bool:
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # noqa: PLC0415

    from lib.cli.fleet_jobs import MOST_ROWS, JobOptions, run_on_jobs  # noqa: PLC0415
    from lib.hub.jobs import Jobs  # noqa: PLC0415
    from lib.service.fleet_files import PART_ROWS  # noqa: PLC0415
    from lib.service.jobs import plan_job  # noqa: PLC0415

    parts = list(islice(missing, MOST_ROWS // PART_ROWS + 1))  # one more is refused
    if not parts:
        return True
    prices = catalog.prices["jobs"]
    chosen = JobOptions(
        count=count,
        plan=plan_job(options.pop("flavor"), options.pop("timeout"), catalog),
        prices=f"{prices.basis} prices, {prices.checked}",
        **options,
    )
    disable_progress_bars()  # of the script's way into the bucket
    return run_on_jobs(parts, output, chosen, lambda token: Jobs(token, namespace=chosen.namespace), advance)
