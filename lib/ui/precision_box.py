"""Every precision beside the one in use: a box on the tab *Memory* that answers while it is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError, BadArgument
from lib.precision import list_formats
from lib.present.markup import hint_note
from lib.present.model_rows import precision_table
from lib.ui import fields as ask
from lib.ui.events import follow
from lib.ui.fields import Value, link_query
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.answers.common import MemoryAnswer
    from lib.service.app import Services

CHOOSE = "Name a model above to see what each precision takes."
Ask = Callable[[str, Sequence[Value]], dict[str, Any]]
"""The question of the tab *Memory* for a model and its values, as arguments of `estimate_memory_on`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionView:
    """Where the table goes."""

    table: gr.HTML


def build() -> PrecisionView:
    """The layout of the box."""
    title = "Every precision: memory, and the tiers that hold it"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="precisions"):
        table = gr.HTML(elem_id="precision-table")
    return PrecisionView(table=table)


def precision_html(services: Services, model: str, values: Sequence[Value], question: Ask) -> str:
    """The table for the questions of the tab; a refusal becomes a sentence."""
    if not model:
        return hint_note(CHOOSE)
    try:
        asked = question(model, values)
        current = services.estimate_memory_on(model, **asked)
    except AdvisorError as refused:
        return ask.word_refusal(refused, "No estimates by precision.")
    answers: dict[str, MemoryAnswer] = {current["precision"]: current}
    for name in list_formats(current["engine"]):
        try:
            answer = services.estimate_memory_on(model, **{**asked, "precision": name})
        except BadArgument:  # a GGUF file is stored in one format only
            continue
        answers.setdefault(answer["precision"], answer)
    fields = (*ask.QUESTION, *ask.MEMORY)
    at = [field.name for field in fields].index("precision")

    def link(name: str) -> str | None:
        return link_query("memory", model, fields, [*values[:at], name, *values[at + 1 :]])

    return precision_table(list(answers.values()), current["precision"], link)


def wire(view: PrecisionView, services: Services, model: ModelReference, memory: Sequence[Any], tick: gr.Number, question: Ask) -> None:
    """Opening answers; while the box is open the table follows the questions."""

    def answer(reference: str, *values: Value) -> list[Any]:
        return [precision_html(services, reference, values, question)]

    follow(tick, answer, [model.text, *memory], [view.table], "precisions_changed")
