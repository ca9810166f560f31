"""The box above all tabs in which an error, a log or a table of nvidia-smi is pasted, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.explain import MAX_BYTES
from lib.present.explain_cards import explain_card
from lib.present.glossary import explain_terms
from lib.present.markup import hint_note, refusal_note
from lib.present.wording import page_note
from lib.service.explain import explain
from lib.ui.events import AT_ONCE
from lib.ui.fields import MODEL_LENGTH

if TYPE_CHECKING:
    from lib.service.app import Services

EXAMPLES = {
    "It ran out of memory": """torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 648.00 MiB. GPU 0 has a total capacity of \
22.03 GiB of which 176.88 MiB is free. Including non-PyTorch memory, this process has 21.85 GiB memory in use. Of the allocated memory \
21.60 GiB is allocated by PyTorch, and 14.45 MiB is reserved by PyTorch but unallocated.""",
    "vLLM does not start": """vllm serve meta-llama/Llama-3.1-8B  (NVIDIA L4)
ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the \
available KV cache memory (3.21 GiB). Based on the available memory, the estimated maximum model length is 26288.""",
    "ZeroGPU quota": "You have exceeded your free ZeroGPU quota (90s requested vs. 60s left). Try again in 2:00:00.",
}
"""Texts to try, by the words of their button."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainView:
    """The components of the box."""

    box: gr.Accordion
    text: gr.Textbox
    model: gr.Textbox
    hardware: gr.Textbox
    go: gr.Button
    examples: dict[str, gr.Button]
    answer: gr.HTML


def build() -> ExplainView:
    """The box, closed."""
    with gr.Accordion("Paste an error or a log", open=False, elem_id="explain-box", elem_classes="quiet-accordion") as box:
        text = gr.Textbox(
            label="Error, log, metrics or nvidia-smi table",
            info=page_note("explain"),
            lines=6,
            max_lines=14,
            max_length=MAX_BYTES,
            elem_id="explain-text",
        )
        with gr.Row():
            model = gr.Textbox(
                label="Model it ran", info="Empty: as the text names it.", max_lines=1, max_length=MODEL_LENGTH, min_width=200
            )
            hardware = gr.Textbox(label="Hardware it ran on", info="Such as l4x1 or RTX-4090x2.", max_lines=1, max_length=80, min_width=200)
            go = gr.Button("Explain", variant="primary", min_width=150, elem_id="explain-go")
        with gr.Row(elem_classes="examples"):
            examples = {words: gr.Button(words, size="sm", min_width=120) for words in EXAMPLES}
        answer = gr.HTML(hint_note(page_note("explain_empty")), elem_id="explained")
    return ExplainView(box=box, text=text, model=model, hardware=hardware, go=go, examples=examples, answer=answer)


def explain_markup(services: Services, text: str | None, model: str | None, hardware: str | None) -> str:
    """Meaning of the text, as markup; a refusal becomes a sentence."""
    if not (text or "").strip():
        return hint_note(page_note("explain_empty"))
    try:
        answer = services[explain](text, model=(model or "").strip(), hardware=(hardware or "").strip())
    except AdvisorError as refused:
        return refusal_note(str(refused))
    return explain_terms(explain_card(answer))


def wire(view: ExplainView, services: Services, *openers: gr.Button) -> None:
    """The button and the examples answer at once; each of the openers opens the box and moves the focus to it."""

    def answer(text: str | None, model: str | None, hardware: str | None) -> str:
        return explain_markup(services, text, model, hardware)

    view.go.click(answer, [view.text, view.model, view.hardware], view.answer, api_name="explained", **AT_ONCE)
    for number, (words, button) in enumerate(view.examples.items()):
        _wire_example(view, services, button, EXAMPLES[words], number)

    def open_box() -> Any:
        return gr.update(open=True)

    focus = "() => { setTimeout(() => document.querySelector('#explain-text textarea')?.focus(), 300); return []; }"
    for number, opener in enumerate(openers):
        opener.click(open_box, None, view.box, js=focus, api_name=f"explain_opened_{number}", **AT_ONCE)


def _wire_example(view: ExplainView, services: Services, button: gr.Button, text: str, number: int) -> None:
    def show() -> dict[Any, Any]:
        return {view.text: text, view.model: "", view.hardware: "", view.answer: explain_markup(services, text, "", "")}

    button.click(show, None, [view.text, view.model, view.hardware, view.answer], api_name=f"explain_example_{number}", **AT_ONCE)
