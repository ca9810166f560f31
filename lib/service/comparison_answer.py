"""The answer of before and after as plain JSON."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from typing_extensions import TypedDict

from lib.answers.common import CaveatEntry
from lib.catalog.offers import Offer
from lib.cost.compare import Comparison, Configuration, Side, Verdict
from lib.cost.usage import Usage
from lib.provenance import Caveat
from lib.service.wire import caveat_entries, usd
from lib.speed import SpeedEstimate, SpeedRequest

HORIZON_MONTHS = 12


class SideEntry(TypedDict):
    """A side of the answer; `low` and `high` are the range of an estimated rate, `None` for a measured one."""

    name: str
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
    usd_per_month: float


class ComparisonAnswer(TypedDict):
    """Both sides, what the change saves and is worth, the verdict and its arithmetic."""

    before: SideEntry
    after: SideEntry
    tokens_per_s: float
    hours_per_month: float
    effort_usd: float
    horizon_months: int
    saved_usd_per_month: float
    worth_usd: float
    payback_months: float | None
    speedup: float
    latency_ratio: float | None
    verdict: Verdict
    arithmetic: list[str]
    caveats: list[CaveatEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The traffic: its rate of arrival and of answer tokens while it runs, and the hours it runs."""

    usage: Usage
    requests_per_s: Decimal
    tokens_per_s: Decimal
    hours_per_month: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A side with everything that is known of it."""

    offer: Offer
    request: SpeedRequest
    configuration: Configuration
    found: SpeedEstimate | None
    timed: bool


def comparison_answer(found: Comparison, old: Known, new: Known, load: Load, effort: Decimal) -> ComparisonAnswer:
    """A comparison as plain JSON."""
    caveats: list[Caveat] = [caveat for one in (old, new) if one.found is not None for caveat in one.found.caveats]
    return {
        "before": _entry(found.before, old),
        "after": _entry(found.after, new),
        "tokens_per_s": float(load.tokens_per_s),
        "hours_per_month": float(load.hours_per_month),
        "effort_usd": float(effort),
        "horizon_months": HORIZON_MONTHS,
        "saved_usd_per_month": float(found.saved_usd_per_month),
        "worth_usd": float(found.worth_usd),
        "payback_months": usd(found.payback_months),
        "speedup": float(found.speedup),
        "latency_ratio": usd(found.latency_ratio),
        "verdict": found.verdict,
        "arithmetic": list(found.arithmetic),
        "caveats": caveat_entries(caveats),
    }


def _entry(of: Side, known: Known) -> SideEntry:
    own, band = of.configuration, None if known.found is None else known.found.throughput_tokens_per_s
    return {
        "name": known.offer.name,
        "hardware": f"{known.offer.platform}:{known.offer.id}",
        "runs_as": f"{known.request.precision if known.found is None else known.found.precision} with {known.request.engine}, "
        f"{known.request.concurrency:,} at once",
        "measured": known.found is None,
        "measured_latency": known.timed,
        "device": "chip" if known.offer.platform == "tpu" else "GPU",
        "devices": own.devices,
        "usd_per_hour": float(own.usd_per_hour),
        "tokens_per_s": float(own.tokens_per_s),
        "low": None if band is None else band.low,
        "high": None if band is None else band.high,
        "gpu_hours_per_million_tokens": float(of.gpu_hours_per_million_tokens),
        "latency_p50_s": usd(own.latency_p50_s),
        "latency_p99_s": usd(own.latency_p99_s),
        "replicas": of.replicas,
        "utilisation": float(of.utilisation),
        "used_usd_per_hour": float(of.utilisation * of.replicas * own.usd_per_hour),
        "usd_per_million_tokens_full": float(of.usd_per_million_tokens_full),
        "usd_per_million_tokens": usd(of.usd_per_million_tokens),
        "usd_per_month": float(of.usd_per_month),
    }
