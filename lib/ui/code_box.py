"""Code to copy for the pick: the files of its Space for the chosen framework, its app.py among them, or the line that starts its server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.markup import hint_note
from lib.present.setup_files import FRAMEWORKS, write_setup
from lib.present.snippets import setup_code
from lib.ui import workload
from lib.ui.events import follow
from lib.ui.fields import Value, word_refusal
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.service.app import Services

CHOOSE = "Name a model above to get the files for its Space."


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """The question of the box, and where the files go."""

    framework: gr.Radio
    code: gr.HTML


def build() -> CodeView:
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
        return hint_note(CHOOSE)
    asked = workload.recommend_arguments(values)
    try:
        entry = workload.choose_hardware(services, model, values).entry
        if entry is None:
            return hint_note("This hardware does not qualify, or nothing does, so there is nothing to set up.")
        answer = services.recommend(model, **asked)
        setup = write_setup(
            entry,
            services.catalog(),
            model=answer["model"],
            task=answer["task"],
            framework=framework,
            context_tokens=int(asked["context_tokens"]),
            sequences=int(asked["concurrency"]),
        )
        return setup_code(setup)
    except AdvisorError as refused:
        return word_refusal(refused, "No files.")


def wire(view: CodeView, services: Services, model: ModelReference, question: Sequence[Any], tick: gr.Number) -> None:
    """Opening writes the files; while the box is open they follow the questions."""

    def answer(reference: str, framework: str, *values: Value) -> list[Any]:
        return [setup_html(services, reference, framework, values)]

    follow(tick, answer, [model.text, view.framework, *question], [view.code], "code_changed")
