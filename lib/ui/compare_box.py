"""Before and after on demand: two configurations, estimated or measured, and whether the change is worth its effort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.engines import ENGINES
from lib.errors import AdvisorError
from lib.present.compare_rows import comparison_card, comparison_laws, comparison_table
from lib.present.markup import hint_note, refusal_note
from lib.ui import fields as ask
from lib.ui.events import changes, wire_box
from lib.ui.fields import Value
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from lib.service.app import Services

CHOOSE = "Name a model above, or type the measured tokens per second of both."
TRAFFIC = ("requests_per_day", "hours_per_day", "days_per_month", "prompt_tokens", "output_tokens")
PER_SIDE = 7
MOST_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SideInputs:
    """The questions about one side, in the order of `Asked`."""

    hardware: gr.Dropdown
    precision: gr.Dropdown
    engine: gr.Dropdown
    concurrency: gr.Number
    rate: gr.Number
    p50: gr.Number
    p99: gr.Number

    def all(self) -> list[Any]:
        """Every input, in order."""
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareView:
    """The box; `is_open` tells whether it is open."""

    box: gr.Accordion
    before: SideInputs
    after: SideInputs
    effort: gr.Number
    answer: gr.HTML
    is_open: gr.State

    def inputs(self) -> list[Any]:
        """Every input, in order."""
        return [self.effort, *self.before.all(), *self.after.all()]


def build(services: Services) -> CompareView:
    """The layout of the box."""
    rented = [(words, value) for words, value in ask.hardware_words(services.catalog()) if not value.startswith("zerogpu:")]
    title = "Before and after: is an optimisation worth it?"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="compare") as box:
        gr.HTML(hint_note("Traffic, hours and tokens are those of this tab. Numbers you measured replace the estimate; 0 is not measured."))
        with gr.Row():
            before = _side("Before", rented, "transformers", 1)
            after = _side("After", rented, "vllm", 8)
        effort = gr.Number(0, label="Effort, USD", info="What the change costs once.", minimum=0, elem_id="compare-effort")
        answer = gr.HTML(elem_id="compared")
    return CompareView(box=box, before=before, after=after, effort=effort, answer=answer, is_open=gr.State(value=False))


def _side(name: str, rented: list[tuple[str, str]], engine: str, at_once: int) -> SideInputs:
    """Each label names its side, because a screen reader reads it without the column."""
    with gr.Column(min_width=260, elem_classes="controls"):
        hardware = gr.Dropdown(rented, value="spaces:l4x1", label=f"{name}: hardware")
        precision = gr.Dropdown(ask.precision_choices(), value="auto", label=f"{name}: precision")
        with gr.Row(elem_classes="pair"):
            runs = gr.Dropdown(list(ENGINES), value=engine, label=f"{name}: engine", min_width=130)
            concurrency = gr.Number(at_once, label=f"{name}: at once", minimum=1, maximum=MOST_AT_ONCE, precision=0, min_width=100)
        rate = gr.Number(0, label=f"{name}: measured tokens/s of a replica", minimum=0)
        with gr.Row(elem_classes="pair"):
            p50 = gr.Number(0, label=f"{name}: p50, s", minimum=0, min_width=100)
            p99 = gr.Number(0, label=f"{name}: p99, s", minimum=0, min_width=100)
    return SideInputs(hardware=hardware, precision=precision, engine=runs, concurrency=concurrency, rate=rate, p50=p50, p99=p99)


def _side_arguments(values: Sequence[Value]) -> dict[str, object]:
    """An emptied number is one that was not measured."""
    hardware, precision, engine, concurrency, *measured = values
    rate, p50, p99 = (0 if value is None else value for value in measured)
    return {
        "hardware": hardware,
        "precision": precision,
        "engine": engine,
        "concurrency": concurrency,
        "tokens_per_s": rate,
        "latency_p50_s": p50,
        "latency_p99_s": p99,
    }


def comparison_html(services: Services, model: str, cost: Sequence[Value], own: Sequence[Value]) -> str:
    """The comparison under the traffic of the tab (`cost`, as `lib.ui.fields.COST`); a refusal becomes a sentence."""
    effort, before, after = own[0], _side_arguments(own[1 : 1 + PER_SIDE]), _side_arguments(own[1 + PER_SIDE :])
    if not model and not (before["tokens_per_s"] and after["tokens_per_s"]):
        return hint_note(CHOOSE)
    asked: dict[str, Any] = {field.argument: value for field, value in zip(ask.COST, cost, strict=True) if field.argument in TRAFFIC}
    try:
        answer = services.compare(model, before, after, **asked, effort_usd=0 if effort is None else effort)
    except AdvisorError as refused:
        return refusal_note(str(refused))
    return comparison_card(answer) + comparison_table(answer) + comparison_laws(answer)


def wire(view: CompareView, services: Services, model: ModelReference, traffic: Sequence[Any]) -> None:
    """Opening answers; while the box is open the answer follows its questions, the traffic and the model."""
    inputs = [*traffic, *view.inputs()]

    def answer(reference: str, *values: Value) -> list[Any]:
        return [comparison_html(services, reference, values[: len(traffic)], values[len(traffic) :])]

    follows = [model.fingerprint.change, *changes(inputs)]
    wire_box(view.box, view.is_open, answer, [model.text, *inputs], [view.answer], follows=follows, name="compare")
