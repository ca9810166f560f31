"""The actions on a Space: switch its hardware, let it sleep, pause it, restart it; what each would do, and watching one.

Everything that changes something needs the caller's own token, which lives as long as the call: it is handed to `lib.hub.spaces` and
stands in no result, message or log. What the platform's rules forbid is refused before the Hub is asked to do it; what the Hub then
says is passed on, and no action is tried twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated

from lib.advisor.space_rules import check_sdk, confirm_price, find_offer, plan_sleep_change, resolve_tier
from lib.answers.spaces import ActionAnswer, ActionPreview, Progress, SwitchAnswer
from lib.errors import BadArgument
from lib.service.arguments import (
    Checked,
    Flag,
    argument,
    check_number,
    check_text,
    check_whole,
    decimal_number,
    look_up_later,
    one_of,
    own_token,
)
from lib.service.endpoint import App
from lib.service.space_actions import (
    ACTIONS,
    Action,
    Switch,
    plan_switch,
    preview_pause,
    preview_restart,
    preview_sleep,
    preview_switch,
    watch_space,
)
from lib.service.space_status import SpaceArguments, action_answer, running_costs, tier_entry

NEVER = -1
MAX_SLEEP_S = 366 * 86_400
MAX_USD_PER_HOUR = 10_000
MAX_WATCH_S = 3_600


def _sleep_seconds(name: str, value: object) -> int:
    """A sleep time; 0 could mean at once or never, so it is refused."""
    seconds = check_whole(name, value, NEVER, MAX_SLEEP_S)
    if seconds == 0:
        raise BadArgument(name, "0", f"-1 for never, or whole seconds from 1 to {MAX_SLEEP_S:,}")
    return seconds


def _sleep_seconds_or_kept(name: str, value: object) -> int | None:
    """The sleep time of a switch; None keeps what the Space has."""
    return None if value is None else _sleep_seconds(name, value)


def _tier(name: str, value: object) -> str:
    return check_text(name, value, "l4x1")


Tier = Annotated[str, Checked(_tier, str)]
SleepSeconds = Annotated[int, Checked(_sleep_seconds, int)]
SleepSecondsOrKept = Annotated[int | None, Checked(_sleep_seconds_or_kept, int | None)]


class SwitchArguments(SpaceArguments):
    """Arguments of `/switch_hardware`."""

    hardware: Tier = argument(..., "the tier to switch to, such as l4x1")
    confirm_usd_per_hour: Annotated[Decimal, decimal_number(0, MAX_USD_PER_HOUR)] = argument(
        ..., "today's price of that tier as /list_hardware shows it; any other figure is refused"
    )
    sleep_time_s: SleepSecondsOrKept = argument(
        NEVER, "seconds without a visit until it sleeps; -1 is never, where the tier leaves the choice; null keeps what it has"
    )


def switch_hardware(
    app: App, arguments: SwitchArguments, *, token: Annotated[str, own_token("switch the hardware of a Space")]
) -> SwitchAnswer:
    """Switch a Space to another tier, with your own token. The app restarts, and paid hardware is billed from then on.

    Returns:
        The tier before, the one that was asked for, and the stage.
    """
    spaces = app.spaces(token)
    switch = _plan_switch(app, token, arguments.space_id, arguments.hardware, arguments.sleep_time_s)
    confirm_price(switch.offer, arguments.confirm_usd_per_hour)
    after = spaces.switch(switch.space.id, switch.offer.id, switch.sleep.seconds)
    sleep_time_s = after.sleep_time_s if after.sleep_time_s is not None else switch.sleep.seconds
    return {
        **action_answer(switch.space.id, after, switch.catalog, switch.caveats),
        "before": tier_entry(switch.catalog, switch.space.hardware, switch.space.sleep_time_s),
        "after": tier_entry(switch.catalog, switch.offer.id, sleep_time_s),
    }


def _plan_switch(app: App, token: str | None, space_id: str, hardware: str, sleep_time_s: int | None) -> Switch:
    catalog, refreshed = app.catalog(), app.refreshed_catalog or app.catalog
    return plan_switch(app.spaces(token or None), space_id, hardware, sleep_time_s, catalog=catalog, today=refreshed, signed_in=bool(token))


class SleepArguments(SpaceArguments):
    """Arguments of `/set_sleep_time`."""

    seconds: SleepSeconds = argument(..., "seconds without a visit until it sleeps; -1 is never")


def set_sleep_time(
    app: App, arguments: SleepArguments, *, token: Annotated[str, own_token("set the sleep time of a Space")]
) -> ActionAnswer:
    """Set after how many seconds without a visit a Space on paid hardware falls asleep, with your own token.

    Returns:
        The Space's stage, hardware and sleep time right after.
    """
    spaces, catalog = app.spaces(token), app.catalog()
    space = spaces.look(arguments.space_id)
    check_sdk(None, space.id, space.sdk)
    current = find_offer(catalog, space.requested_hardware or space.hardware)
    sleep = plan_sleep_change(current, space.id, arguments.seconds, catalog.rules)
    return action_answer(space.id, spaces.sleep(space.id, arguments.seconds), catalog, sleep.caveats)


def pause_space(app: App, arguments: SpaceArguments, *, token: Annotated[str, own_token("pause a Space")]) -> ActionAnswer:
    """Pause a Space, with your own token: it stops, is not billed, and only its owner can restart it.

    Returns:
        The Space's stage, hardware and sleep time right after.
    """
    return action_answer(arguments.space_id, app.spaces(token).pause(arguments.space_id), app.catalog())


class RestartArguments(SpaceArguments):
    """Arguments of `/restart_space`."""

    factory: Flag = argument(False, "build it from scratch, without what earlier builds left")


def restart_space(app: App, arguments: RestartArguments, *, token: Annotated[str, own_token("restart a Space")]) -> ActionAnswer:
    """Restart a Space, with your own token; one that was paused is billed again at its tier's price.

    Returns:
        The Space's stage, hardware and sleep time right after.
    """
    catalog = app.catalog()
    after = app.spaces(token).restart(arguments.space_id, factory=arguments.factory)
    return action_answer(arguments.space_id, after, catalog, running_costs(arguments.space_id, after, catalog))


class PreviewArguments(SpaceArguments):
    """Arguments of the preview of an action."""

    action: Annotated[Action, one_of(ACTIONS)]
    hardware: Annotated[object, look_up_later(str)] = ""
    sleep_time_s: SleepSecondsOrKept = NEVER
    factory: Flag = False


def preview(app: App, arguments: PreviewArguments, *, token: str | None = None) -> ActionPreview:
    """What an action (switch, sleep, pause, restart) would do, and the price to confirm; refused as the action would be.

    Public Spaces need no token here; without one the limits of the owner's plan are not checked.
    """
    if arguments.action == "switch":
        hardware = _tier("hardware", arguments.hardware)
        return preview_switch(_plan_switch(app, token, arguments.space_id, hardware, arguments.sleep_time_s))
    seconds = _sleep_seconds("sleep_time_s", arguments.sleep_time_s)
    space, catalog = app.spaces(token or None).look(arguments.space_id), app.catalog()
    check_sdk(None, space.id, space.sdk)
    if arguments.action == "pause":
        return preview_pause(space, catalog)
    if arguments.action == "restart":
        return preview_restart(space, catalog, factory=arguments.factory)
    sleep = plan_sleep_change(find_offer(catalog, space.requested_hardware or space.hardware), space.id, seconds, catalog.rules)
    return preview_sleep(space, seconds, catalog, sleep.caveats)


class WatchArguments(SpaceArguments):
    """Arguments of watching a Space."""

    hardware: Annotated[object, look_up_later(str)] = ""
    seconds: Annotated[
        float | None, Checked(lambda name, value: None if value is None else check_number(name, value, 0, MAX_WATCH_S), float | None)
    ] = None


def watch(app: App, arguments: WatchArguments, *, token: str | None = None) -> Iterator[Progress]:
    """The Space as it changes, until it runs on `hardware` (or what was asked for), rests in another stage, or `seconds` are over.

    By default it is watched for as long as the platform gives an app to start. Closing the iterator ends it.
    """
    catalog = app.catalog()
    limit = catalog.rules.sleep.startup_timeout_s if arguments.seconds is None else arguments.seconds
    wanted = resolve_tier(catalog, _tier("hardware", arguments.hardware)).offer.id if arguments.hardware else None
    return watch_space(app.spaces(token or None), arguments.space_id, wanted, limit, app.catalog, app.time)
