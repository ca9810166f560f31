"""The tab *Cost*: a month's bill, the other ways beside it along traffic or hours, and ways to save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import gradio as gr

from lib.errors import AdvisorError
from lib.present.cards import model_name, prices_line
from lib.present.cost_charts import bills_foot, bills_head, draw_bills
from lib.present.cost_rows import cost_card, cost_laws, cost_text, savings_table, ways_csv, ways_table
from lib.present.markup import answer_actions, hint_note, refusal_note
from lib.present.tables import answer_json
from lib.ui import compare_box
from lib.ui import fields as ask
from lib.ui.compare_box import CompareView
from lib.ui.events import changes, follow
from lib.ui.fields import Value, arguments, link_query
from lib.ui.model_field import ModelReference

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]

    from lib.service.app import Services

CHOOSE = "Name a model above to see what it costs."


@dataclass(frozen=True, slots=True, kw_only=True)
class CostInputs:
    """The questions, in the order of `lib.ui.fields.COST`."""

    hardware: gr.Dropdown
    axis: gr.Radio
    requests: gr.Number
    hours: gr.Slider
    sleep: gr.Dropdown
    prompt: gr.Number
    output: gr.Number
    price_in: gr.Number
    price_out: gr.Number
    platforms: gr.CheckboxGroup
    account: gr.Dropdown
    days: gr.Number
    replicas: gr.Number
    storage: gr.Number
    at_once: gr.Number

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
            inputs = _inputs(services)
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


def _inputs(services: Services) -> CostInputs:
    choices = [("The best Space for the model", "auto"), *ask.hardware_words(services.catalog())]
    hardware = gr.Dropdown(choices, value="auto", label="Hardware", info="Type to search: l4, a100, v6e…")
    axis = gr.Radio(list(ask.AXIS_WORDS), value="requests", label="Draw bills along", elem_classes="segments")
    requests = gr.Number(100, label="Requests a day", minimum=0, precision=0)
    hours = gr.Slider(0, 24, value=24, step=0.5, buttons=[], label="Hours a day", info="When it runs at most and requests arrive.")
    sleep = gr.Dropdown(list(ask.SLEEP_WORDS), value="900", label="Sleep after", info="Time without requests; a wake costs start-up.")
    with gr.Row(elem_classes="pair"):
        prompt = gr.Number(512, label="Prompt tokens", minimum=1, precision=0, min_width=130)
        output = gr.Number(256, label="Answer tokens", minimum=0, precision=0, min_width=130)
    at_once = gr.Number(1, label="Requests at a time", info="That each replica serves.", minimum=1, maximum=ask.MOST_AT_ONCE, precision=0)
    with gr.Accordion("A provider's price", open=False, elem_classes="quiet-accordion"):
        gr.HTML(hint_note("USD per million tokens. At 0 the Hub is asked who serves the model, and for how much."))
        with gr.Row(elem_classes="pair"):
            price_in = gr.Number(0, label="Prompt", minimum=0, step=0.01, min_width=130)
            price_out = gr.Number(0, label="Answer", minimum=0, step=0.01, min_width=130)
    with gr.Accordion("What to draw beside it", open=False, elem_classes="quiet-accordion"):
        platforms = gr.CheckboxGroup(list(ask.BESIDE_WORDS), value=ask.BESIDE, label="Platforms", elem_classes="plain-choices")
    with gr.Accordion("Account, month, replicas, storage", open=False, elem_classes="quiet-accordion"):
        account = gr.Dropdown(list(ask.ACCOUNT_WORDS), value="free", label="Account", info="That pays; on ZeroGPU that of the visitors.")
        days = gr.Number(30, label="Days a month", minimum=0, maximum=31)
        replicas = gr.Number(1, label="Replicas", minimum=1, precision=0)
        storage = gr.Number(0, label="Private storage, GB", minimum=0)
    return CostInputs(
        hardware=hardware,
        axis=axis,
        requests=requests,
        hours=hours,
        sleep=sleep,
        prompt=prompt,
        output=output,
        price_in=price_in,
        price_out=price_out,
        platforms=platforms,
        account=account,
        days=days,
        replicas=replicas,
        storage=storage,
        at_once=at_once,
    )


def cost_markup(services: Services, model: str, values: Sequence[Value]) -> CostMarkup:
    """Ask for the bills and word them; a refusal becomes a sentence."""
    if not model:
        return CostMarkup(bill=hint_note(CHOOSE))
    asked = arguments(ask.COST, values)
    asked["platforms"] = asked["platforms"] or "spaces"
    try:
        answer = services.outlook(model, **{**asked, "sleep_after_s": int(asked["sleep_after_s"])})
    except AdvisorError as refused:
        return CostMarkup(bill=refusal_note(str(refused)))
    name = model_name(answer["model"], model)
    acts = answer_actions(
        text=cost_text(answer, name),
        query=link_query("cost", model, ask.COST, values),
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


def wire(view: CostView, services: Services, model: ModelReference) -> None:
    """Every question answers at once when it changes; while one answer is under way only the last change waits."""

    def answer(ref: str, *values: Value) -> list[Any]:
        return cost_markup(services, ref, values).updates()

    follow(changes(view.inputs.all()), answer, [model.text, *view.inputs.all()], view.outputs(), "cost_changed")
    compare_box.wire(view.compare, services, model, view.inputs.all())
