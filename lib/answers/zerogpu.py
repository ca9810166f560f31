"""The answer of `/zerogpu_quota`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lib.provenance import Answer, Reasons
from lib.request.types import AccountName
from lib.result import Exact, Result

Verdict = Literal["passes", "waits", "never", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLeft(Result):
    """The daily quota as the Hub tells it to the owner of the token."""

    base_s: float
    """Seconds of quota a day."""
    remaining_s: float
    """Seconds that are left."""
    resets_at: str | None
    """When it resets (ISO 8601, UTC); null while nothing of it was used."""
    overquota_used_s: float | None
    """Seconds that were paid for beyond the quota; null if the Hub does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGpuQuotaAnswer(Answer):
    """A call on ZeroGPU: the line to write, what it reserves, and whether it passes the checks of the platform."""

    account: AccountName
    """Plan whose quota counts."""
    size: str
    """Size of the GPU: large or xlarge."""
    declared_s: int
    """Seconds to declare: the time of a call and 40 %, or the platform's default if no time is stated."""
    declaration: str
    """The decorator to write above the function."""
    reserved_s: int
    """Seconds of quota that the call reserves, which are compared with the rest of the quota."""
    charged_s: Exact
    """Seconds of quota that the call takes when it ends; the reservation if no time is stated."""
    daily_quota_s: int
    """Seconds of quota a day of this plan; the Hub's own figure where a token asked it."""
    calls_a_day: int
    """Calls that the daily quota carries: each has to find its reservation left. At most the reported runs."""
    runs_a_day_reported: int | None
    """Runs a day by users' reports; null if none are reported. The platform publishes no number."""
    longest_call_s: int | None
    """Longest duration that one call may declare by plan; null: the platform publishes none."""
    longest_declared_s: int
    """Longest duration that fits into the rest of the quota, or into the whole daily quota if that is not known."""
    left: QuotaLeft | None
    """The rest of the quota; null without a token."""
    verdict: Verdict
    """`passes`, `waits` (until the quota resets), `never` (it exceeds a whole day), or `unknown` without a token."""
    checks: Reasons
    """The platform's checks in their order, each with the refusal that it leads to."""
