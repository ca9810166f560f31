"""The cold start of a machine that sleeps: what it waits for, how long that takes, and how widely it varies.

    t = t₀ + B / f + B / l

    B   bytes of the files that are fetched and loaded      f  bytes per second from the Hub      l  bytes per second into the device
    t₀  seconds until a machine runs the container, plus the start of the engine: compilation, graphs, warm-up

f and l are medians of vLLM's start logs ("Time spent downloading weights", "Loading weights took") on rented machines, in MB/s:

    model                       GB     f    l            model                       GB     f    l
    Llama-3.2-1B               2.5   169   460           Qwen3-32B                 65.5   127     –
    granite-3.0-3b-a800m       6.8    40     –           Qwen3.5-35B-A3B           71.9   358  9700
    Olmo-3-1025-7B            14.6   216   890           Qwen3-Coder-30B-A3B-FP8   31.2   600   770
    Llama-3.1-8B-Instruct     16.1   134     –           Qwen3-235B-A22B-FP8      236     870     –
    Llama-3.1-8B-Instruct     16.1   290  5350
    Qwen3-14B                 29.5   110  2400

The range takes f from 0.1 to 0.6 GB/s, which holds eight of the eleven. None of these logs is of a Space or an Endpoint, for which nobody
publishes rates. Three further logs (2 to 38 MB/s) are of private connections and are left out.
Sources, read 2026-11-25: vllm-project/vllm pull request 14063 and issues 12916 and 12917; start logs in public repositories on GitHub.
"""

from __future__ import annotations

from typing import NamedTuple

from lib.laws import Law

COLD_START = Law(
    "t₀ + bytes / fetched per second + bytes / loaded per second",
    "medians of eleven public start logs of vLLM on rented machines (lib/laws/start_up.py), read 2026-11-25",
)
MACHINE_S = 120
"""t₀. An assumption: platforms publish only limits. Olmo-3-1025-7B, whose files took 84 s, was ready after 260 s, with vLLM to install."""
FETCH_BYTES_PER_S = 200_000_000
SLOW_FETCH_BYTES_PER_S = 100_000_000
QUICK_FETCH_BYTES_PER_S = 600_000_000
LOAD_BYTES_PER_S = 1_500_000_000


class ColdStart(NamedTuple):
    """Seconds of a cold start: expected, and both ends of the range."""

    seconds: int
    low_s: int
    high_s: int


def cold_start(file_bytes: int) -> ColdStart:
    """The time from a request that finds a machine asleep to its engine being ready.

    A gigabyte hardly counts; 690 GB take more than an hour.

    >>> cold_start(1_000_000_000), cold_start(690_000_000_000).seconds
    (ColdStart(seconds=126, low_s=122, high_s=131), 4030)
    """
    loaded_s = file_bytes / LOAD_BYTES_PER_S

    def after(bytes_per_s: int) -> int:
        return round(MACHINE_S + file_bytes / bytes_per_s + loaded_s)

    return ColdStart(after(FETCH_BYTES_PER_S), after(QUICK_FETCH_BYTES_PER_S), after(SLOW_FETCH_BYTES_PER_S))
