"""The box of *Cost* about a pile of work: items and a deadline in; hours, price, machines and the command for Jobs out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import gradio as gr

from lib.errors import AdvisorError
from lib.present.batch_cards import batch_card
from lib.present.glossary import explain_terms
from lib.present.markup import hint_note, no_model_note, refusal_note
from lib.present.wording import page_note
from lib.request.types import MAX_TOKENS
from lib.service.estimate_batch import LONGEST_DEADLINE_H, MOST_ITEMS, estimate_batch
from lib.ui import workload
from lib.ui.events import AT_ONCE, Wiring
from lib.ui.fields import Field, Value, arguments

if TYPE_CHECKING:
    from lib.service.app import Services

FIELDS = (
    Field(argument="items", name="items", default=10_000, low=1, high=MOST_ITEMS, label="Items"),
    Field(argument="prompt_tokens", name="item-prompt", default=512, low=1, high=MAX_TOKENS, label="Tokens of an item"),
    Field(argument="output_tokens", name="item-output", default=256, high=MAX_TOKENS, label="Tokens of an answer"),
    Field(argument="deadline_hours", name="deadline", default=0.0, high=LONGEST_DEADLINE_H, label="Done within, hours"),
)
"""The numbers of the box."""

OF_WORKLOAD = ("precision", "engine", "serving")
"""Arguments that the workload above the tabs asks."""


class BatchView:
    """The components of the box."""

    def __init__(self) -> None:
        """The layout."""
        with gr.Accordion("A fixed amount of work (batch)", open=False, elem_classes="quiet-accordion", elem_id="batch"):
            gr.HTML(hint_note(page_note("batch")))
            with gr.Row(elem_classes="change-fields"):
                self.numbers = [workload.number(field) for field in FIELDS]
                self.ask = gr.Button("Estimate", elem_id="batch-go", min_width=140)
            self.answer = gr.HTML(elem_id="batch-answer")


def batch_markup(services: Services, model: str, values: Sequence[Value]) -> str:
    """The answer for the numbers of the box and the question above the tabs, as markup; a refusal becomes a sentence."""
    if not model.strip():
        return no_model_note("cost")
    question = workload.recommend_arguments(values[len(FIELDS) :])
    asked = {**arguments(FIELDS, values[: len(FIELDS)]), **{name: question[name] for name in OF_WORKLOAD}}
    try:
        answer = services[estimate_batch](model, **asked)
    except AdvisorError as refused:
        return refusal_note(str(refused))
    return explain_terms(batch_card(answer))


def wire(view: BatchView, page: Wiring) -> None:
    """The button answers for the model of the page."""

    def estimate(model: str | None, *values: Value) -> str:
        return batch_markup(page.services, model or "", values)

    view.ask.click(estimate, [page.model.text, *view.numbers, *page.question], view.answer, api_name="batch_estimated", **AT_ONCE)
