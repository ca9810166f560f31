"""What the advisor answers. Its reasons are codes with values (`lib.provenance`); `lib.present.sentences` words them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from lib.catalog.offers import Offer
from lib.memory import MemoryEstimate
from lib.provenance import Caveat, Reason, Source
from lib.speed import SpeedEstimate
from lib.workload import Engine, Workload

Verdict = Literal["comfortable", "tight"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The prediction, and what the datasheet allows at best; `None` where the work of a request is not known.

    `decode_tokens_per_s_upper_bound` is per request, at the asked concurrency, and bounded from above: no engine can be faster on this
    hardware. `request_s_lower_bound` is one request of the stated shape. `basis` says what the figures rest on: "prediction", or where
    there is none what the bounds come from.
    """

    decode_tokens_per_s_upper_bound: float | None
    request_s_lower_bound: float | None
    peak_flops_per_s: float | None
    basis: str
    predicted: SpeedEstimate | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of one request: predicted, else the upper bound."""
        rate = None if self.predicted is None else self.predicted.decode_tokens_per_s
        return self.decode_tokens_per_s_upper_bound if rate is None else rate.value

    @property
    def request_s(self) -> float | None:
        """Seconds of one request: predicted, else the lower bound."""
        return self.request_s_lower_bound if self.predicted is None else self.predicted.request_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Price per hour, and per month of `days_per_month` days of `hours_per_day` hours; per request and token where the speed is known.

    `usd_per_request` divides the month by its requests (without stated traffic: the share of an hour that a request takes), the price of
    a million tokens is that of full use.
    """

    usd_per_hour: Decimal
    usd_per_month: Decimal
    hours_per_day: Decimal
    days_per_month: int
    usd_per_million_output_tokens: Decimal | None = None
    usd_per_request: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An offer that does it, and the configuration it does it in.

    `step` says how far the weights are compressed below what was asked: 0 not at all, 1 to eight bits, 2 to four. `memory` is
    `None` when nothing runs on the hardware itself. `free_share` is the share of the fullest device's memory that stays free.
    `pareto` is true when no other entry is both at least as cheap and at least as fast, and better in one of the two.
    """

    offer: Offer
    precision: str
    engine: Engine | Literal["provider"]
    devices: int
    step: int
    memory: MemoryEstimate | None
    capacity_bytes: int | None
    free_bytes: int | None
    speed: Speed
    cost: Cost
    verdict: Verdict
    reasons: tuple[Reason, ...]
    pareto: bool = False

    @property
    def free_share(self) -> float:
        """Free memory over capacity, 1 when nothing is held."""
        return 1.0 if self.capacity_bytes is None or self.free_bytes is None else self.free_bytes / self.capacity_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """An offer that does not do it, and why: the first thing that stands in the way."""

    offer: Offer
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderOption:
    """Paying per token instead of renting hardware.

    `available` is `None` when nobody asked the Hub: then the sentence says that it has to be looked up.
    """

    suits: bool
    available: bool | None
    providers: tuple[str, ...]
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The answer: a pick (or none), every offer that does it in order, every one that does not, and the way without hardware.

    Each listed offer of the asked platforms stands in exactly one of `ranked` and `rejected`; `pick` is the first of `ranked`.
    `notes` are reasons about the whole answer, `task` the Hub task that was judged, `family` how it was judged.
    """

    pick: Entry | None
    ranked: tuple[Entry, ...]
    rejected: tuple[Rejection, ...]
    provider: ProviderOption
    workload: Workload
    task: str
    family: str
    notes: tuple[Reason, ...]
    caveats: tuple[Caveat, ...]
    sources: tuple[Source, ...]
