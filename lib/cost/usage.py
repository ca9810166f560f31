"""How hardware is used: hours, traffic, sleep, storage, account; the hours a day that are billed; what ZeroGPU takes of its quota.

Billed hours of one replica per day are the hours it runs, or, where it falls asleep without requests, those in which requests keep it
awake (`lib.laws.price`). ZeroGPU bills nothing: the stated traffic is counted against the visitors' daily quota.

Capacity of hardware, and the replicas that a traffic needs:

    n = ρ · h · 3600 · k · r / t        served per day        R = ⌈N · t / (ρ · h · 3600 · k)⌉        replicas that N requests a day need

    h  hours a day      k  requests at a time of one replica      r  replicas      t  seconds of a request (`request_seconds`)
    ρ  utilisation up to which a replica is filled, 0.8 (`lib.laws.price`)

t is the time with k requests in flight all the time. Requests come at random: a replica that is filled to the last second makes them wait
without end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from typing import Annotated, Literal

from lib.catalog.offers import Offer
from lib.catalog.rules import PlatformRules, ZeroGpuRules
from lib.laws.price import FULL_UTILISATION, HOUR_S, answer_price, awake_time, beyond_quota, calls_per_day, quota_seconds, visitors_needed
from lib.laws.start_up import cold_start
from lib.provenance import Caveat, Value
from lib.request import types as asked
from lib.request.checks import check_whole
from lib.request.fields import Checked, Form, Request, whole_number
from lib.request.types import AccountName, VisitorAccountName
from lib.result import Exact, Hidden, Result, Usd
from lib.speed import SpeedEstimate
from lib.workload import visitors_plan

LIGHT_TRAFFIC_VISITORS = 10
"""Visitors who count as light traffic on ZeroGPU: this number may wait for a GPU at the same time, or spend their whole quota. A
judgement."""

MOST_GPU_S_PER_DAY = 6 * 3600
"""GPU time a day up to which a ZeroGPU Space is advised: a quarter of one GPU of the default size. Calls of one Space that come at random
then wait for a third of a call on average (M/M/1: 0.25 / 0.75). How many GPUs serve one Space at a time is not published. A judgement."""

LEAST_CALLS_PER_VISITOR = 8
"""Calls a day that a visitor's quota has to allow for more than light traffic, where the visitors are not stated: the runs a day that users
report of free accounts (`runs_per_day_reported`). A judgement."""


def most_requests(calls_per_visitor: int, seconds: Decimal, visitors_per_day: int) -> int:
    """Requests a day that a ZeroGPU Space is advised for: by the quota of the stated visitors, and by GPU time.

    Args:
        calls_per_visitor: calls a day of one visitor, within the quota and the reported runs.
        seconds: GPU time of a request on cards of the default size; the whole card counts as often as its quota does.
        visitors_per_day: visitors who share the requests; 0 if not stated: as many as it takes, where each one's calls are enough.

    >>> most_requests(8, Decimal(16), 50), most_requests(8, Decimal(16), 0), most_requests(0, Decimal(16), 0)
    (400, 1350, 0)
    """
    by_time = int(MOST_GPU_S_PER_DAY / seconds)
    if not visitors_per_day and calls_per_visitor >= LEAST_CALLS_PER_VISITOR:
        return by_time
    return min(calls_per_visitor * (visitors_per_day or LIGHT_TRAFFIC_VISITORS), by_time)


ZeroGpuObstacle = Literal["quota", "few_calls", "busy", "crowd"]
"""The stated visitors' quotas are too small, a visitor has too few calls, the calls take too much GPU time, or too many wait at a time."""


def find_zerogpu_obstacle(
    *, calls: int, requests_per_day: Decimal | int, visitors_per_day: int, most: int, concurrency: int
) -> ZeroGpuObstacle | None:
    """Why ZeroGPU is not advised for this traffic, the first obstacle in the order above; None if it is.

    `calls` are those of one visitor a day, `most` comes from `most_requests`.
    """
    if calls == 0 or (visitors_per_day and requests_per_day > calls * visitors_per_day):
        return "quota"
    if not visitors_per_day and calls < LEAST_CALLS_PER_VISITOR and requests_per_day > calls * LIGHT_TRAFFIC_VISITORS:
        return "few_calls"
    if requests_per_day > most:
        return "busy"
    return "crowd" if concurrency > LIGHT_TRAFFIC_VISITORS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGpuUse(Result):
    """The part of their daily quota that visitors of a ZeroGPU Space spend."""

    size: str
    """Size of the GPU: large or xlarge."""
    seconds: Exact
    """GPU seconds of a request."""
    quota_s_per_request: Exact
    """Seconds of quota that a request takes."""
    daily_quota_s: int
    """Seconds of quota of a visitor per day."""
    requests_in_quota: int
    """Requests a day that one visitor makes without paying."""
    visitors: int
    """The fewest visitors who together make the day's requests without paying; 0 if one request exceeds the quota."""
    most_requests: Hidden[int]
    """Requests a day that a Space on ZeroGPU is advised for."""
    time_known: Hidden[bool]
    """Whether `seconds` is stated or predicted; otherwise it is the duration that a call reserves by default."""
    usd_per_request_beyond: Usd | None
    """Price of each further request of a visitor; null if the account cannot pay."""
    usd_per_month_alone: Usd | None
    """Price of the month for one visitor who makes all requests; null if the account cannot pay."""

    def find_obstacle(self, usage: Usage) -> ZeroGpuObstacle | None:
        """Why ZeroGPU is not advised for this use. Without a time of a request only a quota below one call is an obstacle."""
        if not self.time_known:
            return None if self.requests_in_quota else "quota"
        return find_zerogpu_obstacle(
            calls=self.requests_in_quota, requests_per_day=usage.requests_per_day, visitors_per_day=usage.visitors_per_day,
            most=self.most_requests, concurrency=usage.concurrency,
        )  # fmt: skip


TARGET_TTFT_S, TARGET_TPOT_S = 2.0, 0.2
"""Means that a full server has to keep, a judgement: a first token within 2 s, and then about the speed of reading (5 tokens/s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity(Result):
    """The traffic that the stated replicas serve, and the replicas that the stated traffic needs."""

    requests_per_day: Exact
    """Requests a day that the stated replicas serve."""
    replicas_needed: int
    """Replicas that the stated traffic needs, at least the stated ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestLoad(Result):
    """The concurrency that makes a token cheapest while TTFT and TPOT stay within their targets."""

    concurrency: int
    """Requests at the same time."""
    max_ttft_s: float = TARGET_TTFT_S
    """Target of the time to first token."""
    max_inter_token_s: float = TARGET_TPOT_S
    """Target of the time between tokens."""
    ttft_s: float
    """Time to first token at this load."""
    inter_token_s: float
    """Time between tokens at this load."""
    throughput_tokens_per_s: float
    """Output tokens per second of all requests together."""
    request_s: Hidden[float]
    """Time of a request at this load."""
    usd_per_million_output_tokens: Usd
    """Price of a million output tokens at this load."""


MAX_REPLICAS = 1_000
MAX_SLEEP_S = 31 * 86_400
RequestCount = Annotated[
    Decimal,
    Checked(
        lambda name, value: Decimal(check_whole(name, value, 0, asked.MAX_REQUESTS_PER_DAY)), int, low=0, high=asked.MAX_REQUESTS_PER_DAY
    ),
]
SleepSeconds = Annotated[
    Decimal,
    Checked(lambda name, value: Decimal(max(0, check_whole(name, value, -1, MAX_SLEEP_S))), int, low=-1, high=MAX_SLEEP_S),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Request):
    """Use of one offer."""

    hours_per_day: asked.HoursPerDay = Decimal(24)
    """Hours a day that it runs at most, and in which requests arrive; outside them it is paused, asleep or not visited."""
    days_per_month: Annotated[asked.DaysPerMonth, Form("Days a month", "days", group="cost")] = Decimal(30)
    replicas: Annotated[int, whole_number(1, MAX_REPLICAS)] = 1
    """Copies, each billed."""
    requests_per_day: RequestCount = Decimal(0)
    """Requests that arrive in these hours; 0 if not known."""
    sleep_after_s: Annotated[SleepSeconds, Form("Sleep after", "sleep", group="cost")] = Decimal(0)
    """Seconds without requests after which it sleeps (Endpoints: is scaled to zero); 0 or -1 is never."""
    account: asked.Account = "free"
    """The plan of the account that pays."""
    prompt_tokens: asked.Tokens = 512
    """Tokens of a prompt."""
    output_tokens: asked.TokensOrNone = 256
    """Tokens of an answer."""
    concurrency: asked.Concurrency = 1
    """Requests that each replica serves at the same time."""
    visitor_account: asked.VisitorAccount = "auto"
    visitors_per_day: asked.VisitorsPerDay = 0
    storage_gb: Decimal = Decimal(0)
    storage_public: bool = False
    seats: int = 1
    request_s: Decimal | None = None
    """Time of a request; by default that of the speed estimate."""
    startup_s: Decimal | None = None
    """Start-up at each wake; by default a cold start with `file_bytes` (`lib.laws.start_up`)."""
    file_bytes: int = 0
    """Bytes that a start fetches and loads; 0 if no model is named."""
    seconds_on_gpu: Decimal | None = None
    """Time of a ZeroGPU call; by default `request_s`, else the platform's default duration."""
    extra_replica_hours_per_month: Decimal = Decimal(0)
    """Hours that autoscaling adds, all replicas together."""
    exposed_port: bool | None = None
    """For Jobs: `None` exposes one when requests come."""
    region: str | None = None

    @property
    def visitors_plan(self) -> AccountName:
        """Plan whose quota a visitor of a ZeroGPU Space has."""
        return visitors_plan(self.account, self.visitor_account)

    @property
    def requests_per_month(self) -> Decimal:
        """Requests of a month; 0 when the traffic is not stated."""
        return self.requests_per_day * self.days_per_month


def to_decimal(value: float) -> Decimal:
    """A float as the decimal that it prints as, so that money made of it stays readable."""
    return Decimal(str(value))


def request_seconds(usage: Usage, speed: SpeedEstimate | None) -> Decimal | None:
    """Seconds of one request: as stated, else first token + the others, for each window of a sound; `None` when neither is known."""
    if usage.request_s is not None:
        return usage.request_s
    if speed is None:
        return None
    first = to_decimal(speed.ttft_s.value)
    others = Decimal(0) if speed.tpot_s is None else to_decimal(speed.tpot_s.value) * max(0, usage.output_tokens - 1)
    return speed.windows * (first + others)


def start_up_seconds(usage: Usage) -> Decimal:
    """Seconds of a start-up: as stated, else by the bytes that it fetches and loads."""
    return Decimal(cold_start(usage.file_bytes).seconds) if usage.startup_s is None else usage.startup_s


_STEP = Decimal("0.000001")  # hours; awake time is a mean, and money made of it should have an end
ADVISED_SLEEP_S = 900
"""Seconds without requests after which it is advised to sleep: a quarter of an hour. A judgement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningHours:
    """Hours a day of one replica. `wakes_per_day` is `None` if nothing sleeps; `slept` tells whether the law of sleep was used."""

    per_day: Decimal
    wakes_per_day: Decimal | None = None
    slept: bool = False


def resolve_sleep_time(offer: Offer, usage: Usage, rules: PlatformRules) -> Decimal:
    """Seconds without requests until this offer falls asleep; 0 when it never does. cpu-basic has a fixed time of its own."""
    if not offer.traits.sleeps:
        return Decimal(0)
    if "sleeps_after_48h" in offer.rules:
        return Decimal(rules.sleep.cpu_basic_after_s)
    return max(Decimal(0), usage.sleep_after_s)


def count_hours(offer: Offer, usage: Usage, rules: PlatformRules, speed: SpeedEstimate | None) -> RunningHours:
    """Hours a day, never more than `hours_per_day`: at the end of these hours the owner pauses it."""
    after = resolve_sleep_time(offer, usage, rules)
    if after == 0 or usage.requests_per_day <= 0:
        return RunningHours(per_day=usage.hours_per_day)
    billing = rules.endpoints if offer.traits.idle == "scales_to_zero" else rules.sleep
    spell = awake_time(
        requests_per_day=usage.requests_per_day,
        window_s=usage.hours_per_day * HOUR_S,
        request_s=request_seconds(usage, speed) or Decimal(0),
        sleep_after_s=after,
        startup_s=start_up_seconds(usage),
        billing_step_s=Decimal(billing.billing_step_s),
    )
    awake_hours = (spell.seconds_per_day / HOUR_S).quantize(_STEP, rounding=ROUND_UP)
    return RunningHours(per_day=min(usage.hours_per_day, awake_hours), wakes_per_day=spell.wakes_per_day, slept=True)


def estimate_zerogpu_use(offer: Offer, usage: Usage, rules: ZeroGpuRules, speed: SpeedEstimate | None) -> ZeroGpuUse:
    """Quota that a visitor spends."""
    plan, size = usage.visitors_plan, rules.size(offer.id)
    seconds = usage.seconds_on_gpu
    if seconds is None:
        seconds = request_seconds(usage, speed)
    time_known = seconds is not None and seconds > 0
    if seconds is None or seconds <= 0:
        seconds = Decimal(rules.default_duration_s)
    each = quota_seconds(seconds=seconds, duration_factor=size.duration_factor, multiplier=size.quota_multiplier)
    daily = rules.daily_quota_s[plan]
    carried = calls_per_day(daily_quota_s=daily, call_quota_s=each, runs=rules.runs_per_day_reported.get(plan))
    pays = plan in rules.overquota_accounts
    price = rules.overquota_usd_per_gpu_hour
    alone = beyond_quota(quota_s=usage.requests_per_day * each - daily, usd_per_gpu_hour=price) * usage.days_per_month
    return ZeroGpuUse(
        size=size.size,
        seconds=seconds,
        quota_s_per_request=each,
        daily_quota_s=daily,
        requests_in_quota=carried,
        visitors=visitors_needed(calls=usage.requests_per_day, calls_per_visitor=carried),
        most_requests=most_requests(carried, seconds * size.quota_multiplier, usage.visitors_per_day),
        time_known=time_known,
        usd_per_request_beyond=beyond_quota(quota_s=each, usd_per_gpu_hour=price) if pays else None,
        usd_per_month_alone=alone if pays else None,
    )


def reservation_values(rules: ZeroGpuRules) -> dict[str, Value]:
    """Quota that a call reserves by default, and when an undeclared size becomes the whole card."""
    return {
        "default_s": rules.default_duration_s,
        "factor": rules.size("large").duration_factor,
        "limit_bytes": rules.auto_xlarge_bytes,
        "multiplier": rules.size("xlarge").quota_multiplier,
    }


def zerogpu_caveats(rules: ZeroGpuRules, account: AccountName, visitor_account: VisitorAccountName) -> list[Caveat]:
    """Assumptions behind a figure of the quota: runs that users report, the factor on the time used, visitors whose plan was not stated."""
    plan = visitors_plan(account, visitor_account)
    factor = max(size.duration_factor for size in rules.sizes)
    caveats = [Caveat("duration_factor_assumed", {"factor": factor})] if factor > 1 else []
    if plan in rules.runs_per_day_reported:
        caveats.append(Caveat("runs_reported", {"account": plan, "runs": rules.runs_per_day_reported[plan]}))
    if visitor_account == "auto" and plan not in {"free", "anonymous"}:
        daily = rules.daily_quota_s
        caveats.append(Caveat("visitors_own_plan", {"account": plan, "free_s": daily["free"], "anonymous_s": daily["anonymous"]}))
    return caveats


def quota_caveats(use: ZeroGpuUse, usage: Usage, rules: ZeroGpuRules) -> list[Caveat]:
    """The payer, and the requests that a day's quota covers."""
    calls = use.requests_in_quota
    pays: dict[str, Value] = {
        "seconds": use.seconds,
        "request_quota_s": use.quota_s_per_request,
        "quota_minutes": Decimal(use.daily_quota_s) / 60,
        "account": usage.visitors_plan,
        "requests_per_visitor": calls,
    }
    caveats = [
        Caveat("visitor_pays", pays),
        Caveat("zerogpu_reservation", reservation_values(rules)),
        *zerogpu_caveats(rules, usage.account, usage.visitor_account),
    ]
    if usage.requests_per_day > 0 and calls == 0:
        caveats.append(Caveat("quota_too_small"))
    elif usage.requests_per_day > calls:
        caveats.append(Caveat("quota_spread", {"requests_per_day": usage.requests_per_day, "visitors": use.visitors}))
    if use.usd_per_request_beyond is None:
        caveats.append(Caveat("no_overquota", {"accounts": ", ".join(rules.overquota_accounts)}))
    else:
        caveats.append(Caveat("overquota", {"usd_per_request": use.usd_per_request_beyond}))
    return caveats


LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Requests at a time that are tried."""


def measure_capacity(offer: Offer, usage: Usage, speed: SpeedEstimate | None) -> Capacity | None:
    """`None` on ZeroGPU, which has no replicas of its owner's, and where the time of a request is not known."""
    seconds = request_seconds(usage, speed)
    each = FULL_UTILISATION * usage.hours_per_day * HOUR_S * usage.concurrency
    if offer.traits.per_call or seconds is None or seconds <= 0 or each <= 0:
        return None
    needed = math.ceil(usage.requests_per_day * seconds / each)
    return Capacity(requests_per_day=each * usage.replicas / seconds, replicas_needed=max(usage.replicas, needed))


def measure_utilisation(usage: Usage, speed: SpeedEstimate | None, billed_hours: Decimal) -> Decimal | None:
    """Share of the billed time in which requests are served, above 1 when they cannot all be; `None` when it is not known."""
    seconds = request_seconds(usage, speed)
    if seconds is None or billed_hours <= 0 or usage.requests_per_day <= 0:
        return None
    return usage.requests_per_month * seconds / (billed_hours * HOUR_S * usage.concurrency)


def find_best_load(usd_per_hour: Decimal, speeds: Iterable[SpeedEstimate]) -> BestLoad | None:
    """The cheapest of these loads of one machine that keeps the targets; the smaller one where two cost the same."""
    in_target = [load for load in map(_keep_targets, speeds) if load is not None]
    best = max(in_target, key=lambda load: (load[0], -load[1].request.concurrency), default=None)
    if best is None:
        return None
    rate, speed, tpot_s = best
    return BestLoad(
        concurrency=speed.request.concurrency,
        ttft_s=speed.ttft_s.value,
        inter_token_s=tpot_s,
        throughput_tokens_per_s=rate,
        request_s=speed.request_s,
        usd_per_million_output_tokens=answer_price(usd_per_hour=usd_per_hour, tokens_per_s=to_decimal(rate)),
    )


def _keep_targets(speed: SpeedEstimate) -> tuple[float, SpeedEstimate, float] | None:
    rate = speed.output_tokens_per_s
    if rate is None or speed.tpot_s is None or speed.ttft_s.value > TARGET_TTFT_S or speed.tpot_s.value > TARGET_TPOT_S:
        return None
    return rate.value, speed, speed.tpot_s.value
