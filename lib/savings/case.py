"""What is run today, and what a way to save is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from lib.catalog import Catalog
from lib.cost import Pace, TokenPrice, Usage
from lib.model.spec import ModelSpec
from lib.offer import Offer
from lib.workload import MemoryRequest

Gain = Literal["compute", "bandwidth", "memory_only"]
Code = Literal[
    "provider", "zerogpu", "cheaper_tier", "l4_over_a10g", "fp8", "int8", "int4", "shorter_context", "smaller_batch", "cache_precision",
    "sleep", "development_tier",
]  # fmt: skip
Speed = Callable[[ModelSpec, Offer, MemoryRequest, Usage], Pace | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The visitor's case: this model, so configured, on this offer, so used.

    `price` is what a provider asks per token, where known; `speed` estimates how fast an offer runs the model.
    `development_hours_per_month` is how long one works on the Space rather than serves from it; 40, a working week, is an assumption.
    """

    spec: ModelSpec
    offer: Offer
    request: MemoryRequest
    usage: Usage
    catalog: Catalog
    price: TokenPrice | None = None
    speed: Speed | None = None
    development_hours_per_month: Decimal = Decimal(40)

    def paced(self, offer: Offer, request: MemoryRequest) -> Pace | None:
        """How fast an offer runs it; `None` where nobody can tell."""
        return None if self.speed is None else self.speed(self.spec, offer, request, self.usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to save. `offer` and `request` are the configuration afterwards (`None` for a provider).

    `gain` says what a smaller number format does for speed: `compute` (the card multiplies it natively, and this work is bound by
    compute), `bandwidth` (bound by memory traffic, and the engine reads the packed weights), or `memory_only`. `speed_ratio` compares the
    tokens per second that the datasheets allow at most, after / before; `None` where no tokens are made.
    """

    code: Code
    usd_per_month_before: Decimal
    usd_per_month: Decimal
    offer: Offer | None = None
    request: MemoryRequest | None = None
    gain: Gain | None = None
    native: bool | None = None
    speed_ratio: float | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def saves_usd_per_month(self) -> Decimal:
        """What it saves each month."""
        return self.usd_per_month_before - self.usd_per_month


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWay:
    """A way that saves nothing here, and why: a stable code, with the configuration that was tried where there is one."""

    code: Code
    reason: str
    gain: Gain | None = None
    freed_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """Ways by what they save, most first, and those that save nothing. They are alternatives: their savings do not add up."""

    usd_per_month: Decimal
    ways: tuple[Way, ...]
    others: tuple[NoWay, ...]
