"""The recommendation compared with the tier that a Space has: stay, move, or no tier suffices."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from lib.advisor.judge import price_offer
from lib.advisor.result import Entry, Recommendation, Rejection
from lib.catalog.offers import Offer, tier_of
from lib.catalog.rules import PlatformRules
from lib.provenance import Reason, Value
from lib.workload import Workload

Decision = Literal["stay", "move", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSizing:
    """The current tier under the workload, and what to do.

    `fits` is `None` where the tier is not known or no longer offered; then nothing is said about it. `saving_usd_per_month` is negative
    where the pick costs more, `None` where one of the two has no price.
    """

    decision: Decision
    fits: bool | None
    entry: Entry | None
    rejection: Rejection | None
    usd_per_month: Decimal | None
    saving_usd_per_month: Decimal | None
    reasons: tuple[Reason, ...]


def right_size(
    current: Offer | None, on_current: Recommendation | None, recommendation: Recommendation, rules: PlatformRules
) -> RightSizing:
    """Compare the pick of `recommendation` with the current tier; `on_current` is the recommendation in which that tier was judged.

    Raises:
        BadCatalog: the current tier is listed without a price.
    """
    entry = None if on_current is None or current is None else _entry(current, on_current)
    rejection = None if entry or on_current is None or current is None else _rejection(current, on_current)
    fits = True if entry else False if rejection else None
    month = _price_current(current, entry, recommendation.workload, rules)
    pick = recommendation.pick
    saving = None if month is None or pick is None else month - pick.cost.usd_per_month
    stays = pick is not None and current is not None and _tier(pick.offer) == _tier(current)
    enough = saving is not None and saving < 0 and _does_it_well(entry, recommendation)
    decision: Decision = "none" if pick is None else "stay" if stays or enough else "move"
    return RightSizing(
        decision=decision,
        fits=fits,
        entry=entry,
        rejection=rejection,
        usd_per_month=month,
        saving_usd_per_month=saving,
        reasons=tuple(_reasons(decision, current, entry, rejection, pick, saving)),
    )


def _price_current(current: Offer | None, entry: Entry | None, workload: Workload, rules: PlatformRules) -> Decimal | None:
    """USD per month of the current tier: with as many machines as the workload takes there, one where it is not known to do it."""
    if entry is not None:
        return entry.cost.usd_per_month
    return None if current is None or current.usd_per_hour is None else price_offer(current, workload, rules).usd_per_month


def _tier(offer: Offer) -> tuple[str, str]:
    return (offer.platform, tier_of(offer.id))


def _does_it_well(entry: Entry | None, recommendation: Recommendation) -> bool:
    """Whether the tier that is there does all that was asked with room to spare, so that nothing speaks for paying more.

    Weights in fewer bits are not a reason to move, unless another precision was asked for (then the tier does not do it); more speed is one
    only for those who put it first.
    """
    return entry is not None and entry.verdict == "comfortable" and recommendation.workload.priority != "fastest"


def _entry(current: Offer, judged: Recommendation) -> Entry | None:
    """The best-ranked configuration on the current tier."""
    return next((entry for entry in judged.ranked if _tier(entry.offer) == _tier(current)), None)


def _rejection(current: Offer, judged: Recommendation) -> Rejection | None:
    """Why the current tier does not do it; of several sizes the largest, which comes closest."""
    sizes = [one for one in judged.rejected if _tier(one.offer) == _tier(current)]
    return max(sizes, key=lambda one: one.offer.vram_bytes or 0, default=None)


def _reasons(
    decision: Decision,
    current: Offer | None,
    entry: Entry | None,
    rejection: Rejection | None,
    pick: Entry | None,
    saving: Decimal | None,
) -> list[Reason]:
    shared: dict[str, Value] = {"current": "no hardware" if current is None else _tier(current)[1]}
    if pick is None:
        return [Reason("nothing_else_fits" if entry else "nothing_fits_here", shared)]
    values = shared | {"pick": pick.offer.id}
    reasons = []
    if decision == "stay" and current is not None and entry is not None and _tier(pick.offer) != _tier(current):
        more = values | {"usd_per_month": abs(saving or Decimal(0))}
        return [Reason("stay_does_it", values), Reason(_better(entry, pick), values), Reason("costs_more", more)]
    if decision == "stay":
        reasons.append(Reason("stay", values))
        if current is not None and pick.offer.id != current.id:
            reasons.append(Reason("stay_declare_size", values | {"size": pick.offer.id}))
        return reasons
    if rejection is not None:
        reasons.append(Reason("current_does_not_do_it", values))
    elif entry is None:
        reasons.append(Reason("current_not_judged", values))
    elif saving is not None and saving <= 0:
        reasons.append(Reason(_better(entry, pick), values))
    if saving is not None:
        code = "saves" if saving > 0 else "costs_more" if saving < 0 else "costs_the_same"
        reasons.append(Reason(code, values | {"usd_per_month": abs(saving)}))
    if pick.offer.platform not in {"spaces", "zerogpu"}:
        reasons.append(Reason("pick_elsewhere", values | {"platform": pick.offer.platform}))
    return reasons


def _better(entry: Entry, pick: Entry) -> str:
    """What the pick gives that the current tier does not, when it is not the lower price."""
    if pick.step < entry.step:
        return "pick_keeps_precision"
    if entry.verdict == "tight" and pick.verdict == "comfortable":
        return "pick_has_room"
    if pick.speed.tokens_per_s and entry.speed.tokens_per_s and pick.speed.tokens_per_s > entry.speed.tokens_per_s:
        return "pick_is_faster"
    return "pick_ranks_first"
