"""Before and after on demand: two configurations, of one model or of two, and whether the change is worth its effort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.engines import ENGINES
from lib.errors import AdvisorError
from lib.present.cost_rows import comparison_card, comparison_laws, comparison_table
from lib.present.markup import hint_note
from lib.service.arguments import MAX_CONCURRENCY, MAX_TOKENS_PER_S
from lib.service.compare import MAX_EFFORT_USD, MAX_SECONDS
from lib.ui import fields as ask
from lib.ui import workload
from lib.ui.events import follow
from lib.ui.fields import Field, Value
from lib.ui.model_field import ModelReference
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from lib.service.app import Services

CHOOSE = "Name a model above, or type the measured tokens per second of both."
TRAFFIC = ("requests_per_day", "hours_per_day", "days_per_month")
PER_SIDE = 8


def _side_fields(name: str, at_once: int) -> tuple[Field, ...]:
    """Each label names its side, because a screen reader reads it without the column."""
    side, high = name.lower(), MAX_SECONDS
    requests, rate = f"{name}: concurrent requests", f"{name}: measured tokens/s of a replica"
    return (
        Field(argument="concurrency", name=f"{side}-batch", default=at_once, low=1, high=MAX_CONCURRENCY, label=requests),
        Field(argument="tokens_per_s", name=f"{side}-rate", default=0.0, high=MAX_TOKENS_PER_S, label=rate),
        Field(argument="latency_p50_s", name=f"{side}-p50", default=0.0, high=high, label=f"{name}: p50, s"),
        Field(argument="latency_p99_s", name=f"{side}-p99", default=0.0, high=high, label=f"{name}: p99, s"),
    )  # fmt: skip


EFFORT = Field(argument="effort_usd", name="effort", default=0.0, high=MAX_EFFORT_USD, label="Effort, USD")
BEFORE, AFTER = _side_fields("Before", 1), _side_fields("After", 8)
COMPARE = (EFFORT, *BEFORE, *AFTER)
"""The numbers of the box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideInputs:
    """The questions about one side, in the order of `Asked`."""

    model: gr.Textbox
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
    """The questions of the box, and where the answer goes."""

    before: SideInputs
    after: SideInputs
    effort: gr.Number
    answer: gr.HTML

    def inputs(self) -> list[Any]:
        """Every input, in order."""
        return [self.effort, *self.before.all(), *self.after.all()]


def build(services: Services) -> CompareView:
    """The layout of the box."""
    rented = [(words, value) for words, value in ask.hardware_words(services.catalog()) if not value.startswith("zerogpu:")]
    title = "Before and after, or two models side by side: is a change worth it?"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="compare"):
        gr.HTML(
            hint_note(
                "Traffic, hours and tokens are those of the workload above. Numbers you measured replace the estimate; 0 is not measured."
            )
        )
        with gr.Row():
            before = _side("Before", rented, "transformers", BEFORE)
            after = _side("After", rented, "vllm", AFTER)
        effort = workload.number(EFFORT, "What the change costs once.")
        answer = gr.HTML(elem_id="compared")
    return CompareView(before=before, after=after, effort=effort, answer=answer)


def _side(name: str, rented: list[tuple[str, str]], engine: str, numbers: Sequence[Field]) -> SideInputs:
    at_once, *measured = numbers
    with gr.Column(min_width=260, elem_classes="controls"):
        model = gr.Textbox(label=f"{name}: another model", info="Empty: the model above.", max_lines=1, max_length=ask.MODEL_LENGTH)
        hardware = gr.Dropdown(rented, value="spaces:l4x1", label=f"{name}: hardware")
        precision = gr.Dropdown(ask.precision_choices(), value="auto", label=f"{name}: precision")
        with gr.Row(elem_classes="pair"):
            runs = gr.Dropdown(list(ENGINES), value=engine, label=f"{name}: engine", min_width=130)
            concurrency = workload.number(at_once)
        rate = workload.number(measured[0])
        with gr.Row(elem_classes="pair"):
            p50, p99 = (workload.number(field, step=0.1) for field in measured[1:])
    return SideInputs(
        model=model, hardware=hardware, precision=precision, engine=runs, concurrency=concurrency, rate=rate, p50=p50, p99=p99
    )


def _side_arguments(values: Sequence[Value]) -> dict[str, object]:
    """An emptied number is one that was not measured."""
    model, hardware, precision, engine, concurrency, *measured = values
    rate, p50, p99 = (0 if value is None else value for value in measured)
    return {
        "model": str(model or "").strip(),
        "hardware": hardware,
        "precision": precision,
        "engine": engine,
        "concurrency": concurrency,
        "tokens_per_s": rate,
        "latency_p50_s": p50,
        "latency_p99_s": p99,
    }


def comparison_html(services: Services, model: str, cost: Sequence[Value], own: Sequence[Value]) -> str:
    """The comparison under the traffic of the tab (`cost`, its values); a refusal becomes a sentence."""
    effort, before, after = own[0], _side_arguments(own[1 : 1 + PER_SIDE]), _side_arguments(own[1 + PER_SIDE :])
    if not all(model or side["model"] or side["tokens_per_s"] for side in (before, after)):
        return hint_note(CHOOSE)
    arguments = {**workload.recommend_arguments(cost), **workload.tab_arguments(cost, ask.COST)}
    usual = prompt_and_output_tokens(int(arguments["context_tokens"]))
    traffic = {name: arguments[name] for name in TRAFFIC}
    traffic |= {"prompt_tokens": arguments["prompt_tokens"] or usual[0], "output_tokens": arguments["output_tokens"] or usual[1]}
    try:
        answer = services.compare(model, before, after, **traffic, effort_usd=0 if effort is None else effort)
    except AdvisorError as refused:
        return ask.word_refusal(refused, "No comparison.")
    return comparison_card(answer) + comparison_table(answer) + comparison_laws(answer)


def wire(view: CompareView, services: Services, model: ModelReference, questions: Sequence[Any], tick: gr.Number) -> None:
    """Opening answers; while the box is open the answer follows its questions, the traffic and the model."""

    def answer(reference: str, *values: Value) -> list[Any]:
        return [comparison_html(services, reference, values[: len(questions)], values[len(questions) :])]

    follow(tick, answer, [model.text, *questions, *view.inputs()], [view.answer], "compare_changed")
