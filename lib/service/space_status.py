"""A Space as it is: `/space_status`, and a Space watched on its way.

The answer of the Hub is stated with the catalog's prices and the platform's rules.

A Space is polled until it runs on the hardware that was asked for, or until an error stage; never for ever. A stage that rests counts at
once when the Space reached it under our eyes; one that was there from the start may still be the stage before the action, and gets some
seconds. The Hub may fail to answer a few times in a row; each failure is reported, and the question is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Annotated

from lib.advisor.space_rules import HOURS_PER_MONTH, describe_sleep, find_offer, find_stage, resolve_sleep_time, resolve_tier
from lib.answers.spaces import ActionAnswer, SpaceProgress, SpaceStatus, TierEntry
from lib.catalog import Catalog
from lib.catalog.offers import FREE_CPU_TIER, Offer
from lib.cost.usage import reservation_values
from lib.errors import HubError, HubGarbage, HubUnreachable, RateLimited
from lib.hub.space_answers import Runtime, Space
from lib.present.sentences import sentence, stage_sentence
from lib.provenance import Caveat, Reason, Source, Value
from lib.request.checks import check_number, check_text
from lib.request.fields import Arguments, Checked
from lib.request.types import look_up_later
from lib.result import fields_of
from lib.service.endpoint import App, endpoint
from lib.service.reference import SpaceId


class SpaceArguments(Arguments):
    """Arguments of `/space_status`, and the first ones of every question about a Space."""

    space_id: SpaceId


@endpoint()
def space_status(app: App, arguments: SpaceArguments, *, token: str | None = None) -> SpaceStatus:
    """State of a Space, its hardware, and the price; public Spaces need no token.

    Returns:
        The Space's stage, hardware, prices, sleep time, replicas, volumes and linked models.
    """
    return status_answer(app.spaces(token or None).look(arguments.space_id), app.catalog())


def per_month(usd_per_hour: Decimal | None) -> Decimal | None:
    """Price of a month of 30 days around the clock."""
    return None if usd_per_hour is None else usd_per_hour * HOURS_PER_MONTH


def price(offer: Offer | None) -> Decimal | None:
    """Today's price per replica and hour, where the tier is known and offered."""
    return None if offer is None else offer.usd_per_hour


def tier_entry(catalog: Catalog, flavor: str | None, told_sleep_s: int | None) -> TierEntry:
    """A flavor that the Hub told, with what it costs; `told_sleep_s` is the Hub's word on its sleep (`None`: the default)."""
    offer = find_offer(catalog, flavor)
    return TierEntry(
        hardware=flavor,
        name=None if offer is None else offer.tier_name,
        usd_per_hour=price(offer),
        usd_per_month=per_month(price(offer)),
        sleep_time_s=resolve_sleep_time(offer, told_sleep_s, catalog.rules),
    )


def flavor_name(catalog: Catalog, flavor: str | None) -> str:
    """The tier's name; an id that the catalog lacks stays as it is; "" means none."""
    offer = find_offer(catalog, flavor)
    return flavor or "" if offer is None else offer.tier_name


def status_answer(space: Space, catalog: Catalog) -> SpaceStatus:
    """State of a Space, its hardware, and the price."""
    now, requested = find_offer(catalog, space.hardware), find_offer(catalog, space.requested_hardware)
    changing = is_changing(space)
    each = price(now)
    total = None if each is None else each * max(1, space.replicas or 1)
    at, bound_for = find_stage(space.stage), requested if changing else now
    return SpaceStatus(
        space=space.id,
        sdk=space.sdk,
        private=space.private,
        stage=at.name,
        stage_message=stage_sentence(at.name),
        settled=at.settled and not changing,
        failed=at.failed,
        error=space.error,
        billed_now=at.billed and space.sdk != "static" and (each is None or each > 0),  # free hardware is never billed
        hardware=space.hardware,
        hardware_name=None if now is None else now.tier_name,
        usd_per_hour=each,
        usd_per_month=per_month(each),
        requested_hardware=space.requested_hardware,
        requested_usd_per_hour=price(requested),
        requested_usd_per_month=per_month(price(requested)),
        changing=changing,
        sleep_time_s=resolve_sleep_time(bound_for, space.sleep_time_s, catalog.rules),
        sleep_message=sentence(describe_sleep(bound_for, space.sleep_time_s, catalog.rules)),
        replicas=space.replicas,
        requested_replicas=space.requested_replicas,
        total_usd_per_hour=total,
        total_usd_per_month=per_month(total),
        storage=space.storage,
        volumes=space.volumes,
        models=space.models,
        prices=catalog.prices["spaces"],
        caveats=_status_caveats(space, now, requested, catalog),
        sources=_sources(now, requested if changing else None, catalog),
    )


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
    return ActionAnswer(
        space=space_id,
        stage=at.name,
        stage_message=stage_sentence(at.name),
        hardware=after.hardware,
        requested_hardware=after.requested_hardware,
        usd_per_hour=price(offer),
        usd_per_month=per_month(price(offer)),
        sleep_time_s=resolve_sleep_time(offer, after.sleep_time_s, catalog.rules),
        prices=catalog.prices["spaces"],
        caveats=(*caveats, *price_caveats(offer)),
        sources=_sources(offer, None, catalog),
    )


def running_costs(space_id: str, after: Runtime, catalog: Catalog) -> tuple[Caveat, ...]:
    """The price from now on of a Space that was started; empty if it is free."""
    offer = find_offer(catalog, after.requested_hardware or after.hardware)
    if offer is None or not offer.usd_per_hour:
        return ()
    return (Caveat("billed", {"space": space_id, "usd_per_hour": offer.usd_per_hour, "hardware": offer.tier_name}),)


def price_caveats(offer: Offer | None) -> tuple[Caveat, ...]:
    """The caveat about a price that was not read from the platform's list today."""
    if offer is None or not offer.usd_per_hour or offer.price_basis == "live":
        return ()
    bundled: dict[str, Value] = {"hardware": offer.tier_name, "checked": offer.checked}
    return (Caveat("price_bundled", bundled, variant="" if offer.price_verified else "unverified"),)


def free_cpu_caveats(hardware: str | None, catalog: Catalog) -> tuple[Caveat, ...]:
    """How much of the free CPU a free account may run at once, where that is the hardware."""
    return (Caveat("cpu_units", {"units": catalog.rules.accounts.free_cpu_units}),) if hardware == FREE_CPU_TIER else ()


def _status_caveats(space: Space, now: Offer | None, requested: Offer | None, catalog: Catalog) -> tuple[Caveat, ...]:
    caveats = [*price_caveats(now), *free_cpu_caveats(space.hardware, catalog)]
    if space.hardware is not None and now is None:
        caveats.append(Caveat("tier_unknown", {"hardware": space.hardware}, variant="price"))
    if now is not None and now.status == "retired":
        caveats.append(Caveat("retired", {"hardware": now.tier_name, "since": str(now.since)}))
    if is_changing(space) and requested is not None:
        caveats.append(
            Caveat("changing", {"hardware": requested.tier_name, "current": flavor_name(catalog, space.hardware) or "no hardware"})
        )
    if (space.replicas or 1) > 1:
        caveats.append(Caveat("replicas"))
    if now is not None and now.traits.per_call:
        sleep = sentence(describe_sleep(now, space.sleep_time_s, catalog.rules))
        reservation = sentence(Reason("zerogpu_reservation", reservation_values(catalog.rules.zerogpu)))
        caveats.append(Caveat("zerogpu", {"sleep": sleep, "reservation": reservation}))
    if space.storage:
        caveats.append(Caveat("storage_retired"))
    return tuple(caveats)


def _sources(now: Offer | None, requested: Offer | None, catalog: Catalog) -> tuple[Source, ...]:
    offers = [offer for offer in (now, requested) if offer is not None]
    return (*(source for offer in offers for source in offer.sources), *catalog.rules.sleep.sources)


MAX_WATCH_S = 3_600
FIRST_S, LONGEST_S, GROWTH = 2.0, 10.0, 1.15  # between two looks: 2 s at first, 10 s after about a minute
CROWDED_S = 30.0
BEAT_S = 15.0
GRACE_S = 30.0
FAILURES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """State of the Space; `failures` looks in a row went wrong, the last one by `trouble`."""

    space: Space
    failures: int = 0
    trouble: HubError | None = None

    def next(self, look: Callable[[], Runtime]) -> _View:
        """After one more look."""
        try:
            runtime = look()
        except (HubUnreachable, HubGarbage, RateLimited) as trouble:
            if self.failures >= FAILURES:
                raise
            return replace(self, failures=self.failures + 1, trouble=trouble)
        now = {field.name: getattr(runtime, field.name) for field in fields(Runtime) if field.name != "id"}
        return _View(space=replace(self.space, **now))

    def has_arrived(self, hardware: str | None) -> bool:
        """Whether it runs on the named hardware; without a name, on the hardware that the Hub shows as requested."""
        at = self.space
        return self.trouble is None and find_stage(at.stage).running and not is_changing(at) and hardware in {None, at.hardware}

    @property
    def rests(self) -> bool:
        """Whether nothing more will happen by itself, as far as this look tells."""
        at = find_stage(self.space.stage)
        return self.trouble is None and at.settled and not (at.running and is_changing(self.space))


class WatchArguments(SpaceArguments):
    """Arguments of watching a Space."""

    hardware: Annotated[object, look_up_later(str)] = ""
    seconds: Annotated[
        float | None, Checked(lambda name, value: None if value is None else check_number(name, value, 0, MAX_WATCH_S), float | None)
    ] = None


def watch(app: App, arguments: WatchArguments, *, token: str | None = None) -> Iterator[SpaceProgress]:
    """The Space as it changes, until it runs on `hardware` (or on the requested one), rests in another stage, or `seconds` are over.

    It is given at each change and at least every 15 s. By default it is watched for as long as the platform gives an app to start. Closing
    the iterator ends it.

    Raises:
        HubError: the Hub refuses, or failed to answer too often in a row.
    """
    catalog = app.catalog()
    limit = catalog.rules.sleep.startup_timeout_s if arguments.seconds is None else arguments.seconds
    wanted = resolve_tier(catalog, check_text("hardware", arguments.hardware, "l4x1")).offer.id if arguments.hardware else None
    spaces, clock = app.spaces(token or None), app.time.clock
    began = clock()
    view = first = _View(space=spaces.look(arguments.space_id))
    last_view: _View | None = None
    reported_s = looked = began
    pause = FIRST_S
    while True:
        now = clock()
        arrived = view.has_arrived(wanted)
        left = view.space.stage != first.space.stage or now - began >= GRACE_S
        done = arrived or (view.rests and left and not find_stage(view.space.stage).running) or now - began >= limit
        done = done or (view.rests and now - began >= GRACE_S)  # it runs, and not on what was asked for
        if done or view != last_view or now - reported_s >= BEAT_S:
            trouble = None if view.trouble is None else str(view.trouble)
            status = fields_of(status_answer(view.space, app.catalog()))
            yield SpaceProgress(**status, elapsed_s=round(now - began, 1), done=done, arrived=arrived, trouble=trouble)
            last_view, reported_s = view, clock()
        if done:
            return
        due = looked + (CROWDED_S if isinstance(view.trouble, RateLimited) else pause)
        app.time.sleep(max(0.05, min(due, reported_s + BEAT_S, began + limit) - clock()))
        if clock() >= due:
            view, looked, pause = view.next(lambda: spaces.runtime(arguments.space_id)), clock(), min(LONGEST_S, pause * GROWTH)
