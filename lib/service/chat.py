"""The question `/chat`: a conversation checked, the model's answer streamed, and at its end what it took beside what was predicted.

One answer beside its prediction: how long it may take, and what it took.

A message and its history from outside, checked: who said what, as plain text of a bounded length.

A history is a list of messages in Gradio's form, {"role": "user", "content": "…"} (the content also as a list of parts of text), or of
pairs [what the user said, what the model said]. Roles are `user` and `assistant`: nobody speaks as the system here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lib.answers.common import SCHEMA, source_entries
from lib.answers.live import ChatMetrics, ChatPiece, ChatPrediction, RunFigures
from lib.catalog import Catalog
from lib.errors import AdvisorError, BadArgument
from lib.live.chat import AnswerFigures, AnswerPiece, Conversations
from lib.live.demo_model import DemoModel, LoadedModel
from lib.live.device import Device
from lib.live.limits import DeviceRates, device_rates
from lib.live.prompt import Message, build_prompt
from lib.live.zerogpu import arithmetic
from lib.present.sentences import caveat_entries
from lib.provenance import Caveat, Source
from lib.service import arguments
from lib.service.arguments import seen
from lib.service.models import Models
from lib.service.run_prediction import Predicted, Run, predicted, ratio
from lib.service.speed import run_end
from lib.speed import End

if TYPE_CHECKING:
    from lib.catalog import Catalog
    from lib.live.limits import DeviceRates
    from lib.service.models import Models

ANSWER_S = 120.0
"""An answer on hardware of one's own ends here: others wait for the same device."""

UNKNOWN_S, LEAST_S, SLACK = 60.0, 5.0, 1.5
"""Asked of ZeroGPU: what the prediction's slow end says, and half as much again; where nothing is predicted, the platform's own default."""

PEAK_SOURCES = {
    "allocator": "torch.cuda.max_memory_allocated",
    "weights_and_growth": "bytes of the loaded weights + growth of the resident set",
}
CPU_PEAK = Caveat(
    code="peak_from_resident_set",
    message="On a CPU nothing counts a model's memory by itself: the peak is the weights as loaded and what the app's process grew by "
    "while it answered, whatever else it did meanwhile included.",
)
TOO_SHORT = Caveat(code="too_short_for_speed", message="One token is too few for a speed: decode_tokens_per_s needs two.")
TIME_UP = Caveat(code="time_limit", message="The answer was ended because its time was up; what is there was written until then.")


class Exactly:
    """One run and its prediction: before, of the longest answer; afterwards, of the answer as it was."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        models: Models,
        loaded: LoadedModel,
        device: Device,
        prompt_tokens: int,
        limit: int,
        pace: DeviceRates | None = None,
    ) -> None:
        """Predict from `catalog`; the model is the bundled one where that is it, else what its own config says.

        `pace` is what a processor was seen to reach, before the answer.
        """
        self._catalog, self._models, self._loaded, self._device = catalog, models, loaded, device
        self._prompt_tokens, self._limit, self._pace = prompt_tokens, limit, pace
        self._unknown: tuple[Caveat, ...] = ()

    def predicted(self, output_tokens: int) -> Predicted | None:
        """What the laws say, None where they say nothing; then a caveat says why."""
        loaded = self._loaded
        try:
            spec = self._models(loaded.name if loaded.name in self._models.bundled else loaded.config_text)
            run = Run(
                spec=spec,
                precision=loaded.precision,
                device=self._device,
                prompt_tokens=self._prompt_tokens,
                output_tokens=max(1, output_tokens),
                pace=self._pace,
            )
            return predicted(run, self._catalog)
        except AdvisorError as error:
            self._unknown = (Caveat(code="not_predicted", message=f"This run was not predicted. {error}"),)
            return None

    def seconds(self) -> float:
        """Time that the answer may take."""
        if self._device.kind != "zerogpu":
            return ANSWER_S
        expected = self.predicted(self._limit)
        speed = None if expected is None else expected.speed
        rate = None if speed is None else speed.decode_tokens_per_s
        if speed is None or rate is None:
            return UNKNOWN_S
        slow = speed.ttft_s.high + self._limit / rate.low
        return min(ANSWER_S, max(LEAST_S, slow * SLACK))

    def ended(self, piece: AnswerPiece, taken: AnswerFigures, told: Sequence[Caveat]) -> ChatPiece:
        """The last item."""
        expected = self.predicted(taken.output_tokens)
        caveats = [
            *told,
            *([CPU_PEAK] if self._device.kind == "cpu" else []),
            *([TOO_SHORT] if taken.decode_tokens_per_s is None else []),
            *([TIME_UP] if taken.stopped == "stopped" else []),
            *self._unknown,
            *(expected.caveats if expected is not None else ()),
        ]
        sources = (self._measured(taken), *(expected.sources if expected is not None else ()))
        return item(piece, caveats, sources, self._metrics(taken, expected))

    def _measured(self, taken: AnswerFigures) -> Source:
        versions = f"torch {self._device.torch}, transformers {self._device.transformers}"
        today = datetime.now(tz=UTC).date().isoformat()
        return Source(what=f"measured here ({PEAK_SOURCES[taken.peak_of]})", source=f"{self._device.name}, {versions}", checked=today)

    def _metrics(self, taken: AnswerFigures, expected: Predicted | None) -> ChatMetrics:
        guess = run_end(None if expected is None else expected.speed, "value")
        return {
            "ttft_s": taken.ttft_s,
            "decode_tokens_per_s": taken.decode_tokens_per_s,
            "peak_bytes": taken.peak_bytes,
            "peak_of": taken.peak_of,
            "device": self._device.name,
            "model": self._loaded.name,
            "precision": self._loaded.precision,
            "prompt_tokens": taken.prompt_tokens,
            "output_tokens": taken.output_tokens,
            "stopped": taken.stopped,
            "predicted": _prediction(expected, on_cpu=self._device.kind == "cpu"),
            "error_ratio": {
                "ttft_s": ratio(guess["ttft_s"], taken.ttft_s),
                "decode_tokens_per_s": ratio(guess["decode_tokens_per_s"], taken.decode_tokens_per_s),
                "peak_bytes": ratio(expected.peak_bytes if expected is not None else None, taken.peak_bytes),
            },
        }


def _prediction(found: Predicted | None, *, on_cpu: bool) -> ChatPrediction:
    """The prediction as plain JSON.

    A cache grows by new copies of itself. On a GPU the allocator uses the freed ones again; in the memory of a process they may stay, so
    that the high end on a CPU has the cache twice.
    """

    def figures(end: End, copies: int = 0) -> RunFigures:
        speed, peak = (None, None) if found is None else (found.speed, found.peak_bytes + copies * found.kv_cache_bytes)
        return {**run_end(speed, end), "peak_bytes": peak}

    return {
        **figures("value"),
        "weights_bytes": found.weights_bytes if found is not None else None,
        "kv_cache_bytes": found.kv_cache_bytes if found is not None else None,
        "activation_bytes": found.activation_bytes if found is not None else None,
        "low": figures("low"),
        "high": figures("high", copies=1 if on_cpu else 0),
    }


def item(
    piece: AnswerPiece, caveats: Iterable[Caveat] = (), sources: Iterable[Source] = (), metrics: ChatMetrics | None = None
) -> ChatPiece:
    """A piece as plain JSON."""
    return {
        "schema": SCHEMA,
        "stage": piece.stage,
        "text": piece.text,
        "note": piece.note,
        "metrics": metrics,
        "caveats": caveat_entries(caveats),
        "sources": source_entries(sources),
    }


MOST_MESSAGES = 100
MOST_CHARACTERS = 16_000  # of one message
MOST_IN_ALL = 64_000
_FORM = 'a list of {"role": "user" or "assistant", "content": text}, or of [user, assistant] pairs of texts'


def _text(name: str, value: object) -> str:
    """Text with something in it. Control characters other than line breaks and tabs are no words and are refused.

    Raises:
        BadArgument: not text, empty, or too long.
    """
    accepted = f"text of 1 to {MOST_CHARACTERS:,} characters"
    if not isinstance(value, str):
        raise BadArgument(name, seen(value), accepted)
    if len(value) > MOST_CHARACTERS:
        raise BadArgument(name, f"{len(value):,} characters", accepted)
    if not value.strip() or any((ord(c) < ord(" ") and c not in "\n\r\t") or "\ud800" <= c <= "\udfff" for c in value):
        raise BadArgument(name, value, f"{accepted}, without control characters")
    return value


def _content(name: str, value: object) -> str:
    """The text of a message's content, which Gradio also sends as a list of parts."""
    if not isinstance(value, list):
        return _text(name, value)
    parts = value[: MOST_MESSAGES + 1]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type", "text") == "text" else None for part in parts]
    if len(parts) > MOST_MESSAGES or not all(isinstance(text, str) for text in texts):
        raise BadArgument(name, seen(value), "text, or a list of parts of text; files are not read")
    return _text(name, "".join(text for text in texts if isinstance(text, str)))


def _turns(at: int, value: object) -> list[Message]:
    name = f"history[{at}]"
    if isinstance(value, dict):
        role = value.get("role")
        if role == "user" or role == "assistant":  # noqa: PLR1714 so the checker sees which two it is
            return [Message(role, _content(f"{name}.content", value.get("content")))]
        raise BadArgument(f"{name}.role", seen(role), "user or assistant")
    if isinstance(value, list | tuple) and len(value) == 2:  # noqa: PLR2004 a pair
        return [Message("user", _content(f"{name}[0]", value[0])), Message("assistant", _content(f"{name}[1]", value[1]))]
    raise BadArgument(name, seen(value), _FORM)


def check_message(value: object) -> str:
    """What the user says now.

    Raises:
        BadArgument: not text, empty, or too long.
    """
    return _text("message", value)


def check_history(value: object) -> list[Message]:
    """What was said before, oldest first.

    Raises:
        BadArgument: not a history, or too much of it.
    """
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise BadArgument("history", seen(value), _FORM)
    if len(value) > MOST_MESSAGES:
        raise BadArgument("history", seen(value), f"at most {MOST_MESSAGES} messages: leave out the oldest")
    found = [message for at, turn in enumerate(value) for message in _turns(at, turn)]
    total = sum(len(message.text) for message in found)
    if total > MOST_IN_ALL:
        raise BadArgument("history", f"{total:,} characters", f"at most {MOST_IN_ALL:,} characters in all: leave out the oldest messages")
    return found


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
        pace: Callable[[Device, str], DeviceRates | None] = device_rates,
    ) -> None:
        """Predict from `catalog()` and `models`, and from what `pace` tells a processor to reach; nothing is loaded yet."""
        self._catalog, self._models, self._pace = catalog, models, pace
        self._demo = demo or DemoModel()
        self._talk = Conversations(self._demo, catalog)

    def place(self) -> None:
        """On ZeroGPU, put the model where the platform wants it while the app starts; elsewhere nothing."""
        self._demo.place(self._catalog())

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
        said, before = check_message(message), check_history(history)
        most = arguments.whole("max_new_tokens", max_new_tokens, 1, MOST_TOKENS)
        heat = float(arguments.number("temperature", temperature, 0, MOST_TEMPERATURE))
        ready: tuple[LoadedModel, Device] | None = None
        with closing(self._talk.ready()) as coming:
            for step in coming:
                if isinstance(step, AnswerPiece):
                    yield item(step)
                else:
                    ready = step
        assert ready is not None, "`ready` ends with the model"  # noqa: S101 or it raises
        loaded, device = ready
        limit = min(most, max(1, loaded.context_tokens // 2))
        asked = build_prompt(loaded.tokenizer, before, said, loaded.context_tokens - limit)
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
        declared = self._talk.declared(None, None, None, seconds)
        return (Caveat(code="quota_asked", message=arithmetic(self._catalog().rules.zerogpu, declared, self._talk.size())),)


def _cuts(dropped: int, most: int, limit: int, loaded: LoadedModel) -> list[Caveat]:
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
