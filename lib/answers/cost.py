"""The shapes of the answers of `/estimate_cost`, `/compare` and `/ways_to_save`, and of the outlook that the tab *Cost* shows.

See `lib.answers.common` for what holds for all answers.
"""

from __future__ import annotations

from typing_extensions import TypedDict

from lib.answers.common import Answer, PriceEntry, ReasonEntry
from lib.cost.compare import ComparisonVerdict


class CostPartEntry(TypedDict):
    """One line of the bill: the law that gave it, what went in, and where the price comes from."""

    name: str
    kind: str
    usd_per_month: float
    law: str
    inputs: dict[str, str]
    source: str


class CrossingEntry(TypedDict):
    """Up to this many requests a day the way `below` costs less, beyond `above`; null: `below` always does.

    `best_utilisation` is the share of the hardware that this traffic takes at `best_concurrency` requests at a time, its best load.
    """

    below: str
    above: str
    requests_per_day: float | None
    tokens_per_month: float | None
    usd_per_month: float | None
    within_capacity: bool | None
    best_concurrency: int | None
    best_utilisation: float | None
    message: str
    law: str


class ZeroGpuEntry(TypedDict):
    """What the visitors spend of their own daily quota; money is what a visitor pays beyond it, null where the account cannot."""

    size: str
    seconds: float
    quota_s_per_request: float
    daily_quota_s: int
    requests_in_quota: int
    visitors: int
    usd_per_request_beyond: float | None
    usd_per_month_alone: float | None


class TokenPriceEntry(TypedDict):
    """A provider's price per million tokens, and the month at the stated traffic less the account's credits."""

    provider: str
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    usd_per_request: float
    total_usd_per_month: float


class PerTokenEntry(TypedDict):
    """Who serves the model per token today (`live`, `none`, or `unknown` when nobody could say), cheapest answer first."""

    status: str
    providers: list[str]
    prices: list[TokenPriceEntry]


class CapacityEntry(TypedDict):
    """What the stated replicas serve in a day, how many replicas the stated traffic needs, and what those cost."""

    requests_per_day: float
    replicas_needed: int
    total_usd_per_month: float


class BestLoadEntry(TypedDict):
    """The requests at a time that make a token cheapest while the first token comes within `max_ttft_s`."""

    concurrency: int
    max_ttft_s: float
    max_inter_token_s: float
    ttft_s: float
    inter_token_s: float
    throughput_tokens_per_s: float
    usd_per_million_output_tokens: float


class CostAnswer(Answer):
    """The bill of one offer at one use: `total_usd_per_month` is that of the stated replicas in the stated hours.

    `left_running_usd_per_month` is the bill if nobody stops it outside its hours, null where that costs nothing more. Prices per million
    tokens are those of full use, at the stated concurrency, one at a time, and (`best_load`) at the best.
    """

    hardware: str
    platform: str
    model: str
    usd_per_hour: float
    billed_hours_per_month: float
    compute_usd_per_month: float
    storage_usd_per_month: float
    total_usd_per_month: float
    usd_per_request: float | None
    usd_per_million_output_tokens: float | None
    usd_per_million_output_tokens_one_at_a_time: float | None
    usd_per_million_input_tokens: float | None
    usd_per_million_output_tokens_at_traffic: float | None
    usd_per_picture: float | None
    usd_per_audio_hour: float | None
    left_running_usd_per_month: float | None
    concurrency: int
    capacity: CapacityEntry | None
    best_load: BestLoadEntry | None
    utilisation: float | None
    wakes_per_day: float | None
    payer: str
    parts: list[CostPartEntry]
    break_even: list[CrossingEntry]
    zerogpu: ZeroGpuEntry | None
    per_token: PerTokenEntry
    prices: PriceEntry


class LineEntry(TypedDict):
    """One way to run it: its month at the stated use, and its bills along the axis (null where it cannot carry the traffic).

    `full_at` is the requests a day that the hardware serves one at a time, null where that is not known.
    """

    kind: str
    label: str
    hardware: str
    platform: str
    name: str
    runs_as: str
    usd_per_hour: float | None
    billed_hours_per_month: float | None
    compute_usd_per_month: float | None
    storage_usd_per_month: float
    total_usd_per_month: float | None
    usd_per_request: float | None
    full_at: float | None
    usd: list[float | None]


class ChangeEntry(TypedDict):
    """From here on the axis another way is the cheapest."""

    at: float
    usd_per_month: float
    before: str
    after: str
    message: str


class WayEntry(TypedDict):
    """One way to save: what it saves of `usd_per_month` today, what it gives up, and the settings that it changes (`needs`).

    `slower` is null where nothing is known of the speed.
    """

    code: str
    message: str
    saves_usd_per_month: float
    usd_per_month: float
    slower: bool | None
    effect: str
    needs: dict[str, str | int | float]


class NoWayEntry(TypedDict):
    """A way that saves nothing here, and why."""

    code: str
    message: str
    reason_code: str
    reason: str


class WaysToSaveAnswer(Answer):
    """Ways to save of one deployment, the most first: each instead of today, so their savings do not add up."""

    model: str
    hardware: str
    platform: str
    usd_per_month: float
    ways: list[WayEntry]
    no_ways: list[NoWayEntry]


class OutlookAnswer(Answer):
    """The bill of one piece of hardware, what else would cost how much, and where to save."""

    model: str
    hardware: str
    platform: str
    name: str
    chosen: str
    bill: CostAnswer
    axis: str
    stated: float
    x: list[float]
    lines: list[LineEntry]
    changes: list[ChangeEntry]
    savings: list[WayEntry]
    no_savings: list[NoWayEntry]
    prices: PriceEntry


class SideEntry(TypedDict):
    """A side of the answer; `low` and `high` are the range of an estimated rate, `None` for a measured one; `model` is "" there.

    Prices are those at the stated traffic, `…_full` those of a replica that is busy all the time.
    """

    name: str
    model: str
    hardware: str
    runs_as: str
    measured: bool
    measured_latency: bool
    device: str
    devices: int
    usd_per_hour: float
    tokens_per_s: float
    low: float | None
    high: float | None
    gpu_hours_per_million_tokens: float
    latency_p50_s: float | None
    latency_p99_s: float | None
    replicas: int
    utilisation: float
    used_usd_per_hour: float
    usd_per_million_tokens_full: float
    usd_per_million_tokens: float | None
    usd_per_request_full: float
    usd_per_request: float | None
    usd_per_month: float


class BeforeAfter(TypedDict):
    """One figure of both sides."""

    before: float | None
    after: float | None


class ComparisonAnswer(Answer):
    """Both sides, what the change saves and is worth, the verdict with its reasons and its arithmetic.

    `usd_per_million_output_tokens` and `usd_per_request` are those at the stated traffic.
    """

    before: SideEntry
    after: SideEntry
    tokens_per_s: float
    hours_per_month: float
    effort_usd: float
    horizon_months: int
    saved_usd_per_month: float
    worth_usd: float
    payback_months: float | None
    usd_per_million_output_tokens: BeforeAfter
    usd_per_request: BeforeAfter
    speed_ratio: float
    latency_ratio: float | None
    verdict: ComparisonVerdict
    reasons: list[ReasonEntry]
    arithmetic: list[str]
