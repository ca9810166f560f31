"""A script that works through a dataset: on a machine of one's own, or on Jobs, where `uv` reads its packages from its head.

write_batch(kind, "Qwen/Qwen3-8B", place, Start(precision="bf16", sequences=16))
"""

from __future__ import annotations

from dataclasses import replace

from lib.engines import traits_of
from lib.present.app_files import AppFile, AppPlace, FileKind, write_code
from lib.present.snippets import Start, list_options, repeat_command
from lib.present.templates import write_shell

SCRIPT = "batch.py"
JOB_HOURS = 8
"""Timeout of a Job that works through a dataset of unknown size."""


def write_batch(kind: FileKind, model: str, place: AppPlace, start: Start) -> AppFile | None:
    """The script; `None` for a format that it does not load there. An engine that is a server gets the settings of its server."""
    served = not traits_of(place.engine).own_modules
    settings = dict(list_options(place.engine, start)) if served else {}
    place = replace(place, on_load=place.on_load and not served)  # a server is told to quantize by its settings
    return write_code(kind, model, place, settings=settings, batch=max(1, start.sequences), column=kind.column)


def batch_command() -> str:
    """The line that runs the script on a machine; `uv` installs the packages of its head."""
    return str(write_shell(["uv", "run", SCRIPT, "prompts.jsonl", "answers.jsonl"]))


def batch_job(flavor: str, image: str | None, *, hours: int = JOB_HOURS, shards: int = 1) -> str:
    """The line that runs the script on Jobs, from one dataset of the Hub to another: the disk of a Job is lost.

    Several shards are as many Jobs, each with its own part of the rows and a result of its own.

    >>> batch_job("l4x1", None, hours=3, shards=2).partition(" --flavor")[0]
    'for part in $(seq 0 1); do hf jobs uv run --detach'
    """
    words = ["hf", "jobs", "uv", "run", *(["--detach"] if shards > 1 else []), "--flavor", flavor, "--timeout", f"{hours}h"]
    words += ["--secrets", "HF_TOKEN", *(["--image", image] if image else []), SCRIPT, "my-name/my-prompts"]
    if shards == 1:
        return str(write_shell([*words, "my-name/my-answers"]))
    return repeat_command(f'{write_shell(words)} "my-name/my-answers-$part" --shard "$part/{shards}"', shards)
