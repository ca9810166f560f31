"""The tab *Cost*: a month's bill, the other ways beside it along traffic or hours, and ways to save.

On demand two configurations, of one model or of two, before and after, and whether the change is worth its effort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.engines import ENGINES
from lib.errors import AdvisorError
from lib.present.cards import model_name, prices_line
from lib.present.cost_rows import (
    bills_foot,
    bills_head,
    comparison_card,
    comparison_laws,
    comparison_table,
    cost_card,
    cost_laws,
    cost_text,
    draw_bills,
    own_bill_card,
    savings_table,
    ways_csv,
    ways_table,
)
from lib.present.markup import answer_actions, hint_note, no_model_note
from lib.present.tables import answer_json
from lib.present.wording import page_note
from lib.request.types import MAX_CONCURRENCY, MAX_TOKENS_PER_S
from lib.service.compare import MAX_EFFORT_USD, MAX_SECONDS, compare
from lib.service.outlook import outlook
from lib.service.recommend import recommend
from lib.ui import batch_box, workload
from lib.ui import fields as ask
from lib.ui.batch_box import BatchView
from lib.ui.events import Outputs, Panel, Tab, Updates, Wiring
from lib.ui.fields import Field, Value
from lib.ui.workload import link_query
from lib.workload import prompt_and_output_tokens

if TYPE_CHECKING:
    from lib.service.app import Services


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
class CompareView:
    """The questions of the box, the effort first, and the output."""

    inputs: list[Any]
    outputs: Outputs


def build_compare(services: Services) -> CompareView:
    """The layout of the box."""
    rented = [(words, value) for words, value in ask.hardware_words(services.catalog()) if not value.startswith("zerogpu:")]
    title = "Compare two setups"
    with gr.Accordion(title, open=False, elem_classes="quiet-accordion", elem_id="compare"):
        gr.HTML(hint_note(page_note("compare")))
        with gr.Row():
            before = _side("Before", rented, "transformers", BEFORE)
            after = _side("After", rented, "vllm", AFTER)
        effort = workload.number(EFFORT, "One-off cost, USD.")
        answer = gr.HTML(elem_id="compared")
    return CompareView(inputs=[effort, *before, *after], outputs={"answer": answer})


def _side(name: str, rented: list[tuple[str, str]], engine: str, numbers: Sequence[Field]) -> list[Any]:
    """The questions about one side, in the order of `_side_arguments`."""
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
    return [model, hardware, precision, runs, concurrency, rate, p50, p99]


def _side_arguments(values: Sequence[Value]) -> dict[str, object]:
    """The arguments of one side; an emptied number counts as not measured."""
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


def comparison_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """The comparison under the traffic of the tab, whose values come first, then those of the box; a refusal becomes a sentence."""
    of_tab = len(ask.QUESTION) + len(ask.COST)
    cost, own = values[:of_tab], values[of_tab:]
    effort, before, after = own[0], _side_arguments(own[1 : 1 + PER_SIDE]), _side_arguments(own[1 + PER_SIDE :])
    if not all(model or side["model"] or side["tokens_per_s"] for side in (before, after)):
        return {"answer": no_model_note("compare")}
    arguments = {**workload.recommend_arguments(cost), **workload.tab_arguments(cost, ask.COST)}
    usual = prompt_and_output_tokens(int(arguments["context_tokens"]))
    traffic = {name: arguments[name] for name in TRAFFIC}
    traffic |= {"prompt_tokens": arguments["prompt_tokens"] or usual[0], "output_tokens": arguments["output_tokens"] or usual[1]}
    try:
        answer = services[compare](model, before, after, **traffic, effort_usd=0 if effort is None else effort)
    except AdvisorError as refused:
        return {"answer": ask.format_error(refused, "No comparison.")}
    return {"answer": comparison_card(answer) + comparison_table(answer) + comparison_laws(answer)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CostView:
    """Inputs and outputs of the tab, and the box."""

    inputs: workload.Inputs
    outputs: Outputs
    compare: CompareView
    batch: BatchView


def build(services: Services) -> CostView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Sleep, platforms, replicas", ".controls")
            inputs = _inputs()
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            bill = gr.HTML(no_model_note("cost"), elem_id="bill")
            with gr.Accordion("How each number is computed", open=False, visible=False, elem_classes="quiet-accordion") as laws_box:
                laws = gr.HTML(elem_id="cost-laws")
            with gr.Column(elem_classes="chart", visible=False) as chart_box:
                head = gr.HTML()
                chart = gr.Plot(label="Bill per month", show_label=False)
                foot = gr.HTML(elem_id="bill-points")
            ways = gr.HTML(elem_id="ways")
            savings = gr.HTML(elem_id="savings")
            compare = build_compare(services)
            batch = BatchView()
    outputs = {
        "bill": bill, "chart_box": chart_box, "head": head, "chart": chart, "foot": foot, "ways": ways, "savings": savings,
        "laws_box": laws_box, "laws": laws,
    }  # fmt: skip
    return CostView(inputs=inputs, outputs=outputs, compare=compare, batch=batch)


def _inputs() -> workload.Inputs:
    q: workload.Inputs = {"along": gr.Radio(list(ask.AXIS_WORDS), value="requests", label="X axis", elem_classes="segments")}
    q["sleep"] = gr.Dropdown(list(ask.SLEEP_WORDS), value="900", label="Sleep after", info="Without requests; compared with always on.")
    platforms, value = list(ask.COMPARED_PLATFORM_WORDS), ask.COMPARED_PLATFORMS
    q["beside"] = gr.CheckboxGroup(platforms, value=value, label="Compare with", elem_classes="plain-choices")
    with gr.Accordion("A provider's price", open=False, elem_classes="quiet-accordion"):
        gr.HTML(hint_note(page_note("provider_price")))
        with gr.Row(elem_classes="pair"):
            q["in"], q["out"] = workload.number("in", step=0.01), workload.number("out", step=0.01)
    with gr.Accordion("Month, replicas, storage", open=False, elem_classes="quiet-accordion"):
        q["days"] = workload.number("days")
        q["replicas"] = workload.number("replicas", "0: as many as the traffic needs.")
        q["storage"] = workload.number("storage")
    return workload.in_order(ask.COST, q)


def cost_updates(services: Services, model: str, values: Sequence[Value]) -> Updates:
    """Ask for the bills and word them; a refusal becomes a sentence."""
    if not model:
        return {"bill": no_model_note("cost")}
    arguments = {**workload.recommend_arguments(values), **workload.tab_arguments(values, ask.COST)}
    arguments |= {"beside": arguments["beside"] or "spaces", "sleep_after_s": int(arguments["sleep_after_s"])}
    hardware = values[[field.argument for field in ask.QUESTION].index("hardware")]
    of_own = ""
    try:
        if owned := workload.own_hardware(services, values):
            own = services[recommend](model, **workload.recommend_arguments(values), **owned).own
            of_own, hardware = "" if own is None else own_bill_card(own), "auto"
        answer = services[outlook](model, **arguments, hardware=hardware)
    except AdvisorError as refused:
        return {"bill": of_own + ask.format_error(refused, "No bill.")}
    name = model_name(answer.model, model)
    acts = answer_actions(
        text=cost_text(answer, name),
        query=link_query("cost", model, (*ask.QUESTION, *ask.COST), values),
        files=(
            ("Download CSV", "cost.csv", "text/csv", ways_csv(answer.lines)),
            ("Download JSON", "cost.json", "application/json", answer_json(answer)),
        ),
    )
    return {
        "bill": of_own + cost_card(answer, name) + acts + prices_line(answer.prices),
        "chart_box": gr.update(visible=True),
        "head": bills_head(answer),
        "chart": draw_bills(answer),
        "foot": bills_foot(answer),
        "ways": ways_table(answer),
        "savings": savings_table(answer),
        "laws_box": gr.update(visible=True),
        "laws": cost_laws(answer),
    }


def wire(view: CostView, page: Wiring) -> None:
    """The bills, which ask more than the other answers (a provider's price, every way to save), and the comparison in its box."""
    inputs = [*page.question, *view.inputs.values()]
    page.follow("cost", cost_updates, inputs, view.outputs, "cost_changed")
    page.follow("compare", comparison_updates, [*inputs, *view.compare.inputs], view.compare.outputs, "compare_changed")
    batch_box.wire(view.batch, page)


TAB = Tab(
    name="cost",
    word="Cost",
    panels=(Panel("cost"), Panel("compare", "#compare")),
    build=build,
    wire=wire,
    boxes={"compare": COMPARE, "batch": batch_box.FIELDS},
    button_inputs=lambda view: view.batch.numbers,
    box_inputs=lambda view: view.compare.inputs,
)
