"""Before and after: two configurations side by side, and whether the difference is worth the work.

GPU-hours, prices per token, replicas and rent are `lib.laws.price`; the price at a utilisation ρ is that at full use / ρ. Latencies are
measured percentiles, or the time of a request plus the wait for a free slot (`lib.laws.serving`). Optimising pays when the bill it saves
over the horizon exceeds what the work costs; otherwise another replica of what exists is the cheaper step.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Literal

from lib.cost.usage import to_decimal
from lib.laws.price import FULL_UTILISATION, MILLION, answer_price, gpu_hours_per_million_tokens, rent, replicas_needed
from lib.laws.serving import wait_seconds
from lib.provenance import Answer, Caveat, Reason, Reasons, Source, Value
from lib.result import Exact, Result, Usd
from lib.speed import SpeedEstimate

CENT = Decimal("0.005")
"""Savings below half a cent are shown as none."""

Verdict = Literal["optimise", "scale_out", "fill_first", "keep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedConfiguration(Result):
    """One way to run a model, per replica."""

    name: str
    """The hardware's name."""
    model: str = ""
    """Id of the model; "" if the rate was measured."""
    hardware: str = ""
    """Platform and id of the hardware, such as `spaces:l4x1`."""
    runs_as: str = ""
    """Precision, engine and concurrency in words."""
    measured: bool = True
    """Whether the rate was measured; else it is an estimate."""
    measured_latency: bool = False
    """Whether a latency was measured."""
    device: Literal["GPU", "chip"] = "GPU"
    """Word for one device."""
    devices: int
    """Devices of a replica; 0 on a CPU."""
    usd_per_hour: Usd
    """Price of a replica."""
    tokens_per_s: Exact
    """Output tokens per second of a busy replica."""
    low: float | None = None
    """Low end of an estimated rate; null for a measured one."""
    high: float | None = None
    """High end of an estimated rate; null for a measured one."""
    latency_p50_s: Exact | None = None
    """Median time of a whole request; null if it is not known."""
    latency_p99_s: Exact | None = None
    """99th percentile of the time of a whole request; null if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(PricedConfiguration):
    """A configuration under the load; `…_full` prices are those of a replica that is busy all the time."""

    gpu_hours_per_million_tokens: Exact
    """Device-hours per million output tokens of a busy replica."""
    replicas: int
    """Replicas that the load needs, each at most 80 % full."""
    utilisation: Exact
    """Share of the replicas' time in use."""
    used_usd_per_hour: Usd
    """Price of the hours in use: utilisation × replicas × price."""
    usd_per_million_tokens_full: Usd
    """USD per million output tokens of a busy replica."""
    usd_per_million_tokens: Usd | None
    """USD per million output tokens at the load; null without load."""
    usd_per_request_full: Usd
    """USD per request of a busy replica."""
    usd_per_request: Usd | None
    """USD per request at the load; null without load."""
    usd_per_month: Usd
    """Rent of all replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeAfter(Result):
    """One figure of both sides."""

    before: Usd | None
    """Figure of the first side."""
    after: Usd | None
    """Figure of the second side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Answer):
    """Two sides under the same load, what the change saves and is worth, and the verdict with its reasons and its arithmetic."""

    before: Side
    """The first configuration under the load."""
    after: Side
    """The second configuration under the load."""
    tokens_per_s: Exact
    """Load: output tokens per second while it runs."""
    hours_per_month: Exact
    """Hours a month that it runs."""
    effort_usd: Usd
    """One-off cost of the change; 0 if none is stated."""
    horizon_months: int
    """Months over which savings count."""
    saved_usd_per_month: Usd
    """Saving of the second side; negative if it costs more."""
    worth_usd: Usd
    """The most that the change may cost: the saving over the horizon."""
    payback_months: Exact | None
    """Months until a stated effort is paid back; null for never, or if no effort is stated."""
    usd_per_million_output_tokens: BeforeAfter
    """USD per million output tokens at the load."""
    usd_per_request: BeforeAfter
    """USD per request at the load."""
    speed_ratio: Exact
    """Rates of a replica, after / before."""
    latency_ratio: Exact | None
    """99th percentiles, after / before; null if one is not known."""
    verdict: Verdict
    """The step."""
    reasons: Reasons
    """The reason for the verdict, then the speed of a replica, the price of a busy one and the replicas, where they differ."""
    arithmetic: tuple[str, ...]
    """The bills of both sides, their GPU-hours and the difference, one line each."""


def predict_latencies(speed: SpeedEstimate, output_tokens: int, slots: int, requests_per_s: float) -> tuple[Decimal | None, Decimal | None]:
    """Median and 99th percentile: a request takes its own time and the wait for one of the slots.

    Both are `None` if nothing is decoded, and when the slots are all taken all of the time.
    """
    if speed.tpot_s is None:
        return None, None
    alone = speed.ttft_s.value + speed.tpot_s.value * max(0, output_tokens - 1)
    waits = [wait_seconds(slots=slots, load=requests_per_s * alone, request_s=alone, percentile=share) for share in (0.5, 0.99)]
    p50, p99 = (None if wait is None else to_decimal(alone + wait) for wait in waits)
    return p50, p99


def apply_load(configuration: PricedConfiguration, tokens_per_s: Decimal, hours_per_month: Decimal, output_tokens: int = 1) -> Side:
    """A configuration with its costs under a load of output tokens per second, in answers of this length."""
    price, rate = configuration.usd_per_hour, configuration.tokens_per_s
    replicas = replicas_needed(tokens_per_s=tokens_per_s, replica_tokens_per_s=rate, utilisation=FULL_UTILISATION)
    used = tokens_per_s / (replicas * rate)
    full = answer_price(usd_per_hour=price, tokens_per_s=rate)
    at_load = full / used if used > 0 else None
    answer = Decimal(output_tokens) / MILLION
    return Side(
        **{field.name: getattr(configuration, field.name) for field in fields(configuration)},
        gpu_hours_per_million_tokens=gpu_hours_per_million_tokens(devices=configuration.devices, tokens_per_s=rate),
        replicas=replicas,
        utilisation=used,
        used_usd_per_hour=used * replicas * price,
        usd_per_million_tokens_full=full,
        usd_per_million_tokens=at_load,
        usd_per_request_full=full * answer,
        usd_per_request=None if at_load is None else at_load * answer,
        usd_per_month=rent(usd_per_hour=price, hours=hours_per_month, replicas=replicas),
    )


def compare(
    before: PricedConfiguration,
    after: PricedConfiguration,
    *,
    tokens_per_s: Decimal,
    hours_per_month: Decimal = Decimal(720),
    output_tokens: int = 1,
    effort_usd: Decimal = Decimal(0),
    horizon_months: int = 12,
    caveats: tuple[Caveat, ...] = (),
    sources: tuple[Source, ...] = (),
) -> Comparison:
    """Both under the same load of output tokens per second; `effort_usd` is the one-off cost of the change, 0 when not stated."""
    # Both sides under the same load.
    old, new = (apply_load(side, tokens_per_s, hours_per_month, output_tokens) for side in (before, after))
    saved = old.usd_per_month - new.usd_per_month
    latencies = before.latency_p99_s, after.latency_p99_s
    worth = max(Decimal(0), saved * horizon_months)
    speed_ratio = after.tokens_per_s / before.tokens_per_s
    # The verdict: optimise where the saving exceeds the effort.
    half_empty = old.utilisation < FULL_UTILISATION / 2 and new.replicas == 1  # wants filling or sleep
    verdict: Verdict = "scale_out" if old.replicas > 1 else "fill_first" if half_empty else "keep"
    if saved > 0 and worth > effort_usd:
        verdict = "optimise"
    values: dict[str, Value] = {
        "worth_usd": worth,
        "effort_usd": effort_usd,
        "months": horizon_months,
        "replicas": old.replicas,
        "used_percent": 100 * old.utilisation,
    }
    variant = ("effort" if effort_usd else "") if verdict == "optimise" else "saves" if saved >= CENT else ""
    return Comparison(
        before=old,
        after=new,
        tokens_per_s=tokens_per_s,
        hours_per_month=hours_per_month,
        effort_usd=effort_usd,
        horizon_months=horizon_months,
        saved_usd_per_month=saved,
        worth_usd=worth,
        payback_months=effort_usd / saved if saved > 0 and effort_usd > 0 else None,
        usd_per_million_output_tokens=BeforeAfter(before=old.usd_per_million_tokens, after=new.usd_per_million_tokens),
        usd_per_request=BeforeAfter(before=old.usd_per_request, after=new.usd_per_request),
        speed_ratio=speed_ratio,
        latency_ratio=latencies[1] / latencies[0] if latencies[0] and latencies[1] is not None else None,
        verdict=verdict,
        reasons=(Reason(verdict, values, variant=variant), *_explain_differences(old, new, speed_ratio)),
        arithmetic=(
            *_side_arithmetic("Before", old, tokens_per_s, hours_per_month),
            *_side_arithmetic("After", new, tokens_per_s, hours_per_month),
            f"{old.usd_per_month:.2f} - {new.usd_per_month:.2f} = {saved:.2f} USD/month; over {horizon_months} months {worth:.2f} USD",
        ),
        caveats=caveats,
        sources=sources,
    )


def _explain_differences(old: Side, new: Side, speed_ratio: Decimal) -> list[Reason]:
    reasons = []
    if speed_ratio != 1:
        reasons.append(Reason("faster" if speed_ratio > 1 else "slower", {"ratio": speed_ratio}))
    full = old.usd_per_million_tokens_full, new.usd_per_million_tokens_full
    if full[0] != full[1]:
        reasons.append(Reason("cheaper_full" if full[1] < full[0] else "dearer_full", {"before_usd": full[0], "after_usd": full[1]}))
    if old.replicas != new.replicas:
        reasons.append(Reason("replicas", {"before": old.replicas, "after": new.replicas}))
    return reasons


def _side_arithmetic(name: str, side: Side, tokens_per_s: Decimal, hours: Decimal) -> tuple[str, str]:
    rate = f"{side.tokens_per_s:.6g}"
    replicas = f"⌈{tokens_per_s:.6g} tokens/s / ({FULL_UTILISATION} · {rate} tokens/s)⌉ = {side.replicas}"
    million = f"10⁶ tokens / (3600 s/h · {rate} tokens/s) · {side.devices} GPUs"
    return (
        f"{name}: {replicas} × {side.usd_per_hour} USD/h × {hours:f} h/month = {side.usd_per_month:.2f} USD/month",
        f"{name}: {million} = {side.gpu_hours_per_million_tokens:.4g} GPU-hours per million tokens",
    )
