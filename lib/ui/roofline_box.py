"""The roofline on demand: a box under the answer that draws when it is opened, and follows the questions while it is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.markup import hint_note
from lib.present.speed_charts import draw_roofline, roofline_words
from lib.ui import workload
from lib.ui.events import follow
from lib.ui.fields import Value, word_refusal
from lib.ui.model_field import ModelReference
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from lib.service.app import Services

CHOOSE = "Name a model above to see where it sits."


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineView:
    """Where the picture goes."""

    words: gr.HTML
    chart: gr.Plot

    def outputs(self) -> list[Any]:
        """Where the picture goes."""
        return [self.words, self.chart]


def build() -> RooflineView:
    """The layout of the box."""
    title = "Where it sits under the card's roofline: reading prompts, and decoding"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="roofline"), gr.Column(elem_classes="chart"):
        words = gr.HTML()
        chart = gr.Plot(label="Roofline", show_label=False)
    return RooflineView(words=words, chart=chart)


def roofline_updates(services: Services, model: str, values: Sequence[Value]) -> tuple[str, Figure | None]:
    """Words and picture for the configuration that is recommended, on its hardware or on the one looked at; a refusal is a sentence."""
    if not model:
        return hint_note(CHOOSE), None
    asked = workload.recommend_arguments(values)
    length, at_once = int(asked["context_tokens"]), asked["concurrency"]
    usual = prompt_and_output_tokens(length)
    prompt, answer = int(asked["prompt_tokens"] or usual[0]), int(asked["output_tokens"] or usual[1])
    try:
        chosen = workload.choose_hardware(services, model, values)
        if not chosen.hardware:
            return hint_note("Nothing qualifies, so there is no card to draw; choose hardware to look at."), None
        entry = chosen.entry
        precision, engine = ("auto", _engine(chosen.hardware)) if entry is None else (entry["precision"], entry["engine"])
        picture = services.roofline(model, chosen.hardware, precision, engine, prompt, answer, at_once)
    except AdvisorError as refused:
        return word_refusal(refused, "No roofline."), None
    return roofline_words(picture), draw_roofline(picture)


def _engine(hardware: str) -> str:
    return "vllm-tpu" if hardware.startswith("tpu:") else "transformers"


def wire(view: RooflineView, services: Services, model: ModelReference, question: Sequence[Any], tick: gr.Number) -> None:
    """Opening draws; while the box is open the picture follows the questions."""

    def answer(reference: str, *values: Value) -> list[Any]:
        return list(roofline_updates(services, reference, values))

    follow(tick, answer, [model.text, *question], view.outputs(), "roofline_changed")
