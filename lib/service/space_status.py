"""What the Hub told about a Space, beside the catalog's prices and the platform's rules, as plain JSON."""

from __future__ import annotations

from decimal import Decimal

from lib.advisor.space_rules import HOURS_PER_MONTH, describe_sleep, find_offer, find_stage, resolve_sleep_time
from lib.answers.common import SCHEMA, price_entry, source_entries, usd
from lib.answers.spaces import ActionAnswer, SpaceStatus, TierEntry
from lib.catalog import Catalog
from lib.catalog.offers import FREE_CPU_TIER, ZEROGPU_TIER, Offer
from lib.cost.usage import reservation_values
from lib.hub.space_answers import Runtime, Space
from lib.present.reason_words import stage_sentence
from lib.present.sentences import caveat_entries, sentence
from lib.provenance import Caveat, Reason, Source, Value
from lib.service.arguments import Arguments
from lib.service.endpoint import App, SpaceId


class SpaceArguments(Arguments):
    """Arguments of `/space_status`, and the first of whatever else is about a Space."""

    space_id: SpaceId


def space_status(app: App, arguments: SpaceArguments, *, token: str | None = None) -> SpaceStatus:
    """What a Space is doing, on which hardware, and what that costs; public Spaces need no token.

    Returns:
        The Space's stage, hardware, prices, sleep time, replicas, volumes and linked models.
    """
    return status_answer(app.spaces(token or None).look(arguments.space_id), app.catalog())


def per_month(usd_per_hour: Decimal | None) -> Decimal | None:
    """What a month of 30 days around the clock costs."""
    return None if usd_per_hour is None else usd_per_hour * HOURS_PER_MONTH


def price(offer: Offer | None) -> Decimal | None:
    """Today's price per replica and hour, where the tier is known and offered."""
    return None if offer is None else offer.usd_per_hour


def tier_entry(catalog: Catalog, flavor: str | None, told_sleep_s: int | None) -> TierEntry:
    """A flavor that the Hub told, with what it costs; `told_sleep_s` is the Hub's word on its sleep (`None`: the default)."""
    offer = find_offer(catalog, flavor)
    return {
        "hardware": flavor,
        "name": None if offer is None else tier_name(offer),
        "usd_per_hour": usd(price(offer)),
        "usd_per_month": usd(per_month(price(offer))),
        "sleep_time_s": resolve_sleep_time(offer, told_sleep_s, catalog.rules),
    }


def tier_name(offer: Offer) -> str:
    """The tier's name; ZeroGPU is one tier with two sizes."""
    return "ZeroGPU" if offer.id == ZEROGPU_TIER else offer.name


def status_answer(space: Space, catalog: Catalog) -> SpaceStatus:
    """What a Space is doing, on what, and what that costs."""
    now, requested = find_offer(catalog, space.hardware), find_offer(catalog, space.requested_hardware)
    changing = is_changing(space)
    each = price(now)
    total = None if each is None else each * max(1, space.replicas or 1)
    at, bound_for = find_stage(space.stage), requested if changing else now
    return {
        "schema": SCHEMA,
        "space": space.id,
        "sdk": space.sdk,
        "private": space.private,
        "stage": at.name,
        "stage_message": stage_sentence(at.name),
        "settled": at.settled and not changing,
        "failed": at.failed,
        "error": space.error,
        "billed_now": at.billed and space.sdk != "static" and (each is None or each > 0),  # what is free is not billed, running or not
        "hardware": space.hardware,
        "hardware_name": None if now is None else tier_name(now),
        "usd_per_hour": usd(each),
        "usd_per_month": usd(per_month(each)),
        "requested_hardware": space.requested_hardware,
        "requested_usd_per_hour": usd(price(requested)),
        "requested_usd_per_month": usd(per_month(price(requested))),
        "changing": changing,
        "sleep_time_s": resolve_sleep_time(bound_for, space.sleep_time_s, catalog.rules),
        "sleep_message": sentence(describe_sleep(bound_for, space.sleep_time_s, catalog.rules)),
        "replicas": space.replicas,
        "requested_replicas": space.requested_replicas,
        "total_usd_per_hour": usd(total),
        "total_usd_per_month": usd(per_month(total)),
        "storage": space.storage,
        "volumes": [
            {"type": one.type, "source": one.source, "mount_path": one.mount_path, "read_only": one.read_only} for one in space.volumes
        ],
        "models": list(space.models),
        "prices": price_entry(catalog.prices["spaces"]),
        "caveats": caveat_entries(_caveats(space, now, requested, catalog)),
        "sources": source_entries(_sources(now, requested if changing else None, catalog)),
    }


def is_changing(space: Runtime) -> bool:
    """Whether other hardware than the current was asked for; a Space at rest (paused, asleep) has none, which is not a change."""
    if space.requested_hardware is None or space.requested_hardware == space.hardware:
        return False
    return space.hardware is not None or not find_stage(space.stage).settled


def action_answer(space_id: str, after: Runtime, catalog: Catalog, caveats: tuple[Caveat, ...] = ()) -> ActionAnswer:
    """The state right after an action."""
    flavor = after.requested_hardware or after.hardware
    offer = find_offer(catalog, flavor)
    at = find_stage(after.stage)
    return {
        "schema": SCHEMA,
        "space": space_id,
        "stage": at.name,
        "stage_message": stage_sentence(at.name),
        "hardware": after.hardware,
        "requested_hardware": after.requested_hardware,
        "usd_per_hour": usd(price(offer)),
        "usd_per_month": usd(per_month(price(offer))),
        "sleep_time_s": resolve_sleep_time(offer, after.sleep_time_s, catalog.rules),
        "prices": price_entry(catalog.prices["spaces"]),
        "caveats": caveat_entries((*caveats, *price_caveats(offer))),
        "sources": source_entries(_sources(offer, None, catalog)),
    }


def running_costs(space_id: str, after: Runtime, catalog: Catalog) -> tuple[Caveat, ...]:
    """What a Space that was started costs from now on, where that is something."""
    offer = find_offer(catalog, after.requested_hardware or after.hardware)
    if offer is None or not offer.usd_per_hour:
        return ()
    return (Caveat("billed", {"space": space_id, "usd_per_hour": offer.usd_per_hour, "hardware": offer.id}),)


def price_caveats(offer: Offer | None) -> tuple[Caveat, ...]:
    """What to tell about a price that was not read from the platform's own list today."""
    if offer is None or not offer.usd_per_hour or offer.price_basis == "live":
        return ()
    bundled: dict[str, Value] = {"hardware": offer.id, "checked": offer.checked}
    return (Caveat("price_bundled", bundled, variant="" if offer.price_verified else "unverified"),)


def free_cpu_caveats(hardware: str | None, catalog: Catalog) -> tuple[Caveat, ...]:
    """How much of the free CPU a free account may run at once, where that is the hardware."""
    return (Caveat("cpu_units", {"units": catalog.rules.accounts.free_cpu_units}),) if hardware == FREE_CPU_TIER else ()


def _caveats(space: Space, now: Offer | None, requested: Offer | None, catalog: Catalog) -> tuple[Caveat, ...]:
    caveats = [*price_caveats(now), *free_cpu_caveats(space.hardware, catalog)]
    if space.hardware is not None and now is None:
        caveats.append(Caveat("tier_unknown", {"hardware": space.hardware}, variant="price"))
    if now is not None and now.status == "retired":
        caveats.append(Caveat("retired", {"hardware": now.id, "since": str(now.since)}))
    if is_changing(space) and requested is not None:
        caveats.append(Caveat("changing", {"hardware": requested.id, "current": space.hardware or "no hardware"}))
    if (space.replicas or 1) > 1:
        caveats.append(Caveat("replicas"))
    if now is not None and now.platform == "zerogpu":
        sleep = sentence(describe_sleep(now, space.sleep_time_s, catalog.rules))
        caveats.append(
            Caveat(
                "zerogpu",
                {"sleep": sleep, "reservation": sentence(Reason("zerogpu_reservation", reservation_values(catalog.rules.zerogpu)))},
            )
        )
    if space.storage:
        caveats.append(Caveat("storage_retired"))
    return tuple(caveats)


def _sources(now: Offer | None, requested: Offer | None, catalog: Catalog) -> tuple[Source, ...]:
    offers = [offer for offer in (now, requested) if offer is not None]
    return (*(source for offer in offers for source in offer.sources), *catalog.rules.sleep.sources)
