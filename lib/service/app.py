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

from lib.advisor.tasks import FAMILIES
from lib.answers.common import HardwareAnswer, MemoryAnswer, ModelAnswer, PriceEntry, RecommendationAnswer, price_entry
from lib.catalog import Catalog, load
from lib.hub.prices import PriceFeed
from lib.hub.providers import ProviderOffers, find_providers
from lib.hub.search import suggest_models
from lib.hub.space_session import install_session
from lib.live import measure_process
from lib.live.demo_model import DemoModel
from lib.service import arguments
from lib.service.arguments import memory_request, platforms_of, workload
from lib.service.chat import ChatQuestion
from lib.service.compare import ComparisonQuestion
from lib.service.cost import CostQuestion
from lib.service.estimates import hardware_answer, memory_answer, model_answer
from lib.service.heartbeat import HeartbeatQuestion
from lib.service.ledger import LedgerQuestions
from lib.service.measure import ExpectedQuestion, MeasureQuestion
from lib.service.models import Models
from lib.service.outlook import OutlookQuestion
from lib.service.recommend import recommendation_answer
from lib.service.spaces import AccountQuestions
from lib.service.speed import Predict, RooflineQuestion, SpeedQuestion
from lib.speed import predict_speed
from lib.workload import Account, Engine, Mode, Priority

if TYPE_CHECKING:
    from collections.abc import Sequence


class LiveQuestions:
    """What the app answers by running it. Each question is a class of its own module; here they meet."""

    def __init__(self, *, catalog: Callable[[], Catalog], models: Models, ledger: LedgerQuestions | None = None) -> None:
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
        self.ledger = ledger or LedgerQuestions()
        gauge = MeasureQuestion(catalog=catalog, models=models, record=self.ledger.record, placed=placed)
        self.measure = gauge.measure
        self.measuring = gauge.measuring
        self.expected = ExpectedQuestion(gauge.case).expected


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
        self.estimate_cost = CostQuestion(catalog=catalog, models=models, offered=offered, predict=predict).estimate_cost
        self.outlook = OutlookQuestion(catalog=catalog, models=models, offered=offered, predict=predict).outlook
        self.roofline = RooflineQuestion(catalog=catalog, models=models).roofline
        self.comparison = ComparisonQuestion(catalog=catalog, models=models).comparison
        self.estimate_speed = SpeedQuestion(catalog=catalog, models=models).estimate_speed
        self.account = AccountQuestions(catalog=catalog, models=models, today=today)
        self.live = LiveQuestions(catalog=catalog, models=models)

    def resolve_model(self, model: str) -> ModelAnswer:
        """What a model is: parameters, weights as stored, layer kinds, what each kind caches, limits.

        Args:
            model: a Hub id, the text of a config.json, or a parameter count such as 7B

        Returns:
            The resolved model.
        """
        return model_answer(self._models(model))

    def estimate_memory(
        self,
        model: str,
        precision: str = "auto",
        engine: Engine = "transformers",
        context_tokens: int = 4096,
        batch_size: int = 1,
        kv_precision: str = "auto",
        mode: Mode = "inference",
        devices: int = 1,
        encoder_tokens: int = 0,
    ) -> MemoryAnswer:
        """What a model takes in memory, part by part, and which hardware holds it.

        Args:
            model: a Hub id, the text of a config.json, or a parameter count such as 7B
            precision: auto, fp32, fp16, bf16, fp8, int8, int4, or a named format such as bnb-nf4 or gguf:Q4_K_M
            engine: what runs the model
            context_tokens: tokens that each sequence's cache has seen (decoder tokens of an encoder-decoder)
            batch_size: sequences held at the same time
            kv_precision: precision of the cache; auto is the model's own
            mode: inference, or how it is trained
            devices: accelerators that share the model
            encoder_tokens: length of the encoder's side; 0 is the model's own full length

        Returns:
            The estimate, its parts with their laws, and the hardware it fits.
        """
        request = memory_request(precision, engine, context_tokens, batch_size, kv_precision, mode, devices, encoder_tokens)
        return memory_answer(self._models(model), request, self.catalog())

    def recommend(
        self,
        model: str,
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
    ) -> RecommendationAnswer:
        """Which hardware to run a model on: the pick with reasons, the alternatives, and everything rejected with its reason.

        Args:
            model: a Hub id, the text of a config.json, or a parameter count such as 7B
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

        Returns:
            The recommendation.
        """
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
        needs_none = FAMILIES.get(asked.task) == "provider" and model == ""  # the Space only calls an API
        spec = None if needs_none else self._models(model)
        return recommendation_answer(spec, asked, self.catalog())

    def list_hardware(self, platform: str = "spaces", include_retired: bool = False) -> HardwareAnswer:
        """Hardware that can be rented, with memory, price, source and the day it was checked.

        Args:
            platform: comma list of spaces, zerogpu, endpoints, jobs, tpu, all
            include_retired: also what the platform no longer offers

        Returns:
            The rows of the catalog.
        """
        wanted = platforms_of("platform", platform)
        retired = arguments.flag("include_retired", include_retired)
        return hardware_answer(self.catalog().on(wanted, include_retired=retired))

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
