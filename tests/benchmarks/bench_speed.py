"""How long speed estimates take, warm: one, and 10,000 combinations of model, hardware and precision at once.

python tests/benchmarks/bench_speed.py
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lib.catalog import load
from lib.model import bundled
from lib.speed import SpeedRequest, predict_speed, predict_speeds

ROUNDS = 5
WANTED = 10_000


def questions() -> list:  # type: ignore[type-arg]
    """Combinations of every bundled decoder and encoder with every listed offer of distinct hardware, in four precisions."""
    specs = [spec for name in bundled.list_ids() if (spec := bundled.find_spec(name)) and spec.library != "diffusers"]
    offers = {(o.accelerator, o.accelerator_count, o.accelerator_fraction): o for o in load().offers if o.listed and o.silicon}
    every = list(itertools.product(specs, offers.values(), ("auto", "bf16", "int8", "int4")))
    chosen = every[:: max(1, len(every) // WANTED)][:WANTED]
    return [(spec, offer, SpeedRequest(precision=precision, concurrency=4)) for spec, offer, precision in chosen]


def main() -> None:
    """Print medians."""
    asked, accelerators = questions(), load().accelerators
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        predict_speeds(asked, accelerators)
        took.append(time.perf_counter() - began)
    print(f"{len(asked)} combinations: first {took[0]:.2f} s, then {statistics.median(took[1:]):.2f} s")  # noqa: T201
    one = []
    for question in asked[:200]:
        began = time.perf_counter()
        predict_speed(*question, accelerators)
        one.append(time.perf_counter() - began)
    print(f"one: median {statistics.median(one) * 1e3:.2f} ms, longest {max(one) * 1e3:.2f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
