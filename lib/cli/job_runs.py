"""Shared by the commands that start Jobs: a bound on the price, following a job to its end, and ending those that still run."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

import click

from lib.cli.outcome import say, write_line
from lib.errors import AdvisorError, TooLong
from lib.hub.jobs import COMPLETED_STAGE

if TYPE_CHECKING:
    from lib.hub.jobs import Jobs, SubmittedJob

SCHEDULING_S = 1800
"""Seconds beyond its timeout for which a job is followed: it may wait for a machine, unbilled."""
_LAST_LINES = 15
_KEPT_LINES = 5_000


def at_most(usd: Decimal) -> str:
    """A bound in whole cents: rounded up, or it would not be one."""
    return str(usd.quantize(Decimal("0.01"), ROUND_CEILING))


def confirm(question: str) -> bool:
    """Whether the person at the terminal agrees; false without a terminal."""
    try:
        return click.confirm(question, default=False)
    except click.Abort:
        return False


def follow_job(job: SubmittedJob, name: str, jobs: Jobs, timeout_s: int) -> list[str]:
    """The lines of a job's log until it ends; the last ones are shown when it failed. It is ended when it takes too long."""
    lines: list[str] = []
    try:
        for line in jobs.follow(job, limit_s=timeout_s + SCHEDULING_S):
            lines = [*lines[-_KEPT_LINES:], line]
    except TooLong as late:
        say(f"{name}: {late}")
        jobs.cancel(job)
        say(write_line("jobs", "ended", name=name, id=job.id))
    state = jobs.look(job)
    if state.stage != COMPLETED_STAGE:
        say(write_line("jobs", "ended_as", name=name, stage=state.stage, message=state.message))
        for line in lines[-_LAST_LINES:]:
            say("    " + "".join(c if c.isprintable() else " " for c in line[:200]))
    return lines


def end_jobs(running: Iterable[tuple[str, SubmittedJob]], jobs: Jobs) -> None:
    """End jobs that may still run, each with its name; one that cannot be ended is named with its page."""
    for name, job in running:
        try:
            jobs.cancel(job)
            say(write_line("jobs", "ended", name=name, id=job.id))
        except AdvisorError as refusal:
            say(write_line("jobs", "may_run", name=name, id=job.id, url=job.url, refusal=refusal))
