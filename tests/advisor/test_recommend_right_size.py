"""The pick held against the current tier: decisions, savings and reasons, from real recommendations for bundled models."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from lib.advisor import recommend
from lib.advisor.recommend import right_size
from lib.advisor.result import Entry, Recommendation
from lib.catalog import load
from lib.catalog.offers import Offer
from lib.model import bundled
from lib.present.sentences import sentence
from lib.workload import Workload

CATALOG = load()
SPEC = bundled.find_spec("Qwen/Qwen2.5-7B-Instruct")
assert SPEC is not None
PAID = recommend(SPEC, Workload(platforms=("spaces",), requests_per_day=1000), CATALOG)


def find_entry(found: Recommendation, tier: str) -> Entry:
    """The entry of a tier."""
    return next(entry for entry in found.ranked if entry.offer.id == tier)


def change_pick(tier: str, **other: object) -> Recommendation:
    """The same recommendation with another pick, changed as asked."""
    return replace(PAID, pick=replace(find_entry(PAID, tier), **other))  # type: ignore[arg-type]


def spaces(tier: str) -> Offer:
    """A tier."""
    return CATALOG.offer(tier, "spaces")


def codes(current: Offer | None, judged: Recommendation | None, found: Recommendation) -> list[str]:
    """The codes of the reasons; each has its sentence."""
    reasons = right_size(current, judged, found, CATALOG.rules).reasons
    assert all(sentence(reason) for reason in reasons)
    return [reason.code for reason in reasons]


def test_the_saving_is_the_difference_of_the_months() -> None:
    """a100-large 2.50 x 720 = 1800 and l4x1 0.80 x 720 = 576: 1224 less; the other way round 1224 more."""
    down = right_size(spaces("a100-large"), PAID, change_pick("l4x1"), CATALOG.rules)
    assert (down.decision, down.usd_per_month, down.saving_usd_per_month) == ("move", Decimal(1800), Decimal(1224))
    up = right_size(spaces("l4x1"), PAID, change_pick("a100-large"), CATALOG.rules)
    assert up.saving_usd_per_month == Decimal(-1224)
    assert "$1,224 a month more" in " ".join(sentence(reason) for reason in up.reasons)


def test_the_months_are_those_of_the_hours() -> None:
    """Eight hours a day: a third."""
    found = recommend(SPEC, Workload(platforms=("spaces",), requests_per_day=1000, hours_per_day=Decimal(8)), CATALOG)
    assert right_size(spaces("a100-large"), found, found, CATALOG.rules).usd_per_month == Decimal(600)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"step": 0}, "pick_keeps_precision"),
        ({"step": 1, "verdict": "comfortable"}, "pick_has_room"),
        ({"step": 1, "verdict": "tight"}, "pick_is_faster"),
        ({"step": 2, "verdict": "tight", "speed": None}, "pick_ranks_first"),
    ],
)
def test_what_a_dearer_pick_gives(changed: dict[str, object], code: str) -> None:
    """Against a current tier that does it tightly in eight bits; without a higher speed only the rank is left."""
    current = replace(find_entry(PAID, "l4x1"), step=1, verdict="tight")
    judged = replace(PAID, ranked=tuple(current if entry.offer.id == "l4x1" else entry for entry in PAID.ranked))
    if "speed" in changed:
        changed = changed | {"speed": current.speed}
    assert codes(spaces("l4x1"), judged, change_pick("a100-large", **changed)) == [code, "costs_more"]


def test_what_does_it_well_is_not_left_for_something_dearer() -> None:
    """An l4x1 with room to spare stays an l4x1, unless it is tight or speed comes first."""
    current = replace(find_entry(PAID, "l4x1"), step=1, verdict="comfortable")
    judged = replace(PAID, ranked=tuple(current if entry.offer.id == "l4x1" else entry for entry in PAID.ranked))
    dearer = change_pick("a100-large", step=0)
    assert codes(spaces("l4x1"), judged, dearer) == ["stay_does_it", "pick_keeps_precision", "costs_more"]
    assert right_size(spaces("l4x1"), judged, dearer, CATALOG.rules).decision == "stay"
    fastest = replace(dearer, workload=replace(dearer.workload, priority="fastest"))
    assert right_size(spaces("l4x1"), judged, fastest, CATALOG.rules).decision == "move"
    assert right_size(spaces("a100-large"), PAID, change_pick("l4x1"), CATALOG.rules).decision == "move"


def test_reasons_of_the_other_cases() -> None:
    """Stay; nothing anywhere; nothing but here; unknown tier; the same price; another size of ZeroGPU; another platform."""
    assert codes(spaces("l4x1"), PAID, change_pick("l4x1")) == ["stay"]
    nothing = replace(PAID, pick=None)
    assert codes(spaces("l4x1"), PAID, nothing) == ["nothing_else_fits"]
    assert codes(None, None, nothing) == ["nothing_fits_here"]
    assert codes(None, None, change_pick("l4x1")) == ["current_not_judged"]
    same = change_pick("l4x1", offer=spaces("l4x1").model_copy(update={"id": "l4-twin"}))
    assert codes(spaces("l4x1"), PAID, same)[-1] == "costs_the_same"
    xlarge = change_pick("l4x1", offer=CATALOG.offer("zero-a10g-xlarge", "zerogpu"))
    assert codes(CATALOG.offer("zero-a10g", "zerogpu"), None, xlarge) == ["stay", "stay_declare_size"]
    elsewhere = change_pick("l4x1", offer=CATALOG.offer("l4x1", "jobs"))
    assert codes(spaces("a100-large"), PAID, elsewhere) == ["saves", "pick_elsewhere"]


def test_a_retired_tier_has_no_month() -> None:
    """No price today, so no saving."""
    verdict = right_size(spaces("h100"), None, PAID, CATALOG.rules)
    assert (verdict.fits, verdict.usd_per_month, verdict.saving_usd_per_month) == (None, None, None)
