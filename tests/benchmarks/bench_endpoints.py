"""Medians of the endpoints, in-process and warm, against what was promised.

python tests/benchmarks/bench_endpoints.py
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from llama import LLAMA_8B_CONFIG

from lib.service.app import services

CATALOG_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
CONFIG = LLAMA_8B_CONFIG


def median_ms(call: Callable[[int], object], times: int) -> float:
    """Median milliseconds of the calls."""
    taken = []
    for turn in range(times):
        began = time.perf_counter()
        call(turn)
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


def main() -> None:
    """Measure, print, and fail where a promise is broken."""
    ours = services()

    def resolve_new(turn: int) -> object:
        return ours.resolve_model(json.dumps(CONFIG | {"vocab_size": 128_256 - turn - 1}))

    resolve_new(10_000)  # imports torch and transformers, as the warm-up does
    cases: list[tuple[str, Callable[[int], object], int, float]] = [
        (
            "estimate_memory, another context each time",
            lambda turn: ours.estimate_memory(CATALOG_MODEL, context_tokens=1024 + turn),
            200,
            5,
        ),
        ("recommend, spaces", lambda turn: ours.recommend(CATALOG_MODEL, context_tokens=1024 + turn), 50, 50),
        ("recommend, all hardware", lambda turn: ours.recommend(CATALOG_MODEL, context_tokens=1024 + turn, platforms="all"), 50, 50),
        ("list_hardware, all", lambda _: ours.list_hardware("all", include_retired=True), 50, 5),
        ("resolve_model, catalog", lambda _: ours.resolve_model(CATALOG_MODEL), 200, 5),
        ("resolve_model, an unseen config", resolve_new, 5, 1500),
    ]
    broken = False
    for name, call, times, promised in cases:
        call(-1)
        took = median_ms(call, times)
        broken |= took > promised
        print(f"{name:44} {took:9.2f} ms   promised {promised:g} ms{'   BROKEN' if took > promised else ''}")  # noqa: T201 - a benchmark prints
    sys.exit(broken)


if __name__ == "__main__":
    main()
