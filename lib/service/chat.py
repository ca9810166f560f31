"""`/chat`: a conversation with the demo model, streamed; at its end the measured figures and the prediction for exactly this run.

A history is a list of messages in Gradio's form, {"role": "user", "content": "…"} (the content also as a list of parts of text), or of
pairs [user text, model text]. Roles are `user` and `assistant`: no message speaks as the system here. Texts are checked: plain, of a
bounded length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from lib.answers.live import AnswerFigures, ChatMetrics, ChatPiece, ChatPrediction
from lib.errors import AdvisorError, BadArgument
from lib.live.chat import AnswerPiece, Message, build_prompt
from lib.live.demo_model import LoadedModel
from lib.live.device import Device
from lib.live.device_queue import CHAT
from lib.live.limits import DeviceRates
from lib.live.zerogpu import quota_values
from lib.provenance import Caveat, Source
from lib.request.checks import describe_value
from lib.request.fields import Arguments, Checked, number, whole_number
from lib.result import fields_of
from lib.service.endpoint import App, endpoint
from lib.service.runs import Run, RunPrediction, compare_run, predict_run, run_figures

ANSWER_S = 120.0
"""An answer on hardware of one's own ends here: others wait for the same device."""

UNKNOWN_S, LEAST_S, SLACK = 60.0, 5.0, 1.5
"""Seconds requested of ZeroGPU: 1.5 times the slow end of the prediction; without a prediction the platform's default."""

MOST_TOKENS = 1024
MOST_TEMPERATURE = 2
MOST_MESSAGES = 100
MOST_CHARACTERS = 16_000  # of one message
MOST_IN_ALL = 64_000
_FORM = 'a list of {"role": "user" or "assistant", "content": text}, or of [user, assistant] pairs of texts'

PEAK_SOURCES = {
    "allocator": "torch.cuda.max_memory_allocated",
    "weights_and_growth": "bytes of the loaded weights + growth of the resident set",
}


def _text(name: str, value: object) -> str:
    """Text that is not empty. Control characters other than line breaks and tabs are refused, because they are not words."""
    accepted = f"text of 1 to {MOST_CHARACTERS:,} characters"
    if not isinstance(value, str):
        raise BadArgument(name, describe_value(value), accepted)
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
        raise BadArgument(name, describe_value(value), "text, or a list of parts of text; files are not read")
    return _text(name, "".join(text for text in texts if isinstance(text, str)))


def _turns(at: int, value: object) -> list[Message]:
    name = f"history[{at}]"
    if isinstance(value, dict):
        role = value.get("role")
        if role == "user" or role == "assistant":  # noqa: PLR1714 so the checker sees which two it is
            return [Message(role, _content(f"{name}.content", value.get("content")))]
        raise BadArgument(f"{name}.role", describe_value(role), "user or assistant")
    if isinstance(value, list | tuple) and len(value) == 2:  # noqa: PLR2004 a pair
        return [Message("user", _content(f"{name}[0]", value[0])), Message("assistant", _content(f"{name}[1]", value[1]))]
    raise BadArgument(name, describe_value(value), _FORM)


def _history(_: str, value: object) -> list[Message]:
    """The messages before, oldest first."""
    if value is None:
        return []
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise BadArgument("history", describe_value(value), _FORM)
    if len(value) > MOST_MESSAGES:
        raise BadArgument("history", describe_value(value), f"at most {MOST_MESSAGES} messages: leave out the oldest")
    messages = [message for at, turn in enumerate(value) for message in _turns(at, turn)]
    total = sum(len(message.text) for message in messages)
    if total > MOST_IN_ALL:
        raise BadArgument("history", f"{total:,} characters", f"at most {MOST_IN_ALL:,} characters in all: leave out the oldest messages")
    return messages


class ChatArguments(Arguments):
    """Arguments of `/chat`."""

    message: Annotated[str, Checked(_text, str)]
    """The message, at most 16,000 characters."""
    history: Annotated[Sequence[Message], Checked(_history, list[dict[str, str]], write=list)] = ()
    """Earlier turns, oldest first, as objects with role (user or assistant) and content."""
    max_new_tokens: Annotated[int, whole_number(1, MOST_TOKENS)] = 256
    """The longest answer, 1 to 1024 tokens."""
    temperature: Annotated[float, number(0, MOST_TEMPERATURE)] = 0.7
    """0 takes the most likely token each time; up to 2 varies more."""


@endpoint(queue=CHAT, repeatable=False)
def chat(app: App, arguments: ChatArguments) -> Iterator[ChatPiece]:
    """Talk to a small model on the hardware of this Space; the answer streams, and ends with its measured figures and their prediction.

    Returns:
        The answer so far; the last item carries the metrics.
    """
    ready: tuple[LoadedModel, Device] | None = None
    with closing(app.conversations.ready()) as steps:
        for step in steps:
            if isinstance(step, AnswerPiece):
                yield chat_piece(step)
            else:
                ready = step
    assert ready is not None, "`ready` ends with the model"  # noqa: S101 or it raises
    loaded, device = ready
    limit = min(arguments.max_new_tokens, max(1, loaded.context_tokens // 2))
    prompt = build_prompt(loaded.tokenizer, arguments.history, arguments.message, loaded.context_tokens - limit)
    run = AnswerRun(app=app, loaded=loaded, device=device, prompt_tokens=len(prompt.ids), rates=app.rates(device, loaded.precision))
    seconds = run.limit_s(limit)
    caveats = [*_cuts(prompt.dropped, arguments.max_new_tokens, limit, loaded)]
    if device.per_call:  # on ZeroGPU a run takes of the visitor's quota
        declared, size = app.conversations.declared_seconds(None, None, None, seconds), app.conversations.size()
        caveats.append(Caveat("quota_asked", quota_values(app.catalog().rules.zerogpu, declared, size)))
    with closing(app.conversations.say(prompt.ids, limit, arguments.temperature, seconds)) as pieces:
        for piece in pieces:
            yield chat_piece(piece, caveats) if piece.figures is None else run.last_piece(piece, piece.figures, caveats)


def _cuts(dropped: int, most: int, limit: int, loaded: LoadedModel) -> list[Caveat]:
    """Messages left out to fit the conversation's length."""
    found = []
    if dropped:
        found.append(Caveat("history_cut", {"messages": dropped, "context_tokens": loaded.context_tokens}))
    if limit < most:
        found.append(Caveat("answer_limit", {"limit_tokens": limit, "context_tokens": loaded.context_tokens}))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRun:
    """One answer of the model on a device; `rates` are measured rates of a processor, before the answer."""

    app: App
    loaded: LoadedModel
    device: Device
    prompt_tokens: int
    rates: DeviceRates | None = None

    def predict(self, output_tokens: int) -> RunPrediction | Caveat:
        """Prediction for an answer of this length; a caveat if there is none.

        The model is the bundled one if it is the same, else that of its own config.
        """
        loaded, models = self.loaded, self.app.models
        try:
            run = Run(
                spec=models(loaded.name if loaded.name in models.bundled else loaded.config_text),
                precision=loaded.precision,
                device=self.device,
                prompt_tokens=self.prompt_tokens,
                output_tokens=max(1, output_tokens),
                rates=self.rates,
            )
            return predict_run(run, self.app.catalog())
        except AdvisorError as error:
            return Caveat("not_predicted", {"failure": str(error)})

    def limit_s(self, output_tokens: int) -> float:
        """Seconds that an answer of at most these tokens may take."""
        if not self.device.per_call:
            return ANSWER_S
        prediction = self.predict(output_tokens)
        speed = None if isinstance(prediction, Caveat) else prediction.speed
        rate = None if speed is None else speed.decode_tokens_per_s
        if speed is None or rate is None:
            return UNKNOWN_S
        slow = speed.ttft_s.high + output_tokens / rate.low
        return min(ANSWER_S, max(LEAST_S, slow * SLACK))

    def last_piece(self, piece: AnswerPiece, figures: AnswerFigures, caveats: Sequence[Caveat]) -> ChatPiece:
        """The whole answer with its metrics, and the prediction for an answer of its lengths."""
        prediction = self.predict(figures.output_tokens)
        all_caveats = [
            *caveats,
            *([Caveat("peak_from_resident_set")] if self.device.kind == "cpu" else []),
            *([Caveat("too_short_for_speed")] if figures.decode_tokens_per_s is None else []),
            *([Caveat("time_limit")] if figures.stopped == "stopped" else []),
            *([prediction] if isinstance(prediction, Caveat) else prediction.caveats),
        ]
        device = self.device
        measured = Source(
            what=f"measured here ({PEAK_SOURCES[figures.peak_of]})",
            source=f"{device.name}, torch {device.torch}, transformers {device.transformers}",
            checked=datetime.now(tz=UTC).date().isoformat(),
        )
        sources = (measured, *(() if isinstance(prediction, Caveat) else prediction.sources))
        return chat_piece(piece, all_caveats, sources, self._metrics(figures, None if isinstance(prediction, Caveat) else prediction))

    def _metrics(self, figures: AnswerFigures, prediction: RunPrediction | None) -> ChatMetrics:
        predicted = _prediction(prediction, on_cpu=self.device.kind == "cpu")
        return ChatMetrics(
            **fields_of(figures),
            device=self.device.name,
            model=self.loaded.name,
            precision=self.loaded.precision,
            predicted=predicted,
            error_ratio=compare_run(predicted, figures),
        )


def _prediction(prediction: RunPrediction | None, *, on_cpu: bool) -> ChatPrediction:
    """The prediction with its range.

    A KV cache grows by new copies of itself. The allocator of a GPU uses freed copies again; in the memory of a process they may stay, so
    the high end on a CPU counts the KV cache twice.
    """
    return ChatPrediction(
        **fields_of(run_figures(prediction)),
        weights_bytes=None if prediction is None else prediction.weights_bytes,
        kv_cache_bytes=None if prediction is None else prediction.kv_cache_bytes,
        activation_bytes=None if prediction is None else prediction.activation_bytes,
        low=run_figures(prediction, "low"),
        high=run_figures(prediction, "high", more_bytes=prediction.kv_cache_bytes if prediction is not None and on_cpu else 0),
    )


def chat_piece(
    piece: AnswerPiece, caveats: Iterable[Caveat] = (), sources: Iterable[Source] = (), metrics: ChatMetrics | None = None
) -> ChatPiece:
    """A piece of an answer, as callers see it."""
    return ChatPiece(stage=piece.stage, text=piece.text, note=piece.note, metrics=metrics, caveats=tuple(caveats), sources=tuple(sources))
