"""Parts of a fleet answered on a Ray cluster by Ray Data, with the same workers as on one machine.

Ray gets the sources of this app (`py_modules`) and needs the packages of requirements.txt on its nodes. No token goes to the cluster, so
gated and private models are error rows there.
"""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lib
from lib.answers.fleet import FleetRow
from lib.errors import AdvisorError, InvalidInput, LiveError
from lib.service.fleet_files import FleetPart, require
from lib.service.fleet_run import BATCH_ROWS, Answered, Worker, WorkerSetup

WAVE_PARTS = 80
"""Parts that Ray Data gets at a time; the next ones are read after all of these are answered."""
AUTO = "auto"
_GONE = "The Ray cluster went away or failed ({how}). Finished parts are kept: run the same command again."
_NO_CLUSTER = "There is no Ray cluster at {address} ({how}). Name the address of its head node, or auto; `ray stop` forgets one that died."
CONNECT_S = 180
"""Ray looks for a cluster that died for many minutes; a cluster of this machine starts within one."""
_GRACE_S = 30
"""For a cluster of this machine to end with its driver."""


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
        raise InvalidInput(_NO_CLUSTER.format(address=address[:100], how=type(error).__name__)) from error
    return ray


def run_on_ray(
    parts: Iterable[FleetPart],
    setup: WorkerSetup,
    address: str,
    count: int | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Generator[Answered]:
    """The parts with their answers, as they are complete; by default one worker for each processor of the cluster.

    Ray runs in a process of its own, because it ends the process that lost its cluster.

    Raises:
        InvalidInput: Ray is not installed, or there is no cluster.
        LiveError: the cluster went away.
    """
    spawn = multiprocessing.get_context("spawn")
    pipe, far_end = spawn.Pipe()
    process = spawn.Process(target=drive, args=(far_end, WorkerSetup(catalog=setup.catalog), address, count), name="ray")
    process.start()
    far_end.close()
    try:
        iterator = iter(parts)
        if not pipe.poll(CONNECT_S):
            raise InvalidInput(_NO_CLUSTER.format(address=address[:100], how=f"no answer within {CONNECT_S} s"))
        _receive(pipe)
        while wave := list(itertools.islice(iterator, WAVE_PARTS)):
            pipe.send(wave)
            found: dict[int, list[FleetRow]] = {part.number: [] for part in wave}
            while (batch := _receive(pipe)) is not None:
                number, rows = batch
                found[number] += rows
                advance(len(rows))
                part = next(one for one in wave if one.number == number)
                if len(found[number]) == len(part.cells):
                    yield part, sorted(found.pop(number), key=lambda row: row.row)
        pipe.send([])
    finally:
        pipe.close()
        process.join(_GRACE_S)
        process.terminate()


def _receive(pipe: Connection) -> Any:
    """The next message of the process that runs Ray."""
    try:
        message = pipe.recv()
    except (EOFError, OSError):
        raise LiveError(_GONE.format(how="its driver ended")) from None
    if isinstance(message, AdvisorError):
        raise message
    return message


def drive(pipe: Connection, setup: WorkerSetup, address: str, count: int | None) -> None:
    """In the process that runs Ray: answer waves of parts until an empty one comes. It sends None when it is ready and after each wave."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends this one
    try:
        ray = connect(address)
        try:
            workers = count or max(1, int(ray.cluster_resources().get("CPU", 1)))
            ray.data.DataContext.get_current().enable_progress_bars = False
            pipe.send(None)
            while wave := pipe.recv():
                for batch in _answer_wave(ray, wave, setup, workers):
                    pipe.send(batch)
                pipe.send(None)
        except (ray.exceptions.RayError, ConnectionError) as error:
            pipe.send(LiveError(_GONE.format(how=type(error).__name__)))
        finally:
            ray.shutdown()
    except AdvisorError as refusal:
        pipe.send(refusal)
    except (EOFError, OSError):  # the main process has what it wants
        return


def _answer_wave(ray: Any, wave: Sequence[FleetPart], setup: WorkerSetup, workers: int) -> Generator[tuple[int, list[FleetRow]]]:
    """The answers to batches, each with the number of its part."""
    batches = [
        {"part": part.number, "rows": pickle.dumps(rows[start : start + BATCH_ROWS])}
        for part in wave
        for rows in [part.rows()]
        for start in range(0, len(rows), BATCH_ROWS)
    ]
    questions = ray.data.from_items(batches, override_num_blocks=len(batches))
    pool = ray.data.ActorPoolStrategy(size=min(workers, len(batches)))
    answered = questions.map_batches(RayWorker, batch_size=1, fn_constructor_args=(setup,), compute=pool)
    for batch in answered.iter_rows():
        yield int(batch["part"]), pickle.loads(batch["answers"])  # noqa: S301 pickled by our own workers
