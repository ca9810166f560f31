"""The dry run on the tab *Memory*: a button that executes the architecture without values, and the table that it fills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.markup import hint_note
from lib.present.model_rows import dry_run_table
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import AT_ONCE
from lib.ui.fields import Value
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.service.app import Services

ABOUT = (
    "Runs the real model class on tensors without values, in a process of its own, and counts bytes, FLOP and operations beside the closed "
    "forms: context, sequences and purpose as above, in bfloat16. It takes seconds."
)
CHOOSE = "Name a model above to execute it."
RUNNING = "Building the architecture and executing it. The run is ended when it takes too long or too much memory."
STOPPED = "Stopped: the answer is not waited for."
_ANSWER = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunView:
    """The box."""

    run: gr.Button
    stop: gr.Button
    table: gr.HTML


def build() -> DryRunView:
    """The layout of the box."""
    with gr.Accordion("Dry run: the real architecture executed, beside these figures", open=False, elem_classes="quiet-accordion"):
        with gr.Row():
            run = gr.Button("Run", variant="primary", min_width=120)
            stop = gr.Button("Stop", min_width=120)
        table = gr.HTML(hint_note(ABOUT), elem_id="dry-run")
    return DryRunView(run=run, stop=stop, table=table)


def dry_run_markup(services: Services, model: str, values: Sequence[Value]) -> Iterator[str]:
    """What is under way, then the table; a refusal becomes a sentence. The context holds the prompt and a short answer."""
    if not model:
        yield hint_note(CHOOSE)
        return
    yield hint_note(RUNNING)
    asked = {**workload.recommend_arguments(values), **workload.tab_arguments(values, ask.MEMORY)}
    mode, length = str(asked["mode"]), int(asked["context_tokens"])
    output = min(_ANSWER, max(1, length // 2))
    prompt = length if mode != "inference" else max(1, length - output)
    try:
        answer = services.dry_run(model, prompt_tokens=prompt, output_tokens=output, batch_size=asked["concurrency"], mode=mode)
    except AdvisorError as refused:
        yield ask.word_refusal(refused, "No dry run.")
        return
    yield dry_run_table(answer)


def wire(view: DryRunView, services: Services, model: ModelReference, inputs: Sequence[Any]) -> None:
    """Run asks; Stop no longer waits for the answer."""

    def run(reference: str, *values: Value) -> Iterator[str]:
        yield from dry_run_markup(services, reference, values)

    options: dict[str, Any] = {**AT_ONCE, "queue": True, "concurrency_limit": None}
    running = view.run.click(run, [model.text, *inputs], view.table, api_name="dry_run_asked", **options)
    stopping = view.stop.click(None, cancels=[running], api_name="dry_run_cancelled", **AT_ONCE)
    stopping.then(lambda: hint_note(STOPPED), None, view.table, api_name="dry_run_stopped", **AT_ONCE)
