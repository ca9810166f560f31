"""What an offer costs by the hour and the month, for the hours a day it runs; per request and token where its speed is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from lib.advisor.result import Cost, Prediction
from lib.advisor.speed import ANSWER_TOKENS, PROMPT_TOKENS
from lib.cost import Usage, cost
from lib.errors import BadCatalog
from lib.offer import Offer
from lib.platform_rules import PlatformRules
from lib.workload import Workload

DAYS_PER_MONTH = 30
"""Days of a month, as in `/estimate_cost`: a month of round-the-clock use is 720 hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """The prediction as the bill takes it; a rate only where answer tokens are made."""

    ttft_s: float | None
    inter_token_s: float | None
    throughput_tokens_per_s: float | None


def monthly(offer: Offer, workload: Workload) -> Decimal:
    """USD per month of an offer that runs its hours a day and never sleeps within them: price per hour × hours × days.

    Raises:
        BadCatalog: a listed offer has no price.
    """
    return _price(offer) * workload.hours_per_day * DAYS_PER_MONTH


def cost_of(offer: Offer, workload: Workload, rules: PlatformRules, predicted: Prediction | None = None) -> Cost:
    """The month by `lib.cost`, without sleep, storage and the port of a Job, which are told as reasons.

    ZeroGPU and free hardware cost nothing; quota beyond the free one is told as a reason too.

    Raises:
        BadCatalog: a listed offer has no price.
    """
    _price(offer)
    bill = cost(offer, _usage(workload, predicted), rules, speed=None if predicted is None else _paced(predicted))
    return Cost(
        usd_per_hour=bill.usd_per_hour,
        usd_per_month=bill.total_usd_per_month,
        hours_per_day=workload.hours_per_day,
        days_per_month=DAYS_PER_MONTH,
        usd_per_million_output_tokens=bill.usd_per_million_output_tokens,
        usd_per_request=None if predicted is None else bill.usd_per_request,
    )


def _price(offer: Offer) -> Decimal:
    if offer.usd_per_hour is None:
        raise BadCatalog(f"offers: {offer.platform} {offer.id} is listed without a price.")
    return offer.usd_per_hour


def _usage(workload: Workload, predicted: Prediction | None) -> Usage:
    return Usage(
        hours_per_day=workload.hours_per_day,
        days_per_month=Decimal(DAYS_PER_MONTH),
        requests_per_day=Decimal(workload.requests_per_day) if workload.hours_per_day else Decimal(0),
        account=workload.account,
        concurrency=workload.concurrency,
        exposed_port=False,
        prompt_tokens=PROMPT_TOKENS if predicted is None else predicted.prompt_tokens,
        output_tokens=ANSWER_TOKENS if predicted is None else predicted.output_tokens,
    )


def _paced(of: Prediction) -> Paced:
    between, rate = of.inter_token_s, of.throughput_tokens_per_s
    return Paced(
        ttft_s=of.ttft_s.value,
        inter_token_s=None if between is None else between.value,
        throughput_tokens_per_s=None if rate is None else rate.value,
    )
