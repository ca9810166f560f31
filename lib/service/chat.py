"""The question `/chat`: a conversation checked, the model's answer streamed, and at its end what it took beside what was predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

from lib.answers.live import ChatPiece
from lib.catalog import Catalog
from lib.live.chat import Piece
from lib.live.demo import DemoModel, Loaded
from lib.live.device import Device
from lib.live.pace import Pace
from lib.live.processor import paces
from lib.live.prompt import prompt
from lib.live.talk import Talk
from lib.live.zero import arithmetic
from lib.provenance import Caveat
from lib.service import arguments, conversation
from lib.service.chat_run import Exactly, item
from lib.service.models import Models

MOST_TOKENS = 1024
MOST_TEMPERATURE = 2


class ChatQuestion:
    """Talks to the demo model. Make it before the app is launched."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        models: Models,
        demo: DemoModel | None = None,
        pace: Callable[[Device, str], Pace | None] = paces,
    ) -> None:
        """Predict from `catalog()` and `models`, and from what `pace` tells a processor to reach; nothing is loaded yet."""
        self._catalog, self._models, self._pace = catalog, models, pace
        self._demo = demo or DemoModel()
        self._talk = Talk(self._demo)

    def place(self) -> None:
        """On ZeroGPU, put the model where the platform wants it while the app starts; elsewhere nothing."""
        self._demo.place()

    def chat(
        self,
        message: str,
        history: list[dict[str, str]] = [],  # noqa: B006 never changed, and the default that callers see
        max_new_tokens: int = 256,
        temperature: float = 0.7,
    ) -> Iterator[ChatPiece]:
        """Talk to a small model on the hardware of this Space; the answer streams, and ends with what it took beside the prediction.

        Args:
            message: what to say, at most 16,000 characters
            history: earlier turns, oldest first, as objects with role (user or assistant) and content
            max_new_tokens: the longest answer, 1 to 1024 tokens
            temperature: 0 takes the most likely token each time; up to 2 varies more

        Returns:
            The answer so far; the last item carries the metrics.
        """
        said, before = conversation.check_message(message), conversation.check_history(history)
        most = arguments.whole("max_new_tokens", max_new_tokens, 1, MOST_TOKENS)
        heat = float(arguments.number("temperature", temperature, 0, MOST_TEMPERATURE))
        ready: tuple[Loaded, Device] | None = None
        with closing(self._talk.ready()) as coming:
            for step in coming:
                if isinstance(step, Piece):
                    yield item(step)
                else:
                    ready = step
        assert ready is not None, "`ready` ends with the model"  # noqa: S101 or it raises
        loaded, device = ready
        limit = min(most, max(1, loaded.context_tokens // 2))
        asked = prompt(loaded.tokenizer, before, said, loaded.context_tokens - limit)
        run = Exactly(
            catalog=self._catalog(),
            models=self._models,
            loaded=loaded,
            device=device,
            prompt_tokens=len(asked.ids),
            limit=limit,
            pace=self._pace(device, loaded.precision),
        )
        seconds = run.seconds()
        told = [*_cuts(asked.dropped, most, limit, loaded), *self._quota(device, seconds)]
        with closing(self._talk.say(asked.ids, limit, heat, seconds)) as pieces:
            for piece in pieces:
                yield item(piece, told) if piece.taken is None else run.ended(piece, piece.taken, told)

    def _quota(self, device: Device, seconds: float) -> tuple[Caveat, ...]:
        """What the run asks of a visitor's quota, on ZeroGPU."""
        if device.kind != "zerogpu":
            return ()
        return (Caveat(code="quota_asked", message=arithmetic(self._talk.declared(None, None, None, seconds), self._talk.size())),)


def _cuts(dropped: int, most: int, limit: int, loaded: Loaded) -> list[Caveat]:
    """What was left out to fit the conversation's length."""
    found = []
    if dropped:
        words = f"The {dropped} oldest messages were left out: with them the conversation is longer than {loaded.context_tokens:,} tokens."
        found.append(Caveat(code="history_cut", message=words))
    if limit < most:
        words = (
            f"The answer is held to {limit:,} tokens, half of the {loaded.context_tokens:,} that a conversation may take on this device."
        )
        found.append(Caveat(code="answer_limit", message=words))
    return found
