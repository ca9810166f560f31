"""The tab *Cost*: a month's bill, the other ways beside it along traffic or hours, and ways to save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import model_name, prices_line
from lib.present.cost_rows import bills_foot, bills_head, cost_card, cost_laws, cost_text, draw_bills, savings_table, ways_csv, ways_table
from lib.present.markup import answer_actions, hint_note
from lib.present.tables import answer_json
from lib.ui import compare_box, workload
from lib.ui import fields as ask
from lib.ui.compare_box import CompareView
from lib.ui.events import Ticks, follow
from lib.ui.fields import Value
from lib.ui.links import link_query
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from lib.service.app import Services

CHOOSE = "Name a model above to see what it costs."


@dataclass(frozen=True, slots=True, kw_only=True)
class CostInputs:
    """The questions, in the order of `lib.ui.fields.COST`."""

    axis: gr.Radio
    sleep: gr.Dropdown
    price_in: gr.Number
    price_out: gr.Number
    beside: gr.CheckboxGroup
    days: gr.Number
    replicas: gr.Number
    storage: gr.Number

    def all(self) -> list[Any]:
        """Every input, in order."""
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostView:
    """Inputs and outputs of the tab."""

    inputs: CostInputs
    bill: gr.HTML
    chart_box: gr.Column
    head: gr.HTML
    chart: gr.Plot
    foot: gr.HTML
    ways: gr.HTML
    savings: gr.HTML
    laws_box: gr.Accordion
    laws: gr.HTML
    compare: CompareView

    def outputs(self) -> list[Any]:
        """Where an answer goes, in the order of `CostMarkup.updates`."""
        return [self.bill, self.chart_box, self.head, self.chart, self.foot, self.ways, self.savings, self.laws_box, self.laws]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostMarkup:
    """An answer as markup and a figure; without a figure only the first is shown."""

    bill: str
    head: str = ""
    chart: Figure | None = None
    foot: str = ""
    ways: str = ""
    savings: str = ""
    laws: str = ""

    def updates(self) -> list[Any]:
        """One value for each of `CostView.outputs`."""
        there = gr.update(visible=self.chart is not None)
        return [self.bill, there, self.head, self.chart, self.foot, self.ways, self.savings, there, self.laws]


def build(services: Services) -> CostView:
    """The layout of the tab."""
    with gr.Row(elem_classes="two"):
        with gr.Column(scale=1, min_width=280, elem_classes="controls"):
            workload.fold_button("Sleep, platforms, replicas", ".controls")
            inputs = _inputs()
        with gr.Column(scale=3, min_width=320, elem_classes="answers"):
            bill = gr.HTML(hint_note(CHOOSE), elem_id="bill")
            with gr.Accordion("How each number is computed", open=False, visible=False, elem_classes="quiet-accordion") as laws_box:
                laws = gr.HTML(elem_id="cost-laws")
            with gr.Column(elem_classes="chart", visible=False) as chart_box:
                head = gr.HTML()
                chart = gr.Plot(label="Bill per month", show_label=False)
                foot = gr.HTML(elem_id="bill-points")
            ways = gr.HTML(elem_id="ways")
            savings = gr.HTML(elem_id="savings")
            compare = compare_box.build(services)
    return CostView(
        inputs=inputs,
        bill=bill,
        chart_box=chart_box,
        head=head,
        chart=chart,
        foot=foot,
        ways=ways,
        savings=savings,
        laws_box=laws_box,
        laws=laws,
        compare=compare,
    )


def _inputs() -> CostInputs:
    axis = gr.Radio(list(ask.AXIS_WORDS), value="requests", label="X axis", elem_classes="segments")
    sleep = gr.Dropdown(list(ask.SLEEP_WORDS), value="900", label="Sleep after", info="Without requests; compared with always on.")
    beside = gr.CheckboxGroup(
        list(ask.COMPARED_PLATFORM_WORDS), value=ask.COMPARED_PLATFORMS, label="Compare with", elem_classes="plain-choices"
    )
    with gr.Accordion("A provider's price", open=False, elem_classes="quiet-accordion"):
        gr.HTML(hint_note("USD per million tokens. At 0 the Hub is asked who serves the model, and for how much."))
        with gr.Row(elem_classes="pair"):
            price_in, price_out = workload.number("in", step=0.01), workload.number("out", step=0.01)
    with gr.Accordion("Month, replicas, storage", open=False, elem_classes="quiet-accordion"):
        days = workload.number("days")
        replicas = workload.number("replicas", "0: as many as the traffic needs.")
        storage = workload.number("storage")
    return CostInputs(
        axis=axis, sleep=sleep, price_in=price_in, price_out=price_out, beside=beside, days=days, replicas=replicas, storage=storage
    )


def cost_markup(services: Services, model: str, values: Sequence[Value]) -> CostMarkup:
    """Ask for the bills and word them; a refusal becomes a sentence."""
    if not model:
        return CostMarkup(bill=hint_note(CHOOSE))
    arguments = {**workload.recommend_arguments(values), **workload.tab_arguments(values, ask.COST)}
    arguments |= {"beside": arguments["beside"] or "spaces", "sleep_after_s": int(arguments["sleep_after_s"])}
    hardware = values[[field.argument for field in ask.QUESTION].index("hardware")]
    try:
        answer = services.outlook(model, **arguments, hardware=hardware)
    except AdvisorError as refused:
        return CostMarkup(bill=ask.word_refusal(refused, "No bill."))
    name = model_name(answer["model"], model)
    acts = answer_actions(
        text=cost_text(answer, name),
        query=link_query("cost", model, (*ask.QUESTION, *ask.COST), values),
        files=(
            ("Download CSV", "cost.csv", "text/csv", ways_csv(answer["lines"])),
            ("Download JSON", "cost.json", "application/json", answer_json(answer)),
        ),
    )
    return CostMarkup(
        bill=cost_card(answer, name) + acts + prices_line(answer["prices"]),
        head=bills_head(answer),
        chart=draw_bills(answer),
        foot=bills_foot(answer),
        ways=ways_table(answer),
        savings=savings_table(answer),
        laws=cost_laws(answer),
    )


def wire(view: CostView, services: Services, model: ModelReference, question: Sequence[Any], ticks: Ticks) -> None:
    """The bills, which ask more than the other answers (a provider's price, every way to save), and the comparison in its box."""

    def answer(ref: str, *values: Value) -> list[Any]:
        return cost_markup(services, ref, values).updates()

    inputs = [*question, *view.inputs.all()]
    follow(ticks["cost"], answer, [model.text, *inputs], view.outputs(), "cost_changed")
    compare_box.wire(view.compare, services, model, inputs, ticks["compare"])
