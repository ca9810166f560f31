"""A switch of the hardware, checked against the platform's rules before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lib.advisor.space_rules import Sleep, check_change, check_hosting, check_sdk, kept_sleep, known, sleep_with, span, stage, tier
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.errors import HubError
from lib.hub.spaces import Space, Spaces
from lib.provenance import Caveat
from lib.service.space_answer import BILLED_EACH, price_caveats

MAX_HARDWARE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch that the rules allow: the Space as it is, the tier with today's price, the sleep time to send."""

    space: Space
    offer: Offer
    sleep: Sleep
    catalog: Catalog
    caveats: tuple[Caveat, ...]


def planned(
    spaces: Spaces,
    space_id: str,
    hardware: str,
    sleep_time_s: int | None,
    *,
    catalog: Catalog,
    today: Callable[[], Catalog],
    signed_in: bool,
) -> Switch:
    """Check a switch: first what needs no request, then the Space, then the price as the platform lists it now.

    A `sleep_time_s` of `None` keeps what the Space has on paid hardware.
    `catalog` answers at once, `today` asks the platform for its prices again, within a time limit.

    Raises:
        AgainstRules: the platform's rules forbid it.
        UnknownHardware: no tier is called so.
        HubError: the Space cannot be looked at.
    """
    sleep_with(tier(catalog, hardware).offer, catalog.rules.sleep.never_value if sleep_time_s is None else sleep_time_s, catalog.rules)
    space = spaces.look(space_id)
    fresh = today()
    target = tier(fresh, hardware)
    if sleep_time_s is None:
        sleep_time_s = kept_sleep(target.offer, known(fresh, space.requested_hardware or space.hardware), space.sleep_time_s, fresh.rules)
    sleep = sleep_with(target.offer, sleep_time_s, fresh.rules)
    check_sdk(target.offer, space.id, space.sdk)
    check_change(target.offer, space.id, space.hardware, space.requested_hardware)
    found = [*target.caveats, *sleep.caveats, *_cautions(space, target.offer, sleep), *price_caveats(target.offer)]
    if "hosting_limit" in target.offer.rules:
        found += _hosting(spaces, space, fresh) if signed_in else [_UNCHECKED]
    return Switch(space=space, offer=target.offer, sleep=sleep, catalog=fresh, caveats=tuple(found))


_UNCHECKED = Caveat(
    code="hosting_not_checked", message="How many ZeroGPU Spaces the owner may host depends on the plan; it is checked once you sign in."
)


def _hosting(spaces: Spaces, space: Space, catalog: Catalog) -> list[Caveat]:
    """Hold the plan's limit against the Spaces that the owner hosts; what cannot be told is left to the platform, and said."""
    owner = space.id.partition("/")[0]
    try:
        who = spaces.account()
        plan = who.plan if who.name == owner else dict(who.organizations).get(owner)
        if plan is None or (who.name != owner and plan == "free"):
            message = f"The plan of {owner} is not told by this token, so the limit of ZeroGPU Spaces is left to the platform."
            return [Caveat(code="hosting_not_checked", message=message)]
        hosted = spaces.zero_gpu_spaces(owner)
    except HubError as refusal:
        return [Caveat(code="hosting_not_checked", message=f"The limit of ZeroGPU Spaces was not checked: {refusal}")]
    check_hosting(catalog.rules, owner, plan, hosted)
    if plan != "free":
        return []
    needs = " and an ".join(catalog.rules.zerogpu.free_hosting_conditions)
    return [Caveat(code="hosting_conditions", message=f"A free account also needs a {needs} to host on ZeroGPU.")]


def _cautions(space: Space, offer: Offer, sleep: Sleep) -> list[Caveat]:
    found = []
    if stage(space.stage).name == "PAUSED":
        message = f"{space.id} is paused: whether a switch starts it is not documented; /restart_space does."
        found.append(Caveat(code="paused", message=message))
    if (space.replicas or 1) > 1:
        if not offer.usd_per_hour:
            message = f"{space.id} runs {space.replicas} replicas, which only paid hardware has; the platform decides what becomes of them."
            found.append(Caveat(code="replicas", message=message))
        else:
            found.append(Caveat(code="replicas", message=f"{space.id} runs {space.replicas} replicas. {BILLED_EACH.message}"))
    if space.sleep_time_s is not None and space.sleep_time_s > 0 and sleep.seconds is not None and sleep.seconds != space.sleep_time_s:
        then = "never sleep" if sleep.seconds < 0 else f"sleep after {span(sleep.seconds)}"
        message = f"Until now it slept after {span(space.sleep_time_s)} without a visit; with this switch it will {then}."
        found.append(Caveat(code="sleep_changes", message=message))
    if "paid_plan_to_create" in offer.rules:
        message = (
            "New Gradio and Docker Spaces on the free CPU are for PRO, Team and Enterprise accounts. Whether an existing Space of a free "
            "account may move there is not documented; the platform may answer that a payment or plan is needed."
        )
        found.append(Caveat(code="cpu_basic_needs_plan", message=message))
    if "prepaid_credits" in offer.rules:
        message = "Paid hardware needs a payment method and prepaid credits; it is billed by the minute while Starting or Running."
        found.append(Caveat(code="needs_credits", message=message))
    return found
