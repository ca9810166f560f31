"""The dry run on the tab *Memory*: a button that executes the architecture without values, and the table that it fills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.live_cards import progress_line, stopped_line
from lib.present.markup import hint_note
from lib.present.model_rows import DRY_RUN_ABOUT, DRY_RUN_CHOOSE, DRY_RUN_STOPPED, DRY_RUN_UNDER_WAY, dry_run_table
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import AT_ONCE
from lib.ui.fields import Value
from lib.ui.live_run import close_on_exit
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.service.app import Services

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
        table = gr.HTML(hint_note(DRY_RUN_ABOUT), elem_id="dry-run")
    return DryRunView(run=run, stop=stop, table=table)


def dry_run_markup(services: Services, model: str, values: Sequence[Value]) -> Iterator[str]:
    """What is under way, then the table; a refusal becomes a sentence. The context holds the prompt and a short answer.

    Closed early it ends the run.
    """
    if not model:
        yield hint_note(DRY_RUN_CHOOSE)
        return
    asked = {**workload.recommend_arguments(values), **workload.tab_arguments(values, ask.MEMORY)}
    mode, length = str(asked["mode"]), int(asked["context_tokens"])
    output = min(_ANSWER, max(1, length // 2))
    prompt = length if mode != "inference" else max(1, length - output)
    try:
        streamed = services.stream_dry_run(model, prompt_tokens=prompt, output_tokens=output, batch_size=asked["concurrency"], mode=mode)
        with close_on_exit(streamed) as answers:
            for answer in answers:
                yield progress_line(DRY_RUN_UNDER_WAY) if answer is None else dry_run_table(answer)
    except AdvisorError as refused:
        yield ask.word_refusal(refused, "No dry run.")


def wire(view: DryRunView, services: Services, model: ModelReference, inputs: Sequence[Any]) -> None:
    """Run asks; Stop closes the stream, and with it the run."""

    def run(reference: str, *values: Value) -> Iterator[Any]:
        before = None
        for shown in dry_run_markup(services, reference, values):
            yield gr.skip() if shown == before else shown  # drawn once, or a screen reader says it twice a second
            before = shown

    options: dict[str, Any] = {**AT_ONCE, "queue": True, "concurrency_limit": None}
    running = view.run.click(run, [model.text, *inputs], view.table, api_name="dry_run_asked", **options)
    stopping = view.stop.click(None, cancels=[running], api_name="dry_run_cancelled", **AT_ONCE)
    stopping.then(lambda: stopped_line(DRY_RUN_STOPPED), None, view.table, api_name="dry_run_stopped", **AT_ONCE)
