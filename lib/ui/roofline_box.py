"""The roofline on demand: a box under the answer that draws when it is opened, and follows the questions while it is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.markup import hint_note, refusal_note
from lib.present.speed_charts import draw_roofline, roofline_words
from lib.ui import fields as ask
from lib.ui.events import changes, wire_box
from lib.ui.fields import Value, arguments
from lib.ui.model_field import ModelReference
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from lib.answers.common import RankedEntry
    from lib.service.app import Services

CHOOSE = "Name a model above to see where it sits."


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineView:
    """The box; `is_open` tells whether it is open."""

    box: gr.Accordion
    hardware: gr.Dropdown
    words: gr.HTML
    chart: gr.Plot
    is_open: gr.State

    def outputs(self) -> list[Any]:
        """Where the picture goes."""
        return [self.words, self.chart]


def build(services: Services) -> RooflineView:
    """The layout of the box."""
    title = "Where it sits under the card's roofline: reading prompts, and decoding"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="roofline") as box:
        choices = [("The hardware to take", "auto"), *ask.hardware_words(services.catalog())]
        hardware = gr.Dropdown(choices, value="auto", label="Hardware to draw", info="Type to search: l4, a100, v6e…")
        with gr.Column(elem_classes="chart"):
            words = gr.HTML()
            chart = gr.Plot(label="Roofline", show_label=False)
    return RooflineView(box=box, hardware=hardware, words=words, chart=chart, is_open=gr.State(value=False))


def roofline_updates(services: Services, model: str, hardware: str, values: Sequence[Value]) -> tuple[str, Figure | None]:
    """Words and picture for the configuration that is recommended, on its hardware or on another; a refusal becomes a sentence."""
    if not model:
        return hint_note(CHOOSE), None
    asked = arguments(ask.RECOMMEND, values)
    length, at_once = int(asked["context_tokens"]), asked["concurrency"]
    usual = prompt_and_output_tokens(length)
    prompt, answer = int(asked["prompt_tokens"] or usual[0]), int(asked["output_tokens"] or usual[1])
    try:
        asked["platforms"] = "all" if hardware != "auto" else asked["platforms"] or "spaces"
        found = services.recommend(model, **asked)
        entry = found["pick"] if hardware == "auto" else _entry(found["ranked"], hardware)
        if entry is None and hardware == "auto":
            return hint_note("Nothing qualifies, so there is no card to draw; choose one."), None
        where = hardware if entry is None else f"{entry['platform']}:{entry['hardware']}"
        precision, engine = ("auto", _engine(hardware)) if entry is None else (entry["precision"], entry["engine"])
        picture = services.roofline(model, where, precision, engine, prompt, answer, at_once)
    except AdvisorError as refused:
        return refusal_note(str(refused)), None
    return roofline_words(picture), draw_roofline(picture)


def _engine(hardware: str) -> str:
    return "vllm-tpu" if hardware.startswith("tpu:") else "transformers"


def _entry(ranked: Sequence[RankedEntry], hardware: str) -> RankedEntry | None:
    return next((one for one in ranked if f"{one['platform']}:{one['hardware']}" == hardware), None)


def wire(view: RooflineView, services: Services, model: ModelReference, inputs: Sequence[Any]) -> None:
    """Opening draws; while the box is open the picture follows the questions."""

    def answer(reference: str, hardware: str, *values: Value) -> list[Any]:
        return list(roofline_updates(services, reference, hardware, values))

    follows = [view.hardware.input, model.fingerprint.change, *changes(inputs)]
    wire_box(view.box, view.is_open, answer, [model.text, view.hardware, *inputs], view.outputs(), follows=follows, name="roofline")
