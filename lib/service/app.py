"""The public questions as methods: arguments of any kind in, checked, answered as plain JSON objects.

The page, `gr.api`, MCP and the command line call these same methods; signatures and docstrings are what callers read as
documentation (`lib.ui.http.api`, `lib.ui.http.mcp`), so an entry under `Args:` stands on one line. Annotations say what is wanted; what
really arrives is checked here.

The questions that run something on the device at hand: measure, chat, heartbeat, and the ledger of what was measured.

The services of a running app: the catalog with live prices, the bundled models, the Hub.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lib.answers.common import PriceEntry, price_entry
from lib.catalog import Catalog, load
from lib.hub.prices import PriceFeed
from lib.hub.providers import ProviderOffers, find_providers
from lib.hub.search import suggest_models
from lib.hub.space_session import install_session
from lib.live import measure_process
from lib.live.demo_model import DemoModel
from lib.service import arguments
from lib.service.chat import ChatQuestion
from lib.service.compare import comparison
from lib.service.cost import estimate_cost
from lib.service.endpoint import App, bound
from lib.service.hardware import list_hardware
from lib.service.heartbeat import HeartbeatQuestion
from lib.service.ledger import MeasurementLedger
from lib.service.measure import ExpectedQuestion, MeasureQuestion
from lib.service.memory import estimate_memory
from lib.service.models import Models
from lib.service.outlook import outlook
from lib.service.recommend import recommend
from lib.service.resolve_model import resolve_model
from lib.service.right_size import right_size
from lib.service.space_status import space_status
from lib.service.spaces import pause_space, preview, restart_space, set_sleep_time, switch_hardware, watch
from lib.service.speed import Predict, estimate_speed, roofline
from lib.speed import predict_speed

if TYPE_CHECKING:
    from collections.abc import Sequence


class LiveQuestions:
    """What the app answers by running it. Each question is a class of its own module; here they meet."""

    def __init__(self, *, catalog: Callable[[], Catalog], models: Models, ledger: MeasurementLedger | None = None) -> None:
        """Answer from `catalog()` and `models`; nothing is loaded before a question comes.

        What is measured goes to `ledger` (its `record`), by default the one that the environment names.
        """
        self._catalog, self._models = catalog, models
        self.warm_up = measure_process.warm_up
        demo = DemoModel()
        talk = ChatQuestion(catalog=catalog, models=models, demo=demo)
        self.chat = talk.chat
        self.place = talk.place

        def placed() -> int:
            """Bytes of weights that ZeroGPU moves to the device before a run."""
            return demo.held.weights_bytes if demo.held else 0

        pulse = HeartbeatQuestion(catalog=catalog, placed=placed)
        self.heartbeat = pulse.heartbeat
        self.beating = pulse.beating
        self.ledger = ledger or MeasurementLedger()
        gauge = MeasureQuestion(catalog=catalog, models=models, record=self.ledger.record, placed=placed)
        self.measure = gauge.measure
        self.measuring = gauge.measuring
        self.expected = ExpectedQuestion(gauge.case).expected


class Account:
    """What a visitor can ask about a Space, and do with it by a token of their own."""

    def __init__(self, app: App) -> None:
        self.space_status = bound(space_status, app)
        self.right_size = bound(right_size, app)
        self.switch_hardware = bound(switch_hardware, app)
        self.set_sleep_time = bound(set_sleep_time, app)
        self.pause_space = bound(pause_space, app)
        self.restart_space = bound(restart_space, app)
        self.preview = bound(preview, app)
        self.watch = bound(watch, app)


class Services:
    """What the app can answer."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        models: Models,
        search: Callable[[str], Sequence[str]],
        offered: Callable[[str], ProviderOffers],
        predict: Predict = predict_speed,
        today: Callable[[], Catalog] | None = None,
    ) -> None:
        """Answer from `catalog()` (which may return fresher prices at each call) and `models`.

        `search` asks the Hub for ids, `offered` the router who serves a model per token; `predict` estimates how fast an offer runs a
        model, `today` asks the platform for its prices again before one is confirmed.
        """
        self.catalog = catalog
        self._models = models
        self._search = search
        app = App(catalog=catalog, models=models, providers=offered, predict=predict, refreshed_catalog=today)
        self.resolve_model = bound(resolve_model, app)
        self.estimate_memory = bound(estimate_memory, app)
        self.recommend = bound(recommend, app)
        self.list_hardware = bound(list_hardware, app)
        self.estimate_speed = bound(estimate_speed, app)
        self.estimate_cost = bound(estimate_cost, app)
        self.outlook = bound(outlook, app)
        self.roofline = bound(roofline, app)
        self.comparison = bound(comparison, app)
        self.account = Account(app)
        self.live = LiveQuestions(catalog=catalog, models=models)

    def bundled_models(self) -> Sequence[str]:
        """Ids that answer at once and offline."""
        return self._models.bundled

    def search_models(self, text: str) -> Sequence[str]:
        """Ids on the Hub that match; none when the Hub cannot be reached."""
        return self._search(arguments.text("text", text, "llama"))

    def prices(self) -> PriceEntry:
        """Which prices the answers use now, and how old they are."""
        return price_entry(self.catalog().prices["spaces"])

    def warm_up(self) -> None:
        """Import ahead of use what the first unseen model and the first measurement need, so that no visitor waits for that."""
        self._models.warm_up()
        self.live.warm_up()


def _search(text: str) -> Sequence[str]:
    return suggest_models(text).ids


def services() -> Services:
    """Ready to answer at once from what is bundled; prices are refreshed in the background, the Hub is asked when a visitor does."""
    install_session()  # before the first request: taking over the Hub client's session closes the one that was there
    feed = PriceFeed(load())
    return Services(catalog=feed.catalog, models=Models(), search=_search, offered=find_providers, today=feed.refresh)
