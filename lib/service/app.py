"""What the app can answer, as functions with named parameters: the page, `gr.api`, MCP and the command line call these."""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TypedDict, TypeVar

from lib.answers.common import PriceEntry, price_entry
from lib.catalog import load
from lib.errors import RateLimited, SwitchedOff
from lib.hub.prices import PriceFeed
from lib.hub.space_session import install_session
from lib.hub.spaces import Spaces
from lib.live.device import device_kind
from lib.live.measure import import_ahead
from lib.service.account_overview import account_overview, stop_resource
from lib.service.arguments import check_text
from lib.service.chat import chat
from lib.service.compare import compare
from lib.service.compare_gpu_tpu import compare_gpu_tpu
from lib.service.cost import estimate_cost, ways_to_save
from lib.service.endpoint import App, bind_arguments, is_token
from lib.service.estimate_training import estimate_training
from lib.service.measure import (
    default_measurement,
    heartbeat,
    measure,
    predict_measurement,
    stream_heartbeat,
    stream_measurement,
    suggest_measurement,
)
from lib.service.memory import estimate_memory, solve
from lib.service.models import Models
from lib.service.outlook import outlook
from lib.service.recommend import list_hardware, recommend
from lib.service.resolve_model import dry_run, resolve_model, stream_dry_run, tensors
from lib.service.simulate_batching import simulate_batching, stream_loads, stream_needs
from lib.service.single_flight import FairTurns, nobody
from lib.service.space_actions import pause_space, preview, restart_space, set_sleep_time, switch_hardware
from lib.service.space_status import right_size, space_status, watch
from lib.service.speed import diagnose_latency, estimate_speed, roofline

Answer = TypeVar("Answer")
VERSION: str = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


class Health(TypedDict):
    """What `/healthz` says. `prices` is "live" or "bundled", `catalog` the day of the bundled facts."""

    status: str
    version: str
    prices: str
    prices_checked: str
    prices_age_days: int
    catalog: str
    device: str


class LiveServices:
    """What the app answers by running it on the device at hand, and the ledger of what was measured."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.ledger = app.ledger
        self.chat = bind_arguments(chat, app)
        self.measure = bind_arguments(measure, app)
        self.stream_measurement = bind_arguments(stream_measurement, app)
        self.predict_measurement = bind_arguments(predict_measurement, app)
        self.suggest_measurement = bind_arguments(suggest_measurement, app)
        self.default_measurement = bind_arguments(default_measurement, app)
        self.heartbeat = bind_arguments(heartbeat, app)
        self.stream_heartbeat = bind_arguments(stream_heartbeat, app)

    def place(self) -> None:
        """On ZeroGPU, put the demo model where the platform wants it while the app starts; elsewhere nothing."""
        self._app.demo.place(self._app.catalog())


def _bind_refusal(function: Callable[..., Answer], app: App) -> Callable[..., Answer]:
    """An action as callers see it, which refuses whatever it is asked."""
    act = bind_arguments(function, app)

    def refuse(*_: object, **__: object) -> Answer:
        raise SwitchedOff(
            "Changing a Space is switched off in this copy of the app (ACCOUNT_ACTIONS=0). Looking at Spaces and right-sizing them works. "
            "Change it in the Space's own settings on huggingface.co, or with scripts/manage_space.py from your own machine."
        )

    functools.update_wrapper(refuse, act)  # its signature and its words, which the listings show
    return refuse


class AccountServices:
    """What a visitor can ask about a Space and an account, and do there by a token of their own."""

    def __init__(self, app: App) -> None:
        act = bind_arguments if app.account_actions else _bind_refusal
        self.space_status = bind_arguments(space_status, app)
        self.right_size = bind_arguments(right_size, app)
        self.account_overview = bind_arguments(account_overview, app)
        self.switch_hardware = act(switch_hardware, app)
        self.set_sleep_time = act(set_sleep_time, app)
        self.pause_space = act(pause_space, app)
        self.restart_space = act(restart_space, app)
        self.stop_resource = act(stop_resource, app)
        self.preview = bind_arguments(preview, app)
        self.watch = bind_arguments(watch, app)


class Services:
    """What the app can answer: the endpoints of `app` as callers see them."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.catalog = app.catalog
        self.resolve_model = bind_arguments(resolve_model, app)
        self.estimate_memory = bind_arguments(estimate_memory, app)
        self.dry_run = bind_arguments(dry_run, app)
        self.tensors = bind_arguments(tensors, app)
        self.recommend = bind_arguments(recommend, app)
        self.list_hardware = bind_arguments(list_hardware, app)
        self.estimate_speed = bind_arguments(estimate_speed, app)
        self.estimate_cost = bind_arguments(estimate_cost, app)
        self.estimate_training = bind_arguments(estimate_training, app)
        self.simulate_batching = bind_arguments(simulate_batching, app)
        self.diagnose_latency = bind_arguments(diagnose_latency, app)
        self.solve = bind_arguments(solve, app)
        self.stream_dry_run = bind_arguments(stream_dry_run, app)
        self.stream_loads = bind_arguments(stream_loads, app)
        self.stream_needs = bind_arguments(stream_needs, app)
        self.outlook = bind_arguments(outlook, app)
        self.roofline = bind_arguments(roofline, app)
        self.compare = bind_arguments(compare, app)
        self.compare_gpu_tpu = bind_arguments(compare_gpu_tpu, app)
        self.ways_to_save = bind_arguments(ways_to_save, app)
        self.account = AccountServices(app)
        self.live = LiveServices(app)

    def bundled_models(self) -> Sequence[str]:
        """Ids that answer at once and offline."""
        return self._app.models.bundled

    def search_models(self, text: str) -> Sequence[str]:
        """Ids on the Hub that match; none when the Hub cannot be reached, or the text is a token, which is not searched for."""
        return () if is_token(text) else self._app.search(check_text("text", text, "llama"))

    @property
    def account_actions(self) -> bool:
        """Whether a Space may be changed from here."""
        return self._app.account_actions

    def health(self, today: date | None = None) -> Health:
        """Whether the app answers, with what; cheap, for whoever watches it. `today` is the day to count the prices' age from."""
        catalog = self.catalog()
        prices = price_entry(catalog.prices["spaces"])
        age = (today or datetime.now(UTC).date()) - date.fromisoformat(prices["checked"][:10])
        return {
            "status": "ok",
            "version": VERSION,
            "prices": prices["basis"],
            "prices_checked": prices["checked"],
            "prices_age_days": age.days,
            "catalog": catalog.as_of,
            "device": device_kind(),
        }

    def prices(self) -> PriceEntry:
        """Which prices the answers use now, and how old they are."""
        return price_entry(self.catalog().prices["spaces"])

    def warm_up(self) -> None:
        """Import ahead of use what the first unseen model and the first measurement need, so that no visitor waits for that."""
        self._app.models.warm_up()
        import_ahead()


HUB_CALLS, OWN_HUB_CALLS = 12, 6
"""Questions about Spaces and accounts that are at the Hub at a time, of all visitors and of one; each may take 15 s."""
HUB_WAITING, OWN_HUB_WAITING, HUB_WAIT_S = 24, 6, 3.0
"""Questions that wait for one of these places, of all visitors and of one, each on a thread, and how long."""


def _hub_is_busy() -> RateLimited:
    return RateLimited(
        f"{HUB_CALLS} questions about Spaces and accounts ({OWN_HUB_CALLS} from one account or network address) are at the Hub at a time, "
        f"and none of them ended within {HUB_WAIT_S:g} s. This question was not sent to the Hub. Try again in some seconds."
    )


def services(caller: Callable[[], Hashable] = nobody) -> Services:
    """Ready to answer at once from bundled data; prices are refreshed in the background, and the Hub is asked when a visitor asks.

    `caller()` tells who asks on the current thread: callers share the places in every line.
    """
    install_session()  # before the first request: taking over the Hub client's session closes the one that was there
    feed, turns = PriceFeed(load()), FairTurns(HUB_CALLS, own_width=OWN_HUB_CALLS, places=HUB_WAITING, own_places=OWN_HUB_WAITING)
    spaces = functools.partial(Spaces, turn=lambda: turns.turn(caller(), HUB_WAIT_S, _hub_is_busy))
    acts = os.environ.get("ACCOUNT_ACTIONS") != "0"
    return Services(
        App(
            account_actions=acts,
            catalog=feed.catalog,
            refreshed_catalog=feed.refresh,
            models=Models(caller=caller),
            spaces=spaces,
            caller=caller,
        )
    )
