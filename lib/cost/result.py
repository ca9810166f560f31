"""What a cost estimate is: parts that add up to the total, prices per request and token, who pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from lib.provenance import Caveat, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPart:
    """One line of the bill: USD per month, the law that gave them, what went in, where the price comes from.

    `kind` is "compute", "storage", "tokens" or "credit"; a credit is negative.
    """

    name: str
    kind: Literal["compute", "storage", "tokens", "credit"]
    usd_per_month: Decimal
    law: str
    inputs: Mapping[str, str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGpuUse:
    """What the visitors of a ZeroGPU Space spend of their quota.

    `requests_in_quota` is how many requests a day one visitor of this account makes without paying, `visitors` the fewest who together
    make the day's requests so (0 when a single request exceeds the quota). `usd_per_request_beyond` is what such a visitor pays for each
    further request, `None` where the account cannot; `usd_per_month_alone` what one visitor who makes all of them pays.
    """

    size: str
    seconds: Decimal
    quota_s_per_request: Decimal
    daily_quota_s: int
    requests_in_quota: int
    visitors: int
    usd_per_request_beyond: Decimal | None
    usd_per_month_alone: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Requests a day that the stated replicas serve, and how many replicas the stated traffic needs (at least the stated ones)."""

    requests_per_day: Decimal
    replicas_needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BestLoad:
    """The number of requests at a time that makes a token cheapest while the targets are kept."""

    concurrency: int
    ttft_s: float
    tpot_s: float
    tokens_per_s: float
    request_s: float
    usd_per_million_output_tokens: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """What one way of running or buying costs.

    `total_usd_per_month` = `compute_usd_per_month` + `storage_usd_per_month` = the sum of `parts`: the stated replicas in the stated hours.
    `serving_usd_per_month` is the same with as many replicas as the traffic needs, `left_running_usd_per_month` with the stated ones if
    nobody stops them outside their hours (`None` where that costs nothing more). `billed_hours_per_month` counts each replica.
    `usd_per_request` and the `…_at_traffic` figure divide the compute that serves the stated traffic by it; without stated traffic
    `usd_per_request` is the share of an hour that a request takes at full use. The prices per million tokens are those of full use.
    `payer` is who gets the bill for compute: the owner, or (ZeroGPU) each visitor with quota and credits. `utilisation` is the share of
    the billed time in which requests are served.
    """

    hardware: str
    platform: str
    usd_per_hour: Decimal
    billed_hours_per_month: Decimal
    compute_usd_per_month: Decimal
    storage_usd_per_month: Decimal
    total_usd_per_month: Decimal
    usd_per_request: Decimal | None
    usd_per_million_output_tokens: Decimal | None
    usd_per_million_input_tokens: Decimal | None
    usd_per_million_output_tokens_at_traffic: Decimal | None
    utilisation: Decimal | None
    wakes_per_day: Decimal | None
    payer: Literal["owner", "visitor"]
    capacity: Capacity | None = None
    serving_usd_per_month: Decimal
    left_running_usd_per_month: Decimal | None = None
    zerogpu: ZeroGpuUse | None = None
    parts: tuple[CostPart, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    sources: tuple[Source, ...] = field(default_factory=tuple)


def sum_parts(parts: tuple[CostPart, ...], *kinds: str) -> Decimal:
    """USD per month of the parts of these kinds; of all when none is named."""
    return sum((part.usd_per_month for part in parts if not kinds or part.kind in kinds), Decimal(0))
