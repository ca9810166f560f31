"""A switch of the hardware, checked against the platform's rules before anything is changed.

What an action would do to a Space and its bill: the first of the two steps, for the page and the command line.

A Space watched on its way: polled until it runs on the hardware that was asked for, or until an error stage; never for ever.

A stage that rests counts at once when the Space reached it under our eyes; one that was there from the start may still be the stage
before the action, and gets some seconds. The Hub may fail to answer a few times in a row; each failure is
reported, and the question is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Literal

from lib.advisor.space_rules import (
    SleepSetting,
    check_change,
    check_hosting,
    check_sdk,
    choose_sleep_time,
    describe_sleep,
    find_offer,
    find_stage,
    plan_sleep_with_switch,
    resolve_tier,
)
from lib.answers.common import SCHEMA, price_entry, source_entries, usd
from lib.answers.spaces import ActionPreview, Progress, TierEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.errors import HubError, HubGarbage, HubUnreachable, RateLimited
from lib.hub.space_answers import Runtime, Space
from lib.hub.spaces import Spaces
from lib.present import numbers
from lib.present.reason_words import stage_sentence
from lib.present.sentences import caveat_entries, sentence
from lib.provenance import Caveat, Value
from lib.service.endpoint import Time
from lib.service.space_status import free_cpu_caveats, is_changing, per_month, price, price_caveats, status_answer, tier_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch that the rules allow: the Space as it is, the tier with today's price, the sleep time to send."""

    space: Space
    offer: Offer
    sleep: SleepSetting
    catalog: Catalog
    caveats: tuple[Caveat, ...]


def plan_switch(
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
    plan_sleep_with_switch(
        resolve_tier(catalog, hardware).offer, catalog.rules.sleep.never_value if sleep_time_s is None else sleep_time_s, catalog.rules
    )
    space = spaces.look(space_id)
    fresh = today()
    target = resolve_tier(fresh, hardware)
    if sleep_time_s is None:
        sleep_time_s = choose_sleep_time(
            target.offer, find_offer(fresh, space.requested_hardware or space.hardware), space.sleep_time_s, fresh.rules
        )
    sleep = plan_sleep_with_switch(target.offer, sleep_time_s, fresh.rules)
    check_sdk(target.offer, space.id, space.sdk)
    check_change(target.offer, space.id, space.hardware, space.requested_hardware)
    caveats = [*target.caveats, *sleep.caveats, *_cautions(space, target.offer, sleep), *price_caveats(target.offer)]
    caveats += free_cpu_caveats(target.offer.id, fresh)
    if "hosting_limit" in target.offer.rules:
        caveats += _hosting(spaces, space, fresh) if signed_in else [Caveat("hosting_not_checked", variant="signed_out")]
    return Switch(space=space, offer=target.offer, sleep=sleep, catalog=fresh, caveats=tuple(caveats))


def _hosting(spaces: Spaces, space: Space, catalog: Catalog) -> list[Caveat]:
    """Hold the plan's limit against the Spaces that the owner hosts; what cannot be told is left to the platform, and said."""
    owner = space.id.partition("/")[0]
    try:
        who = spaces.account()
        plan = who.plan if who.name == owner else dict(who.organizations).get(owner)
        if plan is None or (who.name != owner and plan == "free"):
            return [Caveat("hosting_not_checked", {"owner": owner}, variant="plan")]
        hosted = spaces.zero_gpu_spaces(owner)
    except HubError as refusal:
        return [Caveat("hosting_not_checked", {"failure": str(refusal)})]
    check_hosting(catalog.rules, owner, plan, hosted)
    if plan != "free":
        return []
    needs = " and an ".join(catalog.rules.zerogpu.free_hosting_conditions)
    return [Caveat("hosting_conditions", {"needs": needs})]


def _cautions(space: Space, offer: Offer, sleep: SleepSetting) -> list[Caveat]:
    caveats = []
    if find_stage(space.stage).name == "PAUSED":
        caveats.append(Caveat("paused", {"space": space.id}))
    if space.replicas is not None and space.replicas > 1:
        replicas: dict[str, Value] = {"space": space.id, "replicas": space.replicas}
        caveats.append(Caveat("replicas", replicas, variant="billed" if offer.usd_per_hour else "unpaid"))
    if space.sleep_time_s is not None and space.sleep_time_s > 0 and sleep.seconds is not None and sleep.seconds != space.sleep_time_s:
        slept: dict[str, Value] = {"before_s": space.sleep_time_s, "after_s": sleep.seconds}
        caveats.append(Caveat("sleep_changes", slept, variant="never" if sleep.seconds < 0 else ""))
    if "paid_plan_to_create" in offer.rules:
        caveats.append(Caveat("cpu_basic_needs_plan"))
    if "prepaid_credits" in offer.rules:
        caveats.append(Caveat("needs_credits"))
    return caveats


Action = Literal["switch", "sleep", "pause", "restart"]
ACTIONS: tuple[Action, ...] = ("switch", "sleep", "pause", "restart")


def preview_switch(switch: Switch) -> ActionPreview:
    """What a switch that the rules allow would do."""
    space, offer, catalog = switch.space, switch.offer, switch.catalog
    now = find_offer(catalog, space.hardware)
    before = tier_entry(catalog, space.hardware, space.sleep_time_s)
    after = tier_entry(catalog, offer.id, switch.sleep.seconds)
    old, new = price(now), price(offer)
    effects = [
        f"{space.id} moves from {space.hardware or 'no hardware'} to {offer.id}: {_rate(new)} instead of {_rate(old)}.",
        "The app restarts on the new hardware; the time of a build is not billed.",
        sentence(describe_sleep(offer, switch.sleep.seconds, catalog.rules)),
    ]
    change = None if old is None or new is None else new - old
    return _preview(space, "switch", catalog, before, after, effects, change, switch.caveats, confirm=offer)


def preview_sleep(space: Space, seconds: int, catalog: Catalog, caveats: tuple[Caveat, ...]) -> ActionPreview:
    """What another sleep time would do."""
    flavor = space.requested_hardware or space.hardware
    before, after = tier_entry(catalog, flavor, space.sleep_time_s), tier_entry(catalog, flavor, seconds)
    effects = [sentence(describe_sleep(find_offer(catalog, flavor), seconds, catalog.rules))]
    return _preview(space, "sleep", catalog, before, after, effects, Decimal(0), caveats)


def preview_pause(space: Space, catalog: Catalog) -> ActionPreview:
    """What a pause would do."""
    tier = tier_entry(catalog, space.hardware, space.sleep_time_s)
    cost = price(find_offer(catalog, space.hardware))
    billed = find_stage(space.stage).billed
    effects = ["The app stops and visitors find it paused; only its owner can restart it.", "A paused Space is not billed."]
    change = Decimal(0) if billed is False else None if cost is None or billed is None else -cost
    return _preview(space, "pause", catalog, tier, tier, effects, change, ())


def preview_restart(space: Space, catalog: Catalog, *, factory: bool) -> ActionPreview:
    """What a restart would do: a paused or sleeping Space is billed again from then on."""
    flavor = space.requested_hardware or space.hardware
    tier = tier_entry(catalog, flavor, space.sleep_time_s)
    offer = find_offer(catalog, flavor)
    cost, billed = price(offer), find_stage(space.stage).billed
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
    replicas, at = max(1, space.replicas or 1), find_stage(space.stage)
    whole = None if change is None else change * replicas
    involved = [offer for flavor in (before["hardware"], after["hardware"]) if (offer := find_offer(catalog, flavor)) is not None]
    return {
        "schema": SCHEMA,
        "space": space.id,
        "action": action,
        "stage": at.name,
        "stage_message": stage_sentence(at.name),
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


FIRST_S, LONGEST_S, GROWTH = 2.0, 10.0, 1.15  # between two looks: 2 s at first, 10 s after about a minute
CROWDED_S = 30.0
BEAT_S = 15.0
GRACE_S = 30.0
FAILURES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What is known of the Space; `failures` looks in a row went wrong, the last one by `trouble`."""

    space: Space
    failures: int = 0
    trouble: HubError | None = None

    def next(self, look: Callable[[], Runtime]) -> _View:
        """After one more look.

        Raises:
            HubError: the Hub refuses, or failed too often in a row.
        """
        try:
            runtime = look()
        except (HubUnreachable, HubGarbage, RateLimited) as trouble:
            if self.failures >= FAILURES:
                raise
            return replace(self, failures=self.failures + 1, trouble=trouble)
        now = {field.name: getattr(runtime, field.name) for field in fields(Runtime) if field.name != "id"}
        return _View(space=replace(self.space, **now))

    def arrived(self, hardware: str | None) -> bool:
        """Whether it runs on what was asked for; without a name, on what the Hub says was asked for."""
        at = self.space
        return self.trouble is None and find_stage(at.stage).running and not is_changing(at) and hardware in {None, at.hardware}

    @property
    def rests(self) -> bool:
        """Whether nothing more will happen by itself, as far as this look tells."""
        at = find_stage(self.space.stage)
        return self.trouble is None and at.settled and not (at.running and is_changing(self.space))


def watch_space(
    spaces: Spaces, space_id: str, hardware: str | None, seconds: float, catalog: Callable[[], Catalog], time: Time
) -> Iterator[Progress]:
    """The Space at each change and at least every 15 s; the last item is `done`: arrived, at rest elsewhere, or `seconds` are over.

    Raises:
        HubError: the Hub refuses, or failed to answer too often in a row.
    """
    began = time.clock()
    view = first = _View(space=spaces.look(space_id))
    last_view: _View | None = None
    reported_s = looked = began
    pause = FIRST_S
    while True:
        now = time.clock()
        arrived = view.arrived(hardware)
        left = view.space.stage != first.space.stage or now - began >= GRACE_S
        done = arrived or (view.rests and left and not find_stage(view.space.stage).running) or now - began >= seconds
        done = done or (view.rests and now - began >= GRACE_S)  # it runs, and not on what was asked for
        if done or view != last_view or now - reported_s >= BEAT_S:
            yield _progress(view, catalog(), now - began, done=done, arrived=arrived)
            last_view, reported_s = view, time.clock()
        if done:
            return
        due = looked + (CROWDED_S if isinstance(view.trouble, RateLimited) else pause)
        time.sleep(max(0.05, min(due, reported_s + BEAT_S, began + seconds) - time.clock()))
        if time.clock() >= due:
            view, looked, pause = view.next(lambda: spaces.runtime(space_id)), time.clock(), min(LONGEST_S, pause * GROWTH)


def _progress(view: _View, catalog: Catalog, elapsed_s: float, *, done: bool, arrived: bool) -> Progress:
    trouble = None if view.trouble is None else str(view.trouble)
    return {
        **status_answer(view.space, catalog),
        "elapsed_s": round(elapsed_s, 1),
        "done": done,
        "arrived": arrived,
        "trouble": trouble,
    }
