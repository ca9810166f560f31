"""Boxes under the pick: the roofline, drawn when it is opened and following the questions while it is open; and code to copy.

The code is the files of the Space for the chosen framework, its app.py among them, or the line that starts its server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.charts import draw_roofline, roofline_words
from lib.present.markup import hint_note
from lib.present.setup_files import FRAMEWORKS, setup_code, write_setup
from lib.ui import workload
from lib.ui.events import follow
from lib.ui.fields import Value, word_refusal
from lib.ui.model_field import ModelReference
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from lib.service.app import Services


CHOOSE_FOR_CODE = "Name a model above to get the files for its Space."


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """The question of the box, and where the files go."""

    framework: gr.Radio
    code: gr.HTML


def build_code() -> CodeView:
    """The layout of the box."""
    with gr.Accordion(
        "Code to copy: README.md, app.py, requirements.txt or Dockerfile",
        open=False,
        elem_classes="quiet-accordion",
        elem_id="code",
    ):
        words = [(name, key) for key, name in FRAMEWORKS.items()]
        framework = gr.Radio(words, value="pytorch", label="Framework", elem_classes="segments")
        code = gr.HTML(elem_id="setup-code")
    return CodeView(framework=framework, code=code)


def setup_html(services: Services, model: str, framework: str, values: Sequence[Value]) -> str:
    """The files for the pick, or for the hardware that is looked at; a refusal becomes a sentence."""
    if not model:
        return hint_note(CHOOSE_FOR_CODE)
    arguments = workload.recommend_arguments(values)
    try:
        entry = workload.choose_hardware(services, model, values).entry
        if entry is None:
            return hint_note("This hardware does not qualify, or nothing does, so there is nothing to set up.")
        answer = services.recommend(model, **arguments)
        setup = write_setup(
            entry,
            services.catalog(),
            model=answer["model"],
            task=answer["task"],
            framework=framework,
            context_tokens=int(arguments["context_tokens"]),
            sequences=int(arguments["concurrency"]),
        )
        return setup_code(setup)
    except AdvisorError as refused:
        return word_refusal(refused, "No files.")


def wire_code(view: CodeView, services: Services, model: ModelReference, question: Sequence[Any], tick: gr.Number) -> None:
    """Opening writes the files; while the box is open they follow the questions."""

    def answer(reference: str, framework: str, *values: Value) -> list[Any]:
        return [setup_html(services, reference, framework, values)]

    follow(tick, answer, [model.text, view.framework, *question], [view.code], "code_changed")


CHOOSE_FOR_ROOFLINE = "Name a model above to see where it sits."


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineView:
    """Where the picture goes."""

    words: gr.HTML
    chart: gr.Plot

    def outputs(self) -> list[Any]:
        """Where the picture goes."""
        return [self.words, self.chart]


def build_roofline() -> RooflineView:
    """The layout of the box."""
    title = "Where it sits under the card's roofline: reading prompts, and decoding"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="roofline"), gr.Column(elem_classes="chart"):
        words = gr.HTML()
        chart = gr.Plot(label="Roofline", show_label=False)
    return RooflineView(words=words, chart=chart)


def roofline_updates(services: Services, model: str, values: Sequence[Value]) -> tuple[str, Figure | None]:
    """Words and picture for the configuration that is recommended, on its hardware or on the one looked at; a refusal is a sentence."""
    if not model:
        return hint_note(CHOOSE_FOR_ROOFLINE), None
    arguments = workload.recommend_arguments(values)
    length, at_once = int(arguments["context_tokens"]), arguments["concurrency"]
    usual = prompt_and_output_tokens(length)
    prompt, answer = int(arguments["prompt_tokens"] or usual[0]), int(arguments["output_tokens"] or usual[1])
    try:
        choice = workload.choose_hardware(services, model, values)
        if not choice.hardware:
            return hint_note("Nothing qualifies, so there is no card to draw; choose hardware to look at."), None
        entry = choice.entry
        if entry is None:
            precision, engine = "auto", _engine(choice.hardware)
        else:
            precision, engine, at_once = entry["precision"], entry["engine"], entry["speed"]["concurrency"] or at_once
        picture = services.roofline(model, choice.hardware, precision, engine, prompt, answer, at_once)
    except AdvisorError as refused:
        return word_refusal(refused, "No roofline."), None
    return roofline_words(picture), draw_roofline(picture)


def _engine(hardware: str) -> str:
    return "vllm-tpu" if hardware.startswith("tpu:") else "transformers"


def wire_roofline(view: RooflineView, services: Services, model: ModelReference, question: Sequence[Any], tick: gr.Number) -> None:
    """Opening draws; while the box is open the picture follows the questions."""

    def answer(reference: str, *values: Value) -> list[Any]:
        return list(roofline_updates(services, reference, values))

    follow(tick, answer, [model.text, *question], view.outputs(), "roofline_changed")
