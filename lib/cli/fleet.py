"""The command `fleet`: rows of questions from a file to Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lib.cli.outcome import INTERRUPTED, end_command, guard_command, print_answer, say

_EXAMPLES = """\b
Examples:
  python scripts/manage_space.py fleet questions.csv answers.parquet
  python scripts/manage_space.py fleet hf://datasets/ada/questions answers.parquet --workers 4"""


@click.command(
    "fleet",
    short_help="Answer a file of questions to a Parquet file.",
    epilog=_EXAMPLES,
)
@click.argument("paths", nargs=-1, required=True, metavar="[IN] OUT")
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Processes on this machine; by default one for each core.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; everything else goes to stderr.")
@guard_command
def fleet(*, paths: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Answer the rows of IN (CSV, JSONL, Parquet, or hf://datasets/owner/name) to OUT, a Parquet file.

    A row has the column `model`, and any argument of `recommend` as further columns. `hardware` is the current hardware, `label` a text
    that the answer repeats. OUT has the pick, memory by part, speed, cost, verdict, reasons, and the saving compared with the current
    hardware. A row that cannot be answered has an error instead. A run that was stopped goes on with the same command.
    """
    if len(paths) != 2:  # noqa: PLR2004  the questions and the answers
        raise click.UsageError("Name two files: the questions and the Parquet file for the answers.")
    text = run_fleet(paths[0], Path(paths[1]), **options)
    print_answer(text, text["message"], as_json=as_json)


def run_fleet(source: str, out: Path, *, workers: int | None) -> dict[str, Any]:
    """Answer what is missing of an output, and join it.

    Raises:
        AdvisorError: the questions cannot be read, or the answers not be written.
    """
    from contextlib import closing  # noqa: PLC0415

    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]  # noqa: PLC0415

    from lib.catalog import load  # noqa: PLC0415
    from lib.cli.act import login  # noqa: PLC0415
    from lib.hub.prices import PriceFeed  # noqa: PLC0415
    from lib.service.fleet_files import Output, read_rows, split_parts  # noqa: PLC0415
    from lib.service.fleet_run import WorkerSetup, cores, run_here  # noqa: PLC0415

    output = Output(out)
    if output.complete:
        return {"path": str(out), "rows": 0, "message": f"{out} is complete already. Remove it to ask again."}
    total = sum(1 for _ in read_rows(source))
    setup = WorkerSetup(catalog=PriceFeed(load()).refresh(), token=login())
    count = workers or cores()
    say(f"{total:,} rows on {count} processes ...")
    with output, tqdm(total=total, unit=" rows", disable=None) as bar:  # type: ignore[no-untyped-call]
        found = 0

        def missing() -> Any:
            nonlocal found
            for part in split_parts(read_rows(source)):
                if output.find(part):
                    found += len(part.cells)
                    bar.update(len(part.cells))
                else:
                    yield part

        try:
            with closing(run_here(missing(), setup, count, bar.update)) as answered:
                for part, rows in answered:
                    output.write(part, rows)
        except KeyboardInterrupt:
            say(f"\nStopped. What is answered stays in {output.parts}; the same command goes on from there.")
            end_command(INTERRUPTED)
        rows_written = output.join()
    message = f"{rows_written:,} rows are in {out}" + (f"; {found:,} of them were there from an earlier run." if found else ".")
    return {"path": str(out), "rows": rows_written, "found": found, "message": message}
