"""The shapes of `/simulate_batching`, `/diagnose_latency`, and of the policies side by side that the tab *Traffic* draws."""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.answers.common import Answer, ReasonEntry


class TrafficFigures(TypedDict):
    """What a simulation came to; times in seconds.

    TPOT is null where no answer has two tokens, `usd_per_million_tokens` (output tokens) where the hardware has no price, goodput (requests
    per second within the stated targets) and `on_target` (their share) where no target is stated. `backlog` counts requests that nobody had
    begun when the last one arrived; `queue_mean` and `wait_*` are those of requests before their first step. `requests_per_s`,
    `throughput_tokens_per_s`, `queue_mean`, goodput and the price are those of the steady part of the run: from when the replicas are as
    full as they stay to the last arrival, `counted_from_s` to `counted_until_s`. Where there is no such part these run from 0 to the last
    answer, and a caveat says so.
    """

    requests: int
    completed: int
    refused: int
    counted_from_s: float
    counted_until_s: float
    requests_per_s: float
    throughput_tokens_per_s: float
    utilisation: float
    queue_mean: float
    queue_longest: int
    backlog: int
    wait_p50_s: float
    wait_p99_s: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p95_s: float
    ttft_p99_s: float
    tpot_mean_s: float | None
    tpot_p50_s: float | None
    tpot_p95_s: float | None
    tpot_p99_s: float | None
    latency_mean_s: float
    latency_p50_s: float
    latency_p95_s: float
    latency_p99_s: float
    goodput_per_s: float | None
    on_target: float | None
    preemptions: int
    cold_starts: int
    cache_peak_bytes: int
    cache_bytes: int
    usd_per_million_tokens: float | None


class TierNeedEntry(TypedDict):
    """Replicas of one tier that keep the targets at the 99th percentile; null where too many would be needed.

    `steady` says whether the price is that of a steady part of the run.
    """

    hardware: str
    platform: str
    name: str
    replicas: int | None
    usd_per_hour: float | None
    ttft_p99_s: float | None
    tpot_p99_s: float | None
    usd_per_million_tokens: float | None
    steady: bool


class CapacityNeedEntry(TypedDict):
    """What the traffic needs within the targets: replicas of the stated hardware, and each tier of its platform, cheapest first.

    `left_out` are tiers that were not tried, because the search is bounded.
    """

    max_ttft_s: float
    max_tpot_s: float
    replicas: int | None
    tiers: list[TierNeedEntry]
    left_out: list[str]


class BatchingAnswer(Answer, TrafficFigures):
    """One simulation. `replicas` counts engines: hardware that holds the model several times runs several of them.

    `most_requests_per_s` is what all of them serve at most by the laws, `span_s` runs to the last answer, `billed_s` are the seconds of all
    replicas in it, `events` are steps and runs of steps.
    """

    model: str
    hardware: str
    policy: str
    precision: str
    engine: str
    arrivals: str
    replicas: int
    max_batch_size: int
    span_s: float
    billed_s: float
    most_requests_per_s: float
    events: int
    capacity: CapacityNeedEntry | None


class LoadEntry(TrafficFigures):
    """One policy at one load; `steady` says whether rates and price are those of a steady part of its run."""

    policy: str
    asked_requests_per_s: float
    steady: bool


class LoadsAnswer(Answer):
    """The policies side by side along the load; `done` of `total` points are there, the rest is still simulated."""

    model: str
    hardware: str
    name: str
    platform: str
    precision: str
    engine: str
    usd_per_hour: float | None
    most_requests_per_s: float
    lone_request_s: float
    points: list[LoadEntry]
    done: int
    total: int


class LatencyPartEntry(TypedDict):
    """A part of a request's time: measured (0: not measured) and as the laws expect it here (null: no law)."""

    name: str
    measured_ms: float
    expected_ms: float | None
    low_ms: float | None
    high_ms: float | None
    share: float | None
    verdict: str


class PrecisionEntry(TypedDict):
    """What smaller weights or activations do here: to a step, to the prompt, and to memory."""

    precision: str
    tpot_ms: float
    ttft_ms: float
    weights_bytes: int
    effect: str
    message: str


class LatencyAnswer(Answer):
    """Where the time goes; `ridge_batch` is the batch from which arithmetic takes longer than reading weights (null: never)."""

    model: str
    hardware: str
    precision: str
    engine: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    parts: list[LatencyPartEntry]
    total_ms: float
    dominant: str | None
    bound: str
    ridge_batch: int | None
    read_from: str
    reasons: list[ReasonEntry]
    next_steps: list[ReasonEntry]
    precisions: list[PrecisionEntry]
