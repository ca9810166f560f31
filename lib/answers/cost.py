"""The answers of `/estimate_cost` and `/ways_to_save`, and the outlook of the tab *Cost*."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lib.catalog import PriceState
from lib.cost.bill import CostEstimate
from lib.cost.break_even import Axis, BreakEvenPoint, Kind
from lib.cost.usage import BestLoad
from lib.provenance import Answer
from lib.result import Exact, Hidden, Result, Usd


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBill(Result):
    """Price of a provider per million tokens, and the month at the stated traffic."""

    provider: str
    """Name of the provider."""
    usd_per_million_input_tokens: Usd
    """Price of a million prompt tokens."""
    usd_per_million_output_tokens: Usd
    """Price of a million output tokens."""
    usd_per_request: Usd
    """Price of a request."""
    total_usd_per_month: Usd
    """Bill of the month, less the account's credits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerToken(Result):
    """Providers that serve the model per token today."""

    status: Literal["live", "none", "unknown"]
    """Whether a provider serves it; `unknown` where the router did not answer."""
    providers: tuple[str, ...]
    """Names of the providers."""
    prices: tuple[TokenBill, ...]
    """Known prices, cheapest answer first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAnswer(CostEstimate):
    """The bill of one offer at one use, its break-even points, and prices per token elsewhere."""

    model: str
    """Id of the model."""
    devices: int | None
    """Devices that share one copy of the model; null without a model."""
    per_device_bytes: int | None
    """Memory of the fullest device with the requests at full length; null without a model."""
    fits: bool | None
    """Whether that fits; null without a model, or where the memory of the hardware is not known."""
    usd_per_million_output_tokens_one_at_a_time: Usd | None
    """Price of a million output tokens at full use with one request at a time."""
    usd_per_picture: float | None
    """Price of a picture or clip at full use."""
    usd_per_audio_hour: float | None
    """Price of an hour of sound at full use."""
    concurrency: int
    """Requests that each replica serves at the same time."""
    best_load: BestLoad | None
    """The concurrency that makes a token cheapest; null if none stays within the targets."""
    break_even: tuple[BreakEvenPoint, ...]
    """Traffic at which another way costs the same."""
    per_token: PerToken
    """Providers that serve the model per token."""
    prices: PriceState
    """Prices in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayLine(Result):
    """One way to run a model: its month at the stated use, and its bills along the axis."""

    kind: Kind
    """Kind of way: running, sleeping, zerogpu or per_token."""
    label: str
    """Name of the way."""
    use: Hidden[str]
    """How it is used, in words: always on, sleeping; "" per token."""
    hardware: str
    """Id of the offer; "" per token."""
    platform: str
    """Platform of the offer; "providers" per token."""
    name: str
    """Name of the offer, or of the provider."""
    runs_as: str
    """Precision and engine in words."""
    usd_per_hour: Usd | None
    """Price of a replica; null if nothing is rented by the hour."""
    billed_hours_per_month: Exact | None
    """Billed hours at the stated use, counting each replica."""
    compute_usd_per_month: Usd | None
    """Bill without storage at the stated use."""
    storage_usd_per_month: Usd
    """Bill of storage."""
    total_usd_per_month: Usd | None
    """Bill at the stated use; null if this way cannot carry the traffic."""
    usd_per_request: Usd | None
    """Compute per request at the stated use."""
    full_at: Exact | None
    """Requests a day that the hardware serves; null if that is not known."""
    usd: tuple[Usd | None, ...]
    """Bill at each point of the axis; null if this way cannot carry the traffic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestChange(Result):
    """The point on the axis from which another way is the cheapest."""

    at: Exact
    """Requests or hours a day."""
    usd_per_month: Usd
    """Bill there."""
    before: str
    """Label of the cheapest way up to there."""
    after: str
    """Label of the cheapest way from there on."""
    message: str
    """The same in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingWay(Result):
    """One way to save, instead of today's setup."""

    code: str
    """A stable code."""
    message: str
    """The step."""
    saves_usd_per_month: Usd
    """Saving."""
    usd_per_month: Usd
    """Bill then."""
    slower: bool | None
    """Whether requests get slower; null if the speed is not known."""
    effect: str
    """Cost in quality and speed."""
    needs: Mapping[str, str | int | float]
    """Settings that change, by the names of the API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UselessWay(Result):
    """One way that saves nothing here."""

    code: str
    """A stable code of the way."""
    message: str
    """Name of the way."""
    reason_code: str
    """A stable code of the reason."""
    reason: str
    """Why it saves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysToSave(Answer):
    """Ways to save of one setup, each instead of today's, so savings do not add up."""

    model: str
    """Id of the model."""
    hardware: str
    """Id of the offer."""
    platform: str
    """Platform of the offer."""
    usd_per_month: Usd
    """Bill today."""
    ways: tuple[SavingWay, ...]
    """Ways that save, the most first."""
    no_ways: tuple[UselessWay, ...]
    """Ways that save nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookAnswer(Answer):
    """The bill of one piece of hardware, the bills of other ways, and ways to save."""

    model: str
    """Id of the model."""
    hardware: str
    """Id of the offer."""
    platform: str
    """Platform of the offer."""
    name: str
    """Name of the offer."""
    chosen: str
    """`recommended`, "" for hardware that was named and qualifies, else why it does not qualify."""
    bill: CostAnswer
    """Bill of the hardware."""
    axis: Axis
    """Unit of `x`: requests or hours a day."""
    stated: Exact
    """The stated use on this axis."""
    x: tuple[Exact, ...]
    """Points of the axis."""
    lines: tuple[WayLine, ...]
    """Each way with its bills; the first is the hardware's own."""
    changes: tuple[CheapestChange, ...]
    """Points from which another way is cheaper."""
    savings: tuple[SavingWay, ...]
    """Ways that save, the most first."""
    no_savings: tuple[UselessWay, ...]
    """Ways that save nothing."""
    prices: PriceState
    """Prices in use."""
