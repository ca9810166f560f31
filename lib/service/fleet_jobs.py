"""Parts of a fleet answered on Hugging Face Jobs: shards, their price, the script of a job, and its answers in a bucket.

A shard is a file of parts in a folder of a bucket. The job reads it there, answers it with all its processors, and writes each part
next to it, whole or not at all. So the answers of a job that ends early are kept, and a second job answers the rest. The folder's name is a
digest of the questions: a repeated command first collects the answers that are already there. No token goes to a job.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from lib.catalog import load
from lib.errors import AgainstRules, HubGarbage
from lib.hub.jobs import FOLDER_VARIABLE, BucketFolder, own_script
from lib.hub.prices import PriceFeed
from lib.service.fleet_files import FleetPart, part_name, write_part
from lib.service.fleet_run import WorkerSetup, cores, run_here
from lib.service.job_plans import JobPlan

ROWS_PER_S = 10
"""Rows of bundled models that a processor answers in a second, for timeouts.

Measured 2026-11-26 on two busy cores: 10,000 rows took 304 s of processor time, 33 rows a second; 2,000 unseen configurations were answered
at 1.1 rows a second and process. Raise the timeout for unseen models.
"""
DEPENDENCIES = ("pyarrow>=21,<30", "orjson>=3.10,<4", "pyyaml>=6,<7", "jinja2>=3.1,<4", "click>=8.3,<9", "httpx>=0.28,<1", "httpx2>=2,<3")
"""Packages that answering rows needs, in addition to those of a measurement."""
MOST_JOBS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The parts of one job."""

    number: int
    parts: tuple[FleetPart, ...]

    @property
    def file(self) -> str:
        """Its questions in the bucket."""
        return f"questions-{self.digest[:16]}.json"

    @property
    def digest(self) -> str:
        """SHA-256 of the questions."""
        return hashlib.sha256("".join(part.digest for part in self.parts).encode()).hexdigest()

    def to_json(self) -> bytes:
        """The questions as the job reads them."""
        parts = [{"number": part.number, "first": part.first, "cells": [dict(one) for one in part.cells]} for part in self.parts]
        return json.dumps(parts, default=str).encode()


def deal_shards(parts: Sequence[FleetPart], count: int) -> tuple[Shard, ...]:
    """Distribute the parts over at most `count` jobs, round-robin."""
    count = min(count, len(parts))
    return tuple(Shard(number=at, parts=tuple(parts[at::count])) for at in range(count))


def check_timeout(shards: Sequence[Shard], plan: JobPlan) -> None:
    """Reject jobs whose timeout is shorter than their rows take.

    Raises:
        AgainstRules: the message has a sufficient timeout; more jobs help too.
    """
    rows = max(sum(len(part.cells) for part in shard.parts) for shard in shards)
    seconds = math.ceil(rows / (ROWS_PER_S * max(1, plan.offer.vcpu or 1)))
    if seconds > plan.timeout_s:
        raise AgainstRules(
            f"{rows:,} rows a job take about {seconds:,} s on {plan.offer.id}, and the timeout is {plan.timeout_s:,} s. "
            f"Set --timeout {seconds + 600}, or more jobs (--jobs)."
        )


def together_usd(shards: Sequence[Shard], plan: JobPlan) -> Decimal:
    """The most that the jobs cost: the whole timeout of each."""
    return plan.most_usd * len(shards)


def job_folder(bucket: str, parts: Iterable[FleetPart]) -> BucketFolder:
    """The folder of these questions."""
    digest = hashlib.sha256("".join(part.digest for part in parts).encode()).hexdigest()
    return BucketFolder(bucket=bucket, path=f"fleet/{digest[:16]}")


def shard_script(shard: Shard, *, dated: bool = False) -> str:
    """The script of a job; `dated` writes each run's answers into a folder of its day."""
    return own_script({"file": shard.file, "dated": dated}, "lib.service.fleet_jobs", DEPENDENCIES)


def read_shard(content: bytes) -> list[FleetPart]:
    """The parts of a file that `Shard.to_json` wrote."""
    return [FleetPart(number=one["number"], first=one["first"], cells=tuple(one["cells"])) for one in json.loads(content)]


def keep_answers(content: bytes, part: FleetPart, path: Path) -> None:
    """Write the answers to a part, as read from the bucket, if they answer its questions.

    Raises:
        HubGarbage: they cannot be read, or answer other questions.
    """
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    from lib.service.fleet_files import is_answer  # noqa: PLC0415

    try:
        table = parquet.read_table(pa.BufferReader(content))
    except pa.ArrowException as error:
        raise HubGarbage(f"Part {part.number} in the bucket cannot be read ({type(error).__name__}). It is answered again.") from error
    if not is_answer(table, part):
        raise HubGarbage(f"Part {part.number} in the bucket has answers to other questions. It is answered again.")
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def main(request: Mapping[str, Any]) -> None:
    """In the job: answer the parts of a shard that are not in the folder, with live prices if they can be fetched."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    parts = read_shard((folder / request["file"]).read_bytes())
    answers = folder / datetime.now(UTC).strftime("%Y-%m-%d") if request["dated"] else folder
    answers.mkdir(exist_ok=True)
    missing = [part for part in parts if not (answers / part_name(part.number)).exists()]
    sys.stdout.write(f"{len(missing)} of {len(parts)} parts to answer on {cores()} processors\n")
    with closing(run_here(missing, WorkerSetup(catalog=PriceFeed(load()).refresh()), cores())) as answered:
        for part, rows in answered:
            write_part(answers / part_name(part.number), part, rows)
            sys.stdout.write(f"part {part.number}: {len(rows)} rows\n")
            sys.stdout.flush()
