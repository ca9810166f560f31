"""The tensors on demand: a box on the tab *Memory* that draws where the bytes of the weights are when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import model_name
from lib.present.markup import hint_note
from lib.present.memory_charts import draw_tensors, tensor_map_head
from lib.present.model_rows import tensors_table
from lib.ui.events import follow
from lib.ui.fields import Value, word_refusal
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.service.app import Services
    from lib.ui.precision_box import Ask

CHOOSE = "Name a model above to see its tensors."
NOT_TRAINING = "These are the weights of inference. Set *Use* to inference to see them."


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorsView:
    """Heading, picture and table."""

    head: gr.HTML
    chart: gr.Plot
    table: gr.HTML

    def outputs(self) -> list[Any]:
        """Where the answer goes, in the order of `tensors_updates`."""
        return [self.head, self.chart, self.table]


def build() -> TensorsView:
    """The layout of the box."""
    title = "The tensors: where the bytes of the weights are"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="tensors"), gr.Column(elem_classes="chart"):
        head = gr.HTML()
        chart = gr.Plot(label="Where the bytes of the weights are", show_label=False)
        table = gr.HTML()
    return TensorsView(head=head, chart=chart, table=table)


def tensors_updates(services: Services, model: str, question: Ask, values: Sequence[Value]) -> list[Any]:
    """Heading, picture and table in the precision of the estimate above; a refusal is a sentence."""
    if not model:
        return [hint_note(CHOOSE), None, ""]
    try:
        asked = question(model, values)
        if asked["mode"] != "inference":
            return [hint_note(NOT_TRAINING), None, ""]
        memory = services.estimate_memory_on(model, **asked)
        answer = services.tensors(model, precision=memory["precision"], engine=memory["engine"])
    except AdvisorError as refused:
        return [word_refusal(refused, "No tensors."), None, ""]
    name = model_name(answer["model"], model)
    return [tensor_map_head(answer), draw_tensors(answer, name), tensors_table(answer, name)]


def wire(view: TensorsView, services: Services, model: ModelReference, inputs: Sequence[Any], tick: gr.Number, question: Ask) -> None:
    """Opening draws; while the box is open the picture follows the model and its precision."""

    def answer(reference: str, *values: Value) -> list[Any]:
        return tensors_updates(services, reference, question, values)

    follow(tick, answer, [model.text, *inputs], view.outputs(), "tensors_changed")
