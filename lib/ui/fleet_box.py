"""The box *Many models at once* of *My Space*: a CSV of questions, progress, and a table of rows and savings, most expensive first.

A run is a generator of the page's queue. Each of its steps waits in the same fair queue as every other call (`lib.ui.http.fair_queue`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import gradio as gr

from lib.errors import AdvisorError
from lib.present.fleet_cards import fleet_csv, fleet_finding, fleet_table
from lib.present.live_cards import progress_line
from lib.present.markup import answer_actions, escape, refusal_note
from lib.present.wording import page_note
from lib.service.fleet_sheet import MOST_CHARACTERS, SheetProgress, stream_sheet
from lib.ui.events import Updates, close_on_exit
from lib.ui.live_boxes import RunView, wire_run

if TYPE_CHECKING:
    from lib.service.app import Services

EXAMPLE = "model,hardware,requests_per_day,label\nQwen/Qwen3-8B,a100-large,500,chat\nQwen/Qwen3-Embedding-0.6B,l4x1,1000,search"
_PICK = '<label class="act file-pick">Choose a CSV file<input type="file" accept=".csv,text/csv" data-into="fleet-text"></label>'
_TABLE_ROWS = 20
"""Rows after which the table is sent again."""
_OWN_TURNS = {"concurrency_limit": None, "api_visibility": "private", "show_progress": "minimal"}


def build() -> RunView:
    """The box, closed."""
    with gr.Accordion("Many models at once (CSV)", open=False, elem_id="fleet-box", elem_classes="quiet-accordion"):
        text = gr.Textbox(
            label="Rows",
            info=page_note("fleet"),
            placeholder=EXAMPLE,
            lines=5,
            max_lines=12,
            max_length=MOST_CHARACTERS + 1,  # a longer text is cut here, and refused because of this character
            elem_id="fleet-text",
        )
        gr.HTML(_PICK)
        with gr.Row(elem_classes="act-row"):
            run = gr.Button("Check all rows", variant="primary", elem_id="fleet-run")
            stop = gr.Button("Stop", variant="stop", visible=False, elem_id="fleet-stop")
        status, card = gr.HTML(elem_id="fleet-status"), gr.HTML(elem_id="fleet-card")
    return RunView(inputs=[text], outputs={"status": status, "card": card, "run": run, "stop": stop})


def fleet_scenes(services: Services, text: str | None) -> Iterator[Updates]:
    """Answer the rows, and show those so far; a refusal of the whole list is a sentence."""
    try:
        with close_on_exit(services[stream_sheet](text or "")) as steps:
            for step in steps:
                yield _scene(step)
    except AdvisorError as refused:
        yield {"status": refusal_note(str(refused)), "card": ""}


def _scene(step: SheetProgress) -> Updates:
    done, rows = len(step.rows), step.rows
    if done == step.total:
        return {"card": _card(step)}
    scene: Updates = {
        "status": progress_line(page_note("rows_answered").format(done=done, total=step.total), done, step.total),
        "busy": True,
    }
    return scene if rows and done % _TABLE_ROWS else {**scene, "card": _card(step) if rows else ""}


def _card(step: SheetProgress) -> str:
    finding = fleet_finding(step.rows)
    acts = answer_actions(text=finding, query=None, files=(("Download CSV", "fleet.csv", "text/csv", fleet_csv(step.rows)),))
    return f'<section class="card" aria-label="Many models"><h2>{escape(finding)}</h2></section>{acts}{fleet_table(step.rows)}'


def wire(view: RunView, services: Services) -> None:
    """The button runs it; Stop keeps the rows so far."""
    wire_run(view, "fleet", partial(fleet_scenes, services), view.inputs, page_note("stopped:fleet"), _OWN_TURNS)
