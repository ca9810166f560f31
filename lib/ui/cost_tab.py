"""The tab *Cost*: a month's bill, other ways to run it along traffic or hours, and ways to save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from lib.errors import AdvisorError
from lib.present import cost_rows
from lib.present.cards import model_name, prices_line
from lib.present.live_cards import progress_line
from lib.present.markup import answer_actions, hint_note, no_model_note
from lib.present.tables import answer_json
from lib.present.wording import page_note
from lib.service.app import Services
from lib.service.outlook import PROVIDERS, outlook
from lib.service.recommend import recommend
from lib.ui import batch_box, workload
from lib.ui import fields as ask
from lib.ui.batch_box import BatchView
from lib.ui.events import Outputs, Panel, Tab, Updates, Wiring
from lib.ui.fields import Value
from lib.ui.workload import link_query


@dataclass(frozen=True, slots=True, kw_only=True)
class CostView:
    """Inputs and outputs of the tab, and the box about a pile of work."""

    inputs: workload.Inputs
    outputs: Outputs
    batch: BatchView


def build(_: Services) -> CostView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Sleep, platforms, replicas", ".controls")
            inputs = _inputs()
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            bill = gr.HTML(progress_line(page_note("answering")), elem_id="bill")
            with gr.Accordion("How each number is computed", open=False, visible=False, elem_classes="quiet-accordion") as laws_box:
                laws = gr.HTML(elem_id="cost-laws")
            with gr.Column(elem_classes="chart", visible=False) as chart_box:
                head = gr.HTML()
                chart = gr.Plot(label="Bill per month", show_label=False)
                foot = gr.HTML(elem_id="bill-points")
            ways = gr.HTML(elem_id="ways")
            savings = gr.HTML(elem_id="savings")
            batch = BatchView()
    outputs = {
        "bill": bill, "chart_box": chart_box, "head": head, "chart": chart, "foot": foot, "ways": ways, "savings": savings,
        "laws_box": laws_box, "laws": laws,
    }  # fmt: skip
    return CostView(inputs=inputs, outputs=outputs, batch=batch)


def _inputs() -> workload.Inputs:
    q: workload.Inputs = {"along": gr.Radio(list(ask.AXIS_WORDS), value="requests", label="Draw by", elem_classes="segments")}
    q["sleep"] = gr.Dropdown(list(ask.SLEEP_WORDS), value="900", label="Sleep after", info="Without requests; compared with always on.")
    platforms, value = list(ask.COMPARED_PLATFORM_WORDS), ask.COMPARED_PLATFORMS
    q["beside"] = gr.CheckboxGroup(platforms, value=value, label="Compare with", elem_classes="plain-choices")
    with gr.Accordion("A provider's price", open=False, elem_classes="quiet-accordion"):
        gr.HTML(hint_note(page_note("provider_price")))
        q["in"], q["out"] = workload.number("in", step=0.01), workload.number("out", step=0.01)
    with gr.Accordion("Month, replicas, storage", open=False, elem_classes="quiet-accordion"):
        q["days"] = workload.number("days")
        q["replicas"] = workload.number("replicas", "0: as many as the traffic needs")
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
            of_own, hardware = "" if own is None else cost_rows.own_bill_card(own), "auto"
        answer = services[outlook](model, **arguments, hardware=hardware)
    except AdvisorError as refused:
        return {"bill": of_own + ask.format_error(refused, "No bill.")}
    name = model_name(answer.model, model)
    acts = answer_actions(
        text=cost_rows.cost_text(answer, name),
        query=link_query("cost", model, (*ask.QUESTION, *ask.COST), values),
        files=(
            ("Download CSV", "cost.csv", "text/csv", cost_rows.ways_csv(answer.lines)),
            ("Download JSON", "cost.json", "application/json", answer_json(answer)),
        ),
    )
    return {
        "bill": of_own + cost_rows.cost_card(answer, name) + acts + prices_line(answer.prices),
        "chart_box": gr.update(visible=True),
        "head": cost_rows.bills_head(answer),
        "chart": cost_rows.draw_bills(answer),
        "foot": cost_rows.bills_foot(answer),
        "ways": cost_rows.ways_table(answer) + (cost_rows.provider_note(answer) if PROVIDERS in arguments["beside"] else ""),
        "savings": cost_rows.savings_table(answer),
        "laws_box": gr.update(visible=True),
        "laws": cost_rows.cost_laws(answer),
    }


def wire(view: CostView, page: Wiring) -> None:
    """The bills, which ask more than the other answers: a provider's price, every way to save."""
    page.follow("cost", cost_updates, [*page.question, *view.inputs.values()], view.outputs, "cost_changed")
    batch_box.wire(view.batch, page)


TAB = Tab(
    name="cost",
    word="Cost",
    panels=(Panel("cost"),),
    build=build,
    wire=wire,
    boxes={"batch": batch_box.FIELDS},
)
