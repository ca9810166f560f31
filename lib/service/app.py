"""The questions that the app answers, as functions with named parameters: the page, `gr.api`, MCP and the command line call these."""

from __future__ import annotations

import functools
import os
import tomllib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

from lib.catalog import PriceState, load
from lib.errors import RateLimited, SwitchedOff
from lib.hub.prices import PriceFeed
from lib.hub.space_session import install_session
from lib.hub.spaces import Spaces
from lib.live.device import device_kind
from lib.live.measure import import_ahead
from lib.request.checks import check_text
from lib.result import Result
from lib.service import (
    account_overview,
    chat,
    compare,
    compare_gpu_tpu,
    cost,
    estimate_batch,
    estimate_training,
    explain,
    measure,
    memory,
    recommend,
    resolve_model,
    right_size,
    simulate_batching,
    space_actions,
    space_status,
    speed,
    what_runs,
    write_files,
    zerogpu_quota,
)
from lib.service.endpoint import ENDPOINTS, App, Endpoint, bind_arguments
from lib.service.fair_turns import FairTurns, anonymous_caller
from lib.service.models import Models
from lib.service.reference import is_token

Answer = TypeVar("Answer")
VERSION: str = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Result):
    """The answer of `/healthz`."""

    status: str
    """Always `ok`."""
    version: str
    """Version of the app."""
    prices: str
    """live or bundled."""
    prices_checked: str
    """Day or moment of the oldest price."""
    prices_age_days: int
    """Age of the oldest price."""
    catalog: str
    """Day of the bundled facts."""
    device: str
    """Kind of device: cpu, cuda or zerogpu."""


_FILES = (
    resolve_model, memory, recommend, speed, cost, compare, compare_gpu_tpu, estimate_training, simulate_batching, chat, measure,
    space_status, right_size, space_actions, account_overview, zerogpu_quota, explain, write_files,
    what_runs, estimate_batch,
)  # fmt: skip
"""The files of the endpoints, in the order in which API and MCP list them."""


def _bind_refusal(function: Callable[..., Answer], app: App) -> Callable[..., Answer]:
    """An action as callers see it, which refuses every request."""
    act = bind_arguments(function, app)

    def refuse(*_: object, **__: object) -> Answer:
        raise SwitchedOff(
            "Changing a Space is switched off in this copy of the app (ACCOUNT_ACTIONS=0). Looking at Spaces and right-sizing them works. "
            "Change it in the Space's own settings on huggingface.co, or with scripts/manage_space.py from your own machine."
        )

    functools.update_wrapper(refuse, act)  # its signature and its words, which the listings show
    return refuse


class Services:
    """The functions of `lib.service` with the arguments that callers send: `services[recommend]("7B", limit=3)`.

    An endpoint is also an attribute of its name.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._bound: dict[Callable[..., Any], Callable[..., Any]] = {}
        self.catalog = app.catalog
        self.ledger = app.ledger

    def __getitem__(self, function: Callable[..., Answer]) -> Callable[..., Answer]:
        """The function as callers see it. Where actions are switched off, one that changes an account always refuses."""
        if function not in self._bound:
            endpoint = ENDPOINTS.get(function.__name__)
            acts = endpoint is not None and endpoint.account and endpoint.writes
            bind = _bind_refusal if acts and not self._app.account_actions else bind_arguments
            self._bound[function] = bind(function, self._app)
        return self._bound[function]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The endpoint of this name.

        Raises:
            AttributeError: there is none.
        """
        if name not in ENDPOINTS:
            raise AttributeError(name)
        return self[ENDPOINTS[name].question]

    def endpoints(self) -> dict[str, Endpoint]:
        """The public endpoints by name, as callers see them: these, and no others, are answered over the API and MCP."""
        files = [file.__name__ for file in _FILES]
        listed = sorted(ENDPOINTS.items(), key=lambda item: files.index(item[1].question.__module__))
        return {name: replace(endpoint, question=self[endpoint.question]) for name, endpoint in listed}

    def place_demo_model(self) -> None:
        """On ZeroGPU, put the demo model where the platform wants it while the app starts; elsewhere nothing."""
        self._app.demo.place(self._app.catalog())

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
        """State of the app, for monitoring. `today` is the day to count the age of the prices from."""
        catalog = self.catalog()
        prices = catalog.prices["spaces"]
        age = (today or datetime.now(UTC).date()) - date.fromisoformat(prices.checked[:10])
        return Health(
            status="ok",
            version=VERSION,
            prices=prices.basis,
            prices_checked=prices.checked,
            prices_age_days=age.days,
            catalog=catalog.as_of,
            device=device_kind(),
        )

    def prices(self) -> PriceState:
        """Which prices the answers use now, and how old they are."""
        return self.catalog().prices["spaces"]

    def warm_up(self) -> None:
        """Import modules that the first unseen model and the first measurement need, so that no visitor waits for that."""
        self._app.models.warm_up()
        explain.load_ahead()
        import_ahead()


HUB_CALLS, OWN_HUB_CALLS = 12, 6
"""Questions about Spaces and accounts that are at the Hub at a time, of all visitors and of one; each may take 15 s."""
HUB_WAITING, OWN_HUB_WAITING, HUB_WAIT_S = 24, 6, 3.0
"""Questions that wait for one of these turns, of all visitors and of one, each on a thread, and how long."""


def _hub_is_busy() -> RateLimited:
    return RateLimited(
        f"{HUB_CALLS} questions about Spaces and accounts ({OWN_HUB_CALLS} from one account or network address) are at the Hub at a time, "
        f"and none of them ended within {HUB_WAIT_S:g} s. This question was not sent to the Hub. Try again in some seconds."
    )


def services(caller: Callable[[], Hashable] = anonymous_caller) -> Services:
    """Ready to answer at once from bundled data; prices are refreshed in the background, and the Hub is asked when a visitor asks.

    `caller()` tells who asks on the current thread: callers share the slots of every queue.
    """
    install_session()  # before the first request: taking over the Hub client's session closes the one that was there
    feed, turns = PriceFeed(load()), FairTurns(HUB_CALLS, own_width=OWN_HUB_CALLS, queue_slots=HUB_WAITING, own_queue_slots=OWN_HUB_WAITING)
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
