"""Copies the ledger's new rows to a dataset of the owner's, when the owner asks for it: LEDGER_DATASET=owner/name.

It acts for the Space's owner with the Space's own token (HF_TOKEN, or the login of this machine), never for a visitor. Off without the
variable. `huggingface_hub.CommitScheduler` commits a folder every few minutes; each process appends to a file of its own name there, so
that restarts and replicas overwrite nothing. Whatever fails is logged and told in the status; a measurement never waits for it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from lib.live.child_process import scratch_folder
from lib.live.measurements import Measurement

log = logging.getLogger(__name__)

EVERY_MINUTES = 5
_DATASET = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


class Scheduler(Protocol):
    """The part of CommitScheduler that is used."""

    lock: threading.Lock

    def push_to_hub(self) -> Any:
        """Commit the folder now."""
        ...


Start = Callable[[str, Path], Scheduler]


def commit_scheduler(dataset: str, folder: Path) -> Scheduler:
    """The Hub client's own scheduler; makes the dataset (private) if there is none. Takes as long as the Hub does."""
    from huggingface_hub import CommitScheduler  # noqa: PLC0415 only where the owner wants it

    return CommitScheduler(repo_id=dataset, repo_type="dataset", folder_path=folder, every=EVERY_MINUTES, private=True, path_in_repo="data")


class DatasetPush:
    """Appends rows to the file that is committed. Safe to use from several threads."""

    def __init__(self, dataset: str | None, start: Start = commit_scheduler) -> None:
        """`dataset` None turns it off. Nothing is started before the first row."""
        self._dataset, self._start = dataset, start
        self._lock = threading.Lock()
        self._waiting: list[Measurement] = []
        self._thread: threading.Thread | None = None
        self._scheduler: Scheduler | None = None
        self._file: Path | None = None
        self._problem: str | None = None

    def add(self, row: Measurement) -> None:
        """Have a row committed with the next push; returns at once."""
        if self._dataset is None:
            return
        with self._lock:
            self._waiting.append(row)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._write, name="ledger-push", daemon=True)
                self._thread.start()

    def status(self) -> str:
        """In words: off, on, or what is wrong."""
        if self._dataset is None:
            return "Rows are not copied anywhere (the owner can set LEDGER_DATASET to a dataset of theirs)."
        problem = self._problem or _failure_of(self._scheduler)
        if problem:
            return f"Rows should be copied to the dataset {self._dataset}, but {problem}. They stay in the ledger."
        return f"New rows are copied to the dataset {self._dataset} every {EVERY_MINUTES} minutes."

    def wait(self, seconds: float) -> None:
        """Until rows that were added are in the file, at most so long."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _write(self) -> None:
        """In a thread of its own: start the scheduler if there is none, then append what waits."""
        while True:
            with self._lock:
                rows, self._waiting = self._waiting, []
                if not rows:
                    self._thread = None
                    return
            try:
                self._append(rows)
                self._problem = None
            except Exception as error:  # whatever it is, the measurements stand; the next row tries again
                log.exception("the ledger's rows could not be handed to the dataset")
                self._problem = f"that failed ({type(error).__name__}; the log says more)"
                with self._lock:
                    self._waiting = (rows + self._waiting)[-_MOST_WAITING:]
                    self._thread = None
                return

    def _append(self, rows: list[Measurement]) -> None:
        assert self._dataset is not None, "checked by `add`"  # noqa: S101
        if self._scheduler is None or self._file is None:
            folder = Path(tempfile.mkdtemp(prefix="ledger-", dir=scratch_folder()))
            self._scheduler = self._start(self._dataset, folder)
            self._file = folder / f"measured-{uuid4().hex[:12]}.jsonl"
        text = "".join(json.dumps(asdict(row), allow_nan=False) + "\n" for row in rows)
        with self._scheduler.lock, self._file.open("a", encoding="utf-8") as file:
            file.write(text)


_MOST_WAITING = 1_000


def _failure_of(scheduler: Scheduler | None) -> str | None:
    """The outcome of the last push in the background."""
    last = getattr(scheduler, "last_future", None)
    if last is None or not last.done() or last.cancelled() or last.exception() is None:
        return None
    return f"the last push failed ({type(last.exception()).__name__}; the log says more)"


def start_push(environment: Mapping[str, str] = os.environ) -> DatasetPush:
    """Read the settings of the environment. A name that is not a dataset id is logged and turns the push off."""
    told = environment.get("LEDGER_DATASET", "").strip()
    if told and not _DATASET.fullmatch(told):
        log.error("LEDGER_DATASET is no dataset (owner/name): rows are not pushed")
        return DatasetPush(None)
    return DatasetPush(told or None)
