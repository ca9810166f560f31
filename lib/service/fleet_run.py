"""Parts of a fleet answered by worker processes on this machine.

A worker is a spawned process that answers rows. One that dies is replaced, and its rows are tried again one at a time: a row that ends
its process twice becomes an error row. Ray and Jobs use the same workers, so the answers are the same everywhere.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from lib.answers.fleet import FleetRow
from lib.catalog import Catalog
from lib.hub.space_session import install_session
from lib.service.build_process import BuildProcess
from lib.service.fleet import answer_row, refused_row
from lib.service.fleet_files import Cells, FleetPart
from lib.service.models import Models
from lib.service.reference import reading_as

BATCH_ROWS = 25
"""Rows that a worker gets at a time."""
_TRIES = 2
_KILLED = "The process that answered this row ended twice. Ask for its model alone, or leave the row out."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """Inputs of each worker: the catalog with its prices, and a token for gated and private models."""

    catalog: Catalog
    token: str | None = None


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_asked: list[tuple[Models, WorkerSetup]] = []
"""In a worker: its models and its setup; empty until `_begin`."""


def _begin(setup: WorkerSetup) -> None:
    """In a worker: prepare it, and make it end with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends the workers
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    install_session()
    _asked[:] = [(Models(build=BuildProcess(spare=False)), setup)]


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _answer(rows: Sequence[tuple[int, Cells]]) -> list[FleetRow]:
    """In a worker: the answers."""
    models, setup = _asked[0]
    with reading_as(setup.token):
        return [answer_row(models, setup.catalog, number, cells) for number, cells in rows]


class Worker:
    """One process that answers rows, replaced when it dies. Not thread-safe."""

    def __init__(self, setup: WorkerSetup) -> None:
        """The process starts with the first rows."""
        self._setup = setup
        self._process = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin, initargs=(self._setup,))

    def answer(self, rows: Sequence[tuple[int, Cells]]) -> list[FleetRow]:
        """The answers, one for each row and in order."""
        try:
            return self._process.submit(_answer, rows).result()
        except BrokenProcessPool:
            self._renew()
        return [self._answer_alone(row) for row in rows]

    def _answer_alone(self, row: tuple[int, Cells]) -> FleetRow:
        for _ in range(_TRIES):
            try:
                return self._process.submit(_answer, [row]).result()[0]
            except BrokenProcessPool:
                self._renew()
        return refused_row(*row, self._setup.catalog, "worker_ended", _KILLED)

    def _renew(self) -> None:
        self.close()
        self._process = self._start()

    def close(self) -> None:
        """End the process once its rows are answered."""
        self._process.shutdown(wait=True, cancel_futures=True)


Answered = tuple[FleetPart, list[FleetRow]]


def run_here(
    parts: Iterable[FleetPart], setup: WorkerSetup, count: int, advance: Callable[[int], object] = lambda _: None
) -> Generator[Answered]:
    """The parts with their answers, as they are complete; `advance(n)` is called after every n rows.

    At most twice as many parts are read ahead as there are workers. Closed early, it ends the workers after the rows they have.
    """
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    workers = [Worker(setup) for _ in range(count)]
    for worker in workers:
        idle.put(worker)
    stopping = threading.Event()

    def answer(part: FleetPart) -> list[FleetRow] | None:
        worker = idle.get()
        try:
            rows, answers = part.rows(), list[FleetRow]()
            while len(answers) < len(rows) and not stopping.is_set():
                batch = rows[len(answers) : len(answers) + BATCH_ROWS]
                answers += worker.answer(batch)
                advance(len(batch))
            return answers if len(answers) == len(rows) else None
        finally:
            idle.put(worker)

    # Read ahead twice as many parts as there are workers; end the workers however the caller stops.
    waiting: dict[Future[list[FleetRow] | None], FleetPart] = {}
    with ThreadPoolExecutor(count, thread_name_prefix="fleet") as threads:
        try:
            for part in parts:
                waiting[threads.submit(answer, part)] = part
                while len(waiting) >= 2 * count:
                    yield from _done(waiting)
            while waiting:
                yield from _done(waiting)
        finally:
            stopping.set()
            for future in waiting:
                future.cancel()
            wait(waiting)
            for worker in workers:
                worker.close()


def _done(waiting: dict[Future[list[FleetRow] | None], FleetPart]) -> Iterator[Answered]:
    """The parts that are complete, after waiting for one."""
    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
        part, answers = waiting.pop(future), future.result()
        if answers is not None:
            yield part, answers
