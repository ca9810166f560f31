"""Short times that a busy machine must not judge: medians of processor time (of other processes by the clock), each beside its bound.

python tests/benchmarks/bench_small.py

Run it on a quiet machine. The tests check what makes these times short (what is imported, what is remembered, what is not tried).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lib.catalog import load, load_from
from lib.catalog.rows import DATA
from lib.errors import AdvisorError
from lib.hub.weight_files import parse_safetensors
from lib.model.config import parse_config
from lib.service.app import services

ROOT = Path(__file__).resolve().parents[2]
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
FIND = "from lib.model import bundled; bundled.list_ids(); bundled.find_spec('openai/gpt-oss-20b')"


def median_s(work: Callable[[], object], rounds: int, clock: Callable[[], float]) -> float:
    """Median time of a call in seconds by this clock, after one that is not counted."""
    work()
    times = []
    for _ in range(rounds):
        began = clock()
        work()
        times.append(clock() - began)
    return statistics.median(times)


def process(*arguments: str) -> Callable[[], object]:
    """A run of this Python from start to end."""
    return lambda: subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)


def expect_refusal(work: Callable[[], object]) -> Callable[[], object]:
    """A call that ends in a refusal."""

    def call() -> None:
        with suppress(AdvisorError):
            work()

    return call


def main() -> None:
    """Measure, print, judge."""
    advisor, catalog = services(), load()
    offers = [offer.id for offer in catalog.on(("spaces",))]
    lists = b"[[]," * 2_000_000
    deep = json.dumps({"num_hidden_layers": 10**9})
    budgets = count(1_000_000)  # equal questions are answered from memory

    def recommend(budgets: Iterator[int]) -> object:
        return advisor.recommend(MODEL, platforms="all", max_usd_per_month=next(budgets))

    processes: list[tuple[str, float, Callable[[], object], int]] = [
        ("a fresh process finds a bundled model", 0.5, process("-c", FIND), 5),
        ("scripts/manage_space.py --help", 0.3, process("scripts/manage_space.py", "--help"), 10),
    ]
    cases: list[tuple[str, float, Callable[[], object], int]] = [
        ("the catalog is read and checked", 0.1, lambda: load_from(DATA), 5),
        ("a configuration that cannot be built is refused", 0.1, expect_refusal(lambda: parse_config(deep)), 20),
        ("a header of 8 MB of empty lists is refused", 1.0, expect_refusal(lambda: parse_safetensors(lists, "x.safetensors", None)), 5),
        ("/estimate_speed, warm", 0.010, lambda: advisor.estimate_speed(MODEL, "l4x1", concurrency=4), 20),
        ("/estimate_memory, warm", 0.050, lambda: advisor.estimate_memory(MODEL), 20),
        ("/recommend, all hardware and engines, another budget", 0.050, lambda: recommend(budgets), 20),
        (f"/estimate_cost of {len(offers)} tiers, warm", 0.5, lambda: [advisor.estimate_cost(offer, model=MODEL) for offer in offers], 5),
    ]
    late = 0
    timed = [(*case, time.perf_counter) for case in processes] + [(*case, time.process_time) for case in cases]
    for words, bound, work, rounds, clock in timed:
        took = median_s(work, rounds, clock)
        late += took > bound
        print(f"{words:55} {took * 1e3:8.1f} ms   bound {bound * 1e3:6.0f} ms{'   ABOVE' if took > bound else ''}")  # noqa: T201
    sys.exit(late > 0)


if __name__ == "__main__":
    main()
