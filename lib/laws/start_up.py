"""The cold start of a machine that sleeps: its steps, their duration, and how widely it varies.

    t = t₀ + B / f + B / l

    B   bytes of the files that are fetched and loaded      f  bytes per second from the Hub      l  bytes per second into the device
    t₀  seconds until a machine runs the container, plus the start of the engine: compilation, graphs, warm-up

Twelve public start logs of vLLM give f ("Time spent downloading weights") and nine of them l ("Loading weights took"), in MB/s.
The seconds are the log's, so that an exact search on GitHub finds the line:

    model                                     GB    seconds to fetch      f       l    machine
    Qwen3-0.6B                               1.5          708.504603      2     650    not stated
    DeepSeek-R1-Distill-Qwen-1.5B            3.6          508.576789      7    6300    not stated
    Qwen3-30B-A3B-FP8                       31.2          826.331217     38       –    not stated
    granite-3.0-3b-a800m-instruct           6.75                 167     40       –    not stated: vLLM's issue 12916
    Qwen3-14B                               29.5          268.178004    110    2400    AMD Developer Cloud
    Llama-3.1-8B-Instruct                   16.1          120.139347    134    3300    not stated
    Llama-3.2-1B                            2.47           14.584169    169     460    not stated: vLLM's pull request 14063
    Olmo-3-1025-7B                          14.6           67.507208    216     890    Thunder Compute
    Llama-3.1-8B-Instruct                   16.1           55.301468    290    4900    not stated
    Qwen3.5-35B-A3B                         71.9          201.004344    358    9700    Colab
    Qwen3-Coder-30B-A3B-Instruct-FP8        31.2           51.997631    600     770    Vast.ai
    Qwen3-235B-A22B-Instruct-2507-FP8        236          272.079211    870       –    not stated

Source: public start logs; two of them have a known address, the others were found by their seconds. Limits: none of them is of a Space.
GB are the sizes in the log, or where it names none those of the model's files. The median of f is 150 MB/s, or 216 without the three
slowest, which are slow for unknown reasons. The 200 used here is a choice between both, not a fit. The range takes f from
35 to 600 MB/s, which holds nine of the twelve. The median of l is 2.4 GB/s; 1.5 is cautious. None of these logs is of a Space or an
Endpoint, for which no rates are published, so a start time from this law is rough. Read 2026-11-25.
"""

from __future__ import annotations

from typing import NamedTuple

from lib.laws import Law

COLD_START = Law(
    "t₀ + bytes / fetched per second + bytes / loaded per second",
    "rough, from twelve public start logs of vLLM outside Spaces and Endpoints (lib/laws/start_up.py), read 2026-11-25",
)
MACHINE_S = 120
"""t₀. An assumption: platforms publish only limits. Olmo-3-1025-7B, whose files took 84 s, was ready after 260 s, with vLLM to install."""
FETCH_BYTES_PER_S = 200_000_000
"""f. A choice between two medians, not a fit."""
SLOW_FETCH_BYTES_PER_S = 35_000_000
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
    (ColdStart(seconds=126, low_s=122, high_s=149), 4030)
    """
    loaded_s = file_bytes / LOAD_BYTES_PER_S

    def after(bytes_per_s: int) -> int:
        return round(MACHINE_S + file_bytes / bytes_per_s + loaded_s)

    return ColdStart(after(FETCH_BYTES_PER_S), after(QUICK_FETCH_BYTES_PER_S), after(SLOW_FETCH_BYTES_PER_S))
