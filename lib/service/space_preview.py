"""What an action would do to a Space and its bill: the first of the two steps, for the page and the command line."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from lib.advisor.space_rules import known, sleep_words, stage
from lib.answers.common import SCHEMA
from lib.answers.spaces import ActionPreview, TierEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.hub.spaces import Space
from lib.present import numbers
from lib.provenance import Caveat
from lib.service.space_answer import per_month, price, price_caveats, tier_entry
from lib.service.space_switch import Switch
from lib.service.wire import caveat_entries, price_entry, source_entries, usd

Action = Literal["switch", "sleep", "pause", "restart"]
ACTIONS: tuple[Action, ...] = ("switch", "sleep", "pause", "restart")


def preview_switch(switch: Switch) -> ActionPreview:
    """What a switch that the rules allow would do."""
    space, offer, catalog = switch.space, switch.offer, switch.catalog
    now = known(catalog, space.hardware)
    before = tier_entry(catalog, space.hardware, space.sleep_time_s)
    after = tier_entry(catalog, offer.id, switch.sleep.seconds)
    old, new = price(now), price(offer)
    effects = [
        f"{space.id} moves from {space.hardware or 'no hardware'} to {offer.id}: {_rate(new)} instead of {_rate(old)}.",
        "The app restarts on the new hardware; the time of a build is not billed.",
        sleep_words(offer, switch.sleep.seconds, catalog.rules),
    ]
    change = None if old is None or new is None else new - old
    return _preview(space, "switch", catalog, before, after, effects, change, switch.caveats, confirm=offer)


def preview_sleep(space: Space, seconds: int, catalog: Catalog, caveats: tuple[Caveat, ...]) -> ActionPreview:
    """What another sleep time would do."""
    flavor = space.requested_hardware or space.hardware
    before, after = tier_entry(catalog, flavor, space.sleep_time_s), tier_entry(catalog, flavor, seconds)
    effects = [sleep_words(known(catalog, flavor), seconds, catalog.rules)]
    return _preview(space, "sleep", catalog, before, after, effects, Decimal(0), caveats)


def preview_pause(space: Space, catalog: Catalog) -> ActionPreview:
    """What a pause would do."""
    tier = tier_entry(catalog, space.hardware, space.sleep_time_s)
    cost = price(known(catalog, space.hardware))
    billed = stage(space.stage).billed
    effects = ["The app stops and visitors find it paused; only its owner can restart it.", "A paused Space is not billed."]
    change = Decimal(0) if billed is False else None if cost is None or billed is None else -cost
    return _preview(space, "pause", catalog, tier, tier, effects, change, ())


def preview_restart(space: Space, catalog: Catalog, *, factory: bool) -> ActionPreview:
    """What a restart would do: a paused or sleeping Space is billed again from then on."""
    flavor = space.requested_hardware or space.hardware
    tier = tier_entry(catalog, flavor, space.sleep_time_s)
    offer = known(catalog, flavor)
    cost, billed = price(offer), stage(space.stage).billed
    how = "It is built from scratch, without what earlier builds left, and starts anew." if factory else "The app starts anew."
    bill = "not billed" if cost == 0 else f"billed {_rate(cost)} from the start of the app on"
    effects = [how, f"On {flavor or 'its hardware'} it is {bill}."]
    change = Decimal(0) if billed else None if cost is None or billed is None else cost
    return _preview(space, "restart", catalog, tier, tier, effects, change, price_caveats(offer))


def _rate(usd_per_hour: Decimal | None) -> str:
    if usd_per_hour is None:
        return "a price that is not known here"
    return "nothing" if usd_per_hour == 0 else f"{numbers.usd(usd_per_hour)} an hour"


def _preview(
    space: Space,
    action: Action,
    catalog: Catalog,
    before: TierEntry,
    after: TierEntry,
    effects: list[str],
    change: Decimal | None,
    caveats: tuple[Caveat, ...],
    confirm: Offer | None = None,
) -> ActionPreview:
    replicas, at = max(1, space.replicas or 1), stage(space.stage)
    whole = None if change is None else change * replicas
    involved = [offer for flavor in (before["hardware"], after["hardware"]) if (offer := known(catalog, flavor)) is not None]
    return {
        "schema": SCHEMA,
        "space": space.id,
        "action": action,
        "stage": at.name,
        "stage_message": at.words,
        "before": before,
        "after": after,
        "confirm_usd_per_hour": None if confirm is None else usd(confirm.usd_per_hour),
        "change_usd_per_hour": usd(whole),
        "change_usd_per_month": usd(per_month(whole)),
        "replicas": replicas,
        "effects": effects,
        "prices": price_entry(catalog.prices["spaces"]),
        "caveats": caveat_entries(caveats),
        "sources": source_entries((*(source for offer in involved for source in offer.sources), *catalog.rules.sleep.sources)),
    }
