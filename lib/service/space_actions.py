"""The actions on a Space: switch its hardware, let it sleep, pause it, restart it; and what each would do, the first of two steps.

Everything that changes something needs the caller's own token, which lives as long as the call: it is handed to `lib.hub.spaces` and
is in no result, message or log. What the platform's rules forbid is refused before the Hub is asked to do it; what the Hub then
says is passed on, and no action is tried twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

from lib.advisor import space_rules
from lib.answers.spaces import ActionAnswer, ActionPreview, SwitchAnswer, TierEntry
from lib.catalog import Catalog
from lib.catalog.offers import Offer
from lib.errors import BadArgument, HubError
from lib.hub.space_answers import Space
from lib.hub.spaces import Spaces
from lib.present.sentences import sentence, stage_sentence
from lib.provenance import Caveat, Reason, Value
from lib.request.checks import check_text, check_whole
from lib.request.fields import Checked, decimal_number, one_of
from lib.request.types import Flag, look_up_later, own_token
from lib.result import fields_of
from lib.service import space_status
from lib.service.endpoint import App, endpoint

NEVER = -1
MAX_SLEEP_S = 366 * 86_400
MAX_USD_PER_HOUR = 10_000
Action = Literal["switch", "sleep", "pause", "restart"]
ACTIONS: tuple[Action, ...] = ("switch", "sleep", "pause", "restart")


def _sleep_seconds(name: str, value: object) -> int:
    """A sleep time; 0 could mean at once or never, so it is refused."""
    seconds = check_whole(name, value, NEVER, MAX_SLEEP_S)
    if seconds == 0:
        raise BadArgument(name, "0", f"-1 for never, or whole seconds from 1 to {MAX_SLEEP_S:,}")
    return seconds


SleepSeconds = Annotated[int, Checked(_sleep_seconds, int)]
SleepSecondsOrCurrent = Annotated[
    int | None, Checked(lambda name, value: None if value is None else _sleep_seconds(name, value), int | None)
]
"""The sleep time of a switch; None keeps what the Space has."""


class SwitchArguments(space_status.SpaceArguments):
    """Arguments of `/switch_hardware`."""

    hardware: Annotated[str, Checked(lambda name, value: check_text(name, value, "l4x1"), str)]
    """The tier to switch to, such as l4x1."""
    confirm_usd_per_hour: Annotated[Decimal, decimal_number(0, MAX_USD_PER_HOUR)]
    """Today's price of that tier as /list_hardware shows it; any other figure is refused."""
    sleep_time_s: SleepSecondsOrCurrent = NEVER
    """Seconds without a visit until it sleeps; -1 is never, where the tier leaves the choice; null keeps what it has."""


@endpoint(writes=True, destroys=True)
def switch_hardware(
    app: App, arguments: SwitchArguments, *, token: Annotated[str, own_token("switch the hardware of a Space")]
) -> SwitchAnswer:
    """Switch a Space to another tier, with your own token. The app restarts, and paid hardware is billed from then on.

    Returns:
        The tier before, the one that was asked for, and the stage.
    """
    spaces = app.spaces(token)
    switch = _plan_switch(app, token, arguments.space_id, arguments.hardware, arguments.sleep_time_s)
    space_rules.confirm_price(switch.offer, arguments.confirm_usd_per_hour)
    after = spaces.switch(switch.space.id, switch.offer.id, switch.sleep.seconds)
    sleep_time_s = after.sleep_time_s if after.sleep_time_s is not None else switch.sleep.seconds
    return SwitchAnswer(
        **fields_of(space_status.action_answer(switch.space.id, after, switch.catalog, switch.caveats)),
        before=space_status.tier_entry(switch.catalog, switch.space.hardware, switch.space.sleep_time_s),
        after=space_status.tier_entry(switch.catalog, switch.offer.id, sleep_time_s),
    )


class SleepArguments(space_status.SpaceArguments):
    """Arguments of `/set_sleep_time`."""

    seconds: SleepSeconds
    """Seconds without a visit until it sleeps; -1 is never."""


@endpoint(writes=True)
def set_sleep_time(
    app: App, arguments: SleepArguments, *, token: Annotated[str, own_token("set the sleep time of a Space")]
) -> ActionAnswer:
    """Set after how many seconds without a visit a Space on paid hardware falls asleep, with your own token.

    Returns:
        The Space's stage, hardware and sleep time right after.
    """
    spaces, catalog = app.spaces(token), app.catalog()
    space = spaces.look(arguments.space_id)
    space_rules.check_sdk(None, space.id, space.sdk)
    sleep = _plan_sleep(space, arguments.seconds, catalog)
    return space_status.action_answer(space.id, spaces.sleep(space.id, arguments.seconds), catalog, sleep.caveats)


def _plan_sleep(space: Space, seconds: int, catalog: Catalog) -> space_rules.SleepSetting:
    return space_rules.plan_sleep_change(
        space_rules.find_offer(catalog, space.requested_hardware or space.hardware), space.id, seconds, catalog.rules
    )


@endpoint(writes=True, destroys=True)
def pause_space(app: App, arguments: space_status.SpaceArguments, *, token: Annotated[str, own_token("pause a Space")]) -> ActionAnswer:
    """Pause a Space, with your own token: it stops, is not billed, and only its owner can restart it.

    Returns:
        The Space's stage, hardware and sleep time right after.
    """
    return space_status.action_answer(arguments.space_id, app.spaces(token).pause(arguments.space_id), app.catalog())


class RestartArguments(space_status.SpaceArguments):
    """Arguments of `/restart_space`."""

    factory: Flag = False
    """Build it from scratch, without what earlier builds left."""


@endpoint(writes=True, destroys=True, repeatable=False)
def restart_space(app: App, arguments: RestartArguments, *, token: Annotated[str, own_token("restart a Space")]) -> ActionAnswer:
    """Restart a Space, with your own token; one that was paused is billed again at its tier's price.

    Returns:
        The Space's stage, hardware and sleep time right after.
    """
    catalog = app.catalog()
    after = app.spaces(token).restart(arguments.space_id, factory=arguments.factory)
    return space_status.action_answer(arguments.space_id, after, catalog, space_status.running_costs(arguments.space_id, after, catalog))


class PreviewArguments(space_status.SpaceArguments):
    """Arguments of the preview of an action."""

    action: Annotated[Action, one_of(ACTIONS)]
    hardware: Annotated[object, look_up_later(str)] = ""
    sleep_time_s: SleepSecondsOrCurrent = NEVER
    factory: Flag = False


def preview(app: App, arguments: PreviewArguments, *, token: str | None = None) -> ActionPreview:
    """Show the effect of an action (switch, sleep, pause, restart) and the price to confirm; refused as the action would be.

    Public Spaces need no token here; without one the limits of the owner's plan are not checked.
    """
    if arguments.action == "switch":
        hardware = check_text("hardware", arguments.hardware, "l4x1")
        return _preview_switch(_plan_switch(app, token, arguments.space_id, hardware, arguments.sleep_time_s))
    seconds = _sleep_seconds("sleep_time_s", arguments.sleep_time_s)
    space, catalog = app.spaces(token or None).look(arguments.space_id), app.catalog()
    space_rules.check_sdk(None, space.id, space.sdk)
    if arguments.action == "pause":
        return _preview_pause(space, catalog)
    if arguments.action == "restart":
        return _preview_restart(space, catalog, factory=arguments.factory)
    return _preview_sleep(space, seconds, catalog)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch that the rules allow: the Space as it is, the tier with today's price, the sleep time to send."""

    space: Space
    offer: Offer
    sleep: space_rules.SleepSetting
    catalog: Catalog
    caveats: tuple[Caveat, ...]


def _plan_switch(app: App, token: str | None, space_id: str, hardware: str, sleep_time_s: int | None) -> Switch:
    """Check a switch: first what needs no request, then the Space, then the price as the platform lists it now, within a time limit.

    A `sleep_time_s` of `None` keeps what the Space has on paid hardware.
    """
    spaces, catalog = app.spaces(token or None), app.catalog()
    first_sleep_s = catalog.rules.sleep.never_value if sleep_time_s is None else sleep_time_s
    space_rules.plan_sleep_with_switch(space_rules.resolve_tier(catalog, hardware).offer, first_sleep_s, catalog.rules)
    space, catalog = spaces.look(space_id), (app.refreshed_catalog or app.catalog)()
    target = space_rules.resolve_tier(catalog, hardware)
    offer = target.offer
    if sleep_time_s is None:
        current = space_rules.find_offer(catalog, space.requested_hardware or space.hardware)
        sleep_time_s = space_rules.choose_sleep_time(offer, current, space.sleep_time_s, catalog.rules)
    sleep = space_rules.plan_sleep_with_switch(offer, sleep_time_s, catalog.rules)
    space_rules.check_sdk(offer, space.id, space.sdk)
    space_rules.check_change(offer, space.id, space.hardware, space.requested_hardware)
    caveats = [
        *target.caveats,
        *sleep.caveats,
        *_cautions(space, offer, sleep),
        *space_status.price_caveats(offer),
        *space_status.free_cpu_caveats(offer.id, catalog),
    ]
    if "hosting_limit" in offer.rules:
        caveats += _hosting(spaces, space, catalog) if token else [Caveat("hosting_not_checked", variant="signed_out")]
    return Switch(space=space, offer=offer, sleep=sleep, catalog=catalog, caveats=tuple(caveats))


def _hosting(spaces: Spaces, space: Space, catalog: Catalog) -> list[Caveat]:
    """Hold the plan's limit against the Spaces that the owner hosts; a limit that is not known is left to the platform, with a caveat."""
    owner = space.id.partition("/")[0]
    try:
        who = spaces.account()
        plan = who.plan if who.name == owner else dict(who.organizations).get(owner)
        if plan is None or (who.name != owner and plan == "free"):
            return [Caveat("hosting_not_checked", {"owner": owner}, variant="plan")]
        hosted = spaces.zero_gpu_spaces(owner)
    except HubError as refusal:
        return [Caveat("hosting_not_checked", {"failure": str(refusal)})]
    space_rules.check_hosting(catalog.rules, owner, plan, hosted)
    needs = " and an ".join(catalog.rules.zerogpu.free_hosting_conditions)
    return [Caveat("hosting_conditions", {"needs": needs})] if plan == "free" else []


def _cautions(space: Space, offer: Offer, sleep: space_rules.SleepSetting) -> list[Caveat]:
    caveats = []
    if space_rules.find_stage(space.stage).name == "PAUSED":
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


def _preview_switch(switch: Switch) -> ActionPreview:
    space, offer, catalog = switch.space, switch.offer, switch.catalog
    old, new = space_status.price(space_rules.find_offer(catalog, space.hardware)), space_status.price(offer)
    effects = (
        Reason(
            "hardware_changes",
            {
                "space": space.id,
                "before": space_status.flavor_name(catalog, space.hardware),
                "before_usd_per_hour": "" if old is None else old,
                "after": offer.tier_name,
                "after_usd_per_hour": "" if new is None else new,
            },
        ),
        Reason("restarts_on_new_hardware"),
        space_rules.describe_sleep(offer, switch.sleep.seconds, catalog.rules),
    )
    change = None if old is None or new is None else new - old
    before, after = (
        space_status.tier_entry(catalog, space.hardware, space.sleep_time_s),
        space_status.tier_entry(catalog, offer.id, switch.sleep.seconds),
    )
    return _preview(space, "switch", catalog, before, after, effects, change, switch.caveats, confirm=offer)


def _preview_sleep(space: Space, seconds: int, catalog: Catalog) -> ActionPreview:
    flavor = space.requested_hardware or space.hardware
    effects = (space_rules.describe_sleep(space_rules.find_offer(catalog, flavor), seconds, catalog.rules),)
    before, after = space_status.tier_entry(catalog, flavor, space.sleep_time_s), space_status.tier_entry(catalog, flavor, seconds)
    return _preview(space, "sleep", catalog, before, after, effects, Decimal(0), _plan_sleep(space, seconds, catalog).caveats)


def _preview_pause(space: Space, catalog: Catalog) -> ActionPreview:
    cost, billed = space_status.price(space_rules.find_offer(catalog, space.hardware)), space_rules.find_stage(space.stage).billed
    effects = Reason("app_stops"), Reason("paused_is_free")
    change = Decimal(0) if billed is False else None if cost is None or billed is None else -cost
    tier = space_status.tier_entry(catalog, space.hardware, space.sleep_time_s)
    return _preview(space, "pause", catalog, tier, tier, effects, change, ())


def _preview_restart(space: Space, catalog: Catalog, *, factory: bool) -> ActionPreview:
    """A paused or sleeping Space is billed again from then on."""
    flavor = space.requested_hardware or space.hardware
    offer = space_rules.find_offer(catalog, flavor)
    cost, billed = space_status.price(offer), space_rules.find_stage(space.stage).billed
    change = Decimal(0) if billed else None if cost is None or billed is None else cost
    tier = space_status.tier_entry(catalog, flavor, space.sleep_time_s)
    bill: dict[str, Value] = {"hardware": space_status.flavor_name(catalog, flavor), "usd_per_hour": "" if cost is None else cost}
    effects = (
        Reason("app_restarts", variant="factory" if factory else ""),
        Reason("billed_again", bill, variant="free" if cost == 0 else ""),
    )
    return _preview(space, "restart", catalog, tier, tier, effects, change, space_status.price_caveats(offer))


def _preview(
    space: Space,
    action: Action,
    catalog: Catalog,
    before: TierEntry,
    after: TierEntry,
    effects: tuple[Reason, ...],
    change: Decimal | None,
    caveats: tuple[Caveat, ...],
    confirm: Offer | None = None,
) -> ActionPreview:
    replicas, at = max(1, space.replicas or 1), space_rules.find_stage(space.stage)
    whole = None if change is None else change * replicas
    involved = [offer for flavor in (before.hardware, after.hardware) if (offer := space_rules.find_offer(catalog, flavor)) is not None]
    return ActionPreview(
        space=space.id,
        action=action,
        stage=at.name,
        stage_message=stage_sentence(at.name),
        before=before,
        after=after,
        confirm_usd_per_hour=space_status.price(confirm),
        change_usd_per_hour=whole,
        change_usd_per_month=space_status.per_month(whole),
        replicas=replicas,
        effects=tuple(map(sentence, effects)),
        prices=catalog.prices["spaces"],
        caveats=caveats,
        sources=(*(source for offer in involved for source in offer.sources), *catalog.rules.sleep.sources),
    )
