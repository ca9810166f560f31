"""Order of an entry's reasons: limits, traffic, conditions, others. Reasons that repeat figures of the card wait behind a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lib.provenance import Reason

MOST_REASONS = 5
"""Reasons that are shown at once."""
_LIMITS = frozenset({
    "context_clamped", "fits_tightly", "below_usable", "below_comfortable", "engine_untested", "tpu_untested",
    "layers_on_host", "start_limit", "multi_host", "zerogpu_near_limit",
})  # fmt: skip
_TRAFFIC = frozenset({
    "zerogpu_quota", "zerogpu_quota_unknown", "zerogpu_crowd", "replicas_needed", "replica_reserve", "quantized", "full_length_on",
    "app_batches", "cards_unused",
})  # fmt: skip
_CONDITIONS = frozenset({
    "why_not_free", "needs_subscription", "needs_cloud_account", "needs_allowlist", "zerogpu_hosting", "checkpoint", "price_asleep",
    "price_unverified", "price_old", "jobs_time_limit", "quantize_ahead",
})  # fmt: skip
_IN_FIGURES = frozenset({"fits", "speed", "request_speed", "sound_speed", "price"})
"""Reasons that repeat figures of the card."""
_GROUNDS = frozenset({
    "zerogpu_duration_factor_assumed", "zerogpu_runs_reported", "zerogpu_visitors_own_plan", "zerogpu_reservation", "cache_counted",
})  # fmt: skip
"""Assumptions behind the other reasons."""


class OrderedReasons(NamedTuple):
    """The reasons of an entry: the most important, the others, and the assumptions behind both."""

    first: list[Reason]
    more: list[Reason]
    grounds: list[Reason]


def order_reasons(reasons: Sequence[Reason], most: int = MOST_REASONS) -> OrderedReasons:
    """Split reasons into at most `most` important ones, the others, and assumptions; reasons of equal weight keep their order.

    Reasons that repeat figures are important only if there are no others.
    """
    grounds = [reason for reason in reasons if _is_ground(reason)]
    others = sorted((reason for reason in reasons if not _is_ground(reason)), key=_weight)
    said = [reason for reason in others if reason.code not in _IN_FIGURES] or others
    return OrderedReasons(said[:most], [reason for reason in others if reason not in said[:most]], grounds)


def _is_ground(reason: Reason) -> bool:
    return reason.code in _GROUNDS and reason.variant != "waits"


def _weight(reason: Reason) -> int:
    tiers = (_LIMITS, _TRAFFIC | {"cache_counted"}, _CONDITIONS)
    return next((number for number, codes in enumerate(tiers) if reason.code in codes), len(tiers))
