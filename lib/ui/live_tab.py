"""The tab *Live demo*: where this runs, a chat, a measurement of the page's model, the heartbeat, and the rows measured so far.

Nothing here runs when the page opens: the device is looked at (which loads torch) when the tab is, once for each visit of it.

In the chat messages stream in, Stop stops the model, and each answer's figures are shown with their prediction. The conversation is kept
in the session's memory and nowhere else. What the model and the visitor write is shown as Markdown without any HTML and without
pictures: Gradio's own cleaning lets both through, and a picture would be fetched from wherever the text says.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.catalog import Catalog
from lib.live.demo_model import ON_CPU, ON_GPU, display_name
from lib.live.device import Device, current_device
from lib.live.device_queue import CHAT
from lib.live.zerogpu import quota_seconds
from lib.present.glossary import bind_units
from lib.present.live_cards import chat_card, chat_text, device_line, press_line, progress_line, stopped_line, where_words
from lib.present.markup import answer_actions, hint_note, refusal_note
from lib.present.tables import answer_json
from lib.present.wording import page_note
from lib.service.chat import MOST_CHARACTERS, MOST_TEMPERATURE, MOST_TOKENS, chat
from lib.ui import events, live_boxes
from lib.ui.fields import Field
from lib.ui.live_boxes import LedgerView, RunView
from lib.ui.workload import slider

if TYPE_CHECKING:
    from gradio.events import Dependency

    from lib.answers.live import ChatPiece
    from lib.service.app import Services


Message = dict[str, str]
History = list[Message]

LENGTH = Field(argument="max_new_tokens", name="chat-length", default=256, low=1, high=MOST_TOKENS, label="Longest answer, tokens")
TEMPERATURE = Field(argument="temperature", name="chat-temperature", default=0.7, low=0, high=MOST_TEMPERATURE, label="Temperature")
_KEPT = 60  # messages that go along; the service takes a hundred, and cuts what does not fit the model
_KEPT_CHARACTERS = 48_000
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_JOINER = "\u2060"  # a word joiner: nothing to see, but no tag and no picture any more


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatView:
    """The outputs of the chat, of which `message` and `history` (the messages as written) are inputs too, and its two sliders."""

    outputs: events.Outputs
    fresh: gr.Button
    length: gr.Slider
    temperature: gr.Slider


def _conversation(history: History, **updates: Any) -> events.Updates:
    """A scene of the chat; outputs that it does not name stay as they are."""
    return {"talk": display_history(history), "history": history, **updates}


def disarm_markdown(text: str) -> str:
    """The text with every HTML tag, picture and diagram broken by a character that cannot be seen; Markdown otherwise."""
    broken = _TAG.sub(f"<{_JOINER}", text).replace("![", f"!{_JOINER}[")
    return re.sub("(?i)(m)(ermaid)", rf"\1{_JOINER}\2", broken)


def display_history(history: Sequence[Message]) -> list[Message]:
    """The conversation as the page may show it."""
    return [{"role": message["role"], "content": disarm_markdown(message["content"])} for message in history]


def build_chat() -> ChatView:
    """The layout of the chat."""
    gr.HTML("<h2>Chat</h2>", elem_classes="live-head")
    with gr.Row(elem_classes="beside"):
        with gr.Column(elem_id="chat", min_width=300):
            talk = gr.Chatbot(
                label="Conversation",
                height=260,
                layout="bubble",
                buttons=[],
                feedback_options=None,
                latex_delimiters=[],
                sanitize_html=True,
                allow_tags=False,
                allow_file_downloads=False,
                placeholder="Ask something. The answer is written on this device.",
                visible=False,  # shown when the tab is opened: until then no browser loads its scripts, a tenth of all
                elem_id="talk",
            )
            status = gr.HTML(elem_id="chat-status")
            message = gr.Textbox(
                label="Message", lines=1, max_lines=6, max_length=MOST_CHARACTERS, placeholder="Write a message", elem_id="message"
            )
            with gr.Row(elem_classes="act-row"):
                send = gr.Button("Send", variant="primary", elem_id="send")
                stop = gr.Button("Stop", variant="stop", visible=False, elem_id="chat-stop")
                fresh = gr.Button("New conversation", elem_id="fresh")
            with gr.Accordion("Answer length and temperature", open=False, elem_classes="quiet-accordion"):
                length = slider(LENGTH)
                temperature = slider(TEMPERATURE, "0 takes the likeliest token.", step=0.1)
        card = gr.HTML(hint_note(page_note("chat")), elem_id="chat-card")
    outputs = {
        "talk": talk, "history": gr.State([], time_to_live=3600), "message": message, "status": status, "card": card,
        "run": send, "stop": stop,
    }  # fmt: skip
    return ChatView(outputs=outputs, fresh=fresh, length=length, temperature=temperature)


def chat_scenes(services: Services, message: str | None, history: History, longest: Any, temperature: Any) -> Iterator[events.Updates]:
    """Ask the model and show its answer as it grows; a refusal is shown under the conversation, and the message in its field."""
    prompt = (message or "").strip()
    if not prompt:
        yield _conversation(history, status=hint_note(page_note("no_message")))
        return
    talk: History = [*history, {"role": "user", "content": prompt}]
    answer_text = ""

    def run() -> Iterator[events.Updates]:
        nonlocal answer_text
        yield _conversation(talk, message="", status=progress_line(page_note("chat_starts")), busy=True)
        with events.close_on_exit(services[chat](prompt, recent_history(history), _whole(longest), temperature)) as pieces:
            for piece in pieces:
                answer_text = piece.text
                yield _piece_scene(talk, piece)

    def failure_scene(sentence: str) -> events.Updates:
        if answer_text:
            return _conversation(_with(talk, answer_text), status=refusal_note(sentence))
        return _conversation(
            history, message=prompt, status=refusal_note(sentence)
        )  # nothing was answered: the message is there to be sent again

    yield from events.scenes(run, CHAT, failure_scene)


def _whole(value: Any) -> Any:
    """A slider's value as the whole number that it is; anything else is left for the service to refuse."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def recent_history(history: Sequence[Message]) -> History:
    """The newest part of the conversation that is sent along: questions with their answers. Unanswered questions are left out."""
    messages: History = []
    room = _KEPT_CHARACTERS
    for question, answer in reversed(list(itertools.pairwise(history[-_KEPT:]))):
        pair = [{**message, "content": strip_controls(message["content"])} for message in (question, answer)]
        if (question["role"], answer["role"]) != ("user", "assistant") or not all(message["content"].strip() for message in pair):
            continue
        room -= sum(len(message["content"]) for message in pair)
        if room < 0:
            break
        messages = [*pair, *messages]
    return messages


def strip_controls(text: str) -> str:
    """The text without control characters, which a model may write and the service does not take, and no longer than a message may be."""
    return "".join(c for c in text if c in "\n\t" or c >= " ")[:MOST_CHARACTERS]


def _with(talk: History, answer: str) -> History:
    return [*talk, {"role": "assistant", "content": answer}] if answer.strip() else talk


def _piece_scene(talk: History, piece: ChatPiece) -> events.Updates:
    """The scene of one piece."""
    history = _with(talk, piece.text)
    metrics = piece.metrics
    if metrics is None:
        note = piece.note or page_note("writing" if piece.stage == "writing" else "at_work")
        return _conversation(history, status=progress_line(note), busy=True)
    acts = answer_actions(
        text=chat_text(piece.text, metrics),
        query=None,
        files=(("Download JSON", "chat.json", "application/json", answer_json(piece)),),
    )
    hint = "" if piece.text.strip() else hint_note(page_note("empty_answer"))
    return _conversation(history, status=hint, card=chat_card(metrics, piece) + acts)


def stopped_scene(history: History) -> events.Updates:
    """After Stop: the text so far is kept."""
    return _conversation(history, status=stopped_line(page_note("stopped:chat")))


def wire_chat(view: ChatView, services: Services) -> None:
    """Sending streams; Stop closes the stream, and with it the model's run."""

    def say(message: str | None, history: History, longest: Any, temperature: Any) -> Iterator[dict[Any, Any]]:
        yield from events.scene_updates(parts, chat_scenes(services, message, history, longest, temperature))

    def stop(history: History) -> dict[Any, Any]:
        return events.last_scene(parts, stopped_scene(history))

    def restart() -> dict[Any, Any]:
        return events.last_scene(parts, _conversation([], card=hint_note(page_note("chat"))))

    parts = view.outputs
    outputs = list(parts.values())
    saying: Dependency = gr.on(
        [parts["run"].click, parts["message"].submit],
        say,
        [parts["message"], parts["history"], view.length, view.temperature],
        outputs,
        api_name="chat_said",
        show_progress_on=parts["status"],
        **events.queue_options(CHAT),
    )
    # The words come after the stream has ended: a last piece of it would write over them.
    stopping = parts["stop"].click(None, cancels=[saying], api_name="chat_cancelled", **events.AT_ONCE)
    stopping.then(stop, parts["history"], outputs, api_name="chat_stopped", **events.AT_ONCE)
    gr.on([view.fresh.click, parts["talk"].clear], restart, None, outputs, cancels=[saying], api_name="chat_restarted", **events.AT_ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """The parts of the tab; `was_opened` says whether a visitor opened it: the ledger is read only then."""

    device: gr.HTML
    chat: ChatView
    measure: RunView
    heartbeat: RunView
    ledger: LedgerView
    was_opened: gr.State


def build(services: Services) -> LiveView:
    """The layout of the tab."""
    with gr.Column(elem_id="live"):
        device = gr.HTML(press_line("this app's own hardware") + hint_note(page_note("device")), elem_id="device")
        measure = live_boxes.build_measure()
        chat = build_chat()
        heartbeat = live_boxes.build_heartbeat(services)
        ledger = live_boxes.build_ledger()
    return LiveView(device=device, chat=chat, measure=measure, heartbeat=heartbeat, ledger=ledger, was_opened=gr.State(value=False))


def device_markup(catalog: Catalog, look: Callable[[Catalog], Device] = current_device) -> str:
    """The device and the chat's model in a few words. The first look loads torch."""
    device = look(catalog)
    price = quota_seconds(catalog.rules.zerogpu, 10.0) / 10 if device.per_call else 1.0
    chat = display_name(os.environ.get("DEMO_MODEL", "").strip() or (ON_CPU if device.kind == "cpu" else ON_GPU))
    return bind_units(device_line(device, on_space=bool(os.environ.get("SPACE_ID")), chat=chat, quota_per_s=price))


def opening_markup(services: Services, look: Callable[[Catalog], Device] = current_device) -> str:
    """The head of the tab: first what a visitor can do here, then the device in detail."""
    catalog = services.catalog()
    device = look(catalog)
    return bind_units(press_line(where_words(device))) + device_markup(catalog, lambda _: device)


def wire(view: LiveView, page: events.Wiring) -> None:
    """Opening the tab (by hand or by a link, which selects it) fills it; each run then fills its own part, and the ledger after it."""
    services = page.services
    wire_chat(view.chat, services)
    live_boxes.wire_heartbeat(view.heartbeat, services)
    live_boxes.wire_ledger(view.ledger, services)
    running = live_boxes.wire_measure(view.measure, page)

    def arrive() -> list[Any]:
        return [True, opening_markup(services)]

    def foresee(_: Services, ref: str, values: Sequence[Any]) -> events.Updates:
        return {"expected": live_boxes.expected_html(services, ref, *live_boxes.run_arguments(*values))}

    def refresh(was_opened: bool, figure: str) -> Any:
        return events.by_component(view.ledger.outputs, live_boxes.ledger_updates(services, figure)) if was_opened else gr.skip()

    ledger, outputs = [view.was_opened, view.ledger.figure], list(view.ledger.outputs.values())
    # The first look at the device loads torch; the chat does not wait for it.
    page.tab.select(lambda: gr.update(visible=True), None, view.chat.outputs["talk"], api_name="live_chat_shown", **events.AT_ONCE)
    coming = page.tab.select(arrive, None, [view.was_opened, view.device], api_name="live_opened", **events.AT_ONCE)
    coming.then(refresh, ledger, outputs, api_name="ledger_opened", **events.AT_ONCE)
    running.then(refresh, ledger, outputs, api_name="ledger_followed", **events.AT_ONCE)
    expected = {"expected": view.measure.outputs["expected"]}
    page.follow("expected", foresee, live_boxes.measure_inputs(view.measure, page), expected, "measure_expected")


TAB = events.Tab(
    name="live",
    word="Live demo",
    panels=(events.Panel("expected"),),
    build=build,
    wire=wire,
    asks_workload=False,
    boxes={"expected": live_boxes.MEASURE, "heartbeat": live_boxes.HEARTBEAT, "chat": (LENGTH, TEMPERATURE)},
    box_inputs=lambda view: view.measure.inputs,
)
