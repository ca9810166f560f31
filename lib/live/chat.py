"""The chat: a conversation becomes tokens, waits for the model and the device, then its answer streams with the run's figures.

    ttft_s                 from the start of the first step to the first token on the host, prompt included
    decode_tokens_per_s    (n − 1) / (time of the last token − time of the first)

The model runs in a thread of its own and the generator only waits. Closing the generator stops the model before its next layer. The peak
memory on CUDA is the allocator's; on a CPU it is the loaded weights and the growth of the process during the answer.

On ZeroGPU the platform gives each conversation its GPU and its place in the queue. Elsewhere there is one device and one answer at a
time: two answers at once would share its time and be counted in each other's memory.

The prompt is made by the model's own chat template, with the words of people kept words. A template writes control tokens around each
message ("<|im_start|>user"). A message that contains such a token as text must not become one, or a visitor could end their own turn and
speak as the system. So the template is rendered with placeholders for the messages; what the template wrote is tokenized with its control
tokens, and each message by itself, cut inside every text that would be one.

    rendered = a‹0›b‹1›c          tokens = T(a) + W(message 0) + T(b) + W(message 1) + T(c)

T tokenizes as the tokenizer does, W tokenizes pieces in which no added token is whole. The cost: a token that would have spanned the
border between template and message is two tokens.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass, field
from queue import Empty
from typing import Any, Literal, NamedTuple

from lib.answers.live import AnswerFigures, Peak, StopReason
from lib.catalog import Catalog
from lib.errors import BadArgument, ModelNotAtHand, NoGpuFree
from lib.live.demo_model import ROOM, DemoModel, LoadedModel, Note, NoteListener
from lib.live.device import IMPORT_LOCK, Device, Size, current_device
from lib.live.device_queue import WAIT_S, hardware
from lib.live.process import CudaGauge, HostGauge
from lib.live.zerogpu import gpu_task, size_for, start_seconds
from lib.present.wording import write_text

Role = Literal["user", "assistant"]

_SHORTEST_TOKEN = 2  # a single letter or a run of blanks controls nothing


class Message(NamedTuple):
    """One turn: its role and its plain text."""

    role: Role
    text: str


class Prompt(NamedTuple):
    """Tokens to read, and the number of oldest messages left out because of the context limit."""

    ids: list[int]
    dropped: int


def control_tokens(tokenizer: Any) -> re.Pattern[str] | None:
    """Texts that the tokenizer takes for one added token; None when it has none."""
    names = sorted((name for name in tokenizer.get_added_vocab() if len(name.strip()) >= _SHORTEST_TOKEN), key=len, reverse=True)
    return re.compile("|".join(re.escape(name) for name in names)) if names else None


def _split_controls(text: str, control: re.Pattern[str] | None) -> list[str]:
    """The text in pieces, cut after the first letter of everything that looks like a control token."""
    if control is None:
        return [text]
    pieces, start, at = [], 0, 0
    while match := control.search(text, at):
        pieces.append(text[start : match.start() + 1])
        start = at = match.start() + 1
    return [piece for piece in [*pieces, text[start:]] if piece]


def _encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False)) if text else []


def encode_text(tokenizer: Any, text: str, control: re.Pattern[str] | None) -> list[int]:
    """The tokens of a person's words, none of them a control token."""
    return [token for piece in _split_controls(text, control) for token in _encode(tokenizer, piece)]


def _render_template(tokenizer: Any, messages: Sequence[Mapping[str, str]]) -> str:
    """The template's text, ready for the answer; models that think aloud are asked not to."""
    from jinja2 import TemplateError  # noqa: PLC0415

    try:
        return str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=False))
    except TemplateError as error:
        if len(messages) == 1:
            raise ModelNotAtHand(
                "The model's chat template cannot be used. Next: the owner of the Space sets DEMO_MODEL to another instruct model."
            ) from error
        raise BadArgument(
            "history", f"{len(messages) - 1} earlier messages", "turns that this model's template takes: user first, then in alternation"
        ) from error


def encode_messages(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """The tokens of a conversation that ends with the user's turn."""
    mark = secrets.token_hex(8)  # random, so that no message can contain it
    stand_ins = [{"role": message.role, "content": f"{mark}x{number}x"} for number, message in enumerate(messages)]
    control = control_tokens(tokenizer)
    ids: list[int] = []
    parts = re.split(rf"{mark}x(\d+)x", _render_template(tokenizer, stand_ins))
    for at, part in enumerate(parts):
        ids += encode_text(tokenizer, messages[int(part)].text, control) if at % 2 else _encode(tokenizer, part)
    return ids


def build_prompt(tokenizer: Any, history: Sequence[Message], message: str, room: int) -> Prompt:
    """The conversation in at most `room` tokens: the oldest turns are left out until it fits."""
    messages = [*history, Message("user", message)]
    while True:
        ids = encode_messages(tokenizer, messages)
        if len(ids) <= room:
            return Prompt(ids, len(history) + 1 - len(messages))
        if len(messages) == 1:
            raise BadArgument(
                "message", f"{len(ids):,} tokens", f"a message of at most {room:,} tokens, those of the chat template included"
            )
        del messages[0]
        while len(messages) > 1 and messages[0].role != "user":  # a conversation begins with the user
            del messages[0]


ChatStage = Literal["waiting", "loading", "reading", "writing", "done"]

LEAST_S = 0.06
"""Between two items: at most sixteen a second, because each one is pickled on ZeroGPU and sent as a whole."""

LIFE_S = 0.5
"""The longest silence."""

GREEDY = 0.01  # below this the most likely token is taken: dividing by less overflows
_JOIN_S = 5.0
_WARM_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPiece:
    """The answer so far; `note` says which step runs while there is none, `figures` come with the last piece."""

    stage: ChatStage
    text: str = ""
    note: str = ""
    figures: AnswerFigures | None = None


class _Halted(Exception):
    """Raised inside the model when its answer is no longer wanted."""


@dataclass(slots=True)
class _Run:
    """The state that the generator and the model's thread share; `thread` is the identity of the latter."""

    seconds: float
    started: float = 0.0
    times: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    peak: tuple[int, Peak] | None = None
    failure: BaseException | None = None
    thread: int | None = None

    def watch(self, ids: Any, _scores: Any, **_: Any) -> Any:
        """Called by `generate` after every token: note the time, and whether to continue."""
        import torch  # noqa: PLC0415

        now = time.perf_counter()
        self.times.append(now)
        self.tokens.append(int(ids[0, -1]))
        return ids.new_full((ids.shape[0],), fill_value=self.stop.is_set() or now > self.started + self.seconds, dtype=torch.bool)

    def halt(self, *_: Any) -> None:
        """Called before every layer: it ends the reading of a long prompt whose answer is no longer wanted.

        The layers call the hooks of every run that is not over, so a run that is still ending must not halt the next one.
        """
        if self.stop.is_set() and self.thread == threading.get_ident():
            raise _Halted


_warm: dict[int, int] = {}


def warm_up(of: LoadedModel) -> None:
    """Run the model once in this process, so that work of the first time alone is not taken for its speed."""
    if _warm.get(id(of.model)) == os.getpid():
        return
    import torch  # noqa: PLC0415

    ids = torch.full((1, _WARM_TOKENS), min(of.end_ids, default=0), device=of.model.device)
    of.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=2, min_new_tokens=2, do_sample=False)
    _warm[id(of.model)] = os.getpid()


def _generate(of: LoadedModel, run: _Run, streamer: Any, ids: list[int], limit: int, temperature: float) -> None:
    """The thread. It ends the stream after every failure too."""
    import torch  # noqa: PLC0415

    run.thread = threading.get_ident()
    stacks = [list(module) for module in of.model.modules() if isinstance(module, torch.nn.ModuleList)]
    layers = max(stacks, key=len, default=[])  # of the longest stack; every architecture keeps them in a list
    hooks = [layer.register_forward_pre_hook(run.halt) for layer in layers]
    try:
        warm_up(of)
        prompt = torch.tensor([ids], device=of.model.device)
        sampling = {"do_sample": True, "temperature": temperature, "top_p": 0.95} if temperature >= GREEDY else {"do_sample": False}
        with closing(_Memory(of)) as memory:
            run.started = time.perf_counter()
            of.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=limit,
                streamer=streamer,
                stopping_criteria=[run.watch],
                **sampling,
            )
            run.peak = memory.peak()
    except _Halted:
        pass
    except BaseException as error:  # noqa: BLE001 told by the generator, on the other side of the thread
        run.failure = error
    finally:
        for hook in hooks:
            hook.remove()
        streamer.on_finalized_text("", stream_end=True)


def stream_answer(of: LoadedModel, ids: list[int], limit: int, temperature: float, seconds: float) -> Generator[AnswerPiece, None, None]:
    """At most `limit` tokens after the prompt `ids`, within `seconds`.

    Raises:
        Exception: any error of the model.
    """
    with IMPORT_LOCK:
        from transformers import TextIteratorStreamer  # noqa: PLC0415

    streamer = TextIteratorStreamer(of.tokenizer, skip_prompt=True, timeout=LIFE_S, skip_special_tokens=True)
    run = _Run(seconds=seconds)
    thread = threading.Thread(target=_generate, args=(of, run, streamer, ids, limit, temperature), daemon=True, name="chat")
    thread.start()
    text, reading = "", f"Reading {len(ids):,} tokens."
    try:
        for text in _texts(streamer):
            yield AnswerPiece(stage="writing", text=text) if run.times else AnswerPiece(stage="reading", text=text, note=reading)
        thread.join()  # the stream ends before the peak is read
    finally:
        run.stop.set()
        thread.join(_JOIN_S)
    if run.failure is not None:
        raise run.failure
    yield AnswerPiece(stage="done", text=text, figures=_answer_figures(of, run, len(ids), limit))


def _texts(streamer: Any) -> Iterator[str]:
    """The text so far: when it has grown, not too often; when nothing has happened for a while; and whole at the end."""
    text, sent_s = "", 0.0
    while True:
        try:
            more = next(streamer)
        except StopIteration:
            break
        except Empty:
            more = None
        text += more or ""
        if more is None or time.perf_counter() - sent_s >= LEAST_S:
            sent_s = time.perf_counter()
            yield text
    yield text


class _Memory:
    """Watches the peak of a run, as far as this device tells it."""

    def __init__(self, of: LoadedModel) -> None:
        self._cuda = of.model.device.type == "cuda"
        if not self._cuda:
            # Return freed pages to the system: memory that the process still holds would be taken again unseen.
            gc.collect()
            with contextlib.suppress(OSError, AttributeError):  # another C library than GNU's has no such call
                ctypes.CDLL("libc.so.6").malloc_trim(0)
        self._gauge = CudaGauge() if self._cuda else HostGauge()
        self._before = self._gauge.before if self._cuda else of.weights_bytes
        self._gauge.restart()

    def peak(self) -> tuple[int, Peak]:
        """The most that was held at once, and how that was found."""
        return self._before + self._gauge.peak(), "allocator" if self._cuda else "weights_and_growth"

    def close(self) -> None:
        """Stop watching."""
        self._gauge.close()


def _answer_figures(of: LoadedModel, run: _Run, prompt: int, limit: int) -> AnswerFigures:
    count = len(run.times)
    spent = run.times[-1] - run.times[0] if count > 1 else 0.0
    assert run.peak is not None, "it ended"  # noqa: S101 or its failure was raised
    peak, peak_of = run.peak
    stopped: StopReason = "end" if run.tokens and run.tokens[-1] in of.end_ids else "limit" if count >= limit else "stopped"
    return AnswerFigures(
        ttft_s=run.times[0] - run.started,
        decode_tokens_per_s=(count - 1) / spent if spent > 0 else None,
        peak_bytes=peak,
        peak_of=peak_of,
        prompt_tokens=prompt,
        output_tokens=count,
        stopped=stopped,
    )


class Conversations:
    """The model, the device and whose turn it is. Make it before the app is launched."""

    def __init__(self, demo: DemoModel, catalog: Callable[[], Catalog]) -> None:
        """Talk to this model on a device that `catalog()` knows."""
        self.demo, self._catalog = demo, catalog
        self._answer = gpu_task(self._on_device, duration=self.declared_seconds, size=self.size, doing="answering")

    def declared_seconds(self, _ids: object, _limit: object, _temperature: object, seconds: float) -> float:
        """Seconds to ask of the quota: those of the answer, and those until the model is on the GPU."""
        loaded = self.demo.loaded_model
        return seconds + start_seconds(loaded.weights_bytes if loaded is not None else 0)

    def size(self, *_: object) -> Size:
        """The size of GPU that the model needs, on ZeroGPU."""
        loaded = self.demo.loaded_model
        return "large" if loaded is None else size_for(self._catalog(), loaded.weights_bytes * ROOM)

    def ready(self) -> Generator[AnswerPiece | tuple[LoadedModel, Device], None, None]:
        """Progress until the model is loaded, then the model and its device. If abandoned, loading continues for the next caller."""
        loaded = self.demo.loaded_model
        if loaded is not None:
            yield loaded, current_device(self._catalog(), self.size())
            return
        load: Future[tuple[LoadedModel, Device]] = Future()
        notes: list[Note] = [write_text("live", "waiting", "device")]
        threading.Thread(target=self._load, args=(load, notes.append), daemon=True, name="load").start()
        began = time.monotonic()
        while not load.done():
            words = notes[-1] if isinstance(notes[-1], str) else notes[-1]()
            yield AnswerPiece(stage="loading", note=f"{words} ({time.monotonic() - began:.0f} s)")
            wait([load], LIFE_S)
        yield load.result()

    def _load(self, load: Future[tuple[LoadedModel, Device]], tell: NoteListener) -> None:
        try:
            device = current_device(self._catalog())
            load.set_result((self.demo.load(device, tell), device))
        except Exception as error:  # noqa: BLE001 raised by the one who waits
            load.set_exception(error)

    def _on_device(self, ids: list[int], limit: int, temperature: float, seconds: float) -> Generator[AnswerPiece, None, None]:
        loaded = self.demo.loaded_model
        assert loaded is not None, "asked for when ready"  # noqa: S101 `say` is called after `ready`
        yield from stream_answer(loaded, ids, limit, temperature, seconds)

    def say(self, ids: list[int], limit: int, temperature: float, seconds: float) -> Generator[AnswerPiece, None, None]:
        """The answer, when it is this conversation's turn. Call it after `ready`."""
        device, until = hardware(), time.monotonic() + WAIT_S
        while not device.acquire(LIFE_S):
            if time.monotonic() > until:
                raise NoGpuFree("Others kept the device busy for two minutes, and your message was not read. Next: try again in a minute.")
            yield AnswerPiece(stage="waiting", note=write_text("live", "waiting", "turn"))
        try:
            with closing(self._answer(ids, limit, temperature, seconds)) as pieces:
                yield from pieces
        finally:
            device.release()
