"""The simulation compared with measured servers: closed loop with N clients, every vLLM row of `served_throughput.csv`.

    python -m scripts.check_traffic FACTS [ENGINE [--record]]

Each row states a model, cards, lengths and N requests in flight, and the means of the time to first token and of the time per output
token. The simulation runs the benchmark as it was run: N clients, 10 · N requests, lengths uniform from 80 to 100 % of those stated or all
of one length, 8192 tokens in a step at most. The cache gets the cards' memory less the weights; the steps take the times of the laws with
the constants of `lib/data/speed_constants.json`, which were fitted on these rows among others. Nothing is fitted here.

Source of the procedure: github.com/InferenceMAX/InferenceMAX, benchmarks/*_slurm.sh and benchmark_lib.sh (25ef611, 145ff60).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lib.speed.batch import CostModelInputs
from lib.speed.calibration import MAX_NUM_SEQS, Constants, load_calibration
from lib.speed.steps import StepTable, tabulate_steps
from lib.speed.timing import cache_bytes, time_serving
from lib.traffic.replica import ServerPlan
from lib.traffic.simulation import Simulation, TrafficResult, run_all, summarise
from scripts.accuracy import record, summarize_errors
from scripts.calibration_points import Point, law_inputs
from scripts.calibration_served import DRAWN_MEAN, DRAWN_SHAPES, SHORTEST, served_points

REQUESTS_EACH = 10
TOKEN_BUDGET = 8192
SEED = 0
CLAIMED = 0.92  # of the memory, as in lib.laws.serving.running_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bytes:
    """The cache of one replica in the terms of the laws of speed."""

    inputs: CostModelInputs
    capacity_bytes: int

    def sequence_bytes(self, tokens: int) -> int:
        """Bytes of a sequence over all devices."""
        return int(np.asarray(cache_bytes(self.inputs, float(tokens))).flat[0])


def _longest(inputs: CostModelInputs) -> tuple[int, int, float]:
    """Tokens of the longest prompt and of the longest answer, those that the row states, and the share of them that the shortest have."""
    prompt, output = float(inputs.prompt_tokens[0]), float(inputs.output_tokens[0])
    lengths = round(prompt / DRAWN_MEAN), round(output / DRAWN_MEAN)
    varies = (str(lengths[0]), str(lengths[1])) in DRAWN_SHAPES
    return (*lengths, SHORTEST) if varies else (round(prompt), round(output), 1.0)


def _room(inputs: CostModelInputs) -> _Bytes:
    free_bytes = CLAIMED * inputs.memory * inputs.tensor_parallel - inputs.dense_bytes - inputs.expert_bytes
    room = _Bytes(inputs=inputs, capacity_bytes=int(free_bytes[0]))
    longest = room.sequence_bytes(sum(_longest(inputs)[:2]))
    return room if room.capacity_bytes > longest else replace(room, capacity_bytes=10**18)  # it ran, so its weights are smaller than stated


def _steps(inputs: CostModelInputs, constants: Constants, clients: int) -> StepTable:
    prompt, output, _ = _longest(inputs)
    alone = time_serving(replace(inputs, running_requests=np.ones(1)), constants)
    return tabulate_steps(
        inputs,
        constants,
        sequences=clients,
        prefill_tokens=TOKEN_BUDGET,
        longest=prompt + output,
        prompt_tokens=round(float(inputs.prompt_tokens[0])),
        ttft_s=float(alone.first_token.total[0]),
    )


def _lengths(inputs: CostModelInputs) -> Iterator[tuple[int, int]]:
    """Lengths of one request after another."""
    random = np.random.default_rng(SEED)
    prompt, output, least = _longest(inputs)
    while True:
        yield int(random.integers(int(prompt * least), prompt + 1)), int(random.integers(int(output * least), output + 1))


def simulate(inputs: CostModelInputs, constants: Constants, engine: str) -> TrafficResult:
    """One row in a closed loop."""
    clients = int(inputs.running_requests[0])
    plan = ServerPlan(max_batch_size=max(clients, MAX_NUM_SEQS[engine]), token_budget=TOKEN_BUDGET)
    lengths = islice(_lengths(inputs), REQUESTS_EACH * clients)
    of = run_all(Simulation(plan, _steps(inputs, constants, clients), _room(inputs), clients=clients, lengths=lengths))
    result = summarise(of, duration_s=0.0)
    assert result is not None  # noqa: S101 every client was answered
    return result


def compare(points: list[Point], engine: str) -> Iterator[tuple[Point, float, float]]:
    """Each measured mean with the simulated one and with that of the closed form, all in milliseconds."""
    constants = load_calibration().constants
    results: dict[str, tuple[TrafficResult, float, float]] = {}
    for point in points:
        key = repr((point.case, point.card))
        if key not in results:
            inputs = law_inputs([point])
            times = time_serving(inputs, constants)
            results[key] = simulate(inputs, constants, engine), float(times.first_token.total[0]), float(times.tpot_s[0])
        result, ttft_s, tpot_s = results[key]
        if point.metric == "served_first":
            yield point, result.ttft_mean_s * 1e3, ttft_s * 1e3
        elif result.tpot_mean_s is not None:
            yield point, result.tpot_mean_s * 1e3, tpot_s * 1e3


def _line(title: str, log_error: NDArray[np.float64]) -> str:
    size = np.expm1(np.abs(log_error))
    low, middle = np.median(size), np.quantile(size, 0.9)
    return f"{title:44} {len(size):5} median {low:6.1%}   90th {middle:7.1%}   bias {np.expm1(np.median(log_error)):+6.1%}"


def main() -> None:
    """Print the errors, over all rows and by model; runs that are in the table more than once count once."""
    facts, engine = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "vllm"  # noqa: PLR2004
    began = time.process_time()
    points = [point for point in served_points(facts) if point.engine == engine]
    rows = list(compare(points, engine))
    recorded: list[dict[str, Any]] = []
    for metric, name in (("served_between", "TPOT"), ("served_first", "TTFT")):
        of = [
            (point, np.log(simulated / point.value), np.log(law / point.value)) for point, simulated, law in rows if point.metric == metric
        ]
        recorded += [
            {"metric": name, "way": way, **summarize_errors(np.exp(errors))}
            for way, errors in (("simulation", [error for _, error, _ in of]), ("closed form", [error for _, _, error in of]))
        ]
        print(_line(f"{name}: simulation", np.array([error for _, error, _ in of])))
        print(_line(f"{name}: closed form of the laws", np.array([error for _, _, error in of])))
        for model in sorted({point.model for point, _, _ in of}):
            print(_line(f"  {name} {model}", np.array([error for point, error, _ in of if point.model == model])))
    if "--record" in sys.argv:
        record("traffic", "python -m scripts.check_traffic FACTS vllm --record", recorded)
    print(f"{len(rows)} points of {engine}, {time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    main()
