"""Before and after: two configurations side by side, and whether the difference is worth the work.

GPU-hours, prices per token, replicas and rent are `lib.laws.price`; the price at a utilisation ρ is that at full use / ρ. Latencies are
measured percentiles, or the time of a request plus the wait for a free slot (`lib.laws.serving`). Optimising pays when the bill it saves
over the horizon exceeds what the work costs; otherwise another replica of what exists is the cheaper step.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from lib.cost.usage import to_decimal
from lib.laws.price import FULL_UTILISATION, answer_price, gpu_hours_per_million_tokens, rent, replicas_needed
from lib.laws.serving import wait_seconds
from lib.provenance import Reason, Value
from lib.speed import SpeedEstimate

CENT = Decimal("0.005")
"""Savings below half a cent are shown as none."""

ComparisonVerdict = Literal["optimise", "scale_out", "fill_first", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedConfiguration:
    """One way to run it, per replica. Latencies are those of whole requests in seconds; `None` where they are not known."""

    name: str
    usd_per_hour: Decimal
    devices: int
    tokens_per_s: Decimal
    latency_p50_s: Decimal | None = None
    latency_p99_s: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A configuration under the load: GPU-hours and USD per million answer tokens, replicas, utilisation and bill."""

    configuration: PricedConfiguration
    gpu_hours_per_million_tokens: Decimal
    usd_per_million_tokens_full: Decimal
    usd_per_million_tokens: Decimal | None
    replicas: int
    utilisation: Decimal
    usd_per_month: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides under the same load of `tokens_per_s` over `hours_per_month`, and the verdict.

    `saved_usd_per_month` is negative when the second side costs more. `worth_usd` is what the work may cost over the horizon, and
    `payback_months` how long a stated effort takes to pay for itself (`None`: never, or no effort stated). `latency_ratio` is
    after / before at the 99th percentile.
    """

    before: Side
    after: Side
    saved_usd_per_month: Decimal
    worth_usd: Decimal
    payback_months: Decimal | None
    speed_ratio: Decimal
    latency_ratio: Decimal | None
    verdict: ComparisonVerdict
    tokens_per_s: Decimal
    hours_per_month: Decimal
    effort_usd: Decimal
    horizon_months: int


def configure_from_speed(
    name: str, speed: SpeedEstimate, *, usd_per_hour: Decimal, devices: int, output_tokens: int, concurrency: int, requests_per_s: float
) -> PricedConfiguration | None:
    """A configuration from a speed estimate: a request takes its own time and the wait for one of `concurrency` slots.

    `None` where the model generates no tokens. Percentiles are `None` when the slots are all taken all of the time.
    """
    if speed.tpot_s is None or speed.output_tokens_per_s is None:
        return None
    alone = speed.ttft_s.value + speed.tpot_s.value * max(0, output_tokens - 1)
    waits = [wait_seconds(slots=concurrency, load=requests_per_s * alone, request_s=alone, percentile=share) for share in (0.5, 0.99)]
    p50, p99 = (None if wait is None else to_decimal(alone + wait) for wait in waits)
    return PricedConfiguration(
        name=name,
        usd_per_hour=usd_per_hour,
        devices=devices,
        tokens_per_s=to_decimal(speed.output_tokens_per_s.value),
        latency_p50_s=p50,
        latency_p99_s=p99,
    )


def apply_load(configuration: PricedConfiguration, tokens_per_s: Decimal, hours_per_month: Decimal) -> Side:
    """What a configuration costs under a load of output tokens per second."""
    replicas = replicas_needed(tokens_per_s=tokens_per_s, replica_tokens_per_s=configuration.tokens_per_s, utilisation=FULL_UTILISATION)
    used = tokens_per_s / (replicas * configuration.tokens_per_s)
    full = answer_price(usd_per_hour=configuration.usd_per_hour, tokens_per_s=configuration.tokens_per_s)
    return Side(
        configuration=configuration,
        gpu_hours_per_million_tokens=gpu_hours_per_million_tokens(devices=configuration.devices, tokens_per_s=configuration.tokens_per_s),
        usd_per_million_tokens_full=full,
        usd_per_million_tokens=full / used if used > 0 else None,
        replicas=replicas,
        utilisation=used,
        usd_per_month=rent(usd_per_hour=configuration.usd_per_hour, hours=hours_per_month, replicas=replicas),
    )


def compare(
    before: PricedConfiguration,
    after: PricedConfiguration,
    *,
    tokens_per_s: Decimal,
    hours_per_month: Decimal = Decimal(720),
    effort_usd: Decimal = Decimal(0),
    horizon_months: int = 12,
) -> Comparison:
    """Both under the same load of output tokens per second; `effort_usd` is what the change costs once, 0 when not stated."""
    old, new = apply_load(before, tokens_per_s, hours_per_month), apply_load(after, tokens_per_s, hours_per_month)
    saved = old.usd_per_month - new.usd_per_month
    latencies = before.latency_p99_s, after.latency_p99_s
    ratio = latencies[1] / latencies[0] if latencies[0] and latencies[1] is not None else None
    worth = max(Decimal(0), saved * horizon_months)
    half_empty = old.utilisation < FULL_UTILISATION / 2 and new.replicas == 1  # wants filling or sleep
    verdict: ComparisonVerdict = "scale_out" if old.replicas > 1 else "fill_first" if half_empty else "keep"
    if saved > 0 and worth > effort_usd:
        verdict = "optimise"
    return Comparison(
        before=old,
        after=new,
        saved_usd_per_month=saved,
        worth_usd=worth,
        payback_months=effort_usd / saved if saved > 0 and effort_usd > 0 else None,
        speed_ratio=after.tokens_per_s / before.tokens_per_s,
        latency_ratio=ratio,
        verdict=verdict,
        tokens_per_s=tokens_per_s,
        hours_per_month=hours_per_month,
        effort_usd=effort_usd,
        horizon_months=horizon_months,
    )


def explain_comparison(of: Comparison) -> tuple[Reason, ...]:
    """Why the verdict is what it is, then the speed of a replica, the price of a full one and the replicas, where they differ."""
    reasons = [_explain_verdict(of)]
    if of.speed_ratio != 1:
        reasons.append(Reason("faster" if of.speed_ratio > 1 else "slower", {"ratio": of.speed_ratio}))
    full = of.before.usd_per_million_tokens_full, of.after.usd_per_million_tokens_full
    if full[0] != full[1]:
        reasons.append(Reason("cheaper_full" if full[1] < full[0] else "dearer_full", {"before_usd": full[0], "after_usd": full[1]}))
    if of.before.replicas != of.after.replicas:
        reasons.append(Reason("replicas", {"before": of.before.replicas, "after": of.after.replicas}))
    return tuple(reasons)


def _explain_verdict(of: Comparison) -> Reason:
    values: dict[str, Value] = {
        "worth_usd": of.worth_usd,
        "effort_usd": of.effort_usd,
        "months": of.horizon_months,
        "replicas": of.before.replicas,
        "used_percent": 100 * of.before.utilisation,
    }
    variant = "saves" if of.saved_usd_per_month >= CENT else ""
    return Reason(of.verdict, values, variant=variant if of.verdict != "optimise" else "effort" if of.effort_usd else "")
