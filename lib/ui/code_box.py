"""Code to copy for the pick: the files of its Space for the chosen framework, or the line that starts its server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.markup import hint_note, refusal_note
from lib.present.setup_files import FRAMEWORKS, write_setup
from lib.present.snippets import setup_code
from lib.ui import fields as ask
from lib.ui.events import changes, wire_box
from lib.ui.fields import Value, arguments
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.service.app import Services

CHOOSE = "Name a model above to get the files for its Space."


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """The box; `is_open` tells whether it is open."""

    box: gr.Accordion
    framework: gr.Radio
    code: gr.HTML
    is_open: gr.State


def build() -> CodeView:
    """The layout of the box."""
    with gr.Accordion(
        "Code to copy: README.md, requirements.txt or Dockerfile",
        open=False,
        elem_classes="quiet-accordion",
        elem_id="code",
    ) as box:
        words = [(name, key) for key, name in FRAMEWORKS.items()]
        framework = gr.Radio(words, value="pytorch", label="Framework", elem_classes="segments")
        code = gr.HTML(elem_id="setup-code")
    return CodeView(box=box, framework=framework, code=code, is_open=gr.State(value=False))


def setup_html(services: Services, model: str, framework: str, values: Sequence[Value]) -> str:
    """The files for the pick; a refusal becomes a sentence."""
    if not model:
        return hint_note(CHOOSE)
    asked = arguments(ask.RECOMMEND, values)
    asked["platforms"] = asked["platforms"] or "spaces"
    try:
        answer = services.recommend(model, **asked)
        if answer["pick"] is None:
            return hint_note("Nothing qualifies, so there is nothing to set up.")
        sizes = {"context_tokens": int(asked["context_tokens"]), "sequences": int(asked["concurrency"])}
        return setup_code(write_setup(answer["pick"], services.catalog(), model=answer["model"], framework=framework, **sizes))
    except AdvisorError as refused:
        return refusal_note(str(refused))


def wire(view: CodeView, services: Services, model: ModelReference, inputs: Sequence[Any]) -> None:
    """Opening writes the files; while the box is open they follow the questions."""

    def answer(reference: str, framework: str, *values: Value) -> list[Any]:
        return [setup_html(services, reference, framework, values)]

    follows = [view.framework.input, model.fingerprint.change, *changes(inputs)]
    wire_box(view.box, view.is_open, answer, [model.text, view.framework, *inputs], [view.code], follows=follows, name="code")
