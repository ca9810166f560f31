"""Inverse questions on demand: a box on the tab *Memory* that answers when it is opened, and follows the questions while it is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import model_name
from lib.present.markup import hint_note
from lib.present.solve_cards import solve_card, ways_table
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import follow
from lib.ui.fields import Value
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.service.app import Services

CHOOSE = "Name a model above to see the limits of this hardware for it."
NOT_TRAINING = "These are questions about inference. Set *Use* to inference to ask them."
_SHARED = ("context_tokens", "precision", "kv_precision", "engine", "gpu_layers")


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveView:
    """The questions of the box, and where the answer goes."""

    hardware: gr.Dropdown
    ttft: gr.Number
    rate: gr.Number
    answer: gr.HTML

    def inputs(self) -> list[Any]:
        """Its own questions, in the order of `solve_html`."""
        return [self.hardware, self.ttft, self.rate]


def build(services: Services) -> SolveView:
    """The layout of the box."""
    title = "Limits of this hardware: longest context, most concurrent requests, cheapest tier, ways to save memory"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="solve"):
        with gr.Row():
            hardware = gr.Dropdown(
                ask.hardware_words(services.catalog()), value="spaces:l4x1", label="On this hardware", allow_custom_value=True,
                info="Type to search, or name your own cards: RTX-4090x2.",
            )  # fmt: skip
            ttft = gr.Number(0, label="Time to first token, s, at most", info="0 sets no limit.", min_width=130)
            rate = gr.Number(0, label="Tokens per second, at least", info="0 sets no limit.", min_width=130)
        answer = gr.HTML(elem_id="solved")
    return SolveView(hardware=hardware, ttft=ttft, rate=rate, answer=answer)


def solve_html(services: Services, model: str, own: Sequence[Value], memory: Sequence[Value]) -> str:
    """The answer for the questions of the tab (`memory`, its values) and of the box; a refusal becomes a sentence."""
    if not model:
        return hint_note(CHOOSE)
    asked = {**workload.recommend_arguments(memory), **workload.tab_arguments(memory, ask.MEMORY)}
    if asked["mode"] != "inference":
        return hint_note(NOT_TRAINING)
    hardware, ttft, rate = own
    shared = {name: asked[name] for name in _SHARED}
    shared["engine"] = "transformers" if asked["engine"] == "auto" else asked["engine"]
    limits = {"max_ttft_s": ttft or 0, "min_tokens_per_s": rate or 0}
    try:
        answer = services.solve(model, hardware or "", concurrency=asked["concurrency"], **limits, **shared)
    except AdvisorError as refused:
        return ask.word_refusal(refused, "No solution.")
    return solve_card(answer, model_name(answer["model"], model)) + ways_table(answer)


def wire(view: SolveView, services: Services, model: ModelReference, memory: Sequence[Any], tick: gr.Number) -> None:
    """Opening answers; while the box is open the answer follows its questions, those of the tab and the model."""
    inputs = [*view.inputs(), *memory]

    def answer(reference: str, *values: Value) -> list[Any]:
        return [solve_html(services, reference, values[: len(view.inputs())], values[len(view.inputs()) :])]

    follow(tick, answer, [model.text, *inputs], [view.answer], "solve_changed")
