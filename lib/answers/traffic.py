"""The answers of `/simulate_batching` and `/diagnose_latency`, and the policies side by side that the tab *Traffic* draws."""

from __future__ import annotations

from dataclasses import dataclass

from lib.provenance import Answer, Reasons
from lib.result import Result, Usd
from lib.traffic.latency import EngineEffect, FormatEffect
from lib.traffic.simulation import TrafficResult


@dataclass(frozen=True, slots=True, kw_only=True)
class TierNeedEntry(Result):
    """Replicas of one tier that keep the targets at the 99th percentile."""

    hardware: str
    """Id of the hardware."""
    platform: str
    """Platform that rents it out; empty for silicon that is not rented."""
    name: str
    """Name for people."""
    replicas: int | None
    """Replicas; null if too many would be needed."""
    usd_per_hour: Usd | None
    """Price per hour of all replicas; null if there is none."""
    ttft_p99_s: float | None
    """99th percentile of the time to first token, in seconds."""
    tpot_p99_s: float | None
    """99th percentile of the time per output token, in seconds."""
    usd_per_million_tokens: Usd | None
    """Price of a million output tokens; null if there is none."""
    steady: bool
    """Whether the price is that of a steady part of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityNeedEntry(Result):
    """The hardware that the traffic needs within the targets."""

    max_ttft_s: float
    """Target of the time to first token in seconds; 0 sets none."""
    max_tpot_s: float
    """Target of the time per output token in seconds; 0 sets none."""
    replicas: int | None
    """Replicas of the stated hardware; null if too many would be needed."""
    tiers: tuple[TierNeedEntry, ...]
    """Each tier of the platform, the cheapest first."""
    left_out: tuple[str, ...]
    """Tiers that were not tried, because the search is bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingAnswer(TrafficResult, Answer):
    """One simulation."""

    model: str
    """Id of the model; empty without one."""
    hardware: str
    """Id of the hardware."""
    policy: str
    """static, dynamic or continuous batching."""
    precision: str
    """Number format of the weights."""
    engine: str
    """Inference engine."""
    arrivals: str
    """How requests arrive: poisson, bursty, recorded or closed."""
    replicas: int
    """Engines; hardware that holds the model several times runs several of them."""
    max_batch_size: int
    """Sequences that an engine runs at a time, at most."""
    most_requests_per_s: float
    """Requests per second that all replicas serve at most, by the laws."""
    capacity: CapacityNeedEntry | None
    """Replicas and tiers that keep the targets; null if not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEntry(TrafficResult):
    """One policy at one load."""

    policy: str
    """static, dynamic or continuous batching."""
    asked_requests_per_s: float
    """Requests that arrive per second."""
    steady: bool
    """Whether rates and price are those of a steady part of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadsAnswer(Answer):
    """The policies side by side along the load."""

    model: str
    """Id of the model; empty without one."""
    hardware: str
    """Id of the hardware."""
    name: str
    """Name for people."""
    platform: str
    """Platform that rents it out; empty for silicon that is not rented."""
    precision: str
    """Number format of the weights."""
    engine: str
    """Inference engine."""
    usd_per_hour: Usd | None
    """Price per hour; null if there is none."""
    most_requests_per_s: float
    """Requests per second that all replicas serve at most, by the laws."""
    lone_request_s: float
    """Seconds of a request that is alone on the hardware."""
    points: tuple[LoadEntry, ...]
    """The points that were simulated."""
    done: int
    """Number of simulated points."""
    total: int
    """Number of points when all are simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPartEntry(Result):
    """A part of a request's time."""

    name: str
    """preprocess, transfer, queue, prefill, decode or postprocess."""
    measured_ms: float
    """Measured time; 0 if not measured."""
    expected_ms: float | None
    """Time that the laws expect; null without a law."""
    low_ms: float | None
    """Lower end of the expected range."""
    high_ms: float | None
    """Upper end of the expected range."""
    share: float | None
    """Share of the measured total; null if nothing was measured."""
    verdict: str
    """as_expected, slower, faster, no_law or not_measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionEntry(FormatEffect):
    """The effect of smaller weights or activations on a step, on the prompt, and on memory."""

    message: str
    """The effect as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyAnswer(Answer):
    """The parts of a request's time."""

    model: str
    """Id of the model; empty without one."""
    hardware: str
    """Id of the hardware."""
    precision: str
    """Number format of the weights."""
    engine: str
    """Inference engine."""
    prompt_tokens: int
    """Tokens of a prompt."""
    output_tokens: int
    """Tokens of an answer."""
    concurrency: int
    """Requests at a time."""
    parts: tuple[LatencyPartEntry, ...]
    """The parts in the order of a request."""
    total_ms: float
    """Sum of the measured parts."""
    dominant: str | None
    """The longest measured part; null if nothing was measured."""
    bound: str
    """The limit of a step: bandwidth, compute or overhead."""
    ridge_batch: int | None
    """Batch from which arithmetic takes longer than reading weights; null if none."""
    read_from: str
    """Source of the measured times: vLLM, TGI, a benchmark, or empty."""
    reasons: Reasons
    """Why the time goes there."""
    next_steps: Reasons
    """Next steps."""
    precisions: tuple[PrecisionEntry, ...]
    """The effect of each smaller format."""
    engines: tuple[EngineEffect, ...]
    """The same request with the other engines that run the model on this hardware."""
