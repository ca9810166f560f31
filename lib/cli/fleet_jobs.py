"""`fleet --jobs N`: the plan with its price, the jobs, and their answers brought home."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lib.cli.act import require_login
from lib.cli.job_runs import at_most, confirm, end_jobs, follow_job
from lib.cli.outcome import NotConfirmed, say, write_line
from lib.errors import AgainstRules, BadArgument, HubGarbage, LiveError
from lib.hub.jobs import BucketFolder, Jobs, SubmittedJob
from lib.service.fleet_files import FleetPart, Output, part_name
from lib.service.fleet_jobs import (
    MOST_JOBS,
    Shard,
    check_timeout,
    deal_shards,
    job_folder,
    keep_answers,
    shard_script,
    together_usd,
)
from lib.service.job_plans import JobPlan

MOST_ROWS = 1_000_000
"""Rows of one command: their questions are in memory while they are sent."""
ROUNDS = 2
"""Times that a part is given to a job."""
_STARTED = "jobs.json"
_TIMES = re.compile(r"@(?:hourly|daily|weekly|monthly|yearly|annually)|[0-9*/,A-Za-z-]+(?: [0-9*/,A-Za-z-]+){4}")
"""The expressions that the Hub's scheduled Jobs accept (huggingface_hub 2.4, `create_scheduled_job`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """How many jobs, on which flavor, who pays, and whether they may start."""

    count: int
    plan: JobPlan
    prices: str
    namespace: str | None
    bucket: str
    go: bool
    yes: bool
    schedule: str | None


def run_on_jobs(
    parts: Sequence[FleetPart], output: Output, options: JobOptions, connect: Callable[[str], Jobs], advance: Callable[[int], object]
) -> bool:
    """Answer parts on Jobs into the output, after showing the price; false if nothing was started or only a schedule was made.

    Raises:
        AgainstRules: the jobs would be ended before they are done, or there are too many rows.
        BadArgument: the schedule is not a cron expression.
        NotConfirmed: the person said no.
        HubError: the Hub refuses, such as without credits; jobs that had started are ended.
        LiveError: parts are still missing after the second round.
    """
    rows = sum(len(part.cells) for part in parts)
    if rows > MOST_ROWS or options.count > MOST_JOBS:
        raise AgainstRules(f"Accepted: {MOST_ROWS:,} rows and {MOST_JOBS} jobs of one command. Split the file of questions.")
    if options.schedule and not _TIMES.fullmatch(options.schedule):
        raise BadArgument("schedule", options.schedule, "@hourly, @daily, @weekly, @monthly, @yearly, or five fields such as '0 6 * * 1'")
    # Show the price before anything is started.
    shards, plan = deal_shards(parts, options.count), options.plan
    check_timeout(shards, plan)
    bound = at_most(together_usd(shards, plan))
    often = write_line("jobs", "often", schedule=options.schedule) if options.schedule else ""
    words = {"rows": rows, "jobs": len(shards), "flavor": plan.offer.id, "hourly": plan.usd_per_hour, "prices": options.prices}
    say(write_line("jobs", "plan", **words))
    both = at_most(together_usd(shards, plan) * ROUNDS)
    say(write_line("jobs", "bound", bound=bound, often=often, timeout_s=plan.timeout_s, both=both))
    if not options.go:
        say(write_line("jobs", "not_started"))
        return False
    # Ask for consent.
    token = require_login("start jobs")
    if not options.yes and not confirm(write_line("jobs", "confirm", jobs=len(shards), bound=bound, often=often)):
        raise NotConfirmed("Not confirmed: nothing was started.")
    # Upload the questions; a schedule ends here.
    jobs = connect(token)
    folder = job_folder(jobs.open_bucket(options.bucket), parts)
    say(write_line("jobs", "folder", bucket=folder.bucket, path=folder.path))
    if options.schedule:
        _schedule(shards, folder, options, jobs)
        return False
    # Collect what earlier jobs have answered, then run what is missing, twice at most.
    _follow_earlier(output, jobs, plan)
    missing = _fetch(parts, folder, output, jobs, advance)
    for _ in range(ROUNDS):
        if missing:
            _run_round(deal_shards(missing, options.count), folder, output, jobs, plan)
            missing = _fetch(missing, folder, output, jobs, advance)
    if missing:
        raise LiveError(
            f"{len(missing)} of {len(parts)} parts have no answers after {ROUNDS} rounds; the log above says why. What is answered is "
            "kept: run the same command again."
        )
    return True


def _run_round(shards: Sequence[Shard], folder: BucketFolder, output: Output, jobs: Jobs, plan: JobPlan) -> None:
    """Start a job for each shard and follow them all; where one cannot be started or followed, the others are ended."""
    jobs.put(folder, {shard.file: shard.to_json() for shard in shards})
    running: list[tuple[str, SubmittedJob]] = []
    try:
        for shard in shards:
            name = f"job {shard.number + 1} of {len(shards)}"
            with tempfile.TemporaryDirectory() as home:
                file = Path(home) / "fleet.py"
                file.write_text(shard_script(shard), encoding="utf-8")
                running.append((name, jobs.start(file, flavor=plan.offer.id, timeout_s=plan.timeout_s, folder=folder)))
            (output.parts / _STARTED).write_text(json.dumps([asdict(job) for _, job in running]), encoding="utf-8")
            say(write_line("jobs", "started", name=name, url=running[-1][1].url))
        while running:
            name, job = running[0]
            follow_job(job, name, jobs, plan.timeout_s)
            running.pop(0)
    finally:
        end_jobs(running, jobs)
        (output.parts / _STARTED).unlink(missing_ok=True)


def _follow_earlier(output: Output, jobs: Jobs, plan: JobPlan) -> None:
    """Wait for the jobs that a killed command left behind, so that nothing is paid twice."""
    started = output.parts / _STARTED
    if not started.exists():
        return
    for one in json.loads(started.read_text(encoding="utf-8")):
        job = SubmittedJob(**one)
        say(write_line("jobs", "started_earlier", name=job.id, url=job.url))
        follow_job(job, job.id, jobs, plan.timeout_s)
    started.unlink()


def _fetch(
    parts: Sequence[FleetPart], folder: BucketFolder, output: Output, jobs: Jobs, advance: Callable[[int], object]
) -> list[FleetPart]:
    """Bring the answers of these parts home; the parts without any."""
    missing = []
    for part in parts:
        content = jobs.get(folder, part_name(part.number))
        try:
            if content is None:
                missing.append(part)
                continue
            keep_answers(content, part, output.parts / part_name(part.number))
            advance(len(part.cells))
        except HubGarbage as refusal:
            say(str(refusal))
            missing.append(part)
    return missing


def _schedule(shards: Sequence[Shard], folder: BucketFolder, options: JobOptions, jobs: Jobs) -> None:
    """Have the jobs started at each time of the schedule; every run writes into a folder of its day."""
    jobs.put(folder, {shard.file: shard.to_json() for shard in shards})
    for shard in shards:
        with tempfile.TemporaryDirectory() as home:
            file = Path(home) / "fleet.py"
            file.write_text(shard_script(shard, dated=True), encoding="utf-8")
            name = jobs.schedule(
                file, flavor=options.plan.offer.id, timeout_s=options.plan.timeout_s, schedule=options.schedule or "", folder=folder
            )
        say(write_line("jobs", "scheduled", schedule=options.schedule, name=name))
