"""The questions that run something on the device at hand: measure, chat, heartbeat, and the ledger of what was measured."""

from __future__ import annotations

from collections.abc import Callable

from lib.catalog import Catalog
from lib.live import anywhere
from lib.live.demo import DemoModel
from lib.service.chat import ChatQuestion
from lib.service.heartbeat import HeartbeatQuestion
from lib.service.ledger import LedgerQuestions
from lib.service.measure import MeasureQuestion
from lib.service.measure_expected import ExpectedQuestion
from lib.service.models import Models


class LiveQuestions:
    """What the app answers by running it. Each question is a class of its own module; here they meet."""

    def __init__(self, *, catalog: Callable[[], Catalog], models: Models, ledger: LedgerQuestions | None = None) -> None:
        """Answer from `catalog()` and `models`; nothing is loaded before a question comes.

        What is measured goes to `ledger` (its `record`), by default the one that the environment names.
        """
        self._catalog, self._models = catalog, models
        self.warm_up = anywhere.warm_up
        demo = DemoModel()
        talk = ChatQuestion(catalog=catalog, models=models, demo=demo)
        self.chat = talk.chat
        self.place = talk.place

        def placed() -> int:
            """Bytes of weights that ZeroGPU moves to the device before a run."""
            return demo.held.weights_bytes if demo.held else 0

        pulse = HeartbeatQuestion(placed=placed)
        self.heartbeat = pulse.heartbeat
        self.beating = pulse.beating
        self.ledger = ledger or LedgerQuestions()
        gauge = MeasureQuestion(catalog=catalog, models=models, record=self.ledger.record, placed=placed)
        self.measure = gauge.measure
        self.measuring = gauge.measuring
        self.expected = ExpectedQuestion(gauge.case).expected
