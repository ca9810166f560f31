"""Parts of a fleet answered on a Ray cluster by Ray Data, with the same workers as on one machine.

Ray gets the sources of this app (`py_modules`) and needs the packages of requirements.txt on its nodes. No token goes to the cluster, so
gated and private models are error rows there.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import lib
from lib.errors import InvalidInput, LiveError
from lib.service.fleet_files import FleetPart, require
from lib.service.fleet_run import BATCH_ROWS, Answered, Worker, WorkerSetup

WAVE_PARTS = 80
"""Parts that Ray Data gets at a time; the next ones are read after all of these are answered."""
AUTO = "auto"


class RayWorker:
    """On the cluster: an actor that answers batches in a process of its own."""

    def __init__(self, setup: WorkerSetup) -> None:
        """The process starts with the first batch."""
        self._worker = Worker(setup)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The answers to the batches; both are pickles, which travel between processes of one cluster."""
        answers = [pickle.dumps(self._worker.answer(pickle.loads(rows))) for rows in batch["rows"]]  # noqa: S301 pickled by our own driver
        return {"part": batch["part"], "answers": answers}


def connect(address: str) -> Any:
    """Ray, connected to a cluster; `auto` is the cluster of this machine, which is started if none runs.

    Raises:
        InvalidInput: Ray is not installed, or there is no cluster.
    """
    ray = require("ray", "to use a Ray cluster")
    require("ray.data", "to use a Ray cluster")
    options = {"runtime_env": {"py_modules": [str(Path(next(iter(lib.__path__))))]}, "log_to_driver": False, "logging_level": "warning"}
    try:
        try:
            ray.init(address=address, **options)
        except ConnectionError:
            if address != AUTO:
                raise
            ray.init(include_dashboard=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"There is no Ray cluster at {address[:100]} ({type(error).__name__}). Name the address of its head node, or auto."
        ) from error
    return ray


def run_on_ray(
    parts: Iterable[FleetPart],
    setup: WorkerSetup,
    address: str,
    count: int | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Generator[Answered]:
    """The parts with their answers, as they are complete; by default one worker for each processor of the cluster.

    Raises:
        InvalidInput: Ray is not installed, or there is no cluster.
        LiveError: the cluster went away.
    """
    ray = connect(address)
    try:
        workers = count or max(1, int(ray.cluster_resources().get("CPU", 1)))
        ray.data.DataContext.get_current().enable_progress_bars = False
        iterator = iter(parts)
        while wave := list(itertools.islice(iterator, WAVE_PARTS)):
            yield from _answer_wave(ray, {part.number: part for part in wave}, WorkerSetup(catalog=setup.catalog), workers, advance)
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise LiveError(
            f"The Ray cluster went away or failed ({type(error).__name__}). Finished parts are kept: run the same command again."
        ) from error
    finally:
        ray.shutdown()


def _answer_wave(
    ray: Any, wave: dict[int, FleetPart], setup: WorkerSetup, workers: int, advance: Callable[[int], object]
) -> Generator[Answered]:
    batches = [
        {"part": part.number, "rows": pickle.dumps(rows[start : start + BATCH_ROWS])}
        for part in wave.values()
        for rows in [part.rows()]
        for start in range(0, len(rows), BATCH_ROWS)
    ]
    questions = ray.data.from_items(batches, override_num_blocks=len(batches))
    pool = ray.data.ActorPoolStrategy(size=min(workers, len(batches)))
    answered = questions.map_batches(RayWorker, batch_size=1, fn_constructor_args=(setup,), compute=pool)
    found: dict[int, list[Any]] = {number: [] for number in wave}
    for batch in answered.iter_rows():
        number = int(batch["part"])
        rows = pickle.loads(batch["answers"])  # noqa: S301 pickled by our own workers
        found[number] += rows
        advance(len(rows))
        if len(found[number]) == len(wave[number].cells):
            yield wave[number], sorted(found.pop(number), key=lambda row: row.row)
