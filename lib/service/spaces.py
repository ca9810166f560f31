"""The account actions as methods: see a Space, right-size it, switch its hardware, let it sleep, pause it, restart it.

Everything that changes something needs the caller's own token, which lives as long as the call: it is handed to `lib.hub.spaces` and
stands in no result, message or log. What the platform's rules forbid is refused before the Hub is asked to do it; what the Hub then
says is passed on, and no action is tried twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from lib.advisor.space_rules import check_sdk, confirm_price, find_offer, plan_sleep_change, resolve_tier
from lib.answers.spaces import ActionAnswer, ActionPreview, Progress, RightSizeAnswer, SpaceStatus, SwitchAnswer
from lib.catalog import Catalog
from lib.errors import BadArgument
from lib.hub.spaces import Spaces
from lib.model.spec import ModelSpec
from lib.service import arguments
from lib.service.arguments import ACCEPTED as MODEL
from lib.service.arguments import platforms_of, signed_in, space_of, workload
from lib.service.right_size import chosen, right_size_answer
from lib.service.space_actions import ACTIONS, Switch, Time, planned, preview_pause, preview_restart, preview_sleep, preview_switch, watched
from lib.service.space_status import action_answer, running_costs, status_answer, tier_entry
from lib.workload import Account, Priority

NEVER = -1
MAX_SLEEP_S = 366 * 86_400
MAX_USD_PER_HOUR = 10_000
MAX_WATCH_S = 3_600


class AccountQuestions:
    """What a visitor can ask about, and do with, a Space."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        models: Callable[[object], ModelSpec],
        today: Callable[[], Catalog] | None = None,
        spaces: Callable[[str | None], Spaces] = Spaces,
        at: Time | None = None,
    ) -> None:
        """Answer from `catalog()`; `today()` asks the platform for its prices again, within a time limit, before they are confirmed.

        `spaces(token)` is the Hub as its owner sees it, `at` a clock and a way to wait.
        """
        self._catalog = catalog
        self._models = models
        self._today = today or catalog
        self._spaces = spaces
        self._at = at or Time(clock=time.monotonic, sleep=time.sleep)

    def space_status(self, space_id: str, *, token: str | None = None) -> SpaceStatus:
        """What a Space is doing, on which hardware, and what that costs; public Spaces need no token.

        Args:
            space_id: the Space, owner/name
            token: the caller's own token, which the interface puts in

        Returns:
            The Space's stage, hardware, prices, sleep time, replicas, volumes and linked models.
        """
        space = space_of(space_id)
        return status_answer(self._spaces(token or None).look(space), self._catalog())

    def right_size(
        self,
        space_id: str,
        model: str = "",
        task: str = "auto",
        context_tokens: int = 4096,
        concurrency: int = 1,
        requests_per_day: int = 100,
        hours_per_day: float = 24,
        precision: str = "auto",
        account: Account = "free",
        max_usd_per_month: float = 0,
        min_tokens_per_s: float = 0,
        priority: Priority = "balanced",
        platforms: str = "spaces",
        *,
        token: str | None = None,
    ) -> RightSizeAnswer:
        """The recommendation beside a Space's current tier: what moving saves, or the reason to move up; public Spaces need no token.

        Args:
            space_id: the Space, owner/name
            model: a Hub id, the text of a config.json, or a parameter count; empty takes the models that the Space links
            task: auto, or a Hub task such as text-generation
            context_tokens: tokens per request, prompt and answer together
            concurrency: requests served at the same time
            requests_per_day: how many requests arrive in a day
            hours_per_day: hours a day that the hardware runs
            precision: auto, fp32, fp16, bf16, fp8, int8, int4, or a named format such as bnb-nf4 or gguf:Q4_K_M
            account: the plan of the account that hosts
            max_usd_per_month: budget; 0 sets no limit
            min_tokens_per_s: tokens per second that each request must get; 0 sets no limit
            priority: what to weigh more
            platforms: comma list of spaces, zerogpu, endpoints, jobs, tpu, all
            token: the caller's own token, which the interface puts in

        Returns:
            The decision, the current tier, the pick, the saving, and everything that was judged.
        """
        name = space_of(space_id)
        if not isinstance(model, str):
            raise BadArgument("model", arguments.seen(model), f"{MODEL}, as text; empty takes those that the Space links")
        asked = workload(
            task=task,
            context_tokens=context_tokens,
            concurrency=concurrency,
            requests_per_day=requests_per_day,
            hours_per_day=hours_per_day,
            precision=precision,
            account=account,
            max_usd_per_month=max_usd_per_month,
            min_tokens_per_s=min_tokens_per_s,
            priority=priority,
            platforms=platforms_of("platforms", platforms),
        )
        space = self._spaces(token or None).look(name)
        check_sdk(None, space.id, space.sdk)
        return right_size_answer(space, chosen(model, space, self._models, asked), asked, self._catalog())

    def switch_hardware(
        self, space_id: str, hardware: str, confirm_usd_per_hour: float, sleep_time_s: int | None = NEVER, *, token: str | None = None
    ) -> SwitchAnswer:
        """Switch a Space to another tier, with your own token. The app restarts, and paid hardware is billed from then on.

        Args:
            space_id: the Space, owner/name
            hardware: the tier to switch to, such as l4x1
            confirm_usd_per_hour: today's price of that tier as /list_hardware shows it; any other figure is refused
            sleep_time_s: seconds without a visit until it sleeps; -1 is never, where the tier leaves the choice; null keeps what it has
            token: the caller's own token, which the interface puts in

        Returns:
            The tier before, the one that was asked for, and the stage.
        """
        own = signed_in(token, "switch the hardware of a Space")
        name, wanted = space_of(space_id), arguments.text("hardware", hardware, "l4x1")
        usd = arguments.decimal("confirm_usd_per_hour", confirm_usd_per_hour, 0, MAX_USD_PER_HOUR)
        spaces = self._spaces(own)
        switch = self._planned(spaces, name, wanted, _kept_or_seconds(sleep_time_s), signed=True)
        confirm_price(switch.offer, usd)
        after = spaces.switch(switch.space.id, switch.offer.id, switch.sleep.seconds)
        then = after.sleep_time_s if after.sleep_time_s is not None else switch.sleep.seconds
        return {
            **action_answer(switch.space.id, after, switch.catalog, switch.caveats),
            "before": tier_entry(switch.catalog, switch.space.hardware, switch.space.sleep_time_s),
            "after": tier_entry(switch.catalog, switch.offer.id, then),
        }

    def set_sleep_time(self, space_id: str, seconds: int, *, token: str | None = None) -> ActionAnswer:
        """Set after how many seconds without a visit a Space on paid hardware falls asleep, with your own token.

        Args:
            space_id: the Space, owner/name
            seconds: seconds without a visit until it sleeps; -1 is never
            token: the caller's own token, which the interface puts in

        Returns:
            The Space's stage, hardware and sleep time right after.
        """
        own = signed_in(token, "set the sleep time of a Space")
        name, after_s = space_of(space_id), _seconds("seconds", seconds)
        spaces, catalog = self._spaces(own), self._catalog()
        space = spaces.look(name)
        check_sdk(None, space.id, space.sdk)
        sleep = plan_sleep_change(find_offer(catalog, space.requested_hardware or space.hardware), space.id, after_s, catalog.rules)
        after = spaces.sleep(space.id, after_s)
        return action_answer(space.id, after, catalog, sleep.caveats)

    def pause_space(self, space_id: str, *, token: str | None = None) -> ActionAnswer:
        """Pause a Space, with your own token: it stops, is not billed, and only its owner can restart it.

        Args:
            space_id: the Space, owner/name
            token: the caller's own token, which the interface puts in

        Returns:
            The Space's stage, hardware and sleep time right after.
        """
        own = signed_in(token, "pause a Space")
        name = space_of(space_id)
        return action_answer(name, self._spaces(own).pause(name), self._catalog())

    def restart_space(self, space_id: str, factory: bool = False, *, token: str | None = None) -> ActionAnswer:
        """Restart a Space, with your own token; one that was paused is billed again at its tier's price.

        Args:
            space_id: the Space, owner/name
            factory: build it from scratch, without what earlier builds left
            token: the caller's own token, which the interface puts in

        Returns:
            The Space's stage, hardware and sleep time right after.
        """
        own = signed_in(token, "restart a Space")
        name, anew = space_of(space_id), arguments.flag("factory", factory)
        catalog = self._catalog()
        after = self._spaces(own).restart(name, factory=anew)
        return action_answer(name, after, catalog, running_costs(name, after, catalog))

    def preview(
        self,
        space_id: str,
        action: str,
        hardware: str = "",
        sleep_time_s: int | None = NEVER,
        factory: bool = False,
        *,
        token: str | None = None,
    ) -> ActionPreview:
        """What an action (switch, sleep, pause, restart) would do, and the price to confirm; refused as the action would be.

        Public Spaces need no token here; without one the limits of the owner's plan are not checked.
        """
        kind = arguments.choice("action", action, ACTIONS)
        name, spaces = space_of(space_id), self._spaces(token or None)
        if kind == "switch":
            wanted = arguments.text("hardware", hardware, "l4x1")
            return preview_switch(self._planned(spaces, name, wanted, _kept_or_seconds(sleep_time_s), signed=bool(token)))
        seconds, anew = _seconds("sleep_time_s", sleep_time_s), arguments.flag("factory", factory)
        space, catalog = spaces.look(name), self._catalog()
        check_sdk(None, space.id, space.sdk)
        if kind == "pause":
            return preview_pause(space, catalog)
        if kind == "restart":
            return preview_restart(space, catalog, factory=anew)
        sleep = plan_sleep_change(find_offer(catalog, space.requested_hardware or space.hardware), space.id, seconds, catalog.rules)
        return preview_sleep(space, seconds, catalog, sleep.caveats)

    def watch(self, space_id: str, *, token: str | None = None, hardware: str = "", seconds: float | None = None) -> Iterator[Progress]:
        """The Space as it changes, until it runs on `hardware` (or what was asked for), rests in another stage, or `seconds` are over.

        By default it is watched for as long as the platform gives an app to start. Closing the iterator ends it.
        """
        catalog = self._catalog()
        limit = catalog.rules.sleep.startup_timeout_s if seconds is None else arguments.number("seconds", seconds, 0, MAX_WATCH_S)
        wanted = resolve_tier(catalog, arguments.text("hardware", hardware, "l4x1")).offer.id if hardware else None
        return watched(self._spaces(token or None), space_of(space_id), wanted, limit, self._catalog, self._at)

    def _planned(self, spaces: Spaces, name: str, hardware: str, sleep_time_s: int | None, *, signed: bool) -> Switch:
        return planned(spaces, name, hardware, sleep_time_s, catalog=self._catalog(), today=self._today, signed_in=signed)


def _seconds(name: str, value: object) -> int:
    """A sleep time; 0 could mean at once or never, so it is refused."""
    seconds = arguments.whole(name, value, NEVER, MAX_SLEEP_S)
    if seconds == 0:
        raise BadArgument(name, "0", f"-1 for never, or whole seconds from 1 to {MAX_SLEEP_S:,}")
    return seconds


def _kept_or_seconds(value: object) -> int | None:
    """The sleep time of a switch; `None` keeps what the Space has."""
    return None if value is None else _seconds("sleep_time_s", value)
